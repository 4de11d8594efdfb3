//! Which device a training takes whose device nobody has named.
//!
//! A card with memory of its own; else a GPU of the processor, if a step on it takes a tenth less time than on the processor,
//! which a measurement of a second says; never a software device, and none that fails its self-test. Other jobs than trainings
//! are over before such questions are worth their time: for them it is the processor.

use gausset_gpu::{Automatic, GpuInfo};

/// What is to be asked of a machine.
pub(crate) trait Machine {
    /// Its adapters, in the order of their numbers.
    fn adapters(&mut self) -> Vec<GpuInfo>;
    /// What is wrong with one.
    fn fault(&mut self, number: usize) -> Option<String>;
    /// Milliseconds of a step on the processor; `None` where it cannot be told.
    fn processor_ms(&mut self) -> Option<f64>;
    /// Milliseconds of a step on an adapter.
    fn adapter_ms(&mut self, number: usize) -> Option<f64>;
}

/// What is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The adapter of this number; `None` = the processor.
    pub(crate) adapter: Option<usize>,
    /// Why, in a line; `None` where there was no choice.
    pub(crate) reason: Option<String>,
}

/// Chooses.
pub(crate) fn choose(machine: &mut dyn Machine) -> Choice {
    let mut left: Vec<(usize, GpuInfo)> = machine.adapters().into_iter().enumerate().collect();
    let mut faults = Vec::new();
    loop {
        let infos: Vec<GpuInfo> = left.iter().map(|(_, info)| info.clone()).collect();
        let automatic = Automatic::among(&infos);
        let place = match automatic {
            Automatic::Processor => {
                // What is wrong with each says its name.
                let reason =
                    (!faults.is_empty()).then(|| format!("the processor, because {}", faults.join("; ")));
                return Choice { adapter: None, reason };
            }
            Automatic::Card(place) | Automatic::Measured(place) => place,
        };
        let (number, info) = left[place].clone();
        if let Some(fault) = machine.fault(number) {
            faults.push(fault);
            left.remove(place);
            continue;
        }
        if let Automatic::Card(_) = automatic {
            let reason = Some(format!("{}, a card with memory of its own", info.name));
            return Choice { adapter: Some(number), reason };
        }
        let [processor, adapter] = [machine.processor_ms(), machine.adapter_ms(number)];
        let taken = processor.and_then(|processor| automatic.decided(processor, adapter));
        let told = |ms: Option<f64>| ms.map_or("an unknown time".to_owned(), |ms| format!("{ms:.2} ms"));
        let times =
            format!("a step takes {} on {}, {} on the processor", told(adapter), info.name, told(processor));
        let name = if taken.is_some() { &info.name } else { "the processor" };
        return Choice { adapter: taken.map(|_| number), reason: Some(format!("{name}: {times}")) };
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
        /// What was asked, in order: adapters that were tried, and `99` for a measurement.
        asked: Vec<usize>,
    }

    impl Machine for Fake {
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
            self.asked.push(number);
            self.faulty.contains(&number).then(|| format!("GPU {number}: self-test: loss"))
        }

        fn processor_ms(&mut self) -> Option<f64> {
            self.asked.push(99);
            self.processor_ms
        }

        fn adapter_ms(&mut self, _: usize) -> Option<f64> {
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
            assert_eq!(choose(&mut machine), Choice::default());
            assert!(machine.asked.is_empty());
        }
    }

    #[test]
    fn the_first_card_that_passes_its_self_test_is_taken_without_a_measurement() {
        let mut machine = fake(&[Software, Discrete, Discrete], &[1]);
        let Choice { adapter, reason } = choose(&mut machine);
        assert_eq!((adapter, machine.asked), (Some(2), vec![1, 2]));
        assert_eq!(reason.as_deref(), Some("GPU 2, a card with memory of its own"));
        let all = choose(&mut fake(&[Discrete, Discrete], &[0, 1]));
        let reason = "the processor, because GPU 0: self-test: loss; GPU 1: self-test: loss";
        assert_eq!(all, Choice { adapter: None, reason: Some(reason.to_owned()) });
    }

    #[test]
    fn a_gpu_of_the_processor_is_taken_where_it_is_faster() {
        let of = |processor_ms: Option<f64>, adapter_ms: Option<f64>| {
            let mut machine = Fake { processor_ms, adapter_ms, ..fake(&[Discrete, Integrated], &[0]) };
            let choice = choose(&mut machine);
            assert_eq!(machine.asked, [0, 1, 99]);
            (choice.adapter, choice.reason.unwrap_or_default())
        };
        let (taken, reason) = of(Some(10.0), Some(4.0));
        assert_eq!(taken, Some(1));
        assert_eq!(reason, "GPU 1: a step takes 4.00 ms on GPU 1, 10.00 ms on the processor");
        let (taken, reason) = of(Some(10.0), Some(9.5));
        assert_eq!(taken, None);
        assert!(reason.starts_with("the processor: a step takes 9.50 ms on GPU 1"), "{reason}");
        assert_eq!(of(Some(10.0), None).0, None);
        assert_eq!(of(None, Some(1.0)).0, None);
    }
}
