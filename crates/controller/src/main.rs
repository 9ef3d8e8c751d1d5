//! The program `hns-controller`. See the library of the same name.

use std::process::ExitCode;

use hns_runtime::process::Program;
use hns_runtime::start;

/// A copy needs many short-lived allocations of different sizes. glibc's allocator took a fifth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The controller mostly waits for the API server: it needs about 150 µs for a copy. A second thread made that slower, because the
/// threads wake each other.
const THREADS: Option<usize> = Some(1);

fn main() -> ExitCode {
    let program =
        Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), threads: THREADS };
    start::main(program, hns_controller::run::run)
}
