//! Single cases.

use forest::plan::{Action, HncAction, plan};
use forest::preview::{Intent, Preview};
use forest::rules::{Answer, Answers, Question, User, Verdict};
use forest::{Labels, Name, Scope};

use super::run::{Run, afresh};
use crate::cluster::hierarchical::{NEVER_COUNTED, resources};
use crate::cluster::{Cluster, EXCLUDED, bindings, binds};

/// A tree with quotas of pods, and the number of pods in some namespaces.
fn with_pods(tree: &str, quotas: &[(&str, &str)], used: &[(&str, i64)]) -> Run {
    let mut cluster = Cluster::draw(tree);
    for (namespace, limit) in quotas {
        cluster.put_quota(namespace, "pods", resources(&[("pods", limit)]), &[]);
    }
    for (namespace, amount) in used {
        cluster.use_resource(namespace, "pods", *amount);
    }
    Run::at_rest(cluster)
}

/// The lines that quotas show.
fn shown(run: &Run) -> Vec<String> {
    let all = run.cluster.hierarchical.iter();
    all.map(|((at, name), quota)| format!("{at}/{name} {}", quota.status.requests_summary)).collect()
}

/// The warnings of a new anchor, of a user who has all rights.
fn warnings(run: &Run, parent: &str, child: &str) -> Vec<String> {
    let preview = Preview::new(afresh(&run.cluster));
    let (parent, child, none) = (parent.into(), child.into(), Labels::default());
    let intent = Intent::CreateAnchor { parent, child, labels: none.clone(), annotations: none };
    let mut answers = Answers::new();
    loop {
        match preview.judge(&intent, &User::default(), &answers) {
            Verdict::Allow { warnings, .. } => return warnings,
            Verdict::Ask(questions) => answers.extend(questions.into_iter().map(|question| {
                let exists = matches!(question, Question::Namespace(_));
                (question, if exists { Answer::No } else { Answer::Yes })
            })),
            Verdict::Deny(denial) => panic!("{denial:?}"),
        }
    }
}

#[test]
fn a_namespace_that_moves_takes_the_usage_of_all_below_it() {
    let mut run = with_pods(
        "old, new, team:old, a:team, b:a",
        &[("old", "9"), ("new", "9")],
        &[("team", 1), ("a", 2), ("b", 3)],
    );
    assert_eq!(shown(&run), ["new/pods pods: 0/9", "old/pods pods: 6/9"]);
    let moved = run.cluster.set_parent("team", Some("new"));
    run.hear([moved]);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["new/pods pods: 6/9", "old/pods pods: 0/9"]);
}

#[test]
fn a_new_quota_above_counts_what_is_counted_below_already() {
    let mut run = with_pods("top, team:top, a:team, b:top", &[("team", "5")], &[("a", 2), ("b", 1)]);
    let new = run.cluster.put_quota("top", "all", resources(&[("pods", "4")]), &[]);
    run.hear([new]);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["team/pods pods: 2/5", "top/all pods: 3/4"]);
}

/// The tree does not reach an excluded namespace, but a quota in it limits it.
#[test]
fn a_quota_in_an_excluded_namespace_limits_that_namespace_alone() {
    let run = with_pods(&format!("{EXCLUDED}, other"), &[(EXCLUDED, "3")], &[(EXCLUDED, 2), ("other", 2)]);
    run.check();
    assert_eq!(shown(&run), [format!("{EXCLUDED}/pods pods: 2/3")]);
    assert_eq!(run.cluster.derived.keys().collect::<Vec<_>>(), [&Name::from(EXCLUDED)]);
}

/// Kubernetes accepts limits of resources that it does not count.
#[test]
fn a_limit_that_nothing_counts_is_not_shown_as_enforced() {
    let mut cluster = Cluster::draw("top, team:top");
    let extended = format!("{NEVER_COUNTED}gpu");
    let limits = [("pods", "5"), (&*extended, "2")];
    cluster.put_quota("top", "all", resources(&limits), &[]);
    let mut run = Run::at_rest(cluster);
    let enforced = |run: &Run| {
        let (_, quota) = run.cluster.hierarchical.iter().next().unwrap();
        let found = quota.status.conditions.iter().find(|it| &*it.type_ == "Enforced").unwrap();
        (found.holds, found.reason.to_string(), found.message.to_string())
    };
    let wanted = "Kubernetes does not count these resources: never.test/gpu (its limit has no effect: an extended resource is counted \
                  as requests.never.test/gpu only)";
    assert_eq!(enforced(&run), (false, "LimitsNotCounted".into(), wanted.into()));
    let right = run.cluster.put_quota("top", "all", resources(&[("pods", "5")]), &[]);
    run.hear([right]);
    run.come_to_rest();
    assert!(enforced(&run).0);
}

#[test]
fn without_quotas_there_are_no_derived_quotas() {
    let mut run = with_pods("top, team:top", &[("top", "5"), ("team", "3")], &[("team", 2)]);
    assert_eq!(run.cluster.derived.len(), 2);
    for namespace in ["top", "team"] {
        let gone = run.cluster.remove_quota(namespace, "pods");
        run.hear(gone);
        run.come_to_rest();
        run.check();
    }
    assert_eq!(run.cluster.derived.len(), 0);
}

#[test]
fn a_derived_quota_that_a_user_deletes_comes_back() {
    let mut run = with_pods("top, team:top", &[("top", "5")], &[("team", 2)]);
    let gone = run.cluster.delete_derived("team");
    run.hear(gone);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["top/pods pods: 2/5"]);
}

/// The namespace controller deletes the derived quota first. Objects with finalizers stay.
#[test]
fn what_a_namespace_used_counts_until_it_is_gone() {
    let mut run = with_pods("top, team:top", &[("top", "5")], &[("team", 2)]);
    for order in [[0, 1], [1, 0]] {
        let mut events = [run.cluster.terminate("team"), run.cluster.delete_derived("team")];
        if order == [1, 0] {
            events.reverse();
        }
        run.hear(events.into_iter().flatten());
        run.come_to_rest();
        assert_eq!(shown(&run), ["top/pods pods: 2/5"]);
        let gone = run.cluster.remove_namespace("team");
        run.hear(gone);
        run.come_to_rest();
        run.check();
        assert_eq!(shown(&run), ["top/pods pods: 0/5"]);
        run.cluster.usage.remove("team");
        let again = [run.cluster.namespace("team"), run.cluster.set_parent("team", Some("top"))];
        run.hear(again);
        run.come_to_rest();
        let used = run.cluster.use_resource("team", "pods", 2);
        run.hear(used);
        run.come_to_rest();
    }
}

#[test]
fn finalizers_do_not_keep_the_name_of_the_derived_quota() {
    let mut run = with_pods("top, team:top", &[("top", "5")], &[("team", 2)]);
    let ends = run.cluster.change_derived("team", |quota| {
        quota.terminating = true;
        quota.hard_in_force.clear();
    });
    run.hear(ends);
    assert_eq!(actions(&run, "team")[0], "Dialect", "it is freed");
    run.come_to_rest();
    run.check();
    assert!(!run.cluster.derived["team"].terminating);
}

/// The actions of a plan, by their first word.
fn actions(run: &Run, name: &str) -> Vec<String> {
    let plan = plan(&run.forest, name, &Scope::whole());
    let word = |action: &Action| match action {
        Action::Dialect(HncAction::UpdateQuotaStatus { status, .. }) => {
            format!("status, enforced {}", status.conditions[0].holds)
        }
        Action::Dialect(HncAction::WriteDerivedQuota { .. }) => "derived".into(),
        Action::CreateCopy { key, .. } if key.kind == bindings() => "bind".into(),
        other => format!("{other:?}").chars().take_while(char::is_ascii_alphabetic).collect(),
    };
    plan.actions().map(word).collect()
}

/// New rights come only when the limits are in force, whatever the order of events is.
#[test]
fn bindings_wait_for_a_derived_quota_that_is_not_in_force() {
    let mut run = with_pods("top, team:top", &[("top", "5")], &[]);
    // Other limits: the derived quota is not what it should be.
    let limits = run.cluster.put_quota("top", "pods", resources(&[("pods", "4")]), &[]);
    let key = crate::cluster::binding_key("b");
    let mut body = binds("view", "u");
    body["roleRef"]["kind"] = "ClusterRole".into();
    let binding = run.cluster.put("top", &key, None, body);
    run.hear([limits, binding]);
    assert!(!actions(&run, "team").contains(&"bind".to_owned()), "{:?}", actions(&run, "team"));
    let place = (Name::from("team"), key);
    // The derived quota is written, and not in force yet.
    let write = plan(&run.forest, "team", &Scope::quotas()).actions().next().cloned().unwrap();
    let written = run.cluster.perform(&"team".into(), &write).unwrap();
    run.hear([written]);
    assert!(!actions(&run, "team").contains(&"bind".to_owned()), "{:?}", actions(&run, "team"));
    run.come_to_rest();
    run.check();
    assert!(run.cluster.objects.contains_key(&place));
}

/// Users below could otherwise keep them out.
#[test]
fn rights_from_above_do_not_wait_for_quotas_below() {
    let mut run = with_pods("top, team:top, a:team", &[("top", "5")], &[]);
    let own = run.cluster.put_quota("team", "own", resources(&[("pods", "2"), ("secrets", "1")]), &[]);
    let role = |mut body: serde_json::Value| {
        body["roleRef"]["kind"] = "ClusterRole".into();
        body
    };
    let [above, below] = ["above", "below"].map(crate::cluster::binding_key);
    let bindings = [
        run.cluster.put("top", &above, None, role(binds("view", "u"))),
        run.cluster.put("team", &below, None, role(binds("view", "u"))),
    ];
    run.hear([own]);
    run.hear(bindings);
    let plan = plan(&run.forest, "a", &Scope::whole());
    let created: Vec<_> = plan.actions().filter(|it| matches!(it, Action::CreateCopy { .. })).collect();
    assert!(created.len() == 1 && created[0].key() == Some(&above), "{created:?}");
    run.come_to_rest();
    run.check();
    assert!(run.cluster.objects.contains_key(&("a".into(), below)));
}

/// While the quota says that it is enforced, replicas of the webhook may allow increases without knowing of this usage.
#[test]
fn usage_joins_a_quota_only_when_that_says_that_it_is_not_enforced() {
    let mut run = with_pods("old, new, team:old", &[("old", "9"), ("new", "9")], &[("team", 1)]);
    let moved = run.cluster.set_parent("team", Some("new"));
    run.hear([moved]);
    assert!(!actions(&run, "team").contains(&"derived".to_owned()), "{:?}", actions(&run, "team"));
    assert_eq!(actions(&run, "new")[1], "status, enforced false", "{:?}", actions(&run, "new"));
    let status = plan(&run.forest, "new", &Scope::quotas()).quota_statuses[0].clone();
    let written = run.cluster.perform(&"new".into(), &status).unwrap();
    run.hear([written]);
    assert!(actions(&run, "team").contains(&"derived".to_owned()), "{:?}", actions(&run, "team"));
    run.come_to_rest();
    run.check();
}

/// The annotation for people of the derived quota in the namespace.
fn annotation(run: &Run, namespace: &str) -> String {
    run.cluster.derived[namespace].limits.to_string()
}

#[test]
fn the_annotation_for_people_names_the_quota_with_the_least_left_and_changes_rarely() {
    let mut run = with_pods("top, team:top", &[("top", "100"), ("team", "50")], &[]);
    for (in_top, in_team, text) in [
        (0, 0, "pods: team/pods, 100% of 50 left"),
        // Less than a tenth less is not shown.
        (0, 4, "pods: team/pods, 100% of 50 left"),
        (0, 5, "pods: team/pods, 90% of 50 left"),
        (0, 9, "pods: team/pods, 90% of 50 left"),
        (0, 3, "pods: team/pods, 90% of 50 left"),
        (0, 10, "pods: team/pods, 80% of 50 left"),
        // Now the one above has less left.
        (75, 10, "pods: top/pods, 15% of 100 left"),
        // Nothing left is always shown, and so is the end of that.
        (90, 10, "pods: top/pods, 0% of 100 left"),
        (89, 10, "pods: top/pods, 1% of 100 left"),
        // Nothing is left of both: the smaller one is named, which the derived quota has.
        (50, 50, "pods: team/pods, 0% of 50 left"),
    ] {
        let used = [("top", in_top), ("team", in_team)];
        let facts: Vec<_> =
            used.iter().filter_map(|(at, it)| run.cluster.use_resource(at, "pods", *it)).collect();
        run.hear(facts);
        run.come_to_rest();
        run.check();
        assert_eq!(annotation(&run, "team"), text, "{used:?}");
    }
}

/// Whoever creates quotas in a namespace cannot keep out the limits from above.
#[test]
fn a_limit_above_counts_before_those_below_for_which_no_room_is_left() {
    let mut cluster = Cluster::draw("top, team:top");
    for quota in 0..200 {
        let name = format!("requests.{}.example/{quota:063}", "a".repeat(200));
        cluster.put_quota("team", &format!("a{quota:03}"), resources(&[(&name, "9")]), &[]);
    }
    let mut run = Run::at_rest(cluster);
    let above = run.cluster.put_quota("top", "secrets", resources(&[("secrets", "5")]), &[]);
    run.hear([above]);
    run.come_to_rest();
    let derived = &run.cluster.derived["team"];
    assert_eq!(derived.hard["secrets"].to_string(), "5");
    assert!(derived.sources.len() + derived.limits.len() < 64 * 1024, "it fits into an object");
    let shown = |namespace: &str, name: &str| {
        let quota = &run.cluster.hierarchical[&(namespace.into(), name.into())];
        quota.status.conditions.iter().find(|it| &*it.type_ == "Enforced").unwrap().reason.clone()
    };
    assert_eq!(&*shown("top", "secrets"), "LimitsInForce");
    assert_eq!(&*shown("team", "a000"), "LimitsInForce");
    assert_eq!(&*shown("team", "a199"), "TooManyLimits");
}

/// A quota with scopes that was there before counts only some objects. Scopes cannot be changed.
#[test]
fn a_quota_with_scopes_is_replaced() {
    let mut run = with_pods("top, team:top", &[("top", "5")], &[("team", 2)]);
    let uid = run.cluster.derived["team"].version.uid.clone();
    let scoped = run.cluster.change_derived("team", |quota| quota.has_scopes = true);
    run.hear(scoped);
    run.come_to_rest();
    run.check();
    let derived = &run.cluster.derived["team"];
    assert!(!derived.has_scopes && derived.version.uid != uid);
    assert_eq!(shown(&run), ["top/pods pods: 2/5"]);
}

/// A user moves a namespace below a subnamespace, deletes that one, and has an orphan without limits.
#[test]
fn an_orphan_keeps_the_limits_of_its_tree() {
    let mut run = with_pods(
        "org, team:org, tmp:team, x:tmp, y:x",
        &[("org", "5"), ("team", "4")],
        &[("x", 1), ("y", 2)],
    );
    let gone = run.cluster.remove_namespace("tmp");
    run.hear(gone);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["org/pods pods: 3/5", "team/pods pods: 3/4"]);
    // A new namespace below the orphan has these limits too, and so has a changed quota.
    let facts = [
        run.cluster.namespace("new"),
        run.cluster.set_parent("new", Some("x")),
        run.cluster.put_quota("org", "pods", resources(&[("pods", "3")]), &[]),
    ];
    run.hear(facts);
    run.come_to_rest();
    run.check();
    assert_eq!(run.cluster.derived["new"].hard, resources(&[("pods", "3")]));
    let used = run.cluster.use_resource("new", "pods", 1);
    run.hear(used);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["org/pods pods: 4/3", "team/pods pods: 4/4"]);
    // What it uses counts there already, so its missing parent brings it only to other quotas.
    assert_eq!(warnings(&run, "team", "tmp"), [""; 0]);
    let elsewhere = [
        run.cluster.namespace("other"),
        run.cluster.put_quota("other", "q", resources(&[("pods", "3")]), &[]),
    ];
    run.hear(elsewhere);
    let [warning] = &warnings(&run, "other", "tmp")[..] else { panic!("one quota is exceeded") };
    assert!(warning.contains("pods=4 is used of the quota other/q, which allows 3"), "{warning}");
    let freed = run.cluster.set_parent("x", None);
    run.hear([freed]);
    run.come_to_rest();
    run.check();
    assert_eq!(shown(&run), ["org/pods pods: 0/3", "other/q pods: 0/3", "team/pods pods: 0/4"]);
    assert!(!run.cluster.derived.contains_key("x"));
}
