//! Programs and directories that must not outlive this process. A shell removes them, also when this process is killed.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;
use tempfile::TempDir;

/// If set, the directories of ended clusters are kept, for their logs.
const KEEP_VARIABLE: &str = "HNS_E2E_KEEP";

/// Waits for the end of its input, which comes when this process ends in any way. Then it kills the process group `$1` and
/// removes the directories that it has read, for up to 20 s while processes end. Files in control groups cannot be removed.
const SCRIPT: &str = r#"
directories=$(cat)
kill -s KILL -- "-$1"
printf '%s\n' "$directories" | while read -r directory; do
    tries=200
    while [ -e "$directory" ] && [ $tries -gt 0 ]; do
        case $directory in
            /sys/*) find "$directory" -depth -type d -exec rmdir {} ';' ;;
            *) rm -rf -- "$directory" ;;
        esac 2>/dev/null || sleep 0.1
        tries=$((tries - 1))
    done
done
"#;

/// The shell, and the process group that it kills.
struct Cleanup {
    /// Keeps the process group alive; it does nothing else.
    leader: Child,
    directories: Mutex<ChildStdin>,
}

impl Cleanup {
    /// The one of this process, started on first use.
    fn get() -> anyhow::Result<&'static Self> {
        static CLEANUP: OnceLock<Result<Cleanup, String>> = OnceLock::new();
        let started = CLEANUP.get_or_init(|| Self::start().map_err(|error| error.to_string()));
        started.as_ref().map_err(|error| anyhow::anyhow!("starting the shell that cleans up: {error}"))
    }

    fn start() -> io::Result<Self> {
        // In groups of their own, so that Ctrl-C at a terminal does not reach them.
        let leader = Command::new("tail")
            .args(["-f", "/dev/null"])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "sh", &leader.id().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let directories = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { leader, directories: Mutex::new(directories) })
    }
}

/// The process group whose members are killed when this process ends.
pub(crate) fn process_group() -> anyhow::Result<i32> {
    Ok(Cleanup::get()?.leader.id().try_into()?)
}

/// Removes a directory when this process ends, if it still exists then.
pub(crate) fn remove_at_end(directory: &Path) -> anyhow::Result<()> {
    let mut directories = Cleanup::get()?.directories.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(directories, "{}", directory.display()).context("writing to the shell that cleans up")
}

/// A new directory, removed when the value is dropped or this process ends.
pub(crate) fn temporary_directory(prefix: &str) -> anyhow::Result<TempDir> {
    let mut directory = tempfile::Builder::new().prefix(prefix).tempdir()?;
    if env::var_os(KEEP_VARIABLE).is_some() {
        directory.disable_cleanup(true);
        eprintln!("hns: {} is kept, as {KEEP_VARIABLE} asks", directory.path().display());
    } else {
        remove_at_end(directory.path())?;
    }
    Ok(directory)
}
