//! `kubectl-hns`: see the library of the same name.

use std::process::ExitCode;

use kubectl_hns::{Terminal, cli, run};

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return stop.print(),
    };
    let terminal = Terminal::of_process(cli.no_color());
    match run(cli, &terminal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal.fail(&failure);
            ExitCode::FAILURE
        }
    }
}
