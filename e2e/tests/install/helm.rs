//! Helm on a cluster, or on none. Says what it said; judges nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use hns_e2e::product::CHART_IMAGES;
use hns_e2e::{Cluster, Programs};
use serde_json::Value;
use tokio::process::Command;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The checkout.
pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What Helm did.
pub(crate) struct Said {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Helm, with directories of its own.
pub(crate) struct Helm {
    program: PathBuf,
    directory: tempfile::TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    pub(crate) async fn alone() -> Self {
        let program = tokio::task::spawn_blocking(Programs::helm).await.unwrap().unwrap();
        Self { program, directory: tempfile::tempdir().unwrap(), kubeconfig: None }
    }

    pub(crate) async fn on(cluster: &Cluster) -> Self {
        Self { kubeconfig: Some(cluster.kubeconfig()), ..Self::alone().await }
    }

    /// Runs it in the checkout. Commands that render the chart are given the images; arguments may override them.
    pub(crate) async fn run(&self, args: &[&str]) -> anyhow::Result<Said> {
        let mut command = Command::new(&self.program);
        let images = match args.first() {
            Some(&("template" | "lint" | "install" | "upgrade")) => &CHART_IMAGES[..],
            _ => &[],
        };
        let (verb, rest) = args.split_at(1);
        command
            .args([verb, images, rest].concat())
            .current_dir(checkout())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.directory.path());
        }
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(Path::new("/dev/null")));
        let output = tokio::time::timeout(TIMEOUT, command.output()).await;
        let output =
            output.with_context(|| format!("helm {args:?} takes too long"))?.context("running helm")?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(Said {
            success: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// The output of a run that succeeds.
    pub(crate) async fn ok(&self, args: &[&str]) -> anyhow::Result<String> {
        let said = self.run(args).await?;
        ensure!(said.success, "helm {args:?}: {}{}", said.stdout, said.stderr);
        Ok(said.stdout)
    }

    /// What the chart renders with these arguments, as objects.
    pub(crate) async fn template(&self, args: &[&str]) -> anyhow::Result<Vec<Value>> {
        let all =
            [&["template", "some-release", "charts/hns", "--namespace", "some-namespace"], args].concat();
        let text = self.ok(&all).await?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
    }
}
