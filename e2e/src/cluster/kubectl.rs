//! Calls of kubectl, as the cluster's administrator by default. Never uses the home directory of the user who runs the tests.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::command::{Command, Output};
use crate::wait::eventually;

/// The error of `kubectl wait` for conditions that are null.
const CONDITIONS_ARE_NULL: &str = ".status.conditions accessor error: <nil>";

/// One call of kubectl, built up and then run.
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run` or `ok`"]
pub struct Kubectl(Command);

impl Kubectl {
    pub(crate) fn new(program: &Path, kubeconfig: &Path, cache: &Path) -> Self {
        let leading = [OsStr::new("--kubeconfig"), kubeconfig.as_ref()];
        Self(Command::new("kubectl", program, leading).env("KUBECACHEDIR", cache))
    }

    /// Acts as this user with exactly these groups (`system:authenticated` is added).
    pub fn as_user(self, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().flat_map(|group| ["--as-group", *group]);
        self.args(["--as", user]).args(groups)
    }

    /// Adds arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self(self.0.args(args))
    }

    /// Sets its standard input, for `-f -`.
    pub fn stdin(self, text: impl Into<String>) -> Self {
        Self(self.0.stdin(text))
    }

    /// Runs it to its end. A failure of kubectl is no error; see [`Kubectl::ok`].
    pub async fn run(self) -> anyhow::Result<Output> {
        self.0.run().await
    }

    /// Runs it and returns its standard output; a failure is an error with all its output.
    pub async fn ok(self) -> anyhow::Result<String> {
        self.0.ok().await
    }

    /// Waits up to a minute until these definitions are established, and returns the output.
    ///
    /// `kubectl wait` fails if a definition has just been created and its conditions are still null; then it is repeated.
    pub async fn established(
        self,
        definitions: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> anyhow::Result<String> {
        let wait = self.args(["wait", "--for=condition=Established", "--timeout=60s"]).args(definitions);
        let asked = async || match wait.clone().run().await {
            Ok(output) if output.stderr.contains(CONDITIONS_ARE_NULL) => Err(output.stderr),
            other => Ok(other),
        };
        // A little longer than the timeout of kubectl, whose message names what is missing.
        let output = eventually("definitions are established", Duration::from_secs(70), asked).await??;
        anyhow::ensure!(output.status.success(), "kubectl wait: {output}");
        Ok(output.stdout)
    }
}
