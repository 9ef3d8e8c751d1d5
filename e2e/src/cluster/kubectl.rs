//! kubectl as a user would type it, with the cluster's administrator as the user unless another is named. Never touches
//! the home directory of whoever runs the tests.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::process::PROXY_VARIABLES;

/// One call of kubectl, built up and then run.
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run` or `ok`"]
pub struct Kubectl {
    program: PathBuf,
    cache: PathBuf,
    args: Vec<OsString>,
    stdin: String,
}

/// What a call of kubectl came to.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about; a refusal by the API server is here.
    pub stderr: String,
}

impl Kubectl {
    pub(crate) fn new(program: &Path, kubeconfig: &Path, cache: &Path) -> Self {
        Self {
            program: program.to_owned(),
            cache: cache.to_owned(),
            args: vec!["--kubeconfig".into(), kubeconfig.into()],
            stdin: String::new(),
        }
    }

    /// Acts as this user with exactly these groups (`system:authenticated` comes by itself).
    pub fn as_user(self, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().flat_map(|group| ["--as-group", *group]);
        self.args(["--as", user]).args(groups)
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Gives it this to read, for `-f -`.
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Runs it to its end. A failure of kubectl is not an error here; see [`Kubectl::ok`].
    pub async fn run(self) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env("KUBECACHEDIR", &self.cache)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for variable in PROXY_VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.spawn().context("starting kubectl")?;
        let mut input = child.stdin.take().context("kubectl has no input")?;
        let write = async move {
            // kubectl may end without having read everything; its own message then says why.
            let _ = input.write_all(self.stdin.as_bytes()).await;
            drop(input);
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), write);
        let output = output.context("waiting for kubectl")?;
        Ok(Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it and returns what it printed; an error with everything it said when it fails.
    pub async fn ok(self) -> anyhow::Result<String> {
        let shown: Vec<_> = self.args.iter().skip(2).map(|arg| arg.to_string_lossy()).collect();
        let shown = format!("kubectl {}", shown.join(" "));
        let output = self.run().await?;
        if !output.status.success() {
            bail!("{shown}: {output}");
        }
        Ok(output.stdout)
    }
}

impl Output {
    /// Whether kubectl succeeded.
    pub fn success(&self) -> bool {
        self.status.success()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}{}", self.status, self.stdout, self.stderr)
    }
}
