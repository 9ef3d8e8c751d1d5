//! `version`: which build this is.

use clap::Args;

use crate::format::{Format, render};
use crate::{Failure, Terminal};

/// Print the version of this plugin.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print it in this form.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// What HNC's plugin printed.
pub(crate) fn text() -> String {
    format!("kubectl-hns version {}\n", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match arguments.output {
        None => terminal.print(&text()),
        Some(format) => {
            let data = serde_json::json!({ "name": "kubectl-hns", "version": version });
            terminal.print(&render(format, &data, ["kubectl-hns".to_owned()])?);
        }
    }
    Ok(())
}
