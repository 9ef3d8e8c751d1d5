//! `cargo xtask node`: runs the tests on a real node. Installs missing Debian packages; fails if a node cannot run.

use std::process::ExitCode;

use crate::cargo::cargo_with;

/// Makes a node that cannot run a failure.
const REQUIRE: (&str, &str) = ("HNS_NODE", "require");

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    cargo_with(&[REQUIRE], &["test", "--workspace", "--test", "node", "--", "--ignored", "--nocapture"])?;
    Ok(ExitCode::SUCCESS)
}
