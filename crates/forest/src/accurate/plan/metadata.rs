//! The labels and annotations that a namespace gets (section 8.2 of Accurate's contract).
//!
//! They are applied as one set, so that a key that is not in the set any more is removed if nobody else has set it. A namespace
//! without an upstream namespace keeps what it had.
//!
//! Users can write the record of what was applied. A user must not make the controller remove a key of one of the hierarchies. If the record
//! names such a key, it is applied with its present value.

use std::collections::{BTreeMap, BTreeSet};

use super::place::{Reach, reach};
use super::{AccurateAction, Action};
use crate::accurate::keys;
use crate::accurate::settings::Settings;
use crate::core::key_syntax::{label_value_fault, qualified_name_fault};
use crate::core::tree::{EdgeKind, Id};
use crate::dialects::Forest;

type Pairs = BTreeMap<String, String>;

/// The most labels that are applied to a namespace, and the most bytes of them. Users may have others there, and the record of field
/// managers repeats all keys: a namespace that is too large could get no label any more.
const MOST: usize = 256;
const MOST_BYTES: usize = 64 << 10;

/// The write, if the namespace differs from the set, or has a key that was applied and is not in the set any more.
pub(super) fn change(forest: &Forest, settings: &Settings, id: Id) -> Option<Action> {
    let Reach::From(kind, upstream) = reach(forest, id) else { return None };
    let (seen, live) = (forest.lasting_namespace(id)?, forest.labels(id)?);
    let (mut labels, mut annotations) = wanted(forest, settings, [id, upstream], kind)?;
    let (mut old_labels, mut old_annotations) = (Vec::new(), Vec::new());
    if let Some(applied) = forest.accurate().applied(id) {
        old_labels = removable(&applied.labels, &mut labels, |key| live.get(key));
        old_annotations = removable(&applied.annotations, &mut annotations, |key| seen.annotations.get(key));
    }
    let is_right = labels.iter().all(|(key, value)| live.get(key) == Some(value))
        && annotations.iter().all(|(key, value)| seen.annotations.get(key) == Some(value))
        && old_labels.into_iter().all(|key| labels.contains_key(key))
        && old_annotations.into_iter().all(|key| annotations.contains_key(key));
    let (version, edge) = (seen.version.get(), (kind, forest.name(upstream).clone()));
    let apply = || AccurateAction::ApplyNamespace { version, edge, labels, annotations }.into();
    (!is_right).then(apply)
}

/// Those of the keys that were applied which an apply may remove. The others are applied as they are.
fn removable<'a, 'v>(
    applied: &'a BTreeSet<Box<str>>,
    wanted: &mut Pairs,
    live: impl Fn(&str) -> Option<&'v str>,
) -> Vec<&'a str> {
    let (kept, old): (Vec<&str>, Vec<&str>) =
        applied.iter().map(|key| &**key).partition(|key| keys::is_reserved(key));
    for key in kept {
        if let Some(value) = live(key) {
            wanted.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    old
}

/// All labels and annotations: those of the upstream namespace that flow, those of the `SubNamespace`, which win, and the marks of
/// a sub-namespace.
fn wanted(
    forest: &Forest,
    settings: &Settings,
    [id, upstream]: [Id; 2],
    kind: EdgeKind,
) -> Option<(Pairs, Pairs)> {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let (from, applied) = (forest.labels(upstream)?.all(), forest.accurate().applied(upstream));
    let is_from_above = |key: &str| applied.is_some_and(|applied| applied.labels.contains(key));
    let handed_down = from.iter().filter(|(key, _)| settings.hands_down_label(key));
    let (above, own): (Vec<_>, Vec<_>) = handed_down.partition(|(key, _)| is_from_above(key));
    let mut labels = Pairs::new();
    add_while_there_is_room(&mut labels, above.into_iter().chain(own));
    let from = &forest.namespace(upstream)?.annotations;
    let mut annotations: Pairs =
        from.iter().filter(|(key, _)| settings.hands_down_annotation(key)).map(owned).collect();
    if kind == EdgeKind::Parent {
        if let Some(form) = forest.accurate().sub_namespaces(upstream).get(forest.name(id)) {
            let is_free = |key: &str| !keys::is_reserved(key);
            let set = form.labels.iter();
            let set = set
                .filter(|(key, _)| settings.sub_namespace_label_keys.matches(key) && is_free(key))
                .filter(|(key, value)| {
                    qualified_name_fault(key).is_none() && label_value_fault(key, value).is_none()
                });
            add_while_there_is_room(&mut labels, set);
            let set = form.annotations.iter();
            annotations.extend(
                set.filter(|(key, _)| settings.sub_namespace_annotation_keys.matches(key) && is_free(key))
                    .map(owned),
            );
        }
        labels.insert(keys::CREATED_BY.into(), keys::CREATOR.into());
        labels.insert(keys::PARENT.into(), forest.name(upstream).to_string());
    }
    Some((labels, annotations))
}

/// Adds labels, and replaces those of the same keys, where there is room. All labels of the upstream namespace that were applied to it have
/// room here, so nothing that a user adds further down keeps out what comes from further up.
fn add_while_there_is_room<'a>(labels: &mut Pairs, more: impl Iterator<Item = (&'a str, &'a str)>) {
    let size = |(key, value): (&str, &str)| key.len() + value.len();
    let mut bytes: usize = labels.iter().map(|(key, value)| size((key, value))).sum();
    for (key, value) in more {
        let replaced = labels.get(key).map(|old| size((key, old)));
        let after = bytes + size((key, value)) - replaced.unwrap_or_default();
        if after <= MOST_BYTES && (replaced.is_some() || labels.len() < MOST) {
            bytes = after;
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
}
