//! `cargo xtask test`: everything that must hold, from format to the real API server.
//!
//! The unit tests and the suites on the cluster come last, some at a time; what they came to closes the output.

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

/// So many suites at a time do not disturb each other's measurements, however many cores there are.
const AT_MOST: usize = 2;

/// What to test.
#[derive(Args)]
pub(crate) struct Options {
    /// Leave out what needs a cluster.
    #[arg(long, conflicts_with_all = ["full", "suites", "jobs"])]
    quick: bool,
    /// Then run the suites that depend on Kubernetes most once more, on the oldest that is supported.
    #[arg(long)]
    full: bool,
    /// Run nothing but this suite: a file in e2e/tests, `unit` for all unit and property tests, or `e2e` for those of the
    /// test cluster itself. May be given several times.
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Run so many suites at a time [default: as many as there are cores, and 2 at most].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let wanted = |suite: &str| options.suites.is_empty() || options.suites.iter().any(|it| it == suite);
    // Before anything that takes long: where a node is required and cannot be, all of it would be in vain.
    let node = !options.quick && wanted(NODE);
    let obstacle = if node { step("whether there can be a node", node_obstacle)? } else { None };
    if options.suites.is_empty() && !sources_are_in_order()? {
        return Ok(ExitCode::FAILURE);
    }
    if options.quick {
        cargo(&UNIT_TESTS)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Tests and binaries in one build share their dependencies; apart, most of them would be compiled twice.
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
        jobs.extend(suites::on_the_oldest(&jobs));
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

/// What can be said without running anything: format, lints, generated files, dependencies.
fn sources_are_in_order() -> anyhow::Result<bool> {
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

/// The suite on a real node.
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
