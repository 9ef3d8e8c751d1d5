//! Started programs: their pids, signals, exit status and logs. Nothing here belongs to an async runtime, so tests that each have
//! their own may share a process.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::cleanup;

const POLL: Duration = Duration::from_millis(10);

/// The programs connect to loopback only, without a proxy of the environment.
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

/// The variables in which cargo describes this process's own package. A cargo that is started here must not inherit them: build
/// scripts of dependencies read some of them, and it would build most of the dependencies again.
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
    /// Whether it ended by itself with a failure.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Code(code) if *code != 0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
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

/// A program to start, and its output file.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Its name in messages.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables added to this process's environment, without proxies.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its standard output and error, appended.
    pub log: PathBuf,
    /// The time between SIGTERM and SIGKILL when it is stopped; zero means SIGKILL at once.
    pub grace: Duration,
}

/// A running (or ended) program.
///
/// It is stopped when this value is dropped, and killed when this process ends in any way, SIGKILL included.
pub struct Process {
    spec: ProcessSpec,
    pid: Pid,
    child: Mutex<Child>,
}

impl Process {
    /// Starts the program. An error says why it could not be started at all.
    pub fn spawn(spec: ProcessSpec) -> anyhow::Result<Self> {
        let child = start(&spec).with_context(|| format!("starting {}", spec.name))?;
        Ok(Self { spec, pid: Pid::from_child(&child), child: Mutex::new(child) })
    }

    /// Its specification; [`Process::spawn`] with a clone starts it again.
    pub fn spec(&self) -> &ProcessSpec {
        &self.spec
    }

    /// The program's pid. The system may reuse it after [`Process::exit`] has returned the end.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal. Does nothing when the program has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let mut child = self.child();
        // The pid is not reused before the process is waited for.
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(self.pid, signal).with_context(|| format!("sending {signal:?} to {}", self.spec.name))
    }

    /// How it ended, or `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.child().try_wait().ok().flatten().map(Exit::from)
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
            tokio::time::sleep(POLL).await;
        }
    }

    /// Its whole output, from all runs with the same log file.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.spec.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last `lines` of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log(), lines)
    }

    /// Stops the program and waits for its end. Blocks for at most the grace period; a second call does nothing.
    pub fn stop(&self) {
        if !self.spec.grace.is_zero() {
            let deadline = Instant::now() + self.spec.grace;
            // A stopped process receives SIGTERM only after SIGCONT.
            let asked = self.signal(Signal::CONT).and_then(|()| self.signal(Signal::TERM));
            while asked.is_ok() && self.exit().is_none() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        let mut child = self.child();
        // An error means that it has ended.
        let _ = child.kill().and_then(|()| child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (pid {})", self.spec.name, self.pid())
    }
}

fn start(spec: &ProcessSpec) -> anyhow::Result<Child> {
    let log = File::options().create(true).append(true).open(&spec.log);
    let log = log.with_context(|| format!("opening {}", spec.log.display()))?;
    let mut command = Command::new(&spec.program);
    for variable in PROXY_VARIABLES {
        command.env_remove(variable);
    }
    command
        .args(&spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.directory)
        .process_group(cleanup::process_group()?)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command.spawn().with_context(|| spec.program.display().to_string())
}

pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
