//! What is refused, what is warned of, and what is asked.

use std::sync::Arc;

use super::super::tests::{Expected, check, failed, judge};
use super::*;
use crate::cluster::Cluster;
use crate::core::kind::{Kind, Mode, OnConflict};
use crate::core::object::ObjectFact;
use crate::core::version::Version;
use crate::dialects::Fact;
use crate::hnc::configuration::ServedKind;
use crate::hnc::exceptions::Exceptions;
use crate::hnc::keys;
use crate::hnc::rules::Answer::{No, Yes};
use crate::hnc::rules::DenialKind::{Conflict, Forbidden, Invalid, Unavailable};
use crate::hnc::settings::Settings;

const ALL_VERBS: [&str; 6] = ["create", "delete", "get", "list", "update", "watch"];

fn kind(group: &str, kind: &str) -> Kind {
    let resource = format!("{}s", kind.to_lowercase());
    Kind { group: group.into(), version: "v1".into(), kind: kind.into(), resource }
}

fn served() -> Served {
    let kinds = [kind("", "Secret"), kind("", "ConfigMap"), Kind::role(), kind("", "Node")];
    let served = kinds.map(|kind| ServedKind {
        namespaced: kind.kind != "Node",
        singular: kind.kind.to_lowercase(),
        kind,
        short_names: vec![],
        verbs: ALL_VERBS.map(str::to_owned).into(),
    });
    Served { kinds: served.into(), ..Served::default() }
}

/// `secrets Ignore, configmaps`; of an entry that ends in `!`, conflicts are reported, of one that ends in `*`, objects are
/// overwritten; after `-` stands a name that is excluded.
fn entries(text: &str) -> Vec<Result<Entry, String>> {
    let modes = [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore];
    let entry = |text: &str| {
        let on_conflict = match text.chars().last() {
            Some('!') => Some(OnConflict::Report),
            Some('*') => Some(OnConflict::Overwrite),
            _ => None,
        };
        let text = text.trim_end_matches(['!', '*']);
        let (text, excluded) = text.split_once(" -").map_or((text, None), |(text, name)| (text, Some(name)));
        let (resource, mode) = text.split_once(' ').unwrap_or((text, "Propagate"));
        let mode = modes.into_iter().find(|it| it.to_string() == mode).unwrap();
        let excluded_names = excluded.map(str::to_owned).into_iter().collect();
        Ok(Entry { resource: resource.into(), mode, on_conflict, excluded_names, ..Entry::default() })
    };
    text.split(", ").filter(|text| !text.is_empty()).map(entry).collect()
}

fn update(old: &str, new: &str) -> Request {
    Request {
        operation: Operation::Update,
        name: CONFIG.into(),
        old: entries(old),
        new: entries(new),
        trees: Default::default(),
        served: Ok(served()),
    }
}

/// One namespace is a root, and below it are a, b and c, each below the one before; `alone` is alone. `halted` has no
/// parent, and `frozen` is below it.
fn forest(kinds: &[(Kind, Mode)]) -> Forest {
    let mut forest = Cluster::draw("root, a:root, b:a, c:b, alone, halted:gone, frozen:halted").forest();
    let enforced = [Kind::role(), Kind::role_binding()].map(|kind| (kind, Mode::Propagate));
    let all = enforced.iter().chain(kinds);
    forest.apply(Fact::Kinds(all.map(|(kind, mode)| KindSettings::new(kind.clone(), *mode)).collect()));
    forest
}

type Listed<'a> = (&'a str, &'a str, Option<(&'a str, &'a str)>);

/// Everything there is of a kind: namespace, name, and an annotation if it has one.
fn list(forest: &mut Forest, kind: &str, objects: &[Listed]) {
    let id = forest.kind_named("", kind).unwrap();
    let fact = |(at, (namespace, name, annotation)): (usize, &Listed)| ObjectFact {
        exceptions: annotation
            .map(|(key, value)| Box::new(Exceptions::parse(|asked| (asked == key).then_some(value)))),
        ..ObjectFact::new(
            (*namespace).into(),
            (*name).into(),
            Version { uid: at.to_string().into(), resource_version: "1".into() },
        )
    };
    forest.apply(Fact::Objects(id, objects.iter().enumerate().map(fact).collect()));
}

#[test]
fn a_new_limit_below_a_namespace_that_does_not_exist_is_warned_of() {
    let mut forest = forest(&[]);
    let limit = |root: &str| TreeLimit::new(root.into(), Some(3), None, None);
    let said = |forest: &mut Forest, trees| match verdict(forest, &Request { trees, ..update("", "") }, &[]) {
        Verdict::Allow { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    };
    let warning = "spec.trees: there is no namespace \"rot\"; its limit has no effect until it exists";
    assert_eq!(said(&mut forest, [vec![], vec![limit("root"), limit("rot")]]), [warning]);
    assert_eq!(said(&mut forest, [vec![limit("rot")], vec![limit("rot"), limit("root")]]), [""; 0]);
    let never = said(&mut forest, [vec![], vec![limit("kube-system"), limit("Bad_")]]);
    assert!(never[0].contains("kube-system") && never[0].ends_with("its limit has no effect"), "{never:?}");
    assert_eq!(never[1], "spec.trees: no namespace can have the name \"Bad_\"; its limit has no effect");
    let empty = said(&mut forest, [vec![], vec![TreeLimit::new("root".into(), None, None, None)]]);
    assert!(empty.len() == 1 && empty[0].contains("\"root\" limits nothing"), "{empty:?}");
}

#[test]
fn a_wrong_pattern_is_named_with_its_field_and_value() {
    let wrong = vec![TreeLimit::new("root".into(), None, None, Some("("))];
    let request = Request { trees: [vec![], wrong], ..update("", "") };
    let Verdict::Deny(denial) = verdict(&mut forest(&[]), &request, &[]) else { panic!("it is admitted") };
    assert_eq!(
        denial.causes[0].to_string(),
        "spec.trees[0].namePattern: Invalid value: \"(\": it is no regular expression: unclosed group"
    );
}

const CONTROLLER: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

/// Every right that these resources need, all granted.
fn granted(resources: &[&str]) -> Vec<(String, Answer)> {
    let of = |resource: &&str| {
        let webhook = ["list", "watch"].map(|verb| (format!("hns-webhook {verb} {resource}"), Yes));
        let controller = CONTROLLER.map(|verb| (format!("hns-controller {verb} {resource}"), Yes));
        webhook.into_iter().chain(controller).collect::<Vec<_>>()
    };
    resources.iter().flat_map(of).collect()
}

fn verdict(forest: &mut Forest, request: &Request, dialogue: &[(String, Answer)]) -> Verdict {
    let dialogue: Vec<(&str, Answer)> =
        dialogue.iter().map(|(text, answer)| (text.as_str(), answer.clone())).collect();
    judge(forest, |forest, answers| review(forest, request, answers), &dialogue, |_| {})
}

fn expect(
    what: &str,
    forest: &mut Forest,
    request: &Request,
    asked: &[(String, Answer)],
    expected: &Expected,
) {
    check(what, &verdict(forest, request, asked), expected);
}

#[test]
fn the_configuration_stays() {
    let mut forest = forest(&[]);
    let delete = |name: &str| Request {
        operation: Operation::Delete,
        name: name.into(),
        new: vec![],
        ..update("secrets", "")
    };
    let refused = Expected::Denied(Forbidden, &["spec.resources"]);
    expect("config", &mut forest, &delete("config"), &[], &refused);
    expect("another", &mut forest, &delete("other"), &[], &Expected::Allowed);
}

#[test]
fn every_entry_that_makes_no_sense_is_named() {
    let mut forest = forest(&[]);
    let request = update("", "secrets, crontabs, roles Ignore, secret, nodes, configmaps");
    let Verdict::Deny(denial) = verdict(&mut forest, &request, &[]) else { panic!("it is let through") };
    assert_eq!(denial.kind, Invalid);
    let causes: Vec<_> = denial
        .causes
        .iter()
        .map(|cause| (cause.field.as_str(), cause.fault, cause.message.as_str()))
        .collect();
    let expected = [
        ("spec.resources[1]", FieldFault::Invalid, "Invalid value: \"crontabs\": "),
        ("spec.resources[2]", FieldFault::Invalid, "Invalid value: \"roles\": "),
        ("spec.resources[3]", FieldFault::Duplicate, "Duplicate value: \"secret\": "),
        ("spec.resources[4]", FieldFault::Invalid, "Invalid value: \"nodes\": "),
    ];
    assert_eq!(causes.len(), expected.len(), "{causes:?}");
    for ((field, fault, message), (wanted_field, wanted_fault, begins)) in causes.into_iter().zip(expected) {
        assert_eq!((field, fault), (wanted_field, wanted_fault));
        assert!(message.starts_with(begins), "{message}");
    }

    let allowed = [
        ("roles AllowPropagate", "", Expected::Allowed),
        ("roles AllowPropagate!", "roles AllowPropagate", Expected::Allowed),
        ("roles Remove", "", Expected::Denied(Invalid, &["always in mode Propagate"])),
        // What was there before is not judged again unless something is changed.
        ("crontabs", "crontabs", Expected::Allowed),
        ("crontabs, roles AllowPropagate", "crontabs", Expected::Denied(Invalid, &["crontabs"])),
        ("secrets, secrets", "secrets", Expected::Denied(Invalid, &["already about"])),
        ("widgets", "crontabs, widgets", Expected::Warned(&["widgets", "kubectl hns config delete-type"])),
    ];
    for (new, old, expected) in allowed {
        expect(new, &mut forest, &update(old, new), &[], &expected);
    }
    let create = Request { operation: Operation::Create, ..update("crontabs", "crontabs") };
    expect("created", &mut forest, &create, &[], &Expected::Denied(Invalid, &["crontabs"]));
    let unreadable = Request { new: vec![Err("it has no resource".into())], ..update("", "") };
    let refused = Expected::Denied(Invalid, &["spec.resources[0]", "it has no resource"]);
    expect("unreadable", &mut forest, &unreadable, &[], &refused);
}

#[test]
fn unknown_resources_are_not_the_users_fault() {
    let mut forest = forest(&[]);
    let request = Request { served: Err("connection refused".into()), ..update("", "secrets") };
    let refused = Expected::Denied(Unavailable, &["connection refused", "again"]);
    expect("nothing is known", &mut forest, &request, &[], &refused);

    let served = Served { unavailable: ["metrics.k8s.io".to_owned()].into(), ..served() };
    let request = Request { served: Ok(served), ..update("", "things") };
    let warned = Expected::Warned(&["things", "metrics.k8s.io"]);
    expect("one group is unavailable", &mut forest, &request, &[], &warned);
}

#[test]
fn what_would_be_overwritten_stops_a_kind_from_being_propagated() {
    let configmaps = || kind("", "ConfigMap");
    let objects = [
        ("root", "x", None),
        ("b", "x", None),
        ("root", "opted-out", Some((keys::NONE, "true"))),
        ("a", "opted-out", None),
        ("a", "elsewhere", None),
        ("alone", "elsewhere", None),
        ("root", "only-b", Some((keys::TREE_SELECT, "b"))),
        ("a", "only-b", None),
        ("c", "only-b", None),
        ("a", "twice", None),
        ("b", "twice", None),
        ("c", "twice", None),
        ("root", "asked", Some((keys::ALL, "true"))),
        ("c", "asked", None),
        ("halted", "later", None),
        ("frozen", "later", None),
    ];
    let conflict = |name: &str, above: &str, below: &str| {
        format!("object {name:?} in namespace {below:?} is in the way of the one in {above:?} (configmaps)")
    };
    let asked = [conflict("asked", "root", "c"), conflict("only-b", "root", "c")];
    let all = [
        conflict("twice", "a", "b"),
        conflict("x", "root", "b"),
        conflict("asked", "root", "c"),
        conflict("only-b", "root", "c"),
        conflict("twice", "a", "c"),
        // Nothing else judges the repair.
        conflict("later", "halted", "frozen"),
    ];
    let new_ones: Vec<String> = all.iter().filter(|it| !asked.contains(it)).cloned().collect();
    let x = [conflict("x", "root", "b")];
    let cases: [(&str, &str, Mode, &[String]); 16] = [
        ("configmaps Ignore", "configmaps", Mode::Ignore, &all),
        ("configmaps Ignore", "configmaps Propagate", Mode::Ignore, &all),
        ("configmaps Remove", "configmaps", Mode::Remove, &all),
        ("configmaps Ignore", "configmaps AllowPropagate", Mode::Ignore, &asked),
        ("configmaps Ignore", "configmaps!", Mode::Ignore, &[]),
        ("configmaps!", "configmaps Remove", Mode::Propagate, &[]),
        // What went there before goes on as it did.
        ("configmaps AllowPropagate", "configmaps", Mode::AllowPropagate, &new_ones),
        ("configmaps AllowPropagate", "configmaps*", Mode::AllowPropagate, &all),
        ("configmaps", "configmaps AllowPropagate", Mode::Propagate, &[]),
        ("configmaps -x", "configmaps", Mode::Propagate, &x),
        ("configmaps -x", "configmaps!", Mode::Propagate, &[]),
        ("configmaps", "configmaps -x", Mode::Propagate, &[]),
        ("configmaps!", "configmaps", Mode::Propagate, &[]),
        ("configmaps!", "configmaps*", Mode::Propagate, &all),
        ("configmaps", "configmaps*", Mode::Propagate, &all),
        ("configmaps", "configmaps, roles AllowPropagate", Mode::Propagate, &[]),
    ];
    for (old, new, mode, expected) in cases {
        let mut forest = forest(&[(configmaps(), mode)]);
        list(&mut forest, "ConfigMap", &objects);
        let what = format!("{old} -> {new}");
        let rights =
            if old.contains("Ignore") && expected.is_empty() { granted(&["configmaps"]) } else { vec![] };
        match verdict(&mut forest, &update(old, new), &rights) {
            Verdict::Deny(denial) => {
                assert_eq!(denial.kind, Conflict, "{what}: {denial:?}");
                let lines: Vec<&str> =
                    denial.message.split_once("in the HNCConfiguration: ").unwrap().1.split("; ").collect();
                assert_eq!(lines[lines.len() - expected.len()..].join("; "), expected.join("; "), "{what}");
                assert_eq!(lines.len(), expected.len(), "{what}: {lines:?}");
            }
            other => assert!(expected.is_empty(), "{what}: {other:?}"),
        }
    }
}

#[test]
fn a_long_list_of_conflicts_is_cut_short() {
    let mut forest = forest(&[(kind("", "ConfigMap"), Mode::Ignore)]);
    let names: Vec<String> = (0..23).map(|at| format!("n{at:02}")).collect();
    let objects: Vec<_> =
        names.iter().flat_map(|name| [("root", name.as_str(), None), ("c", name.as_str(), None)]).collect();
    list(&mut forest, "ConfigMap", &objects);
    let request = update("configmaps Ignore", "configmaps");
    expect("long", &mut forest, &request, &[], &Expected::Denied(Conflict, &["n00", "n19", "and 3 more"]));
    let Verdict::Deny(denial) = verdict(&mut forest, &request, &[]) else { panic!("it is let through") };
    assert!(!denial.message.contains("n20"), "{}", denial.message);
}

#[test]
fn what_is_not_known_is_waited_for_or_said() {
    let ignored = || forest(&[(kind("", "ConfigMap"), Mode::Ignore)]);
    let request = update("configmaps Ignore", "configmaps");
    let awaited = |answer| vec![("await configmaps".to_owned(), answer)];
    let refused = Expected::Denied(Unavailable, &["configmaps", "again"]);
    expect("no list yet", &mut ignored(), &request, &awaited(No), &refused);

    // The forest has yet to hear of what the old object says.
    expect("not configured yet", &mut forest(&[]), &request, &awaited(No), &refused);

    let rights = granted(&["configmaps"]);
    let mut lost = ignored();
    let id = lost.kind_named("", "ConfigMap").unwrap();
    lost.apply(Fact::StreamLost(Stream::Kind(id), "forbidden".into()));
    let warned = Expected::Warned(&["configmaps cannot be listed: forbidden"]);
    expect("it cannot be listed", &mut lost, &request, &rights, &warned);

    let kept = Expected::Warned(&["configmaps", "these are kept", "`kubectl hns plan config set-resource`"]);
    expect("never configured", &mut forest(&[]), &update("", "configmaps"), &rights, &kept);
    let lost =
        Expected::Warned(&["configmaps", "these are overwritten", "`kubectl hns plan config set-resource`"]);
    expect("never configured", &mut forest(&[]), &update("", "configmaps*"), &rights, &lost);

    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    let mut empty = Forest::unconfigured(Arc::new(settings));
    expect("no structure", &mut empty, &request, &[], &Expected::Denied(Unavailable, &["namespaces"]));
}

#[test]
fn missing_rights_are_warned_of_and_only_where_something_changes() {
    let mut forest = forest(&[(kind("", "Secret"), Mode::Remove)]);
    let with = |changed: &[(&str, Answer)]| -> Vec<(String, Answer)> {
        let mut rights = granted(&["configmaps"]);
        for (text, answer) in changed {
            rights.iter_mut().find(|right| right.0 == *text).unwrap().1 = answer.clone();
        }
        rights
    };
    let request = update("secrets Remove", "secrets Remove, configmaps!");
    expect("all granted", &mut forest, &request, &with(&[]), &Expected::Allowed);
    let lacking = with(&[("hns-controller create configmaps", No), ("hns-controller delete configmaps", No)]);
    let warned = Expected::Warned(&["hns-controller may not create, delete configmaps", "ClusterRole"]);
    expect("the controller lacks", &mut forest, &request, &lacking, &warned);
    let unanswered = with(&[("hns-webhook list configmaps", failed())]);
    let warned = Expected::Warned(&["hns-webhook may list configmaps", "connection refused"]);
    expect("no answer", &mut forest, &request, &unanswered, &warned);

    let webhook: Vec<_> = granted(&["secrets"]).into_iter().take(2).collect();
    let ignored = update("secrets Remove", "secrets Ignore");
    expect("the webhook looks", &mut forest, &ignored, &webhook, &Expected::Allowed);
}
