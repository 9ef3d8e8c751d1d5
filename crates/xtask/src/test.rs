//! `cargo xtask test`: everything that must hold, from format to the real API server.
//!
//! The suites on the cluster come last, in one run of cargo, whose own lines close the output.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use hns_e2e::Programs;
use hns_e2e::node::requirements;
use hns_e2e::programs::NodePrograms;

use crate::cargo::{cargo, has, root, step};
use crate::generate;

const UNIT_TESTS: [&str; 4] = ["test", "--workspace", "--exclude", "hns-e2e"];

pub(crate) fn run(quick: bool) -> anyhow::Result<ExitCode> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
    })?;
    if step("generated files", || generate::run(true))? != ExitCode::SUCCESS {
        eprintln!("generated files are stale; `cargo xtask gen` writes them");
        return Ok(ExitCode::FAILURE);
    }
    step("dependencies", dependencies)?;
    if quick {
        cargo(&UNIT_TESTS)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Tests and binaries in one build share their dependencies; apart, most of them would be compiled twice.
    step("building tests and binaries", || cargo(&["build", "--workspace", "--all-targets"]))?;
    step("unit and property tests", || cargo(&UNIT_TESTS))?;
    step("the control plane's programs", || Programs::find_or_build().map(drop))?;
    let node = node_is_asked_for();
    if node {
        step("the node's programs", node_programs)?;
    }
    eprintln!("== tests on a real API server");
    cargo(&cluster_suites(node)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The suite that takes a node, and so half as long again as all the others. It is run when it is asked for.
const NODE: &str = "node";

fn node_is_asked_for() -> bool {
    let asked = std::env::var_os("HNS_NODE").is_some();
    if !asked {
        eprintln!(
            "the suite on a real node is left out; `cargo xtask node` runs it, and so does HNS_NODE=try here"
        );
    }
    asked
}

/// Those of the suite `node`, which says itself why it cannot run where it cannot.
fn node_programs() -> anyhow::Result<()> {
    if requirements::check(requirements::required()).is_ok() {
        NodePrograms::find_or_build()?;
        Programs::helm()?;
    }
    Ok(())
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

/// Every suite in `e2e/tests`, the one on a `node` if wanted, run with the features of the whole workspace.
fn cluster_suites(node: bool) -> anyhow::Result<Vec<String>> {
    let mut suites = Vec::new();
    for entry in fs::read_dir(root().join("e2e/tests")).context("e2e/tests")? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "rs") {
            suites.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    suites.retain(|suite| node || suite != NODE);
    suites.sort();
    let chosen = suites.into_iter().flat_map(|suite| ["--test".to_owned(), suite]);
    Ok(["test", "--workspace"].map(str::to_owned).into_iter().chain(chosen).collect())
}
