//! The conditions of a namespace, in the order of its status.

use super::copies;
use super::marks::{Labelling, asked_for, initial_admin, managed};
use crate::core::change::ObjectScope;
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::object::Object;
use crate::core::text::shown;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::condition::{Condition, Reason};
use crate::hnc::exclusion::unfit_name;
use crate::hnc::keys;

/// How many objects a condition names.
const NAMED: usize = 3;

/// All conditions of the namespace. An ancestor's halt comes first, because clients of HNC read only the first condition of a
/// type.
pub(super) fn conditions(forest: &Forest, id: Id) -> Vec<Condition> {
    let own = forest.own_halt(id).map(|halt| halt.condition(forest.settings()));
    ancestor(forest, id)
        .into_iter()
        .chain(own)
        .chain(anchor_missing(forest, id))
        .chain(illegal_keys(forest, id))
        .chain(overridden(forest, id))
        .chain(unfit_names(forest, id))
        .chain(failed_writes(forest, forest.name(id)))
        .chain(conflicts(forest, id))
        .chain(quotas(forest, id))
        .collect()
}

fn ancestor(forest: &Forest, id: Id) -> Option<Condition> {
    let root = forest.halted_at(id).filter(|root| *root != id)?;
    let name = forest.name(root);
    Some(Condition::new(
        Reason::AncestorHaltActivities,
        format!("Propagation is paused because the ancestor {name:?} is halted; see the conditions there"),
    ))
}

fn anchor_missing(forest: &Forest, id: Id) -> Option<Condition> {
    let parent = forest.subnamespace_of(id)?;
    forest.anchor_of(id).is_none().then(|| {
        Condition::new(
            Reason::SubnamespaceAnchorMissing,
            format!(
                "The anchor of this subnamespace is missing in its parent {parent:?}; unless that does not exist, is excluded or being \
                 deleted, or is in a hierarchy of accurate.cybozu.com, create it again there, with the labels and annotations in spec of this \
                 HierarchyConfiguration; or remove the annotation hnc.x-k8s.io/subnamespace-of to make this a full namespace"
            ),
        )
    })
}

fn illegal_keys(forest: &Forest, id: Id) -> Vec<Condition> {
    let Some(hierarchy) = forest.hierarchy(id) else { return Vec::new() };
    let settings = forest.settings();
    let is_accurates = forest.is_marked_by_accurate(id);
    let is_illegal = |which: Labelling, key: &str| is_accurates || !which.manages(settings, key);
    let labels = hierarchy.labels().iter().map(|(key, _)| key);
    let labels = labels.filter(|key| is_illegal(Labelling::Labels, key));
    let annotations = hierarchy.annotations().iter().map(|(key, _)| key);
    let annotations = annotations.filter(|key| is_illegal(Labelling::Annotations, key));
    let illegal = |reason, what, keys: Vec<&str>| {
        let why = if is_accurates {
            "Not applied, because the namespace is in a hierarchy of accurate.cybozu.com".to_owned()
        } else {
            format!("Not managed {what} in this cluster, so hns does not set or remove them")
        };
        let stay = if is_accurates { "" } else { "; namespaces keep the values that they have" };
        (!keys.is_empty()).then(|| Condition::new(reason, format!("{why}: {}{stay}", keys.join(", "))))
    };
    illegal(Reason::IllegalManagedLabel, "as labels", labels.collect())
        .into_iter()
        .chain(illegal(Reason::IllegalManagedAnnotation, "as annotations", annotations.collect()))
        .collect()
}

/// HNC drops such a value without a report.
fn overridden(forest: &Forest, id: Id) -> Option<Condition> {
    let path = forest.labelling(id);
    let lost = [Labelling::Labels, Labelling::Annotations].into_iter().flat_map(|which| {
        let values = managed(forest, &path, which);
        asked_for(forest, id, which)
            .into_iter()
            .filter_map(|(key, value)| {
                let deciding = values.get(&*key).filter(|it| it.value != value)?;
                Some(format!("{key}={value} (ancestor {:?} says {:?})", deciding.from, deciding.value))
            })
            .collect::<Vec<_>>()
    });
    let lost: Vec<String> = lost.collect();
    (!lost.is_empty()).then(|| {
        Condition::new(
            Reason::OverriddenByAncestor,
            format!("These managed values are overridden from above: {}", lost.join("; ")),
        )
    })
}

/// The objects here that propagate nowhere because of their names.
fn unfit_names(forest: &Forest, id: Id) -> Option<Condition> {
    if forest.downstream(id).is_empty() {
        return None;
    }
    let is_meant = |key: &ObjectKey, object: &Object| {
        object.source().is_some_and(|source| !source.terminating)
            && forest.kind_settings(key.kind).is_some_and(|kind| kind.mode.propagates())
    };
    let lines = forest.objects_at(id).filter_map(|(key, object)| {
        let why = unfit_name(&key.name).filter(|_| is_meant(key, object))?;
        Some(line(forest, key, why))
    });
    named("These objects are not propagated: ", lines)
}

fn failed_writes(forest: &Forest, namespace: &Name) -> Option<Condition> {
    let failed = forest.failures(namespace).filter(|(_, failure)| !failure.is_conflict);
    let lines = failed.map(|(key, failure)| line(forest, key, &failure.why));
    named("These objects could not be written or removed: ", lines)
}

/// The objects in conflict, here and in the namespaces below.
fn conflicts(forest: &Forest, id: Id) -> Option<Condition> {
    if forest.conflicted().is_empty() {
        return None;
    }
    let concerned = forest.those_below(id, forest.conflicted()).into_iter();
    let lines = concerned.flat_map(|name| {
        let failed = forest.failures(name);
        failed
            .filter(|(_, failure)| failure.is_conflict)
            .map(move |(key, failure)| format!("in namespace {name:?}, {}", line(forest, key, &failure.why)))
    });
    named("These objects stand in the way of others from above: ", lines)
}

/// Bindings that wait. The writer adds since when.
fn quotas(forest: &Forest, id: Id) -> Option<Condition> {
    let mut quotas: Vec<&str> = forest.quotas_not_in_force(id).map(|key| &*key.name).collect();
    if forest.first_quota_not_in_force(id).is_some() {
        quotas.push(keys::DERIVED_QUOTA);
    }
    let admin_comes = initial_admin(forest, id).is_some();
    if quotas.is_empty() || !copies::changes(forest, id, &ObjectScope::All, admin_comes).rights_wait {
        return None;
    }
    let mut names: Vec<String> = quotas.iter().take(NAMED).map(|name| format!("{:?}", shown(name))).collect();
    names.extend((quotas.len() > NAMED).then(|| format!("and {} more", quotas.len() - NAMED)));
    Some(Condition::new(
        Reason::QuotaNotInForce,
        format!(
            "RoleBindings wait until these ResourceQuotas are in force here (status.hard equals spec.hard): {}; if that does not \
             happen, check that kube-controller-manager runs its resourcequota controller",
            names.join(", ")
        ),
    ))
}

fn line(forest: &Forest, key: &ObjectKey, why: &str) -> String {
    format!("{} {:?}: {why}", forest.kind(key.kind).group_resource(), shown(&key.name))
}

/// A condition that names some objects, and counts the rest.
fn named(what: &str, lines: impl Iterator<Item = String>) -> Option<Condition> {
    let mut lines = lines.peekable();
    lines.peek()?;
    let mut text: Vec<String> = lines.by_ref().take(NAMED).collect();
    let more = lines.count();
    if more > 0 {
        text.push(format!("and {more} more"));
    }
    Some(Condition::new(Reason::CannotPropagateObject, format!("{what}{}", text.join("; "))))
}
