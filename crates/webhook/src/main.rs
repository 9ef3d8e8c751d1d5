//! `hns-webhook`: see the library of the same name.

use std::process::ExitCode;

use hns_runtime::start::{self, Program};

fn main() -> ExitCode {
    let program = Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
    start::main(program, hns_webhook::run::run)
}
