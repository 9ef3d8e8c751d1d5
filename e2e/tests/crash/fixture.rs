//! One cluster for each API, each with one webhook, for the tests of the suite, who take turns: each has a controller of its own, and two at once
//! would do each other's work.

use std::path::Path;

use hns_cluster::settings::accurate::{Config, Settings};
use hns_e2e::{Cluster, Options, Product, Replica, Steps};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The right to run controllers.
pub(crate) struct Turn {
    pub(crate) product: &'static Product<'static>,
    _guard: MutexGuard<'static, ()>,
}

struct Installed {
    product: Product<'static>,
    /// Kept so that it runs until the end.
    _webhook: Replica,
}

/// Waits for the turn of one test; it ends when the value is dropped. Controllers must be stopped before.
pub(crate) async fn turn() -> Turn {
    static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
    turn_on(&INSTALLED, async || (Cluster::shared().await, Options::default())).await
}

/// The same with Accurate's API, on a cluster of its own.
pub(crate) async fn turn_with_accurate() -> Turn {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
    let config = "
labelKeys: [team]
watches:
- {group: rbac.authorization.k8s.io, version: v1, kind: Role}
- {group: rbac.authorization.k8s.io, version: v1, kind: RoleBinding}
- {version: v1, kind: ResourceQuota}
";
    turn_on(&INSTALLED, async || {
        let settings =
            Settings { enabled: true, config: Config::parse(config).unwrap(), ..Settings::default() };
        let options = Options {
            manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/accurate.yaml"),
            accurate: Some(settings),
            ..Options::default()
        };
        (CLUSTER.get_or_init(async || Cluster::start().await.unwrap()).await, options)
    })
    .await
}

async fn turn_on(
    installed: &'static OnceCell<Installed>,
    place: impl AsyncFnOnce() -> (&'static Cluster, Options),
) -> Turn {
    static TURN: Mutex<()> = Mutex::const_new(());
    let guard = TURN.lock().await;
    let installed = installed
        .get_or_init(async || {
            let (cluster, options) = place().await;
            let product = Product::install(cluster, options).await.unwrap();
            Installed { _webhook: product.start_webhook().await.unwrap(), product }
        })
        .await;
    Turn { product: &installed.product, _guard: guard }
}

impl Turn {
    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.product.cluster()
    }

    /// Steps of the administrator.
    pub(crate) fn steps(&self) -> Steps {
        Steps::of(self.cluster().admin())
    }
}
