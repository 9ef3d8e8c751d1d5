//! One cluster and one webhook for the tests of the suite, who take turns: each has a controller of its own, and two at once
//! would do each other's work.

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
    static TURN: Mutex<()> = Mutex::const_new(());
    static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
    let guard = TURN.lock().await;
    let installed = INSTALLED
        .get_or_init(async || {
            let product = Product::install(Cluster::shared().await, Options::default()).await.unwrap();
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
