//! Device selection for trainings with `--device auto`.
//!
//! In this order: a discrete GPU that passes the self-test; an integrated GPU if a one-second benchmark shows that a
//! step on it takes a tenth less time than on the CPU; otherwise the CPU. Software renderers are never chosen. Other
//! jobs always use the CPU: they are too short for a benchmark to pay off.

use gausset_gpu::{AutomaticDevice, GpuInfo};

/// The devices of a machine and their measurements; a trait, so that tests can replace it.
pub(crate) trait DeviceProbe {
    /// Its adapters. The index of an adapter is its number.
    fn adapters(&mut self) -> Vec<GpuInfo>;
    /// Why an adapter cannot be used; `None` if it passes the self-test.
    fn fault(&mut self, number: usize) -> Option<String>;
    /// Milliseconds per step on the CPU; `None` if it cannot be measured.
    fn cpu_step_ms(&mut self) -> Option<f64>;
    /// Milliseconds per step on an adapter; `None` if it cannot be measured.
    fn adapter_step_ms(&mut self, number: usize) -> Option<f64>;
}

/// The chosen device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceChoice {
    /// Number of the chosen adapter; `None` = the CPU.
    pub(crate) adapter: Option<usize>,
    /// The reason in one line; `None` if there was no alternative.
    pub(crate) reason: Option<String>,
}

/// Chooses the device. An adapter that fails its self-test is removed and the choice repeated among the others.
pub(crate) fn choose_device(machine: &mut dyn DeviceProbe) -> DeviceChoice {
    let mut left: Vec<(usize, GpuInfo)> = machine.adapters().into_iter().enumerate().collect();
    let mut faults = Vec::new();
    loop {
        let infos: Vec<GpuInfo> = left.iter().map(|(_, info)| info.clone()).collect();
        let automatic = AutomaticDevice::select_from(&infos);
        let place = match automatic {
            AutomaticDevice::Cpu => {
                // Each fault begins with the name of its adapter.
                let reason = (!faults.is_empty()).then(|| format!("the CPU, because {}", faults.join("; ")));
                return DeviceChoice { adapter: None, reason };
            }
            AutomaticDevice::DiscreteGpu(place) | AutomaticDevice::Benchmarked(place) => place,
        };
        let (number, info) = left[place].clone();
        if let Some(fault) = machine.fault(number) {
            faults.push(fault);
            left.remove(place);
            continue;
        }
        if let AutomaticDevice::DiscreteGpu(_) = automatic {
            let reason = Some(format!("{}, a discrete GPU", info.name));
            return DeviceChoice { adapter: Some(number), reason };
        }
        let [processor, adapter] = [machine.cpu_step_ms(), machine.adapter_step_ms(number)];
        let taken = processor.and_then(|processor| automatic.after_benchmark(processor, adapter));
        let told = |ms: Option<f64>| ms.map_or("an unknown time".to_owned(), |ms| format!("{ms:.2} ms"));
        let times =
            format!("a step takes {} on {}, {} on the CPU", told(adapter), info.name, told(processor));
        let name = if taken.is_some() { &info.name } else { "the CPU" };
        return DeviceChoice { adapter: taken.map(|_| number), reason: Some(format!("{name}: {times}")) };
    }
}

#[cfg(test)]
mod tests {
    use gausset_gpu::AdapterKind;

    use super::*;

    #[derive(Default)]
    struct Fake {
        kinds: Vec<AdapterKind>,
        faulty: Vec<usize>,
        processor_ms: Option<f64>,
        adapter_ms: Option<f64>,
        /// Calls in order: numbers of self-tested adapters, and `99` for a CPU measurement.
        calls: Vec<usize>,
    }

    impl DeviceProbe for Fake {
        fn adapters(&mut self) -> Vec<GpuInfo> {
            let info = |(number, &kind): (usize, &AdapterKind)| GpuInfo {
                name: format!("GPU {number}"),
                kind,
                backend: "Vulkan".to_owned(),
                driver: String::new(),
                memory_bytes: None,
            };
            self.kinds.iter().enumerate().map(info).collect()
        }

        fn fault(&mut self, number: usize) -> Option<String> {
            self.calls.push(number);
            self.faulty.contains(&number).then(|| format!("GPU {number}: self-test: loss"))
        }

        fn cpu_step_ms(&mut self) -> Option<f64> {
            self.calls.push(99);
            self.processor_ms
        }

        fn adapter_step_ms(&mut self, _: usize) -> Option<f64> {
            self.adapter_ms
        }
    }

    use AdapterKind::{Discrete, Integrated, Other, Software};

    fn fake(kinds: &[AdapterKind], faulty: &[usize]) -> Fake {
        Fake { kinds: kinds.to_vec(), faulty: faulty.to_vec(), ..Fake::default() }
    }

    #[test]
    fn without_hardware_it_is_the_processor_and_nothing_is_tried() {
        for kinds in [&[][..], &[Software], &[Software, Other]] {
            let mut machine = fake(kinds, &[]);
            assert_eq!(choose_device(&mut machine), DeviceChoice::default());
            assert!(machine.calls.is_empty());
        }
    }

    #[test]
    fn the_first_card_that_passes_its_self_test_is_taken_without_a_measurement() {
        let mut machine = fake(&[Software, Discrete, Discrete], &[1]);
        let DeviceChoice { adapter, reason } = choose_device(&mut machine);
        assert_eq!((adapter, machine.calls), (Some(2), vec![1, 2]));
        assert_eq!(reason.as_deref(), Some("GPU 2, a discrete GPU"));
        let all = choose_device(&mut fake(&[Discrete, Discrete], &[0, 1]));
        let reason = "the CPU, because GPU 0: self-test: loss; GPU 1: self-test: loss";
        assert_eq!(all, DeviceChoice { adapter: None, reason: Some(reason.to_owned()) });
    }

    #[test]
    fn a_gpu_of_the_processor_is_taken_where_it_is_faster() {
        let of = |processor_ms: Option<f64>, adapter_ms: Option<f64>| {
            let mut machine = Fake { processor_ms, adapter_ms, ..fake(&[Discrete, Integrated], &[0]) };
            let choice = choose_device(&mut machine);
            assert_eq!(machine.calls, [0, 1, 99]);
            (choice.adapter, choice.reason.unwrap_or_default())
        };
        let (taken, reason) = of(Some(10.0), Some(4.0));
        assert_eq!(taken, Some(1));
        assert_eq!(reason, "GPU 1: a step takes 4.00 ms on GPU 1, 10.00 ms on the CPU");
        let (taken, reason) = of(Some(10.0), Some(9.5));
        assert_eq!(taken, None);
        assert!(reason.starts_with("the CPU: a step takes 9.50 ms on GPU 1"), "{reason}");
        assert_eq!(of(Some(10.0), None).0, None);
        assert_eq!(of(None, Some(1.0)).0, None);
    }
}
