//! What a namespace's labels and its `HierarchyConfiguration`'s status should say.

use std::collections::{BTreeMap, BTreeSet};

use super::Action;
use crate::tree::{Id, Node, TREE_LABEL};
use crate::{Condition, Forest, HierarchyStatus, Name, Reason, Version};

const INCLUDED: &str = "hnc.x-k8s.io/included-namespace";

/// How a namespace's labels differ from what they should be.
#[derive(Debug, Default)]
pub(super) struct LabelChange {
    version: Version,
    set: BTreeMap<String, String>,
    remove: BTreeSet<String>,
}

impl LabelChange {
    /// The writes before and after everything else. When nothing is taken away in between, one write does both: a single
    /// write is never wider than either state.
    pub(super) fn around(self, nothing_between: bool) -> (Option<Action>, Option<Action>) {
        let Self { version, set, remove } = self;
        let write = |set: BTreeMap<_, _>, remove: BTreeSet<_>| {
            let needed = !set.is_empty() || !remove.is_empty();
            needed.then(|| Action::Label { version: version.clone(), set, remove })
        };
        if nothing_between {
            return (None, write(set, remove));
        }
        (write(BTreeMap::new(), remove), write(set, BTreeSet::new()))
    }
}

/// A managed namespace bears the included label and one tree label per namespace that it is part of; an unmanaged one
/// does not bear the included label, and its other labels are left alone.
pub(super) fn labels(forest: &Forest, id: Id) -> LabelChange {
    let node = forest.tree.node(id);
    let Some(seen) = node.namespace.as_ref().filter(|seen| !seen.terminating) else {
        return LabelChange::default();
    };
    let mut wanted = BTreeMap::new();
    if node.managed {
        wanted.insert(INCLUDED.to_owned(), "true".to_owned());
        for (depth, above) in forest.tree.labelling(id).into_iter().enumerate() {
            wanted.insert(format!("{}{TREE_LABEL}", forest.tree.name(above)), depth.to_string());
        }
    }
    let ours = |key: &str| key == INCLUDED || (node.managed && key.ends_with(TREE_LABEL));
    let remove = seen.labels.iter().map(|(key, _)| key).filter(|key| ours(key) && !wanted.contains_key(*key));
    LabelChange {
        version: seen.version.clone(),
        remove: remove.map(str::to_owned).collect(),
        set: wanted.into_iter().filter(|(key, value)| seen.labels.get(key) != Some(value)).collect(),
    }
}

/// The write that makes the status right, if it is not. An object is created only when there is something to say, and
/// not in a namespace that is going away.
pub(super) fn report(forest: &Forest, id: Id) -> Option<Action> {
    let node = forest.tree.node(id);
    let namespace = node.namespace.as_ref()?;
    let shown = node.hierarchy.as_deref();
    let status = status(forest, id, shown.map_or(&[], |seen| &seen.status.conditions));
    match shown {
        Some(seen) if seen.status == status => None,
        Some(seen) => Some(Action::ReportStatus { version: seen.version.clone(), status }),
        None if status.is_empty() || namespace.terminating => None,
        None => Some(Action::CreateHierarchy(status)),
    }
}

fn status(forest: &Forest, id: Id, shown: &[Condition]) -> HierarchyStatus {
    let node = forest.tree.node(id);
    if !node.exists() {
        return HierarchyStatus::default();
    }
    let children = forest.tree.children(id).iter().map(|child| forest.tree.name(*child).clone()).collect();
    let conditions = conditions(forest, id, node).into_iter().map(|it| it.since_shown(shown)).collect();
    HierarchyStatus { children, conditions }
}

/// An ancestor's halt comes first, where HNC's readers look for it.
fn conditions(forest: &Forest, id: Id, node: &Node) -> Vec<Condition> {
    let ancestor = forest.tree.halted_root(id).filter(|root| *root != id).map(|root| {
        let name = forest.tree.name(root);
        Condition::new(
            Reason::AncestorHaltActivities,
            format!(
                "Propagation is paused because the ancestor {name:?} is halted; see the conditions there"
            ),
        )
    });
    let own = forest.tree.own_halt(id).map(|halt| halt.condition());
    ancestor.into_iter().chain(own).chain(failed_writes(forest, &node.name)).collect()
}

/// So many objects are named.
const NAMED: usize = 3;

fn failed_writes(forest: &Forest, namespace: &Name) -> Option<Condition> {
    let failed = forest.failures.get(namespace)?;
    let named = failed
        .iter()
        .take(NAMED)
        .map(|(key, why)| format!("{} {:?}: {why}", forest.kind(key.kind).group_resource(), &*key.name));
    let mut lines: Vec<String> = named.collect();
    if failed.len() > NAMED {
        lines.push(format!("and {} more", failed.len() - NAMED));
    }
    Some(Condition::new(
        Reason::CannotPropagateObject,
        format!("These objects could not be written or removed: {}", lines.join("; ")),
    ))
}
