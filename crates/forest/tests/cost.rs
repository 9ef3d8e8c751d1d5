//! What users write costs no more than its length: a text of eight times as many parts takes about eight times as long.
//!
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[path = "support/cluster.rs"]
#[allow(dead_code, reason = "the tests share it, and this uses a part")]
mod cluster;
#[cfg(test)] // Which it is anyhow; Clippy has to be told.
#[path = "support/cost.rs"]
mod cost;

use cost::{check, compare, cost, linear, repeated};
use std::borrow::Cow;
use std::collections::BTreeMap;

use forest::configuration::{Entry, Served, ServedKind, resolve};
use forest::exceptions::{Exceptions, MOST};
use forest::hnc::quota::ledger::{Decision, Increase, Ledger};
use forest::keys::{ALL, NONE, SELECT, TREE_SELECT};
use forest::plan::plan;
use forest::rules::object::{Request, State};
use forest::rules::{Answer, Answers, Fields, Operation, Pairs, Question, User, Verdict, hierarchy, object};
use forest::{Fact, Forest, Kind, Labels, Mode, Name, Patterns, Quantity, Scope, Settings};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn annotated<'a>(key: &'a str, value: &'a str) -> impl Fn(&str) -> Option<&'a str> {
    move |asked| (asked == key).then_some(value)
}

fn part() -> impl Strategy<Value = String> {
    let word =
        prop_oneof![4 => Just("a#"), 1 => Just("a"), 1 => Just("in"), 1 => Just("x.y/a#"), 1 => Just("é")];
    let sign = prop::sample::select(vec![
        ",", ",", "=", "==", "!=", "!", ">", "<", "(", ")", " ", " in (", " notin (", "\t",
    ]);
    prop::collection::vec(prop_oneof![word, sign], 1..7).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn annotations_that_say_where_an_object_goes(
        key in prop::sample::select(vec![SELECT, SELECT, TREE_SELECT, NONE, ALL]),
        (head, part) in (part(), part()),
    ) {
        check(
            &format!("{key}: {head:?} and then {part:?}"),
            |parts| head.replace('#', "0") + &repeated(&part, parts),
            |text| drop(Exceptions::parse(annotated(key, text))),
        )
        .map_err(TestCaseError::fail)?;
    }
}

#[test]
fn annotations_of_every_well_formed_kind() {
    for (key, part) in [
        (SELECT, "a#=,"),
        (SELECT, "a=,"),
        (SELECT, "a#!=b,"),
        (SELECT, "!a#,"),
        (SELECT, "a#>1,"),
        (SELECT, "a in (b),"),
        (SELECT, "a in (b#,"),
        (TREE_SELECT, "!a#,"),
        (TREE_SELECT, "a#,"),
    ] {
        let text = |parts| repeated(part, parts);
        linear(part, text, |text| drop(Exceptions::parse(annotated(key, text))));
    }
    let list = |parts| format!("a in (b{})", repeated(",b#", parts));
    linear("a list", list, |text| drop(Exceptions::parse(annotated(SELECT, text))));
}

/// What a source asks of each namespace below does not grow with its annotation, and the refusal says how much may be asked.
#[test]
fn an_annotation_asks_for_no_more_than_the_limit() {
    let cases =
        [(SELECT, "a#", "requirements"), (SELECT, "a=#", "requirements"), (TREE_SELECT, "!a#", "namespaces")];
    for (key, part, what) in cases {
        let of = |count: usize| repeated(&format!(",{part}"), count)[1..].to_owned();
        let (most, more) = (of(MOST), of(MOST + 1));
        let exceptions = Exceptions::parse(annotated(key, &most)).unwrap();
        let asked = std::cell::Cell::new(0);
        let look = |_: &str| {
            asked.set(asked.get() + 1);
            None
        };
        let _ = exceptions.admit(Mode::Propagate, &look);
        assert!(asked.get() <= MOST, "{key}: {} labels are looked up", asked.get());
        let refusal = Exceptions::parse(annotated(key, &more)).unwrap_err().to_string();
        assert!(refusal.contains(&format!("{MOST} {what}")), "{refusal}");
        let long = Exceptions::parse(annotated(key, &of(20_000))).unwrap_err().to_string();
        assert!(long.len() < 1_000, "{} bytes: {long}", long.len());
    }
    let list = |count| format!("a in (b{})", repeated(",b#", count));
    assert!(Exceptions::parse(annotated(SELECT, &list(MOST - 1))).is_ok());
    let refusal = Exceptions::parse(annotated(SELECT, &list(MOST))).unwrap_err().to_string();
    assert!(refusal.contains(&format!("{MOST} values")), "{refusal}");
}

#[test]
fn labels_in_any_order() {
    for is_reversed in [false, true] {
        let pairs = |parts: usize| -> Vec<(String, String)> {
            let mut pairs: Vec<_> =
                (0..parts).map(|at| (format!("key-{at:06}"), "value".to_owned())).collect();
            if is_reversed {
                pairs.reverse();
            }
            pairs
        };
        linear("labels", pairs, |pairs| drop(pairs.iter().map(|(key, it)| (key, it)).collect::<Labels>()));
        linear("pairs", pairs, |pairs| {
            let pairs: Pairs<'_> = pairs.iter().map(|(key, it)| (key.as_str(), it.as_str())).collect();
            assert_eq!(pairs.get("nothing"), None);
        });
    }
}

#[test]
fn patterns() {
    for part in ["a#*", "*#", "?#", "[a-z]#", "{a,b}#", "a**", "**/"] {
        let texts = |parts: usize| -> Vec<String> {
            (0..parts).map(|at| part.replace('#', &format!("{at:06}"))).collect()
        };
        linear(part, texts, |texts| drop(Patterns::new(texts)));
        linear(part, |parts| repeated(part, parts), |text| drop(Patterns::new([text])));
    }
    // As deep as they may be, and deeper.
    for depth in [250, 100_000] {
        let nested = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        let _ = Patterns::new([nested]);
    }
}

fn served() -> Served {
    let kind = |at: usize| ServedKind {
        kind: Kind {
            group: "example.com".into(),
            version: "v1".into(),
            kind: format!("Kind{at}"),
            resource: format!("kinds{at}"),
        },
        singular: String::new(),
        short_names: vec![],
        namespaced: true,
        verbs: ["list", "watch", "create", "update", "delete"].map(str::to_owned).into(),
    };
    Served { kinds: (0..50).map(kind).collect(), ..Served::default() }
}

#[test]
fn entries_of_the_configuration() {
    let served = served();
    for resource in ["kinds1", "no-such-#", "", "roles"] {
        let entries = |parts: usize| -> Vec<Result<Entry, String>> {
            let entry = |at: usize| {
                let resource = resource.replace('#', &at.to_string());
                Ok(Entry { resource, excluded_names: vec!["a-*".into()], ..Entry::default() })
            };
            (0..parts).map(entry).collect()
        };
        linear(resource, entries, |entries| drop(resolve(entries, &served)));
    }
}

fn user() -> User {
    User { name: "jane".into(), groups: vec!["team".into()] }
}

#[test]
fn managed_labels_and_annotations() {
    for refuses in [false, true] {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let mut settings = settings.managing(&["team-.*|x"], &["note-.*"]).unwrap();
        settings.refuse_label_conflicts = refuses;
        let forest = cluster::Cluster::draw("top, child:top").forest_with(settings);
        for key in ["team-#", "x", "other-#", "no key at all #"] {
            let request = |parts: usize| {
                let pairs = |key: &str| -> Vec<(String, String)> {
                    (0..parts).map(|at| (key.replace('#', &at.to_string()), "v".into())).collect()
                };
                let annotations = pairs(&key.replace("team", "note"));
                let new = hierarchy::Spec {
                    parent: None,
                    labels: pairs(key),
                    annotations,
                    ..hierarchy::Spec::default()
                };
                hierarchy::Request {
                    operation: Operation::Update,
                    namespace: "top".into(),
                    user: user(),
                    old: hierarchy::Spec::default(),
                    new,
                    terminating: false,
                }
            };
            linear(key, request, |request| drop(hierarchy::review(&forest, request, &Answers::new())));
        }
    }
}

/// The creation of a Role with a `select`, above all others.
fn selecting(select: &str) -> Request<'_> {
    Request {
        operation: Operation::Create,
        user: user(),
        namespace: "n0".into(),
        group: "rbac.authorization.k8s.io".into(),
        kind: "Role".into(),
        name: "role".into(),
        old: None,
        new: Some(State {
            labels: Pairs::default(),
            annotations: [(SELECT, select)].into_iter().collect(),
            finalizers: vec![],
            owner_references: vec![],
            terminating: false,
            body: fields("{}"),
        }),
    }
}

/// The managed values of the namespaces above a destination are collected once, not once for each requirement.
#[test]
fn requirements_about_managed_labels() {
    const LEVELS: usize = 25;
    let levels = (1..LEVELS).map(|level| format!(", n{level}:n{}", level - 1));
    let mut cluster = cluster::Cluster::draw(&format!("n0{}", levels.collect::<String>()));
    for level in 0..LEVELS {
        cluster.change_hierarchy(&format!("n{level}"), |seen| {
            seen.labels = (0..64).map(|at| (format!("team-{level}-{at}"), "x".to_owned())).collect();
        });
    }
    let leaf = format!("n{}", LEVELS - 1);
    cluster.role(&leaf, "role", "x");
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let forest = cluster.forest_with(settings.managing(&["team-.*"], &[]).unwrap());
    let of = |requirements: usize| {
        let select = repeated(",!team-#", requirements)[1..].to_owned();
        cost(&mut || drop(object::review(&forest, &selecting(&select), &Answers::new())))
    };
    let (few, many) = (of(2), of(MOST));
    assert!(many < few.mul_f64(10.0), "{few:?} for 2 requirements, {many:?} for {MOST}");
}

/// The tree labels of a destination are found once, too.
#[test]
fn requirements_about_tree_labels() {
    const LEVELS: usize = 3_000;
    let levels = (1..LEVELS).map(|level| format!(", n{level}:n{}", level - 1));
    let mut cluster = cluster::Cluster::draw(&format!("n0{}", levels.collect::<String>()));
    cluster.role(&format!("n{}", LEVELS - 1), "role", "x");
    let forest = cluster.forest();
    let of = |requirements: usize| {
        let select = repeated(",!#.tree.hnc.x-k8s.io/depth", requirements)[1..].to_owned();
        cost(&mut || drop(object::review(&forest, &selecting(&select), &Answers::new())))
    };
    let (few, many) = (of(2), of(200));
    assert!(many < few.mul_f64(2.5), "{few:?} for 2 requirements, {many:?} for 200");
}

/// The selectors of all objects above a new parent, for all objects of the same names below: the request says which are too many.
#[test]
fn selectors_that_a_new_parent_brings() {
    const LEVELS: usize = 30;
    let verdict = |parts: usize| {
        let chain = |tree: &str| {
            let below = (1..LEVELS).map(|level| format!(", {tree}{level}:{tree}{}", level - 1));
            format!("{tree}0{}", below.collect::<String>())
        };
        let mut cluster = cluster::Cluster::draw(&format!("{}, {}", chain("a"), chain("b")));
        let mut forest = cluster.forest();
        let tree_select = repeated("!x#,", parts - 1) + "no-such";
        for (tree, level, role) in roles_of(LEVELS) {
            let fact = cluster.role(&format!("{tree}{level}"), role, "x");
            let Fact::Object(kind, mut object) = fact else { unreachable!("a role is an object") };
            object.exceptions = Exceptions::of([(TREE_SELECT, &*tree_select)].into_iter()).map(Box::new);
            forest.apply(Fact::Object(kind, object));
        }
        let parent = Some(Name::from(format!("a{}", LEVELS - 1).as_str()));
        let request = hierarchy::Request {
            operation: Operation::Update,
            namespace: "b0".into(),
            user: user(),
            old: hierarchy::Spec::default(),
            new: hierarchy::Spec { parent, ..hierarchy::Spec::default() },
            terminating: false,
        };
        let admin = |name: &str| (Question::IsAdmin(name.into()), Answer::Yes);
        hierarchy::review(
            &forest,
            &request,
            &Answers::from([
                admin(&format!("a{}", LEVELS - 1)),
                admin("b0"),
                (Question::Namespace("b0".into()), Answer::Yes),
            ]),
        )
    };
    let Verdict::Deny(denial) = verdict(MOST) else { panic!("{:?}", verdict(MOST)) };
    assert!(
        denial.message.contains("too many objects") && denial.message.contains("such as role"),
        "{}",
        denial.message
    );
    assert!(matches!(verdict(16), Verdict::Allow { .. }), "{:?}", verdict(16));
}

/// The roles in both trees, each with its tree and its level.
fn roles_of(levels: usize) -> impl Iterator<Item = (&'static str, usize, &'static str)> {
    let roles = ["role0", "role1", "role2"];
    let of_tree = move |tree| (0..levels).flat_map(move |level| roles.map(|role| (tree, level, role)));
    ["a", "b"].into_iter().flat_map(of_tree)
}

/// So many namespaces below a quota, and the request of the last one for one more pod.
fn limited(namespaces: usize) -> (Forest, Increase) {
    let mut cluster = cluster::Cluster::default();
    cluster.namespace("top");
    cluster.put_quota("top", "all", [("pods".into(), Quantity::whole(1_000_000))].into(), &[]);
    for at in 0..namespaces {
        let name = format!("n{at:05}");
        cluster.namespace(&name);
        cluster.set_parent(&name, Some("top"));
    }
    let mut settings = Settings::new("hnc-system", [""; 0], ".*").expect("the pattern is right");
    settings.hierarchical_quotas = true;
    let mut forest = cluster.forest_with(settings);
    forest.apply(cluster.list_quotas());
    forest.apply(cluster.list_derived());
    let names: Vec<Name> = forest.names().cloned().collect();
    for name in names {
        for action in plan(&forest, &name, &Scope::quotas()).steps.into_iter().flat_map(|step| step.actions) {
            cluster.perform(&name, &action).expect("no other client writes");
        }
    }
    cluster.count();
    forest.apply(cluster.list_derived());
    let last = &cluster.derived[&*format!("n{:05}", namespaces - 1)];
    let increase = Increase {
        namespace: format!("n{:05}", namespaces - 1).as_str().into(),
        version: last.version.clone(),
        amounts: [("pods".into(), Quantity::whole(1))].into(),
        sources: last.sources.clone(),
        is_recount: false,
    };
    (forest, increase)
}

/// What a quota costs for each of the namespaces that it limits.
#[test]
fn quotas_with_many_namespaces() {
    let of = |namespaces| {
        let (forest, increase) = limited(namespaces);
        let decision = cost(&mut || {
            assert_eq!(Ledger::default().decide(&forest, &increase), Decision::Allow);
        });
        let status = cost(&mut || {
            assert_eq!(plan(&forest, "top", &Scope::quotas()).quota_statuses.len(), 1);
        });
        [decision, status]
    };
    let (few, many) = (of(1_250), of(10_000));

    for (what, (few, many)) in ["a decision", "a status"].into_iter().zip(few.into_iter().zip(many)) {
        compare(what, few, many).unwrap();
    }
}

fn fields(text: &str) -> Fields<'static> {
    let object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).expect("it is an object");
    let fields = object.into_iter().map(|(name, text)| (name.into(), Cow::Owned(text)));
    Fields::new(fields.collect()).expect("every name is there once")
}

/// A copy before and after a write with other white space.
fn copies(body: impl Fn(&str) -> String, owners: &[Value], finalizers: &[String]) -> Request<'static> {
    let state = |colon: &str| State {
        labels: [("hnc.x-k8s.io/inherited-from", "top")].into_iter().collect(),
        annotations: Pairs::default(),
        finalizers: finalizers.iter().map(|it| it.clone().into()).collect(),
        owner_references: owners.to_vec(),
        terminating: false,
        body: fields(&body(colon)),
    };
    Request {
        operation: Operation::Update,
        user: user(),
        namespace: "child".into(),
        group: "rbac.authorization.k8s.io".into(),
        kind: "Role".into(),
        name: "role".into(),
        old: Some(state(":")),
        new: Some(state(" : ")),
    }
}

#[test]
fn objects_that_are_compared() {
    let forest = cluster::Cluster::draw("top, child:top").forest();
    let review = |request: &Request<'_>| drop(object::review(&forest, request, &Answers::new()));
    let list = |parts, part: &str| repeated(part, parts).trim_end_matches(',').to_owned();
    let many_fields =
        |parts| move |colon: &str| format!("{{{}}}", list(parts, "\"f#\":1,").replace(':', colon));
    linear("fields", |parts| copies(many_fields(parts), &[], &[]), review);
    let one_field = |parts| {
        move |colon: &str| format!("{{\"d\":{{{}}}}}", list(parts, "\"f#\":[1],").replace(':', colon))
    };
    linear("a field", |parts| copies(one_field(parts), &[], &[]), review);
    let finalizers =
        |parts: usize| -> Vec<String> { (0..parts).map(|at| format!("example.com/f{at:06}")).collect() };
    linear("finalizers", |parts| copies(|_| "{}".into(), &[], &finalizers(parts)), review);
    let owners = |parts: usize| -> Vec<Value> {
        (0..parts)
            .map(|at| json!({ "kind": "Pod", "name": format!("p{at}"), "blockOwnerDeletion": true }))
            .collect()
    };
    linear("owners", |parts| copies(|_| "{}".into(), &owners(parts), &[]), review);
}
