//! Row 12: whose consent is needed, and whose is not.

use super::*;

/// The forest, the move of "child", and whose consent is asked in which role.
type Consents = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const ROOT: &str = "the root of the tree";
const NEW: &str = "the new parent";
const COMMON: &str = "the nearest common ancestor";

const CONSENTS: [Consents; 20] = [
    // From nothing.
    ("child, p", "> p", &[("p", NEW)]),
    ("child, top, p:top", "> p", &[("p", NEW)]),
    ("child, p:gone", "> p", &[("p", NEW)]),
    // From an unmanaged parent.
    ("child:kube-system, kube-system, p", "kube-system > p", &[("p", NEW)]),
    ("child:kube-system, kube-system, p", "kube-system >", &[]),
    // To nothing.
    ("c, child:c", "c >", &[("c", ROOT)]),
    ("top, mid:top, c:mid, child:c", "c >", &[("top", ROOT)]),
    // To another tree.
    ("c, child:c, p", "c > p", &[("c", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, other, p:other", "c > p", &[("top", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, p:gone", "c > p", &[("top", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, p:q, q:p", "c > p", &[("top", ROOT), ("p", NEW)]),
    // Within the tree.
    ("top, c:top, child:c, p:top", "c > p", &[("top", COMMON)]),
    ("top, m:top, c:m, child:c, p:m", "c > p", &[("m", COMMON)]),
    ("top, p:top, c:p, child:c", "c > p", &[("p", COMMON)]),
    ("c, child:c, p:c", "c > p", &[("c", COMMON)]),
    ("top, c:top, child:c, l:c, p:l", "c > p", &[("c", COMMON)]),
    // Out of a cycle: where the way up from the present parent comes round.
    ("child:b, b:child", "b >", &[("b", ROOT)]),
    ("child:b, b:c, c:child", "b >", &[("b", ROOT)]),
    ("child:b, b:child, p", "b > p", &[("b", ROOT), ("p", NEW)]),
    ("child:child, p", "child >", &[("child", ROOT)]),
];

/// All namespaces but `child` have the tree label of their parent.
fn labelled(text: &str) -> Cluster {
    let mut cluster = Cluster::draw(text);
    let parents: Vec<(Name, Name)> = (cluster.hierarchies.iter())
        .filter(|(name, _)| **name != Name::from("child"))
        .filter_map(|(name, seen)| Some((name.clone(), seen.parent.clone()?)))
        .collect();
    for (name, parent) in parents {
        cluster.label_place(&name, &[&parent]);
    }
    cluster
}

/// Its tree labels are all that remains of the place of a namespace while it is deleted. Otherwise a user could take a namespace out of
/// its tree, below one that joins the tree for a moment.
#[test]
fn row_12_below_a_namespace_that_has_just_joined_the_root_consents() {
    let text = "org, team:org, late:team, below:late, child:team";
    let request = |parent: &str| update("child", &format!("team > {parent}"));
    let drawn = |is_labelled: bool| {
        let mut cluster = Cluster::draw(text);
        cluster.label_place("below", &["late", "team", "org"]);
        if is_labelled {
            cluster.label_place("late", &["team", "org"]);
        }
        cluster
    };
    let lags =
        Denied(Unavailable, &["the tree labels of namespace \"late\" do not show yet", "admin of \"org\""]);
    for parent in ["late", "below"] {
        let waits = [("admin org", No), ("await labels of late", No)];
        check(parent, &judge(&mut drawn(false).forest(), &request(parent), &waits, |_| ()), &lags);
        let comes = [("admin org", No), ("await labels of late", Yes), ("admin team", Yes)];
        let learn = |forest: &mut Forest| *forest = drawn(true).forest();
        check(parent, &judge(&mut drawn(false).forest(), &request(parent), &comes, learn), &Allowed);
        let consents = [("admin org", Yes), ("admin team", Yes)];
        check(parent, &judge(&mut drawn(false).forest(), &request(parent), &consents, |_| ()), &Allowed);
        check(parent, &judge(&mut drawn(true).forest(), &request(parent), &consents[1..], |_| ()), &Allowed);
    }
}

/// Two rows each: everybody whose consent is needed has given it, or the one named has not.
#[test]
fn row_12_consent_comes_from_above() {
    for (text, parents, consents) in CONSENTS {
        let request = update("child", parents);
        let forest = || labelled(text).forest();
        let what = format!("{parents}, in {text:?}");
        let questions: Vec<String> = consents.iter().map(|(name, _)| format!("admin {name}")).collect();
        let dialogue = |answer: &dyn Fn(usize) -> Answer| -> Vec<(&str, Answer)> {
            questions.iter().enumerate().map(|(at, it)| (&**it, answer(at))).collect()
        };
        let given = dialogue(&|_| Yes);
        let parent_is_halted = ["p:gone", "p:q"].iter().any(|it| text.contains(it));
        let allowed = if parent_is_halted { Warned(&["\"p\" is halted"]) } else { Allowed };
        check(&what, &judge(&mut forest(), &request, &given, |_| ()), &allowed);
        for (missing, (name, role)) in consents.iter().enumerate() {
            let refused = dialogue(&|at| if at == missing { No } else { Yes });
            let verdict = judge(&mut forest(), &request, &refused, |_| ());
            let quoted = format!("{name:?}");
            check(&what, &verdict, &Denied(Unauthorized, &[USER, "\"child\"", "hierarchyconfigurations"]));
            let Verdict::Deny(denial) = verdict else { panic!("{what}: {verdict:?}") };
            for named in [&*quoted, role] {
                assert!(denial.message.contains(named), "{what}: {named:?} is not in {:?}", denial.message);
            }
            let unclear = dialogue(&|at| if at == missing { failed() } else { Yes });
            let verdict = judge(&mut forest(), &request, &unclear, |_| ());
            check(&what, &verdict, &Denied(Internal, &["connection refused"]));
        }
        // The first in the table's order is the one to hear of.
        let verdict = judge(&mut forest(), &request, &dialogue(&|_| No), |_| ());
        if let (Some((name, role)), Verdict::Deny(denial)) = (consents.first(), &verdict) {
            assert!(denial.message.contains(&format!("{name:?}, which is {role}")), "{what}: {denial:?}");
        } else {
            check(&what, &verdict, &Allowed);
        }
    }
}

/// A user may have the right to create or patch `HierarchyConfigurations` everywhere, and is admin only where they may update them.
#[test]
fn the_admin_of_the_namespace_consents_too() {
    const ITSELF: Expected =
        Denied(Unauthorized, &["\"child\", which is the namespace whose parent would change"]);
    check_all([
        ("joins", "child, p", create("child", "p"), vec![("admin p", Yes), ("admin child", No)], ITSELF),
        ("leaves", "p, child:p", update("child", "p >"), vec![("admin p", Yes), ("admin child", No)], ITSELF),
        (
            "leaves",
            "p, child:p",
            update("child", "p >"),
            vec![("admin p", Yes), ("admin child", Yes)],
            Allowed,
        ),
        (
            "names a missing parent",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin child", No)],
            ITSELF,
        ),
        ("stays", "p, child:p", update("child", "p > p"), vec![], Allowed),
    ]);
}

#[test]
fn row_12_a_missing_parent_needs_no_consent_of_its_tree() {
    check_all([
        (
            "an orphan joins with the consent of its new parent",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", No), ("admin p", Yes)],
            Allowed,
        ),
        (
            "and not without",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", No), ("admin p", No)],
            Denied(Unauthorized, &[USER, "\"p\"", "the new parent"]),
        ),
        (
            "an orphan becomes a root",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", No)],
            Allowed,
        ),
        (
            "the parent is there after all",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", Yes), ("await gone", No)],
            Denied(Unavailable, &["\"gone\""]),
        ),
        (
            "the parent is going, not gone",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", Terminating), ("await gone", No)],
            Denied(Unavailable, &["\"gone\""]),
        ),
        (
            "the parent cannot be read",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", failed())],
            Denied(Internal, &["\"gone\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("top, child:gone");
    let mut forest = cluster.forest();
    let dialogue = [("live gone", Yes), ("await gone", Yes), ("admin gone", No)];
    let verdict = judge(&mut forest, &update("child", "gone >"), &dialogue, |it| {
        it.apply(cluster.namespace("gone"));
    });
    check("it arrives, and its admin is asked", &verdict, &Denied(Unauthorized, &["\"gone\"", "the root"]));
}

/// The admin of "team" moves "child" below a namespace of theirs and deletes that one.
#[test]
fn an_orphan_leaves_the_tree_that_its_labels_name_only_with_consent() {
    const IN_TEAM: &str = "org, team:org, child:gone, p";
    const ABOVE: [&str; 3] = ["gone", "team", "org"];
    let gone = || ("live gone", No);
    let refused = |what: &str, verdict: &Verdict, name: &str, role: &str| match verdict {
        Verdict::Deny(denial) => {
            assert_eq!(denial.kind, Unauthorized, "{what}: {denial:?}");
            assert!(denial.message.contains(&format!("{name:?}, which is {role}")), "{what}: {denial:?}");
        }
        verdict => panic!("{what}: {verdict:?}"),
    };
    for (what, text, request, dialogue, expected) in [
        (
            "becomes a root",
            IN_TEAM,
            update("child", "gone >"),
            vec![gone(), ("admin org", No)],
            Some(("org", ROOT)),
        ),
        ("with consent", IN_TEAM, update("child", "gone >"), vec![gone(), ("admin org", Yes)], None),
        (
            "its object is deleted",
            IN_TEAM,
            delete("child", "gone"),
            vec![gone(), ("admin org", No), ("live child", Yes)],
            Some(("org", ROOT)),
        ),
        (
            "joins another tree",
            IN_TEAM,
            update("child", "gone > p"),
            vec![gone(), ("admin org", No), ("admin p", Yes)],
            Some(("org", ROOT)),
        ),
        (
            "and not without the other's",
            IN_TEAM,
            update("child", "gone > p"),
            vec![gone(), ("admin org", Yes), ("admin p", No)],
            Some(("p", NEW)),
        ),
        (
            "waits for another parent",
            IN_TEAM,
            update("child", "gone > q"),
            vec![("live q", No), ("create q", Yes), ("hierarchy q", Yes), gone(), ("admin org", No)],
            Some(("org", ROOT)),
        ),
        (
            "is repaired by the admin of the place",
            IN_TEAM,
            update("child", "gone > team"),
            vec![gone(), ("admin team", Yes)],
            None,
        ),
        (
            "and not by others",
            IN_TEAM,
            update("child", "gone > team"),
            vec![gone(), ("admin team", No)],
            Some(("team", COMMON)),
        ),
        (
            "moves up in the tree",
            IN_TEAM,
            update("child", "gone > org"),
            vec![gone(), ("admin org", No)],
            Some(("org", COMMON)),
        ),
        (
            "the nearest ancestor is missing too",
            "org, child:gone",
            update("child", "gone >"),
            vec![gone(), ("admin org", No)],
            Some(("org", ROOT)),
        ),
        (
            "another namespace has its name now",
            "org, team, child:gone",
            update("child", "gone >"),
            vec![gone(), ("admin org", No)],
            Some(("org", ROOT)),
        ),
        (
            "the ancestor has moved",
            "top, org:top, team:org, child:gone",
            update("child", "gone >"),
            vec![gone(), ("admin top", No)],
            Some(("top", ROOT)),
        ),
        ("the whole tree is missing", "child:gone", update("child", "gone >"), vec![gone()], None),
    ] {
        let mut cluster = Cluster::draw(text);
        cluster.label_place("child", &ABOVE);
        let verdict = judge(&mut cluster.forest(), &request, &dialogue, |_| ());
        match expected {
            None => check(what, &verdict, &Allowed),
            Some((name, role)) => refused(what, &verdict, name, role),
        }
    }
}

/// A user with the right to create, patch or delete these objects alone could let editors delete whole subtrees.
#[test]
fn the_admin_of_the_namespace_changes_labels_annotations_and_cascading_deletion() {
    const REFUSED: Expected = Denied(Unauthorized, &["allowCascadingDeletion of \"child\"", "update on"]);
    let pair = |key: &str| vec![(key.to_owned(), "x".to_owned())];
    let values = [
        Spec { labels: pair("tier"), ..Spec::default() },
        Spec { annotations: pair("owner"), ..Spec::default() },
        Spec { allow_cascading_deletion: true, ..Spec::default() },
    ];
    let with = |spec: &Spec, value: &Spec| Spec { parent: spec.parent.clone(), ..value.clone() };
    let request = |operation, parent| request(operation, "child", parent, parent);
    for value in &values {
        let mut changes = Vec::new();
        for parent in [None, Some("p")] {
            let mut set = request(Operation::Update, parent);
            set.new = with(&set.new, value);
            let mut removed = request(Operation::Update, parent);
            removed.old = with(&removed.old, value);
            changes.extend([set, removed]);
        }
        for change in &changes {
            let text = if change.old.parent.is_some() { "p, child:p" } else { "p, child" };
            let judged = |answer: Answer| {
                judge(&mut Cluster::draw(text).forest(), change, &[("admin child", answer)], |_| ())
            };
            check("an admin", &judged(Yes), &Allowed);
            check("no admin", &judged(No), &REFUSED);
            check("not known", &judged(failed()), &Denied(Internal, &["connection refused"]));
        }
        let judged = |request: &Request, dialogue: &[(&str, Answer)]| {
            judge(&mut Cluster::draw("child").forest(), request, dialogue, |_| ())
        };
        let mut created = request(Operation::Create, None);
        created.new = value.clone();
        check("created with it", &judged(&created, &[("admin child", No)]), &REFUSED);
        let mut deleted = request(Operation::Delete, None);
        deleted.old = value.clone();
        check("deleted with it", &judged(&deleted, &[("admin child", No), ("live child", Yes)]), &REFUSED);
        let going = [("admin child", No), ("live child", Terminating)];
        check("deleted with its namespace", &judged(&deleted, &going), &Allowed);
        deleted.user.name = "system:serviceaccount:kube-system:generic-garbage-collector".into();
        check("by the garbage collector", &judged(&deleted, &[("live child", Yes)]), &REFUSED);
        let mut same = request(Operation::Update, None);
        (same.old, same.new) = (value.clone(), value.clone());
        check("unchanged", &judged(&same, &[]), &Allowed);
    }
}
