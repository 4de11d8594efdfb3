//! Units on their way: several at a time, done in their order, each once.
//!
//! The host submits ahead and asks for statuses later. A unit that lacks room, or whose loss is not finite, halts the
//! device: it has changed nothing, and what was submitted behind it does nothing either, until a unit comes that lifts the
//! halt. A density rule is a unit like a step: one that would leave more splats than there is room for halts in the same way.
//! The host finds the first status that tells of a halt, takes those behind it, which tell of nothing, gives more
//! room and submits the same units again, the first of them with the order to lift the halt. A loss that is not finite ends
//! everything behind it instead.
//!
//! What a device is to this protocol is [`Device`]; `flight_tests` tries it on one in plain Rust.

use std::collections::VecDeque;

use gausset_core::engine::EngineError;

use crate::record::{halt, status};

/// Most units that are under way.
pub(crate) const IN_FLIGHT: usize = 8;

/// What a unit reports.
pub(crate) type Status = [u32; status::WORDS];

/// What the protocol asks of a device.
pub(crate) trait Device {
    /// All that is needed to submit a unit, and to submit it again.
    type Unit;

    /// Enqueues a unit under a number. With `lifts`, it lifts a halt of an earlier one.
    fn submit(&mut self, unit: &Self::Unit, number: u32, lifts: bool) -> Result<(), EngineError>;

    /// The status of the oldest unit whose status has not been taken, if there is one and it has arrived; waits for it if
    /// that is wanted.
    fn take(&mut self, wait: bool) -> Result<Option<Status>, EngineError>;

    /// Gives the room that a unit lacked.
    fn make_room(&mut self, unit: &Self::Unit, status: &Status) -> Result<(), EngineError>;

    /// A unit has been done.
    fn done(&mut self, unit: &Self::Unit, status: &Status);

    /// Why a unit that halted for its loss failed.
    fn failure(&self, unit: &Self::Unit, status: &Status) -> EngineError;
}

/// Units that have been submitted and not been acknowledged.
#[derive(Debug)]
pub(crate) struct Flight<U> {
    units: VecDeque<(u32, U)>,
    /// Most of them.
    most: usize,
    /// Number of the next unit.
    next: u32,
    /// Whether the next unit lifts a halt.
    lifts: bool,
}

impl<U> Flight<U> {
    /// None, and never more than so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { units: VecDeque::new(), most: most.clamp(1, IN_FLIGHT), next: 0, lifts: true }
    }

    /// The units under way, in their order.
    pub(crate) fn units(&self) -> impl Iterator<Item = &U> {
        self.units.iter().map(|(_, unit)| unit)
    }

    /// How many units are under way.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there is room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.units.len() >= self.most
    }

    /// Forgets all units; the next one lifts any halt.
    pub(crate) fn forget(&mut self) {
        self.units.clear();
        self.lifts = true;
    }

    /// Submits a unit; waits for the oldest one where too many are under way.
    ///
    /// # Errors
    /// An earlier unit failed, or the device did: no unit is under way then.
    pub(crate) fn submit(&mut self, device: &mut impl Device<Unit = U>, unit: U) -> Result<(), EngineError> {
        while self.is_full() {
            self.step_on(device, true)?;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.units.push_back((number, unit));
        let outcome = match self.units.back() {
            Some((_, unit)) => device.submit(unit, number, self.lifts),
            None => Ok(()),
        };
        self.lifts = false;
        outcome.inspect_err(|_| self.forget())
    }

    /// Acknowledges what is done, without waiting.
    pub(crate) fn collect(&mut self, device: &mut impl Device<Unit = U>) -> Result<(), EngineError> {
        while self.step_on(device, false)? {}
        Ok(())
    }

    /// Waits until everything is done.
    pub(crate) fn drain(&mut self, device: &mut impl Device<Unit = U>) -> Result<(), EngineError> {
        while self.step_on(device, true)? {}
        Ok(())
    }

    /// Takes the status of the oldest unit; whether there was one.
    fn step_on(&mut self, device: &mut impl Device<Unit = U>, wait: bool) -> Result<bool, EngineError> {
        let outcome = self.try_step_on(device, wait);
        outcome.inspect_err(|_| self.forget())
    }

    fn try_step_on(&mut self, device: &mut impl Device<Unit = U>, wait: bool) -> Result<bool, EngineError> {
        let Some((number, unit)) = self.units.front() else { return Ok(false) };
        let Some(status) = device.take(wait)? else { return Ok(false) };
        if status[status::NUMBER] != *number {
            let what = format!("unit {} answered in place of unit {number}", status[status::NUMBER]);
            return Err(EngineError::Device(what));
        }
        if status[status::HALT] == halt::NOT {
            device.done(unit, &status);
            self.units.pop_front();
            return Ok(true);
        }
        // What is behind it has done nothing.
        for _ in 1..self.units.len() {
            device.take(true)?;
        }
        if status[status::HALT] == halt::LOSS {
            return Err(device.failure(unit, &status));
        }
        device.make_room(unit, &status)?;
        let mut lifts = true;
        for (number, unit) in &self.units {
            device.submit(unit, *number, lifts)?;
            lifts = false;
        }
        Ok(true)
    }
}
