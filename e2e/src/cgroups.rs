//! Control groups (cgroups) of this machine, and CPU limits for processes. Ends no process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::cleanup;

const ROOT: &str = "/sys/fs/cgroup";

const REMOVE_DEADLINE: Duration = Duration::from_secs(20);

/// The mount points of the hierarchies: one for each controller (version 1), or one for all (version 2). Symbolic links are left
/// out. Empty where there are none.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    own.map(|entry| entry.path()).filter(|path| path.join(PROCESSES).exists()).collect()
}

/// A cgroup of one name in every hierarchy. It is removed, with those below it, when this value is dropped or this process ends.
#[derive(Debug)]
pub(crate) struct Cgroup {
    paths: Vec<PathBuf>,
}

impl Cgroup {
    pub(crate) fn create(name: &str) -> anyhow::Result<Self> {
        let mut created = Self { paths: Vec::new() };
        for hierarchy in hierarchies() {
            let path = hierarchy.join(name);
            fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
            created.paths.push(path.clone());
            cleanup::remove_at_end(&path)?;
        }
        Ok(created)
    }
}

impl Drop for Cgroup {
    /// Processes in it may take a moment to end.
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVE_DEADLINE;
        for path in &self.paths {
            while let Err(error) = remove_tree(path) {
                if Instant::now() > deadline {
                    eprintln!("hns: {} stays: {error}", path.display());
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The period of a CPU limit, in microseconds: the one that Kubernetes uses.
const PERIOD: u32 = 100_000;

/// A CPU limit for all its processes together, like a container's `limits.cpu`. When it is dropped, the processes continue
/// without a limit.
#[derive(Debug)]
pub struct CpuLimit {
    cgroup: Cgroup,
}

impl CpuLimit {
    /// A limit in thousandths of a CPU, without processes. Needs root.
    pub fn new(thousandths: u32) -> anyhow::Result<Self> {
        let limit = Self { cgroup: Cgroup::create(&format!("hns-limit-{}", process::id()))? };
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

    /// The path of the limit: in the one hierarchy, or in that of the CPU controller.
    fn path(&self) -> anyhow::Result<&Path> {
        let paths = &self.cgroup.paths;
        let found = paths.iter().find(|path| paths.len() == 1 || path.join(VERSION_1).exists());
        found.map(PathBuf::as_path).context("no cgroups for processors")
    }
}

/// Only a cgroup without processes can be removed.
impl Drop for CpuLimit {
    fn drop(&mut self) {
        for path in &self.cgroup.paths {
            let inside = fs::read_to_string(path.join(PROCESSES)).unwrap_or_default();
            let outside = path.parent().unwrap_or(path).join(PROCESSES);
            for pid in inside.lines() {
                // A process that has just ended is no error.
                let _ = fs::write(&outside, pid);
            }
        }
    }
}

const PROCESSES: &str = "cgroup.procs";

/// The file of a cgroup of version 1 with the limit.
const VERSION_1: &str = "cpu.cfs_quota_us";

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
