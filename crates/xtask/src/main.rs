//! The development commands, as `cargo xtask COMMAND`. Each command has a module.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod cargo;
mod demo;
mod generate;
mod node;
mod test;

/// The development commands of the project.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the product: a control plane, a small hierarchy, propagation and refused requests. Builds what is missing,
    /// and runs until Ctrl-C.
    Demo {
        /// Exit at the end, with exit code 0 only if all results are as expected.
        #[arg(long)]
        once: bool,
        /// Enable hierarchical quotas, and show one.
        #[arg(long)]
        quotas: bool,
    },
    /// Run all checks: formatting, lints, generated files, unit and property tests, and the tests on a real API server.
    Test(test::Options),
    /// Measure the product on a real cluster, relative to a plain client that does the same work.
    Bench(bench::Options),
    /// Run the tests that need a real node (root on Linux): the images, the installation with Helm, roll-outs under
    /// load. Installs missing Debian packages, and builds the rest once.
    Node,
    /// Write the files that are generated: from the code definitions, the chart's registrations, the plugin's manual pages and
    /// reference; from the chart, by Helm, the plain manifests and the table of its values.
    Gen {
        /// Write nothing; list stale, missing and surplus files, and fail if there are any.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Demo { once, quotas } => demo::run(once, quotas),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Node => node::run(),
        Command::Gen { check } => generate::run(check),
    }
}
