//! `cargo xtask test`: runs all checks, from formatting to the tests on a real API server.
//!
//! The unit tests and the suites on a cluster run last, some of them concurrently; a summary closes the output.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use hns_e2e::Programs;
use hns_e2e::node::{images, requirements};
use hns_e2e::programs::{Kubernetes, NodePrograms};

use crate::cargo::{cargo, has, step};
use crate::generate;

mod lanes;
mod suites;
mod tally;

const UNIT_TESTS: [&str; 4] = ["test", "--workspace", "--exclude", "hns-e2e"];

/// The default limit of concurrent suites: more would disturb each other's measurements.
const AT_MOST: usize = 2;

/// The options of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Skip everything that needs a cluster.
    #[arg(long, conflicts_with_all = ["full", "suites", "jobs"])]
    quick: bool,
    /// Also run the suites that depend most on Kubernetes on the oldest supported version, and those of HNC's API with Accurate's
    /// API enabled.
    #[arg(long)]
    full: bool,
    /// Run only this suite: a file in e2e/tests, `unit` for all unit and property tests, or `e2e` for the unit tests of
    /// the test cluster. Can be repeated.
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// The number of concurrent suites [default: the number of cores, at most 2].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = |suite: &str| options.suites.is_empty() || options.suites.iter().any(|it| it == suite);
    // First, because without a required node all other work would be useless.
    let node = !options.quick && wanted(NODE);
    let obstacle = if node { step("whether there can be a node", node_obstacle)? } else { None };
    if options.suites.is_empty() && !static_checks()? {
        return Ok(ExitCode::FAILURE);
    }
    if options.quick {
        cargo(&UNIT_TESTS)?;
        return Ok(ExitCode::SUCCESS);
    }
    // One build of tests and binaries shares the dependencies; two builds would compile most of them twice.
    let built = step("building tests and binaries", suites::build)?;
    let chosen = suites::choose(built.suites, &options.suites)?;
    step("the control plane's programs", || Programs::find_or_build().map(drop))?;
    if node && obstacle.is_none() {
        step("the node's programs and those of the images", node_programs)?;
    }
    let mut jobs = suites::in_order(chosen);
    jobs.retain(|suite| suite.name != NODE || obstacle.is_none());
    if options.full {
        step("the oldest control plane's programs", || Programs::of(Kubernetes::Oldest).map(drop))?;
        let again = [suites::on_the_oldest(&jobs), suites::with_accurate(&jobs)];
        jobs.extend(again.into_iter().flatten());
    }
    let width = options.jobs.map_or_else(default_width, NonZeroUsize::get);
    let passed = lanes::run(jobs, width, &built.logs)?;
    if let Some(obstacle) = obstacle {
        eprintln!("== {NODE}: skipped: {obstacle}");
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn default_width() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(AT_MOST)
}

/// The static checks: formatting, lints, generated files, dependencies.
fn static_checks() -> anyhow::Result<bool> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
    })?;
    if step("generated files", || generate::run(true))? != ExitCode::SUCCESS {
        eprintln!("generated files are stale; `cargo xtask gen` writes them");
        return Ok(false);
    }
    step("dependencies", dependencies)?;
    Ok(true)
}

/// The suite that needs a real node.
const NODE: &str = "node";

/// Why it cannot run here, if so. An error where `HNS_NODE` requires it.
fn node_obstacle() -> anyhow::Result<Option<String>> {
    let required = requirements::required();
    match requirements::check(required) {
        Ok(()) => Ok(None),
        Err(reason) if required => Err(reason.context("HNS_NODE=require, and there can be no node here")),
        Err(reason) => Ok(Some(format!("{reason:#}"))),
    }
}

fn node_programs() -> anyhow::Result<()> {
    NodePrograms::find_or_build()?;
    Programs::helm()?;
    images::compile().map(drop)
}

fn dependencies() -> anyhow::Result<()> {
    if !has("deny") {
        eprintln!(
            "cargo-deny is not installed, so deny.toml is not checked; `cargo install cargo-deny --locked` installs it"
        );
        return Ok(());
    }
    cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])
}
