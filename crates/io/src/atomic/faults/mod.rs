//! File systems that fail on demand, for tests.
//!
//! [`FaultyDisk`] fails at the n-th call (as SQLite's anomaly tests); [`VolatileDisk`] loses unsynced data at a
//! simulated power failure.

mod faulty;
mod volatile;

pub use faulty::{Fault, FaultyDisk};
pub use volatile::VolatileDisk;
