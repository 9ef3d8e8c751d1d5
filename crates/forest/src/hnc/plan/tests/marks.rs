//! Labels and annotations that are handed down (section 3.1 of docs/compatibility.md), and those that external roots bring.

use super::*;
use crate::cluster::settings;

type Pairs = &'static [(&'static str, &'static str)];

fn ask(cluster: &mut Cluster, name: &str, labels: Pairs, annotations: Pairs) -> Fact {
    cluster.change_hierarchy(name, |seen| {
        (seen.labels, seen.annotations) =
            (labels.iter().copied().collect(), annotations.iter().copied().collect());
    })
}

/// The managed labels and annotations that are on a namespace, and the tree labels of those that end in `far`.
fn on(cluster: &Cluster, name: &str) -> String {
    let seen = &cluster.namespaces[name];
    let ours = |key: &str| ["tier", "zone", "owner"].contains(&key) || key.contains("far.tree");
    let short = |key: &str| key.replace(".tree.hnc.x-k8s.io/depth", "");
    let all = seen.labels.iter().chain(seen.annotations.iter()).filter(|(key, _)| ours(key));
    all.map(|(key, value)| format!("{}={value}", short(key))).collect::<Vec<_>>().join(" ")
}

fn reasons(cluster: &Cluster, name: &str) -> String {
    let conditions = cluster.hierarchies.get(name).map(|seen| &seen.status.conditions);
    conditions.into_iter().flatten().map(|it| &*it.reason).collect::<Vec<_>>().join(" ")
}

fn check_on(cluster: &mut Cluster, what: &str, expected: &[(&str, &str)]) {
    settle(cluster);
    for (name, marks) in expected {
        assert_eq!(on(cluster, name), *marks, "{name}, {what}");
    }
}

#[test]
fn the_highest_word_counts_until_it_is_withdrawn() {
    let mut cluster = Cluster::draw("top, mid:top, low:mid, beside:top");
    ask(&mut cluster, "top", &[("tier", "gold")], &[("owner", "joe")]);
    ask(&mut cluster, "mid", &[("tier", "iron"), ("zone", "a")], &[("owner", "jane")]);
    check_on(
        &mut cluster,
        "both speak",
        &[
            ("top", "tier=gold owner=joe"),
            ("mid", "tier=gold zone=a owner=joe"),
            ("low", "tier=gold zone=a owner=joe"),
            ("beside", "tier=gold owner=joe"),
        ],
    );
    assert_eq!(reasons(&cluster, "mid"), "OverriddenByAncestor");
    assert_eq!([reasons(&cluster, "top"), reasons(&cluster, "low")], ["", ""]);
    ask(&mut cluster, "top", &[], &[]);
    check_on(
        &mut cluster,
        "the highest is silent",
        &[
            ("top", ""),
            ("mid", "tier=iron zone=a owner=jane"),
            ("low", "tier=iron zone=a owner=jane"),
            ("beside", ""),
        ],
    );
    assert_eq!(reasons(&cluster, "mid"), "");
    cluster.set_parent("low", Some("beside"));
    check_on(&mut cluster, "it moves away", &[("low", "")]);
    ask(&mut cluster, "mid", &[], &[]);
    check_on(&mut cluster, "no namespace sets a value", &[("mid", "")]);
}

#[test]
fn only_managed_keys_are_applied_and_only_those_are_taken_away() {
    let mut cluster = Cluster::draw("x, kube-system");
    ask(&mut cluster, "x", &[("tier", "gold"), ("colour", "red")], &[("owner", "joe"), ("note", "new")]);
    for name in ["x", "kube-system"] {
        cluster.label(name, &[("tier", "live"), ("zone", "live"), ("team", "red"), ("tiers", "two")]);
        cluster.annotate(name, &[("owner", "live"), ("note", "old")]);
    }
    let expected = [
        "report [] [IllegalManagedLabel IllegalManagedAnnotation]",
        "both label +included-namespace=true +tier=gold +x=0 -zone annotate +owner=joe",
    ];
    assert_eq!(planned(&cluster.forest(), "x"), expected);
    assert_eq!(planned(&cluster.forest(), "kube-system"), [""; 0]);
    settle(&mut cluster);
    let seen = &cluster.namespaces["x"];
    assert_eq!((seen.labels.get("team"), seen.labels.get("tiers")), (Some("red"), Some("two")));
    assert_eq!((seen.labels.get("colour"), seen.annotations.get("note")), (None, Some("old")));
}

/// An administrator's own labels stay until the hierarchy says something of their keys.
#[test]
fn labels_of_other_managers_are_replaced_and_never_removed() {
    let mut cluster = Cluster::draw("x, child:x");
    for name in ["x", "child"] {
        cluster.label(name, &[("tier", "live"), ("zone", "live")]);
        cluster.annotate(name, &[("owner", "live")]);
        cluster.change_namespace(name, |seen| {
            seen.foreign.labels = ["tier".into(), "team".into()].into();
            seen.foreign.annotations = ["owner".into()].into();
        });
    }
    check_on(
        &mut cluster,
        "only what is ours goes",
        &[("x", "tier=live owner=live"), ("child", "tier=live owner=live")],
    );
    ask(&mut cluster, "x", &[("tier", "gold")], &[]);
    check_on(
        &mut cluster,
        "the hierarchy speaks",
        &[("x", "tier=gold owner=live"), ("child", "tier=gold owner=live")],
    );
    ask(&mut cluster, "x", &[], &[]);
    check_on(&mut cluster, "what it has said goes", &[("x", "owner=live"), ("child", "owner=live")]);
}

#[test]
fn a_subnamespace_asks_for_what_its_anchor_says() {
    let mut cluster = Cluster::draw("p, c<p, low:c");
    cluster.change_anchor("p", "c", |seen| {
        seen.labels = [("tier", "gold")].into_iter().collect();
        seen.annotations = [("owner", "jane")].into_iter().collect();
    });
    let first = planned(&cluster.forest(), "c").remove(0);
    assert_eq!(first, "hierarchy with of p tier=gold owner=jane [low] []");
    check_on(
        &mut cluster,
        "as anchored",
        &[("p", ""), ("c", "tier=gold owner=jane"), ("low", "tier=gold owner=jane")],
    );
    ask(&mut cluster, "c", &[("tier", "own")], &[]);
    check_on(&mut cluster, "in every namespace", &[("c", "tier=gold owner=jane")]);
    // Without an anchor to say otherwise, what was said stays, and is its own.
    cluster.remove_anchor("p", "c");
    check_on(&mut cluster, "the anchor is lost", &[("c", "tier=gold owner=jane")]);
    ask(&mut cluster, "c", &[("tier", "own")], &[]);
    check_on(&mut cluster, "and its own word counts", &[("c", "tier=own"), ("low", "tier=own")]);
    cluster.set_parent("c", Some("elsewhere"));
    assert_eq!(planned(&cluster.forest(), "c"), ["report of p unanchored"]);
}

#[test]
fn managed_marks_from_above_a_halted_namespace_stay() {
    // Of the two that top and mid ask for, which reach low.
    let cases = [
        ("top, mid:kube-system, low:mid", "zone=a"),
        ("top:mid, mid:top, low:mid", "zone=a"),
        ("top, mid?:top, low:mid", "tier=gold zone=a"),
        ("top, mid:top, low:mid", "tier=gold zone=a"),
    ];
    for (text, reaching) in cases {
        let mut cluster = Cluster::draw(text);
        ask(&mut cluster, "top", &[("tier", "gold")], &[]);
        ask(&mut cluster, "mid", &[("zone", "a")], &[]);
        check_on(&mut cluster, text, &[("mid", reaching), ("low", reaching)]);
    }
}

/// They can be restrictions, and an admin of the parent may have deleted it.
#[test]
fn an_orphan_keeps_the_managed_marks_of_the_tree_that_it_belongs_to() {
    let mut cluster = Cluster::draw("top, mid:top, low:mid, leaf:low");
    ask(&mut cluster, "top", &[("tier", "gold")], &[("owner", "jane")]);
    ask(&mut cluster, "mid", &[("zone", "a")], &[]);
    ask(&mut cluster, "low", &[("tier", "own")], &[]);
    settle(&mut cluster);
    cluster.remove_hierarchy("mid");
    cluster.remove_namespace("mid");
    let both = |marks| [("low", marks), ("leaf", marks)];
    check_on(&mut cluster, "those of the parent are gone", &both("tier=gold owner=jane"));
    let mut forest = cluster.forest();
    let change = forest.apply(ask(&mut cluster, "top", &[("tier", "silver")], &[]));
    assert!(change.namespaces.contains_key("low") && change.namespaces.contains_key("leaf"), "{change:?}");
    check_on(&mut cluster, "and follow the tree", &both("tier=silver"));
    cluster.set_parent("low", Some("elsewhere"));
    check_on(&mut cluster, "also if it names another missing parent", &both("tier=silver"));
    cluster.set_parent("low", None);
    check_on(&mut cluster, "until it has another place", &both("tier=own"));
}

/// The labels of an old place go before the copies from there, and those of a new one come after them. In between, a user may
/// delete the new parent.
#[test]
fn a_namespace_that_loses_its_new_parent_before_it_is_labelled_stays_in_its_tree() {
    for old in ["b", "top"] {
        let mut cluster = Cluster::draw(&format!("top-far, top:top-far, b:top, c:top, x:{old}"));
        ask(&mut cluster, "top", &[("tier", "gold")], &[]);
        settle(&mut cluster);
        cluster.set_parent("x", Some("c"));
        let labels = &mut cluster.namespaces.get_mut("x").unwrap().labels;
        *labels = labels.iter().filter(|(key, _)| !key.starts_with("b.tree")).collect();
        cluster.remove_hierarchy("c");
        cluster.remove_namespace("c");
        check_on(
            &mut cluster,
            old,
            &[("x", if old == "b" { "tier=gold top-far=3" } else { "tier=gold top-far=2" })],
        );
        let forest = cluster.forest();
        let place = forest.former_place(forest.id("x").unwrap()).map(|id| &**forest.name(id));
        assert_eq!(place, Some("top"));
    }
}

#[test]
fn an_orphan_stays_where_it_was_when_the_top_of_its_tree_changes() {
    for parent in [None, Some("other")] {
        let mut cluster = Cluster::draw("sup, org:sup, team:org, b:team, x:b, other");
        ask(&mut cluster, "org", &[("tier", "gold")], &[]);
        settle(&mut cluster);
        cluster.remove_hierarchy("b");
        cluster.remove_namespace("b");
        cluster.set_parent("org", parent);
        check_on(&mut cluster, "org has moved", &[("x", "tier=gold")]);
        let forest = cluster.forest();
        let place = forest.former_place(forest.id("x").unwrap());
        assert_eq!(place.map(|id| &**forest.name(id)), Some("team"), "{parent:?}");
    }
}

fn external(tree: &[(&str, &str)], managed: Pairs) -> Cluster {
    let mut cluster = Cluster::draw("ext, child:ext, leaf:child");
    let labels: Vec<(&str, &str)> = tree.iter().chain(managed).copied().collect();
    cluster.label("ext", &labels);
    cluster.annotate("ext", &[("hnc.x-k8s.io/managed-by", "another-tool"), ("owner", "them")]);
    cluster
}

const FAR: &str = "far.tree.hnc.x-k8s.io/depth";

#[test]
fn an_external_root_hands_down_what_is_on_it() {
    let mut cluster =
        external(&[(FAR, "1"), ("very-far.tree.hnc.x-k8s.io/depth", "2")], &[("tier", "theirs")]);
    check_on(
        &mut cluster,
        "with the depth added",
        &[
            ("ext", "far=1 tier=theirs very-far=2 owner=them"),
            ("child", "far=2 tier=theirs very-far=3 owner=them"),
            ("leaf", "far=3 tier=theirs very-far=4 owner=them"),
        ],
    );
    let own = |name: &str| cluster.namespaces[name].labels.get("ext.tree.hnc.x-k8s.io/depth");
    assert_eq!([own("ext"), own("child"), own("leaf")], [Some("0"), Some("1"), Some("2")]);

    ask(&mut cluster, "child", &[("tier", "mine"), ("zone", "a")], &[]);
    check_on(
        &mut cluster,
        "the highest still wins",
        &[("leaf", "far=3 tier=theirs very-far=4 zone=a owner=them")],
    );
    assert_eq!(reasons(&cluster, "child"), "OverriddenByAncestor");

    cluster.label("ext", &[(FAR, "4")]);
    check_on(&mut cluster, "as it changes", &[("leaf", "far=6 tier=mine zone=a owner=them")]);
    cluster.annotate("ext", &[("owner", "them")]);
    check_on(
        &mut cluster,
        "until it is one of ours again",
        &[("ext", ""), ("child", "tier=mine zone=a"), ("leaf", "tier=mine zone=a")],
    );
}

#[test]
fn depths_that_are_none_are_kept_and_not_handed_down() {
    let most = usize::MAX.to_string();
    for odd in ["x", "-1", "", &most] {
        let mut cluster = external(&[(FAR, odd)], &[]);
        check_on(
            &mut cluster,
            odd,
            &[("ext", format!("far={odd} owner=them").as_str()), ("child", "owner=them")],
        );
    }
    let nearly = (usize::MAX - 1).to_string();
    let mut cluster = external(&[(FAR, &nearly)], &[]);
    check_on(
        &mut cluster,
        "as far as it goes",
        &[("child", format!("far={most} owner=them").as_str()), ("leaf", "owner=them")],
    );
    // What it says of its descendants or itself counts for nothing.
    let mut cluster =
        external(&[("child.tree.hnc.x-k8s.io/depth", "9"), ("ext.tree.hnc.x-k8s.io/depth", "9")], &[]);
    settle(&mut cluster);
    let depth = |name: &str, of: &str| {
        cluster.namespaces[name].labels.get(&format!("{of}.tree.hnc.x-k8s.io/depth")).map(str::to_owned)
    };
    assert_eq!([depth("leaf", "child"), depth("leaf", "ext")], [Some("1".into()), Some("2".into())]);
    assert_eq!([depth("child", "child"), depth("ext", "ext")], [Some("0".into()), Some("0".into())]);
}

#[test]
fn an_external_namespace_has_no_parent_and_is_no_subnamespace() {
    let mut cluster = Cluster::draw("p, x:p, c<p");
    cluster.role("p", "r", "x");
    settle(&mut cluster);
    for name in ["x", "c"] {
        let of = [("hnc.x-k8s.io/subnamespace-of", "p"), ("hnc.x-k8s.io/managed-by", "another-tool")];
        cluster.annotate(name, &of[usize::from(name == "x")..]);
    }
    let forest = settle(&mut cluster);
    assert_eq!([forest.parent("x"), forest.parent("c")], [None, None]);
    assert!(!cluster.objects.contains_key(&("x".into(), key("r"))));
    assert!(!cluster.objects.contains_key(&("c".into(), key("r"))));
}

#[test]
fn the_ancestry_is_written_where_it_is_wanted() {
    let mut with = settings();
    with.ancestry_annotation = true;
    let mut cluster = Cluster::draw("a, b:a, c:b, lone, stray:gone, low:stray, kube-system");
    settle(&mut cluster);
    let names = [("a", "a"), ("c", "a.b.c"), ("lone", "lone"), ("stray", "stray"), ("low", "stray.low")];
    for (name, ancestry) in names {
        let expected = [format!("both label annotate +ancestry={ancestry}")];
        assert_eq!(planned(&cluster.forest_with(with.clone()), name), expected, "{name}");
    }
    assert_eq!(planned(&cluster.forest_with(with), "kube-system"), [""; 0]);
    cluster.annotate("c", &[("hnc.x-k8s.io/ancestry", "a.b.c")]);
    assert_eq!(planned(&cluster.forest(), "c"), ["both label annotate -ancestry"]);
}

#[test]
fn the_excluded_label_stays_on_listed_namespaces_only() {
    let excluded = [("hnc.x-k8s.io/excluded-namespace", "true")];
    let mut cluster = Cluster::draw("x, kube-system");
    settle(&mut cluster);
    cluster.change_namespace("x", |seen| {
        let present = seen.labels.iter().chain(excluded).collect::<Labels>();
        seen.labels = present;
    });
    cluster.label("kube-system", &excluded);
    assert_eq!(planned(&cluster.forest(), "x"), ["both label -excluded-namespace"]);
    assert_eq!(planned(&cluster.forest(), "kube-system"), [""; 0]);
}

/// Of what comes from above, an orphan loses what came from the namespace that is gone.
#[test]
fn copies_of_a_deleted_parent_go_and_those_from_above_it_stay() {
    let mut cluster = Cluster::draw("top, mid:top, low:mid, leaf:low");
    cluster.role("top", "r-top", "x");
    cluster.role("mid", "r-mid", "x");
    cluster.role("low", "r-low", "x");
    settle(&mut cluster);
    for key in ["r-top", "r-mid"] {
        cluster.remove_object("mid", &super::key(key));
    }
    cluster.remove_hierarchy("mid");
    let mut forest = cluster.forest();
    let gone = cluster.remove_namespace("mid").unwrap();
    let change = forest.apply(gone);
    assert!(change.namespaces.contains_key("low") && change.namespaces.contains_key("leaf"), "{change:?}");
    assert!(
        planned(&forest, "low").contains(&"off delete r-mid".to_owned()),
        "{:?}",
        planned(&forest, "low")
    );
    settle(&mut cluster);
    let copies = |cluster: &Cluster, name: &str| -> String {
        let here =
            cluster.objects.iter().filter(|((at, _), it)| **at == *name && it.inherited_from.is_some());
        here.map(|((_, key), _)| &*key.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([copies(&cluster, "low"), copies(&cluster, "leaf")], ["r-top", "r-low r-top"]);

    // When what was above goes as well, those who hang in the air are told.
    let mut forest = cluster.forest();
    let change = forest.apply(cluster.remove_namespace("top").unwrap());
    for name in ["low", "leaf"] {
        let scope = &change.namespaces[name];
        assert_eq!(lines(&plan(&forest, name, scope)), ["off delete r-top"], "{name}");
    }
}
