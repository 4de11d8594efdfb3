//! What every engine promises.

use crate::gpu::{engine, gpu};

gausset_testkit::engine_contract!(where |test: &str| gpu(test).map(|gpu| move || engine(&gpu)));
