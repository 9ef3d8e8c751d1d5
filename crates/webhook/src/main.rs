//! `hns-webhook`: see the library of the same name.

use std::process::ExitCode;

use hns_runtime::process::Program;
use hns_runtime::start;

/// Reviews are many short-lived objects of mixed sizes; with glibc's allocator, allocation took more time than all other work.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let program = Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), threads: None };
    start::main(program, hns_webhook::run::run)
}
