//! What becomes of anchors and their subnamespaces (sections 4.2 and 6.2 of docs/compatibility.md), and what is let go when their
//! definition goes. Trees of them are deleted in `tests/cascade.rs`.

use super::*;
use crate::cluster::quota_key;
use crate::cluster::settings;
use crate::hnc;
use crate::hnc::anchor::AnchorState;
use crate::hnc::fact::CrdState;
use crate::hnc::plan::HncAction;

type Happens = fn(&mut Cluster);
type Tells = fn(&mut Cluster) -> Option<Fact>;

/// What is planned in `name` about anchors and subnamespaces.
fn about_anchors(forest: &Forest, name: &str) -> Vec<String> {
    let plan = plan(forest, name, &Scope::whole());
    let ours = |action: &&Action| {
        matches!(
            action,
            Action::Dialect(
                HncAction::UpdateAnchor { .. }
                    | HncAction::CreateSubnamespace { .. }
                    | HncAction::DeleteSubnamespace { .. }
            )
        )
    };
    plan.actions().filter(ours).map(line).collect()
}

#[test]
fn a_subnamespace_is_created_below_a_marked_parent_and_a_held_anchor() {
    let mut cluster = Cluster::draw("p");
    settle(&mut cluster);
    cluster.anchor("p", "c");
    let expected = [
        "hierarchy with held [] []",
        "off anchor c held by [hnc.x-k8s.io] Missing, label +has-children=true",
        "on create subnamespace c",
    ];
    assert_eq!(planned(&cluster.forest(), "p"), expected);
    let forest = settle(&mut cluster);
    assert_eq!(forest.parent("c").map(|it| &**it), Some("p"));
    assert_eq!(cluster.anchors[&("p".into(), "c".into())].state.as_deref(), Some("Ok"));
    assert_eq!(cluster.hierarchies["c"].parent.as_deref(), Some("p"));

    // Where nothing else depends on it, one write does everything.
    let mut cluster = Cluster::draw("p");
    cluster.anchor("p", "c");
    let expected = [
        "hierarchy with held [] []",
        "off anchor c held by [hnc.x-k8s.io] Missing, label +has-children=true +included-namespace=true +p=0",
        "on create subnamespace c",
    ];
    assert_eq!(planned(&cluster.forest(), "p"), expected);

    // Also where something is taken away at the same time: the marker does not wait for it.
    let mut cluster = Cluster::draw("p, old");
    cluster.put("p", &key("r"), Some("old"), rules("x"));
    cluster.anchor("p", "c");
    let expected = [
        "hierarchy with held [] []",
        "off anchor c held by [hnc.x-k8s.io] Missing, label +has-children=true",
        "off delete r",
        "both label +included-namespace=true +p=0",
        "on create subnamespace c",
    ];
    assert_eq!(planned(&cluster.forest(), "p"), expected);
}

/// Every state: how it comes, and how it goes.
#[test]
fn a_state_says_what_the_namespaces_are() {
    let missing: Happens = |it| drop(it.remove_namespace("c"));
    let cases: [(&str, &str, Happens, AnchorState, Happens, AnchorState); 7] = [
        ("deleted, and there again", "p, c<p", missing, AnchorState::Missing, |_| (), AnchorState::Ok),
        (
            "made a full one, and a subnamespace again",
            "p, c<p",
            |it| drop(it.annotate("c", &[])),
            AnchorState::Conflict,
            |it| drop(it.annotate("c", &[("hnc.x-k8s.io/subnamespace-of", "p")])),
            AnchorState::Ok,
        ),
        (
            "taken by another, and back",
            "p, q, c<p",
            |it| drop(it.annotate("c", &[("hnc.x-k8s.io/subnamespace-of", "q")])),
            AnchorState::Conflict,
            |it| drop(it.annotate("c", &[("hnc.x-k8s.io/subnamespace-of", "p")])),
            AnchorState::Ok,
        ),
        (
            "a full namespace, that becomes the anchor's",
            "p, c",
            |it| drop(it.anchor("p", "c")),
            AnchorState::Conflict,
            |it| drop(it.annotate("c", &[("hnc.x-k8s.io/subnamespace-of", "p")])),
            AnchorState::Ok,
        ),
        (
            "forged",
            "p, c<p",
            |it| drop(it.change_anchor("p", "c", |it| it.state = Some("Missing".into()))),
            AnchorState::Ok,
            |it| drop(it.change_anchor("p", "c", |it| it.state = None)),
            AnchorState::Ok,
        ),
        ("going", "p, c<p", |it| drop(it.terminate("c")), AnchorState::Ok, missing, AnchorState::Missing),
        (
            "not a manageable name",
            "p, kube-system",
            |it| {
                it.change_anchor("p", "kube-system", |it| {
                    it.finalizers = vec!["x/y".into(), "hnc.x-k8s.io".into()];
                });
            },
            AnchorState::Forbidden,
            |it| drop(it.remove_namespace("kube-system")),
            AnchorState::Forbidden,
        ),
    ];
    for (what, text, comes, during, goes, after) in cases {
        let mut cluster = Cluster::draw(text);
        settle(&mut cluster);
        for (happens, expected) in [(comes, during), (goes, after)] {
            happens(&mut cluster);
            let forest = cluster.forest();
            let (parent, child) = cluster.anchors.keys().next().cloned().unwrap();
            assert_eq!(forest.anchor_state(&parent, &child), expected, "{what}");
            // One turn, in which a missing one is created, but not yet told of.
            for action in plan(&forest, &parent, &Scope::whole()).actions() {
                cluster.perform(&parent, action).unwrap();
            }
            let seen = &cluster.anchors[&(parent, child)];
            assert_eq!(seen.state.as_deref(), Some(expected.as_str()), "{what}");
            let held = seen.finalizers.contains(&"hnc.x-k8s.io".into());
            assert_eq!(held, expected != AnchorState::Forbidden, "{what}");
        }
    }
}

/// Its user was not allowed to take the name from its owner, and is not when the owner has given it up.
#[test]
fn an_anchor_in_conflict_creates_nothing_when_the_name_is_free() {
    let others: [(&str, &str, Happens); 3] = [
        ("a full namespace", "p, c", |_| ()),
        ("another's subnamespace", "p, q, c<q", |it| drop(it.remove_anchor("q", "c"))),
        ("one that was made a full one", "p, c<p", |it| drop(it.annotate("c", &[]))),
    ];
    for (what, text, happens) in others {
        let mut cluster = Cluster::draw(text);
        cluster.anchor("p", "c");
        happens(&mut cluster);
        settle(&mut cluster);
        cluster.remove_namespace("c");
        assert_eq!(about_anchors(&cluster.forest(), "p"), [""; 0], "{what}");
        settle(&mut cluster);
        assert!(!cluster.namespaces.contains_key("c"), "{what}");
        // Created again, it is judged for its user.
        cluster.remove_anchor("p", "c");
        cluster.anchor("p", "c");
        settle(&mut cluster);
        assert!(cluster.namespaces.contains_key("c"), "{what}");
    }
    let mut parent = Cluster::draw("p, c");
    parent.anchor("p", "c");
    settle(&mut parent);
    parent.remove_namespace("c");
    parent.terminate("p");
    parent.delete_anchor("p", "c");
    assert_eq!(about_anchors(&parent.forest(), "p"), ["anchor c held by []"], "the parent can go");
}

#[test]
fn anchors_in_an_unmanaged_namespace_are_let_go_and_left_alone() {
    let mut cluster = Cluster::draw("kube-system");
    cluster.change_anchor("kube-system", "c", |seen| {
        seen.finalizers = vec!["x/y".into(), "hnc.x-k8s.io".into()];
        seen.state = Some("nonsense".into());
    });
    assert_eq!(planned(&cluster.forest(), "kube-system"), ["off anchor c held by [x/y]"]);
    settle(&mut cluster);
    assert_eq!(cluster.anchors[&("kube-system".into(), "c".into())].state.as_deref(), Some("nonsense"));
    assert!(!cluster.namespaces.contains_key("c"));
}

#[test]
fn a_deleted_anchor_takes_along_what_may_go() {
    let gone: &[&str] = &["delete subnamespace c"];
    let alone: &[&str] = &["anchor c held by []"];
    let nothing: Happens = |_| ();
    let cases: [(&str, &str, Happens, &[&str]); 12] = [
        ("a leaf", "p, c<p", nothing, gone),
        ("with a full child", "p, c<p, x:c", nothing, alone),
        ("with a subnamespace", "p, c<p, x<c", nothing, alone),
        ("allowed there", "p, c+<p, x<c", nothing, gone),
        ("allowed above", "top+, p:top, c<p, x<c", nothing, gone),
        ("allowed below", "p, c<p, x+<c", nothing, alone),
        ("it is going already", "p, c<p", |it| drop(it.terminate("c")), &[]),
        ("it is gone", "p, c<p", |it| drop(it.remove_namespace("c")), alone),
        ("it is full", "p, c<p", |it| drop(it.annotate("c", &[])), alone),
        (
            "it is another's",
            "p, q, c<p",
            |it| drop(it.annotate("c", &[("hnc.x-k8s.io/subnamespace-of", "q")])),
            alone,
        ),
        ("the parent is going as well", "p, c<p", |it| drop(it.terminate("p")), gone),
        (
            "another holds the anchor, not we",
            "p, c<p",
            |it| drop(it.change_anchor("p", "c", |it| it.finalizers = vec!["x/y".into()])),
            &[],
        ),
    ];
    for (what, text, happens, expected) in cases {
        let mut cluster = Cluster::draw(text);
        settle(&mut cluster);
        cluster.delete_anchor("p", "c");
        happens(&mut cluster);
        assert_eq!(about_anchors(&cluster.forest(), "p"), expected, "{what}, in {text:?}");
    }
    // Kubernetes does not delete it, also where cascading deletion would.
    for text in ["p, default<p", "p+, default<p, x<default", "p!+, default<p"] {
        let mut cluster = Cluster::draw(text);
        settle(&mut cluster);
        assert_eq!(about_anchors(&cluster.forest(), "p"), [""; 0], "{text:?}");
        cluster.delete_anchor("p", "default");
        assert_eq!(about_anchors(&cluster.forest(), "p"), ["anchor default held by []"], "{text:?}");
        assert_eq!(cluster.forest().fate_without_anchor("p", "default"), None);
    }
}

/// Otherwise the anchor of a namespace that gets a child at this moment would be deleted alone, and no quota on anchors would count the
/// namespace.
#[test]
fn nothing_is_created_below_a_namespace_whose_anchor_is_being_deleted() {
    let mut cluster = Cluster::draw("p, c<p");
    settle(&mut cluster);
    cluster.change_anchor("c", "x", |_| {});
    assert_eq!(about_anchors(&cluster.forest(), "c").last().unwrap(), "create subnamespace x");
    cluster.delete_anchor("p", "c");
    let planned = about_anchors(&cluster.forest(), "c");
    assert!(planned.iter().all(|it| !it.starts_with("create")), "{planned:?}");
    assert_eq!(about_anchors(&cluster.forest(), "p"), ["delete subnamespace c"]);
}

#[test]
fn an_anchor_stays_until_its_namespace_is_gone() {
    let mut cluster = Cluster::draw("p, c<p");
    settle(&mut cluster);
    cluster.delete_anchor("p", "c");
    settle(&mut cluster);
    assert!(cluster.namespaces["c"].terminating && cluster.anchors.len() == 1);
    cluster.remove_hierarchy("c");
    cluster.remove_namespace("c");
    settle(&mut cluster);
    assert!(cluster.anchors.is_empty() && !cluster.namespaces.contains_key("c"));
    // With the last anchor go what it needed: the finalizer and the marker.
    assert!(cluster.hierarchies["p"].finalizers.is_empty());
    assert_eq!(cluster.namespaces["p"].labels.get("hnc.x-k8s.io/has-children"), None);
}

/// A change in one namespace that another's anchor is judged by names that other.
#[test]
fn holders_of_an_anchor_are_touched_when_its_state_changes() {
    let cases: [(&str, Tells); 5] = [
        ("its namespace is changed", |it| it.label("c", &[("team", "blue")])),
        ("it gets a child", |it| Some(it.set_parent("other", Some("c")))),
        ("it may take all along", |it| {
            Some(it.change_hierarchy("c", |it| it.allow_cascading_deletion = true))
        }),
        ("by one above", |it| Some(it.change_hierarchy("top", |it| it.allow_cascading_deletion = true))),
        ("it is gone", |it| it.remove_namespace("c")),
    ];
    let mut rest = Cluster::draw("top, p:top, c<p, other");
    settle(&mut rest);
    for (what, happens) in cases {
        let mut cluster = rest.clone();
        let mut forest = cluster.forest();
        let change = forest.apply(happens(&mut cluster).unwrap());
        assert!(change.namespaces.get("p").is_some_and(|scope| scope.structure), "{what}: {change:?}");
    }
}

/// And the other way round: what an anchor says concerns the subnamespace.
#[test]
fn a_subnamespace_is_touched_when_its_anchor_changes() {
    let cases: [(&str, Tells); 3] = [
        ("it comes", |it| Some(it.anchor("p", "lost"))),
        ("it asks for something", |it| {
            Some(it.change_anchor("p", "c", |it| it.labels = [("tier", "gold")].into_iter().collect()))
        }),
        ("it goes", |it| it.remove_anchor("p", "c")),
    ];
    let mut rest = Cluster::draw("p, c<p, lost<<p");
    settle(&mut rest);
    for (what, happens) in cases {
        let mut cluster = rest.clone();
        let mut forest = cluster.forest();
        let child = if what == "it comes" { "lost" } else { "c" };
        assert_eq!(planned(&forest, child), [""; 0], "{what}");
        let change = forest.apply(happens(&mut cluster).unwrap());
        assert_ne!(planned(&forest, child), [""; 0], "{what}");
        for name in ["p", child] {
            assert!(change.namespaces.get(name).is_some_and(|scope| scope.structure), "{what}: {change:?}");
        }
    }
}

#[test]
fn the_first_administrator_is_bound_before_the_annotation_goes() {
    let mut settings = settings();
    settings.initial_admin = Some("admin".into());
    let mut cluster = Cluster::draw("p");
    settle(&mut cluster);
    cluster.change_anchor("p", "c", |seen| seen.initial_admin = Some("jane".into()));
    assert_eq!(
        about_anchors(&cluster.forest_with(settings.clone()), "p")[1],
        "create subnamespace c for jane"
    );
    assert_eq!(about_anchors(&cluster.forest(), "p")[1], "create subnamespace c", "it is not wanted");
    cluster.namespace("old");
    cluster.set_parent("old", Some("c"));
    let lost = about_anchors(&cluster.forest_with(settings.clone()), "p");
    assert_eq!(lost[1], "create subnamespace c", "namespaces wait for it that are not the creator's");

    let jane = [("hnc.x-k8s.io/initial-admin", "jane"), ("note", "kept")];
    let mut cluster = Cluster::draw("p, x<p, root, child:p, kube-system");
    settle(&mut cluster);
    let all = ["x", "root", "child", "kube-system"];
    for name in all {
        let of = (name == "x").then_some(("hnc.x-k8s.io/subnamespace-of", "p"));
        cluster.annotate(name, &jane.into_iter().chain(of).collect::<Vec<_>>());
    }
    let forest = cluster.forest_with(settings);
    assert_eq!(planned(&forest, "x"), ["both bind jane to admin", "on label annotate -initial-admin"]);
    for name in ["root", "child"] {
        assert_eq!(planned(&forest, name), ["both label annotate -initial-admin"], "no subnamespace");
    }
    assert_eq!(planned(&forest, "kube-system"), [""; 0]);
    for name in ["x", "root", "child"] {
        let removed = ["both label annotate -initial-admin"];
        assert_eq!(planned(&cluster.forest(), name), removed, "while it is not wanted, and also not later");
    }
}

/// Its right above may be withdrawn long before the namespace is repaired, and no user can remove the annotation.
#[test]
fn a_halted_subnamespace_forgets_its_first_administrator() {
    let mut with = settings();
    with.initial_admin = Some("admin".into());
    for (what, text, of) in [
        ("below a halted namespace", "p:missing, c<p", "p"),
        ("halted itself", "c<missing", "missing"),
        ("in a cycle", "p:q, q:p, c<p", "p"),
    ] {
        let mut cluster = Cluster::draw(text);
        settle(&mut cluster);
        cluster
            .annotate("c", &[("hnc.x-k8s.io/initial-admin", "jane"), ("hnc.x-k8s.io/subnamespace-of", of)]);
        let forest = cluster.forest_with(with.clone());
        assert_eq!(planned(&forest, "c"), ["both label annotate -initial-admin"], "{what}");
    }
    let mut cluster = Cluster::draw("p:missing");
    settle(&mut cluster);
    cluster.change_anchor("p", "c", |seen| seen.initial_admin = Some("jane".into()));
    assert_eq!(about_anchors(&cluster.forest_with(with.clone()), "p")[1], "create subnamespace c");

    let mut cluster = Cluster::draw("p");
    settle(&mut cluster);
    cluster.change_anchor("p", "c", |seen| {
        seen.initial_admin = Some("jane".into());
        seen.state = Some("Forbidden".into());
    });
    assert_eq!(
        about_anchors(&cluster.forest_with(with.clone()), "p")[1],
        "create subnamespace c",
        "it had to wait"
    );

    let mut cluster = Cluster::draw("p, c<p");
    settle(&mut cluster);
    cluster.put("p", &quota_key("size"), None, serde_json::json!({ "spec": { "hard": { "pods": "0" } } }));
    cluster.annotate("c", &[("hnc.x-k8s.io/initial-admin", "jane"), ("hnc.x-k8s.io/subnamespace-of", "p")]);
    for wanted in
        [&[][..], &["report [] [QuotaNotInForce]"], &["report [] []", "both label annotate -initial-admin"]]
    {
        let forest = cluster.forest_with(with.clone());
        let plan = plan(&forest, "c", &Scope::whole());
        for action in plan.actions() {
            cluster.perform(&"c".into(), action).unwrap();
        }
        let lines: Vec<String> = lines(&plan).into_iter().filter(|it| !it.contains("size")).collect();
        assert_eq!(lines, wanted);
    }
}

#[test]
fn the_definitions_are_read_when_objects_disappear_that_no_user_may_have_deleted() {
    let mut rest = Cluster::draw("p, x:p, c<p, old!:p, f<old");
    settle(&mut rest);
    let cases: [(&str, Tells, bool); 11] = [
        ("a HierarchyConfiguration goes", |it| it.remove_hierarchy("x"), true),
        ("in a namespace that goes", |it| it.remove_hierarchy("old"), false),
        ("an anchor goes", |it| it.remove_anchor("p", "c"), true),
        ("in a namespace that goes", |it| it.remove_anchor("old", "f"), false),
        ("one is no longer listed", |it| it.remove_anchor("p", "c").map(|_| it.list_anchors()), true),
        ("one is no longer listed", |it| it.remove_hierarchy("x").map(|_| it.list_hierarchies()), true),
        ("all are listed", |it| Some(it.list_anchors()), false),
        ("a namespace goes", |it| it.remove_namespace("x"), false),
        ("a parent changes", |it| Some(it.set_parent("x", None)), false),
        ("an anchor comes", |it| Some(it.anchor("x", "new")), false),
        ("a list is refused", |_| Some(Fact::StreamLost(Stream::ANCHORS, "gone".into())), true),
    ];
    for (what, happens, doubtful) in cases {
        let mut cluster = rest.clone();
        let mut forest = cluster.forest();
        assert!(forest.is_in_doubt(), "the CRDs are not read yet");
        forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::Present)));
        assert!(!forest.is_in_doubt());
        forest.apply(happens(&mut cluster).unwrap());
        assert_eq!(forest.is_in_doubt(), doubtful, "{what}");
    }
    let mut forest = rest.forest();
    forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted)));
    assert!(forest.crds_are_being_deleted() && !forest.is_in_doubt());
    forest.apply(rest.list_namespaces());
    assert!(forest.is_in_doubt(), "a list that comes while they go may be of other definitions");
    forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::Present)));
    assert!(!forest.crds_are_being_deleted() && !forest.is_in_doubt());
}

#[test]
fn while_definitions_go_what_is_going_is_let_go_and_the_rest_says_so() {
    let mut cluster = Cluster::draw("p, c<p, x:p");
    cluster.role("p", "r", "x");
    settle(&mut cluster);
    cluster.delete_anchor("p", "c");
    cluster.role("p", "r", "y");
    let mut forest = cluster.forest();
    assert!(about_anchors(&forest, "p").contains(&"delete subnamespace c".to_owned()));
    let change = forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted)));
    assert!(change.everything);
    assert_eq!(planned(&forest, "p"), ["report [c x] [DeletingCRD]", "off anchor c held by []"]);
    assert_eq!(planned(&forest, "x"), ["report [] [DeletingCRD]"]);
    assert!(!forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted))).everything, "nothing new");

    forest.apply(cluster.delete_hierarchy("p").unwrap());
    assert_eq!(planned(&forest, "p"), ["report held by []", "off anchor c held by []"]);
    assert!(forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::Present))).everything);
    assert!(about_anchors(&forest, "p").contains(&"delete subnamespace c".to_owned()));
}
