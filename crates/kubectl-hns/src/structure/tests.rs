//! Structures from sketches, and what is known of namespaces that cannot be read.

use forest::{HierarchyStatus, Labels};

use super::*;

/// Structure from lines `name < parent`, `[s]` before the name of a subnamespace, and `! Type (Reason): message` at the end
/// for conditions. Children are listed as a controller would.
pub(crate) fn sketch(lines: &[&str]) -> Structure {
    let mut structure = Structure::default();
    for line in lines {
        let (line, conditions) = line.split_once('!').unwrap_or((line, ""));
        let (name, parent) = line.split_once('<').unwrap_or((line, ""));
        let (name, sub) = match name.trim().strip_prefix("[s]") {
            Some(name) => (name.trim(), true),
            None => (name.trim(), false),
        };
        let (name, parent) = (Name::from(name), parent.trim());
        let of = sub.then_some((annotations::SUBNAMESPACE_OF, parent));
        let fact = NamespaceFact {
            name: name.clone(),
            annotations: of.into_iter().collect::<Labels>(),
            ..Default::default()
        };
        structure.namespaces.insert(name.clone(), fact);
        let own = structure.hierarchies.entry(name.clone()).or_default();
        own.parent = (!parent.is_empty()).then(|| parent.into());
        own.status.conditions = conditions.split(';').filter_map(condition).collect();
        if !parent.is_empty() {
            let status: &mut HierarchyStatus =
                &mut structure.hierarchies.entry(parent.into()).or_default().status;
            status.children.push(name);
            status.children.sort();
        }
    }
    let known: Vec<Name> = structure.namespaces.keys().cloned().collect();
    structure.hierarchies.retain(|name, _| known.contains(name));
    structure
}

fn condition(text: &str) -> Option<Condition> {
    let (type_, rest) = text.trim().split_once(" (")?;
    let (reason, message) = rest.split_once("): ")?;
    Some(Condition { type_: type_.into(), reason: reason.into(), message: message.into(), since: None })
}

#[test]
fn a_forest_of_the_evidence_knows_cycles_and_parents() {
    let forest = sketch(&["a", "b < a", "x < y", "y < x"]).forest();
    assert_eq!(forest.parent("b").map(|it| &**it), Some("a"));
    assert!(forest.cycle("x").is_some() && forest.cycle("a").is_none());
    assert!(settings().is_managed("a"));
}

#[test]
fn an_ancestry_ends_where_labels_or_rights_end() {
    let mut structure = sketch(&["a", "b < a"]);
    let ancestry = ["b".into(), "a".into()];
    assert!(!structure.ends_unread(&ancestry));
    structure.hidden.insert("a".into());
    assert!(!structure.ends_unread(&ancestry), "its labels name all");
    structure.namespaces.clear();
    assert!(structure.ends_unread(&ancestry));
    assert!(!structure.ends_unread(&ancestry[..1]));
}

#[test]
fn an_anchor_marks_an_unreadable_namespace_as_subnamespace() {
    let mut structure = sketch(&["a"]);
    let anchor = AnchorFact { name: "b".into(), state: Some("Ok".into()), ..AnchorFact::default() };
    structure.anchors = vec![("a".into(), anchor)];
    assert!(structure.is_subnamespace("b"));
    assert!(!structure.is_subnamespace("c"));
}

/// A namespace whose anchor is being deleted exists until it is gone.
#[test]
fn an_anchor_that_is_being_deleted_shows_that_its_namespace_is() {
    let ok = AnchorFact { name: "b".into(), state: Some("Ok".into()), ..AnchorFact::default() };
    let going = AnchorFact { terminating: true, ..ok.clone() };
    let conflict = AnchorFact { state: Some("Conflict".into()), ..going.clone() };
    for (anchor, is_read, wanted) in
        [(&ok, false, false), (&going, false, true), (&conflict, false, false), (&going, true, false)]
    {
        let mut structure = sketch(&["a", "b < a"]);
        if !is_read {
            structure.namespaces.remove("b");
        }
        structure.anchors = vec![("a".into(), anchor.clone())];
        assert_eq!(structure.is_terminating("b"), wanted, "{anchor:?}");
        assert_eq!(structure.forest().is_terminating("b"), wanted, "{anchor:?}");
    }
}

#[test]
fn a_hierarchy_that_goes_before_its_namespace_is_unusual() {
    for (hierarchy_goes, namespace_goes, wanted) in
        [(false, false, false), (true, false, true), (true, true, false), (false, true, false)]
    {
        let mut structure = sketch(&["a", "b < a"]);
        structure.hierarchies.get_mut("a").unwrap().terminating = hierarchy_goes;
        structure.namespaces.get_mut("a").unwrap().terminating = namespace_goes;
        assert_eq!(structure.loses_hierarchy(), wanted, "{hierarchy_goes} {namespace_goes}");
    }
}

#[test]
fn labels_of_a_place_without_a_hierarchy_are_unusual() {
    const CHILD: [(&str, &str); 2] = [("b.tree.hnc.x-k8s.io/depth", "0"), ("a.tree.hnc.x-k8s.io/depth", "1")];
    for (labels, terminating, is_read, wanted) in [
        (&CHILD[..1], false, false, false),
        (&CHILD, false, false, true),
        (&CHILD, true, false, false),
        (&CHILD, false, true, false),
        (&[("hnc.x-k8s.io/has-children", "true")], false, false, true),
        (&[("x", "1")], false, false, false),
    ] {
        let mut structure = sketch(&["b"]);
        let namespace = structure.namespaces.get_mut("b").unwrap();
        (namespace.labels, namespace.terminating) = (labels.iter().copied().collect(), terminating);
        if is_read {
            structure.hierarchies.entry("b".into()).or_default().version.uid = "u".into();
        }
        assert_eq!(structure.loses_hierarchy(), wanted, "{labels:?} {terminating} {is_read}");
        structure.hidden.insert("b".into());
        assert!(!structure.loses_hierarchy(), "what cannot be read is not gone");
    }
}

#[test]
fn without_the_anchors_a_subnamespace_is_not_known() {
    let mut structure = sketch(&["a", "[s] read < a", "unread < a", "anchored < a"]);
    for name in ["unread", "anchored"] {
        structure.namespaces.remove(name);
    }
    let anchor = AnchorFact { name: "anchored".into(), state: Some("Ok".into()), ..AnchorFact::default() };
    structure.anchors = vec![("a".into(), anchor)];
    for (without, unread) in [(false, Some(false)), (true, None)] {
        structure.without_anchors = without.then(|| "a".into()).into_iter().collect();
        let forest = structure.forest();
        let known = ["a", "read", "anchored", "unread"].map(|it| structure.known_subnamespace(&forest, it));
        assert_eq!(known, [Some(false), Some(true), Some(true), unread], "{without}");
    }
}

#[test]
fn what_was_not_read_may_exist_unless_the_controller_reports_it_as_missing() {
    let missing = "ActivitiesHalted (ParentMissing): The parent \"gone\" does not exist";
    let mut structure = sketch(&["a", &format!("b < gone ! {missing}")]);
    for (is_whole, name, wanted) in
        [(false, "top", true), (false, "a", false), (false, "gone", false), (true, "top", false)]
    {
        structure.is_whole = is_whole;
        assert_eq!(structure.may_exist(&structure.forest(), name), wanted, "{is_whole} {name}");
    }
}
