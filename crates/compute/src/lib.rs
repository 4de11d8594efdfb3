//! Threads, 16-lane vector maths and counter-based random numbers.
//!
//! Everything here guarantees *same inputs, same bytes*: work is divided into parts of fixed size that do not depend on
//! the number of threads, vector code is written once for 16 lanes and executes the same IEEE operations at every SIMD
//! level, and random numbers are functions of a counter.
//!
//! ```
//! use gausset_compute::{Pool, rng};
//!
//! // Random numbers are functions of seed, stream, step and index: any number of threads gives the same bits.
//! let draw = |pool: &Pool| pool.map(1000, |i| rng::normals(7, rng::stream::TEST, 0, i as u32));
//! assert_eq!(draw(&Pool::new(1)), draw(&Pool::new(4)));
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod exec;
pub mod huge_pages;
pub mod level;
pub mod machine;
pub mod panic_guard;
pub mod pool;
pub mod prefetch;
pub mod rates;
pub mod rng;
pub mod scatter;
pub mod simd;

pub use exec::Exec;
#[doc(hidden)]
pub use fearless_simd;
pub use level::{SimdLevel, dispatch_level};
pub use pool::Pool;
pub use rates::PeakRates;
