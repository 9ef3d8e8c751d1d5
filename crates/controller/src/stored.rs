//! Keeps one object of [`hns_cluster::stored`] right: creates it, replaces one that cannot be understood, and ends its parts in
//! time.

use std::time::Duration;

use futures::StreamExt as _;
use hns_cluster::error_text::error_text;
use hns_cluster::objects;
use hns_cluster::stored::{Content, Store, Stored, parse};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};

use crate::owner;

/// The delay after a failed write.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// What is specific to one object.
pub(crate) trait Keeper: Send {
    type Content: Content + Default + Send + Sync;

    /// The content of a new object.
    fn first(&self) -> impl Future<Output = kube::Result<Self::Content>> + Send;

    /// The object as it is now.
    fn show(&mut self, stored: Stored<Self::Content>) -> impl Future<Output = kube::Result<()>> + Send;

    /// When [`Keeper::end`] must be called, if at all.
    fn due(&self) -> Option<Instant>;

    /// Ends what is due.
    fn end(&mut self) -> impl Future<Output = kube::Result<()>> + Send;
}

/// Works until `may_write` returns false.
pub(crate) async fn follow<K: Keeper>(
    (client, store): (Client, Store),
    mut keeper: K,
    may_write: impl Fn() -> bool,
) {
    let name = K::Content::NAME;
    let watch = || objects::watch(store.api().clone(), name);
    let mut changes = watch();
    loop {
        let due = keeper.due();
        let event = tokio::select! {
            event = changes.next() => event,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
        };
        if !may_write() {
            return;
        }
        let done = match event {
            Some(Ok(Some(object))) => show(&store, &mut keeper, object).await,
            Some(Ok(None)) => create(&client, &store, &keeper).await,
            Some(Err(error)) => {
                tracing::info!(
                    error = error_text(&error),
                    "the watch of the ConfigMap {name} was interrupted"
                );
                Ok(())
            }
            None => keeper.end().await,
        };
        if let Err(error) = done {
            let error = error_text(&error);
            tracing::warn!(error, "the ConfigMap {name} is not up to date; trying again");
            sleep(RETRY).await;
            // It shows the object again.
            changes = watch();
        }
    }
}

async fn create<K: Keeper>(client: &Client, store: &Store, keeper: &K) -> kube::Result<()> {
    store.create(owner::reference(client).await?, &keeper.first().await?).await
}

async fn show<K: Keeper>(store: &Store, keeper: &mut K, object: ConfigMap) -> kube::Result<()> {
    let metadata = object.metadata.clone();
    match parse(object) {
        Ok(stored) => keeper.show(stored).await,
        Err(error) => {
            let name = K::Content::NAME;
            tracing::warn!(
                error = error_text(&error),
                "the content of the ConfigMap {name} cannot be understood; writing it again"
            );
            store.replace(&Stored::of(metadata), &keeper.first().await?).await.map(drop)
        }
    }
}
