//! What stands between a started program and its starter, so that nothing outlives a test: the guard process.
//! It never looks for processes by name; it ends exactly the child it started.
//!
//! A guard runs in a process group of its own, so Ctrl-C at a terminal does not reach it. It reads its standard input,
//! which its starter holds open; the end of that input means that the starter has let go, panicked, or been killed.
//!
//! | Call | Does |
//! | --- | --- |
//! | `hns-guard --in DIR [--grace SECONDS] -- PROGRAM ARGS…` | starts PROGRAM in DIR, prints `pid N`, later `exited code N` or `exited signal N`; at the end of input stops it |
//! | `hns-guard [--cgroup NAME] --remove DIR` | prints `ready`; at the end of input waits for every guard in DIR, then removes the cgroups NAME and DIR |
//!
//! A stopped program gets SIGCONT and SIGTERM, and SIGKILL after the grace period (5 s, 0 = at once). The child stays
//! a zombie until the end of input, so its pid cannot come to mean another process while its starter may still signal it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::cgroups;

const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Set to anything, it keeps the directories of ended clusters, for their logs.
const KEEP_VARIABLE: &str = "HNS_E2E_KEEP";

/// How long a directory is retried that something still writes to.
const REMOVE_DEADLINE: Duration = Duration::from_secs(20);

/// The executable that is its own guard, and the arguments that make it one.
static REEXECUTED: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Makes the running executable its own guard: it must call [`main`] when started with these leading arguments.
///
/// For programs other than this package's tests (whose `hns-guard` cargo builds). Call it before anything is started;
/// later calls change nothing. It may be built anew afterwards.
pub fn reexecute(leading: &[&str]) {
    // Once its file has been replaced, the running executable has no name any more.
    if let Ok(current) = std::env::current_exe() {
        let _ = REEXECUTED.set((current, leading.iter().map(OsString::from).collect()));
    }
}

/// The command that starts a guard, without the guard's own arguments.
///
/// Fails when no guard can be found: neither [`reexecute`] was called nor is `hns-guard` beside the running
/// executable or one directory up.
pub(crate) fn command() -> anyhow::Result<Command> {
    if let Some((current, leading)) = REEXECUTED.get() {
        let mut command = Command::new(current);
        command.args(leading);
        return Ok(command);
    }
    let guard = beside("hns-guard")?
        .context("build it with `cargo build -p hns-e2e --bin hns-guard`")
        .context("there is no hns-guard beside the running executable or one directory up")?;
    Ok(Command::new(guard))
}

/// The executable of this name beside the running one or one directory up (tests run from `deps`).
pub(crate) fn beside(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let current = std::env::current_exe().context("finding the running executable")?;
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let mut directories = current.ancestors().skip(1).take(2);
    Ok(directories.find_map(|directory| Some(directory.join(&name)).filter(|path| path.is_file())))
}

/// Runs a guard to its end; `arguments` are those after the program's name (and after the leading ones of
/// [`reexecute`]).
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = parse(arguments).and_then(|task| match task {
        Task::Remove { directory, cgroup } => keep(&directory, cgroup.as_deref()),
        Task::Run { directory, grace, program } => run(&directory, grace, &program),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("failed {error:#}"));
            ExitCode::FAILURE
        }
    }
}

enum Task {
    Remove { directory: PathBuf, cgroup: Option<OsString> },
    Run { directory: PathBuf, grace: Duration, program: Vec<OsString> },
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<Task> {
    const USAGE: &str =
        "usage: hns-guard [--cgroup NAME] --remove DIR | --in DIR [--grace SECONDS] -- PROGRAM ARGS…";
    let mut arguments = arguments.into_iter();
    let mut directory = None;
    let mut cgroup = None;
    let mut grace = DEFAULT_GRACE;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--remove") => {
                let directory = arguments.next().context(USAGE)?.into();
                return Ok(Task::Remove { directory, cgroup });
            }
            Some("--cgroup") => cgroup = Some(arguments.next().context(USAGE)?),
            Some("--in") => directory = Some(arguments.next().context(USAGE)?.into()),
            Some("--grace") => {
                let seconds = arguments.next().context(USAGE)?;
                let seconds = seconds.to_str().and_then(|text| text.parse().ok());
                grace = Duration::from_secs(seconds.context(USAGE)?);
            }
            Some("--") => {
                let program: Vec<OsString> = arguments.collect();
                let directory = directory.filter(|_| !program.is_empty());
                return Ok(Task::Run { directory: directory.context(USAGE)?, grace, program });
            }
            _ => bail!(USAGE),
        }
    }
    bail!(USAGE)
}

/// Tells the starter something. That it may be gone is what this program is for, so a broken pipe is not an error.
fn report(line: &str) {
    let mut output = io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn wait_for_end_of_input() {
    let mut ignored = [0; 64];
    let mut input = io::stdin();
    loop {
        match input.read(&mut ignored) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn keep(directory: &Path, cgroup: Option<&OsStr>) -> anyhow::Result<()> {
    report("ready");
    wait_for_end_of_input();
    let lock = File::open(directory)?;
    // Every guard that runs a program here shares this lock until its program has ended.
    lock.lock()?;
    if let Some(name) = cgroup {
        cgroups::remove(name, Instant::now() + REMOVE_DEADLINE)?;
    }
    if std::env::var_os(KEEP_VARIABLE).is_some() {
        eprintln!("hns: {} is kept, as {KEEP_VARIABLE} asks", directory.display());
        return Ok(());
    }
    let deadline = Instant::now() + REMOVE_DEADLINE;
    loop {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Ok(()) if !directory.exists() => return Ok(()),
            Ok(()) | Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

enum Event {
    Released,
    Ended,
}

fn run(directory: &Path, grace: Duration, program: &[OsString]) -> anyhow::Result<()> {
    let lock = File::open(directory).with_context(|| format!("opening {}", directory.display()))?;
    lock.lock_shared()?;
    // Removed between the two lines above: a program started now could create it anew.
    anyhow::ensure!(directory.is_dir(), "{} is gone", directory.display());

    let mut child = start(directory, program)?;
    let pid = Pid::from_child(&child);
    report(&format!("pid {}", pid.as_raw_nonzero()));

    let (events, received) = mpsc::channel();
    watch_child(pid, events.clone());
    thread::spawn(move || {
        wait_for_end_of_input();
        let _ = events.send(Event::Released);
    });
    stop_when_released(pid, grace, &received)?;
    child.wait()?;
    drop(lock);
    Ok(())
}

fn start(directory: &Path, program: &[OsString]) -> anyhow::Result<Child> {
    let (name, arguments) = program.split_first().context("no program given")?;
    Command::new(name)
        .args(arguments)
        .current_dir(directory)
        .process_group(0)
        .stdin(Stdio::null())
        // The starter made this guard's standard error the program's log.
        .stdout(io::stderr())
        .spawn()
        .with_context(|| format!("starting {}", name.to_string_lossy()))
}

/// Reports the child's end without reaping it.
fn watch_child(pid: Pid, events: Sender<Event>) {
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match waitid(WaitId::Pid(pid), options) {
                Err(error) if error == rustix::io::Errno::INTR => {}
                other => break other.ok().flatten(),
            }
        };
        if let Some(status) = status {
            if let Some(code) = status.exit_status() {
                report(&format!("exited code {code}"));
            } else if let Some(signal) = status.terminating_signal() {
                report(&format!("exited signal {signal}"));
            }
        }
        let _ = events.send(Event::Ended);
    });
}

fn stop_when_released(pid: Pid, grace: Duration, events: &Receiver<Event>) -> anyhow::Result<()> {
    if let Event::Ended = events.recv()? {
        while !matches!(events.recv()?, Event::Released) {}
        return Ok(());
    }
    if !grace.is_zero() {
        // A stopped process would not see SIGTERM before the deadline.
        kill_process(pid, Signal::CONT)?;
        kill_process(pid, Signal::TERM)?;
        if events.recv_timeout(grace).is_ok() {
            return Ok(());
        }
    }
    kill_process(pid, Signal::KILL)?;
    events.recv()?;
    Ok(())
}
