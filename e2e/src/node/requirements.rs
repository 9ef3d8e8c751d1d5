//! The requirements of a node on its machine: whether they are met, and the installation of Debian packages. Installs nothing
//! unless asked to.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::sandbox;
use crate::apt::apt_get;
use crate::cgroups;

/// Programs of the system, with their Debian packages.
const PROGRAMS: [(&str, &str); 6] = [
    ("buildah", "buildah"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("mount", "mount"),
    ("runc", "runc"),
    ("unshare", "util-linux"),
];
const CNI_PACKAGE: &str = "containernetworking-plugins";
const CNI_PLUGINS: [&str; 3] = ["host-local", "loopback", "ptp"];
const CNI_DIRECTORIES: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

const KERNEL_LOG: &str = "/dev/kmsg";
/// The bytes that a node needs in the directory for temporary files: three copies of its images, logs, and etcd's data.
const ROOM: u64 = 2 << 30;

/// Whether a machine that cannot run a node is a failure: `HNS_NODE` is `require`.
pub fn required() -> bool {
    env::var_os("HNS_NODE").is_some_and(|value| value == "require")
}

/// Fails with one sentence about what this machine lacks; `install` first installs what Debian packages provide.
pub fn check(install: bool) -> anyhow::Result<()> {
    anyhow::ensure!(cfg!(target_os = "linux"), "a node runs on Linux only");
    anyhow::ensure!(rustix::process::geteuid().is_root(), "a node needs root");
    anyhow::ensure!(!cgroups::hierarchies().is_empty(), "no cgroups are mounted at /sys/fs/cgroup");
    let mut missing = missing_packages();
    if install && !missing.is_empty() && found("apt-get").is_some() {
        install_packages(&missing)?;
        missing = missing_packages();
    }
    if !missing.is_empty() {
        let packages = missing.join(" ");
        bail!(
            "missing are the Debian packages {packages} (`apt-get install --no-install-recommends {packages}`)"
        );
    }
    anyhow::ensure!(Path::new(KERNEL_LOG).exists(), "there is no {KERNEL_LOG}, which a kubelet reads");
    let room = free_room(&env::temp_dir())?;
    anyhow::ensure!(
        room >= ROOM,
        "{} has {} MiB free; a node takes {}",
        env::temp_dir().display(),
        room >> 20,
        ROOM >> 20
    );
    sandbox::probe().context("a node's network, mounts and control groups cannot be made")
}

/// The free bytes there.
fn free_room(directory: &Path) -> anyhow::Result<u64> {
    let found =
        rustix::fs::statvfs(directory).with_context(|| format!("looking at {}", directory.display()))?;
    Ok(found.f_bavail * found.f_frsize)
}

/// The directory of the CNI plugins.
pub(super) fn cni_plugins() -> anyhow::Result<PathBuf> {
    let mut directories = CNI_DIRECTORIES.iter().map(Path::new);
    let complete = |directory: &&Path| CNI_PLUGINS.iter().all(|plugin| directory.join(plugin).is_file());
    directories.find(complete).map(Path::to_owned).context("no directory has all CNI plugins")
}

fn missing_packages() -> Vec<&'static str> {
    let programs = PROGRAMS.iter().filter(|(program, _)| found(program).is_none());
    let mut packages: Vec<_> = programs.map(|(_, package)| *package).collect();
    if cni_plugins().is_err() {
        packages.push(CNI_PACKAGE);
    }
    packages
}

fn found(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

fn install_packages(packages: &[&str]) -> anyhow::Result<()> {
    eprintln!("hns: installing {}", packages.join(" "));
    let install = ["install", "--yes", "--no-install-recommends"];
    let arguments: Vec<&str> = install.into_iter().chain(packages.iter().copied()).collect();
    apt_get(&arguments, Path::new("/")).context("packages of Debian's cannot be installed")
}
