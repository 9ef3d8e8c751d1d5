//! One call of a client program, run to its end. Leaves nothing running.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::process;

use crate::process::PROXY_VARIABLES;

/// One call, configured and then run.
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run` or `ok`"]
pub struct Command {
    name: String,
    program: OsString,
    /// Arguments that messages leave out.
    leading: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: String,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error, which contains refusals of the API server.
    pub stderr: String,
}

impl Command {
    /// A call of `program`, which messages call `name`, with arguments that messages leave out.
    pub fn new(name: &str, program: &Path, leading: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            leading: leading.into_iter().map(|arg| arg.as_ref().to_owned()).collect(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: String::new(),
        }
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets its standard input.
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Runs it to its end. A failure of the program is no error; see [`Command::ok`].
    pub async fn run(self) -> anyhow::Result<Output> {
        let mut command = process::Command::new(&self.program);
        command
            .args(&self.leading)
            .args(&self.args)
            .env_remove("KUBECONFIG")
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for variable in PROXY_VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.spawn().with_context(|| format!("starting {}", self.name))?;
        let mut input = child.stdin.take().with_context(|| format!("{} has no input", self.name))?;
        let write = async move {
            // It may end before it has read everything; its own message then gives the reason.
            let _ = input.write_all(self.stdin.as_bytes()).await;
            drop(input);
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), write);
        let output = output.with_context(|| format!("waiting for {}", self.name))?;
        Ok(Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it and returns its standard output; a failure is an error with all its output.
    pub async fn ok(self) -> anyhow::Result<String> {
        let shown: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy()).collect();
        let shown = format!("{} {}", self.name, shown.join(" "));
        let output = self.run().await?;
        if !output.status.success() {
            bail!("{shown}: {output}");
        }
        Ok(output.stdout)
    }
}

impl Output {
    /// Whether the program succeeded.
    pub fn success(&self) -> bool {
        self.status.success()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}{}", self.status, self.stdout, self.stderr)
    }
}
