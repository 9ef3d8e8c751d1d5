//! The project's own commands, as `cargo xtask COMMAND`. Each command has a module of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod generate;

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the files that are generated from the code: definitions and webhook registrations.
    Gen {
        /// Write nothing; name the files that are stale, missing or surplus, and fail if there are any.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Gen { check } => generate::run(check),
    }
}
