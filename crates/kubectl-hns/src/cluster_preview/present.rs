//! What is so already, without a change? It is no effect of the change.

use std::collections::BTreeSet;

use forest::preview::{NamespaceChange, NamespaceState, ObjectChange, Outcome, Preview};
use forest::{Name, ObjectKey};
use hns_api::labels::HAS_CHILDREN;

use crate::structure::Structure;

/// What the controller has still to do, and what is being deleted.
#[derive(Default)]
pub(super) struct Present {
    /// The number of writes that the controller has still to make, except in namespaces that cannot be read, whose labels are unknown.
    pub(super) pending: usize,
    /// The objects that the controller has still to create. It may never be able to, so that they go is no effect.
    missing: BTreeSet<(Name, ObjectKey)>,
    /// The namespaces that the controller has still to create.
    not_made: BTreeSet<Name>,
    /// The namespaces that are being deleted.
    going: BTreeSet<Name>,
    /// The namespaces below a deleted one whose anchor is being deleted: the controller has still to delete them.
    begun: BTreeSet<Name>,
}

impl Present {
    /// That of a preview in which nothing was changed; `below` are the namespaces below one that is to be deleted.
    pub(super) fn of(preview: &Preview, unreadable: &BTreeSet<Name>, below: &BTreeSet<Name>) -> Self {
        let forest = preview.forest();
        let going = forest.names().filter(|name| forest.is_terminating(name)).cloned().collect();
        let outcome = preview.outcome();
        let begun = outcome.namespaces.iter().filter(|it| is_deletion(it) && below.contains(&it.name));
        let begun = begun.map(|it| it.name.clone()).collect();
        Self { going, begun, ..Self::left_to_do(&outcome, unreadable) }
    }

    fn left_to_do(outcome: &Outcome, unreadable: &BTreeSet<Name>) -> Self {
        let created = outcome.namespaces.iter().filter(|it| it.before.is_none());
        Self {
            pending: size(outcome, unreadable),
            missing: outcome.objects.iter().filter(|it| it.before.is_none()).map(place).collect(),
            not_made: created.map(|it| it.name.clone()).collect(),
            going: BTreeSet::new(),
            begun: BTreeSet::new(),
        }
    }

    /// Removes it from what changes would do. Names the namespaces that are being deleted, as a note.
    pub(super) fn leave_out_of(&self, outcome: &mut Outcome) -> Option<String> {
        outcome.objects.retain(|it| it.after.is_some() || !self.missing.contains(&place(it)));
        outcome.namespaces.retain(|it| it.after.is_some() || !self.not_made.contains(&it.name));
        let mut concerned = self.begun.clone();
        let mut stays = |name: &Name| {
            let is_going = self.going.get(name);
            concerned.extend(is_going.cloned());
            is_going.is_none()
        };
        outcome.namespaces.retain(|it| stays(&it.name));
        outcome.anchors.retain(|it| stays(&it.child));
        outcome.objects.retain(|it| stays(&it.namespace));
        let names: Vec<&str> = concerned.iter().map(|it| &**it).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        (!names.is_empty()).then(|| format!("{} {are} being deleted already", names.join(", ")))
    }
}

/// A namespace with children that the user may not read, which its status lists, keeps the label that it has children.
pub(super) fn keep_label_of_parents(outcome: &mut Outcome, structure: &Structure) {
    let is_unread = |child: &Name| {
        !structure.is_whole
            && !structure.namespaces.contains_key(child)
            && !structure.hierarchies.contains_key(child)
    };
    for NamespaceChange { name, before, after } in &mut outcome.namespaces {
        let (Some(before), Some(after)) = (before, after) else { continue };
        if structure.listed_children(name).iter().any(is_unread)
            && let Some(value) = before.labels.get(HAS_CHILDREN)
        {
            let own = after.labels.iter().filter(|(key, _)| *key != HAS_CHILDREN);
            after.labels = own.chain([(HAS_CHILDREN, value)]).collect();
        }
    }
    outcome.namespaces.retain(|it| it.before != it.after);
}

/// Whether the namespace is deleted, and was not being deleted before.
pub(crate) fn is_deletion(change: &NamespaceChange) -> bool {
    let is_going = |state: Option<&NamespaceState>| state.is_none_or(|it| it.terminating);
    !is_going(change.before.as_ref()) && is_going(change.after.as_ref())
}

fn place(object: &ObjectChange) -> (Name, ObjectKey) {
    (object.namespace.clone(), object.key.clone())
}

fn size(outcome: &Outcome, unreadable: &BTreeSet<Name>) -> usize {
    let namespaces = outcome.namespaces.iter().filter(|it| !unreadable.contains(&it.name));
    namespaces.count() + outcome.anchors.len() + outcome.sub_namespaces.len() + outcome.objects.len()
}

#[cfg(test)]
mod tests {
    use forest::AnchorFact;
    use forest::preview::AnchorChange;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn a_namespace_whose_anchor_is_being_deleted_is_named() {
        let mut structure = sketch(&["top", "[s] low < top"]);
        let anchor = AnchorFact {
            name: "low".into(),
            state: Some("Ok".into()),
            finalizers: vec![hns_api::GROUP.into()],
            terminating: true,
            ..AnchorFact::default()
        };
        structure.anchors.push(("top".into(), anchor));
        let mut preview = Preview::new(structure.forest());
        preview.settle();
        for (below, wanted) in [(&["low"][..], Some("low is being deleted already")), (&[], None)] {
            let below = below.iter().copied().map(Name::from).collect();
            let present = Present::of(&preview, &BTreeSet::new(), &below);
            assert_eq!(present.leave_out_of(&mut Outcome::default()).as_deref(), wanted);
        }
    }

    #[test]
    fn a_namespace_that_is_not_made_yet_is_not_deleted() {
        let there = || Some(NamespaceState::default());
        let change = |name: &str, before, after| NamespaceChange { name: name.into(), before, after };
        let outcome = |namespaces| Outcome { namespaces, ..Outcome::default() };
        let present = outcome(vec![change("new", None, there()), change("old", there(), there())]);
        let present = Present::left_to_do(&present, &BTreeSet::new());
        let mut after = outcome(vec![change("new", None, None), change("old", there(), None)]);
        assert_eq!(present.leave_out_of(&mut after), None);
        assert_eq!((after.namespaces, present.pending), (vec![change("old", there(), None)], 2));
    }

    #[test]
    fn a_parent_with_children_that_cannot_be_read_keeps_its_label() {
        let state = |labels: &[(&str, &str)]| {
            Some(NamespaceState { labels: labels.iter().copied().collect(), ..NamespaceState::default() })
        };
        let (has, other) = ((HAS_CHILDREN, "true"), ("x", "1"));
        let mut structure = sketch(&["top", "low < top"]);
        for (children, is_whole, wanted) in [
            (&["low", "unread"][..], false, None),
            (&["low"], false, Some(state(&[other]))),
            (&["low", "gone"], true, Some(state(&[other]))),
        ] {
            structure.is_whole = is_whole;
            let status = &mut structure.hierarchies.get_mut("top").unwrap().status;
            status.children = children.iter().copied().map(Name::from).collect();
            let change =
                NamespaceChange { name: "top".into(), before: state(&[has, other]), after: state(&[other]) };
            let mut outcome = Outcome { namespaces: vec![change], ..Outcome::default() };
            keep_label_of_parents(&mut outcome, &structure);
            assert_eq!(outcome.namespaces.pop().map(|it| it.after), wanted, "{children:?}");
        }
    }

    #[test]
    fn what_is_being_deleted_already_is_no_effect() {
        let change = |name: &str| NamespaceChange {
            name: name.into(),
            before: Some(NamespaceState::default()),
            after: Some(NamespaceState::default()),
        };
        let anchor = AnchorChange { parent: "top".into(), child: "going".into(), is_there: false };
        let mut outcome = Outcome {
            namespaces: vec![change("top"), change("going")],
            anchors: vec![anchor],
            ..Outcome::default()
        };
        let present = Present { going: ["going", "elsewhere"].map(Name::from).into(), ..Present::default() };
        let note = present.leave_out_of(&mut outcome);
        assert_eq!(note.as_deref(), Some("going is being deleted already"));
        assert_eq!((outcome.namespaces, outcome.anchors), (vec![change("top")], vec![]));
    }
}
