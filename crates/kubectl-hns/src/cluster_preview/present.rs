//! What is so already, without a change? It is no effect of the change.

use std::collections::BTreeSet;

use forest::preview::{ObjectChange, Outcome, Preview};
use forest::{Name, ObjectKey};

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
}

impl Present {
    /// That of a preview in which nothing was changed.
    pub(super) fn of(preview: &Preview, unreadable: &BTreeSet<Name>) -> Self {
        let forest = preview.forest();
        let going = forest.names().filter(|name| forest.is_terminating(name)).cloned().collect();
        Self { going, ..Self::left_to_do(&preview.outcome(), unreadable) }
    }

    fn left_to_do(outcome: &Outcome, unreadable: &BTreeSet<Name>) -> Self {
        let created = outcome.namespaces.iter().filter(|it| it.before.is_none());
        Self {
            pending: size(outcome, unreadable),
            missing: outcome.objects.iter().filter(|it| it.before.is_none()).map(place).collect(),
            not_made: created.map(|it| it.name.clone()).collect(),
            going: BTreeSet::new(),
        }
    }

    /// Removes it from what changes would do. Names the namespaces that are being deleted, as a note.
    pub(super) fn leave_out_of(&self, outcome: &mut Outcome) -> Option<String> {
        outcome.objects.retain(|it| it.after.is_some() || !self.missing.contains(&place(it)));
        outcome.namespaces.retain(|it| it.after.is_some() || !self.not_made.contains(&it.name));
        let mut concerned = BTreeSet::new();
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

fn place(object: &ObjectChange) -> (Name, ObjectKey) {
    (object.namespace.clone(), object.key.clone())
}

fn size(outcome: &Outcome, unreadable: &BTreeSet<Name>) -> usize {
    let namespaces = outcome.namespaces.iter().filter(|it| !unreadable.contains(&it.name));
    namespaces.count() + outcome.anchors.len() + outcome.sub_namespaces.len() + outcome.objects.len()
}

#[cfg(test)]
mod tests {
    use forest::preview::{AnchorChange, NamespaceChange, NamespaceState};

    use super::*;

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
