//! The `gausset` program.

fn main() {}
