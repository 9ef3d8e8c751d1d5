//! Prometheus and promtool: from the search path or, with apt, from Debian's package unpacked into the cache. Never installs
//! anything into the system.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::{cache_directory, say};
use crate::apt::apt_get;

const PACKAGE: &str = "prometheus";

/// The two programs, of one version.
#[derive(Debug, Clone)]
pub struct Prometheus {
    /// The server.
    pub server: PathBuf,
    /// The checker of metrics and rules.
    pub promtool: PathBuf,
}

impl Prometheus {
    /// Finds them on the search path or in the cache, or fetches them with apt. Blocks.
    ///
    /// # Errors
    /// They cannot be found or fetched; the message says what to install.
    pub fn find_or_fetch() -> anyhow::Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        if let Some(found) = env::split_paths(&path).find_map(|directory| Self::within(&directory)) {
            return Ok(found);
        }
        let directory = cache_directory()?.join("prometheus");
        let programs = directory.join("usr/bin");
        if let Some(found) = Self::within(&programs) {
            return Ok(found);
        }
        fetch(&directory).context(
            "prometheus and promtool are not there and could not be fetched; install them (Debian: `apt-get install prometheus`)",
        )?;
        Self::within(&programs)
            .with_context(|| format!("Debian's package {PACKAGE} does not hold both programs"))
    }

    fn within(directory: &Path) -> Option<Self> {
        let found = Self { server: directory.join("prometheus"), promtool: directory.join("promtool") };
        (found.server.is_file() && found.promtool.is_file()).then_some(found)
    }
}

/// Unpacks the package as `directory`. Concurrent processes fetch once.
fn fetch(directory: &Path) -> anyhow::Result<()> {
    let cache = directory.parent().context("a cache without a place")?;
    fs::create_dir_all(cache)?;
    let lock = File::create(cache.join(".prometheus.lock"))?;
    lock.lock().context("waiting for another process that fetches Prometheus")?;
    if directory.is_dir() {
        return Ok(());
    }
    say("fetching Prometheus with apt-get (once)");
    let unfinished = tempfile::Builder::new().prefix(".prometheus-").tempdir_in(cache)?;
    apt_get(&["download", PACKAGE], unfinished.path())?;
    let mut files = fs::read_dir(unfinished.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = files.find(|path| path.extension().is_some_and(|it| it == "deb"));
    let unpacked = unfinished.path().join("unpacked");
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(package.context("apt-get downloaded nothing")?)
        .arg(&unpacked))?;
    fs::rename(&unpacked, directory).context("putting Prometheus in place")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("running {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
