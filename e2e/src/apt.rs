//! Calls of `apt-get` that ask no questions and are repeated when a mirror fails.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

/// How often a call is repeated.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(10);

/// apt-get also repeats each transfer, limits its time, and waits for another user of the package manager.
const OPTIONS: [&str; 4] = [
    "--option=Acquire::Retries=2",
    "--option=Acquire::http::Timeout=30",
    "--option=Acquire::https::Timeout=30",
    "--option=DPkg::Lock::Timeout=120",
];

/// Runs `apt-get` with these arguments in `directory`, with fresh package lists where possible.
///
/// # Errors
/// All output, after the last attempt.
pub(crate) fn apt_get(arguments: &[&str], directory: &Path) -> anyhow::Result<()> {
    let mut said = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        // Old lists may be good enough.
        for (arguments, decides) in [(&["update"][..], false), (arguments, true)] {
            match call(arguments, directory)? {
                None if decides => return Ok(()),
                None => {}
                Some(complaint) => _ = writeln!(said, "apt-get {}: {complaint}", arguments.join(" ")),
            }
        }
    }
    bail!("{}", said.trim())
}

/// The error output of a failed call.
fn call(arguments: &[&str], directory: &Path) -> anyhow::Result<Option<String>> {
    let output = Command::new("apt-get")
        .args(OPTIONS)
        .args(arguments)
        .current_dir(directory)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("running apt-get")?;
    let complaint = || format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok((!output.status.success()).then(complaint))
}
