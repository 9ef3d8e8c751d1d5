//! The namespaces that are deleted with an anchor, and those that lose their parent, from the forest's preview without
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use forest::preview::{Intent, Preview};
use forest::rules::{Answers, User, Verdict};
use forest::{Forest, Name, Settings};
use hns_api::annotations::SUBNAMESPACE_OF;

use crate::cluster_preview::{self, is_deletion};
use crate::session::Session;
use crate::structure::Structure;
use crate::{Failure, published};

/// The consequences of a deletion.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    /// The parent and the name of the anchor.
    anchor: (String, String),
    /// The deleted namespaces.
    deleted: BTreeSet<Name>,
    /// The namespaces that are kept and lose their parent.
    orphaned: BTreeSet<Name>,
    /// The namespaces below of which it is not known whether they are subnamespaces, and so deleted as well.
    unsure: BTreeSet<Name>,
    /// Whether the user may not read what is below the child, or whether there is a namespace of the anchor.
    is_open: bool,
    /// Whether a namespace that the user may not read may allow cascading deletion.
    pub(super) may_cascade: bool,
    /// Why the deletion of the anchor would be refused, by the state of the hierarchy.
    pub(super) refusal: Option<String>,
    /// Why the namespace of the anchor is not deleted with it, as a note, if there is one.
    pub(super) stays: Option<String>,
    /// What could not be read, as notes for the user.
    pub(super) notes: Vec<String>,
}

/// Reads the namespaces above and below the child; `allows` means that cascading deletion is allowed first.
pub(super) async fn read(
    session: &Session,
    (parent, child): (&str, &str),
    allows: bool,
) -> Result<Consequences, Failure> {
    let concerned = [parent, child];
    let (structure, (settings, note)) = futures::join!(
        Box::pin(cluster_preview::gather(session, &concerned)),
        Box::pin(published::settings(session)),
    );
    let mut structure = structure?;
    cluster_preview::add_unlisted(session, &mut structure, (Some(parent), child)).await;
    let unknown = if structure.is_whole { structure.notes.clone() } else { unread(&structure, parent) };
    let notes = unknown.into_iter().chain(note).collect();
    let found = Consequences::of((parent, child), &structure, settings, allows);
    Ok(Consequences { notes, ..found })
}

/// Why the namespace of the anchor is not deleted with it, as a note; `None` if it is, or if there is none.
pub(in crate::commands) fn stays(
    (parent, child): (&str, &str),
    structure: &Structure,
    settings: &Settings,
) -> Option<String> {
    let namespace = structure.namespaces.get(child);
    if namespace.map_or(structure.is_whole, |it| it.terminating) {
        return None;
    }
    let is_its = namespace.is_some_and(|it| it.annotations.get(SUBNAMESPACE_OF) == Some(parent));
    match excluded((parent, child), settings) {
        Some(why) if is_its => Some(format!("{why}; {}", by_itself(child))),
        Some(why) => Some(why),
        None if is_its || namespace.is_none() => None,
        None => Some(format!("the namespace {child} does not belong to this anchor, so it stays")),
    }
}

/// Why a namespace is not deleted with its anchor, if the settings exclude it or its parent.
pub(super) fn excluded((parent, child): (&str, &str), settings: &Settings) -> Option<String> {
    let why = [child, parent].into_iter().find_map(|it| Some(format!("{it} {}", settings.unmanaged(it)?)))?;
    Some(format!("{why}, so the namespace {child} stays"))
}

/// How to delete a namespace that is not deleted with its anchor.
pub(super) fn by_itself(child: &str) -> String {
    format!(
        "to delete it: `kubectl delete namespace {child}`, after the subnamespaces below it, if there are any"
    )
}

/// The namespaces whose children are not known, unless they are above the deleted one, as a note.
pub(in crate::commands) fn unread(structure: &Structure, parent: &str) -> Vec<String> {
    let above = structure.forest().ancestry(parent);
    let hidden: Vec<&str> =
        structure.hidden.iter().filter(|it| !above.contains(it)).map(|it| &**it).collect();
    let note =
        format!("you may not read the hierarchy of {}; what is below is not listed", hidden.join(", "));
    if hidden.is_empty() { Vec::new() } else { vec![note] }
}

/// The namespaces from `child` on that are deleted after these changes, and why the last one would be refused. That includes those whose
/// deletion has begun with that of their anchor. Whether the user has the rights is left to the API server.
fn deleted(mut preview: Preview, child: &str, intents: &[Intent]) -> (BTreeSet<Name>, Option<String>) {
    let nobody = User::default();
    let forest = preview.forest();
    let is_below = |name: &&Name| forest.ancestry(name).iter().any(|it| **it == *child);
    let below: BTreeSet<Name> = forest.names().filter(is_below).cloned().collect();
    let mut refusal = None;
    for intent in intents {
        // The webhook does not wait for what the controller has still to do.
        refusal = match preview.judge(intent, &nobody, &Answers::new()) {
            Verdict::Deny(denial) => Some(denial.message),
            _ => None,
        };
        // A permission counts for what the controller has still to do.
        if matches!(intent, Intent::DeleteAnchor { .. }) {
            preview.settle();
        }
        preview.change(intent, &nobody);
    }
    preview.settle();
    let gone = preview.outcome().namespaces.into_iter().filter(is_deletion);
    (gone.map(|it| it.name).filter(|name| below.contains(name)).collect(), refusal)
}

/// The children that are not being deleted already.
fn staying(forest: &Forest, name: &Name) -> Vec<Name> {
    forest.children(name).into_iter().filter(|child| !forest.is_terminating(child)).collect()
}

impl Consequences {
    fn new((parent, child): (&str, &str), forest: Forest, intents: &[Intent]) -> Self {
        let children: BTreeMap<Name, Vec<Name>> =
            forest.names().map(|name| (name.clone(), staying(&forest, name))).collect();
        let (deleted, refusal) = deleted(Preview::new(forest), child, intents);
        let below = deleted.iter().filter_map(|name| children.get(name)).flatten();
        let orphaned = below.filter(|name| !deleted.contains(*name)).cloned().collect();
        let anchor = (parent.to_owned(), child.to_owned());
        Self { anchor, deleted, orphaned, refusal, ..Self::default() }
    }

    fn of((parent, child): (&str, &str), structure: &Structure, settings: Settings, allows: bool) -> Self {
        let stays = stays((parent, child), structure, &settings);
        let forest = structure.forest_under(Arc::new(settings));
        let is_unread = |name: &str| !structure.is_whole && !structure.namespaces.contains_key(name);
        let may_cascade = !allows && forest.ancestry(child).iter().any(|it| structure.hidden.contains(it));
        let allow = Intent::SetHierarchy {
            namespace: child.into(),
            parent: forest.parent(child).cloned(),
            allow_cascading_deletion: true,
        };
        let delete = Intent::DeleteAnchor { parent: parent.into(), child: child.into() };
        let is_there = forest.namespace_version(child).is_some();
        let known = structure.forest();
        let is_unsure = |name: &Name| structure.known_subnamespace(&known, name).is_none();
        let intents: Vec<Intent> =
            (allows && is_there).then_some(allow).into_iter().chain([delete]).collect();
        let mut found = Self { may_cascade, stays, ..Self::new((parent, child), forest, &intents) };
        let orphaned = std::mem::take(&mut found.orphaned);
        (found.unsure, found.orphaned) = orphaned.into_iter().partition(is_unsure);
        found.is_open = if found.deleted.is_empty() {
            found.stays.is_none() && is_unread(child)
        } else {
            !unread(structure, parent).is_empty()
        };
        found
    }

    /// Whether it is known that only the child is deleted.
    pub(super) fn is_only(&self, child: &str) -> bool {
        !self.is_open
            && self.unsure.is_empty()
            && self.orphaned.is_empty()
            && self.deleted.iter().all(|name| **name == *child)
    }

    /// The namespaces that are deleted with the child, and those that lose their parent, as notes.
    pub(super) fn others(&self) -> Vec<String> {
        let (_, child) = &self.anchor;
        let is_other = |name: &&str| *name != child;
        let note = |what: &str, names: &BTreeSet<Name>| {
            let names: Vec<&str> = names.iter().map(|it| &**it).filter(is_other).collect();
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let deleted = note("these namespaces below are deleted, with everything in them", &self.deleted);
        let unsure = note(
            "you may not read these namespaces below; those that are subnamespaces are deleted",
            &self.unsure,
        );
        let orphaned = note("these namespaces stay, and lose their parent", &self.orphaned);
        [deleted, unsure, orphaned].into_iter().flatten().collect()
    }

    /// The consequences as text.
    pub(super) fn text(&self) -> String {
        let (parent, child) = &self.anchor;
        let what = format!("Deleting the subnamespace anchor {child} in {parent}");
        if self.deleted.is_empty() && self.is_open {
            return format!(
                "{what}. You may not read the namespace {child}; whether it is deleted with the anchor is not known.\n"
            );
        }
        if self.deleted.is_empty() {
            return format!("{what}; no namespace is deleted with it.\n");
        }
        let mut text = String::new();
        for (head, names) in [
            (&*format!("{what} deletes these namespaces, with everything in them:"), &self.deleted),
            (
                "You may not read these namespaces. Those that are subnamespaces are deleted as well, with the subnamespaces below them; \
                 the others stay, and lose their parent:",
                &self.unsure,
            ),
            ("These namespaces stay, and lose their parent:", &self.orphaned),
        ] {
            if !names.is_empty() {
                let _ = writeln!(text, "{head}");
            }
            for name in names {
                let _ = writeln!(text, "  {name}");
            }
        }
        if self.is_open {
            let _ = writeln!(
                text,
                "If cascading deletion is allowed, all subnamespaces below are deleted as well, also those that are not listed."
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use forest::AnchorFact;

    use super::*;
    use crate::structure::tests::sketch;

    fn deleting(allows: bool) -> Consequences {
        let mut structure =
            sketch(&["a", "[s] b < a", "[s] c < b", "full < b", "below < full", "going < b", "other < a"]);
        structure.namespaces.get_mut("going").unwrap().terminating = true;
        for (parent, child) in [("a", "b"), ("b", "c")] {
            let name = child.into();
            structure.anchors.push((parent.into(), AnchorFact { name, ..AnchorFact::default() }));
        }
        let allow = Intent::SetHierarchy {
            namespace: "b".into(),
            parent: Some("a".into()),
            allow_cascading_deletion: true,
        };
        let delete = Intent::DeleteAnchor { parent: "a".into(), child: "b".into() };
        let intents: Vec<Intent> = allows.then_some(allow).into_iter().chain([delete]).collect();
        Consequences::new(("a", "b"), structure.forest(), &intents)
    }

    /// What a user foresees who may not read the namespaces `unread`, nor the hierarchies of `hidden`.
    fn of_unread(lines: &[&str], unread: &[&str], hidden: &[&str], anchors: &[(&str, &str)]) -> Consequences {
        let mut structure = sketch(lines);
        structure.namespaces.retain(|name, _| !unread.contains(&&**name));
        structure.hidden = hidden.iter().copied().map(Name::from).collect();
        for (parent, child) in anchors {
            let (name, state) = ((*child).into(), Some("Ok".into()));
            structure.anchors.push(((*parent).into(), AnchorFact { name, state, ..AnchorFact::default() }));
        }
        let settings = crate::structure::settings();
        Consequences::of(("top", "k1"), &structure, settings, false)
    }

    #[test]
    fn what_is_not_known_needs_a_confirmation() {
        let lines = ["top", "[s] k1 < top", "k2 < k1"];
        let of_all = &[("top", "k1"), ("k1", "k2")][..];
        let all = &["top", "k1", "k2"][..];
        let anchor = "Deleting the subnamespace anchor k1 in top";
        let deletes = format!("{anchor} deletes these namespaces, with everything in them:\n  k1\n");
        let refused = of_unread(&lines, all, &["top"], of_all);
        assert!(refused.refusal.is_some() && refused.may_cascade, "top may allow it");
        let refused = of_unread(&lines, &[], &[], of_all);
        assert!(refused.refusal.is_some() && !refused.may_cascade);
        let cascades = "If cascading deletion is allowed, all subnamespaces below are deleted as well, also those that are not listed.\n";
        let whether =
            ". You may not read the namespace k1; whether it is deleted with the anchor is not known.\n";
        for (lines, unread, hidden, anchors, wanted, is_only) in [
            (&lines[..2], all, &["top"][..], &of_all[..1], deletes.clone(), true),
            (&lines[..2], all, &["top", "k1"], &of_all[..1], format!("{deletes}{cascades}"), false),
            (&lines[..2], all, &["top", "k1"], &[], format!("{anchor}{whether}"), false),
        ] {
            let found = of_unread(lines, unread, hidden, anchors);
            assert_eq!((found.refusal.as_deref(), found.text()), (None, wanted), "{lines:?} {hidden:?}");
            assert_eq!(found.is_only("k1"), is_only, "{lines:?} {hidden:?}");
        }
    }

    #[test]
    fn a_namespace_below_that_cannot_be_read_may_be_deleted() {
        let mut structure = sketch(&["top", "k1 < top", "k2 < k1", "k3 < k1"]);
        structure.hierarchies.get_mut("k1").unwrap().allow_cascading_deletion = true;
        structure.namespaces.retain(|name, _| **name == *"top");
        structure.without_anchors.insert("k1".into());
        for (parent, child) in [("top", "k1"), ("k1", "k2")] {
            let (name, state) = (child.into(), Some("Ok".into()));
            structure.anchors.push((parent.into(), AnchorFact { name, state, ..AnchorFact::default() }));
        }
        let found = Consequences::of(("top", "k1"), &structure, crate::structure::settings(), false);
        let wanted = "\
Deleting the subnamespace anchor k1 in top deletes these namespaces, with everything in them:
  k1
  k2
You may not read these namespaces. Those that are subnamespaces are deleted as well, with the subnamespaces below them; \
the others stay, and lose their parent:
  k3
";
        assert_eq!(found.text(), wanted);
        assert_eq!(
            found.others(),
            [
                "these namespaces below are deleted, with everything in them: k2",
                "you may not read these namespaces below; those that are subnamespaces are deleted: k3",
            ]
        );
        assert!(!found.is_only("k1"));
    }

    #[test]
    fn what_cannot_be_read_above_does_not_matter() {
        let mut structure = sketch(&["a", "b < a", "c < b"]);
        structure.hidden = ["a", "b"].map(Name::from).into();
        assert_eq!(unread(&structure, "b"), Vec::<String>::new());
        structure.hidden.insert("c".into());
        assert_eq!(
            unread(&structure, "b"),
            ["you may not read the hierarchy of c; what is below is not listed"]
        );
    }

    #[test]
    fn a_namespace_that_stays_is_named_with_the_reason() {
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        let mut structure = sketch(&["a", "[s] b < a", "[s] c < out", "[s] out < a", "d < a", "kube-system"]);
        structure.is_whole = true;
        let excluded = "out is excluded by excludedNamespaces in the settings of hns, so the namespace";
        let delete = "stays; to delete it: `kubectl delete namespace";
        let after = ", after the subnamespaces below it, if there are any";
        for (anchor, wanted) in [
            (("a", "b"), None),
            (("a", "gone"), None),
            (("out", "c"), Some(format!("{excluded} c {delete} c`{after}"))),
            (("a", "out"), Some(format!("{excluded} out {delete} out`{after}"))),
            (("out", "kube-system"), Some(format!("{excluded} kube-system stays"))),
            (("a", "d"), Some("the namespace d does not belong to this anchor, so it stays".to_owned())),
            (("a", "c"), Some("the namespace c does not belong to this anchor, so it stays".to_owned())),
        ] {
            assert_eq!(stays(anchor, &structure, &settings), wanted, "{anchor:?}");
        }
        structure.namespaces.get_mut("c").unwrap().terminating = true;
        assert_eq!(stays(("out", "c"), &structure, &settings), None);
        // Who may not read the namespace may know the settings.
        structure.is_whole = false;
        assert_eq!(stays(("out", "hidden"), &structure, &settings), Some(format!("{excluded} hidden stays")));
        assert_eq!(stays(("a", "hidden"), &structure, &settings), None);
    }

    /// The anchors of `low` and, elsewhere, of `far` are being deleted, but their namespaces are not yet.
    #[test]
    fn a_namespace_whose_anchor_is_being_deleted_is_deleted() {
        let mut structure = sketch(&["top", "[s] mid < top", "[s] low < mid", "full < low", "[s] far < top"]);
        for (parent, child) in [("top", "mid"), ("mid", "low"), ("top", "far")] {
            let (name, state) = (child.into(), Some("Ok".into()));
            let finalizers = vec![hns_api::GROUP.into()];
            let terminating = child != "mid";
            let fact = AnchorFact { name, state, finalizers, terminating, ..AnchorFact::default() };
            structure.anchors.push((parent.into(), fact));
        }
        let of = |allows| Consequences::of(("top", "mid"), &structure, crate::structure::settings(), allows);
        let wanted = "\
Deleting the subnamespace anchor mid in top deletes these namespaces, with everything in them:
  low
  mid
These namespaces stay, and lose their parent:
  full
";
        let all = of(true);
        assert_eq!((all.refusal.as_deref(), &*all.text()), (None, wanted));
        // Until the namespace is being deleted, it counts as a child.
        let refusal = of(false).refusal.unwrap_or_default();
        assert!(refusal.starts_with("the subnamespace \"mid\" has children; set"), "{refusal}");
    }

    #[test]
    fn all_deleted_and_orphaned_namespaces_are_listed() {
        let wanted = "\
Deleting the subnamespace anchor b in a deletes these namespaces, with everything in them:
  b
  c
These namespaces stay, and lose their parent:
  full
";
        let all = deleting(true);
        assert_eq!(all.text(), wanted);
        assert!(!all.is_only("b"));
        assert_eq!(
            all.others(),
            [
                "these namespaces below are deleted, with everything in them: c",
                "these namespaces stay, and lose their parent: full",
            ]
        );
        assert_eq!(all.refusal, None);
        let none = deleting(false);
        let refusal = none.refusal.as_deref().unwrap_or_default();
        assert!(refusal.starts_with("the subnamespace \"b\" has children"), "{refusal}");
        assert!(none.is_only("b"));
        assert_eq!(none.others(), [""; 0]);
    }
}
