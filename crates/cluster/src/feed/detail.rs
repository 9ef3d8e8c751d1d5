//! How much of the objects the API server is asked to show: all of them whole, or no more than what will be used.
//!
//! Secrets and `ConfigMaps` can be large and very many, and most are nobody's source or copy. Their lists are asked for as
//! metadata, with the copies, which are compared, once more whole; what is to be copied is read when it is. Never decides
//! which kinds are watched.

use forest::exclusion::SECRET_TYPES;
use forest::{Kind, Mode};
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use hns_api::labels;
use http::header::ACCEPT;
use http::{HeaderValue, Request};
use kube::api::ListParams;
use kube::client::Body;
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client};
use tower::service_fn;

use crate::api_object::ApiObject;

/// Asks for the metadata of a list's objects.
const LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
/// The same of a watch's.
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// How many objects with all that is in them are held at a time.
const LARGE_PAGE: u32 = 100;

/// How much of the objects a binary needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All of it, of the kinds that something is done with: to copy.
    Content,
    /// Names, labels and annotations, of ignored kinds too: to judge, also what would be overwritten if they were propagated.
    Metadata,
}

impl Detail {
    pub(super) fn wants(self, mode: Mode) -> bool {
        self == Self::Metadata || mode != Mode::Ignore
    }
}

/// How the API server calls a kind.
pub fn api_resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.resource.clone(),
    }
}

pub(super) type Events = BoxStream<'static, Result<Event<ApiObject>, Error>>;

/// Watches the objects of a kind, which begins with a complete list.
pub(super) fn watched(client: &Client, kind: &Kind, detail: Detail) -> Events {
    let resource = api_resource(kind);
    let config = selected(kind);
    match detail {
        Detail::Metadata => watcher(objects(as_metadata(client, true), &resource), config).boxed(),
        Detail::Content if holds_data(kind) => {
            let whole = objects(client.clone(), &resource);
            let fields = config.field_selector.clone();
            let events = watcher(objects(as_metadata(client, false), &resource), config);
            let completed = move |event| match event {
                Ok(Event::InitDone) => copies(whole.clone(), fields.clone()).boxed(),
                other => stream::once(ready(other)).boxed(),
            };
            events.flat_map(completed).boxed()
        }
        Detail::Content => watcher(objects(client.clone(), &resource), config).boxed(),
    }
}

/// Which objects of a kind are watched: all, but for the Secrets that belong to something in their own namespace, of which
/// there can be very many.
fn selected(kind: &Kind) -> Config {
    if kind.group.is_empty() && kind.kind == "Secret" {
        let others = SECRET_TYPES.map(|it| format!("type!={it}"));
        return Config::default().fields(&others.join(","));
    }
    Config::default()
}

fn holds_data(kind: &Kind) -> bool {
    kind.group.is_empty() && matches!(kind.kind.as_str(), "Secret" | "ConfigMap")
}

fn objects(client: Client, resource: &ApiResource) -> Api<ApiObject> {
    Api::all_with(client, resource)
}

/// The same client, which asks for metadata in lists, and in watches if wanted.
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

/// The end of a list: every copy once more, whole, and then the word that this was all. After an error it begins anew, so that
/// the end is not told before there was one without.
///
/// This list is not older than the one before, and the watch goes on from that one: it tells again of what has changed in between.
fn copies(
    objects: Api<ApiObject>,
    fields: Option<String>,
) -> impl Stream<Item = Result<Event<ApiObject>, Error>> {
    let first = ListParams { field_selector: fields, ..ListParams::default() };
    let first = first.labels(labels::INHERITED_FROM).limit(LARGE_PAGE);
    let pages = stream::unfold(Some(first.clone()), move |page| {
        let (objects, first) = (objects.clone(), first.clone());
        async move {
            let page = page?;
            let (events, next) = match objects.list(&page).await {
                Ok(list) => {
                    let token = list.metadata.continue_.filter(|token| !token.is_empty());
                    let end = token.is_none().then_some(Ok(Event::InitDone));
                    let events = list.items.into_iter().map(|copy| Ok(Event::InitApply(copy)));
                    (events.chain(end).collect(), token.map(|token| page.continue_token(&token)))
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
