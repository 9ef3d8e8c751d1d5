//! The first invariant: a request gives nobody rights in an existing namespace unless its sender may give rights there, or in a
//! namespace above it.

use std::collections::BTreeSet;

use forest::accurate::rules::namespace::{Request, review};
use forest::rules::{Answer, Answers, Operation, Question, User, Verdict};
use forest::{Forest, Name};
use proptest::prelude::*;

use super::cluster::Cluster;
use super::draw::{NAMES, Op, any_op, any_start};
use super::specification::leader;

/// The namespaces from which objects come to this one, by the specification.
fn above<'a>(cluster: &'a Cluster, name: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut current = leader(cluster, name);
    while let Ok(Some(name)) = current {
        if !found.insert(name) {
            break;
        }
        current = leader(cluster, name);
    }
    found
}

/// The verdict about the change from one cluster to the other, by a user who may write all namespaces and has two more rights in
/// some.
fn is_allowed(forest: &Forest, [old, new]: [&Cluster; 2], name: &Name, rights: &BTreeSet<&str>) -> bool {
    let labels =
        |cluster: &Cluster| cluster.namespaces.get(name).map(|seen| seen.labels.clone()).unwrap_or_default();
    let is_new = !old.namespaces.contains_key(name);
    let request = Request {
        operation: if is_new { Operation::Create } else { Operation::Update },
        name: name.clone(),
        user: User::default(),
        old: labels(old).into_iter().collect(),
        new: labels(new).into_iter().collect(),
        terminating: old.namespaces.get(name).is_some_and(|seen| seen.terminating),
        is_subnamespace: false,
    };
    let mut answers = Answers::new();
    loop {
        let questions = match review(forest, &request, &answers) {
            Verdict::Ask(questions) => questions,
            verdict => return matches!(verdict, Verdict::Allow { .. }),
        };
        for question in questions {
            let answer = match &question {
                Question::Has(right) if rights.contains(&*right.namespace) => Answer::Yes,
                _ => Answer::No,
            };
            assert_eq!(answers.insert(question, answer), None, "asked twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_namespace_is_taken_over(
        start in any_start(),
        requests in prop::collection::vec((any_op(), prop::collection::btree_set(0..NAMES.len(), 0..4)), 1..12),
    ) {
        let mut cluster = Cluster::default();
        for op in &start {
            op.perform(&mut cluster);
        }
        for (op, rights) in requests {
            let Op::Place(at, _) = &op else { continue };
            let name = Name::from(NAMES[*at]);
            let rights: BTreeSet<&str> = rights.into_iter().map(|at| NAMES[at]).collect();
            let mut after = cluster.clone();
            op.perform(&mut after);
            if !is_allowed(&cluster.forest(), [&cluster, &after], &name, &rights) {
                continue;
            }
            for (existing, seen) in &cluster.namespaces {
                let (before, now) = (above(&cluster, existing), above(&after, existing));
                let is_consenting = before.iter().chain([&&**existing]).any(|name| rights.contains(name));
                let gains = now.iter().any(|name| !before.contains(name));
                let exempt = seen.terminating || **existing == *"kube-system";
                prop_assert!(exempt || !gains || is_consenting, "{op:?} of {rights:?} puts {now:?} above {existing}");
            }
            cluster = after;
        }
    }
}
