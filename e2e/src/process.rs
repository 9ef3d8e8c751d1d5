//! Programs started under a guard: their pids, signals, exit status and logs. Never waits on a runtime and never holds
//! anything of one, so a process may be shared by tests that each have a runtime of their own.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::guard;

/// The programs speak to loopback only; a proxy of the surrounding environment must not come between.
pub const PROXY_VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// The variables by which cargo tells this process of its own package. A cargo that is started here must not inherit them:
/// build scripts of dependencies look at some, and it would build most of the dependencies anew.
pub fn package_variables() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    })
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal number.
    Signal(i32),
}

impl Exit {
    /// Whether it ended by itself and not well.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Code(code) if *code != 0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(formatter, "exit code {code}"),
            Exit::Signal(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

/// What to start, and where its output goes.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// What messages call it.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables added to this process's environment, from which proxies have been removed.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory, which a keeper removes only after the process has ended.
    pub directory: PathBuf,
    /// Its standard output and error, appended.
    pub log: PathBuf,
    /// The time between SIGTERM and SIGKILL when it is stopped; zero means SIGKILL at once. Whole seconds.
    pub grace: Duration,
}

/// A running (or ended) program under a guard.
///
/// It is stopped when this value is dropped, and also when this process ends in any way, SIGKILL included.
pub struct Process {
    spec: ProcessSpec,
    pid: Pid,
    hold: Hold,
    exit: Arc<OnceLock<Exit>>,
}

impl Process {
    /// Starts the program. An error says why the program could not be started at all.
    pub fn spawn(spec: ProcessSpec) -> anyhow::Result<Self> {
        let (hold, output, pid) = start(&spec).with_context(|| format!("starting {}", spec.name))?;
        let exit = Arc::new(OnceLock::new());
        let told = Arc::clone(&exit);
        thread::spawn(move || listen(output, &told));
        Ok(Self { spec, pid, hold, exit })
    }

    /// What it was started from; [`Process::spawn`] with a clone starts it again.
    pub fn spec(&self) -> &ProcessSpec {
        &self.spec
    }

    /// The program's own pid (not the guard's). It means no other process for as long as this value lives.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal. Nothing happens when the program has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let hold = self.hold.lock();
        if hold.released() {
            return Ok(());
        }
        // The guard keeps the child unreaped while it is held, so this pid is still ours.
        kill_process(self.pid, signal).with_context(|| format!("sending {signal:?} to {}", self.spec.name))
    }

    /// How it ended, or nothing while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// Waits until the program has ended by itself or by a signal; an error after `timeout`.
    pub async fn wait_exit(&self, timeout: Duration) -> anyhow::Result<Exit> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(exit) = self.exit() {
                return Ok(exit);
            }
            if Instant::now() > deadline {
                bail!("{} still runs after {timeout:?}", self.spec.name);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything it has written, from all runs that used the same log file.
    pub fn log(&self) -> String {
        read_lossy(&self.spec.log)
    }

    /// The last `lines` of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log(), lines)
    }

    /// Lets the program go without waiting for its end: it gets SIGTERM, then SIGKILL after its grace period.
    pub fn release(&self) {
        self.hold.lock().stdin = None;
    }

    /// Stops the program and waits for its end. Blocks for the grace period at most; a second call does nothing.
    pub fn stop(&self) {
        self.hold.end();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (pid {})", self.spec.name, self.pid())
    }
}

/// A guard that removes a directory once every process in it has ended, at the latest when this process ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    hold: Hold,
    directory: PathBuf,
}

impl Keeper {
    pub(crate) fn start(directory: &Path) -> anyhow::Result<Self> {
        Self::start_with(directory, None)
    }

    /// A keeper that in the end also removes the cgroups of this name, in every hierarchy, with all below them.
    pub(crate) fn start_with(directory: &Path, cgroup: Option<&str>) -> anyhow::Result<Self> {
        let mut command = guard::command()?;
        if let Some(cgroup) = cgroup {
            command.args(["--cgroup", cgroup]);
        }
        command.arg("--remove").arg(directory);
        let (hold, _, first) = Hold::start(&mut command, Stdio::inherit())?;
        anyhow::ensure!(first == "ready", "the guard said {first:?}");
        let directory = directory.to_owned();
        Ok(Self { hold, directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits for the processes in the directory and for its removal.
    pub(crate) fn end(&self) {
        self.hold.end();
    }
}

/// A running guard and the pipe by which it knows that it is still wanted. Ended when dropped.
#[derive(Debug)]
struct Hold(Mutex<Held>);

#[derive(Debug)]
struct Held {
    guard: Child,
    stdin: Option<ChildStdin>,
}

impl Held {
    fn released(&self) -> bool {
        self.stdin.is_none()
    }
}

impl Hold {
    /// Starts a guard; returns it with its output and the first line of that.
    fn start(command: &mut Command, stderr: Stdio) -> anyhow::Result<(Self, BufReader<ChildStdout>, String)> {
        let mut guard = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .context("starting the guard")?;
        let stdin = guard.stdin.take();
        let output = guard.stdout.take().context("the guard has no output")?;
        let hold = Self(Mutex::new(Held { guard, stdin }));
        let mut output = BufReader::new(output);
        let mut first = String::new();
        output.read_line(&mut first)?;
        Ok((hold, output, first.trim().to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut held = self.lock();
        held.stdin = None;
        let _ = held.guard.wait();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a guard and its program; returns the guard, what it will say next, and the program's pid.
fn start(spec: &ProcessSpec) -> anyhow::Result<(Hold, BufReader<ChildStdout>, Pid)> {
    let mut command = guard::command()?;
    command.arg("--in").arg(&spec.directory);
    command.arg("--grace").arg(spec.grace.as_secs().to_string());
    command.arg("--").arg(&spec.program).args(&spec.args);
    for variable in PROXY_VARIABLES {
        command.env_remove(variable);
    }
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    let log = File::options().create(true).append(true).open(&spec.log);
    let log = log.with_context(|| format!("opening {}", spec.log.display()))?;
    let (hold, output, first) = Hold::start(&mut command, log.into())?;
    let pid = first.strip_prefix("pid ").and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    match pid {
        Some(pid) => Ok((hold, output, pid)),
        None => bail!("the guard said {first:?}"),
    }
}

/// Reads what the guard says until the guard ends.
fn listen(mut output: BufReader<ChildStdout>, exit: &OnceLock<Exit>) {
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(status) = parse_exit(line.trim()) {
            let _ = exit.set(status);
        }
        line.clear();
    }
}

fn parse_exit(line: &str) -> Option<Exit> {
    let (kind, number) = line.strip_prefix("exited ")?.split_once(' ')?;
    let number = number.parse().ok()?;
    match kind {
        "code" => Some(Exit::Code(number)),
        "signal" => Some(Exit::Signal(number)),
        _ => None,
    }
}

fn read_lossy(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
