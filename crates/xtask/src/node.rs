//! `cargo xtask node`: the tests on a real node alone. Installs Debian's packages that are missing; fails where a node cannot be.

use std::process::ExitCode;

use crate::cargo::cargo_with;

/// What makes "cannot run here" a failure.
const REQUIRE: (&str, &str) = ("HNS_NODE", "require");

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    cargo_with(&[REQUIRE], &["test", "--workspace", "--test", "node", "--", "--ignored", "--nocapture"])?;
    Ok(ExitCode::SUCCESS)
}
