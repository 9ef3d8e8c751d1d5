//! Row 11: what a new parent would overwrite.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use crate::core::hop::Hop;
use crate::core::kind::{KindSettings, ObjectKey};
use crate::core::name::Name;
use crate::core::object::Object;
use crate::core::stream::{Stream, StreamState};
use crate::core::text::shown;
use crate::core::tree::Id;
use crate::core::verdict::wait_for;
use crate::dialects::Forest;
use crate::hnc::plan::{Reach, labels_below, reach};
use crate::hnc::rules::{Answers, Check, Denial, Verdict, WaitFor};
use crate::hnc::words::way_out;

/// How many conflicts a message names; it counts the rest.
const NAMED: usize = 20;

/// How many labels the selectors of one request may look up: users decide how many parts a selector has, how many objects have one,
/// and how many namespaces have an object of that name. This takes about a tenth of a second.
const MOST_LOOKED_UP: usize = 500_000;

/// Denies when a source in `parent` or above would overwrite a source in `child` or below it, and warns of those that would be
/// kept. While a kind's objects cannot be listed, no namespace joins a tree.
pub(in crate::hnc::rules) fn no_conflicts(
    (forest, answers): (&Forest, &Answers),
    parent: &Name,
    child: &Name,
) -> Check<Option<String>> {
    if !forest.is_configured() {
        return Err(Denial::unavailable(format!(
            "could not check what a new parent would overwrite, because it is not known which kinds are \
             propagated: {}; wait and try again",
            forest.stream(Stream::CONFIGURATION)
        ))
        .into());
    }
    if let Some((kind, state)) = forest.kind_gap() {
        let resource = kind.group_resource();
        let unknown = || {
            format!(
                "it cannot be known what a new parent would overwrite, because the {resource} of the cluster cannot be \
                 relied on: {state}; see that the service account of hns-webhook may list and watch {resource}, or wait \
                 and try again"
            )
        };
        // The list of a kind that has just been configured arrives soon.
        if state == StreamState::Waiting {
            wait_for(answers, WaitFor::Objects(kind.clone()), unknown)?;
        }
        return Err(Denial::unavailable(unknown()).into());
    }
    let refused = conflicts(forest, parent, child, true)?;
    let way_out = way_out(refused.iter().map(|(_, key)| forest.kind(key.kind)));
    if let Some(overwritten) = listed(forest, refused) {
        return Err(Denial::conflict(format!(
            "these objects are in the way of objects of the same name from the new parent or its ancestors; \
             {way_out}: {overwritten}"
        ))
        .into());
    }
    Ok(listed(forest, conflicts(forest, parent, child, false)?).map(|left_alone| {
        format!(
            "these objects are left as they are, although objects of the same name from the new parent or its ancestors \
             should be in their place: {left_alone}"
        )
    }))
}

/// Some of them by name, and the number of the others; `None` when there are none.
fn listed(forest: &Forest, found: BTreeSet<(Name, ObjectKey)>) -> Option<String> {
    let more = found.len().saturating_sub(NAMED);
    let named = found.into_iter().take(NAMED);
    let mut lines: Vec<String> = named
        .map(|(namespace, key)| {
            format!("Namespace {namespace:?}: {} ({})", shown(&key.name), forest.kind(key.kind))
        })
        .collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The sources in `child` and below that a source in `parent` or above would replace, in a stable order; `refused` selects the
/// kinds whose conflicts are denied, or the others. Selectors are matched against the labels that each namespace would have below
/// the new parent. Objects that are already in conflict are left out.
fn conflicts(
    forest: &Forest,
    parent: &Name,
    child: &Name,
    refused: bool,
) -> Check<BTreeSet<(Name, ObjectKey)>> {
    let mut found = BTreeSet::new();
    let Some((parent, child)) = forest.id(parent).zip(forest.id(child)) else { return Ok(found) };
    let is_meant = |kind: &KindSettings| forest.settings().on_conflict(kind).refuses() == refused;
    if !forest.kinds().any(|(_, kind)| is_meant(kind)) {
        return Ok(found);
    }
    let above = forest.path(parent);
    let joined = |holder: Id| {
        let mut path = forest.path(holder);
        path.truncate(path.iter().position(|id| *id == child).map_or(path.len(), |at| at + 1));
        path.extend(&above);
        path
    };
    // A copy of Accurate's goes when its namespace leaves that hierarchy.
    let stays = |object: &Object| !object.hop().is_some_and(Hop::is_followed);
    let (mut labels_of, looked_up) = (HashMap::new(), Cell::new(0));
    let objects = above.iter().flat_map(|id| forest.objects_at(*id));
    let sources = objects.filter_map(|(key, object)| Some((key, object.source()?)));
    for (key, source) in sources {
        let Some(kind) = forest.kind_settings(key.kind).filter(|kind| is_meant(kind)) else { continue };
        let here = forest.source(child, key).map(|_| child);
        for holder in forest.holders_below(key, child).into_iter().chain(here) {
            let labels = labels_of
                .entry(holder)
                .or_insert_with(|| labels_below(forest, holder, move || joined(holder)));
            let label = |name: &str| {
                looked_up.set(looked_up.get() + 1);
                labels(name)
            };
            if forest.object(holder, key).is_none_or(stays)
                && source.goes_to(kind, &key.name, &label).is_ok()
                && !(refused && keeps_own_object(forest, holder, key))
            {
                found.insert((forest.name(holder).clone(), key.clone()));
            }
            if looked_up.get() > MOST_LOOKED_UP {
                return Err(too_many(forest, key));
            }
        }
    }
    Ok(found)
}

fn too_many(forest: &Forest, key: &ObjectKey) -> Verdict {
    Denial::forbidden(format!(
        "could not check what the new parent would overwrite: too many objects in the new parent and its ancestors, such as {} \
         ({}), have a `select` or `treeSelect` annotation with many parts, and an object of the same name in or below this \
         namespace; shorten these annotations, or delete or rename objects",
        shown(&key.name),
        forest.kind(key.kind)
    ))
    .into()
}

fn keeps_own_object(forest: &Forest, holder: Id, key: &ObjectKey) -> bool {
    matches!(reach(forest, holder), Reach::Full(place) if place.keeps_own_object(key))
}
