//! Which representation of objects is requested: whole objects, or only the metadata that is needed.
//!
//! Secrets and `ConfigMaps` can be large and numerous, and most are neither sources nor copies. They are listed as
//! metadata; copies, which are compared, are listed once more in full; the content of a source is read when it is
//! copied.

use forest::exclusion;
use forest::{Kind, Mode};
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::header::ACCEPT;
use http::{HeaderValue, Request};
use kube::api::ListParams;
use kube::client::Body;
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client};
use tower::service_fn;

use crate::api::PAGE;
use crate::api_object::ApiObject;

/// Requests the metadata of the objects of a list.
const LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
/// Requests the metadata of the objects of a watch.
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The part of the objects that a program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Whole objects of the kinds that are propagated or removed; the controller copies them.
    Content,
    /// Metadata, of ignored kinds as well; the webhook validates with it, including what a change of mode would
    /// overwrite.
    Metadata,
}

impl Detail {
    pub(super) fn wants(self, mode: Mode) -> bool {
        self == Self::Metadata || mode != Mode::Ignore
    }
}

/// The API resource of a kind.
pub fn api_resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.resource.clone(),
    }
}

/// Events about the objects of a kind.
pub type Events = BoxStream<'static, Result<Event<ApiObject>, Error>>;

/// Watches the objects of a kind, starting with a complete list. `copies` are the label selectors of copies.
pub(super) fn watched(client: &Client, kind: &Kind, detail: Detail, copies: &[String]) -> Events {
    let resource = api_resource(kind);
    let config = selected(kind);
    match detail {
        Detail::Metadata => watcher(objects(as_metadata(client, true), &resource), config).boxed(),
        Detail::Content if holds_data(kind) => {
            let whole = objects(client.clone(), &resource);
            let lists = whole_lists(&config, copies);
            let events = watcher(objects(as_metadata(client, false), &resource), config);
            let completed = move |event| match event {
                Ok(Event::InitDone) => listed_whole(whole.clone(), lists.clone()).boxed(),
                other => stream::once(ready(other)).boxed(),
            };
            events.flat_map(completed).boxed()
        }
        Detail::Content => watcher(objects(client.clone(), &resource), config).boxed(),
    }
}

/// The selection of objects of a kind: all, except Secrets of the types that are never propagated, which can be
/// numerous.
fn selected(kind: &Kind) -> Config {
    match exclusion::field_selector(kind) {
        Some(selector) => everything().fields(&selector),
        None => everything(),
    }
}

/// All objects, in pages that fit into memory.
pub(super) fn everything() -> Config {
    Config::default().page_size(PAGE)
}

/// Watches the metadata of the objects of a kind, starting with a complete list.
pub fn metadata_of(client: &Client, kind: &Kind) -> Events {
    watched(client, kind, Detail::Metadata, &[])
}

fn holds_data(kind: &Kind) -> bool {
    kind.group.is_empty() && matches!(kind.kind.as_str(), "Secret" | "ConfigMap")
}

fn objects(client: Client, resource: &ApiResource) -> Api<ApiObject> {
    Api::all_with(client, resource)
}

/// The same client, which requests metadata in lists and, if `watches`, in watches.
fn as_metadata(client: &Client, watches: bool) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let ask = move |mut request: Request<Body>| {
        let is_watch = request.uri().query().unwrap_or_default().split('&').any(|it| it == "watch=true");
        if !is_watch {
            request.headers_mut().insert(ACCEPT, LIST);
        } else if watches {
            request.headers_mut().insert(ACCEPT, WATCH);
        }
        let client = client.clone();
        async move { client.send(request).await }
    };
    Client::new(service_fn(ask), namespace)
}

/// The lists of the copies with their content, one for each label selector.
fn whole_lists(of: &Config, selectors: &[String]) -> Vec<ListParams> {
    let list = |selector: &String| {
        let params = ListParams { field_selector: of.field_selector.clone(), ..ListParams::default() };
        params.labels(selector).limit(PAGE)
    };
    selectors.iter().map(list).collect()
}

/// The end of a list: lists every copy again with its content, and then reports the end.
///
/// These lists are at least as new as the one before. The watch continues from the earlier list, so it repeats changes in
/// between.
fn listed_whole(
    objects: Api<ApiObject>,
    lists: Vec<ListParams>,
) -> impl Stream<Item = Result<Event<ApiObject>, Error>> {
    let all = stream::iter(lists).flat_map(move |first| pages(objects.clone(), first));
    all.chain(stream::once(ready(Ok(Event::InitDone))))
}

/// All objects of a list. After an error it starts again, so that it ends only after success.
fn pages(objects: Api<ApiObject>, first: ListParams) -> impl Stream<Item = Result<Event<ApiObject>, Error>> {
    let pages = stream::unfold(Some(first.clone()), move |page| {
        let (objects, first) = (objects.clone(), first.clone());
        async move {
            let page = page?;
            let (events, next) = match objects.list(&page).await {
                Ok(list) => {
                    let token = list.metadata.continue_.filter(|token| !token.is_empty());
                    let events = list.items.into_iter().map(|copy| Ok(Event::InitApply(copy)));
                    (events.collect(), token.map(|token| page.continue_token(&token)))
                }
                Err(error) => (vec![Err(Error::InitialListFailed(error))], Some(first)),
            };
            Some((stream::iter(events), next))
        }
    });
    pages.flatten()
}

#[cfg(test)]
mod tests;
