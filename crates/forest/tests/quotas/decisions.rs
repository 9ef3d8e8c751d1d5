//! Decisions on increases of usage, and on limits.

use forest::hnc::quota::Resources;
use forest::hnc::quota::ledger::{Decision, Ledger, MOST_BYTES, Pending, Reservation};
use forest::rules::usage::{API_SERVER, Request, exceeded, outdated, undecided};
use forest::rules::{DenialKind, Verdict, quota};
use forest::{Forest, Version};

use super::run::{Run, afresh};
use crate::cluster::hierarchical::resources;
use crate::cluster::{Cluster, EXCLUDED};

/// `top` allows five pods and two processors, of which `a` uses three and one; `team` allows four pods.
fn run() -> Run {
    let mut cluster = Cluster::draw("top, team:top, a:team, b:top");
    cluster.put_quota("top", "all", resources(&[("pods", "5"), ("requests.cpu", "2")]), &[]);
    cluster.put_quota("team", "few", resources(&[("pods", "4")]), &[]);
    cluster.use_resource("a", "pods", 3);
    cluster.use_resource("a", "requests.cpu", 1);
    Run::at_rest(cluster)
}

/// The request to store more usage in the derived quota of a namespace, as it is now.
fn request(cluster: &Cluster, namespace: &str, more: &[(&str, &str)]) -> Request {
    let quota = &cluster.derived[namespace];
    let mut new = quota.used.clone();
    for (name, amount) in resources(more) {
        let used = new.entry(name).or_default();
        *used = *used + amount;
    }
    Request {
        namespace: namespace.into(),
        version: quota.version.clone(),
        sources: quota.sources.clone(),
        old: quota.used.clone(),
        new,
        user: API_SERVER.into(),
    }
}

fn decide(ledger: &mut Ledger, forest: &Forest, request: &Request) -> String {
    match ledger.decide(forest, &request.increase().expect("it is one")) {
        Decision::Allow => "allow".into(),
        Decision::Deny(excess) => exceeded(&excess).message,
        Decision::Outdated => "outdated".into(),
        Decision::Wait(pending) => format!("{pending:?}"),
    }
}

#[test]
fn an_increase_is_allowed_or_denied_by_the_highest_quota_that_it_exceeds_in_the_words_of_hnc() {
    let run = run();
    for (namespace, more, decision) in [
        ("a", vec![("pods", "1")], "allow"),
        (
            "a",
            vec![("pods", "2")],
            "exceeded hierarchical quota in namespace \"team\": \"few\", requested: pods=2, used: pods=3, limited: pods=4",
        ),
        (
            "a",
            vec![("pods", "3")],
            "exceeded hierarchical quota in namespace \"top\": \"all\", requested: pods=3, used: pods=3, limited: pods=5",
        ),
        (
            "b",
            vec![("pods", "3"), ("requests.cpu", "1500m"), ("secrets", "9")],
            "exceeded hierarchical quota in namespace \"top\": \"all\", requested: pods=3, used: pods=3, limited: pods=5, \
             requested: requests.cpu=1500m, used: requests.cpu=1, limited: requests.cpu=2",
        ),
        ("b", vec![("pods", "2"), ("requests.cpu", "1")], "allow"),
        ("b", vec![("secrets", "9")], "allow"),
    ] {
        let mut ledger = Ledger::default();
        let request = request(&run.cluster, namespace, &more);
        assert_eq!(decide(&mut ledger, &run.forest, &request), decision, "{namespace}: {more:?}");
        let is_recorded = decision == "allow" && more[0].0 != "secrets";
        assert_eq!(ledger.reservations.len(), usize::from(is_recorded), "{namespace}: {more:?}");
    }
}

#[test]
fn usage_that_does_not_grow_is_not_decided_on() {
    let run = run();
    let same = request(&run.cluster, "a", &[]);
    assert!(same.increase().is_none());
    let less = Request { new: Resources::new(), ..same };
    assert!(less.increase().is_none());
}

#[test]
fn an_increase_waits_for_others_that_may_leave_no_room_and_is_denied_if_they_do_not_matter() {
    let mut run = run();
    let mut ledger = Ledger::default();
    let (forest, cluster) = (&run.forest, &run.cluster);
    assert_eq!(decide(&mut ledger, forest, &request(cluster, "a", &[("pods", "1")])), "allow");
    let others = request(cluster, "b", &[("pods", "2")]);
    assert_eq!(decide(&mut ledger, forest, &others), "OthersPending");
    assert!(decide(&mut ledger, forest, &request(cluster, "b", &[("pods", "3")])).starts_with("exceeded"));
    assert_eq!(decide(&mut ledger, forest, &request(cluster, "b", &[("pods", "1")])), "allow");
    // Of several increases at one version, one is stored at most: the greatest counts.
    assert_eq!(decide(&mut ledger, forest, &request(cluster, "a", &[("pods", "1")])), "allow");
    assert_eq!(ledger.reservations.len(), 2);
    let recount = Request { user: "counter".into(), ..request(cluster, "top", &[("pods", "1")]) };
    assert_eq!(decide(&mut ledger, forest, &recount), "OthersPending", "a count waits too");
    assert_eq!(decide(&mut Ledger::default(), forest, &recount), "allow");
    let large = Request { user: "counter".into(), ..request(cluster, "top", &[("pods", "9")]) };
    assert_eq!(decide(&mut Ledger::default(), forest, &large), "allow", "a count cannot be refused");
    // The first one is stored, and a replica sees that.
    let behind = afresh(&run.cluster);
    let stored = run.cluster.use_resource("a", "pods", 4);
    run.hear(stored);
    let others = request(&run.cluster, "b", &[("pods", "2")]);
    assert!(decide(&mut ledger, &run.forest, &others).starts_with("exceeded"), "nothing is pending any more");
    let version = run.cluster.derived["a"].number();
    assert_eq!((ledger.floor, ledger.reservations.len()), (version, 1));
    assert_eq!(decide(&mut ledger, &behind, &others), "StatesUnknown", "another replica has not seen it");
}

#[test]
fn an_increase_of_another_state_than_the_known_one_is_outdated_or_waits() {
    let run = run();
    let now = request(&run.cluster, "a", &[("pods", "1")]);
    let at = |uid: &str, number: u64| Request {
        version: Version { uid: uid.into(), resource_version: number.to_string().into() },
        ..now.clone()
    };
    let (uid, number) = (&now.version.uid, run.cluster.derived["a"].number());
    for (request, decision) in [
        (now.clone(), "allow"),
        (at(uid, number - 1), "outdated"),
        (at(uid, number + 1), "StatesUnknown"),
        (at("another", number), "StatesUnknown"),
        (Request { namespace: "unknown".into(), ..now.clone() }, "StatesUnknown"),
        (Request { sources: "".into(), ..now.clone() }, "LimitsUnknown"),
    ] {
        assert_eq!(decide(&mut Ledger::default(), &run.forest, &request), decision, "{request:?}");
    }
}

#[test]
fn a_replica_that_knows_other_limits_does_not_decide() {
    let mut run = run();
    let request = request(&run.cluster, "a", &[("pods", "1")]);
    let changed =
        run.cluster.put_quota("top", "all", resources(&[("pods", "5"), ("requests.cpu", "3")]), &[]);
    run.hear([changed]);
    assert_eq!(decide(&mut Ledger::default(), &run.forest, &request), "LimitsUnknown");
    run.come_to_rest();
    let now = super::decisions::request(&run.cluster, "a", &[("pods", "1")]);
    assert_eq!(decide(&mut Ledger::default(), &run.forest, &now), "allow");
}

#[test]
fn a_full_ledger_takes_no_more() {
    let mut cluster = Cluster::draw("top, a:top");
    cluster.put_quota("top", "all", resources(&[("pods", "5")]), &[]);
    let run = Run::at_rest(cluster);
    let request = request(&run.cluster, "a", &[("pods", "1")]);
    let version = run.cluster.derived["top"].version.clone();
    let other = Reservation {
        namespace: "top".into(),
        uid: version.uid,
        version: version.resource_version.parse().unwrap(),
        increase: Resources::new(),
    };
    let mut ledger = Ledger { floor: 0, reservations: vec![other; MOST_BYTES / 100] };
    assert_eq!(decide(&mut ledger, &run.forest, &request), "Full");
    ledger.reservations.truncate(MOST_BYTES / 200);
    assert_eq!(decide(&mut ledger, &run.forest, &request), "allow");
}

/// Increases of very many resources with long names fill only a part of the ledger, so those of others are still decided.
#[test]
fn increases_of_many_resources_leave_room_for_those_of_others() {
    let names: Vec<String> =
        (0..80).map(|at| format!("requests.{}.example/{at:063}", "a".repeat(200))).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "9")).collect();
    let children: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let tree = children.iter().map(|child| format!("{child}:n")).collect::<Vec<_>>().join(", ");
    let mut cluster = Cluster::draw(&format!("n, other, {tree}"));
    cluster.put_quota("n", "q", resources(&all), &[]);
    cluster.put_quota("other", "q", resources(&[("pods", "9")]), &[]);
    let run = Run::at_rest(cluster);
    let (mut ledger, mut allowed) = (Ledger::default(), 0);
    for child in &children {
        let one_of_each: Vec<(&str, &str)> = all.iter().map(|(name, _)| (*name, "1")).collect();
        let request = request(&run.cluster, child, &one_of_each);
        allowed += usize::from(decide(&mut ledger, &run.forest, &request) == "allow");
    }
    assert!((1..children.len()).contains(&allowed), "{allowed}");
    let others = request(&run.cluster, "other", &[("pods", "1")]);
    assert_eq!(decide(&mut ledger, &run.forest, &others), "allow");
}

#[test]
fn limits_are_reported_as_enforced_when_what_is_pending_fits() {
    let run = run();
    let limits = || run.forest.limits_of_quota("top", "all").unwrap();
    let newest =
        run.cluster.derived.values().map(forest::hnc::quota::DerivedQuotaFact::number).max().unwrap();
    let mut ledger = Ledger::default();
    assert_eq!(ledger.enforce(&run.forest, &limits()), Ok(()));
    assert_eq!(ledger.floor, newest);
    let b = &run.cluster.derived["b"];
    for (amount, result) in [("2", Ok(())), ("3", Err(Pending::OthersPending))] {
        let pending = Reservation {
            namespace: "b".into(),
            uid: b.version.uid.clone(),
            version: b.number(),
            increase: resources(&[("pods", amount)]),
        };
        let mut ledger = Ledger { floor: 0, reservations: vec![pending] };
        assert_eq!(ledger.enforce(&run.forest, &limits()), result, "{amount}");
    }
    let mut ahead = Ledger { floor: u64::MAX, ..Ledger::default() };
    assert_eq!(ahead.enforce(&run.forest, &limits()), Err(Pending::StatesUnknown));
}

#[test]
fn what_cannot_be_decided_is_a_server_error_and_what_is_outdated_a_conflict() {
    for pending in [Pending::StatesUnknown, Pending::LimitsUnknown, Pending::OthersPending, Pending::Full] {
        let denial = undecided("a", pending);
        assert_eq!(denial.kind, DenialKind::Unavailable);
        let (what, hint) = denial.message.split_once("; try again in a moment").unwrap();
        assert!(what.contains("namespace \"a\" could not be checked"), "{what}");
        // Only this can last: the controller does not run, or has nothing to write.
        assert_eq!(hint.contains("if this lasts"), pending == Pending::LimitsUnknown, "{hint}");
    }
    assert_eq!(outdated("a").kind, DenialKind::Conflict);
}

fn review(forest: &Forest, namespace: &str, hard: &[(&str, &str)]) -> Verdict {
    let hard = hard.iter().map(|&(name, limit)| (name.to_owned(), limit.to_owned())).collect();
    quota::review(forest, &quota::Request { namespace: namespace.into(), name: "new".into(), hard })
}

#[test]
fn limits_that_a_core_quota_would_refuse_are_invalid_each_with_its_field() {
    let run = run();
    let hard =
        [("pods", "5"), ("podz", "1"), ("secrets", "1.5"), ("requests.cpu", "-1"), ("limits.cpu", "many")];
    let Verdict::Deny(denial) = review(&run.forest, "a", &hard) else { panic!("it is admitted") };
    assert_eq!(denial.kind.code_and_reason(), (422, "Invalid"));
    let causes: Vec<String> = denial.causes.iter().map(ToString::to_string).collect();
    let expected = [
        "spec.hard[podz]: Invalid value: \"podz\": is no resource that a quota can limit; for objects of other kinds use \
         count/RESOURCE.GROUP",
        "spec.hard[secrets]: Invalid value: \"1.5\": must be an integer",
        "spec.hard[requests.cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        "spec.hard[limits.cpu]: Invalid value: \"many\": \"many\" is no quantity: expected a number, with a suffix such as m, k, \
         Mi or e3 if needed",
    ];
    assert_eq!(causes, expected);
    assert!(expected.iter().all(|it| denial.message.contains(it)), "{}", denial.message);
}

#[test]
fn a_namespace_has_room_for_a_number_of_quotas() {
    let mut cluster = Cluster::draw("top, team:top");
    for at in 0..63 {
        cluster.put_quota("top", &format!("q{at}"), resources(&[("pods", "5")]), &[]);
    }
    let one = [("pods", "5")];
    let mut run = Run::at_rest(cluster);
    assert!(matches!(review(&run.forest, "team", &one), Verdict::Allow { .. }));
    let last = run.cluster.put_quota("team", "new", resources(&one), &[]);
    run.hear([last]);
    let above = run.cluster.put_quota("top", "q63", resources(&one), &[]);
    run.hear([above]);
    // It does not grow.
    assert!(matches!(review(&run.forest, "team", &[("pods", "3")]), Verdict::Allow { .. }));
    for (namespace, hard) in [("top", vec![("pods", "5")]), ("team", vec![("pods", "5"), ("secrets", "5")])] {
        let Verdict::Deny(denial) = review(&run.forest, namespace, &hard) else { panic!("it is admitted") };
        assert!(denial.message.contains("too many quotas (at most 64) or limits"), "{}", denial.message);
    }
}

#[test]
fn limits_that_have_no_effect_or_are_exceeded_already_are_warned_of() {
    let run = run();
    for (namespace, hard, warnings) in [
        ("b", vec![("pods", "5")], vec![]),
        ("b", vec![("pods", "6")], vec!["the limit pods=6 has no effect: the quota top/all allows 5"]),
        (
            "a",
            vec![("pods", "6")],
            vec![
                "the limit pods=6 has no effect: the quota top/all allows 5",
                "the limit pods=6 has no effect: the quota team/few allows 4",
            ],
        ),
        (
            "a",
            vec![("pods", "2")],
            vec![
                "pods: 3 used already, more than the limit of 2; nothing is removed, but no more is allowed",
            ],
        ),
        ("elsewhere", vec![("pods", "2")], vec![]),
        (
            "b",
            vec![("nvidia.com/gpu", "2"), ("requests.nvidia.com/gpu", "2"), ("count/foos.bar.com", "1")],
            vec![
                "the limit of nvidia.com/gpu has no effect: an extended resource is counted as requests.nvidia.com/gpu only",
            ],
        ),
        (
            EXCLUDED,
            vec![("pods", "5")],
            vec![
                "namespace \"kube-system\" is excluded by excludedNamespaces in the settings of hns, so this quota limits that namespace alone",
            ],
        ),
    ] {
        let Verdict::Allow { warnings: said, .. } = review(&run.forest, namespace, &hard) else {
            panic!("{namespace}: {hard:?} is denied")
        };
        assert_eq!(said, warnings, "{namespace}: {hard:?}");
    }
}

#[test]
fn a_quota_in_an_excluded_namespace_names_those_that_are_still_below_it() {
    let run = Run::at_rest(Cluster::draw(&format!("{EXCLUDED}, below:{EXCLUDED}")));
    let Verdict::Allow { warnings, .. } = review(&run.forest, EXCLUDED, &[("pods", "5")]) else {
        panic!("it is denied")
    };
    assert!(
        warnings[0].ends_with("this quota limits that namespace, and those that are still below it"),
        "{warnings:?}"
    );
}
