//! Before an object that is no copy is overwritten: whether that is still wanted.
//!
//! What objects are and what the `HNCConfiguration` says of their kind come by different watches, and a copy takes the place
//! of somebody's own object for good. So the configuration is read once more, after the object was seen, and the write is
//! planned once more. Such writes are rare: only kinds that say `onConflict: Overwrite`, or that restrict, need them, and
//! admission refuses what would lead there. Never writes.

use std::collections::BTreeSet;

use forest::plan::{Action, plan};
use forest::{Forest, KindSettings, Name, ObjectKey, ObjectScope, Scope};
use hns_api::HNCConfiguration;
use hns_api::names::HNC_CONFIGURATION;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::Configuration;
use kube::CustomResourceExt;
use kube::core::DynamicObject;

use super::Executor;
use crate::apply::{Outcome, failure};

impl Executor {
    /// What to do instead of `action`, by which the object `key` that is no copy would be lost, unless that is certainly wanted.
    pub(super) async fn held_back(
        &self,
        namespace: &Name,
        action: &Action,
        key: &ObjectKey,
    ) -> Option<Outcome> {
        let configuration: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &HNCConfiguration::api_resource());
        let now = match configuration.get_opt(HNC_CONFIGURATION).await {
            Ok(object) => object,
            Err(error) => return Some(failure(error)),
        };
        let known = self.configuration.borrow().clone();
        let wanted = self.forest.read(|forest| {
            let in_force = forest.kind_settings(key.kind);
            in_force.is_some_and(|kind| says(&known, now.as_ref(), kind))
                && is_planned(forest, namespace, key, action)
        });
        (!wanted).then_some(Outcome::Conflict)
    }
}

/// The object that is no copy and would be lost. A binding that is replaced may be deleted first.
pub(super) fn lost_by<'a>(forest: &Forest, namespace: &Name, action: &'a Action) -> Option<&'a ObjectKey> {
    let (Action::Replace { key, .. } | Action::Delete { key, .. }) = action else { return None };
    is_own(forest, namespace, key).then_some(key)
}

/// Whether there is an object that is no copy.
pub(super) fn is_own(forest: &Forest, namespace: &Name, key: &ObjectKey) -> bool {
    forest.object_version(namespace, key).is_some() && forest.inherited_from(namespace, key).is_none()
}

/// Whether the configuration, as it is in the cluster, says this of a kind.
fn says(known: &Configuration, now: Option<&DynamicObject>, kind: &KindSettings) -> bool {
    known.resolution_of(now).is_some_and(|resolution| resolution.settings().any(|it| it == kind))
}

fn is_planned(forest: &Forest, namespace: &Name, key: &ObjectKey, action: &Action) -> bool {
    let scope = Scope { structure: false, objects: ObjectScope::Some(BTreeSet::from([key.clone()])) };
    plan(forest, namespace, &scope).actions().any(|planned| planned == action)
}
