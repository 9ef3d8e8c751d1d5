//! Running cargo on this workspace. Says what runs and how long it took; knows nothing of what it is for.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// The checkout's top.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs cargo with these arguments in the checkout, showing what it prints.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<()> {
    cargo_with(&[], arguments)
}

/// As [`cargo`], with these variables set.
pub(crate) fn cargo_with<S: AsRef<OsStr>>(variables: &[(&str, &str)], arguments: &[S]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).envs(variables.iter().copied()).current_dir(root());
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect();
    let status = command.status().context("running cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed", words.join(" "));
    }
    Ok(())
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has(name: &str) -> bool {
    let output = Command::new("cargo").args([name, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Announces a step, makes it, and says how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    eprintln!("== {name}");
    let began = Instant::now();
    let outcome = work().with_context(|| format!("step {name:?}"))?;
    eprintln!("== {name}: {:.1} s", began.elapsed().as_secs_f32());
    Ok(outcome)
}

/// Builds the product's two binaries, and nothing else: this program itself must not be replaced while it runs.
pub(crate) fn build_binaries() -> anyhow::Result<()> {
    cargo(&["build", "--workspace", "--bin", "hns-webhook", "--bin", "hns-controller"])
}
