//! The shutdown of the process.
//!
//! Turns signals into one event that every part can wait for. It ends no part itself; only the second signal ends the process.

use std::{io, sync::Arc};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// Tells the parts of a process to end. Clones share the state.
#[derive(Clone, Debug)]
pub struct Shutdown {
    draining: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A shutdown that only [`Shutdown::begin`] begins.
    pub fn new() -> Self {
        Self { draining: Arc::new(watch::Sender::new(false)) }
    }

    /// A shutdown that the first SIGTERM or SIGINT begins. The second one ends the process at once, with exit code 1.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let first = shutdown.clone();
        tokio::spawn(async move {
            let name = either(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = name, "shutting down");
            first.begin();
            let name = either(&mut terminate, &mut interrupt).await;
            tracing::error!(signal = name, "second signal: ending at once");
            std::process::exit(1);
        });
        Ok(shutdown)
    }

    /// A shutdown that begins with this one, or earlier on its own.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        let (parent, own) = (self.clone(), child.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = parent.begun() => own.begin(),
                () = own.begun() => {}
            }
        });
        child
    }

    /// Begins the shutdown. Any further call changes nothing.
    pub fn begin(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the shutdown has begun.
    pub fn has_begun(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until the shutdown begins.
    pub async fn begun(&self) {
        let mut draining = self.draining.subscribe();
        // Cannot fail: `self` keeps the sender.
        let _ = draining.wait_for(|draining| *draining).await;
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
        time::Duration,
    };

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Set for the process that is to receive the signals.
    const CHILD: &str = "HNS_TEST_SHUTDOWN_CHILD";

    #[tokio::test]
    async fn begins_once_for_everybody() {
        let shutdown = Shutdown::new();
        assert!(!shutdown.has_begun());
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.begun().await }
        });
        shutdown.begin();
        shutdown.begin();
        waiting.await.unwrap();
        assert!(shutdown.has_begun());
    }

    #[test]
    fn the_first_signal_drains_and_the_second_aborts() {
        for signal in [Signal::TERM, Signal::INT] {
            let (mut child, mut lines) = child("patient");
            assert!(next(&mut lines).ends_with("waiting"));
            send(&child, signal);
            assert_eq!(next(&mut lines), "draining");
            send(&child, signal);
            assert_eq!(child.wait().unwrap().code(), Some(1));
        }
    }

    #[test]
    fn one_signal_lets_the_process_finish() {
        let (mut child, mut lines) = child("quick");
        assert!(next(&mut lines).ends_with("waiting"));
        send(&child, Signal::TERM);
        assert_eq!(next(&mut lines), "draining");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    fn child(manner: &str) -> (Child, impl Iterator<Item = String>) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shutdown::tests::as_child", "--nocapture", "--quiet"])
            .env(CHILD, manner)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        (child, stdout.lines().map(Result::unwrap))
    }

    fn next(lines: &mut impl Iterator<Item = String>) -> String {
        let ours = |line: &String| line.ends_with("waiting") || line == "draining";
        lines.find(ours).expect("the child ended early")
    }

    fn send(child: &Child, signal: Signal) {
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Does nothing in an ordinary run: the tests above start it in a process of its own.
    #[tokio::test]
    async fn as_child() {
        let Ok(manner) = std::env::var(CHILD) else {
            return;
        };
        let shutdown = Shutdown::on_signals().unwrap();
        println!("waiting");
        shutdown.begun().await;
        println!("draining");
        if manner == "patient" {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
}
