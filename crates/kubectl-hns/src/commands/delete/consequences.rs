//! The namespaces that are deleted with an anchor, and those that lose their parent, from the forest's preview without
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use forest::preview::{Intent, NamespaceState, Preview};
use forest::rules::{Answers, User, Verdict};
use forest::{Forest, Name, Settings};
use hns_api::annotations::SUBNAMESPACE_OF;

use crate::cluster_preview;
use crate::commands::hierarchy;
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
    let structure = structure?;
    let unknown = if structure.is_whole { structure.notes.clone() } else { unread(&structure, parent) };
    let notes = unknown.into_iter().chain(note).collect();
    let mut intents = Vec::new();
    if allows {
        let present = hierarchy::spec(&hierarchy::read(session, child).await?);
        intents.push(Intent::SetHierarchy {
            namespace: child.into(),
            parent: present.parent.as_deref().map(Name::from),
            allow_cascading_deletion: true,
        });
    }
    intents.push(Intent::DeleteAnchor { parent: parent.into(), child: child.into() });
    let stays = stays((parent, child), &structure, &settings);
    let forest = structure.forest_under(Arc::new(settings));
    Ok(Consequences { stays, notes, ..Consequences::new((parent, child), forest, &intents) })
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
    let excluded =
        [child, parent].into_iter().find_map(|it| Some(format!("{it} {}", settings.unmanaged(it)?)));
    match excluded {
        Some(why) if is_its => Some(format!(
            "{why}, so the namespace {child} stays; to delete it: `kubectl delete namespace {child}`"
        )),
        Some(why) => Some(format!("{why}, so the namespace {child} stays")),
        None if is_its || namespace.is_none() => None,
        None => Some(format!("the namespace {child} does not belong to this anchor, so it stays")),
    }
}

/// The namespaces whose children are not known, unless they are above the deleted one, as a note.
fn unread(structure: &Structure, parent: &str) -> Vec<String> {
    let above = structure.forest().ancestry(parent);
    let hidden: Vec<&str> =
        structure.hidden.iter().filter(|it| !above.contains(it)).map(|it| &**it).collect();
    let note =
        format!("you may not read the hierarchy of {}; what is below is not listed", hidden.join(", "));
    if hidden.is_empty() { Vec::new() } else { vec![note] }
}

/// The namespaces that these changes delete, and why the last one would be refused. Whether the user has the rights is left to the
/// API server.
fn deleted(mut preview: Preview, intents: &[Intent]) -> (BTreeSet<Name>, Option<String>) {
    let nobody = User::default();
    preview.settle();
    preview.mark();
    let mut verdict = None;
    for intent in intents {
        verdict = Some(preview.judge(intent, &nobody, &Answers::new()));
        preview.change(intent, &nobody);
        preview.settle();
    }
    let refusal = match verdict {
        Some(Verdict::Deny(denial)) => Some(denial.message),
        _ => None,
    };
    let is_terminating = |state: Option<&NamespaceState>| state.is_none_or(|it| it.terminating);
    let outcome = preview.outcome();
    let gone = outcome
        .namespaces
        .iter()
        .filter(|it| !is_terminating(it.before.as_ref()) && is_terminating(it.after.as_ref()));
    (gone.map(|it| it.name.clone()).collect(), refusal)
}

/// The children that are not being deleted already.
fn staying(forest: &Forest, name: &Name) -> Vec<Name> {
    forest.children(name).into_iter().filter(|child| !forest.is_terminating(child)).collect()
}

impl Consequences {
    fn new((parent, child): (&str, &str), forest: Forest, intents: &[Intent]) -> Self {
        let children: BTreeMap<Name, Vec<Name>> =
            forest.names().map(|name| (name.clone(), staying(&forest, name))).collect();
        let (deleted, refusal) = deleted(Preview::new(forest), intents);
        let below = deleted.iter().filter_map(|name| children.get(name)).flatten();
        let orphaned = below.filter(|name| !deleted.contains(*name)).cloned().collect();
        let anchor = (parent.to_owned(), child.to_owned());
        Self { anchor, deleted, orphaned, refusal, ..Self::default() }
    }

    /// Whether only the child is deleted.
    pub(super) fn is_only(&self, child: &str) -> bool {
        self.orphaned.is_empty() && self.deleted.iter().all(|name| **name == *child)
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
        let orphaned = note("these namespaces stay, and lose their parent", &self.orphaned);
        deleted.into_iter().chain(orphaned).collect()
    }

    /// The consequences as text.
    pub(super) fn text(&self) -> String {
        let (parent, child) = &self.anchor;
        let what = format!("Deleting the subnamespace anchor {child} in {parent}");
        if self.deleted.is_empty() {
            return format!("{what}; no namespace is deleted with it.\n");
        }
        let mut text = format!("{what} deletes these namespaces, with everything in them:\n");
        for name in &self.deleted {
            let _ = writeln!(text, "  {name}");
        }
        if !self.orphaned.is_empty() {
            text.push_str("These namespaces stay, and lose their parent:\n");
        }
        for name in &self.orphaned {
            let _ = writeln!(text, "  {name}");
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
        for (anchor, wanted) in [
            (("a", "b"), None),
            (("a", "gone"), None),
            (("out", "c"), Some(format!("{excluded} c {delete} c`"))),
            (("a", "out"), Some(format!("{excluded} out {delete} out`"))),
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
