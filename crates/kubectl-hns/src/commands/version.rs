//! `version`: prints the version of the plugin.

use clap::Args;

use crate::format::{Format, render};
use crate::{Failure, Terminal};

/// Print the version of this plugin.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// The text, in the format of HNC's plugin.
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
