//! The `gausset` program: see [`gausset_cli`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::process::ExitCode;

use gausset_compute::huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    gausset_cli::run(std::env::args_os().collect()).into()
}
