//! A sandbox for a node on this machine: its own network, mounts and processes, which end with its first process. The running
//! test runs itself again in it.
//!
//! The network has no way out: loopback, and a bridge `eth0` with the node's address and no other devices.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::{ADDRESS, images::Images};
use crate::cgroups::Cgroup;
use crate::cleanup;
use crate::process::{Exit, Process, ProcessSpec};

/// The parts of a sandbox.
const UNSHARE: [&str; 8] = [
    "--mount",
    "--propagation=private",
    "--net",
    "--pid",
    "--fork",
    // All its processes end with it.
    "--kill-child",
    "--mount-proc",
    "--ipc",
];

/// What kube-proxy and the pods' network need from the kernel, tried with one rule and one pair of devices.
const PROBE: &str = "
iptables -w 5 -t nat -A POSTROUTING -m comment --comment probe -m conntrack --ctstate NEW -j MASQUERADE
ip link add probe0 type veth peer name probe1
mkdir /run/probe
mount -t tmpfs tmpfs /run/probe
";

/// Set inside, to the sandbox's directory.
const VARIABLE: &str = "HNS_NODE_SANDBOX";

const POLL: Duration = Duration::from_millis(100);

/// Settings of the kernel, not of a network, that a kubelet sets; inside, they look as it wants them, and the machine's stay.
const KERNEL: [(&str, u32); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// Creates all parts of a sandbox, and removes them. An error names the part that cannot be created.
pub(super) fn probe() -> anyhow::Result<()> {
    let _cgroup = Cgroup::create(&format!("hns-node-probe-{}", process::id()))?;
    let arguments = ["sh", "-c", &script(), "sh", "sh", "-ec", PROBE];
    let output = process::Command::new("unshare").args(UNSHARE).args(arguments).output();
    let output = output.context("running unshare")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}

/// A sandbox as seen from inside.
#[derive(Debug)]
pub struct Inside {
    directory: PathBuf,
}

impl Inside {
    /// The sandbox that this process runs in, if it does.
    pub fn current() -> Option<Self> {
        env::var_os(VARIABLE).map(|directory| Self { directory: directory.into() })
    }

    /// The images that were given to [`run`].
    pub fn images(&self) -> anyhow::Result<Images> {
        Images::read(&self.directory)
    }

    /// The name of the sandbox's cgroup.
    pub(super) fn cgroup(&self) -> &str {
        cgroup(&self.directory)
    }
}

/// The directory of a sandbox. It is removed when this value is dropped or this process ends in any way, and so are the cgroups
/// of the sandbox.
#[derive(Debug)]
pub struct Sandbox {
    directory: TempDir,
    _cgroup: Cgroup,
}

impl Sandbox {
    /// Creates the directory; starts nothing.
    pub fn new() -> anyhow::Result<Self> {
        let directory = cleanup::temporary_directory("hns-node-")?;
        let cgroup = Cgroup::create(cgroup(directory.path()))?;
        Ok(Self { directory, _cgroup: cgroup })
    }

    /// The directory for images and other files that are needed inside.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs one test of the running test executable again, in the sandbox, and shows its output. Fails if it does not pass within
    /// `timeout`.
    pub async fn run(&self, test: &str, timeout: Duration) -> anyhow::Result<()> {
        let process = Process::spawn(self.specification(test)?)?;
        let mut shown = 0;
        let deadline = tokio::time::Instant::now() + timeout;
        let exit = loop {
            let exit = process.exit();
            show(&process, &mut shown)?;
            match exit {
                Some(exit) => break exit,
                None if tokio::time::Instant::now() > deadline => {
                    bail!("{test} still runs after {timeout:?}")
                }
                None => tokio::time::sleep(POLL).await,
            }
        };
        anyhow::ensure!(exit == Exit::Code(0), "{test} in the sandbox: {exit}");
        Ok(())
    }

    fn specification(&self, test: &str) -> anyhow::Result<ProcessSpec> {
        let directory = self.directory().to_owned();
        let executable = env::current_exe().context("finding the running executable")?;
        let mut args: Vec<std::ffi::OsString> = UNSHARE.iter().map(Into::into).collect();
        args.extend(["sh", "-c"].map(Into::into));
        args.push(script().into());
        args.extend(["sh".into(), executable.into()]);
        args.extend(["--include-ignored", "--exact", test, "--nocapture"].map(Into::into));
        Ok(ProcessSpec {
            name: "the sandbox".into(),
            program: "unshare".into(),
            args,
            env: vec![
                (VARIABLE.into(), directory.clone().into()),
                // Files that remain when an inner process is killed are removed with the rest.
                ("TMPDIR".into(), directory.clone().into()),
            ],
            log: directory.join("sandbox.log"),
            directory,
            grace: Duration::ZERO,
        })
    }
}

/// The directory's own name, which is unique on this machine.
fn cgroup(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("hns-node")
}

/// The script of the first process in a sandbox: sets up, runs its arguments, and adopts orphans until they end.
fn script() -> String {
    let setting = |(index, (name, value)): (usize, &(&str, u32))| {
        format!("echo {value} >/run/kernel-{index}; mount --bind /run/kernel-{index} /proc/sys/{name}\n")
    };
    let kernel = KERNEL.iter().enumerate().map(setting).collect::<Vec<_>>().concat();
    format!(
        "set -e
ip link set lo up
ip link add eth0 type bridge
ip address add {ADDRESS}/24 dev eth0
ip link set eth0 up
ip route add default dev eth0
echo 1 >/proc/sys/net/ipv4/ip_forward
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/log /var/log
mount --bind /run/log /var/log
{kernel}mount --make-rshared /
\"$@\" &
wait $!
"
    )
}

fn show(process: &Process, shown: &mut usize) -> anyhow::Result<()> {
    let log = process.log();
    if let Some(new) = log.get(*shown..) {
        io::stderr().write_all(new.as_bytes())?;
        *shown = log.len();
    }
    Ok(())
}
