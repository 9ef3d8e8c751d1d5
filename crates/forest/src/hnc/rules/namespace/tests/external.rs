//! Row d, and other tests of namespaces that another tool manages.

use super::*;

const SYNCED: &str = "hnc.x-k8s.io/managed-by=config-sync";
const FLEET: &str = "hnc.x-k8s.io/managed-by=fleet";
const OWN: &str = "hnc.x-k8s.io/managed-by=hnc.x-k8s.io";
const EMPTY: &str = "hnc.x-k8s.io/managed-by=";
const DEPTH: &str = ".tree.hnc.x-k8s.io/depth";

fn synced(request: Request<'static>) -> Request<'static> {
    by("syncer", request)
}

#[test]
fn a_manager_is_set_by_whom_the_operator_has_named() {
    const NOT_A_MANAGER: Expected = Denied(Forbidden, &["\"x\"", "\"config-sync\"", "externalManagers"]);
    check_all([
        ("by the named user", "x", synced(update("x", "", SYNCED)), vec![], Allowed),
        ("created by the named user", "", synced(create("x", SYNCED)), vec![], Allowed),
        ("by a member of the named group", "x", update("x", "", FLEET), vec![], Allowed),
        ("by any user", "x", update("x", "", SYNCED), vec![], NOT_A_MANAGER),
        ("created by any user", "", create("x", SYNCED), vec![], NOT_A_MANAGER),
        (
            "another tool's name",
            "x",
            synced(update("x", "", "hnc.x-k8s.io/managed-by=other")),
            vec![],
            Denied(Forbidden, &["\"other\"", "\"syncer\""]),
        ),
        ("from another tool", "x", synced(update("x", FLEET, SYNCED)), vec![], NOT_A_MANAGER),
        ("any user may write an unknown manager", "x", update("x", "", OWN), vec![], Allowed),
        ("nor is the empty one", "x", update("x", OWN, EMPTY), vec![], Allowed),
        ("kept by any user", "x", update("x", SYNCED, &format!("{SYNCED}, team=red")), vec![], Allowed),
    ]);
}

#[test]
fn a_manager_is_removed_by_itself_or_an_admin() {
    const NOT: Expected = Denied(Forbidden, &["\"jane\"", "hnc.x-k8s.io/managed-by", "\"x\""]);
    check_all([
        ("by itself", "x", synced(update("x", SYNCED, "")), vec![], Allowed),
        ("by an admin", "x", update("x", SYNCED, ""), vec![("admin x", Yes)], Allowed),
        ("by any user", "x", update("x", SYNCED, ""), vec![("admin x", No)], NOT),
        ("to ours, by any user", "x", update("x", SYNCED, OWN), vec![("admin x", No)], NOT),
        (
            "it cannot be found out",
            "x",
            update("x", SYNCED, ""),
            vec![("admin x", failed())],
            Denied(Internal, &["\"x\"", "connection refused"]),
        ),
    ]);
}

#[test]
fn rule_d_a_child_is_not_given_away() {
    check_all([
        ("a root", "x, b:x", synced(update("x", "", SYNCED)), vec![], Allowed),
        (
            "a child",
            "p, x:p",
            synced(update("x", "", SYNCED)),
            vec![],
            Denied(Forbidden, &["\"x\" is a child of \"p\"", "\"config-sync\""]),
        ),
        (
            "a subnamespace",
            "p, x<p",
            synced(update(
                "x",
                "hnc.x-k8s.io/subnamespace-of=p",
                &format!("{SYNCED}, hnc.x-k8s.io/subnamespace-of=p"),
            )),
            vec![],
            Denied(Forbidden, &["\"x\" is a child of \"p\""]),
        ),
        (
            "an orphan",
            "x:gone",
            synced(update("x", "", SYNCED)),
            vec![],
            Denied(Forbidden, &["\"x\" is a child of \"gone\""]),
        ),
        ("given back", "p, x:p", update("x", "", OWN), vec![], Allowed),
    ]);
}

#[test]
fn tree_labels_of_an_external_namespace_are_its_managers() {
    let with = |labels: &str| format!("{SYNCED}, {labels}");
    let label = |name: &str| with(&format!("{name}{DEPTH}=1"));
    check_all([
        ("by the manager", "x", synced(update("x", SYNCED, &label("far"))), vec![], Allowed),
        ("created so", "", synced(create("x", &label("far"))), vec![], Allowed),
        (
            "changed",
            "x",
            synced(update("x", &label("far"), &with(&format!("far{DEPTH}=2")))),
            vec![],
            Allowed,
        ),
        ("removed", "x", synced(update("x", &label("far"), SYNCED)), vec![], Allowed),
        ("its own", "x", synced(update("x", SYNCED, &label("x"))), vec![], Allowed),
        (
            "by another",
            "x",
            update("x", SYNCED, &label("far")),
            vec![],
            Denied(Forbidden, &["far.tree.hnc.x-k8s.io/depth"]),
        ),
        (
            "by another's manager",
            "x",
            update("x", SYNCED, &with("far.tree.hnc.x-k8s.io/depth=1")),
            vec![],
            Denied(Forbidden, &["far.tree.hnc.x-k8s.io/depth"]),
        ),
        (
            "without a manager",
            "x",
            synced(update("x", "", "far.tree.hnc.x-k8s.io/depth=1")),
            vec![],
            Denied(Forbidden, &["far.tree.hnc.x-k8s.io/depth"]),
        ),
        (
            "one that is here",
            "x, here",
            synced(update("x", SYNCED, &label("here"))),
            vec![],
            Denied(Conflict, &["\"here\"", "external namespace"]),
        ),
        (
            "removed together with the manager",
            "x",
            synced(update("x", &label("far"), "")),
            vec![],
            Denied(Forbidden, &["far.tree.hnc.x-k8s.io/depth"]),
        ),
    ]);
}
