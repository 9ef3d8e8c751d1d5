//! The rows of section 7.3 of HNC's contract, each allowed and refused, with the questions that are asked on the way.

mod authority;
mod conflict;
mod deletion;

use super::{Request, Spec, review};
use crate::cluster::{Cluster, bindings, role_key, roles};
use crate::rules::Answer::{self, Failed, No, Terminating, Yes};
use crate::rules::DenialKind::{self, Conflict, Forbidden, Internal, Invalid, Unauthorized, Unavailable};
use crate::rules::{Answers, Awaited, Denial, Operation, Question, Verdict};
use crate::{Fact, Forest, Name, Stream};

const USER: &str = "jane";

fn request(operation: Operation, namespace: &str, old: Option<&str>, new: Option<&str>) -> Request {
    let spec = |parent: Option<&str>| Spec { parent: parent.map(Name::from), ..Spec::default() };
    Request { operation, namespace: namespace.into(), user: USER.into(), old: spec(old), new: spec(new) }
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

/// A question in words.
fn words(question: &Question) -> String {
    match question {
        Question::IsAdmin(name) => format!("admin {name}"),
        Question::Namespace(name) => format!("live {name}"),
        Question::Await(Awaited::Namespace(name)) => format!("await {name}"),
        Question::Await(Awaited::NoNamespace(name)) => format!("await no {name}"),
        Question::Await(Awaited::Parent(name, parent)) => {
            format!("await {name} below {}", parent.as_deref().unwrap_or("nothing"))
        }
    }
}

/// Asks the rule until it decides. It has to ask exactly what `dialogue` answers, in this order, and nothing twice.
/// Where an answer is that the forest came to know something, `learn` lets it.
fn judge(
    forest: &mut Forest,
    request: &Request,
    dialogue: &[(&str, Answer)],
    mut learn: impl FnMut(&mut Forest),
) -> Verdict {
    let mut answers = Answers::new();
    let mut expected = dialogue.iter();
    loop {
        let questions = match review(forest, request, &answers) {
            Verdict::Ask(questions) => questions,
            verdict => {
                assert_eq!(expected.next(), None, "not asked before {verdict:?}");
                return verdict;
            }
        };
        assert!(!questions.is_empty(), "a question is missing");
        for question in questions {
            let asked = words(&question);
            let (text, answer) =
                expected.next().unwrap_or_else(|| panic!("{asked:?} is asked beyond {dialogue:?}"));
            assert_eq!(asked, *text, "of {dialogue:?}");
            if matches!(question, Question::Await(_)) && *answer == Yes {
                learn(forest);
            }
            let earlier = answers.insert(question, answer.clone());
            assert_eq!(earlier, None, "{asked:?} is asked twice");
        }
    }
}

#[derive(Debug)]
enum Expected {
    Allowed,
    /// With what the message must name.
    Denied(DenialKind, &'static [&'static str]),
}
use Expected::{Allowed, Denied};

fn check(what: &str, verdict: &Verdict, expected: &Expected) {
    match (verdict, expected) {
        (Verdict::Allow { warnings }, Allowed) => assert!(warnings.is_empty(), "{what}: {warnings:?}"),
        (Verdict::Deny(Denial { kind, message, causes }), Denied(wanted, names)) => {
            assert_eq!(kind, wanted, "{what}: {message}");
            assert_eq!(causes.is_empty(), *kind != Invalid, "{what}: {causes:?}");
            for name in *names {
                assert!(message.contains(name), "{what}: {name:?} is not in {message:?}");
            }
        }
        _ => panic!("{what}: {verdict:?}, not {expected:?}"),
    }
}

type Case = (&'static str, &'static str, Request, Vec<(&'static str, Answer)>, Expected);

fn check_all(cases: impl IntoIterator<Item = Case>) {
    for (what, text, request, dialogue, expected) in cases {
        let verdict = judge(&mut Cluster::draw(text).forest(), &request, &dialogue, |_| ());
        check(&format!("{what}, in {text:?}"), &verdict, &expected);
    }
}

fn failed() -> Answer {
    Failed("connection refused".into())
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
            Denied(Forbidden, &["\"kube-system\"", "--excluded-namespace", "cannot be a child"]),
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
            Denied(Forbidden, &["\"kube-system\""]),
        ),
        (
            "an unmanaged parent",
            "child, kube-system",
            create("child", "kube-system"),
            vec![],
            Denied(Forbidden, &["\"kube-system\"", "--excluded-namespace", "cannot be the parent"]),
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
    let mut request = update("child", ">");
    check("without", &judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ()), &Allowed);
    request.new.labels = vec!["team".into(), "a/b".into()];
    request.new.annotations = vec!["note".into()];
    let verdict = judge(&mut Cluster::draw("child").forest(), &request, &[], |_| ());
    check("with", &verdict, &Denied(Invalid, &["spec.labels[team]", "\"a/b\"", "spec.annotations[note]"]));
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    let fields: Vec<&str> = denial.causes.iter().map(|cause| &*cause.field).collect();
    assert_eq!(fields, ["spec.labels[team]", "spec.labels[a/b]", "spec.annotations[note]"]);
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
            "the forest has a parent where there is none",
            "old, new, child:old",
            create("child", "new"),
            vec![("await child below nothing", No)],
            Denied(Unavailable, &["\"child\""]),
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
            "a halted namespace may be repaired",
            "child?:p, p",
            update("child", "p >"),
            vec![("admin p", Yes)],
            Allowed,
        ),
        ("and edited", "child:gone", update("child", "gone > gone"), vec![], Allowed),
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
fn row_7_an_unchanged_parent_needs_nobodys_consent() {
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

#[test]
fn row_9_a_new_parent_has_to_exist() {
    check_all([
        ("it does", "child, p", create("child", "p"), vec![("admin p", Yes)], Allowed),
        (
            "it does not",
            "child",
            create("child", "p"),
            vec![("live p", No)],
            Denied(Forbidden, &["\"p\"", "does not exist"]),
        ),
        (
            "others point at it, but it does not",
            "child, other:p",
            create("child", "p"),
            vec![("live p", No)],
            Denied(Forbidden, &["\"p\""]),
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
