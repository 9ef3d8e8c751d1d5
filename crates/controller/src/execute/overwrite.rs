//! Before an object that is no copy is overwritten: whether that is still wanted.
//!
//! What objects are and what the `HNCConfiguration` says of their kind come by different watches, and a copy takes the place
//! of somebody's own object for good. So the configuration is read once more, after the object was seen, and the write is
//! planned once more. Such writes are rare: admission refuses what would need them. Never writes.

use std::collections::BTreeSet;

use forest::plan::{Action, plan};
use forest::{Forest, KindSettings, Name, ObjectKey, ObjectScope, Scope};
use hns_api::HNCConfiguration;
use hns_api::names::HNC_CONFIGURATION;
use hns_runtime::api::Api;
use hns_runtime::configuration::Configuration;
use kube::CustomResourceExt;
use kube::core::DynamicObject;

use super::Executor;
use crate::apply::{Outcome, failure};

impl Executor {
    /// What to do instead of `action`, if it would overwrite an object that is no copy and that is not certainly wanted.
    pub(super) async fn held_back(&self, namespace: &Name, action: &Action) -> Option<Outcome> {
        let Action::Replace { key, .. } = action else { return None };
        if !self.forest.read(|forest| is_own(forest, namespace, key)) {
            return None;
        }
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
