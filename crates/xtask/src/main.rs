//! The project's own commands, as `cargo xtask COMMAND`. Each command has a module of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod cargo;
mod demo;
mod generate;
mod node;
mod test;

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the product at work: a control plane, a small organisation, what is propagated and what is refused. Builds
    /// what is missing, and stays until Ctrl-C.
    Demo {
        /// Leave at the end, with exit code 0 only if everything shown was true.
        #[arg(long)]
        once: bool,
    },
    /// Check everything: format, lints, generated files, unit and property tests, and the tests on a real API server.
    Test(test::Options),
    /// Measure the product on a real cluster against a plain client that does the same.
    Bench(bench::Options),
    /// Check what only a real node shows (root on Linux): the images, the installation by Helm, roll-outs under load. Installs
    /// what is missing from Debian, and builds the rest once.
    Node,
    /// Write the files that are generated: from the code definitions, the chart's registrations, the plugin's manual pages and
    /// reference; from the chart, by Helm, the plain manifests and the table of its values.
    Gen {
        /// Write nothing; name the files that are stale, missing or surplus, and fail if there are any.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Demo { once } => demo::run(once),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Node => node::run(),
        Command::Gen { check } => generate::run(check),
    }
}
