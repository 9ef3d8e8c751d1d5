//! Row 11: what a new parent would overwrite.

use std::collections::{BTreeSet, HashSet};

use super::Asked;
use crate::object::Source;
use crate::rules::{Check, Denial};
use crate::tree::Id;
use crate::{Forest, Name, ObjectKey};

/// So many conflicts are named; of the rest, the number is given.
const NAMED: usize = 20;

impl Asked<'_> {
    /// Refuses when a source above would overwrite a source in the namespace or below it. What cannot be known is not
    /// assumed: while a kind's objects cannot be listed, nothing joins a tree.
    pub(super) fn no_conflicts(&self, parent: &Name) -> Check {
        if let Some((kind, state)) = self.forest.kind_gap() {
            let resource = kind.group_resource();
            return Err(Denial::unavailable(format!(
                "it cannot be known what a new parent would overwrite, because the {resource} of the cluster cannot be \
                 relied on: {state}; see that the service account of hns-webhook may list and watch {resource}, or wait \
                 and try again"
            ))
            .into());
        }
        let found = conflicts(self.forest, parent, &self.request.namespace);
        if found.is_empty() {
            return Ok(());
        }
        let more = found.len().saturating_sub(NAMED);
        let mut lines: Vec<String> = found
            .into_iter()
            .take(NAMED)
            .map(|(namespace, key)| {
                format!("Namespace {namespace:?}: {} ({})", key.name, self.forest.kind(key.kind))
            })
            .collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Err(Denial::conflict(format!(
            "these objects would be overwritten by objects of the same name from the new parent or its ancestors; rename \
             or delete them first: {}",
            lines.join("; ")
        ))
        .into())
    }
}

/// The sources in `child` and below that a source in `parent` or above would overwrite, in a stable order.
fn conflicts(forest: &Forest, parent: &Name, child: &Name) -> BTreeSet<(Name, ObjectKey)> {
    let (Some(parent), Some(child)) = (forest.tree.id(parent), forest.tree.id(child)) else {
        return BTreeSet::new();
    };
    let mut below: HashSet<Id> = forest.tree.descendants(child).into_iter().collect();
    below.insert(child);
    let above = forest.tree.ancestry(parent).path;
    above
        .into_iter()
        .flat_map(|id| forest.objects.within(id))
        .filter(|(_, object)| object.source().is_some_and(Source::propagates))
        .flat_map(|(key, _)| held_in(forest, key, &below).map(move |holder| (holder, key)))
        .map(|(holder, key)| (forest.tree.name(holder).clone(), key.clone()))
        .collect()
}

/// Where in `within` there is a source of this kind and name; costs what the smaller of the two sets is.
fn held_in<'a>(
    forest: &'a Forest,
    key: &'a ObjectKey,
    within: &'a HashSet<Id>,
) -> Box<dyn Iterator<Item = Id> + 'a> {
    match forest.objects.holders(key) {
        None => Box::new(std::iter::empty()),
        Some(holders) if holders.len() <= within.len() => {
            Box::new(holders.iter().copied().filter(|id| within.contains(id)))
        }
        Some(holders) => Box::new(within.iter().copied().filter(|id| holders.contains(id))),
    }
}
