//! The guard of one started program, as a program. What it does is in `hns_e2e::guard`; it never does anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    hns_e2e::guard::main(std::env::args_os().skip(1))
}
