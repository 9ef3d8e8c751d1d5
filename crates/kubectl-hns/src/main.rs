//! `kubectl-hns`, which is also `kubectl-accurate`: see the library.

use std::ffi::OsString;
use std::process::ExitCode;

use kubectl_hns::{Terminal, cli, completion, run};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(answer) = completion(&words) {
        let terminal = Terminal::of_process(true);
        terminal.print(&answer);
        return terminal.end(Ok(()));
    }
    let cli = match cli::parse(words) {
        Ok(cli) => cli,
        Err(stop) => return stop.print(),
    };
    let terminal = Terminal::of_process(cli.no_color());
    let result = run(cli, &terminal);
    terminal.end(result)
}
