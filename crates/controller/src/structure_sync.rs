//! Verifies lists: a list is *verified* when the known structure is at least as new as the list. No plan uses a list before that.
//!
//! Each stream starts with its own list, so the lists are from different moments. After each complete list, this task lists the
//! structure again, only names and versions, and not from a cache. When the watches of the structure have reported everything in
//! these lists, the structure is as new as the lists before. [`forest::Lag`] compares them.

use std::collections::HashMap;
use std::time::Duration;

use forest::{Fact, Forest, Lag, Listing, Name, Stream, Unverified, Version};
use hns_api::accurate::SubNamespace;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor};
use hns_cluster::api::PAGE;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::{ForestHandle, ForestWriter};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::execute::has_every_list;

/// Lists that arrive within this time are verified together. A later list is verified on its own.
const BATCH_WINDOW: Duration = Duration::from_secs(1);

/// When a watch takes longer, the structure is listed again: the watch may have been replaced by a new list.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Verifies each new complete list, until the process ends.
pub(crate) async fn follow(client: Client, forest: ForestHandle, writer: ForestWriter) {
    loop {
        forest.until_progress(|forest| !verifiable(forest).is_empty()).await;
        // After the timeout, the missing lists are verified later.
        let _ = timeout(BATCH_WINDOW, forest.until_progress(has_every_list)).await;
        let mut lists = forest.read(verifiable);
        let sub_namespaces = list_sub_namespaces(&client, &forest).await;
        if sub_namespaces.is_none() {
            lists = lists.without(Stream::SUB_NAMESPACES);
        }
        match structure_has_reported_all(&client, &forest, sub_namespaces).await {
            Ok(true) if lists.is_empty() => sleep(RETRY_DELAY).await,
            Ok(true) => writer.tell([Fact::Verified(lists)]),
            Ok(false) => {
                tracing::info!("the watches of the structure are behind; writing is paused");
            }
            Err(error) => {
                tracing::warn!(error = error_text(&error), "could not list the structure; writing is paused");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// The lists that can be verified now. While the CRDs of HNC's API are being deleted or missing, these are the lists of Accurate's
/// structure, so that the finalizers of `SubNamespaces` are removed.
fn verifiable(forest: &Forest) -> Unverified {
    if forest.crds_are_being_deleted() {
        forest.unverified().only(&Stream::ACCURATE_STRUCTURE)
    } else if forest.structure_gap().is_none() {
        forest.unverified()
    } else {
        Unverified::default()
    }
}

/// The `SubNamespaces`; an empty list while Accurate's API is off or their stream is lost. If they cannot be listed, only writes of
/// Accurate's API wait.
async fn list_sub_namespaces(client: &Client, forest: &ForestHandle) -> Option<Vec<(Stream, Listing)>> {
    let is_followed = |forest: &Forest| {
        forest.accurate_settings().is_some() && forest.stream(Stream::SUB_NAMESPACES).is_synced()
    };
    if !forest.read(is_followed) {
        return Some(Vec::new());
    }
    match list(client, SubNamespace::url_path(&(), None), namespaced).await {
        Ok(listing) => Some(vec![(Stream::SUB_NAMESPACES, listing)]),
        Err(error) => {
            let error = error_text(&error);
            tracing::warn!(error, "could not list the SubNamespaces; writing for Accurate's API is paused");
            None
        }
    }
}

/// Whether the watches of the structure have reported everything that the API server contains now.
async fn structure_has_reported_all(
    client: &Client,
    forest: &ForestHandle,
    sub_namespaces: Option<Vec<(Stream, Listing)>>,
) -> Result<bool, kube::Error> {
    let of_hnc = async {
        if forest.read(Forest::crds_are_being_deleted) {
            return Ok(Vec::new());
        }
        let (hierarchies, anchors) = tokio::try_join!(
            list(client, HierarchyConfiguration::url_path(&(), None), |it| (
                (&*it.namespace).into(),
                Name::default()
            )),
            list(client, SubnamespaceAnchor::url_path(&(), None), namespaced),
        )?;
        Ok(vec![(Stream::HIERARCHIES, hierarchies), (Stream::ANCHORS, anchors)])
    };
    let (namespaces, of_hnc) = tokio::try_join!(
        list(client, Namespace::url_path(&(), None), |it| (Name::default(), (&*it.name).into())),
        of_hnc
    )?;
    let of_accurate = sub_namespaces.into_iter().flatten();
    let lists = [(Stream::NAMESPACES, namespaces)].into_iter().chain(of_hnc).chain(of_accurate);
    let lags: Vec<Lag> = forest.read(|forest| lists.map(|(stream, list)| forest.lag(stream, list)).collect());
    let is_reported = |forest: &Forest| lags.iter().all(|lag| forest.has_reported_all(lag));
    Ok(forest.until_that(is_reported, Instant::now() + REPORT_TIMEOUT).await)
}

/// The fields of a list that are read.
#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    /// `null` in an empty list.
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
    /// Of a list that has more pages.
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

fn namespaced(metadata: &Metadata) -> (Name, Name) {
    ((&*metadata.namespace).into(), (&*metadata.name).into())
}

/// A list request without a resource version returns the current state, and the pages after the first one that of the first.
async fn list(
    client: &Client,
    path: String,
    place: impl Fn(&Metadata) -> (Name, Name),
) -> Result<Listing, kube::Error> {
    let request = Request::new(path);
    let mut params = ListParams::default().limit(PAGE);
    let mut objects: HashMap<(Name, Name), Vec<Version>> = HashMap::new();
    loop {
        let page = request.list_metadata(&params).map_err(kube::Error::BuildRequest)?;
        let List { metadata: list, items } = client.request(page).await?;
        for Item { metadata } in items.into_iter().flatten() {
            let place = place(&metadata);
            let Metadata { uid, resource_version, .. } = metadata;
            objects.entry(place).or_default().push(Version { uid, resource_version });
        }
        params.continue_token = list.continue_token.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Listing { resource_version: list.resource_version, objects });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::Server;

    /// Users decide how large the objects are, and all pages are of the state of the first.
    #[tokio::test]
    async fn objects_are_listed_in_pages() {
        let page = |token: &str, name: &str| {
            let item =
                json!({ "metadata": { "name": name, "namespace": "n", "uid": "u", "resourceVersion": "3" } });
            json!({ "metadata": { "resourceVersion": "7", "continue": token }, "items": [item] })
        };
        let server = Server::answering([page("next", "a"), page("", "b")]);
        let listing = list(&server.client(), "/all".into(), namespaced).await.unwrap();
        let mut names: Vec<String> = listing.objects.keys().map(|(_, name)| name.to_string()).collect();
        names.sort();
        assert_eq!((&*listing.resource_version, names.join(" ")), ("7", "a b".to_owned()));
        let asked: Vec<String> = server.asked().into_iter().map(|(_, path, _)| path).collect();
        assert!(asked[0].contains("limit=50") && asked[1].contains("continue=next"), "{asked:?}");
    }
}
