//! The rules for `SubNamespaces`, and the border between the two hierarchies.

use super::decide;
use crate::accurate::keys;
use crate::accurate::naming::NamingPolicy;
use crate::accurate::rules::namespace;
use crate::accurate::rules::sub_namespace::{Request, review, with_finalizer};
use crate::accurate::settings::Settings;
use crate::accurate::world::{self, draw, draw_with, place, settings};
use crate::accurate::{Fact as AccurateFact, Stalled, SubNamespaceFact};
use crate::core::verdict::{Answers, Operation, User, Verdict};
use crate::{Fact, Forest, HierarchyFact, NamespaceFact, Version, hnc, rules};

fn request(operation: Operation, place: &str) -> Request {
    let (namespace, name) = place.split_once('/').unwrap();
    let (labels, annotations) = Default::default();
    Request {
        operation,
        namespace: namespace.into(),
        name: name.into(),
        user: User::default(),
        labels,
        annotations,
        adds_owner: false,
        removes_finalizer: false,
    }
}

fn create(forest: &Forest, place: &str) -> String {
    decide(&[], |answers| review(forest, &request(Operation::Create, place), answers))
}

fn delete(forest: &Forest, place: &str) -> String {
    decide(&[], |answers| review(forest, &request(Operation::Delete, place), answers))
}

#[test]
fn one_is_created_below_roots_and_sub_namespaces_only() {
    let forest = draw("r root, s ^r, t template, i ~t, n, lost ^gone, going root !, waits ^going");
    for (place, wanted) in [
        ("r/a", "ok"),
        ("s/a", "ok"),
        // It will show that it is in conflict.
        ("r/n", "ok"),
        ("n/a", "namespace n is neither a root nor a sub namespace"),
        ("t/a", "namespace t is neither a root nor a sub namespace"),
        ("i/a", "namespace i is neither a root nor a sub namespace"),
        (
            "kube-system/a",
            "namespace kube-system is excluded by excludedNamespaces in the settings of hns, so it has no sub-namespaces",
        ),
        ("lost/a", "namespace gone is not found"),
        ("none/a", "500: namespace \"none\" does not exist"),
        (
            "r/kube-system",
            "metadata.name: Invalid value: \"kube-system\": is excluded by excludedNamespaces in the settings of hns",
        ),
    ] {
        assert_eq!(create(&forest, place), wanted, "{place}");
    }
    assert!(
        create(&forest, "r/a.b")
            .starts_with("metadata.name: Invalid value: \"a.b\": becomes the name of a namespace")
    );
    // The namespace that it creates would be the missing parent, also if that is still being deleted.
    assert!(
        create(&forest, "r/going")
            .starts_with("you may not make \"going\" a namespace that passes objects on")
    );
    assert!(
        create(&forest, "r/gone").starts_with("you may not make \"gone\" a namespace that passes objects on")
    );
}

/// It is in conflict. If the namespace goes before a controller shows that, it takes those that name it.
#[test]
fn one_for_a_namespace_elsewhere_needs_the_consent_of_those_below_it() {
    let forest = draw("r root, x ^r, c ^x, d ^x, q root, y, e ^y, t, i ~t");
    let everywhere = "delete subnamespaces ";
    let create = |yes: &[&str], place| {
        decide(yes, |answers| review(&forest, &request(Operation::Create, place), answers))
    };
    let both = ["update hierarchyconfigurations c", "update hierarchyconfigurations d"];
    for (yes, place, is_allowed) in [
        (&[][..], "q/x", false),
        (&["update hierarchyconfigurations x", "update hierarchyconfigurations c"], "q/x", false),
        (&both, "q/x", true),
        // It passes nothing on, so it can be deleted before the namespaces that name it. Then their tree is not known.
        (&["update hierarchyconfigurations e"], "q/y", false),
        (&["update hierarchyconfigurations e", everywhere], "q/y", true),
        (&["update hierarchyconfigurations i"], "q/t", false),
        (&["update hierarchyconfigurations i", everywhere], "q/t", true),
        // A lost one is created again.
        (&[], "r/x", true),
        (&[], "q/c", true),
    ] {
        let said = create(yes, place);
        let refused =
            said.starts_with(&format!("you may not make {:?} a namespace that passes", &place[2..]));
        assert_eq!((said == "ok", refused), (is_allowed, !is_allowed), "{place} with {yes:?}: {said}");
    }
}

#[test]
fn all_faults_of_labels_and_annotations_are_told_at_once() {
    let forest = draw("r root");
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let ask = |labels, annotations| {
        let request = Request { labels, annotations, ..request(Operation::Create, "r/a") };
        decide(&[], |answers| review(&forest, &request, answers))
    };
    assert_eq!(ask(pair("team", "red"), pair("note", "any text, of any length")), "ok");
    let message = ask(pair("team", "-red"), pair("a/b/c", ""));
    assert!(
        message.contains("spec.labels: Invalid value: \"-red\"") && message.contains("spec.annotations"),
        "{message}"
    );
    assert!(ask(vec![], pair("note", &"x".repeat(256 << 10))).contains("at most 262144 bytes"));
}

/// Whatever its name and its namespace have become.
#[test]
fn a_changed_spec_is_well_formed() {
    let forest = draw("n");
    let change = |value: &str| {
        let labels = vec![("team".to_owned(), value.to_owned())];
        let request = Request { labels, ..request(Operation::Update, "n/kube-system") };
        decide(&[], |answers| review(&forest, &request, answers))
    };
    assert_eq!(change("red"), "ok");
    assert!(change("-red").starts_with("spec.labels: Invalid value: \"-red\""));
}

/// The garbage collector would delete it, and its namespace would go with it.
#[test]
fn an_owner_reference_is_for_those_to_add_who_may_delete() {
    let forest = draw("r root, s ^r");
    let refused = "you may not add an owner reference to the SubNamespace \"s\", which would be deleted with its owner: the right to \
                   delete subnamespaces.accurate.cybozu.com in namespace \"r\" is needed";
    for operation in [Operation::Create, Operation::Update] {
        for (adds_owner, yes, wanted) in [
            (true, &[][..], refused),
            (true, &["delete subnamespaces r"], "ok"),
            (true, &["create subnamespaces r", "delete subnamespaces s"], refused),
            (false, &[], "ok"),
        ] {
            let request = Request { adds_owner, ..request(operation, "r/s") };
            assert_eq!(
                decide(yes, |answers| review(&forest, &request, answers)),
                wanted,
                "{operation:?} {yes:?}"
            );
        }
    }
}

/// Without it, the `SubNamespace` could be deleted alone, and no quota would count its namespace any more.
#[test]
fn the_finalizer_is_removed_by_those_who_give_rights_in_the_parent() {
    let forest = draw("r root, s ^r");
    let refused = "you may not remove the finalizer accurate.cybozu.com/finalizer of the SubNamespace \"s\", which the controller removes \
                   when its namespace is being deleted: the right to update hierarchyconfigurations.hnc.x-k8s.io in namespace \"r\" is \
                   needed";
    for (removes_finalizer, yes, wanted) in [
        (
            true,
            &["delete subnamespaces r", "update subnamespaces r", "update hierarchyconfigurations s"][..],
            refused,
        ),
        (true, &["update hierarchyconfigurations r"], "ok"),
        (false, &[], "ok"),
    ] {
        let request = Request { removes_finalizer, ..request(Operation::Update, "r/s") };
        assert_eq!(decide(yes, |answers| review(&forest, &request, answers)), wanted, "{yes:?}");
    }
}

#[test]
fn the_root_decides_which_names_are_allowed() {
    let policy = |root: &str, matches: &str| NamingPolicy::new(root, matches).unwrap();
    let naming_policies = vec![
        policy("^app-(?P<team>.*)", "^app-${team}-.+"),
        policy("^broken-(.*)", "x{$1}"),
        policy("^pair-(?P<one>.)-(?P<two>.)$", "^$one-$two-"),
        policy("^pair", "z$"),
    ];
    let settings = Settings { naming_policies, ..settings() };
    let forest = draw_with(settings, "app-a root, app-a-b ^app-a, free root, broken-a root, pair-x-y root");
    for (place, wanted) in [
        ("app-a/app-a-c", "ok"),
        ("app-a-b/app-a-c", "ok"),
        (
            "app-a-b/app-b-c",
            "namespace app-a-b is not match naming policies: namespace - target=app-b-c root=app-a denied policy - \
             root=^app-(?P<team>.*) match=^app-${team}-.+",
        ),
        ("free/anything", "ok"),
        // Every policy for the root must allow the name.
        ("pair-x-y/x-y-z", "ok"),
        (
            "pair-x-y/x-y-a",
            "namespace pair-x-y is not match naming policies: namespace - target=x-y-a root=pair-x-y denied policy - \
             root=^pair match=z$",
        ),
    ] {
        assert_eq!(create(&forest, place), wanted, "{place}");
    }
    let broken = create(&forest, "broken-a/a");
    assert!(broken.starts_with("the naming policy root=^broken-(.*) match=x{$1} cannot be used"), "{broken}");
    assert!(broken.ends_with("correct accurate.config.namingPolicies in the settings"), "{broken}");
}

/// Otherwise who creates one of a foreign name and deletes it again and again would hold up what concerns that namespace.
#[test]
fn the_deletion_of_one_in_conflict_holds_up_nobody() {
    let forest = draw("r root, s ^r, q root");
    for (place, holds) in [("r/s", true), ("q/s", false)] {
        match review(&forest, &request(Operation::Delete, place), &Answers::new()) {
            Verdict::Allow { change, .. } => assert_eq!(change.is_some(), holds, "{place}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_is_deleted_unless_its_namespace_has_dependants() {
    let world = "r root, s ^r, x ^s, u ^r, v ~u, kube-system root, k ^kube-system, y ^k";
    let forest = draw(world);
    let cascades = draw_with(Settings { allow_cascading_deletion: true, ..settings() }, world);
    for (place, without, with) in [
        ("r/s", "child namespaces exist", "ok"),
        ("s/x", "ok", "ok"),
        ("r/gone", "ok", "ok"),
        // Of another parent: nothing would be deleted.
        ("x/s", "ok", "ok"),
        // Of an excluded parent, the same.
        ("kube-system/k", "ok", "ok"),
        ("r/u", "child namespaces exist", "child namespaces exist"),
    ] {
        assert_eq!([delete(&forest, place), delete(&cascades, place)], [without, with], "{place}");
    }
    let waits = |form: SubNamespaceFact| {
        let mut forest = draw(world);
        forest.apply(AccurateFact::SubNamespace("x".into(), form));
        delete(&forest, "s/x") != "ok"
    };
    assert!(waits(world::form("new")), "its namespace would be the child of a missing one");
    let mut stalled = world::form("new");
    stalled.status.stalled =
        Some(Stalled { reason: "InvalidName".into(), message: "".into(), observed_generation: 1 });
    let ends = SubNamespaceFact { terminating: true, ..world::form("new") };
    assert!(!waits(stalled) && !waits(ends) && !waits(world::form("v")), "they create nothing");
}

/// As an interrupted conversion leaves it.
#[test]
fn one_stays_while_its_namespace_has_subnamespaces() {
    let mut forest = draw("r root, s ^r, k");
    assert_eq!(delete(&forest, "r/s"), "ok");
    let annotations = [("hnc.x-k8s.io/subnamespace-of", "s")].into_iter().collect();
    let version = Version { resource_version: "2".into(), ..world::version("k") };
    let below = NamespaceFact { name: "k".into(), version, annotations, ..NamespaceFact::default() };
    forest.apply(Fact::Namespace(below));
    assert!(
        delete(&forest, "r/s")
            .starts_with("namespace \"s\" has subnamespaces in a hierarchy of hnc.x-k8s.io: \"k\";")
    );
    assert_eq!(delete(&forest, "r/other"), "ok");
}

/// Kubernetes refuses to delete some namespaces, so the `SubNamespace` would wait forever.
#[test]
fn one_stays_while_its_namespace_cannot_be_deleted() {
    let stays = "namespace \"default\" would have to be deleted, too, but Kubernetes never deletes it; take it out of its tree first: \
                 kubectl accurate sub cut default";
    let cascading = Settings { allow_cascading_deletion: true, ..settings() };
    for (world, owned, place, wanted) in [
        ("r root, default ^r", "r/default", "r/default", stays),
        ("r root, default ^r, x ^default", "r/default", "r/default", stays),
        ("r root, s ^r, t ^s, default ^t", "s/t t/default", "r/s", stays),
        // Nothing deletes it with those above it.
        ("r root, s ^r, t ^s, default ^t", "t/default", "r/s", "ok"),
        ("r root, s ^r, t ^s, default ^t", "s/t", "r/s", "ok"),
        ("r root, s ^r, default ^r", "r/default", "r/s", "ok"),
        // They delete nothing.
        ("r root, default", "r/default", "r/default", "ok"),
        ("r root, q root, default ^q", "q/default r/default", "r/default", "ok"),
        // The namespace controller deletes it.
        ("r root !, default ^r", "r/default", "r/default", "ok"),
    ] {
        let mut forest = draw_with(cascading.clone(), world);
        for (parent, child) in owned.split(' ').filter_map(|it| it.split_once('/')) {
            forest.apply(AccurateFact::SubNamespace(parent.into(), world::form(child)));
        }
        assert_eq!(delete(&forest, place), wanted, "{world}, {owned}, {place}");
    }
}

#[test]
fn a_new_one_keeps_the_finalizers_that_it_has() {
    assert_eq!(with_finalizer(&["a".into()]), Some(vec!["a".into(), keys::FINALIZER.into()]));
    assert_eq!(with_finalizer(&[keys::FINALIZER.into(), "a".into()]), None);
}

#[test]
fn a_namespace_is_in_one_hierarchy() {
    let mut forest = draw("r root, s ^r, n, h, c, w");
    for (child, parent) in [("c", "h"), ("w", "gone")] {
        let version = world::version(child);
        let hierarchy = HierarchyFact { version, parent: Some(parent.into()), ..HierarchyFact::default() };
        forest.apply(hnc::Fact::Hierarchy(child.into(), hierarchy));
    }
    let of_hnc = |name: &str| {
        format!(
            "namespace {name:?} is in a hierarchy of hnc.x-k8s.io, and can be in one hierarchy only; remove its parent, children and \
             anchors there first"
        )
    };
    let set = |old: &str, new: &str, is_subnamespace| {
        let labels = |text: &str| place(text).into_iter().collect();
        let request = namespace::Request {
            operation: Operation::Update,
            name: old.into(),
            user: User::default(),
            old: labels(old),
            new: labels(new),
            terminating: false,
            is_subnamespace,
        };
        decide(&[], |answers| namespace::review(&forest, &request, answers))
    };
    assert_eq!(set("h", "h root", false), of_hnc("h"));
    assert_eq!(set("c", "c ^r", false), of_hnc("c"));
    assert_eq!(set("n", "n root", true), of_hnc("n"), "it joins both at once");
    assert_eq!(set("n", "n root", false), "ok");
    let missing = set("gone", "gone root", false);
    assert!(
        missing.starts_with("\"gone\" is the missing parent") && missing.ends_with("parent: \"w\""),
        "{missing}"
    );
    let adopt = |child: &str, parent: &str| {
        let spec = rules::hierarchy::Spec { parent: Some(parent.into()), ..Default::default() };
        let request = rules::hierarchy::Request {
            operation: Operation::Update,
            namespace: child.into(),
            user: User::default(),
            old: rules::hierarchy::Spec::default(),
            new: spec,
            terminating: false,
        };
        match rules::hierarchy::review(&forest, &request, &yes([child, parent])) {
            Verdict::Deny(denial) => denial.message,
            verdict => format!("{verdict:?}"),
        }
    };
    for (child, parent, other) in [("n", "r", "r"), ("s", "n", "s"), ("r", "n", "r")] {
        let wanted = format!(
            "namespace {other:?} is in a hierarchy of accurate.cybozu.com, and can be in one hierarchy only"
        );
        assert!(
            adopt(child, parent).starts_with(&wanted),
            "{child} below {parent}: {}",
            adopt(child, parent)
        );
    }
    // What slipped through is halted, here and there.
    let hierarchy =
        HierarchyFact { version: world::version("s"), parent: Some("h".into()), ..HierarchyFact::default() };
    let change = forest.apply(hnc::Fact::Hierarchy("s".into(), hierarchy));
    assert!(change.namespaces.contains_key("s"));
    assert_eq!(forest.halted_root("s").map(|it| &**it), Some("s"));
}

#[test]
fn a_parent_that_a_sub_namespace_is_about_to_create_is_not_named_in_the_other_hierarchy() {
    let mut forest = draw("r root, s ^r, h, p");
    let stalled = |name: &str| {
        let mut form = world::form(name);
        let (reason, message) = ("Conflict".into(), "".into());
        form.status.stalled = Some(Stalled { reason, message, observed_generation: 1 });
        form
    };
    let released =
        |name: &str| SubNamespaceFact { terminating: true, finalizers: vec![], ..world::form(name) };
    let ending = |name: &str| SubNamespaceFact { terminating: true, ..world::form(name) };
    for form in
        [world::form("new"), stalled("taken"), ending("ending"), released("released"), world::form("p")]
    {
        forest.apply(AccurateFact::SubNamespace("r".into(), form));
    }
    let name = |forest: &Forest, parent: &str| {
        let spec = rules::hierarchy::Spec { parent: Some(parent.into()), ..Default::default() };
        let request = rules::hierarchy::Request {
            operation: Operation::Update,
            namespace: "h".into(),
            user: User::default(),
            old: rules::hierarchy::Spec::default(),
            new: spec,
            terminating: false,
        };
        let mut answers = yes(["h", parent]);
        let absent = (rules::Question::Namespace(parent.into()), rules::Answer::No);
        let rights = [
            rules::Question::MayCreateNamespace(parent.into()),
            rules::Question::MayConfigure(parent.into()),
        ];
        answers.extend(rights.map(|right| (right, rules::Answer::Yes)).into_iter().chain([absent]));
        match rules::hierarchy::review(forest, &request, &answers) {
            Verdict::Deny(denial) => denial.message,
            verdict => format!("{verdict:?}"),
        }
    };
    for parent in ["new", "taken", "ending"] {
        let said = name(&forest, parent);
        assert!(said.contains("a SubNamespace of that name in \"r\" waits to create it"), "{parent}: {said}");
    }
    // An existing one stays a namespace of HNC's; the SubNamespace is in conflict.
    for parent in ["released", "other", "p"] {
        let said = name(&forest, parent);
        assert!(said.starts_with("Allow"), "{parent}: {said}");
    }
}

#[test]
fn a_tree_passes_to_the_other_hierarchy_with_the_consent_of_its_top() {
    let forest = draw("a template, r root ~a, s ^r, t ^s, n");
    let pass = |child: &str, parent: &str, admin_of: &[&str]| {
        let mut annotations = std::collections::BTreeMap::new();
        annotations.insert(crate::keys::SUBNAMESPACE_OF.to_owned(), parent.to_owned());
        let new =
            rules::namespace::Marks { annotations: annotations.into_iter().collect(), ..Default::default() };
        let request = rules::namespace::Request {
            operation: Operation::Update,
            name: child.into(),
            user: User::default(),
            old: rules::namespace::Marks::default(),
            new,
        };
        let mut answers = Answers::new();
        for name in ["a", "r", "s", "t", "n"] {
            let answer = if admin_of.contains(&name) { rules::Answer::Yes } else { rules::Answer::No };
            answers.insert(rules::Question::IsAdmin(name.into()), answer);
        }
        match rules::namespace::review(&forest, &request, &answers) {
            Verdict::Deny(denial) => denial.message,
            verdict => format!("{verdict:?}"),
        }
    };
    let (everywhere, below) = (["a", "r", "s", "t", "n"], ["r", "s", "t", "n"]);
    let other = |name: &str| format!("namespace {name:?} is in a hierarchy of accurate.cybozu.com");
    assert!(pass("t", "s", &everywhere).starts_with("Allow"), "{}", pass("t", "s", &everywhere));
    for (child, parent, admin_of, wanted) in [
        ("t", "s", &below[..], other("t")),
        ("t", "r", &everywhere, other("t")),
        ("n", "s", &everywhere, other("s")),
        ("r", "a", &everywhere, other("r")),
    ] {
        let said = pass(child, parent, admin_of);
        assert!(said.starts_with(&wanted), "{child} below {parent}: {said}");
    }
}

fn yes(names: [&str; 2]) -> Answers {
    names.into_iter().map(|name| (rules::Question::IsAdmin(name.into()), rules::Answer::Yes)).collect()
}
