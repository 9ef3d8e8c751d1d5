//! An installation on a cluster of its own, held by one test at a time: for what takes definitions away or restarts both
//! binaries with other flags.

use std::process::Output;

use anyhow::{Context, Result};
use hns_e2e::product::Component;
use hns_e2e::{Cluster, Launch, Options, Product, Replica, Steps};
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard, OnceCell, RwLockReadGuard};

use super::scene::among_others;

/// The installation, held by one test at a time.
pub(crate) struct Workshop {
    _alone: MutexGuard<'static, ()>,
    _among_others: RwLockReadGuard<'static, ()>,
    pub(crate) cluster: &'static Cluster,
    pub(crate) product: &'static Product<'static>,
    pub(crate) steps: Steps,
}

/// Both binaries at work.
pub(crate) struct Running {
    pub(crate) webhook: Replica,
    pub(crate) controller: Replica,
}

pub(crate) async fn workshop() -> Result<Workshop> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static PRODUCT: OnceCell<Product<'static>> = OnceCell::const_new();
    let alone = ALONE.lock().await;
    let among_others = among_others().await;
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
    let product = PRODUCT.get_or_try_init(|| Product::install(cluster, Options::default())).await?;
    Ok(Workshop {
        _alone: alone,
        _among_others: among_others,
        cluster,
        product,
        steps: Steps::of(cluster.admin()),
    })
}

impl Workshop {
    /// Runs a command of the plugin as the administrator.
    pub(super) async fn plugin(&self, words: &str) -> Result<Output> {
        let program = std::env::current_exe()?.with_file_name("../kubectl-hns");
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig()).args(words.split(' '));
        command.kill_on_drop(true).output().await.context("kubectl-hns: build it first")
    }

    /// Starts both binaries with these flags; they end with the value.
    pub(crate) async fn run(&self, flags: &[&str]) -> Result<Running> {
        let launch = || Launch { args: flags.iter().map(ToString::to_string).collect(), ..Launch::default() };
        let (webhook, controller) = tokio::try_join!(
            self.product.start(Component::Webhook, launch()),
            self.product.start(Component::Controller, launch())
        )?;
        Ok(Running { webhook, controller })
    }
}

impl Running {
    /// Ends both, as a kubelet does.
    pub(crate) async fn end(self) -> Result<()> {
        tokio::try_join!(self.webhook.terminate(), self.controller.terminate())?;
        Ok(())
    }
}
