//! What an outsider sees: every event of every object of the kinds, by watches of the test's own that have no gaps. It
//! judges nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::task::JoinHandle;

use super::kind::{Form, Kind};

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// When it was seen, which is a moment after it happened.
    pub(crate) at: Instant,
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Whether the object is no more; otherwise it is new or changed.
    pub(crate) deleted: bool,
    /// As it is now, or as it was last.
    pub(crate) form: Form,
}

/// Watches until it is dropped.
pub(crate) struct Observer {
    seen: Arc<Mutex<Vec<Event>>>,
    watches: Vec<(Kind, JoinHandle<Result<()>>)>,
}

impl Observer {
    /// Sees everything that happens after this returns.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut watches = Vec::new();
        for kind in Kind::ALL {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
            // A kind whose definition is new may ask for a moment.
            let list = eventually(&format!("{kind} can be listed"), PATIENCE, async || {
                api.list(&ListParams::default()).await.map_err(|error| error.to_string())
            })
            .await?;
            let version = list.metadata.resource_version.context("a list has a version")?;
            watches.push((kind, tokio::spawn(watch(kind, api, version, Arc::clone(&seen)))));
        }
        Ok(Self { seen, watches })
    }

    /// Everything seen so far, in order for each kind. An error when a watch has ended: then it may have missed something.
    pub(crate) fn events(&self) -> Result<Vec<Event>> {
        for (kind, watch) in &self.watches {
            if watch.is_finished() {
                bail!("the watch of {kind} has ended; what came after is not known");
            }
        }
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The uids of what exists, by what was seen alone: of objects that were there before, nothing is known.
    pub(crate) fn existing(&self) -> Result<BTreeMap<String, (Kind, String, String)>> {
        let mut existing = BTreeMap::new();
        for event in self.events()? {
            if event.deleted {
                existing.remove(&event.uid);
            } else {
                existing.insert(event.uid, (event.kind, event.namespace, event.name));
            }
        }
        Ok(existing)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.watches.iter().for_each(|(_, watch)| watch.abort());
    }
}

/// Goes on where it left off each time the API server ends the watch, as it does now and then. Ends at the first error, of
/// which the worst is that the version is too old.
async fn watch(
    kind: Kind,
    api: Api<DynamicObject>,
    mut version: String,
    seen: Arc<Mutex<Vec<Event>>>,
) -> Result<()> {
    loop {
        let mut events = Box::pin(api.watch(&WatchParams::default(), &version).await?);
        while let Some(event) = events.try_next().await? {
            let (object, deleted) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => bail!("{status:?}"),
            };
            let form = Form::of(&object);
            let metadata = object.metadata;
            version = metadata.resource_version.context("an object has a version")?;
            let event = Event {
                at: Instant::now(),
                kind,
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
                uid: metadata.uid.unwrap_or_default(),
                deleted,
                form,
            };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }
}
