//! The rows of section 7.3 of docs/compatibility.md, each allowed and refused, with the questions that are asked on the way.

mod authority;
mod conflict;
mod deletion;
mod overriding;

use super::{Request, Spec, review};
use crate::cluster::{Cluster, bindings, role_key, roles};
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::dialects::{Fact, Forest};
use crate::hnc::rules::Answer::{self, No, Terminating, Yes};
use crate::hnc::rules::DenialKind::{
    AlreadyExists, Conflict, Forbidden, Internal, Invalid, Unauthorized, Unavailable,
};
use crate::hnc::rules::tests as dialogue;
use crate::hnc::rules::tests::Expected::{self, Allowed, Denied, Warned};
use crate::hnc::rules::tests::{USER, check, failed, jane};
use crate::hnc::rules::{Answers, Operation, Question, Verdict};

fn request(operation: Operation, namespace: &str, old: Option<&str>, new: Option<&str>) -> Request {
    let spec = |parent: Option<&str>| Spec { parent: parent.map(Name::from), ..Spec::default() };
    Request {
        operation,
        namespace: namespace.into(),
        user: jane(),
        old: spec(old),
        new: spec(new),
        terminating: false,
    }
}

fn create(namespace: &str, new: &str) -> Request {
    request(Operation::Create, namespace, None, Some(new))
}

/// `"old > new"`, either of which may be empty.
fn update(namespace: &str, parents: &str) -> Request {
    let (old, new) = parents.split_once('>').unwrap();
    let [old, new] = [old, new].map(|text| Some(text.trim()).filter(|text| !text.is_empty()));
    request(Operation::Update, namespace, old, new)
}

fn delete(namespace: &str, old: &str) -> Request {
    request(Operation::Delete, namespace, Some(old).filter(|old| !old.is_empty()), None)
}

/// See [`dialogue::judge`]. Without an answer in the dialogue, the user is admin of the namespace itself, and it is not being deleted.
fn judge(
    forest: &mut Forest,
    request: &Request,
    dialogue: &[(&str, Answer)],
    learn: impl FnMut(&mut Forest),
) -> Verdict {
    let name = &request.namespace;
    let may_be_given =
        [("admin", Question::IsAdmin(name.clone())), ("live", Question::Namespace(name.clone()))];
    let is_given = |what: &str| {
        what == "live" && request.operation == Operation::Delete
            || dialogue.iter().any(|(text, _)| *text == format!("{what} {name}"))
    };
    let judged = |forest: &Forest, answers: &Answers| {
        let given = may_be_given.iter().filter(|(what, _)| !is_given(what));
        let given = given.map(|(_, question)| (question.clone(), Yes));
        review(forest, request, &answers.clone().into_iter().chain(given).collect())
    };
    dialogue::judge(forest, judged, dialogue, learn)
}

const EXTERNAL: Expected = Denied(Forbidden, &["\"x\" is managed by \"another-tool\""]);

type Answered<'a> = (&'a str, Answer);

type Case = (&'static str, &'static str, Request, Vec<(&'static str, Answer)>, Expected);

fn check_all(cases: impl IntoIterator<Item = Case>) {
    for (what, text, request, dialogue, expected) in cases {
        let verdict = judge(&mut Cluster::draw(text).forest(), &request, &dialogue, |_| ());
        check(&format!("{what}, in {text:?}"), &verdict, &expected);
    }
}

#[test]
fn rows_1_and_2_unmanaged_namespaces_have_no_part_in_it() {
    check_all([
        ("managed", "child, p", create("child", "p"), vec![("admin p", Yes)], Allowed),
        (
            "an unmanaged child",
            "kube-system, p",
            create("kube-system", "p"),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "excludedNamespaces", "cannot be a child"]),
        ),
        (
            "the own namespace",
            "hnc-system, p",
            create("hnc-system", "p"),
            vec![],
            Denied(Forbidden, &["\"hnc-system\"", "cannot be a child"]),
        ),
        (
            "an unmanaged child without a parent",
            "kube-system",
            update("kube-system", ">"),
            vec![],
            Denied(
                Forbidden,
                &["\"kube-system\"", "its HierarchyConfiguration cannot be changed; include it"],
            ),
        ),
        (
            "an unmanaged child that becomes a root",
            "kube-system:p, p",
            update("kube-system", "p >"),
            vec![],
            Denied(
                Forbidden,
                &["\"kube-system\"", "its HierarchyConfiguration cannot be changed; include it"],
            ),
        ),
        (
            "the own namespace without a parent",
            "hnc-system",
            update("hnc-system", ">"),
            vec![],
            Denied(Forbidden, &["because hns runs in it, so its HierarchyConfiguration cannot be changed"]),
        ),
        (
            "an unmanaged parent",
            "child, kube-system",
            create("child", "kube-system"),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "excludedNamespaces", "cannot be the parent"]),
        ),
        (
            "an unmanaged parent that is there already",
            "child:kube-system",
            update("child", "kube-system > kube-system"),
            vec![],
            Denied(Forbidden, &["\"kube-system\""]),
        ),
    ]);
}

#[test]
fn row_3_labels_and_annotations_have_to_be_managed() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut request = update("child", ">");
    check("without", &judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ()), &Allowed);
    request.new.labels = vec![pair("tier", "gold"), pair("zone", "")];
    request.new.annotations = vec![pair("owner", "anything at all")];
    check("managed", &judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ()), &Allowed);
    request.new.labels =
        vec![pair("tier", "silver"), pair("zone", ""), pair("tier", "gold"), pair("zone", "")];
    let repeated = judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ());
    check(
        "one key twice",
        &repeated,
        &Warned(&["spec.labels has the key \"tier\" more than once; only the value \"gold\" counts"]),
    );
    request.new.labels = vec![pair("team", "red"), pair("tier", "gold"), pair("a/b", "")];
    request.new.labels.push(pair("accurate.cybozu.com/x", ""));
    request.new.annotations = vec![pair("owner", "x"), pair("note", ""), pair("x.hnc.x-k8s.io/y", "")];
    let verdict = judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ());
    check(
        "with",
        &verdict,
        &Denied(
            Invalid,
            &[
                "spec.labels: Invalid value: \"team\": not one of the managed labels",
                "\"a/b\"",
                "spec.labels: Invalid value: \"accurate.cybozu.com/x\": keys that contain hnc.x-k8s.io or accurate.cybozu.com are never managed",
                "spec.annotations: Invalid value: \"note\": not one of the managed annotations",
                "spec.annotations: Invalid value: \"x.hnc.x-k8s.io/y\": keys that contain",
            ],
        ),
    );
    let mut kept = request.clone();
    kept.old.labels = vec![pair("team", "blue"), pair("a/b", ""), pair("accurate.cybozu.com/x", "")];
    kept.old.annotations.clone_from(&request.new.annotations);
    let changed = judge(&mut Cluster::draw("child").forest(), &kept, &[], |_| ());
    check("another value", &changed, &Denied(Invalid, &["spec.labels: Invalid value: \"team\""]));
    kept.old.labels.push(pair("team", "red"));
    check("as before", &judge(&mut Cluster::draw("child").forest(), &kept, &[], |_| ()), &Allowed);
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    let fields: Vec<&str> = denial.causes.iter().map(|cause| &*cause.field).collect();
    assert_eq!(fields, ["spec.labels", "spec.labels", "spec.labels", "spec.annotations", "spec.annotations"]);
}

#[test]
fn the_anchor_of_a_subnamespace_decides_its_labels_and_annotations() {
    const REVERTED: Expected = Warned(&["the anchor \"x\" in namespace \"p\" decides", "change them there"]);
    let with = |old: &str, new: &str, note: &str| {
        let pairs = |key: &str, value: &str| Vec::from_iter(value_of(key, value));
        let mut request = update("x", "p > p");
        request.old.labels = pairs("tier", old);
        request.new.labels = pairs("tier", new);
        request.new.annotations = pairs("owner", note);
        request
    };
    let mut cluster = Cluster::draw("p, x<p");
    cluster.change_anchor("p", "x", |it| it.labels = [("tier", "gold")].into_iter().collect());
    for (what, request, expected) in [
        ("another value", with("gold", "tin", ""), REVERTED),
        ("none", with("gold", "", ""), REVERTED),
        ("an annotation", with("gold", "gold", "jane"), REVERTED),
        ("that of the anchor", with("tin", "gold", ""), Allowed),
        ("wrong as it was", with("tin", "tin", ""), Allowed),
    ] {
        check(what, &judge(&mut cluster.forest(), &request, &[], |_| ()), &expected);
    }
    for text in ["p, x<<p", "p, x:p"] {
        let verdict = judge(&mut Cluster::draw(text).forest(), &with("gold", "tin", ""), &[], |_| ());
        check(text, &verdict, &Allowed);
    }
}

/// A pair, unless the value is empty.
fn value_of(key: &str, value: &str) -> Option<(String, String)> {
    (!value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
}

#[test]
fn row_4_a_namespace_that_the_forest_does_not_know_is_looked_up() {
    check_all([
        ("known", "child, p", create("child", "p"), vec![("admin p", Yes)], Allowed),
        (
            "absent",
            "p",
            create("child", "p"),
            vec![("live child", No)],
            Denied(Unavailable, &["\"child\"", "try again"]),
        ),
        (
            "too new",
            "p",
            create("child", "p"),
            vec![("live child", Yes), ("await child", No)],
            Denied(Unavailable, &["\"child\"", "try again"]),
        ),
        (
            "known to be going, and not to the forest",
            "p",
            create("child", "p"),
            vec![("live child", Terminating), ("await child", No)],
            Denied(Unavailable, &["\"child\""]),
        ),
        (
            "cannot be read",
            "p",
            create("child", "p"),
            vec![("live child", failed())],
            Denied(Internal, &["\"child\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("p");
    let mut forest = cluster.forest();
    let dialogue = [("live child", Yes), ("await child", Yes), ("admin p", Yes)];
    let verdict =
        judge(&mut forest, &create("child", "p"), &dialogue, |it| drop(it.apply(cluster.namespace("child"))));
    check("it arrives in time", &verdict, &Allowed);
}

#[test]
fn the_present_parent_is_the_requests() {
    check_all([
        ("they agree", "old, new, child:old", update("child", "old > old"), vec![], Allowed),
        (
            "the forest lags behind",
            "old, new, child:old",
            update("child", "new > old"),
            vec![("await child below new", No)],
            Denied(Unavailable, &["\"child\"", "try again"]),
        ),
        (
            "a second object is created",
            "old, new, child:old",
            create("child", "new"),
            vec![("await child below nothing", No)],
            Denied(AlreadyExists, &["already exists"]),
        ),
        (
            "an old request to keep things as they are",
            "old, child:old",
            update("child", ">"),
            vec![("await child below nothing", No)],
            Denied(Unavailable, &["\"child\""]),
        ),
    ]);
    let mut cluster = Cluster::draw("old, new, child:old");
    let mut forest = cluster.forest();
    let dialogue = [("await child below new", Yes), ("admin new", Yes)];
    let verdict = judge(&mut forest, &update("child", "new >"), &dialogue, |it| {
        it.apply(cluster.set_parent("child", Some("new")));
    });
    check("the forest catches up, and the new state is judged", &verdict, &Allowed);
}

#[test]
fn row_5_nothing_moves_below_a_halted_namespace() {
    check_all([
        ("nothing is halted", "top, mid:top, child:mid", update("child", "mid > mid"), vec![], Allowed),
        (
            "below a missing parent",
            "mid:gone, child:mid, p",
            update("child", "mid > p"),
            vec![("live gone", No)],
            Denied(Forbidden, &["\"mid\"", "\"gone\"", "repair"]),
        ),
        (
            "far below, and no other parent is asked for",
            "mid:gone, low:mid, child:low",
            update("child", "low > low"),
            vec![("live gone", No)],
            Denied(Forbidden, &["\"mid\""]),
        ),
        (
            "the missing parent is there, and the forest does not see it in time",
            "mid:gone, child:mid",
            update("child", "mid > mid"),
            vec![("live gone", Yes), ("await gone", No)],
            Denied(Unavailable, &["\"gone\""]),
        ),
        (
            "the missing parent cannot be read",
            "mid:gone, child:mid",
            update("child", "mid > mid"),
            vec![("live gone", failed())],
            Denied(Internal, &["\"gone\""]),
        ),
        (
            "below a cycle",
            "a:b, b:a, child:b, p",
            update("child", "b > p"),
            vec![],
            Denied(Forbidden, &["\"b\"", "a <- b <- a"]),
        ),
        (
            "below an unmanaged namespace's child",
            "mid:kube-system, child:mid, p",
            update("child", "mid > p"),
            vec![],
            Denied(Forbidden, &["\"mid\"", "\"kube-system\""]),
        ),
        (
            "below what cannot be understood",
            "top, mid?:top, child:mid, p",
            update("child", "mid > p"),
            vec![],
            Denied(Forbidden, &["\"mid\"", "spec.parent is a number"]),
        ),
        (
            "below one that cannot be repaired",
            "mid?!, low:mid, child:low, p",
            update("child", "low > p"),
            vec![],
            Denied(
                Forbidden,
                &["the ancestor \"mid\" is halted and is being deleted", "until \"mid\" is gone"],
            ),
        ),
        (
            "a halted namespace may be repaired",
            "child?:p, p",
            update("child", "p >"),
            vec![("admin p", Yes)],
            Allowed,
        ),
        ("and edited", "child:gone", update("child", "gone > gone"), vec![], Allowed),
        (
            "below a halted parent nothing happens yet",
            "a, mid?:a, low:mid, child",
            create("child", "low"),
            vec![("admin low", Yes), ("admin child", Yes)],
            Warned(&[
                "the parent \"low\" is halted",
                "and its parent cannot be changed, until \"mid\" is repaired",
            ]),
        ),
    ]);
    let mut cluster = Cluster::draw("mid:gone, child:mid, p");
    let mut forest = cluster.forest();
    let dialogue = [("live gone", Yes), ("await gone", Yes), ("admin gone", Yes), ("admin p", Yes)];
    let verdict = judge(&mut forest, &update("child", "mid > p"), &dialogue, |it| {
        it.apply(cluster.namespace("gone"));
    });
    check("the missing parent arrives in time", &verdict, &Allowed);
}

#[test]
fn row_6_an_external_namespace_has_no_parent_here() {
    let external = |text: &str| {
        let mut cluster = Cluster::draw(text);
        cluster.annotate("x", &[("hnc.x-k8s.io/managed-by", "another-tool")]);
        cluster.forest()
    };
    let cases: [(&str, &str, Request, &[Answered<'_>], Expected); 6] = [
        ("one is given", "x, p", create("x", "p"), &[], EXTERNAL),
        ("none is given", "x, p", update("x", ">"), &[], Allowed),
        ("one was given before", "x:p, p", update("x", "p > p"), &[], EXTERNAL),
        ("another", "x:p, p, q", update("x", "p > q"), &[], EXTERNAL),
        ("it is taken back", "x:p, p", update("x", "p >"), &[("admin p", Yes)], Allowed),
        (
            "and not without consent",
            "x:p, p",
            update("x", "p >"),
            &[("admin p", No)],
            Denied(Unauthorized, &["\"p\""]),
        ),
    ];
    for (what, text, request, answers, expected) in cases {
        check(what, &judge(&mut external(text), &request, answers, |_| ()), &expected);
    }
    for not_one in ["hnc.x-k8s.io", ""] {
        let mut cluster = Cluster::draw("x, p");
        cluster.annotate("x", &[("hnc.x-k8s.io/managed-by", not_one)]);
        let verdict = judge(&mut cluster.forest(), &create("x", "p"), &[("admin p", Yes)], |_| ());
        check("managed by ourselves", &verdict, &Allowed);
    }
}

#[test]
fn row_8_the_parent_of_a_subnamespace_is_its_annotations_affair() {
    const FOLLOWS: Expected = Denied(
        Conflict,
        &["illegal parent", "\"x\" is a subnamespace of \"p\"", "hnc.x-k8s.io/subnamespace-of"],
    );
    check_all([
        ("it stays", "p, x<p", update("x", "p > p"), vec![], Allowed),
        ("it is written down", "p, x<p", create("x", "p"), vec![], Allowed),
        ("something else is", "p, x<p", request(Operation::Create, "x", None, None), vec![], Allowed),
        ("it is put right", "p, q, x<p", update("x", "q > p"), vec![], Allowed),
        ("it is wrong as it was", "p, q, x<p", update("x", "q > q"), vec![], Allowed),
        ("another", "p, q, x<p", update("x", "p > q"), vec![], FOLLOWS),
        ("none", "p, x<p", update("x", "p >"), vec![], FOLLOWS),
        ("created with another", "p, q, x<p", create("x", "q"), vec![], FOLLOWS),
        ("without its anchor", "p, q, x<<p", update("x", "p > q"), vec![], FOLLOWS),
        ("deleted", "p, x<p", delete("x", "p"), vec![("live x", Yes)], FOLLOWS),
        (
            "deleted with the namespace",
            "p, x!<p",
            delete("x", "p"),
            vec![("await x below p", No), ("live x", Terminating)],
            Allowed,
        ),
        (
            "a full namespace",
            "p, q, x:p",
            update("x", "p > q"),
            vec![("admin p", Yes), ("admin q", Yes)],
            Allowed,
        ),
    ]);
}

#[test]
fn a_restorer_brings_hierarchies_back_in_any_order() {
    for identity in [USER, "staff"] {
        let mut with = crate::cluster::settings();
        with.restore_identities = vec![crate::hnc::settings::Identity(identity.into())];
        let restored = |text: &str, request: &Request| {
            judge(&mut Cluster::draw(text).forest_with(with.clone()), request, &[], |_| ())
        };
        check("its parent is not there yet", &restored("x", &create("x", "p")), &Allowed);
        check("nor is it known itself", &restored("", &create("x", "p")), &Allowed);
        check("its anchor says otherwise", &restored("p, q, x<q", &create("x", "p")), &Allowed);
        check("its parent is halted", &restored("p:gone, x", &create("x", "p")), &Allowed);
        let verdict = restored("x", &create("x", "kube-system"));
        check("but not what no user may", &verdict, &Denied(Forbidden, &["\"kube-system\""]));
        let mut forest = Cluster::draw("x, p").forest_with(with.clone());
        let verdict = judge(&mut forest, &update("x", "> p"), &[("admin p", No)], |_| ());
        check("nor change", &verdict, &Denied(Unauthorized, &["\"p\""]));
    }
    let dialogue = [("live p", No), ("create p", No), ("hierarchy p", No)];
    let verdict = judge(&mut Cluster::draw("x").forest(), &create("x", "p"), &dialogue, |_| ());
    check("no identity is one by default", &verdict, &Denied(Forbidden, &["\"p\" does not exist"]));
}

#[test]
fn row_7_an_unchanged_parent_needs_no_consent() {
    check_all([
        ("none", "child", update("child", ">"), vec![], Allowed),
        ("created with none", "child", request(Operation::Create, "child", None, None), vec![], Allowed),
        ("the same", "p, child:p", update("child", "p > p"), vec![], Allowed),
        ("missing", "child:gone", update("child", "gone > gone"), vec![], Allowed),
        ("in a cycle", "a:b, b:a", update("a", "b > b"), vec![], Allowed),
        (
            "another",
            "p, q, child:p",
            update("child", "p > q"),
            vec![("admin p", Yes), ("admin q", Yes)],
            Allowed,
        ),
    ]);
}

/// The anchor will create the parent below its own namespace.
#[test]
fn an_anchor_that_waits_for_the_name_of_a_parent_makes_no_cycle() {
    const CYCLE: Expected =
        Denied(Conflict, &["illegal parent \"p\"", "an anchor in ", "would make a cycle"]);
    let named = || vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes)];
    check_all([
        ("in the namespace itself", "child, (p)<child", create("child", "p"), named(), CYCLE),
        ("below it", "child, low:child, (p)<low", create("child", "p"), named(), CYCLE),
    ]);
}

/// The anchor would create the parent, and rights of its namespace would come down.
#[test]
fn an_anchor_that_waits_for_the_name_of_a_parent_needs_the_consent_of_its_admin() {
    let missing = |admin| vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin h", admin)];
    check_all([
        (
            "an anchor of another namespace",
            "child, h, (p)<h",
            create("child", "p"),
            missing(No),
            Denied(Forbidden, &["\"p\" does not exist", "an anchor in \"h\"", "only an admin of \"h\""]),
        ),
        (
            "an admin of its namespace",
            "child, h, (p)<h",
            create("child", "p"),
            missing(Yes),
            Warned(&["\"p\" does not exist yet"]),
        ),
        (
            "it cannot be found out",
            "child, h, (p)<h",
            create("child", "p"),
            missing(failed()),
            Denied(Internal, &["\"h\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("child, p, h");
    cluster.anchor("h", "p");
    let yes = [("admin p", Yes), ("admin h", No)];
    let verdict = judge(&mut cluster.forest(), &create("child", "p"), &yes, |_| ());
    check("its conflict is not shown", &verdict, &Denied(Unavailable, &["\"h\"", "does not show yet"]));
    cluster.change_anchor("h", "p", |anchor| anchor.state = Some("Conflict".into()));
    let verdict = judge(&mut cluster.forest(), &create("child", "p"), &yes[..1], |_| ());
    check("its conflict is shown", &verdict, &Allowed);
}

/// A user can keep one for ever, with a finalizer.
#[test]
fn an_anchor_that_is_being_deleted_waits_for_no_name_once_the_controller_has_released_it() {
    let mut cluster = Cluster::draw("child, h, p");
    cluster.change_anchor("h", "p", |anchor| {
        anchor.finalizers = vec!["x.y/z".into(), "hnc.x-k8s.io".into()];
        anchor.state = Some("Ok".into());
    });
    cluster.delete_anchor("h", "p");
    let to_p = create("child", "p");
    let verdict = judge(&mut cluster.forest(), &to_p, &[("admin p", Yes), ("admin h", No)], |_| ());
    check("its namespace may just be created", &verdict, &Denied(Unavailable, &["does not show yet"]));
    cluster.change_anchor("h", "p", |anchor| anchor.finalizers = vec!["x.y/z".into()]);
    let verdict = judge(&mut cluster.forest(), &to_p, &[("admin p", Yes)], |_| ());
    check("it creates nothing any more", &verdict, &Allowed);
    cluster.set_parent("h", Some("child"));
    let verdict = judge(&mut cluster.forest(), &to_p, &[("admin p", Yes)], |_| ());
    check("so there is no cycle through it", &verdict, &Allowed);
}

#[test]
fn row_9_a_parent_that_is_being_deleted_is_warned_of() {
    let warned = Warned(&["\"p\" is being deleted", "\"child\" is halted"]);
    check_all([("it still exists", "child, p!", create("child", "p"), vec![("admin p", Yes)], warned)]);
}

#[test]
fn row_9_a_new_parent_has_to_exist() {
    check_all([
        ("it does", "child, p", create("child", "p"), vec![("admin p", Yes)], Allowed),
        (
            "no namespace can have the name",
            "child",
            create("child", "P_x"),
            vec![("live P_x", No)],
            Denied(Forbidden, &["\"P_x\" does not exist, and no namespace can have that name"]),
        ),
        (
            "others point at it, but it does not",
            "child, other:p",
            create("child", "p"),
            vec![("live p", No), ("create p", No), ("hierarchy p", No)],
            Denied(Forbidden, &["\"p\""]),
        ),
        (
            "the user could create the namespace alone",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", No)],
            Denied(Forbidden, &["\"p\"", "does not exist"]),
        ),
        (
            "or its HierarchyConfiguration alone",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", No), ("hierarchy p", Yes)],
            Denied(Forbidden, &["\"p\"", "does not exist"]),
        ),
        (
            "the user could create both: a whole tree is applied in any order",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes)],
            Warned(&["\"p\" does not exist yet", "\"child\" is halted"]),
        ),
        (
            "the same from another tree takes that tree's consent",
            "top, c:top, child:c",
            update("child", "c > p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin top", Yes)],
            Warned(&["\"p\" does not exist yet", "keeps its copies", "keeps the tree labels"]),
        ),
        (
            "and not without",
            "top, c:top, child:c",
            update("child", "c > p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin top", No)],
            Denied(Unauthorized, &["\"top\"", "the root"]),
        ),
        (
            "from one missing parent to another",
            "child:gone",
            update("child", "gone > p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("live gone", No)],
            Warned(&["\"p\" does not exist yet"]),
        ),
        (
            "a missing parent that is a descendant",
            "child, low:p, (p):child",
            create("child", "p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes)],
            Warned(&["\"p\" does not exist yet"]),
        ),
        (
            "the rights cannot be found out",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", failed()), ("hierarchy p", Yes)],
            Denied(Internal, &["\"p\"", "connection refused"]),
        ),
        (
            "too new",
            "child",
            create("child", "p"),
            vec![("live p", Yes), ("await p", No)],
            Denied(Unavailable, &["\"p\""]),
        ),
        (
            "cannot be read",
            "child",
            create("child", "p"),
            vec![("live p", failed())],
            Denied(Internal, &["\"p\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("child");
    let mut forest = cluster.forest();
    let dialogue = [("live p", Yes), ("await p", Yes), ("admin p", Yes)];
    let verdict = judge(&mut forest, &create("child", "p"), &dialogue, |it| {
        it.apply(cluster.namespace("p"));
    });
    check("it arrives in time", &verdict, &Allowed);
}

#[test]
fn row_10_no_cycles() {
    check_all([
        ("a cousin", "a, b:a, c:a", update("c", "a > b"), vec![("admin a", Yes)], Allowed),
        (
            "itself",
            "a",
            create("a", "a"),
            vec![],
            Denied(Conflict, &["illegal parent \"a\"", "its own parent"]),
        ),
        (
            "a child",
            "a, b:a",
            update("a", "> b"),
            vec![],
            Denied(Conflict, &["illegal parent \"b\"", "b -> a"]),
        ),
        (
            "a grandchild",
            "a, b:a, c:b",
            update("a", "> c"),
            vec![],
            Denied(Conflict, &["illegal parent \"c\"", "c -> b -> a"]),
        ),
        (
            "another way round a cycle",
            "a:b, b:c, c:a",
            update("a", "b > c"),
            vec![],
            Denied(Conflict, &["illegal parent \"c\"", "c -> a"]),
        ),
    ]);
}

#[test]
fn a_namespace_that_is_being_deleted_does_not_move() {
    let refused = || Denied(Conflict, &["namespace \"c\" is being deleted", "another parent"]);
    let live = |answer| [("admin p", Yes), ("live c", answer)];
    for (text, dialogue, expected) in [
        ("p, q, c!:p", &[("admin p", Yes)][..], refused()),
        ("p, q, c:p, x:c", &live(Terminating), refused()),
        ("p, q, c:p, x:c", &live(Yes), Allowed),
        ("p, q, c:p, x:c", &live(failed()), Denied(Internal, &["c"])),
        ("p, q, c:p", &[("admin p", Yes)], Allowed),
    ] {
        let mut forest = Cluster::draw(text).forest();
        check(text, &judge(&mut forest, &update("c", "p > "), dialogue, |_| ()), &expected);
        let kept = judge(&mut forest, &update("c", "p > p"), &[], |_| ());
        check("it keeps its parent", &kept, &Allowed);
    }
}

/// The deletion of an object without a parent is not judged. With a parent, its end would take the namespace out of the tree.
#[test]
fn an_object_that_is_being_deleted_gets_no_parent() {
    const REFUSED: Expected = Denied(Conflict, &["\"x\" is being deleted", "cannot get a parent"]);
    let going = |request| Request { terminating: true, ..request };
    check_all([
        ("it gets one", "x, p", going(update("x", " > p")), vec![], REFUSED),
        ("it gets another one", "x:p, p, q", going(update("x", "p > q")), vec![], REFUSED),
        ("it keeps its own", "x:p, p", going(update("x", "p > p")), vec![], Allowed),
        ("it loses it", "x:p, p", going(update("x", "p > ")), vec![("admin p", Yes)], Allowed),
    ]);
}

#[test]
fn cascading_deletion_is_not_withdrawn_while_an_anchor_is_deleted() {
    for (text, namespace, expected) in [
        ("top, p+:top, c+<p, x<c", "c", Denied(Conflict, &["\"c\"", "the anchor of \"c\" is being deleted"])),
        ("top, p+:top, c+<p, x<c", "p", Denied(Conflict, &["\"p\"", "the anchor of \"c\" is being deleted"])),
        ("top, p+:top, c+<p", "c", Allowed),
    ] {
        let mut cluster = Cluster::draw(text);
        let mut request = update(namespace, "top > top");
        (request.old.allow_cascading_deletion, request.new.allow_cascading_deletion) = (true, false);
        check("nothing is deleted", &judge(&mut cluster.forest(), &request, &[], |_| ()), &Allowed);
        cluster.delete_anchor("p", "c");
        cluster.change_anchor("p", "c", |anchor| anchor.terminating = true);
        check(text, &judge(&mut cluster.forest(), &request, &[], |_| ()), &expected);
    }
}

#[test]
fn nothing_joins_a_subnamespace_whose_anchor_is_being_deleted() {
    const ENDS: Expected =
        Denied(Conflict, &["the anchor \"c\" in namespace \"p\" is being deleted", "wait until it is gone"]);
    let join = || update("x", "> c");
    let admin = || vec![("admin c", Yes)];
    let both = || vec![("admin c", Yes), ("admin p", Yes)];
    for (what, text, request, dialogue, expected) in [
        ("a new child", "p, c<p, x", create("x", "c"), admin(), ENDS),
        ("one more, by an admin of all", "p, c+<p, y<c, x", join(), admin(), ENDS),
        ("from elsewhere in the tree", "p, c<p, x:p", update("x", "p > c"), vec![("admin p", Yes)], ENDS),
        (
            "without authority",
            "p, c<p, x",
            join(),
            vec![("admin c", No)],
            Denied(Unauthorized, &["\"c\", which is the new parent"]),
        ),
        ("a child stays", "p, c<p, x:c", update("x", "c > c"), vec![], Allowed),
        ("a child leaves", "p, c<p, x:c", update("x", "c >"), vec![("admin p", Yes)], Allowed),
        ("below the anchor's namespace", "p, c<p, x", update("x", "> p"), vec![("admin p", Yes)], Allowed),
        ("below one that is no subnamespace", "p, c:p, x", join(), both(), Allowed),
        ("below another's subnamespace", "p, q, c<q, x", join(), both(), Allowed),
        (
            "below one that is being deleted itself",
            "p, c!<p, x",
            join(),
            admin(),
            Warned(&["\"c\" is being deleted"]),
        ),
    ] {
        let mut cluster = Cluster::draw(text);
        cluster.end_anchor("p", "c");
        check(
            &format!("{what}, in {text:?}"),
            &judge(&mut cluster.forest(), &request, &dialogue, |_| ()),
            &expected,
        );
    }
    let mut cluster = Cluster::draw("p, c<p, x");
    check("while the anchor stays", &judge(&mut cluster.forest(), &join(), &admin(), |_| ()), &Allowed);
    cluster.end_anchor("p", "c");
    cluster.change_anchor("p", "c", |anchor| anchor.finalizers = vec!["example.com/hold".into()]);
    let verdict = judge(&mut cluster.forest(), &join(), &admin(), |_| ());
    check("once the controller has released it", &verdict, &Allowed);
}
