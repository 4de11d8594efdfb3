//! The definition in f64.
