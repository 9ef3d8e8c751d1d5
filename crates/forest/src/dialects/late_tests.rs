//! What is told late.

use crate::hnc;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::core::content::Canonical;
use crate::core::object::KnownContent;
use crate::hnc::fact::{AnchorFact, HierarchyFact};

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
    ObjectFact::new("a".into(), "o".into(), version(uid, "5"))
}

fn apply(forest: &mut Forest, facts: impl IntoIterator<Item = Fact>) {
    for fact in facts {
        forest.apply(fact);
    }
}

const KIND: KindId = KindId(0);

/// What is known, in a word each.
fn known(forest: &Forest) -> Vec<String> {
    let id = forest.id("a");
    let namespace = id.and_then(|id| Some(forest.namespace(id)?.version.uid()));
    let hierarchy = id.and_then(|id| Some(forest.hierarchy(id)?.version.uid()));
    let anchor = id.and_then(|id| Some(forest.anchors(id).get("c")?.version.uid.clone()));
    let key = ObjectKey { kind: KIND, name: "o".into() };
    let object = id.and_then(|id| forest.object(id, &key)).map(|object| object.version().uid());
    [namespace, hierarchy, anchor, object].into_iter().flatten().map(String::from).collect()
}

#[test]
fn what_has_gone_is_not_brought_back_by_an_answer_that_comes_late() {
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let mut forest = Forest::new(Arc::new(settings), vec![Kind::role()]);
    let name = || Name::from("a");
    let told = |of: &str| {
        [
            Fact::Namespace(namespace(&format!("n{of}"))),
            Fact::Hnc(hnc::Fact::Hierarchy(name(), hierarchy(&format!("h{of}")))),
            Fact::Hnc(hnc::Fact::Anchor(name(), anchor(&format!("a{of}")))),
            Fact::Object(KIND, object(&format!("o{of}"))),
        ]
    };
    let gone = || {
        [
            Fact::NamespaceGone(name(), "n1".into()),
            Fact::Hnc(hnc::Fact::HierarchyGone(name(), "h1".into())),
            Fact::Hnc(hnc::Fact::AnchorGone(name(), "c".into(), "a1".into())),
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
        Fact::Hnc(hnc::Fact::Hierarchies(vec![(name(), hierarchy("h1"))])),
        Fact::Hnc(hnc::Fact::Anchors(vec![(name(), anchor("a1"))])),
        Fact::Objects(KIND, vec![object("o1")]),
    ] {
        forest.apply(fact);
    }
    assert_eq!(known(&forest), ["n1", "h1", "a1", "o1"]);
    for fact in [
        Fact::Namespaces(vec![]),
        Fact::Hnc(hnc::Fact::Hierarchies(vec![])),
        Fact::Hnc(hnc::Fact::Anchors(vec![])),
        Fact::Objects(KIND, vec![]),
    ] {
        forest.apply(fact);
    }
    apply(&mut forest, told("1"));
    assert_eq!(known(&forest), [""; 0]);
}

#[test]
fn the_same_state_is_news_only_with_more_of_its_content() {
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let mut forest = Forest::new(Arc::new(settings), vec![Kind::role()]);
    let whole =
        || KnownContent::whole(Canonical::new(BTreeMap::new(), BTreeMap::new(), serde_json::Map::new()));
    let ways = || [None, Some(whole().digests()), Some(whole())];
    // A namespace that may yet have children keeps what is in its sources; of a copy no more than digests are ever kept.
    for (uid, inherited_from, news) in
        [("1", None, [true, true, true]), ("2", Some("r".into()), [true, true, false])]
    {
        let told = |content| {
            Fact::Object(KIND, ObjectFact { inherited_from: inherited_from.clone(), content, ..object(uid) })
        };
        let knows = |forest: &Forest| forest.knows_state(KIND, "a", &"o".into(), &version(uid, "5"));
        for (at, is_news) in news.into_iter().enumerate() {
            let [less, more] = [ways()[..at].to_vec(), ways()[at..=at].to_vec()];
            assert_eq!(!forest.apply(told(more[0].clone())).is_empty(), is_news, "{uid} {at}");
            for again in less.into_iter().chain(more) {
                assert!(forest.apply(told(again)).is_empty(), "{uid} {at}");
            }
            assert_eq!(knows(&forest), if uid == "1" { at == 2 } else { at >= 1 }, "{uid} {at}");
        }
        assert!(!forest.knows_state(KIND, "a", &"o".into(), &version(uid, "6")), "a later state");
        assert!(!forest.knows_state(KIND, "a", &"o".into(), &version("9", "5")), "another object");
        assert!(!forest.knows_state(KIND, "b", &"o".into(), &version(uid, "5")), "another place");
    }
}
