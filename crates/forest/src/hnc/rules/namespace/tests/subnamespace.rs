//! `subnamespace-of` sets the parent: the rows of section 7.3 about parents, by the annotation.

use super::*;
use crate::cluster::role_key;

fn of(parent: &str) -> String {
    format!("hnc.x-k8s.io/subnamespace-of={parent}")
}

#[test]
fn setting_it_is_a_change_of_parent() {
    check_all([
        (
            "row 12: joining",
            "x, p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin p", Yes)],
            Allowed,
        ),
        (
            "not without the namespace's own admin",
            "x, p",
            update("x", "", &of("p")),
            vec![("admin x", No), ("admin p", Yes)],
            Denied(Unauthorized, &[USER, "\"x\"", "the namespace that would become a subnamespace"]),
        ),
        (
            "and not without consent",
            "x, p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin p", No)],
            Denied(Unauthorized, &[USER, "\"x\"", "\"p\"", "the new parent"]),
        ),
        (
            "the consent cannot be found out",
            "x, p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin p", failed())],
            Denied(Internal, &["\"p\"", "connection refused"]),
        ),
        (
            "row 12: out of a tree, which is the forest's word",
            "top, c:top, x:c, p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin top", Yes), ("admin p", Yes)],
            Allowed,
        ),
        (
            "and not without that tree's consent",
            "top, c:top, x:c, p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin top", No), ("admin p", Yes)],
            Denied(Unauthorized, &["\"top\"", "the root of the tree"]),
        ),
        (
            "to the parent that it has",
            "p, x:p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin p", Yes)],
            Allowed,
        ),
        (
            "and not without its own admin's consent",
            "p, x:p",
            update("x", "", &of("p")),
            vec![("admin x", No), ("admin p", Yes)],
            Denied(Unauthorized, &["\"x\""]),
        ),
        (
            "and not without its consent",
            "p, x:p",
            update("x", "", &of("p")),
            vec![("admin x", Yes), ("admin p", No)],
            Denied(Unauthorized, &["\"p\""]),
        ),
        ("empty is none", "x", update("x", "", &of("")), vec![], Allowed),
        ("it stays", "p, x<p", update("x", &of("p"), &format!("{}, team=red", of("p"))), vec![], Allowed),
    ]);
}

#[test]
fn changing_it_is_a_change_of_parent_and_row_8_does_not_apply() {
    check_all([
        (
            "within a tree",
            "top, p<top, q<top, x<p",
            update("x", &of("p"), &of("q")),
            vec![("admin x", Yes), ("admin top", Yes)],
            Allowed,
        ),
        (
            "and not without consent",
            "top, p<top, q<top, x<p",
            update("x", &of("p"), &of("q")),
            vec![("admin x", Yes), ("admin top", No)],
            Denied(Unauthorized, &["\"top\"", "the nearest common ancestor"]),
        ),
        (
            "to another tree",
            "p, q, x<p",
            update("x", &of("p"), &of("q")),
            vec![("admin x", Yes), ("admin p", Yes), ("admin q", Yes)],
            Allowed,
        ),
        (
            "the forest lags behind",
            "p, q, x<q",
            update("x", &of("p"), &of("q")),
            vec![("await x below p", No)],
            Denied(Unavailable, &["\"x\"", "try again"]),
        ),
        (
            "out of the name of a parent that is gone",
            "x<<gone, q",
            update("x", &of("gone"), &of("q")),
            vec![("live gone", No), ("admin x", Yes), ("admin q", Yes)],
            Allowed,
        ),
    ]);
}

#[test]
fn the_rows_before_consent_apply_too() {
    check_all([
        (
            "row 1",
            "kube-system, p",
            update("kube-system", "", &of("p")),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "cannot be a child"]),
        ),
        (
            "row 2",
            "x, kube-system",
            update("x", "", &of("kube-system")),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "cannot be the parent"]),
        ),
        (
            "row 4",
            "p",
            update("x", "", &of("p")),
            vec![("live x", Yes), ("await x", No)],
            Denied(Unavailable, &["\"x\"", "try again"]),
        ),
        (
            "row 5",
            "mid:mid, x:mid, p",
            update("x", "", &of("p")),
            vec![],
            Denied(Forbidden, &["\"mid\"", "halted"]),
        ),
        (
            "row 9",
            "x",
            update("x", "", &of("p")),
            vec![("live p", No), ("create p", No), ("hierarchy p", No)],
            Denied(Forbidden, &["\"p\" does not exist"]),
        ),
        (
            "row 9, by a user who may create the parent",
            "x",
            update("x", "", &of("p")),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin x", Yes)],
            Warned(&["\"p\" does not exist yet", "\"x\" is halted"]),
        ),
        (
            "row 10, itself",
            "x",
            update("x", "", &of("x")),
            vec![],
            Denied(Conflict, &["illegal parent \"x\""]),
        ),
        (
            "row 10, a child",
            "x, b<x",
            update("x", "", &of("b")),
            vec![],
            Denied(Conflict, &["illegal parent \"b\"", "b -> x"]),
        ),
    ]);
    // Row 6: one that another tool keeps.
    let mut cluster = Cluster::draw("x, p");
    cluster.annotate("x", &[(keys::EXTERNALLY_MANAGED_BY, "config-sync")]);
    let external = "hnc.x-k8s.io/managed-by=config-sync";
    let verdict =
        judge(&mut cluster.forest(), &update("x", external, &format!("{external}, {}", of("p"))), &[]);
    check("row 6", &verdict, &Denied(Forbidden, &["\"x\" is managed by \"config-sync\""]));
    // Row 11: an object that would be overwritten, told to a user who may join.
    let mut cluster = Cluster::draw("x, p");
    cluster.role("p", "r", "x");
    cluster.role("x", "r", "x");
    let request = update("x", "", &of("p"));
    let verdict = judge(&mut cluster.forest(), &request, &[("admin x", Yes), ("admin p", Yes)]);
    check("row 11", &verdict, &Denied(Conflict, &["Namespace \"x\": r ("]));
    cluster.remove_object("x", &role_key("r"));
    check("row 11", &judge(&mut cluster.forest(), &request, &[("admin x", Yes), ("admin p", Yes)]), &Allowed);
}

#[test]
fn a_namespace_created_with_it_joins_as_any_other() {
    check_all([
        ("with consent", "p", create("x", &of("p")), vec![("admin p", Yes)], Allowed),
        (
            "without",
            "p",
            create("x", &of("p")),
            vec![("admin p", No)],
            Denied(Unauthorized, &[USER, "\"x\"", "\"p\"", "the new parent"]),
        ),
        (
            "row 1",
            "p",
            create("kube-system", &of("p")),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "cannot be a child"]),
        ),
        (
            "row 2",
            "kube-system",
            create("x", &of("kube-system")),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "cannot be the parent"]),
        ),
        (
            "row 9",
            "",
            create("x", &of("p")),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", No)],
            Denied(Forbidden, &["\"p\" does not exist"]),
        ),
        (
            "row 9, by a user who may create the parent",
            "",
            create("x", &of("p")),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes)],
            Warned(&["\"p\" does not exist yet", "\"x\" is halted"]),
        ),
        (
            "row 10",
            "p<<x",
            create("x", &of("p")),
            vec![("admin p", Yes)],
            Denied(Conflict, &["illegal parent \"p\"", "p -> x"]),
        ),
        (
            "and its orphans are asked as well",
            "b:x, p",
            create("x", &of("p")),
            vec![("admin b", Yes), ("admin p", Yes)],
            Allowed,
        ),
        (
            "first",
            "b:x, p",
            create("x", &of("p")),
            vec![("admin b", No)],
            Denied(Forbidden, &["\"x\" is the missing parent", "\"b\""]),
        ),
    ]);
}

#[test]
fn removing_it_keeps_the_parent_and_needs_the_parents_consent() {
    check_all([
        (
            "without",
            "top, p:top, x<p",
            update("x", &of("p"), ""),
            vec![("admin p", No)],
            Denied(Unauthorized, &[USER, "hnc.x-k8s.io/subnamespace-of", "\"x\"", "\"p\""]),
        ),
        (
            "emptied",
            "p, x<p",
            update("x", &of("p"), &of("")),
            vec![("admin p", No)],
            Denied(Unauthorized, &["\"p\""]),
        ),
        (
            "it cannot be found out",
            "p, x<p",
            update("x", &of("p"), ""),
            vec![("admin p", failed())],
            Denied(Internal, &["\"p\"", "connection refused"]),
        ),
        (
            "the namespace is going",
            "p, x!<p",
            update("x", &of("p"), ""),
            vec![("admin p", Terminating)],
            Denied(Unauthorized, &["\"p\""]),
        ),
    ]);
}

/// Without the annotation the `HierarchyConfiguration` is the parent. A namespace must not leave its tree in this way.
#[test]
fn it_is_removed_where_the_hierarchy_says_the_same() {
    let mut cluster = Cluster::draw("top, p:top, q:top, x<p");
    let released = update("x", &of("p"), "");
    let judged = |cluster: &Cluster| judge(&mut cluster.forest(), &released, &[("admin p", Yes)]);
    let unsettled = Denied(Unavailable, &["\"x\" does not name its parent \"p\" yet"]);
    check("there is none yet", &judged(&cluster), &unsettled);
    cluster.set_parent("x", Some("q"));
    check("it names another parent", &judged(&cluster), &unsettled);
    cluster.set_parent("x", Some("p"));
    check("it names the parent", &judged(&cluster), &Allowed);
    cluster.change_hierarchy("x", |seen| seen.terminating = true);
    let going = Denied(Conflict, &["\"x\" is being deleted", "would lose its parent \"p\""]);
    check("it is being deleted", &judged(&cluster), &going);
}

#[test]
fn nothing_becomes_a_subnamespace_of_one_whose_anchor_is_being_deleted() {
    const ENDS: Expected = Denied(Conflict, &["the anchor \"c\" in namespace \"p\" is being deleted"]);
    let both = || vec![("admin x", Yes), ("admin c", Yes)];
    for (what, text, request, answers, expected) in [
        ("an existing namespace", "p, c<p, x", update("x", "", &of("c")), both(), ENDS),
        ("a new one", "p, c<p", create("x", &of("c")), vec![("admin c", Yes)], ENDS),
        ("a child", "p, c<p, x:c", update("x", "", &of("c")), both(), Allowed),
        (
            "one that is there is labelled",
            "p, c<p, x<c",
            update("x", &of("c"), &format!("{}, team=red", of("c"))),
            vec![],
            Allowed,
        ),
    ] {
        let mut cluster = Cluster::draw(text);
        cluster.end_anchor("p", "c");
        check(&format!("{what}, in {text:?}"), &judge(&mut cluster.forest(), &request, &answers), &expected);
    }
}
