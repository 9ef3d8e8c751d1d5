//! `kubectl-hns`, which is also `kubectl-accurate`: see the library.

use std::ffi::OsString;
use std::process::ExitCode;

use kubectl_hns::{Terminal, cli, completion, run};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(answer) = completion(&words) {
        Terminal::of_process(true).print(&answer);
        return ExitCode::SUCCESS;
    }
    let cli = match cli::parse(words) {
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
