//! Which namespaces are halted that the user may not read? The conditions of those below say so.

use std::collections::BTreeSet;

use forest::{Condition, Fact, Forest, HierarchyFact, Labels, Name, NamespaceFact, hnc};
use hns_api::conditions::activities_halted::ANCESTOR_HALT_ACTIVITIES;
use hns_api::labels;

use crate::structure::Structure;

/// The ancestors that a condition of a namespace names as halted, and whose hierarchy the user may not read.
pub(super) fn halted_unread(structure: &Structure) -> BTreeSet<Name> {
    if structure.hidden.is_empty() {
        return BTreeSet::new();
    }
    let forest = structure.forest();
    let is_named = |name: &Name, above: &Name| {
        let quoted = format!("{above:?}");
        let says = |it: &Condition| &*it.reason == ANCESTOR_HALT_ACTIVITIES && it.message.contains(&quoted);
        structure.conditions(name).iter().any(says)
    };
    let named = structure.hierarchies.keys().flat_map(|name| {
        let above = forest.ancestry(name).into_iter();
        above.filter(|it| structure.hidden.contains(it) && is_named(name, it)).collect::<Vec<_>>()
    });
    named.collect()
}

/// What halts such a namespace in the forest. If tree labels show a parent of it, the parent does not exist, and the labels stay.
pub(super) fn halt(forest: &Forest, structure: &Structure, name: &Name) -> Vec<Fact> {
    let is_read = |name: &Name| structure.namespaces.contains_key(name);
    let parent = forest.parent(name).filter(|it| structure.hidden.contains(*it) && !is_read(it));
    let mut facts = Vec::new();
    if let Some(parent) = parent.filter(|_| !is_read(name)) {
        let uid = forest.namespace_version(parent).unwrap_or_default().uid;
        facts.push(Fact::NamespaceGone(parent.clone(), uid));
        let above = forest.ancestry(name).into_iter().enumerate();
        let labels: Labels = above.map(|(depth, it)| (labels::tree_label(&it), depth.to_string())).collect();
        let version = forest.namespace_version(name).unwrap_or_default();
        let namespace = NamespaceFact { name: name.clone(), version, labels, ..NamespaceFact::default() };
        facts.push(Fact::Namespace(namespace));
    }
    let fact = HierarchyFact {
        version: forest.hierarchy_version(name).unwrap_or_default(),
        parent: forest.parent(name).cloned(),
        unreadable: Some("you may not read it".into()),
        ..HierarchyFact::default()
    };
    facts.push(Fact::Hnc(hnc::Fact::Hierarchy(name.clone(), fact)));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn a_namespace_that_a_condition_names_as_halted_is_halted() {
        const HALTED: &str = "ActivitiesHalted (AncestorHaltActivities): the ancestor \"mid\" is halted";
        const OTHER: &str = "ActivitiesHalted (AncestorHaltActivities): the ancestor \"gone\" is halted";
        const BAD: &str = "BadConfiguration (IllegalManagedLabel): \"mid\"";
        for (mid, shown, hidden, wanted) in [
            ("mid < top", HALTED, &["mid", "top"][..], "mid"),
            ("mid", HALTED, &["mid"], "mid"),
            ("mid < top", HALTED, &["top"], ""),
            ("mid < top", OTHER, &["mid", "top"], ""),
            ("mid < top", BAD, &["mid", "top"], ""),
            ("mid < top", "", &["mid", "top"], ""),
        ] {
            let mut structure = sketch(&["top", mid, &format!("low < mid ! {shown}")]);
            for name in hidden.iter().copied() {
                structure.namespaces.remove(name);
                structure.hidden.insert(name.into());
            }
            let halted = halted_unread(&structure);
            assert_eq!(halted.iter().map(|it| &**it).collect::<Vec<_>>().join(" "), wanted, "{shown}");
            let mut forest = structure.forest();
            let above = forest.ancestry("low");
            for name in &halted {
                for fact in halt(&forest, &structure, name) {
                    forest.apply(fact);
                }
            }
            assert_eq!(forest.halted_root("low").map_or("", |it| &**it), wanted, "{shown} {hidden:?}");
            assert_eq!(forest.ancestry("low"), above);
            assert_eq!(forest.exists("top"), wanted.is_empty() || mid == "mid", "{shown} {hidden:?}");
        }
    }
}
