//! Runs cargo on this workspace, and prints each step with its duration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use hns_e2e::process::package_variables;

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs cargo with these arguments at the root and shows its output.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<()> {
    cargo_with(&[], arguments)
}

/// Like [`cargo`], with these variables set.
pub(crate) fn cargo_with<S: AsRef<OsStr>>(variables: &[(&str, &str)], arguments: &[S]) -> anyhow::Result<()> {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    let status = command.status().context("running cargo")?;
    if !status.success() {
        return failed(arguments);
    }
    Ok(())
}

/// Like [`cargo`], and returns its standard output.
pub(crate) fn cargo_says<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<String> {
    let mut command = command(arguments);
    let output = command.stderr(Stdio::inherit()).output().context("running cargo")?;
    if !output.status.success() {
        return failed(arguments);
    }
    String::from_utf8(output.stdout).context("reading what cargo says")
}

/// The cargo that runs this program.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}

fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(root());
    for name in package_variables() {
        command.env_remove(name);
    }
    command
}

fn failed<T, S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<T> {
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    bail!("`cargo {}` failed", words.join(" "))
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has(name: &str) -> bool {
    let output = Command::new("cargo").args([name, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a step, and prints its name and duration.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    eprintln!("== {name}");
    let began = Instant::now();
    let outcome = work().with_context(|| format!("step {name:?}"))?;
    eprintln!("== {name}: {:.1} s", began.elapsed().as_secs_f32());
    Ok(outcome)
}

/// Builds only the product's programs: this executable must not be replaced while it runs.
pub(crate) fn build_binaries() -> anyhow::Result<()> {
    cargo(&[
        "build",
        "--workspace",
        "--bin",
        "hns-webhook",
        "--bin",
        "hns-controller",
        "--bin",
        "kubectl-hns",
    ])
}
