//! Control groups by name, in every hierarchy of this machine: made, and removed with all below them. Ends no process.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

const ROOT: &str = "/sys/fs/cgroup";

/// Where the hierarchies are mounted: one place for each controller (version 1), or one for all (version 2). Links to
/// such a place do not count. Empty where there are none.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    own.map(|entry| entry.path()).filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Makes an empty cgroup of this name in every hierarchy.
pub(crate) fn create(name: &str) -> anyhow::Result<()> {
    for hierarchy in hierarchies() {
        let path = hierarchy.join(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    Ok(())
}

/// Removes the cgroups of this name with all below them, trying again until `deadline` while processes in them end.
/// None there is no error.
pub(crate) fn remove(name: &OsStr, deadline: Instant) -> anyhow::Result<()> {
    for hierarchy in hierarchies() {
        let path = hierarchy.join(name);
        while let Err(error) = remove_tree(&path) {
            anyhow::ensure!(Instant::now() < deadline, "removing {}: {error}", path.display());
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The files in a cgroup go with it and cannot be removed, so this is not [`fs::remove_dir_all`].
fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}
