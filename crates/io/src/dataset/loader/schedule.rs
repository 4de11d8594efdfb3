//! Scheduling of the loader, without threads or images: what to load next, what to evict, who waits.
//!
//! ```text
//!            start                 finish
//!   Empty ──────────▶ Making ──────────────▶ Ready | Failed
//!     ▲                 │ abandon               │
//!     └─────────────────┴───────────────────────┘ evicted
//! ```
//! Three rules guarantee progress for any order of thread execution:
//! 1. Callers that need budget get it in the order of arrival, and while one of them waits, the background starts no
//!    loads. So the number of loading images only decreases until the budget suffices.
//! 2. An image that a caller waits for is not evicted until that caller has it. So no caller waits twice for an image.
//! 3. Images are evicted only if that frees enough budget. So no eviction is useless.
//!
//! Bytes stay within the budget, which is at least the need of the largest image.

use std::collections::BTreeMap;

/// State of an image.
#[derive(Debug)]
pub(super) enum ImageState<P, E> {
    /// Not loaded.
    Empty,
    /// A thread is loading it.
    Making,
    /// Loaded, and may be evicted.
    Ready { picture: P, bytes: usize, last_use: u64 },
    /// It cannot be loaded; permanent.
    Failed(E),
}

/// A caller that waits for an image; ordered by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Next action of a caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallerAction<P, E> {
    /// Return the image or the error. The ticket is consumed.
    Take(Result<P, E>),
    /// Load the image; its budget is reserved. The ticket is consumed.
    Make,
    /// Wait until [`Schedule::changes`] has changed, then call [`Schedule::next_action`] again.
    Wait,
}

/// See the module documentation. `P` is an image, `E` the reason why it cannot be loaded.
#[derive(Debug)]
pub(super) struct Schedule<P, E> {
    budget: usize,
    /// Bytes that each image needs while loading; at least as many as when it is ready.
    needs: Vec<usize>,
    slots: Vec<ImageState<P, E>>,
    /// Waiting callers in the order of arrival, with the image that each wants.
    waiting: BTreeMap<Ticket, usize>,
    /// Images needed next, soonest first.
    hints: Vec<usize>,
    clock: u64,
    bytes: usize,
    changes: u64,
}

impl<P: Clone, E: Clone> Schedule<P, E> {
    /// All images are empty. `needs` are the bytes for loading each; the budget is raised to their maximum.
    pub(super) fn new(budget: usize, needs: Vec<usize>) -> Self {
        Self {
            budget: needs.iter().fold(budget, |budget, &need| budget.max(need)),
            slots: needs.iter().map(|_| ImageState::Empty).collect(),
            needs,
            waiting: BTreeMap::new(),
            hints: Vec::new(),
            clock: 0,
            bytes: 0,
            changes: 0,
        }
    }

    /// Byte budget.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes of ready and loading images.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of ready images.
    pub(super) fn ready(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, ImageState::Ready { .. })).count()
    }

    /// Counter that grows whenever a waiting or idle thread should check again.
    pub(super) fn change_count(&self) -> u64 {
        self.changes
    }

    /// Sets the images that will be needed next, soonest first, and replaces earlier hints.
    pub(super) fn set_hints(&mut self, hints: impl IntoIterator<Item = usize>) {
        self.hints.clear();
        self.hints.extend(hints);
        self.changes += 1;
    }

    /// Registers a caller that wants an image.
    pub(super) fn register(&mut self, index: usize) -> Ticket {
        self.clock += 1;
        // One hinted image fewer to keep: the next one may fit now.
        self.hints.retain(|&hint| hint != index);
        let ticket = Ticket(self.clock);
        self.waiting.insert(ticket, index);
        self.changes += 1;
        ticket
    }

    /// Next action of the caller with this ticket.
    pub(super) fn next_action(&mut self, ticket: Ticket) -> CallerAction<P, E> {
        let index = self.waiting[&ticket];
        self.clock += 1;
        let turn = match &mut self.slots[index] {
            ImageState::Ready { picture, last_use, .. } => {
                *last_use = self.clock;
                CallerAction::Take(Ok(picture.clone()))
            }
            ImageState::Failed(reason) => CallerAction::Take(Err(reason.clone())),
            ImageState::Making => return CallerAction::Wait,
            ImageState::Empty => {
                let is_first = self.first_waiting_for_budget() == Some(ticket);
                if !is_first || !self.evict_for(index, Urgency::Urgent) {
                    return CallerAction::Wait;
                }
                self.start(index);
                CallerAction::Make
            }
        };
        self.waiting.remove(&ticket);
        self.changes += 1;
        turn
    }

    /// The image that a background thread should load now, if any.
    pub(super) fn next_in_background(&mut self) -> Option<usize> {
        if self.first_waiting_for_budget().is_some() {
            return None;
        }
        let next = self.hints.iter().copied().find(|&index| matches!(self.slots[index], ImageState::Empty));
        let index = next.filter(|&index| self.evict_for(index, Urgency::Idle))?;
        self.start(index);
        Some(index)
    }

    /// Stores a loaded image with its bytes, or the reason why it cannot be loaded.
    pub(super) fn finish(&mut self, index: usize, made: Result<(P, usize), E>) {
        self.clock += 1;
        let slot = match made {
            Ok((picture, bytes)) => ImageState::Ready { picture, bytes, last_use: self.clock },
            Err(reason) => ImageState::Failed(reason),
        };
        self.replace(index, slot);
    }

    /// Resets an image whose load did not finish; another thread may try.
    pub(super) fn abandon(&mut self, index: usize) {
        self.replace(index, ImageState::Empty);
    }

    fn start(&mut self, index: usize) {
        self.replace(index, ImageState::Making);
    }

    fn replace(&mut self, index: usize, slot: ImageState<P, E>) {
        let old = std::mem::replace(&mut self.slots[index], slot);
        self.bytes = self.bytes - self.bytes_of(index, &old) + self.bytes_of(index, &self.slots[index]);
        self.changes += 1;
    }

    fn bytes_of(&self, index: usize, slot: &ImageState<P, E>) -> usize {
        match slot {
            ImageState::Empty | ImageState::Failed(_) => 0,
            ImageState::Making => self.needs[index],
            ImageState::Ready { bytes, .. } => *bytes,
        }
    }

    /// The caller that has waited longest for budget.
    fn first_waiting_for_budget(&self) -> Option<Ticket> {
        let mut waiting = self.waiting.iter();
        waiting.find(|&(_, &index)| matches!(self.slots[index], ImageState::Empty)).map(|(&ticket, _)| ticket)
    }

    /// Evicts ready images until one more can be loaded: the least recently used first, then, if the request is urgent,
    /// hinted ones, the last hint first. If that would not suffice, nothing is evicted. Returns whether the budget
    /// suffices.
    fn evict_for(&mut self, index: usize, wish: Urgency) -> bool {
        let mut leaving: Vec<(EvictionKey, usize, usize)> = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let ImageState::Ready { bytes, last_use, .. } = *slot else { continue };
            let is_awaited = self.waiting.values().any(|&wanted| wanted == index);
            let hint = self.hints.iter().position(|&hint| hint == index);
            match (hint, wish) {
                _ if is_awaited => {}
                (None, _) => leaving.push((EvictionKey::Unwanted(last_use), index, bytes)),
                (Some(place), Urgency::Urgent) => {
                    leaving.push((EvictionKey::Hinted(std::cmp::Reverse(place)), index, bytes));
                }
                (Some(_), Urgency::Idle) => {}
            }
        }
        let needed = self.needs[index];
        let staying = self.bytes - leaving.iter().map(|(_, _, bytes)| bytes).sum::<usize>();
        if staying + needed > self.budget {
            return false;
        }
        leaving.sort_unstable_by_key(|&(order, index, _)| (order, index));
        for (_, index, _) in leaving {
            if self.bytes + needed <= self.budget {
                break;
            }
            self.replace(index, ImageState::Empty);
        }
        true
    }
}

/// Urgency of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// A hint; no caller waits for the image yet.
    Idle,
    /// A caller waits for the image.
    Urgent,
}

/// Sort key of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionKey {
    /// Not hinted: by last use.
    Unwanted(u64),
    /// Hinted: by position in the hints, the last first.
    Hinted(std::cmp::Reverse<usize>),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64: the test needs many reproducible schedules, not good random numbers.
    struct SplitMix64(u64);

    impl SplitMix64 {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) % n as u64) as usize
        }
    }

    /// A thread that calls the loader, or a background thread.
    #[derive(Debug)]
    enum Actor {
        /// Number of images that it still wants.
        Caller { left: usize, state: CallerState },
        /// The image that it loads, or the change count since which it sleeps.
        Background { making: Option<usize>, slept_at: Option<u64> },
    }

    #[derive(Debug)]
    enum CallerState {
        Between,
        Waiting { ticket: Ticket, wanted: usize, slept_at: Option<u64> },
        Making { wanted: usize },
    }

    /// Which of the threads that can act runs next.
    #[derive(Clone, Copy, Debug)]
    enum ThreadOrder {
        Random,
        /// The first in the list always runs: background threads at the front never yield.
        First,
        Last,
    }

    struct Model {
        schedule: Schedule<usize, usize>,
        actors: Vec<Actor>,
        dice: SplitMix64,
        /// Bytes of each ready image.
        results: Vec<usize>,
        /// Images that cannot be loaded.
        broken: Vec<bool>,
        lookahead: usize,
        turns: ThreadOrder,
        /// No load finishes while another thread can act.
        slow_makers: bool,
    }

    impl Model {
        fn random(seed: u64) -> Self {
            let mut dice = SplitMix64(seed);
            let pictures = 1 + dice.below(6);
            let needs: Vec<usize> = (0..pictures).map(|_| 1 + dice.below(100)).collect();
            let results = needs.iter().map(|&need| 1 + dice.below(need)).collect();
            let broken = needs.iter().map(|_| dice.below(12) == 0).collect();
            let all: usize = needs.iter().sum();
            let largest = needs.iter().copied().max().unwrap_or(0);
            // Less than one image, exactly the largest, several, all of them.
            let budget = [dice.below(largest + 1), largest, dice.below(all + 1), all][dice.below(4)];
            let background = (0..dice.below(3)).map(|_| Actor::Background { making: None, slept_at: None });
            let callers: Vec<usize> = (0..1 + dice.below(3)).map(|_| 1 + dice.below(6)).collect();
            let callers = callers.into_iter().map(|left| Actor::Caller { left, state: CallerState::Between });
            let actors = background.collect::<Vec<_>>().into_iter().chain(callers).collect();
            let turns = [ThreadOrder::Random, ThreadOrder::First, ThreadOrder::Last][dice.below(3)];
            let lookahead = dice.below(pictures + 1);
            let slow_makers = dice.below(2) == 0;
            let schedule = Schedule::new(budget, needs);
            Self { schedule, actors, dice, results, broken, lookahead, turns, slow_makers }
        }

        /// Whether the thread is awake.
        fn can_act(&self, actor: &Actor) -> bool {
            let is_awake =
                |slept_at: &Option<u64>| slept_at.is_none_or(|at| at != self.schedule.change_count());
            match actor {
                Actor::Caller { left: 0, state: CallerState::Between } => false,
                Actor::Caller { state: CallerState::Waiting { slept_at, .. }, .. } => is_awake(slept_at),
                Actor::Caller { .. } => true,
                Actor::Background { making: Some(_), .. } => true,
                Actor::Background { making: None, slept_at } => is_awake(slept_at),
            }
        }

        fn is_done(&self) -> bool {
            self.actors.iter().all(|actor| match actor {
                Actor::Caller { left, state } => *left == 0 && matches!(state, CallerState::Between),
                Actor::Background { .. } => true,
            })
        }

        /// One step of one thread while it holds the lock.
        fn step(&mut self) {
            let mut able: Vec<usize> =
                (0..self.actors.len()).filter(|&i| self.can_act(&self.actors[i])).collect();
            assert!(!able.is_empty(), "all threads sleep: {:?} {:?}", self.schedule, self.actors);
            let makes = |&i: &usize| {
                matches!(
                    self.actors[i],
                    Actor::Background { making: Some(_), .. }
                        | Actor::Caller { state: CallerState::Making { .. }, .. }
                )
            };
            if self.slow_makers && !able.iter().all(makes) {
                able.retain(|i| !makes(i));
            }
            let chosen = match self.turns {
                ThreadOrder::Random => able[self.dice.below(able.len())],
                ThreadOrder::First => able[0],
                ThreadOrder::Last => able[able.len() - 1],
            };
            let mut actor = std::mem::replace(
                &mut self.actors[chosen],
                Actor::Background { making: None, slept_at: None },
            );
            match &mut actor {
                Actor::Caller { left, state } => self.call(left, state),
                Actor::Background { making, slept_at } => match making.take() {
                    Some(index) => self.finish(index),
                    None => {
                        *making = self.schedule.next_in_background();
                        *slept_at = Some(self.schedule.change_count());
                    }
                },
            }
            self.actors[chosen] = actor;
            self.check();
        }

        fn call(&mut self, left: &mut usize, state: &mut CallerState) {
            match *state {
                CallerState::Between => {
                    let count = self.results.len();
                    let wanted = self.dice.below(count);
                    let hints: Vec<usize> = (0..self.lookahead).map(|k| (wanted + k) % count).collect();
                    self.schedule.set_hints(hints);
                    let ticket = self.schedule.register(wanted);
                    *state = CallerState::Waiting { ticket, wanted, slept_at: None };
                }
                CallerState::Waiting { ticket, wanted, .. } => match self.schedule.next_action(ticket) {
                    CallerAction::Take(taken) => {
                        assert_eq!(taken.is_err(), self.broken[wanted]);
                        assert_eq!(taken.unwrap_or_else(|index| index), wanted);
                        (*left, *state) = (*left - 1, CallerState::Between);
                    }
                    CallerAction::Make => *state = CallerState::Making { wanted },
                    CallerAction::Wait => {
                        *state = CallerState::Waiting {
                            ticket,
                            wanted,
                            slept_at: Some(self.schedule.change_count()),
                        };
                    }
                },
                CallerState::Making { wanted } => {
                    self.finish(wanted);
                    (*left, *state) = (*left - 1, CallerState::Between);
                }
            }
        }

        /// A load finishes; one in ten panics.
        fn finish(&mut self, index: usize) {
            match self.dice.below(10) {
                0 => self.schedule.abandon(index),
                _ if self.broken[index] => self.schedule.finish(index, Err(index)),
                _ => self.schedule.finish(index, Ok((index, self.results[index]))),
            }
        }

        /// Bytes match the slots and stay within the budget.
        fn check(&self) {
            let of = |index: usize| self.schedule.bytes_of(index, &self.schedule.slots[index]);
            assert_eq!((0..self.results.len()).map(of).sum::<usize>(), self.schedule.bytes());
            assert!(self.schedule.bytes() <= self.schedule.budget, "{:?}", self.schedule);
        }
    }

    #[test]
    fn every_call_ends_and_bytes_stay_within_the_budget() {
        const SCHEDULES: u64 = 100_000;
        let mut longest = 0;
        for seed in 0..SCHEDULES {
            let mut model = Model::random(seed);
            let calls: usize = model
                .actors
                .iter()
                .map(|actor| if let Actor::Caller { left, .. } = actor { *left } else { 0 })
                .sum();
            // Per call its own image, and in the background the hinted ones, each with some checks by all threads;
            // panics cause reloads. No schedule needs a tenth of it.
            let limit = 400 * calls;
            let mut steps = 0;
            while !model.is_done() {
                model.step();
                steps += 1;
                assert!(
                    steps < limit,
                    "schedule {seed} does not end: {:?} {:?}",
                    model.schedule,
                    model.actors
                );
            }
            longest = longest.max(steps);
        }
        assert!(longest > 100, "the longest schedule has {longest} steps");
    }

    /// Two images of 6 bytes while loading and 2 when ready.
    fn two(budget: usize) -> Schedule<char, ()> {
        Schedule::new(budget, vec![6, 6])
    }

    #[test]
    fn the_background_starts_nothing_while_a_caller_waits_for_room() {
        let mut schedule = Schedule::<char, ()>::new(6, vec![6, 6, 6]);
        schedule.set_hints([1, 2]);
        assert_eq!(schedule.next_in_background(), Some(1));
        let ticket = schedule.register(0);
        assert_eq!(schedule.next_action(ticket), CallerAction::Wait, "there is room for one only");
        // The background gets the lock before the caller; there is budget, and the third image is hinted.
        schedule.finish(1, Ok(('b', 2)));
        schedule.set_hints([2]);
        assert_eq!(schedule.next_in_background(), None);
        assert_eq!(schedule.next_action(ticket), CallerAction::Make);
    }

    #[test]
    fn nothing_leaves_in_vain() {
        let mut schedule = Schedule::<char, ()>::new(8, vec![2, 6, 6]);
        schedule.set_hints([0, 1]);
        assert_eq!(schedule.next_in_background(), Some(0));
        schedule.finish(0, Ok(('a', 2)));
        assert_eq!(schedule.next_in_background(), Some(1));
        let ticket = schedule.register(2);
        // 2 + 6 + 6 bytes do not fit; without the ready image, 12 of 8 still do not fit.
        assert_eq!(schedule.next_action(ticket), CallerAction::Wait);
        assert_eq!(schedule.ready(), 1);
    }

    #[test]
    fn a_picture_that_a_caller_waits_for_stays_until_the_caller_has_it() {
        let mut schedule = two(6);
        schedule.set_hints([0]);
        assert_eq!(schedule.next_in_background(), Some(0));
        let (first, second) = (schedule.register(0), schedule.register(1));
        schedule.finish(0, Ok(('a', 2)));
        assert_eq!(
            schedule.next_action(second),
            CallerAction::Wait,
            "its room is that of the picture of the first"
        );
        assert_eq!(schedule.next_action(first), CallerAction::Take(Ok('a')));
        assert_eq!(schedule.next_action(second), CallerAction::Make);
    }

    #[test]
    fn callers_get_room_in_the_order_of_their_arrival() {
        let mut schedule = Schedule::<char, ()>::new(6, vec![6, 6, 1]);
        let first = schedule.register(0);
        assert_eq!(schedule.next_action(first), CallerAction::Make);
        let (second, third) = (schedule.register(1), schedule.register(2));
        schedule.finish(0, Ok(('a', 2)));
        assert_eq!(
            schedule.next_action(third),
            CallerAction::Wait,
            "a small picture does not pass a large one"
        );
        assert_eq!(schedule.next_action(second), CallerAction::Make);
    }

    #[test]
    fn with_the_smallest_budget_pictures_are_made_one_at_a_time() {
        let mut schedule = two(0);
        let ticket = schedule.register(0);
        assert_eq!(schedule.next_action(ticket), CallerAction::Make);
        let other = schedule.register(1);
        assert_eq!(schedule.next_action(other), CallerAction::Wait);
        schedule.finish(0, Ok(('a', 2)));
        assert_eq!(schedule.next_action(other), CallerAction::Make);
        assert_eq!((schedule.bytes(), schedule.budget()), (6, 6));
    }

    #[test]
    fn the_least_recently_used_leaves_first_and_what_was_hinted_at_stays() {
        let mut schedule = Schedule::<usize, ()>::new(8, vec![2; 5]);
        for index in 0..4 {
            let ticket = schedule.register(index);
            assert_eq!(schedule.next_action(ticket), CallerAction::Make);
            schedule.finish(index, Ok((index, 2)));
        }
        let is_ready = |schedule: &Schedule<usize, ()>, index: usize| {
            matches!(schedule.slots[index], ImageState::Ready { .. })
        };
        schedule.set_hints([0, 1]);
        let ticket = schedule.register(4);
        assert_eq!(schedule.next_action(ticket), CallerAction::Make);
        // Image 2 is older than 3; 0 and 1 are older still, but hinted.
        assert_eq!([0, 1, 2, 3].map(|i| is_ready(&schedule, i)), [true, true, false, true]);
    }
}
