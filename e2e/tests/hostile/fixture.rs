//! One cluster for the tests of the suite, and for each test an installation with a port of its own.

use anyhow::{Result, ensure};
use hns_e2e::{Cluster, Component, Launch, Options, Product, Proxy, Replica};
use tokio::sync::Mutex;

/// Installs once more. The registrations name the installation that comes last; the tests send all reviews themselves.
pub(super) async fn install() -> Result<Product<'static>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let cluster = Cluster::shared().await;
    let _guard = ONE_AT_A_TIME.lock().await;
    Product::install(cluster, Options::default()).await
}

/// A webhook that is ready.
pub(super) async fn webhook() -> Result<(Product<'static>, Replica)> {
    let product = install().await?;
    let replica = product.start_webhook().await?;
    Ok((product, replica))
}

/// A webhook that is ready and reaches the API server through a proxy.
pub(super) async fn webhook_behind_proxy() -> Result<(Product<'static>, Replica, Proxy)> {
    let product = install().await?;
    let proxy = Proxy::start(product.cluster())?;
    let launch = Launch { server: Some(proxy.url()), ..Launch::default() };
    let replica = product.start(Component::Webhook, launch).await?;
    Ok((product, replica, proxy))
}

/// It still runs, and nothing in it has panicked.
pub(super) fn unharmed(replica: &Replica) -> Result<()> {
    ensure!(replica.process().exit().is_none(), "it ended:\n{}", replica.log());
    ensure!(!replica.log().contains("panic"), "it panicked:\n{}", replica.log());
    Ok(())
}
