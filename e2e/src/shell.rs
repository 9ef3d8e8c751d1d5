//! A user at a shell, with kubectl, the kubeconfig of a cluster, and a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::cluster::Cluster;

const LONGEST: Duration = Duration::from_secs(60);

/// A shell whose path has kubectl and what [`Shell::add`] adds. Its commands start in a directory of its own, which is also its home.
#[derive(Debug)]
pub struct Shell {
    directory: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Shell {
    /// A shell of the administrator of this cluster.
    pub fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("bin"))?;
        let shell = Self { directory, kubeconfig: cluster.kubeconfig() };
        shell.add("bin/kubectl", cluster.kubectl_program())?;
        Ok(shell)
    }

    /// Adds a link to a file or a directory; programs are in `bin`.
    pub fn add(&self, name: &str, target: &Path) -> anyhow::Result<()> {
        Ok(symlink(target.canonicalize()?, self.directory.path().join(name))?)
    }

    /// Runs commands, and returns what they show. The first one that fails ends them.
    pub async fn run(&self, commands: &str) -> Result<String, String> {
        let path = format!("{}:/usr/bin:/bin", self.directory.path().join("bin").display());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", commands]).current_dir(self.directory.path()).stdin(Stdio::null());
        shell.env_clear().env("PATH", path).env("KUBECONFIG", &self.kubeconfig).kill_on_drop(true);
        shell.env("HOME", self.directory.path());
        let output = tokio::time::timeout(LONGEST, shell.output()).await;
        let output =
            output.map_err(|_| format!("no end within {LONGEST:?}"))?.map_err(|error| error.to_string())?;
        let [shown, errors] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() { Ok(shown) } else { Err(format!("{shown}{errors}")) }
    }
}
