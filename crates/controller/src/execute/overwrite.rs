//! Before a copy overwrites a user's own object: does the current `HNCConfiguration` still want that?
//!
//! Objects and the `HNCConfiguration` come from different watches, and the user's object cannot be restored. So the executor
//! reads the configuration again and repeats the plan. Such writes are rare: only kinds with `onConflict: Overwrite`, or with
//! a mode that restricts, need them, and admission refuses most requests that lead to them.

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
use crate::apply::Outcome;

impl Executor {
    /// `action` overwrites the object `key`, which is not a copy. Returns the outcome if that is not certainly wanted.
    pub(crate) async fn check_overwrite(
        &self,
        namespace: &Name,
        action: &Action,
        key: &ObjectKey,
    ) -> Option<Outcome> {
        let configuration: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &HNCConfiguration::api_resource());
        let current = match configuration.get_opt(HNC_CONFIGURATION).await {
            Ok(object) => object,
            Err(error) => return Some(error.into()),
        };
        let known = self.configuration.borrow().clone();
        let wanted = self.forest.read(|forest| {
            let in_force = forest.kind_settings(key.kind);
            in_force.is_some_and(|kind| has_settings(&known, current.as_ref(), kind))
                && is_planned(forest, namespace, key, action)
        });
        (!wanted).then_some(Outcome::Conflict)
    }
}

/// Whether the configuration in the cluster gives a kind these settings.
fn has_settings(known: &Configuration, current: Option<&DynamicObject>, kind: &KindSettings) -> bool {
    known.resolution_of(current).is_some_and(|resolution| resolution.settings().any(|it| it == kind))
}

/// A user who changes an object again and again must not keep a restriction out, so its version does not matter then.
fn is_planned(forest: &Forest, namespace: &Name, key: &ObjectKey, action: &Action) -> bool {
    let scope = Scope { objects: ObjectScope::Some(BTreeSet::from([key.clone()])), ..Scope::default() };
    let restricts = forest.kind(key.kind).restricts();
    plan(forest, namespace, &scope).actions().any(|planned| match (planned, action) {
        (
            Action::ReplaceCopy { version: new, source: from, content: now, .. },
            Action::ReplaceCopy { version, source, content, .. },
        ) if restricts => (&new.uid, from, now) == (&version.uid, source, content),
        _ => planned == action,
    })
}
