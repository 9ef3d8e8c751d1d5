//! Links, walks and memory, on drawn forests. Random ones are in `tests/model.rs`.

use crate::hnc;
use std::collections::BTreeMap;

use crate::cluster::{Cluster, binding_key, binds, empty_forest, role_key};
use crate::core::change::Scope;
use crate::core::name::Name;
use crate::core::tree::{Halt, Id, Illegal};
use crate::dialects::{Fact, Forest};
use crate::hnc::plan::plan;

fn grow(text: &str) -> Forest {
    Cluster::draw(text).forest()
}

fn names(forest: &Forest, ids: &[Id]) -> String {
    ids.iter().map(|id| &**forest.name(*id)).collect::<Vec<_>>().join(" ")
}

/// Any text can be stored as a parent while nothing judges it. It must not reach the registrations.
#[test]
fn only_names_are_awaited() {
    for (parent, is_awaited) in [("gone", true), ("a\rb", false), ("A", false), ("a/b", false)] {
        let forest = grow(&format!("x:{parent}"));
        assert_eq!(!forest.awaited_names().is_empty(), is_awaited, "{parent:?}");
    }
}

#[test]
fn every_member_of_a_cycle_gives_the_same_list() {
    let cases = [
        ("a:a", "a", Some("a a")),
        ("a:b, b:a", "a b", Some("a b a")),
        // c is the parent of a, a of b, b of c.
        ("a:c, b:a, c:b", "a b c", Some("a b c a")),
        ("a:b, b:c, c:a", "a b c", Some("a c b a")),
        ("z:m, m:z", "z m", Some("m z m")),
        ("a:b, b:a, below:a, leaf:below", "below leaf", None),
        ("a, b:a, c:b", "a b c", None),
        ("a:gone", "a gone", None),
        // What does not exist has no parent in force.
        ("(a):b, b:a", "a b", None),
    ];
    for (text, members, expected) in cases {
        let forest = grow(text);
        for member in members.split(' ') {
            let list = forest.cycle(member).map(|list| list.join(" "));
            assert_eq!(list.as_deref(), expected, "{member} in {text}");
        }
    }
}

#[test]
fn labels_reach_up_to_the_nearest_halted_namespace() {
    // The forest, a namespace, those whose tree labels it bears (itself, at depth 0, first), and the halted root.
    let cases = [
        ("a", "a", "a", None),
        ("a, b:a, c:b", "a", "a", None),
        ("a, b:a, c:b", "c", "c b a", None),
        ("b:gone, c:b", "b", "b", Some("b")),
        ("b:gone, c:b, d:c", "d", "d c b", Some("b")),
        ("b:kube-system, c:b", "b", "b", Some("b")),
        ("b:kube-system, c:b", "c", "c b", Some("b")),
        ("kube-system, b:kube-system", "b", "b", Some("b")),
        ("a:a, b:a", "a", "a", Some("a")),
        ("a:b, b:a", "b", "b", Some("b")),
        ("a:b, b:a, c:b, d:c", "d", "d c b", Some("b")),
        ("a, b?:a, c:b", "a", "a", None),
        ("a, b?:a, c:b", "b", "b", Some("b")),
        ("a, b?:a, c:b", "c", "c b", Some("b")),
        ("x:gone, b?:x, c:b", "c", "c b", Some("b")),
        ("a?, b:a, c?:b, d:c", "d", "d c", Some("c")),
        ("a!, b:a", "b", "b a", None),
        // A HierarchyConfiguration without its namespace halts no namespace.
        ("(gone)?:a, a", "a", "a", None),
        ("(gone)?:a, b:gone", "b", "b", Some("b")),
    ];
    for (text, name, labels, halted) in cases {
        let forest = grow(text);
        let id = forest.id(name).unwrap();
        assert_eq!(names(&forest, &forest.labelling(id)), labels, "the labels of {name} in {text}");
        assert_eq!(forest.halted_root(name).map(|it| &**it), halted, "the halted root of {name} in {text}");
    }
}

#[test]
fn a_halt_has_one_reason() {
    let cases = [
        ("a, b:a", "b", None),
        ("b:gone", "b", Some(Halt::ParentMissing("gone".into()))),
        (
            "kube-system, b:kube-system",
            "b",
            Some(Halt::IllegalParent { parent: "kube-system".into(), is_missing: false }),
        ),
        ("b:kube-system", "b", Some(Halt::IllegalParent { parent: "kube-system".into(), is_missing: true })),
        ("a:b, b:a", "b", Some(Halt::InCycle(vec!["a".into(), "b".into(), "a".into()]))),
        ("a:b, b:a, c:a", "c", None),
        ("b?:gone", "b", Some(Halt::Unreadable("spec.parent is a number".into()))),
        ("(b):gone", "b", None),
        ("(b)?:gone", "b", None),
        ("kube-system:gone", "kube-system", None),
    ];
    for (text, name, expected) in cases {
        let forest = grow(text);
        assert_eq!(forest.own_halt(forest.id(name).unwrap()), expected, "{name} in {text}");
    }
}

/// Below a missing parent, copies of deleted sources are deleted, below an excluded one they are not.
#[test]
fn children_are_told_that_their_excluded_parent_is_gone_and_is_there_again() {
    let mut cluster = Cluster::draw("kube-system, b:kube-system, c:b");
    let mut forest = cluster.forest();
    let is_missing = |forest: &Forest| match forest.own_halt(forest.id("b").unwrap()) {
        Some(Halt::IllegalParent { is_missing, .. }) => is_missing,
        other => panic!("{other:?}"),
    };
    let mut another = cluster.namespaces["kube-system"].clone();
    another.version.uid = "another".into();
    let gone = cluster.remove_namespace("kube-system").unwrap();
    for (fact, missing) in [(gone, true), (Fact::Namespace(another), false)] {
        let change = forest.apply(fact);
        assert!(["b", "c"].iter().all(|it| change.namespaces.contains_key(*it)), "{change:?}");
        assert_eq!(is_missing(&forest), missing);
    }
}

/// Its `HierarchyConfiguration` is deleted before the namespace is gone; its labels, which only the controller writes, still tell.
#[test]
fn a_terminating_namespace_keeps_its_place_by_its_labels() {
    let mut cluster = Cluster::draw("top, mid:top, low:mid");
    let depth = |name: &str| format!("{name}.tree.hnc.x-k8s.io/depth");
    cluster.label("mid", &[(&depth("mid"), "0"), (&depth("top"), "1")]);
    cluster.label("low", &[(&depth("low"), "0"), (&depth("mid"), "1"), (&depth("top"), "2")]);
    let mut forest = cluster.forest();
    forest.apply(cluster.terminate("mid").unwrap());
    assert!(forest.apply(cluster.remove_hierarchy("mid").unwrap()).namespaces["mid"].structure);
    assert_eq!(forest.ancestry("low").join(" "), "low mid top");
    assert_eq!(forest.children("top").join(" "), "mid");
    forest.apply(cluster.remove_namespace("mid").unwrap());
    assert_eq!(forest.halted_root("low").map(|it| &**it), Some("low"));
    // Of one that stays, labels tell nothing.
    forest.apply(cluster.remove_hierarchy("low").unwrap());
    assert_eq!(forest.parent("low"), None);
}

#[test]
fn children_are_sorted_however_they_came() {
    let forest = grow("c:top, a:top, d:top, b:top, top, (e):top");
    assert_eq!(forest.children("top").join(" "), "a b c d");
    assert_eq!(grow("b:gone, a:gone").children("gone").join(" "), "a b");
}

#[test]
fn adoption_is_refused_where_it_would_close_a_ring() {
    let below = |path: &str| Err(Illegal::Below(path.split(' ').map(Name::from).collect()));
    let text = "a, b:a, c:b, x, y:x";
    let cases = [
        ("x", "a", Ok(())),
        ("c", "x", Ok(())),
        ("a", "c", Ok(())),
        ("a", "a", Err(Illegal::Itself)),
        ("c", "a", below("c b a")),
        ("c", "b", below("c b")),
        ("b", "a", below("b a")),
    ];
    let forest = grow(text);
    for (parent, child, expected) in cases {
        let id = |name| forest.id(name).unwrap();
        assert_eq!(forest.may_join(id(parent), id(child)), expected, "{child} below {parent} in {text}");
    }
}

#[test]
fn trees_meet_at_the_nearest_common_ancestor() {
    let text = "a, b:a, c:b, d:b, x, y:x, p:q, q:p, r:q";
    let cases = [
        ("c", "d", Some("b"), "a"),
        ("c", "b", Some("b"), "a"),
        ("b", "c", Some("b"), "a"),
        ("c", "c", Some("c"), "a"),
        ("c", "y", None, "a"),
        ("y", "x", Some("x"), "x"),
        ("r", "p", Some("q"), "q"),
        ("p", "q", Some("p"), "p"),
    ];
    let forest = grow(text);
    for (one, other, common, root) in cases {
        let id = |name| forest.id(name).unwrap();
        let found = forest.common_ancestor(id(one), id(other)).map(|id| &**forest.name(id));
        assert_eq!(found, common, "{one} and {other} in {text}");
        assert_eq!(&**forest.name(forest.root(id(one))), root, "the root of {one} in {text}");
    }
}

/// Walks change their method at a certain length, so rings and tails of lengths around it are tried.
#[test]
fn walks_end_on_any_links() {
    for tail in [0, 1, 30, 31, 32, 33, 40] {
        for ring in [1, 2, 31, 32, 33, 64] {
            let link = |at: usize| {
                let next = if at + 1 < tail + ring { at + 1 } else { tail };
                format!("n{at:03}:n{next:03}")
            };
            let forest = grow(&(0..tail + ring).map(link).collect::<Vec<_>>().join(","));
            let ancestry = forest.ancestry_of(forest.id("n000").unwrap());
            assert_eq!(ancestry.path.len(), tail + ring, "tail {tail}, ring {ring}");
            assert_eq!(ancestry.repeats_at, Some(tail), "tail {tail}, ring {ring}");
            for (at, id) in ancestry.path.iter().enumerate() {
                let members = forest.tree.cycle(*id).map(|members| members.len());
                assert_eq!(members, (at >= tail).then_some(ring + 1), "n{at} of tail {tail}, ring {ring}");
                assert_eq!(forest.halted_at(*id), Some(ancestry.path[at.max(tail)]));
                let below = if at >= tail { tail + ring } else { at };
                assert_eq!(forest.descendants(*id).len(), below, "below n{at} of tail {tail}, ring {ring}");
            }
        }
    }
}

/// Were a walk quadratic in the depth, this would take a billion steps.
#[test]
fn a_thousand_levels_are_nothing_special() {
    const DEPTH: usize = 1000;
    let name = |at: usize| format!("n{at:04}");
    let chain = |at: usize| if at == 0 { name(at) } else { format!("{}:{}", name(at), name(at - 1)) };
    let mut cluster = Cluster::draw(&(0..DEPTH).map(chain).collect::<Vec<_>>().join(","));
    let mut forest = empty_forest();
    // One by one from the lowest, so that every namespace is missing its parent at first.
    for (name, seen) in cluster.hierarchies.iter().rev() {
        forest.apply(Fact::Hnc(hnc::Fact::Hierarchy(name.clone(), seen.clone())));
        forest.apply(Fact::Namespace(cluster.namespaces[name].clone()));
    }
    assert_eq!(forest.sizes().halted, 1);
    let top = cluster.namespaces[&*name(0)].clone();
    assert_eq!(forest.apply(Fact::Namespace(top)).namespaces.len(), DEPTH);
    assert_eq!(forest.sizes().halted, 0);
    let lowest = forest.id(&name(DEPTH - 1)).unwrap();
    assert_eq!(forest.labelling(lowest).len(), DEPTH);
    assert_eq!(forest.descendants(forest.id(&name(0)).unwrap()).len(), DEPTH - 1);

    forest.apply(cluster.remove_namespace(&name(500)).unwrap());
    assert_eq!(forest.halted_root(&name(DEPTH - 1)).map(|it| &**it), Some(&*name(501)));
    forest.apply(cluster.namespace(&name(500)));
    assert_eq!(forest.halted_root(&name(DEPTH - 1)), None);
}

#[test]
fn looking_up_creates_nothing() {
    let forest = grow("a, b:a");
    let before = forest.names().count();
    for name in ["nobody", "", "b", "kube-system"] {
        let _ = (forest.exists(name), forest.parent(name), forest.children(name), forest.ancestry(name));
        let _ = (forest.halted_root(name), forest.cycle(name), plan(&forest, name, &Scope::whole()));
    }
    assert_eq!(forest.names().count(), before);
    assert_eq!(before, 2);
}

#[test]
fn a_node_lives_as_long_as_something_mentions_it() {
    let mut cluster = Cluster::default();
    let mut forest = empty_forest();
    let mut tell = |facts: &[Fact], known: &str| {
        for fact in facts {
            forest.apply(fact.clone());
        }
        let mut names: Vec<&Name> = forest.names().collect();
        names.sort();
        let names: Vec<&str> = names.into_iter().map(|name| &**name).collect();
        assert_eq!(names.join(" "), known, "after {facts:?}");
    };
    tell(&[cluster.namespace("a"), cluster.set_parent("a", Some("b"))], "a b");
    tell(&[cluster.set_parent("a", Some("c"))], "a c");
    tell(&[cluster.remove_namespace("a").unwrap()], "a");
    tell(&[cluster.namespace("a")], "a c");
    tell(&[cluster.remove_hierarchy("a").unwrap()], "a");
    tell(&[cluster.set_parent("a", Some("a"))], "a");
    tell(&[cluster.put("d", &role_key("r"), None, binds("r", "x")), cluster.role("d", "q", "x")], "a d");
    tell(&[cluster.remove_object("d", &role_key("r")).unwrap()], "a d");
    tell(&[cluster.list_objects(role_key("q").kind)], "a d");
    tell(&[cluster.remove_object("d", &role_key("q")).unwrap()], "a");
    tell(&[cluster.binding("e", "b", "r", "x")], "a e");
    cluster.remove_object("e", &binding_key("b"));
    tell(&[cluster.list_objects(binding_key("b").kind)], "a");
    cluster.remove_namespace("a");
    tell(&[cluster.list_namespaces()], "a");
    cluster.remove_hierarchy("a");
    tell(&[cluster.list_hierarchies()], "");
    tell(&[cluster.anchor("f", "child")], "f");
    tell(&[cluster.remove_anchor("f", "child").unwrap()], "");
    tell(&[cluster.anchor("f", "one"), cluster.anchor("g", "one")], "f g");
    cluster.remove_anchor("f", "one");
    tell(&[cluster.list_anchors()], "g");
    tell(&[cluster.namespace("g"), cluster.remove_anchor("g", "one").unwrap()], "g");
    tell(&[cluster.annotate("g", &[("hnc.x-k8s.io/subnamespace-of", "h")]).unwrap()], "g h");
    tell(&[cluster.remove_namespace("g").unwrap()], "");
    // Of what is gone and was never known, nothing is kept.
    let uid = || Box::from("uid");
    tell(
        &[
            Fact::NamespaceGone("x".into(), uid()),
            Fact::Hnc(hnc::Fact::HierarchyGone("x".into(), uid())),
            Fact::Hnc(hnc::Fact::AnchorGone("x".into(), "y".into(), uid())),
            Fact::ObjectGone(role_key("r").kind, "x".into(), "r".into(), uid()),
            Fact::WriteFailed("x".into(), role_key("r"), "no".into()),
        ],
        "",
    );
    assert_eq!(forest.failures(&"x".into()).count(), 0);
    assert_eq!(["one", "child", "y"].map(|name| forest.hnc().holders(name).count()), [0; 3]);
}

#[test]
fn places_are_used_again() {
    let mut forest = empty_forest();
    for round in 0..50 {
        let text = format!("root{round}, a{round}:root{round}, b{round}:gone{round}");
        let mut cluster = Cluster::draw(&text);
        cluster.role(&format!("a{round}"), "r", "x");
        for fact in cluster.lists() {
            forest.apply(fact);
        }
        assert_eq!(forest.names().count(), 4, "in round {round}");
    }
    // For a moment the old and the new are there side by side; a label's key and the root of a role have places, too.
    let (used, room) = forest.tree.texts();
    assert!(used <= 6 && room <= 12, "{used} places of {room} are used");
    for fact in Cluster::default().lists() {
        forest.apply(fact);
    }
    assert_eq!(forest.tree.texts(), (0, room));
    assert_eq!(forest.sizes(), crate::core::store::Sizes::default());
}

#[test]
fn another_object_of_the_same_name_is_not_the_one_that_went() {
    let mut cluster = Cluster::default();
    let mut forest = empty_forest();
    let old = cluster.namespace("a");
    let gone = cluster.remove_namespace("a").unwrap();
    let new = cluster.namespace("a");
    for fact in [old, new] {
        forest.apply(fact);
    }
    assert!(forest.apply(gone).is_empty(), "the deletion of the first one does not affect the second");
    assert!(forest.exists("a"));
    forest.apply(cluster.remove_namespace("a").unwrap());
    assert!(!forest.exists("a"));
}

#[test]
fn a_change_touches_what_is_below_and_the_parents_concerned() {
    let mut cluster = Cluster::draw("old, new, a:old, b:a, c:b, other:old");
    let mut forest = cluster.forest();
    let change = forest.apply(cluster.set_parent("a", Some("new")));
    let touched: BTreeMap<Name, Scope> = change.namespaces.into_iter().collect();
    let whole: Vec<&str> =
        touched.iter().filter(|(_, scope)| **scope == Scope::whole()).map(|(name, _)| &**name).collect();
    assert_eq!(whole.join(" "), "a b c");
    let structure = Scope { structure: true, ..Scope::default() };
    let rest: Vec<&str> =
        touched.iter().filter(|(_, scope)| **scope == structure).map(|(name, _)| &**name).collect();
    assert_eq!(rest.join(" "), "new old");
    assert_eq!(touched.len(), 5);
}
