//! What is told late.

use std::sync::Arc;

use super::*;

fn version(uid: &str, resource_version: &str) -> Version {
    Version { uid: uid.into(), resource_version: resource_version.into() }
}

fn namespace(uid: &str) -> NamespaceFact {
    NamespaceFact { name: "a".into(), version: version(uid, "5"), ..NamespaceFact::default() }
}

fn hierarchy(uid: &str) -> HierarchyFact {
    HierarchyFact { version: version(uid, "5"), parent: Some("b".into()), ..HierarchyFact::default() }
}

fn anchor(uid: &str) -> AnchorFact {
    AnchorFact { name: "c".into(), version: version(uid, "5"), ..AnchorFact::default() }
}

fn object(uid: &str) -> ObjectFact {
    ObjectFact {
        namespace: "a".into(),
        name: "o".into(),
        version: version(uid, "5"),
        inherited_from: None,
        terminating: false,
        excluded: None,
        exceptions: None,
        content: None,
    }
}

fn apply(forest: &mut Forest, facts: impl IntoIterator<Item = Fact>) {
    for fact in facts {
        forest.apply(fact);
    }
}

const KIND: KindId = KindId(0);

/// What is known, in a word each.
fn known(forest: &Forest) -> Vec<String> {
    let id = forest.tree.id("a");
    let node = id.map(|id| forest.tree.node(id));
    let namespace = node.and_then(|node| Some(&node.namespace.as_ref()?.version.uid));
    let hierarchy = node.and_then(|node| Some(&node.hierarchy.as_ref()?.version.uid));
    let anchor = node.and_then(|node| Some(&node.anchors.get("c")?.version.uid));
    let key = ObjectKey { kind: KIND, name: "o".into() };
    let object = id.and_then(|id| forest.objects.get(id, &key)).map(|object| &object.version().uid);
    [namespace, hierarchy, anchor, object].into_iter().flatten().map(ToString::to_string).collect()
}

#[test]
fn what_has_gone_is_not_brought_back_by_an_answer_that_comes_late() {
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let mut forest = Forest::new(Arc::new(settings), vec![Kind::role()]);
    let name = || Name::from("a");
    let told = |of: &str| {
        [
            Fact::Namespace(namespace(&format!("n{of}"))),
            Fact::Hierarchy(name(), hierarchy(&format!("h{of}"))),
            Fact::Anchor(name(), anchor(&format!("a{of}"))),
            Fact::Object(KIND, object(&format!("o{of}"))),
        ]
    };
    let gone = || {
        [
            Fact::NamespaceGone(name(), "n1".into()),
            Fact::HierarchyGone(name(), "h1".into()),
            Fact::AnchorGone(name(), "c".into(), "a1".into()),
            Fact::ObjectGone(KIND, name(), "o".into(), "o1".into()),
        ]
    };
    apply(&mut forest, told("1"));
    assert_eq!(known(&forest), ["n1", "h1", "a1", "o1"]);
    apply(&mut forest, gone());
    for fact in told("1") {
        assert!(forest.apply(fact).is_empty());
    }
    assert_eq!(known(&forest), [""; 0]);

    // What has come in its place is not replaced by it either.
    apply(&mut forest, told("2"));
    apply(&mut forest, told("1"));
    assert_eq!(known(&forest), ["n2", "h2", "a2", "o2"]);

    // A complete list is what there is, also when storage was restored to an earlier state; what it leaves out has gone.
    for fact in [
        Fact::Namespaces(vec![namespace("n1")]),
        Fact::Hierarchies(vec![(name(), hierarchy("h1"))]),
        Fact::Anchors(vec![(name(), anchor("a1"))]),
        Fact::Objects(KIND, vec![object("o1")]),
    ] {
        forest.apply(fact);
    }
    assert_eq!(known(&forest), ["n1", "h1", "a1", "o1"]);
    for fact in [
        Fact::Namespaces(vec![]),
        Fact::Hierarchies(vec![]),
        Fact::Anchors(vec![]),
        Fact::Objects(KIND, vec![]),
    ] {
        forest.apply(fact);
    }
    apply(&mut forest, told("1"));
    assert_eq!(known(&forest), [""; 0]);
}
