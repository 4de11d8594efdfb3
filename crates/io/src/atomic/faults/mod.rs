//! File systems that fail on demand, for tests.
//!
//! [`FaultyDisk`] lets the n-th call fail (SQLite's anomaly tests); [`VolatileDisk`] forgets what was not synced when
//! the power goes.

mod faulty;
mod volatile;

pub use faulty::{Fault, FaultyDisk};
pub use volatile::VolatileDisk;
