//! Rows of section 7.4, each allowed and refused, with the questions that are asked on the way.

use super::*;
use crate::AnchorFact;
use crate::cluster::{Cluster, settings};
use crate::core::kind::OnConflict;
use crate::core::stream::Stream;
use crate::dialects::Fact;
use crate::hnc::rules::Answer::{No, Terminating, Yes};
use crate::hnc::rules::DenialKind::{Conflict, Forbidden, Internal, Invalid, Unauthorized, Unavailable};
use crate::hnc::rules::tests::Expected::{self, Allowed, Denied, Warned};
use crate::hnc::rules::tests::{self as dialogue, USER, check, failed, jane};
use crate::hnc::settings::{Identity, Settings};

fn request(operation: Operation, parent: &str, child: &str) -> Request {
    Request {
        operation,
        parent: parent.into(),
        child: child.into(),
        user: jane(),
        labels: vec![],
        annotations: vec![],
        old: Default::default(),
        initial_admin: (None, None),
        state: (None, None),
        adds_owner: false,
        removes_finalizer: false,
    }
}

fn create(parent: &str, child: &str) -> Request {
    request(Operation::Create, parent, child)
}

fn update(parent: &str, child: &str) -> Request {
    request(Operation::Update, parent, child)
}

fn delete(parent: &str, child: &str) -> Request {
    request(Operation::Delete, parent, child)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn judge(forest: &mut Forest, request: &Request, answers: &[(&str, Answer)]) -> Verdict {
    dialogue::judge(forest, |forest, answers| review(forest, request, answers), answers, |_| ())
}

const FAULTS: &[&str] =
    &["spec.labels: Invalid value: \"colour\"", "spec.labels[tier]", "spec.annotations", "\"note\""];
const FIXED: Expected = Denied(Forbidden, &["hnc.x-k8s.io/initial-admin", "cannot be changed"]);

/// Labels and annotations.
type Keys = (&'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

type Case = (&'static str, &'static str, Request, Vec<(&'static str, Answer)>, Expected);

fn check_all(cases: impl IntoIterator<Item = Case>) {
    for (what, text, request, answers, expected) in cases {
        let verdict = judge(&mut Cluster::draw(text).forest(), &request, &answers);
        check(&format!("{what}, in {text:?}"), &verdict, &expected);
    }
}

#[test]
fn row_1_the_name_becomes_a_namespaces() {
    let long = "a".repeat(64);
    for name in ["a.b", "-a", "A", &long] {
        for request in [create("p", name), update("p", name)] {
            let verdict = judge(&mut Cluster::draw("p").forest(), &request, &[]);
            check(name, &verdict, &Denied(Invalid, &["metadata.name"]));
            let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
            assert!(denial.message.contains(&format!("{name:?}")), "{}", denial.message);
        }
        // One that slipped in can go.
        check(name, &judge(&mut Cluster::draw("p").forest(), &delete("p", name), &[]), &Allowed);
    }
    let verdict = judge(
        &mut Cluster::draw("p").forest(),
        &create("p", &long[1..]),
        &[(&format!("live {}", &long[1..]), No)],
    );
    check("63 letters", &verdict, &Allowed);
}

#[test]
fn row_2_labels_and_annotations_have_to_be_managed() {
    let good = |mut request: Request| {
        request.labels = pairs(&[("tier", "gold")]);
        request.annotations = pairs(&[("owner", "any text")]);
        request
    };
    let bad = |mut request: Request| {
        request.labels = pairs(&[("colour", "red"), ("tier", "-")]);
        request.annotations = pairs(&[("note", "")]);
        request
    };
    check_all([
        ("managed", "p", good(create("p", "c")), vec![("live c", No)], Allowed),
        (
            "managed, later",
            "p, c<p",
            good(update("p", "c")),
            vec![("admin c", Yes), ("admin p", No)],
            Allowed,
        ),
        ("not managed", "p", bad(create("p", "c")), vec![], Denied(Invalid, FAULTS)),
        ("not managed, later", "p, c<p", bad(update("p", "c")), vec![], Denied(Invalid, FAULTS)),
        ("no longer managed, and deleted", "p, c<p", bad(delete("p", "c")), vec![], Allowed),
    ]);
}

#[test]
fn rows_3_and_4_unmanaged_namespaces_have_no_part_in_it() {
    check_all([
        ("managed both", "p", create("p", "c"), vec![("live c", No)], Allowed),
        (
            "an unmanaged parent",
            "kube-system",
            create("kube-system", "c"),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "excludedNamespaces", "can have no subnamespaces"]),
        ),
        (
            "an unmanaged child",
            "p",
            create("p", "kube-system"),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "cannot be a subnamespace"]),
        ),
        (
            "the own namespace",
            "p",
            create("p", "hnc-system"),
            vec![],
            Denied(Forbidden, &["\"hnc-system\"", "cannot be a subnamespace"]),
        ),
        ("what slipped in can be edited", "kube-system", update("kube-system", "c"), vec![], Allowed),
        ("and go", "kube-system", delete("kube-system", "c"), vec![], Allowed),
    ]);
    let settings = Settings::new("hnc-system", [""; 0], "team-.*").unwrap();
    let mut forest = Cluster::draw("team-a").forest_with(settings);
    let verdict = judge(&mut forest, &create("team-a", "other"), &[]);
    check("not included", &verdict, &Denied(Forbidden, &["\"other\"", "includedNamespaceRegex (team-.*)"]));
    check("included", &judge(&mut forest, &create("team-a", "team-b"), &[("live team-b", No)]), &Allowed);
}

#[test]
fn row_5_the_child_is_new_or_was_ours() {
    check_all([
        ("a new name", "p", create("p", "c"), vec![("live c", No)], Allowed),
        ("in a parent that is not known", "", create("p", "c"), vec![("live c", No)], Allowed),
        ("a lost anchor", "p, c<<p", create("p", "c"), vec![], Allowed),
        (
            "a full namespace",
            "p, c",
            create("p", "c"),
            vec![],
            Denied(Conflict, &["\"c\"", "\"p\"", "exists already"]),
        ),
        ("a full child", "p, c:p", create("p", "c"), vec![], Denied(Conflict, &["\"c\"", "\"p\""])),
        (
            "another's subnamespace",
            "p, q, c<q",
            create("p", "c"),
            vec![],
            Denied(Conflict, &["\"c\"", "\"p\""]),
        ),
        ("itself", "p", create("p", "p"), vec![], Denied(Conflict, &["\"p\""])),
        ("its own parent", "p, c<p", create("c", "p"), vec![], Denied(Conflict, &["\"p\"", "\"c\""])),
        (
            "one that the forest does not know yet",
            "p",
            create("p", "c"),
            vec![("live c", Yes), ("await c", No)],
            Denied(Unavailable, &["\"c\"", "try again"]),
        ),
        (
            "one that is still going",
            "p",
            create("p", "c"),
            vec![("live c", Terminating), ("await c", No)],
            Denied(Unavailable, &["\"c\"", "try again"]),
        ),
        (
            "one that cannot be read",
            "p",
            create("p", "c"),
            vec![("live c", failed())],
            Denied(Internal, &["\"c\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("p");
    let mut forest = cluster.forest();
    let request = create("p", "c");
    let verdict = dialogue::judge(
        &mut forest,
        |forest, answers| review(forest, &request, answers),
        &[("live c", Yes), ("await c", Yes)],
        |forest| drop(forest.apply(cluster.namespace("c"))),
    );
    check(
        "it arrives in time, and is another user's",
        &verdict,
        &Denied(Conflict, &["\"c\"", "exists already"]),
    );
}

/// Creating a missing parent needs consent: the creator of a missing parent would have power over those that wait for it.
#[test]
fn a_missing_parents_name_needs_the_consent_of_its_orphans() {
    check_all([
        ("no namespace waits", "p, other:p", create("p", "c"), vec![("live c", No)], Allowed),
        (
            "all agree",
            "p, x:c, y<<c",
            create("p", "c"),
            vec![("live c", No), ("admin x", Yes), ("admin y", Yes)],
            Allowed,
        ),
        (
            "one does not",
            "p, x:c, y:c",
            create("p", "c"),
            vec![("live c", No), ("admin x", Yes), ("admin y", No)],
            Denied(Forbidden, &["\"c\" is the missing parent", "admin of: \"y\""]),
        ),
        (
            "none does",
            "p, x:c, y:c",
            create("p", "c"),
            vec![("live c", No), ("admin x", No), ("admin y", No)],
            Denied(Forbidden, &["\"c\"", "\"x\", \"y\""]),
        ),
        (
            "it cannot be found out",
            "p, x:c",
            create("p", "c"),
            vec![("live c", No), ("admin x", failed())],
            Denied(Internal, &["\"x\"", "connection refused"]),
        ),
        (
            "the namespace of the anchor would be below it",
            "p:c",
            create("p", "c"),
            vec![("live c", No)],
            Denied(Conflict, &["\"c\" cannot be a subnamespace here"]),
        ),
        ("a lost anchor takes no other's", "p, c<<p, x:c", create("p", "c"), vec![], Allowed),
        (
            "the subnamespace is being deleted",
            "p, c!<<p, x:c",
            create("p", "c"),
            vec![("admin x", No)],
            Denied(Forbidden, &["\"c\" is the missing parent"]),
        ),
        (
            "an anchor that the controller could not act on is changed",
            "p, x:c",
            update("p", "c"),
            vec![("admin x", No)],
            Denied(Forbidden, &["\"c\" is the missing parent"]),
        ),
        (
            "an anchor of an existing subnamespace is changed",
            "p, c<p, x:c",
            update("p", "c"),
            vec![],
            Allowed,
        ),
    ]);
}

#[test]
fn row_6_an_anchor_goes_with_its_leaf() {
    const HAS_CHILDREN: &[&str] = &["\"c\" has children", "allowCascadingDeletion"];
    const FULL: &[&str] =
        &["\"c\" has children; set spec.allow", "to delete it; these full", "PARENT): \"x\""];
    const BOTH: &[&str] =
        &["to delete it with these subnamespaces: \"x\"; these full namespaces would stay", "): \"y\""];
    const GOING: &[&str] =
        &["\"c\" has children, which are being deleted: \"x\"; try again when they are gone"];
    check_all([
        ("a leaf", "p, c<p", delete("p", "c"), vec![], Allowed),
        ("with a child that goes", "p, c<p, x!:c", delete("p", "c"), vec![], Denied(Forbidden, GOING)),
        (
            "with one that goes and one that stays",
            "p, c<p, x:c, y!:c",
            delete("p", "c"),
            vec![],
            Denied(Forbidden, FULL),
        ),
        ("with one that goes, if it is allowed", "p, c+<p, x!:c", delete("p", "c"), vec![], Allowed),
        ("with a full child", "p, c<p, x:c", delete("p", "c"), vec![], Denied(Forbidden, FULL)),
        ("with both", "p, c<p, x<c, y:c", delete("p", "c"), vec![], Denied(Forbidden, BOTH)),
        ("with a subnamespace", "p, c<p, x<c", delete("p", "c"), vec![], Denied(Forbidden, HAS_CHILDREN)),
        ("allowed there", "p, c+<p, x<c", delete("p", "c"), vec![], Allowed),
        ("allowed in the parent", "p+, c<p, x<c", delete("p", "c"), vec![], Allowed),
        ("allowed above", "top+, p:top, c<p, x<c", delete("p", "c"), vec![], Allowed),
        ("allowed below only", "p, c<p, x+<c", delete("p", "c"), vec![], Denied(Forbidden, HAS_CHILDREN)),
        (
            "allowed beside only",
            "p, q+:p, c<p, x<c",
            delete("p", "c"),
            vec![],
            Denied(Forbidden, HAS_CHILDREN),
        ),
        ("it stands for nothing", "p", delete("p", "c"), vec![], Allowed),
        ("for a full namespace", "p, c, x:c", delete("p", "c"), vec![], Allowed),
        ("for another's", "p, q, c<q, x:c", delete("p", "c"), vec![], Allowed),
        ("orphans wait for it", "p, x:c", delete("p", "c"), vec![], Allowed),
        (
            "its parent is excluded",
            "kube-system, c<kube-system, x<c",
            delete("kube-system", "c"),
            vec![],
            Allowed,
        ),
    ]);
}

/// Kubernetes refuses to delete some namespaces, so the anchor would wait forever.
#[test]
fn row_6_an_anchor_stays_while_its_namespace_cannot_be_deleted() {
    let delete_default = || delete("p", "default");
    let stays = || {
        let command = "first: kubectl hns convert default --to full";
        Denied(Forbidden, Vec::leak(vec!["\"default\" would have to be deleted", command]))
    };
    check_all([
        ("its own", "p, default<p", delete_default(), vec![], stays()),
        ("with children", "p, default+<p, x<default", delete_default(), vec![], stays()),
        ("below it", "p+, c<p, b<c, default<b", delete("p", "c"), vec![], stays()),
        ("below it, and nothing may go with it", "p, c<p, default<c", delete("p", "c"), vec![], stays()),
        ("below a full namespace", "p+, c<p, b:c, default<b", delete("p", "c"), vec![], Allowed),
        ("as a full namespace", "p+, c<p, default:c", delete("p", "c"), vec![], Allowed),
        ("beside it", "p, c<p, default<p", delete("p", "c"), vec![], Allowed),
        ("it is in conflict", "p, default", delete_default(), vec![], Allowed),
        ("it is excluded", "p, kube-system<p", delete("p", "kube-system"), vec![], Allowed),
        ("its namespace is being deleted", "p!, default<p", delete_default(), vec![], Allowed),
    ]);
}

/// It would be released when the child is there, and no quota on anchors would count its namespace.
#[test]
fn row_6_an_anchor_stays_while_another_waits_in_its_namespace() {
    type Happens = fn(&mut AnchorFact);
    let refused = Denied(Forbidden, &["\"c\" has children"]);
    let cases: [(&str, Happens, &Expected); 5] = [
        ("it is new", |_| {}, &refused),
        ("it shows that", |it| it.state = Some("Missing".into()), &refused),
        ("it is in conflict", |it| it.state = Some("Conflict".into()), &Allowed),
        ("a user has written that it is forbidden", |it| it.state = Some("Forbidden".into()), &refused),
        ("it is being deleted", |it| it.terminating = true, &Allowed),
    ];
    for (what, happens, expected) in cases {
        let mut cluster = Cluster::draw("p, c<p");
        cluster.change_anchor("c", "x", happens);
        check(what, &judge(&mut cluster.forest(), &delete("p", "c"), &[]), expected);
    }
}

#[test]
fn a_new_anchor_with_the_status_of_an_old_one_creates_nothing() {
    for (state, expected) in [
        ("Conflict", &Warned(&["\"c\" has the status Conflict already", "without `status`"])),
        ("Ok", &Allowed),
        ("Forbidden", &Allowed),
    ] {
        let request = Request { state: (None, Some(state.into())), ..create("p", "c") };
        check(state, &judge(&mut Cluster::draw("p").forest(), &request, &[("live c", No)]), expected);
    }
}

/// The namespaces that wait for the name join the tree of the anchor's namespace.
#[test]
fn an_anchor_for_a_missing_parent_overwrites_nothing_below_it() {
    let asked = [("live c", No), ("admin x", Yes)];
    let verdict = |on_conflict: OnConflict| {
        let mut cluster = Cluster::draw("p, x:c");
        cluster.role("p", "r", "x");
        cluster.role("x", "r", "y");
        let mut settings = settings();
        settings.rbac_on_conflict = on_conflict;
        judge(&mut cluster.forest_with(settings), &create("p", "c"), &asked)
    };
    let overwritten = Denied(Conflict, &["are in the way of objects of the same name", "Namespace \"x\": r"]);
    check("overwrites", &verdict(OnConflict::Overwrite), &overwritten);
    check("keeps", &verdict(OnConflict::Report), &Warned(&["left as they are", "Namespace \"x\": r"]));
}

/// Who creates the missing parent elsewhere moves the orphans there.
#[test]
fn a_missing_parent_comes_back_elsewhere_only_with_the_consent_of_the_tree() {
    for (what, parent, asked, expected) in [
        ("below its place", "team", vec![], Allowed),
        ("deeper", "below", vec![], Allowed),
        (
            "where its labels do not say yet that it is in the tree",
            "late",
            vec![("admin org", No), ("await labels of late", No)],
            Denied(Unavailable, &["the tree labels of namespace \"late\" do not show yet", "\"x\""]),
        ),
        ("higher", "org", vec![("admin org", Yes)], Allowed),
        (
            "higher, without consent",
            "org",
            vec![("admin org", No)],
            Denied(Forbidden, &["\"x\"", "\"org\", which is the nearest common"]),
        ),
        ("elsewhere", "p", vec![("admin org", Yes), ("admin p", Yes)], Allowed),
        (
            "elsewhere, without consent",
            "p",
            vec![("admin org", No), ("admin p", Yes)],
            Denied(Forbidden, &["\"x\"", "\"org\", which is the root"]),
        ),
    ] {
        let mut cluster = Cluster::draw("org, team:org, below:team, late:team, x:c, p");
        cluster.label_place("x", &["c", "team", "org"]);
        cluster.label_place("below", &["team", "org"]);
        let dialogue: Vec<_> = [("live c", No), ("admin x", Yes)].into_iter().chain(asked).collect();
        check(what, &judge(&mut cluster.forest(), &create(parent, "c"), &dialogue), &expected);
    }
}

/// A user may not change an anchor in conflict that does not show it: the controller may not have been able to write to it.
#[test]
fn an_anchor_in_conflict_shows_that_before_it_is_changed() {
    for (state, expected) in [
        (None, Denied(Conflict, &["\"c\" exists already"])),
        (Some("Missing"), Denied(Conflict, &["\"c\" exists already"])),
        (Some("Ok"), Denied(Conflict, &["\"c\" exists already"])),
        (Some("Conflict"), Allowed),
    ] {
        let state = state.map(str::to_owned);
        let request = Request { state: (state.clone(), state.clone()), ..update("p", "c") };
        let verdict = judge(&mut Cluster::draw("p, q, c<q, x:c").forest(), &request, &[]);
        check(&format!("shown as {state:?}"), &verdict, &expected);
    }
}

/// The namespace controller deletes the anchors of a tree in any order.
#[test]
fn row_6_does_not_keep_the_anchor_of_a_namespace_that_is_being_deleted() {
    let mut cluster = Cluster::draw("p, c<p, x<c");
    cluster.terminate("c");
    check("terminating", &judge(&mut cluster.forest(), &delete("p", "c"), &[]), &Allowed);
}

/// A user who may write anchors may write their status.
#[test]
fn row_6_does_not_believe_what_an_anchor_shows() {
    for state in [None, Some("Missing"), Some("Conflict"), Some("Ok")] {
        let mut cluster = Cluster::draw("p, c<p, x:c, q, d, y:d");
        cluster.change_anchor("p", "c", |seen| seen.state = state.map(Box::from));
        cluster.change_anchor("q", "d", |seen| seen.state = state.map(Box::from));
        let mut forest = cluster.forest();
        let verdict = judge(&mut forest, &delete("p", "c"), &[]);
        check(&format!("shown as {state:?}"), &verdict, &Denied(Forbidden, &["\"c\" has children"]));
        check(&format!("shown as {state:?}"), &judge(&mut forest, &delete("q", "d"), &[]), &Allowed);
    }
}

#[test]
fn row_7_nothing_else_is_judged_of_a_change() {
    check_all([
        ("of a subnamespace with children", "p, c<p, x:c", update("p", "c"), vec![], Allowed),
        ("in an unknown parent", "", update("p", "c"), vec![], Allowed),
    ]);
}

/// The keys of an anchor replace what is configured in its subnamespace.
#[test]
fn keys_are_an_admins_of_the_subnamespace_or_of_its_parent() {
    const NO: Expected = Denied(Unauthorized, &["\"c\"", "parent \"p\"", "hierarchyconfigurations"]);
    let asked = |mut request: Request, old: Keys, new: Keys| {
        request.old = (old.0.iter().copied().collect(), old.1.iter().copied().collect());
        (request.labels, request.annotations) = (pairs(new.0), pairs(new.1));
        request
    };
    let refused = || vec![("admin c", No), ("admin p", No)];
    let keys: [(Keys, Keys); 4] = [
        ((&[("tier", "gold")], &[]), (&[("tier", "iron")], &[])),
        ((&[("tier", "gold")], &[]), (&[], &[])),
        ((&[], &[]), (&[("tier", "gold")], &[])),
        ((&[], &[("owner", "joe")]), (&[], &[])),
    ];
    for (old, new) in keys {
        for text in ["p, c<p", "p"] {
            let change = || asked(update("p", "c"), old, new);
            check_all([
                ("the child's admin", text, change(), vec![("admin c", Yes), ("admin p", No)], Allowed),
                (
                    "the parent's admin",
                    text,
                    change(),
                    vec![("admin c", failed()), ("admin p", Yes)],
                    Allowed,
                ),
                ("an editor of the parent", text, change(), refused(), NO),
                (
                    "the answer is unknown",
                    text,
                    change(),
                    vec![("admin c", No), ("admin p", failed())],
                    Denied(Internal, &["\"p\"", "connection refused"]),
                ),
                ("no change", text, asked(update("p", "c"), new, new), vec![], Allowed),
            ]);
        }
        // A lost anchor that is created again.
        let mut cluster = Cluster::draw("p, c<<p");
        cluster.change_hierarchy("c", |seen| {
            (seen.labels, seen.annotations) =
                (old.0.iter().copied().collect(), old.1.iter().copied().collect());
        });
        let mut forest = cluster.forest();
        let mut created = |keys: Keys, answers: &[(&str, Answer)]| {
            judge(&mut forest, &asked(create("p", "c"), (&[], &[]), keys), answers)
        };
        check("other keys", &created(new, &refused()), &NO);
        let warned = match old {
            (&[], &[]) => Allowed,
            (_, &[]) => Warned(&["\"c\"", "removes or changes \"tier\""]),
            _ => Warned(&["\"c\"", "removes or changes \"owner\""]),
        };
        check("an admin's", &created(new, &[("admin c", No), ("admin p", Yes)]), &warned);
        check("the same keys", &created(old, &[]), &Allowed);
    }
    let labelled = asked(create("p", "c"), (&[], &[]), (&[("tier", "gold")], &[]));
    check_all([("a new subnamespace", "p", labelled, vec![("live c", No)], Allowed)]);
}

/// The garbage collector may delete every anchor, and with it a namespace.
#[test]
fn an_owner_reference_is_an_admins_of_the_parent_to_add() {
    let owned = |mut request: Request| {
        request.adds_owner = true;
        request
    };
    let refused = || Denied(Unauthorized, &["\"c\"", "owner reference", "namespace \"p\""]);
    check_all([
        ("by an admin", "p, c<p", owned(update("p", "c")), vec![("admin p", Yes)], Allowed),
        ("by an editor", "p, c<p", owned(update("p", "c")), vec![("admin p", No)], refused()),
        ("on a lost anchor", "p, c<<p", owned(create("p", "c")), vec![("admin p", No)], refused()),
        ("on a new anchor", "p", owned(create("p", "c")), vec![("live c", No), ("admin p", No)], refused()),
    ]);
}

/// Without it, the anchor goes, its subnamespace stays, and no quota on anchors counts that.
#[test]
fn the_finalizer_is_an_admins_of_the_parent_to_remove() {
    let released = || Request { removes_finalizer: true, ..update("p", "c") };
    let refused = Denied(Unauthorized, &["\"c\"", "finalizer", "namespace \"p\""]);
    check_all([
        ("by an admin", "p, c<p", released(), vec![("admin p", Yes)], Allowed),
        ("by an editor", "p, c<p", released(), vec![("admin p", No)], refused),
    ]);
}

/// An editor of the parent would only have to wait until the name is free.
#[test]
fn the_state_conflict_is_the_controllers_to_remove() {
    const STAYS: Expected = Denied(Forbidden, &["\"c\"", "in conflict", "delete the anchor"]);
    let shown = |old: Option<&str>, new: Option<&str>| {
        let mut request = update("p", "c");
        request.state = (old.map(str::to_owned), new.map(str::to_owned));
        request
    };
    let conflict = Some("Conflict");
    check_all([
        ("removed", "p, c", shown(conflict, None), vec![], STAYS),
        ("changed", "p, c", shown(conflict, Some("Ok")), vec![], STAYS),
        ("changed, with the name free", "p", shown(conflict, Some("Missing")), vec![], STAYS),
        ("kept", "p, c", shown(conflict, conflict), vec![], Allowed),
        ("set", "p, c", shown(Some("Ok"), conflict), vec![], Allowed),
        ("another state changed", "p, c<p", shown(Some("Ok"), None), vec![], Allowed),
    ]);
}

#[test]
fn the_initial_admin_is_the_creator_for_ever() {
    let admin = |mut request: Request, old: Option<&str>, new: Option<&str>| {
        request.initial_admin = (old.map(str::to_owned), new.map(str::to_owned));
        request
    };
    check_all([
        ("nobody", "p", admin(create("p", "c"), None, None), vec![("live c", No)], Allowed),
        ("oneself", "p", admin(create("p", "c"), None, Some(USER)), vec![("live c", No)], Allowed),
        ("another", "p", admin(create("p", "c"), None, Some("mallory")), vec![], FIXED),
        ("one's own group", "p", admin(create("p", "c"), None, Some("staff")), vec![], FIXED),
        ("kept", "p, c<p", admin(update("p", "c"), Some("joe"), Some("joe")), vec![], Allowed),
        ("set later", "p, c<p", admin(update("p", "c"), None, Some(USER)), vec![], FIXED),
        ("taken over", "p, c<p", admin(update("p", "c"), Some("joe"), Some(USER)), vec![], FIXED),
        ("removed", "p, c<p", admin(update("p", "c"), Some(USER), None), vec![], FIXED),
        ("gone with the anchor", "p, c<p", admin(delete("p", "c"), Some("joe"), None), vec![], Allowed),
    ]);
}

#[test]
fn a_restorer_brings_anchors_back_in_any_order() {
    for identity in [USER, "staff"] {
        let mut with = settings();
        with.restore_identities = vec![Identity(identity.into())];
        let restored = |text: &str, request: &Request| {
            judge(&mut Cluster::draw(text).forest_with(with.clone()), request, &[])
        };
        let mut request = create("p", "c");
        request.initial_admin.1 = Some("joe".into());
        check("orphans wait for it", &restored("p, x:c", &request), &Allowed);
        check("its namespace is there already", &restored("p, c", &request), &Allowed);
        let mut illegal = create("p", "c");
        illegal.labels = pairs(&[("colour", "red")]);
        check(
            "but not what no user may",
            &restored("p", &illegal),
            &Denied(Invalid, &["spec.labels: Invalid value: \"colour\""]),
        );
        let listed = create("p", "kube-system");
        check("but not what no user may", &restored("p", &listed), &Denied(Forbidden, &["\"kube-system\""]));
        let verdict = restored("p, c<p, x:c", &delete("p", "c"));
        check("nor delete", &verdict, &Denied(Forbidden, &["\"c\" has children"]));
    }
}

#[test]
fn while_the_structure_is_not_known_anchors_are_not_written() {
    for lost in Stream::STRUCTURE {
        let mut forest = Cluster::draw("p, c<p").forest();
        forest.apply(Fact::StreamLost(lost, "forbidden".into()));
        for request in [create("p", "c"), update("p", "c"), delete("p", "c")] {
            let verdict = judge(&mut forest, &request, &[]);
            check(
                &format!("without {lost}"),
                &verdict,
                &Denied(Unavailable, &["forbidden", "try again", "kubectl hns doctor"]),
            );
        }
    }
}

#[test]
fn nothing_is_created_in_a_subnamespace_whose_anchor_is_being_deleted() {
    const ENDS: Expected =
        Denied(Conflict, &["the anchor \"c\" in namespace \"p\" is being deleted", "wait until it is gone"]);
    for (what, text, request, expected) in [
        ("a new anchor", "p, c<p", create("c", "x"), ENDS),
        ("a lost anchor", "p, c<p, x<<c", create("c", "x"), ENDS),
        ("one that is there is changed", "p, c<p, x<c", update("c", "x"), Allowed),
        ("and deleted", "p, c<p, x<c", delete("c", "x"), Allowed),
        ("below one that is no subnamespace", "p, c:p, x<<c", create("c", "x"), Allowed),
    ] {
        let mut cluster = Cluster::draw(text);
        cluster.end_anchor("p", "c");
        check(&format!("{what}, in {text:?}"), &judge(&mut cluster.forest(), &request, &[]), &expected);
    }
    let mut cluster = Cluster::draw("p, c<p");
    cluster.end_anchor("p", "c");
    cluster.change_anchor("p", "c", |anchor| anchor.finalizers = vec!["example.com/hold".into()]);
    let verdict = judge(&mut cluster.forest(), &create("c", "x"), &[("live x", No)]);
    check("once the controller has released it", &verdict, &Allowed);
}
