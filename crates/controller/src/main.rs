//! `hns-controller`: see the library of the same name.

use std::process::ExitCode;

use hns_runtime::start::{self, Program};

/// A copy is many short-lived objects of mixed sizes, on which glibc's allocator spent a fifth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// It waits for the API server most of the time: a copy takes it some 150 µs of its own. A second thread made that dearer, by
/// waking and being woken.
const THREADS: Option<usize> = Some(1);

fn main() -> ExitCode {
    let program =
        Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), threads: THREADS };
    start::main(program, hns_controller::run::run)
}
