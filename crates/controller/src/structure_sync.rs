//! Catching up: no write rests on a list of objects that is newer than what is known of the structure.
//!
//! The first lists are of different moments, and so is every later one that takes the place of a watch. After each, the structure is
//! listed once more, by names and versions alone, past every cache; when its streams have told of all that was in these lists, they are
//! as new as whatever was listed before. Decides nothing ([`forest::Lag`] does).

use std::collections::HashMap;
use std::time::Duration;

use forest::{Fact, Forest, Lag, Listing, Name, Stream, Version};
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use hns_cluster::handle::{ForestHandle, ForestWriter};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::execute::has_every_list;

/// One look serves all lists that arrive within this time. A kind whose list takes longer holds up no other.
const TOGETHER: Duration = Duration::from_secs(1);

/// A stream that takes longer is looked at again: it may have been listed anew itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between attempts while the API server does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// Looks whenever there is a new complete list, for as long as the process lives.
pub(crate) async fn follow(client: Client, forest: ForestHandle, writer: ForestWriter) {
    loop {
        wait(&forest, |forest| !forest.unmatched().is_empty() && forest.structure_gap().is_none()).await;
        // If there is more to wait for than that, it gets a look of its own.
        let _ = timeout(TOGETHER, wait(&forest, has_every_list)).await;
        let lists = forest.read(Forest::unmatched);
        match has_caught_up(&client, &forest).await {
            Ok(true) => writer.tell([Fact::Matched(lists)]),
            Ok(false) => {
                tracing::info!("the watches of the structure are behind; nothing is written meanwhile");
            }
            Err(error) => {
                tracing::warn!(%error, "the structure cannot be listed; nothing is written meanwhile");
                sleep(RETRY).await;
            }
        }
    }
}

async fn wait(forest: &ForestHandle, holds: impl Fn(&Forest) -> bool) {
    let mut forest = forest.clone();
    while !forest.read(&holds) && forest.progressed().await {}
}

/// Whether the streams of the structure have told everything that is so by now.
async fn has_caught_up(client: &Client, forest: &ForestHandle) -> Result<bool, kube::Error> {
    let (namespaces, hierarchies, anchors) = tokio::try_join!(
        list(client, Namespace::url_path(&(), None), |it| (Name::default(), (&*it.name).into())),
        list(client, HierarchyConfiguration::url_path(&(), None), |it| (
            (&*it.namespace).into(),
            Name::default()
        )),
        list(client, SubnamespaceAnchor::url_path(&(), None), |it| (
            (&*it.namespace).into(),
            (&*it.name).into()
        )),
    )?;
    let lists =
        [(Stream::Namespaces, namespaces), (Stream::Hierarchies, hierarchies), (Stream::Anchors, anchors)];
    let lags: Vec<Lag> =
        forest.read(|forest| lists.into_iter().map(|(stream, list)| forest.lag(stream, list)).collect());
    let made_up = |forest: &Forest| lags.iter().all(|lag| forest.has_made_up(lag));
    Ok(forest.until_that(made_up, Instant::now() + PATIENCE).await)
}

/// What is read of a list.
#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    /// Of an empty list, the API server says `null`.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: Box<str>,
    #[serde(default)]
    namespace: Box<str>,
    #[serde(default)]
    uid: Box<str>,
    resource_version: Box<str>,
}

/// A list without a resource version is as new as its request.
async fn list(
    client: &Client,
    path: String,
    place: impl Fn(&Metadata) -> (Name, Name),
) -> Result<Listing, kube::Error> {
    let request = Request::new(path).list_metadata(&ListParams::default());
    let list: List = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    let items = list.items.unwrap_or_default();
    let mut objects: HashMap<(Name, Name), Vec<Version>> = HashMap::with_capacity(items.len());
    for Item { metadata } in items {
        let place = place(&metadata);
        let Metadata { uid, resource_version, .. } = metadata;
        objects.entry(place).or_default().push(Version { uid, resource_version });
    }
    Ok(Listing { resource_version: list.metadata.resource_version, objects })
}
