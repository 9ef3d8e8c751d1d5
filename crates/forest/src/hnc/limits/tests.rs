use super::*;
use crate::cluster::Cluster;
use crate::core::change::Scope;
use crate::hnc;
use crate::hnc::fact::AnchorFact;
use crate::hnc::plan::{Action, HncAction, Plan, plan};

fn limited(drawn: &str, limit: (Option<usize>, Option<usize>, Option<&str>)) -> Forest {
    with(&Cluster::draw(drawn), limit)
}

fn with(
    cluster: &Cluster,
    (namespaces, depth, pattern): (Option<usize>, Option<usize>, Option<&str>),
) -> Forest {
    let mut forest = cluster.forest();
    let limit = TreeLimit::new("r".into(), namespaces, depth, pattern).unwrap();
    forest.apply(hnc::Fact::TreeLimits(vec![limit]));
    forest
}

fn refused(forest: &Forest, parent: &str, child: &str) -> Option<String> {
    forest.exceeded(&parent.into(), &child.into(), u64::MAX).map(|it| it.to_string())
}

#[test]
fn a_limit_holds_below_its_root_on_all_levels() {
    let forest = limited("top, r<top, a<r, b<a, x, y<x, z<x", (Some(3), None, None));
    let cases = [
        ("a", "new", None),
        ("top", "new", None),
        ("elsewhere", "new", None),
        ("r", "y", None),
        // With all below it.
        ("b", "x", Some("the limit of namespaces below it is 3; it has 2, and this would add 3")),
        // It is there already.
        ("r", "b", None),
        ("b", "a", None),
    ];
    for (parent, child, expected) in cases {
        let found = refused(&forest, parent, child);
        assert_eq!(found.is_some(), expected.is_some(), "{child} below {parent}: {found:?}");
        let text = found.unwrap_or_default();
        assert!(text.contains(expected.unwrap_or_default()), "{text}");
    }
    let full = limited("r, a<r, b<a, c<a", (Some(3), None, None));
    let text = refused(&full, "c", "new").unwrap();
    assert!(text.contains("\"new\"") && text.contains("\"r\"") && text.contains("spec.trees"), "{text}");
    assert!(refused(&limited("r, a<r", (Some(0), None, None)), "r", "b").is_some());
}

/// An admin of a part of a tree may delete the parent of a namespace.
#[test]
fn an_orphan_stays_within_the_limits_of_its_tree() {
    let mut cluster = Cluster::draw("r, a:r, b:a, c:b");
    let depth = |above, depth| (format!("{above}.tree.hnc.x-k8s.io/depth"), depth);
    cluster.change_namespace("b", |seen| {
        let labels = [depth("a", "1"), depth("r", "2")];
        seen.labels = labels.iter().map(|(key, depth)| (&**key, *depth)).collect();
    });
    cluster.remove_hierarchy("a");
    cluster.remove_namespace("a");
    let of_number = with(&cluster, (Some(2), None, None));
    assert!(refused(&of_number, "c", "new").unwrap().contains("it has 2, and this would add 1"));
    assert!(refused(&of_number, "r", "new").is_some(), "it is counted");
    assert_eq!(refused(&of_number, "r", "b"), None, "it comes back");
    assert!(refused(&of_number, "r", "a").unwrap().contains("it has 0, and this would add 3"));
    assert_eq!(refused(&with(&cluster, (Some(3), None, None)), "r", "a"), None, "so does its parent");
    assert!(refused(&with(&cluster, (None, Some(3), None)), "c", "new").unwrap().contains("would be 4"));
    assert!(refused(&with(&cluster, (None, None, Some("[a-c]"))), "b", "new").is_some());
}

#[test]
fn nothing_counts_twice_while_the_root_is_missing() {
    let mut cluster = Cluster::draw("r, a<r, b<a");
    cluster.change_namespace("a", |seen| {
        seen.labels = [("r.tree.hnc.x-k8s.io/depth", "1")].into_iter().collect();
    });
    cluster.remove_namespace("r");
    assert_eq!(refused(&with(&cluster, (Some(3), None, None)), "b", "new"), None);
    assert!(refused(&with(&cluster, (Some(2), None, None)), "b", "new").is_some());
}

/// Each alone is within the limit, so one waits for the other. Where there is room for all, nobody waits.
#[test]
fn those_that_join_a_tree_and_exceed_a_limit_together_wait_for_each_other() {
    let forest = limited("top, r<top, a<r, x, y, low<a", (Some(3), None, None));
    let roomy = limited("top, r<top, a<r, x, y, low<a", (Some(4), None, None));
    let joins = |forest: &Forest, child: &str, parent: &str| {
        let parents = [None, Some(parent)];
        hnc::rules::parent_change(forest, &child.into(), crate::Stream::HIERARCHIES, parents)
    };
    let waits = |forest: &Forest, other: (&str, &str)| {
        joins(forest, "x", "r").exceeds_with(&[joins(forest, other.0, other.1)].iter())
    };
    assert!(waits(&forest, ("y", "a")));
    assert!(!waits(&roomy, ("y", "a")), "there is room for both");
    assert!(!waits(&forest, ("y", "top")), "elsewhere");
    assert!(!waits(&forest, ("low", "r")), "it is there already");
    assert!(!joins(&forest, "x", "r").exceeds_with(&[].iter()));
}

#[test]
fn nothing_gets_deeper_than_the_limit() {
    let forest = limited("r, a<r, b<a, x, y<x", (None, Some(2), None));
    let cases = [
        ("r", "new", false),
        ("a", "new", false),
        ("b", "new", true),
        ("r", "x", false),
        ("a", "x", true),
        ("b", "a", true),
        ("r", "b", false),
    ];
    for (parent, child, expected) in cases {
        assert_eq!(refused(&forest, parent, child).is_some(), expected, "{child} below {parent}");
    }
    // What is too deep already may come up, though not far enough.
    let deep = limited("r, a<r, b<a, c<b, d<c, e<d", (None, Some(2), None));
    assert_eq!(refused(&deep, "b", "d"), None);
    assert!(refused(&deep, "e", "new").unwrap().contains("at most 2 levels below it, and this would be 6"));
    let flat = limited("r, a<r", (None, Some(1), None));
    assert!(refused(&flat, "a", "new").unwrap().contains("at most 1 level below it, and this would be 2"));
}

#[test]
fn whole_names_must_match() {
    let forest = limited("r, r-a<r, x, r-y<x", (None, None, Some("r-.*|x")));
    assert_eq!(refused(&forest, "r-a", "r-new"), None);
    assert!(refused(&forest, "r", "new-r-1").unwrap().contains("\"r-.*|x\", and \"new-r-1\" does not"));
    assert_eq!(refused(&forest, "r", "x"), None);
    let forest = limited("r, r-x, y<r-x", (None, None, Some("r-.*")));
    assert!(refused(&forest, "r", "r-x").unwrap().contains("\"y\" does not"), "also those below it");
    for (pattern, why) in [("(", "unclosed group"), ("a)|(b", "unopened group")] {
        let fault = TreeLimit::new("r".into(), None, None, Some(pattern)).unwrap_err();
        assert_eq!((fault.field, &*fault.value), ("namePattern", pattern));
        assert!(fault.why.ends_with(why), "{fault:?}");
    }
}

#[test]
fn anchors_whose_subnamespace_does_not_exist_yet_count() {
    let mut cluster = Cluster::draw("r, a<r");
    cluster.anchor("a", "b");
    cluster.anchor("r", "c");
    for (most, expected) in [(3, true), (4, false)] {
        let forest = with(&cluster, (Some(most), None, None));
        assert_eq!(refused(&forest, "a", "d").is_some(), expected, "{most}");
        // Its own anchor does not count twice.
        assert_eq!(refused(&forest, "a", "b"), None);
    }
}

/// A user can write this state.
#[test]
fn an_anchor_that_shows_forbidden_counts() {
    let mut cluster = Cluster::draw("r");
    cluster.anchor("r", "b");
    let mut forest = with(&cluster, (Some(1), None, None));
    let anchor = forest.anchors(forest.id("r").unwrap())["b"].clone();
    forest.apply(hnc::Fact::Anchor("r".into(), AnchorFact { state: Some("Forbidden".into()), ..anchor }));
    assert!(refused(&forest, "r", "c").is_some());
}

#[test]
fn namespaces_that_wait_for_a_missing_parent_come_with_it() {
    let forest = limited("r, x<missing, y<missing", (Some(2), None, None));
    assert!(refused(&forest, "r", "missing").unwrap().contains("this would add 3"));
    let forest = limited("r, x<missing", (None, None, Some("r-.*|missing")));
    assert!(refused(&forest, "r", "missing").unwrap().contains("\"x\" does not"));
}

/// Otherwise its children pass the limit before a controller creates it.
#[test]
fn a_missing_parent_that_an_anchor_will_create_is_below_the_anchor() {
    let mut cluster = Cluster::draw("top, r<top, a<r, x, y<missing, low<y");
    cluster.anchor("r", "missing");
    cluster.anchor("low", "next");
    let depth = |cluster: &Cluster, depth| with(cluster, (None, Some(depth), None));
    for (parent, least) in [("missing", 2), ("y", 3), ("low", 4), ("next", 5)] {
        assert_eq!(refused(&depth(&cluster, least), parent, "x"), None, "{parent}");
        assert!(refused(&depth(&cluster, least - 1), parent, "x").is_some(), "{parent}");
    }
    let number = |most| with(&cluster, (Some(most), None, None));
    // There are a, missing, y, low and next.
    assert_eq!(refused(&number(6), "missing", "x"), None);
    assert!(refused(&number(5), "missing", "x").unwrap().contains("it has 5, and this would add 1"));
    assert!(refused(&with(&cluster, (None, None, Some("[a-w]"))), "missing", "x").is_some());
    // Several anchors can wait for a name, and one can wait for what is above it.
    cluster.anchor("top", "missing");
    cluster.anchor("y", "missing");
    assert!(refused(&depth(&cluster, 1), "missing", "x").is_some());
}

/// The subnamespaces that plans made by this one state of the forest create.
fn created(forest: &Forest, parents: &[&str]) -> String {
    let plans: Vec<_> = parents.iter().map(|parent| plan(forest, parent, &Scope::whole())).collect();
    let created = |action: &Action| match action {
        Action::Dialect(HncAction::CreateSubnamespace { child, .. }) => Some(child.to_string()),
        _ => None,
    };
    plans.iter().flat_map(Plan::actions).filter_map(created).collect::<Vec<_>>().join(" ")
}

/// Anchors in several namespaces of the tree passed admission at the same moment.
#[test]
fn plans_that_are_made_at_the_same_moment_create_nothing_beyond_a_limit() {
    let mut cluster = Cluster::draw("r, a<r, b<r");
    let mut forest = with(&cluster, (Some(4), None, None));
    let parents = ["a", "b", "r"];
    for (parent, child) in [("r", "x"), ("b", "y"), ("a", "z")] {
        forest.apply(cluster.anchor(parent, child));
    }
    assert_eq!(created(&forest, &parents), "y x", "those that came first");
    let state = |parent: &str, child: &str| {
        let anchor = &forest.anchors(forest.id(parent).unwrap())[child];
        forest.shown_anchor_state(&parent.into(), anchor)
    };
    assert_eq!([state("b", "y"), state("a", "z")], [AnchorState::Missing, AnchorState::Forbidden]);

    // A change of an anchor gives it no other place.
    forest.apply(cluster.change_anchor("r", "x", |it| it.state = Some("Missing".into())));
    assert_eq!(created(&forest, &parents), "y x");
    forest.apply(cluster.namespace("other"));
    forest.apply(cluster.annotate("other", &[("hnc.x-k8s.io/subnamespace-of", "a")]).unwrap());
    assert_eq!(created(&forest, &parents), "x");
    // The name is free again, and another user's anchor takes it. The creation of `x` may be under way.
    forest.apply(cluster.remove_anchor("b", "y").unwrap());
    forest.apply(cluster.anchor("b", "y"));
    assert_eq!(created(&forest, &parents), "x");
}

#[test]
fn anchors_count_with_the_namespaces_that_wait_for_them_and_once_for_each_name() {
    let mut cluster = Cluster::draw("r, a<r, low<x, other");
    let mut forest = with(&cluster, (Some(4), None, None));
    for (parent, child) in [("r", "x"), ("a", "y"), ("r", "y"), ("a", "z")] {
        forest.apply(cluster.anchor(parent, child));
    }
    assert_eq!(created(&forest, &["a", "r"]), "y x y", "a, low, x, and one of the name y");
    // A user can keep an anchor for ever, with a finalizer.
    forest.apply(cluster.change_anchor("r", "x", |it| it.finalizers = vec!["x.y/z".into()]));
    forest.apply(cluster.delete_anchor("r", "x").unwrap());
    assert_eq!(refused(&forest, "r", "new"), None, "a, y, z");
}

/// Two anchors passed admission at the same moment, where there is room for one.
#[test]
fn the_controller_creates_nothing_beyond_a_limit() {
    let mut cluster = Cluster::draw("r, a<r");
    cluster.anchor("r", "b");
    assert_eq!(created(&with(&cluster, (Some(2), None, None)), &["r"]), "b");
    cluster.anchor("r", "c");
    assert_eq!(created(&with(&cluster, (Some(2), None, None)), &["r"]), "b");
    assert_eq!(created(&with(&cluster, (Some(3), None, None)), &["r"]), "b c");
    let full = with(&cluster, (Some(1), None, None));
    assert_eq!(created(&full, &["r"]), "");
    let anchor = full.anchors(full.id("r").unwrap())["b"].clone();
    assert_eq!(full.shown_anchor_state(&"r".into(), &anchor), AnchorState::Forbidden);

    // It stays forbidden while a limit holds, even with room, and not afterwards.
    let forbidden = AnchorFact { state: Some("Forbidden".into()), ..anchor };
    let roomy = with(&cluster, (Some(9), None, None));
    assert_eq!(roomy.shown_anchor_state(&"r".into(), &forbidden), AnchorState::Forbidden);
    assert_eq!(cluster.forest().shown_anchor_state(&"r".into(), &forbidden), AnchorState::Missing);
}
