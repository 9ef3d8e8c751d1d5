//! `hns-controller`: see the library of the same name.

use std::process::ExitCode;

use hns_runtime::start::{self, Program};

/// A copy is many short-lived objects of mixed sizes, on which glibc's allocator spent a fifth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let program = Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
    start::main(program, hns_controller::run::run)
}
