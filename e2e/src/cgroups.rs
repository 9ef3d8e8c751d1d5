//! Control groups by name, in every hierarchy of this machine: made, and removed with all below them; and limits to what
//! processes may use of the processors. Ends no process.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::process::Keeper;

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
    own.map(|entry| entry.path()).filter(|path| path.join(PROCESSES).exists()).collect()
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

/// The period over which a share of the processors is counted, in microseconds: the one that Kubernetes uses.
const PERIOD: u32 = 100_000;

/// A limit to what processes may use of the processors together, as a container's `limits.cpu` is one. When it is dropped, who
/// was in it goes on without it. Its cgroups go then, or when this process has ended in any way and so have those in it.
#[derive(Debug)]
pub struct CpuLimit {
    keeper: Keeper,
}

impl CpuLimit {
    /// A limit of so many thousandths of a processor, with nobody in it. Needs root.
    pub fn new(thousandths: u32) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("hns-limit-").tempdir()?;
        let keeper = Keeper::start_with(directory.path(), Some(name(directory.path())))?;
        // From here on the keeper removes it.
        let _ = directory.keep();
        let limit = Self { keeper };
        create(name(limit.keeper.directory()))?;
        limit.set(thousandths * (PERIOD / 1000))?;
        Ok(limit)
    }

    /// Moves a process into it, with all its threads.
    pub fn hold(&self, pid: i32) -> anyhow::Result<()> {
        let path = self.path()?.join(PROCESSES);
        fs::write(&path, pid.to_string()).with_context(|| format!("writing {pid} to {}", path.display()))
    }

    fn set(&self, quota: u32) -> anyhow::Result<()> {
        let path = self.path()?;
        let files = if path.join(VERSION_1).exists() {
            vec![("cpu.cfs_period_us", PERIOD.to_string()), (VERSION_1, quota.to_string())]
        } else {
            fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+cpu").context("enabling limits")?;
            vec![("cpu.max", format!("{quota} {PERIOD}"))]
        };
        for (file, content) in files {
            fs::write(path.join(file), content).with_context(|| format!("writing {file}"))?;
        }
        Ok(())
    }

    /// Where the limit is: in the one hierarchy, or in the one of the processors.
    fn path(&self) -> anyhow::Result<PathBuf> {
        let all = hierarchies();
        let only = all.len() == 1;
        let mut paths = all.into_iter().map(|path| path.join(name(self.keeper.directory())));
        paths.find(|path| only || path.join(VERSION_1).exists()).context("no cgroups for processors")
    }
}

/// A cgroup goes only when nobody is in it.
impl Drop for CpuLimit {
    fn drop(&mut self) {
        let Ok(path) = self.path() else { return };
        let inside = fs::read_to_string(path.join(PROCESSES)).unwrap_or_default();
        let outside = path.parent().unwrap_or(&path).join(PROCESSES);
        for pid in inside.lines() {
            // One that has just ended is gone already.
            let _ = fs::write(&outside, pid);
        }
    }
}

const PROCESSES: &str = "cgroup.procs";

/// The file of a cgroup of version 1 with the limit.
const VERSION_1: &str = "cpu.cfs_quota_us";

/// The cgroups are called as the directory that their keeper keeps.
fn name(directory: &Path) -> &str {
    directory.file_name().and_then(OsStr::to_str).unwrap_or_default()
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
