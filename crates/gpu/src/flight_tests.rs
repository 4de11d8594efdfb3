//! The protocol with a device in plain Rust: whatever memory it lacks, whatever it refuses and however slow it is, the
//! final state equals that of a device with ample memory, and every step and rule is done exactly once, or not at all
//! after a failure.

use std::collections::VecDeque;

use gausset_core::engine::EngineError;

use crate::in_flight::{IN_FLIGHT, InFlight, Status, UnitQueue};
use crate::record::{halt, status};

/// A unit of the model.
#[derive(Clone, Copy, Debug)]
struct Work {
    name: u32,
    /// Whether its loss is not finite.
    is_bad: bool,
    /// Whether it is a rule, which changes the number of splats.
    is_rule: bool,
}

/// The result of a chain of units, which determines the need of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    hash: u64,
    splats: u32,
}

impl State {
    const FIRST: Self = Self { hash: 1, splats: 1 };

    /// Entries of a step, or splats that a rule leaves.
    fn need(self, work: Work, needs: u32) -> u32 {
        let hash = mix(self.hash ^ u64::from(self.splats) << 40, u64::from(work.name));
        (hash % u64::from(needs)) as u32
    }

    fn after(self, work: Work, need: u32) -> Self {
        let hash = mix(self.hash, u64::from(need) << 32 | u64::from(work.name));
        Self { hash, splats: if work.is_rule { need } else { self.splats } }
    }
}

/// A device whose units form a chain: the need and result of each depend on the state left by the ones before it.
#[derive(Debug)]
struct Model {
    state: State,
    /// Capacity for entries and for splats.
    capacity: u32,
    room: u32,
    /// Maximum capacity.
    most: u32,
    /// Largest need of a unit.
    needs: u32,
    is_halted: bool,
    status: Status,
    /// Submitted units that have not run, in order.
    queue: VecDeque<(Work, u32, bool)>,
    /// Statuses that have not been taken.
    statuses: VecDeque<Status>,
    done: Vec<u32>,
    random: u64,
    replays: u32,
    most_under_way: usize,
}

fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Model {
    fn random(&mut self, below: u32) -> u32 {
        self.random = mix(self.random, 1);
        (self.random >> 33) as u32 % below
    }

    /// Runs the next unit of the queue like the kernels.
    fn run_one(&mut self) {
        let Some((work, number, lifts)) = self.queue.pop_front() else { return };
        if lifts {
            self.is_halted = false;
        }
        if !self.is_halted {
            let need = self.state.need(work, self.needs);
            self.status = [0; status::WORDS];
            self.status[status::NUMBER] = number;
            self.status[if work.is_rule { status::SPLATS } else { status::ENTRIES }] = need;
            if work.is_rule && need > self.room {
                self.status[status::HALT] = halt::SPLATS;
            } else if !work.is_rule && need > self.capacity {
                self.status[status::HALT] = halt::CAPACITY;
            } else if work.is_bad {
                self.status[status::HALT] = halt::LOSS;
            } else {
                self.state = self.state.after(work, need);
            }
            self.is_halted = self.status[status::HALT] != halt::NOT;
        }
        self.statuses.push_back(self.status);
    }
}

impl UnitQueue for Model {
    type Unit = Work;

    fn submit(&mut self, unit: &Work, number: u32, lifts: bool) -> Result<(), EngineError> {
        self.queue.push_back((*unit, number, lifts));
        self.most_under_way = self.most_under_way.max(self.queue.len() + self.statuses.len());
        // The device is somewhere between idle and far behind.
        for _ in 0..self.random(3) {
            self.run_one();
        }
        Ok(())
    }

    fn take(&mut self, wait: bool) -> Result<Option<Status>, EngineError> {
        if self.random(3) == 0 || (wait && self.statuses.is_empty()) {
            self.run_one();
        }
        Ok(self.statuses.pop_front())
    }

    fn enlarge_buffers(&mut self, unit: &Work, status: &Status) -> Result<(), EngineError> {
        self.replays += 1;
        let is_splats = status[status::HALT] == halt::SPLATS;
        assert_eq!(is_splats, unit.is_rule);
        let needed = status[if is_splats { status::SPLATS } else { status::ENTRIES }];
        let room = if is_splats { &mut self.room } else { &mut self.capacity };
        assert!(needed > *room && self.queue.is_empty() && self.statuses.is_empty());
        if needed > self.most {
            let (needed, limit) = (u64::from(needed), u64::from(self.most));
            return Err(EngineError::OutOfMemory { what: "the model".to_owned(), needed, limit });
        }
        *room = (needed + needed / 2).min(self.most);
        Ok(())
    }

    fn on_done(&mut self, unit: &Work, status: &Status) {
        assert_eq!(status[status::HALT], halt::NOT);
        self.done.push(unit.name);
    }

    fn failure(&self, unit: &Work, _status: &Status) -> EngineError {
        EngineError::NonFiniteLoss { step: u64::from(unit.name), view: String::new(), loss: f64::NAN }
    }
}

fn model(random: u64, capacity: u32, most: u32, needs: u32) -> Model {
    Model {
        state: State::FIRST,
        capacity,
        room: capacity,
        most,
        needs,
        is_halted: true,
        status: [0; status::WORDS],
        queue: VecDeque::new(),
        statuses: VecDeque::new(),
        done: Vec::new(),
        random,
        replays: 0,
        most_under_way: 0,
    }
}

/// Runs the steps one after the other with ample capacity; returns those that are done, and the final state.
fn in_order(steps: &[Work], most: u32, needs: u32) -> (Vec<u32>, State) {
    let mut state = State::FIRST;
    let mut done = Vec::new();
    for work in steps {
        let need = state.need(*work, needs);
        if need > most || work.is_bad {
            break;
        }
        state = state.after(*work, need);
        done.push(work.name);
    }
    (done, state)
}

#[test]
fn no_step_or_rule_is_lost_or_done_twice_whatever_the_device_lacks() {
    let mut replays = 0;
    let mut failures = 0;
    for case in 0..4000u64 {
        let mut source = model(mix(case, 77), 0, 0, 1);
        let most_in_flight = 1 + source.random(IN_FLIGHT as u32) as usize;
        let needs = 1 + source.random(1000);
        let capacity = source.random(needs + 1);
        // One in three refuses to grow beyond some size.
        let most = if source.random(3) == 0 { capacity + source.random(needs) } else { u32::MAX };
        let bad_at = source.random(60);
        let steps: Vec<Work> = (0..40)
            .map(|name| Work {
                name,
                is_bad: name == bad_at,
                is_rule: mix(case, u64::from(name)).is_multiple_of(3),
            })
            .collect();
        let mut device = model(case, capacity, most, needs);
        let mut flight = InFlight::new(most_in_flight);
        let mut outcome = Ok(());
        for &work in &steps {
            outcome = flight.submit(&mut device, work);
            if outcome.is_ok() && device.random(4) == 0 {
                outcome = flight.collect(&mut device);
            }
            if outcome.is_ok() && device.random(16) == 0 {
                outcome = flight.drain(&mut device);
            }
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_ok() {
            outcome = flight.drain(&mut device);
        }
        let (done, state) = in_order(&steps, most, needs);
        assert_eq!((&device.done, device.state), (&done, state), "case {case}");
        assert_eq!(outcome.is_ok(), done.len() == steps.len(), "case {case}");
        assert!(flight.len() == 0 && device.most_under_way <= most_in_flight, "case {case}");
        replays += device.replays;
        failures += u32::from(outcome.is_err());
        // After a failure the next unit lifts the halt.
        if outcome.is_err() {
            device.most = u32::MAX;
            device.done.clear();
            flight.submit(&mut device, Work { name: 99, is_bad: false, is_rule: false }).expect("submitted");
            flight.drain(&mut device).expect("done");
            assert_eq!(device.done, [99], "case {case}");
        }
    }
    assert!(replays > 1000 && failures > 1000, "{replays} {failures}");
}

#[test]
fn a_status_of_another_unit_is_an_error() {
    let mut device = model(1, 10, 10, 1);
    let mut flight = InFlight::new(2);
    flight.submit(&mut device, Work { name: 0, is_bad: false, is_rule: true }).expect("submitted");
    while device.statuses.is_empty() {
        device.run_one();
    }
    device.statuses[0][status::NUMBER] = 7;
    let failed = flight.drain(&mut device);
    assert!(matches!(failed, Err(EngineError::DeviceFailed(_))), "{failed:?}");
}
