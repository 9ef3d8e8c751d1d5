//! The rules of section 7.6, each allowed and refused, with the questions that are asked on the way.

mod deletion;
mod external;
mod managed_values;
mod subnamespace;

use super::*;
use crate::cluster::{Cluster, settings};
use crate::hnc::rules::Answer::{No, Terminating, Yes};
use crate::hnc::rules::DenialKind::{
    AlreadyExists, Conflict, Forbidden, Internal, Unauthorized, Unavailable,
};
use crate::hnc::rules::tests::Expected::{self, Allowed, Denied, Warned};
use crate::hnc::rules::tests::{self as dialogue, USER, check, failed};
use crate::hnc::settings::{Identity, Settings};

const A: &str = "a.tree.hnc.x-k8s.io/depth";
const MARKER: &str = keys::HAS_CHILDREN;

/// `"name: key=value, key=value"`; labels are those of our labels, `team` and `tier`, the rest annotations.
fn marks(text: &str) -> Marks<'static> {
    let (mut labels, mut annotations) = (Vec::new(), Vec::new());
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        let is_label = key.contains(".tree.")
            || [keys::INCLUDED, keys::EXCLUDED, MARKER, "team", "tier"].contains(&&*key);
        if is_label { labels.push((key, value)) } else { annotations.push((key, value)) }
    }
    Marks { labels: labels.into_iter().collect(), annotations: annotations.into_iter().collect() }
}

fn request<'a>(operation: Operation, name: &str, user: &str, old: Marks<'a>, new: Marks<'a>) -> Request<'a> {
    let user = User { name: user.into(), groups: vec!["staff".into()] };
    Request { operation, name: name.into(), user, old, new }
}

fn create(name: &str, new: &str) -> Request<'static> {
    request(Operation::Create, name, USER, Marks::default(), marks(new))
}

fn update(name: &str, old: &str, new: &str) -> Request<'static> {
    request(Operation::Update, name, USER, marks(old), marks(new))
}

fn delete(name: &str, old: &str) -> Request<'static> {
    request(Operation::Delete, name, USER, marks(old), Marks::default())
}

fn by(user: &str, request: Request<'static>) -> Request<'static> {
    Request { user: User { name: user.into(), groups: vec![] }, ..request }
}

/// With one that keeps namespaces for "config-sync", a user, and for "fleet", a group; and one that restores.
fn operated() -> Settings {
    let mut settings = settings();
    settings.external_managers =
        vec![("config-sync".into(), Identity("syncer".into())), ("fleet".into(), Identity("staff".into()))];
    settings.restore_identities = vec![Identity("backup".into())];
    settings
}

fn judge(forest: &mut Forest, request: &Request<'_>, answers: &[(&str, Answer)]) -> Verdict {
    dialogue::judge(forest, |forest, answers| review(forest, request, answers), answers, |_| ())
}

type Case<'a> = (&'static str, &'static str, Request<'a>, Vec<(&'static str, Answer)>, Expected);

fn check_all<'a>(cases: impl IntoIterator<Item = Case<'a>>) {
    for (what, text, request, answers, expected) in cases {
        let verdict = judge(&mut Cluster::draw(text).forest_with(operated()), &request, &answers);
        check(&format!("{what}, in {text:?}"), &verdict, &expected);
    }
}

const TREE: Expected = Denied(Forbidden, &[A, "spec.parent"]);
const FIXED: Expected = Denied(Forbidden, &["hnc.x-k8s.io/initial-admin", "cannot be changed"]);

const INCLUDED: &str = "hnc.x-k8s.io/included-namespace=true";
const NOT_INCLUDED: &str = "hnc.x-k8s.io/included-namespace=false";
const EXCLUDED: &str = "hnc.x-k8s.io/excluded-namespace=true";

#[test]
fn rule_a_every_managed_namespace_is_included() {
    const STAYS: Expected = Denied(Forbidden, &["\"x\"", "hnc.x-k8s.io/included-namespace", "\"true\""]);
    const UNMANAGED: Expected = Denied(Forbidden, &["\"kube-system\"", "excludedNamespaces"]);
    check_all([
        ("created with it", "", create("x", INCLUDED), vec![], Allowed),
        ("created without: the controller adds it", "", create("x", "team=red"), vec![], Allowed),
        ("created with a wrong value", "", create("x", NOT_INCLUDED), vec![], STAYS),
        ("added", "x", update("x", "", INCLUDED), vec![], Allowed),
        ("removed", "x", update("x", INCLUDED, ""), vec![], STAYS),
        ("falsified", "x", update("x", INCLUDED, NOT_INCLUDED), vec![], STAYS),
        ("put right", "x", update("x", NOT_INCLUDED, INCLUDED), vec![], Allowed),
        ("wrong as it was", "x", update("x", NOT_INCLUDED, NOT_INCLUDED), vec![], Allowed),
        ("an unmanaged one created without", "", create("kube-system", ""), vec![], Allowed),
        ("an unmanaged one created with it", "", create("kube-system", INCLUDED), vec![], UNMANAGED),
        ("or with another value", "", create("kube-system", NOT_INCLUDED), vec![], UNMANAGED),
        ("an unmanaged one gets it", "", update("kube-system", "", INCLUDED), vec![], UNMANAGED),
        ("and loses it", "", update("kube-system", INCLUDED, ""), vec![], Allowed),
    ]);
}

#[test]
fn the_excluded_label_is_for_listed_namespaces() {
    const LISTED: Expected = Denied(Forbidden, &["hnc.x-k8s.io/excluded-namespace", "excludedNamespaces"]);
    let no = "hnc.x-k8s.io/excluded-namespace=no";
    check_all([
        ("on a listed one", "", update("kube-system", "", EXCLUDED), vec![], Allowed),
        ("created so", "", create("kube-system", EXCLUDED), vec![], Allowed),
        ("the own namespace is always listed", "", create("hnc-system", EXCLUDED), vec![], Allowed),
        ("with another value", "", update("kube-system", "", no), vec![], LISTED),
        ("on another", "x", update("x", "", EXCLUDED), vec![], LISTED),
        ("created on another", "", create("x", EXCLUDED), vec![], LISTED),
        ("left where it is", "x", update("x", EXCLUDED, EXCLUDED), vec![], Allowed),
        ("removed", "x", update("x", EXCLUDED, ""), vec![], Allowed),
    ]);
    let settings = Settings::new("hnc-system", [""; 0], "team-.*").unwrap();
    let mut forest = Cluster::draw("other").forest_with(settings);
    let verdict = judge(&mut forest, &update("other", "", EXCLUDED), &[]);
    check("not included is not listed", &verdict, &LISTED);
}

/// Row b of HNC never fires; what it was meant to keep apart is in [`external`].
#[test]
fn rule_c_no_user_writes_tree_labels_and_the_marker() {
    let label = |value: &str| format!("{A}={value}");
    let [zero, one] = ["0", "1"].map(label);
    let both = format!("{A}=1, team=red");
    let longer = "a.tree.hnc.x-k8s.io/depths=0";
    check_all([
        ("created without", "", create("x", "team=red"), vec![], Allowed),
        ("created with one", "", create("x", &zero), vec![], TREE),
        ("created with its own", "", create("a", &zero), vec![], Allowed),
        ("created with its own, of another depth", "", create("a", &one), vec![], TREE),
        ("its own added later", "a", update("a", "", &zero), vec![], TREE),
        (
            "an unmanaged namespace created with its own",
            "",
            create("kube-system", "kube-system.tree.hnc.x-k8s.io/depth=0"),
            vec![],
            Denied(Forbidden, &["kube-system.tree", "spec.parent"]),
        ),
        ("kept", "x", update("x", &one, &both), vec![], Allowed),
        ("changed", "x", update("x", &one, &zero), vec![], TREE),
        ("removed", "x", update("x", &one, ""), vec![], TREE),
        ("added", "x", update("x", "team=red", &both), vec![], TREE),
        ("in a longer key", "x", update("x", "", longer), vec![], TREE),
        ("on an unmanaged namespace", "", update("kube-system", "", &one), vec![], TREE),
        ("removed from one", "", update("kube-system", &one, ""), vec![], TREE),
        ("a foreign key", "x", update("x", "team=red", "team=blue"), vec![], Allowed),
    ]);
    let [marked, unmarked, wrong] = [format!("{MARKER}=true"), String::new(), format!("{MARKER}=false")];
    for (old, new) in [(&unmarked, &marked), (&marked, &unmarked), (&marked, &wrong)] {
        let verdict = judge(&mut Cluster::draw("x").forest(), &update("x", old, new), &[]);
        check(&format!("{old:?} to {new:?}"), &verdict, &Denied(Forbidden, &[MARKER, "by hand"]));
    }
    let verdict = judge(&mut Cluster::draw("").forest(), &create("x", &marked), &[]);
    check("created marked", &verdict, &Denied(Forbidden, &[MARKER]));
    check("kept", &judge(&mut Cluster::draw("x").forest(), &update("x", &marked, &marked), &[]), &Allowed);
}

/// Only the creator becomes the initial admin.
#[test]
fn the_initial_admin_is_the_creator_for_ever() {
    let [jane, joe] = [USER, "joe"].map(|user| format!("{}={user}", keys::INITIAL_ADMIN));
    check_all([
        (
            "oneself",
            "p",
            create("x", &format!("{jane}, {}=p", keys::SUBNAMESPACE_OF)),
            vec![("admin p", Yes)],
            Allowed,
        ),
        (
            "of a root",
            "",
            create("x", &jane),
            vec![],
            Denied(Forbidden, &["for subnamespaces", keys::SUBNAMESPACE_OF]),
        ),
        ("another", "", create("x", &joe), vec![], FIXED),
        ("one's own group", "", create("x", "hnc.x-k8s.io/initial-admin=staff"), vec![], FIXED),
        ("set later", "x", update("x", "", &jane), vec![], FIXED),
        ("removed", "x", update("x", &jane, ""), vec![], FIXED),
        ("taken over", "x", update("x", &joe, &jane), vec![], FIXED),
        ("kept", "x", update("x", &joe, &format!("{joe}, team=red")), vec![], Allowed),
    ]);
}

/// Creating a missing parent needs the consent of the namespaces that name it.
#[test]
fn a_missing_parents_name_needs_the_consent_of_its_orphans() {
    check_all([
        ("no namespace waits", "other", create("x", ""), vec![], Allowed),
        ("all agree", "b:x, c<<x", create("x", ""), vec![("admin b", Yes), ("admin c", Yes)], Allowed),
        (
            "one does not",
            "b:x, c:x",
            create("x", ""),
            vec![("admin b", No), ("admin c", Yes)],
            Denied(Forbidden, &["\"x\" is the missing parent", "admin of: \"b\""]),
        ),
        (
            "it cannot be found out",
            "b:x",
            create("x", ""),
            vec![("admin b", failed())],
            Denied(Internal, &["\"b\"", "connection refused"]),
        ),
        ("it exists, and has no children", "x", create("x", ""), vec![], Allowed),
        ("it exists", "x, b:x", create("x", ""), vec![], Denied(AlreadyExists, &["\"x\" already exists"])),
        (
            "it is being deleted, and may be gone when the new one is stored",
            "x!, b:x",
            create("x", ""),
            vec![("admin b", No)],
            Denied(Forbidden, &["\"x\" is the missing parent", "\"b\""]),
        ),
        ("the waiting namespace is gone", "(b):x", create("x", ""), vec![], Allowed),
        ("a change takes no new name", "x, b:x", update("x", "", "team=red"), vec![], Allowed),
    ]);
}

/// As a root, or as the subnamespace of another tree, it takes its orphans out of their tree.
#[test]
fn a_missing_parents_name_needs_the_consent_of_the_tree_that_its_orphans_belong_to() {
    let verdict = |request: &Request<'_>, dialogue: &[(&str, Answer)]| {
        let mut cluster = Cluster::draw("org, team:org, b:x");
        cluster.label_place("b", &["x", "team", "org"]);
        judge(&mut cluster.forest(), request, dialogue)
    };
    let refused = Denied(Forbidden, &["\"b\"", "namespace \"org\", which is the root"]);
    let root = create("x", "");
    check("without", &verdict(&root, &[("admin b", Yes), ("admin org", No)]), &refused);
    check("with", &verdict(&root, &[("admin b", Yes), ("admin org", Yes)]), &Allowed);
}

#[test]
fn a_restorer_creates_what_was_and_changes_nothing() {
    let exported =
        format!("{A}=1, {MARKER}=true, {INCLUDED}, {}=a, {}=joe", keys::SUBNAMESPACE_OF, keys::INITIAL_ADMIN);
    let restore = |request| by("backup", request);
    check_all([
        ("as it was", "", restore(create("x", &exported)), vec![], Allowed),
        ("before its children", "b:x, c<<x", restore(create("x", &exported)), vec![], Allowed),
        ("as another user", "", create("x", &exported), vec![], Denied(Forbidden, &[])),
        (
            "a tree label later",
            "x",
            restore(update("x", "", &format!("{A}=1"))),
            vec![],
            Denied(Forbidden, &[A]),
        ),
        (
            "a deletion",
            "x, b<x",
            restore(delete("x", "")),
            vec![],
            Denied(Forbidden, &["\"x\" has subnamespaces"]),
        ),
    ]);
    let mut by_group = settings();
    by_group.restore_identities = vec![Identity("staff".into())];
    let mut forest = Cluster::draw("").forest_with(by_group);
    check("by a group", &judge(&mut forest, &create("x", &exported), &[]), &Allowed);
}
