//! Units in flight: several at a time, executed in order, each exactly once.
//!
//! The host submits ahead and reads statuses later. A unit whose buffers are too small, or whose loss is not finite,
//! halts the device: it has no effect, and later units have none either, until a unit lifts the halt. A density rule is
//! a unit like a step: one that would leave more splats than fit halts in the same way. The host finds the first status
//! with a halt, discards the statuses of the later units, enlarges the buffers and submits the same units again; the
//! first of them lifts the halt. If the loss is not finite, the later units are dropped instead.
//!
//! The protocol uses a device through [`Device`]; `flight_tests` tests it with a model in plain Rust.

use std::collections::VecDeque;

use gausset_core::engine::EngineError;

use crate::record::{halt, status};

/// Maximum number of units in flight.
pub(crate) const IN_FLIGHT: usize = 8;

/// The status words of a unit.
pub(crate) type Status = [u32; status::WORDS];

/// Returns an error if a status is not that of this unit: the device did not execute it.
pub(crate) fn check_number(number: u32, status: &Status) -> Result<(), EngineError> {
    if status[status::NUMBER] == number {
        return Ok(());
    }
    let what = format!("unit {} answered in place of unit {number}", status[status::NUMBER]);
    Err(EngineError::DeviceFailed(what))
}

/// The operations of a device that the protocol needs.
pub(crate) trait UnitQueue {
    /// The data needed to submit a unit, once or again.
    type Unit;

    /// Enqueues a unit under a number. With `lifts`, it lifts the halt of an earlier one.
    fn submit(&mut self, unit: &Self::Unit, number: u32, lifts: bool) -> Result<(), EngineError>;

    /// The status of the oldest unit whose status has not been taken, if there is one and it has arrived; waits for it
    /// if `wait`.
    fn take(&mut self, wait: bool) -> Result<Option<Status>, EngineError>;

    /// Enlarges the buffers that were too small for a unit.
    fn enlarge_buffers(&mut self, unit: &Self::Unit, status: &Status) -> Result<(), EngineError>;

    /// Called once for each unit that was executed.
    fn on_done(&mut self, unit: &Self::Unit, status: &Status);

    /// The error of a unit that halted because of its loss.
    fn failure(&self, unit: &Self::Unit, status: &Status) -> EngineError;
}

/// Units that have been submitted and not acknowledged.
#[derive(Debug)]
pub(crate) struct InFlight<U> {
    units: VecDeque<(u32, U)>,
    /// Maximum number of units.
    max_units: usize,
    /// Number of the next unit.
    next: u32,
    /// Whether the next unit lifts a halt.
    lifts_halt: bool,
}

impl<U> InFlight<U> {
    /// No units, and at most `most` of them later.
    pub(crate) fn new(most: usize) -> Self {
        Self { units: VecDeque::new(), max_units: most.clamp(1, IN_FLIGHT), next: 0, lifts_halt: true }
    }

    /// The units in flight, in order.
    pub(crate) fn units(&self) -> impl Iterator<Item = &U> {
        self.units.iter().map(|(_, unit)| unit)
    }

    /// Number of units in flight.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether the maximum number of units is in flight.
    pub(crate) fn is_full(&self) -> bool {
        self.units.len() >= self.max_units
    }

    /// A number for the next unit.
    pub(crate) fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Drops all units; the next one lifts any halt.
    pub(crate) fn clear(&mut self) {
        self.units.clear();
        self.lifts_halt = true;
    }

    /// Submits a unit; waits for the oldest one if too many are in flight.
    ///
    /// # Errors
    /// Returns an error if an earlier unit or the device failed: no unit is in flight then.
    pub(crate) fn submit(
        &mut self,
        device: &mut impl UnitQueue<Unit = U>,
        unit: U,
    ) -> Result<(), EngineError> {
        while self.is_full() {
            self.take_oldest(device, true)?;
        }
        let number = self.take_number();
        self.units.push_back((number, unit));
        let outcome = match self.units.back() {
            Some((_, unit)) => device.submit(unit, number, self.lifts_halt),
            None => Ok(()),
        };
        self.lifts_halt = false;
        outcome.inspect_err(|_| self.clear())
    }

    /// Acknowledges finished units, without waiting.
    pub(crate) fn collect(&mut self, device: &mut impl UnitQueue<Unit = U>) -> Result<(), EngineError> {
        while self.take_oldest(device, false)? {}
        Ok(())
    }

    /// Waits until all units are finished.
    pub(crate) fn drain(&mut self, device: &mut impl UnitQueue<Unit = U>) -> Result<(), EngineError> {
        while self.take_oldest(device, true)? {}
        Ok(())
    }

    /// Takes the status of the oldest unit; returns whether there was one.
    fn take_oldest(
        &mut self,
        device: &mut impl UnitQueue<Unit = U>,
        wait: bool,
    ) -> Result<bool, EngineError> {
        let outcome = self.try_take_oldest(device, wait);
        outcome.inspect_err(|_| self.clear())
    }

    fn try_take_oldest(
        &mut self,
        device: &mut impl UnitQueue<Unit = U>,
        wait: bool,
    ) -> Result<bool, EngineError> {
        let Some((number, unit)) = self.units.front() else { return Ok(false) };
        let Some(status) = device.take(wait)? else { return Ok(false) };
        check_number(*number, &status)?;
        if status[status::HALT] == halt::NOT {
            device.on_done(unit, &status);
            self.units.pop_front();
            return Ok(true);
        }
        // Later units had no effect.
        for _ in 1..self.units.len() {
            device.take(true)?;
        }
        if status[status::HALT] == halt::LOSS {
            return Err(device.failure(unit, &status));
        }
        device.enlarge_buffers(unit, &status)?;
        let mut lifts = true;
        for (number, unit) in &self.units {
            device.submit(unit, *number, lifts)?;
            lifts = false;
        }
        Ok(true)
    }
}
