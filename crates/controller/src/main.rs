//! `hns-controller`: see the library of the same name.

use std::process::ExitCode;

use hns_runtime::start::{self, Program};

/// A copy is many short-lived objects of mixed sizes, on which glibc's allocator spent a fifth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// It waits for the API server most of the time. A second thread made its work dearer by waking and being woken, and nothing
/// faster: one copies several thousand objects a second.
const THREADS: Option<usize> = Some(1);

fn main() -> ExitCode {
    let program =
        Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), threads: THREADS };
    start::main(program, hns_controller::run::run)
}
