//! The order of writes.

use hns_api::names;
use serde_json::json;

use super::super::objects::targets;
use super::*;
use crate::registrations::RegistrationSettings;

fn required(policies: bool) -> Required {
    Required::new(&RegistrationSettings { policies, ..RegistrationSettings::default() }).unwrap()
}

fn owner() -> Value {
    json!({ "kind": "ClusterRole", "uid": "1" })
}

/// A cluster with what these settings require.
fn installed(policies: bool) -> State {
    let required = required(policies);
    let mut state = empty();
    for target in targets(true) {
        let object = required.policies.get(&target).or_else(|| required.webhooks.get(&target));
        let object = object.map(|it| Observed::Present(repair::complete(it, &state.context)));
        state.observed.insert(target, object.unwrap_or(Observed::Absent));
    }
    state
}

/// A cluster without any of the objects.
fn empty() -> State {
    let context = Context { owner: Some(owner()), bundle: None };
    let observed = targets(true).into_iter().map(|target| (target, Observed::Absent)).collect();
    State { observed, context, ..State::default() }
}

fn policy(name: &str, kind: Kind) -> Target {
    Target { kind, name: name.to_owned() }
}

fn described(plan: &Plan) -> Vec<(&str, Kind)> {
    let describe = |write: &Write| match write {
        Write::Create(target, _) => ("create", target.kind),
        Write::Replace(target, _) => ("replace", target.kind),
        Write::Delete(target) => ("delete", target.kind),
    };
    plan.writes.iter().map(describe).collect()
}

/// As the API server does it.
fn carry_out(plan: Plan, state: &mut State) {
    for write in plan.writes {
        match write {
            Write::Create(target, object) | Write::Replace(target, object) => {
                state.observed.insert(target, Observed::Present(object))
            }
            Write::Delete(target) => state.observed.insert(target, Observed::Absent),
        };
    }
}

/// One of the policies about hierarchical quotas does not exist.
const POLICIES: usize = names::policies::ALL.len() - 1;

/// The last write is that of the validating configuration. After it nothing differs.
fn ends_with_the_webhook(required: &Required, state: &mut State) {
    let last = plan(required, state);
    assert_eq!(described(&last), [("replace", Kind::Validating)]);
    carry_out(last, state);
    assert_eq!(plan(required, state), Plan::default());
}

#[test]
fn nothing_is_written_when_nothing_differs() {
    for policies in [true, false] {
        assert_eq!(plan(&required(policies), &installed(policies)), Plan::default());
    }
}

#[test]
fn a_change_by_others_is_told_from_other_settings() {
    let mut state = installed(true);
    state.settle();
    let target = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
    let settings = RegistrationSettings { propagated: Vec::new(), ..RegistrationSettings::default() };
    assert_ne!(plan(&Required::new(&settings).unwrap(), &state), Plan::default());
    assert!(!state.is_changed_by_others(&target));
    let Some(Observed::Present(found)) = state.observed.get_mut(&target) else { unreachable!() };
    found["webhooks"][0]["failurePolicy"] = json!("Ignore");
    assert!(state.is_changed_by_others(&target));
    assert!(!State { known: BTreeMap::new(), ..state }.is_changed_by_others(&target), "nothing is known yet");
}

#[test]
fn policies_are_in_force_before_the_webhook_is_sent_less() {
    let (required, mut state) = (required(true), installed(false));
    let first = plan(&required, &state);
    let mut expected = vec![("create", Kind::Policy); POLICIES];
    expected.extend([("create", Kind::Binding); POLICIES]);
    assert_eq!(described(&first), expected);
    assert!(first.settle);
    carry_out(first, &mut state);
    ends_with_the_webhook(&required, &mut state);
}

#[test]
fn the_webhook_is_sent_more_before_bindings_and_then_policies_go() {
    let (required, mut state) = (required(false), installed(true));
    let first = plan(&required, &state);
    assert_eq!(described(&first), [("replace", Kind::Validating)]);
    assert!(first.settle);
    carry_out(first, &mut state);
    let second = plan(&required, &state);
    let mut expected = vec![("delete", Kind::Binding); POLICIES];
    expected.extend([("delete", Kind::Policy); POLICIES]);
    assert_eq!(described(&second), expected);
    carry_out(second, &mut state);
    assert_eq!(plan(&required, &state), Plan::default());
}

/// An API server that has become able to label namespaces.
#[test]
fn the_webhook_labels_namespaces_until_a_policy_does() {
    let mut state = installed(true);
    let settings = RegistrationSettings { mutating_policy: true, ..RegistrationSettings::default() };
    let required = Required::new(&settings).unwrap();
    let first = plan(&required, &state);
    assert_eq!(described(&first), [("create", Kind::MutatingPolicy), ("create", Kind::MutatingBinding)]);
    assert!(first.settle);
    carry_out(first, &mut state);
    let second = plan(&required, &state);
    assert_eq!(described(&second), [("replace", Kind::Mutating)]);
    let Write::Replace(_, object) = &second.writes[0] else { panic!("{second:?}") };
    assert_eq!(object["webhooks"], json!([]));
    carry_out(second, &mut state);
    assert_eq!(plan(&required, &state), Plan::default());

    // The way back: the webhook is called again before the policy goes.
    let older = self::required(true);
    let back = plan(&older, &state);
    assert_eq!(described(&back), [("replace", Kind::Mutating)]);
    assert!(back.settle);
    carry_out(back, &mut state);
    assert_eq!(
        described(&plan(&older, &state)),
        [("delete", Kind::MutatingBinding), ("delete", Kind::MutatingPolicy)]
    );
}

/// Its sources are reviewed at once, even in a pause, and nothing else is written.
#[test]
fn another_kind_is_written_to_the_webhook_and_then_to_the_policys_binding() {
    let mut propagated = RegistrationSettings::default().propagated;
    propagated.push((String::new(), "secrets".to_owned()));
    let more = RegistrationSettings { propagated: propagated.clone(), ..RegistrationSettings::default() };
    let (required, mut state) = (Required::new(&more).unwrap(), installed(true));
    assert_eq!(state.registered_kinds().unwrap().len(), 2);
    state.paused = true;
    let first = plan(&required, &state);
    assert_eq!((described(&first), first.settle), (vec![("replace", Kind::Validating)], false));
    carry_out(first, &mut state);
    propagated.sort();
    assert_eq!(state.registered_kinds(), Some(propagated));
    let second = plan(&required, &state);
    let [Write::Replace(target, _)] = second.writes.as_slice() else { panic!("{second:?}") };
    assert_eq!(*target, policy(names::policies::COPIES, Kind::Binding));
    assert!(second.settle);
    carry_out(second, &mut state);
    state.paused = false;
    assert_eq!(plan(&required, &state), Plan::default());
}

/// The webhook of the awaited names is written at once, and alone; it is removed with the next other write.
#[test]
fn awaited_names_wait_neither_for_policies_nor_for_a_pause() {
    let awaiting = |policies, awaited: &[&str]| {
        let awaited = awaited.iter().map(|&name| name.to_owned()).collect();
        let settings = RegistrationSettings { awaited, policies, ..RegistrationSettings::default() };
        Required::new(&settings).unwrap()
    };
    let names = |state: &State| {
        let validating = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
        let Observed::Present(found) = state.of(&validating) else { panic!("no registration") };
        let entries = found["webhooks"].as_array().unwrap();
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = awaiting(true, &["one"]);
    let mut state = installed(false);
    let before = names(&state);
    for paused in [true, false] {
        state.paused = paused;
        let urgent = plan(&one, &state);
        assert_eq!((described(&urgent), urgent.settle), (vec![("replace", Kind::Validating)], false));
    }
    carry_out(plan(&one, &state), &mut state);
    let mut after = names(&state);
    assert_eq!(after.remove(1), names::webhooks::AWAITED_NAMESPACES);
    assert_eq!(after, before);
    assert_eq!(described(&plan(&one, &state))[0], ("create", Kind::Policy));

    let mut state = installed(true);
    carry_out(plan(&one, &state), &mut state);
    assert_eq!(plan(&one, &state), Plan::default());
    let other = awaiting(true, &["one", "other"]);
    state.paused = true;
    carry_out(plan(&other, &state), &mut state);
    assert_eq!(plan(&other, &state), Plan::default());
    assert_eq!(plan(&required(true), &state), Plan::default());
    state.paused = false;
    assert_eq!(plan(&other, &state), Plan::default());
    carry_out(plan(&required(true), &state), &mut state);
    assert!(!names(&state).contains(&names::webhooks::AWAITED_NAMESPACES.to_owned()));
}

/// What a policy does not refuse, the webhook must.
#[test]
fn without_policies_the_webhook_is_sent_everything_whatever_the_flag_says() {
    let required = required(true);
    let mut failed = installed(true);
    failed.policies_failed = true;
    assert_eq!(described(&plan(&required, &failed)), [("replace", Kind::Validating)]);

    let mut refused = installed(true);
    refused
        .observed
        .insert(policy(names::policies::COPIES, Kind::Binding), Observed::Unreadable("no".into()));
    let plan = plan(&required, &refused);
    assert_eq!(described(&plan), [("replace", Kind::Validating)]);
    assert_eq!(plan.problems.len(), 1, "{:?}", plan.problems);
    assert!(plan.problems[0].contains("hns-copies"), "{:?}", plan.problems);
}

#[test]
fn a_changed_policy_is_corrected() {
    let (required, mut state) = (required(true), installed(true));
    let target = policy(names::policies::ANCHORS, Kind::Policy);
    state.observed.insert(target.clone(), Observed::Present(json!({ "spec": {}, "status": {} })));
    let changed = plan(&required, &state);
    let [Write::Replace(written, object)] = changed.writes.as_slice() else { panic!("{changed:?}") };
    assert_eq!((written, &object["spec"]), (&target, &required.policies[&target]["spec"]));
}

/// From the first moment on, all requests are reviewed.
#[test]
fn in_an_empty_cluster_webhook_configurations_come_first_and_review_all_until_policies_are_enforced() {
    let (required, mut state) = (required(true), empty());
    let first = plan(&required, &state);
    let validating = ("create", Kind::Validating);
    assert_eq!(described(&first), [validating, validating, ("create", Kind::Mutating)]);
    for write in &first.writes {
        let Write::Create(target, object) = write else { panic!("{write:?}") };
        assert_eq!(object["webhooks"], required.webhooks_alone[target]["webhooks"]);
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner()]));
    }
    carry_out(first, &mut state);
    let second = plan(&required, &state);
    assert_eq!(described(&second).len(), 2 * POLICIES);
    assert!(second.settle && second.writes.iter().all(|it| matches!(it, Write::Create(..))));
    carry_out(second, &mut state);
    state.paused = true;
    assert_eq!(plan(&required, &state), Plan::default());
    state.paused = false;
    ends_with_the_webhook(&required, &mut state);
}

/// Beside policies that are enforced it need not review all requests; in a pause they may not be.
#[test]
fn a_deleted_configuration_is_created_at_once() {
    let (required, mut state) = (required(true), installed(true));
    let target = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
    state.observed.insert(target.clone(), Observed::Absent);
    for (paused, expected) in [(false, &required.webhooks), (true, &required.webhooks_alone)] {
        state.paused = paused;
        let plan = plan(&required, &state);
        let [Write::Create(created, object)] = plan.writes.as_slice() else { panic!("{plan:?}") };
        assert_eq!((created, &object["webhooks"]), (&target, &expected[&target]["webhooks"]));
    }
}

/// An object without an owner would stay after an uninstallation, and refuse requests for ever.
#[test]
fn without_an_owner_nothing_is_created_and_no_owner_is_removed() {
    let (required, mut state) = (required(true), installed(true));
    state.context.owner = None;
    assert_eq!(plan(&required, &state), Plan::default());
    state.observed.insert(policy(names::policies::COPIES, Kind::Policy), Observed::Absent);
    let alone = plan(&required, &state);
    assert_eq!(
        described(&alone),
        [("replace", Kind::Validating)],
        "a policy is missing: the webhook reviews all"
    );
    carry_out(alone, &mut state);
    let nothing = plan(&required, &state);
    assert_eq!((described(&nothing), nothing.problems.len()), (vec![], 1));

    let (required, mut state) = (self::required(true), empty());
    state.context.owner = None;
    let nothing = plan(&required, &state);
    assert_eq!((described(&nothing), nothing.problems.len()), (vec![], 2 * POLICIES + 3));
}

/// HNC's configuration has no owner and other webhooks.
#[test]
fn the_configuration_of_hnc_is_taken_over_in_place() {
    let (required, mut state) = (required(true), empty());
    let target = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
    let entry = |name: &str| json!({ "name": name, "clientConfig": { "caBundle": "SE5D" }, "rules": [] });
    let entries = [entry(names::webhooks::NAMESPACES), entry(names::webhooks::RESOURCE_QUOTAS_STATUS)];
    let hnc = json!({ "metadata": { "uid": "7" }, "webhooks": entries });
    state.observed.insert(target.clone(), Observed::Present(hnc));
    for _ in 0..3 {
        let next = plan(&required, &state);
        assert!(!next.writes.iter().any(|it| matches!(it, Write::Delete(..))), "{next:?}");
        carry_out(next, &mut state);
    }
    assert_eq!(plan(&required, &state), Plan::default());
    let Observed::Present(found) = state.of(&target) else { panic!("deleted") };
    assert_eq!(
        found["metadata"],
        json!({
            "uid": "7", "ownerReferences": [owner()], "labels": { "app.kubernetes.io/name": "hns" },
        })
    );
    let bundles: Vec<_> = repair::bundles(found, &required.webhooks[&target]).collect();
    assert!(bundles.iter().all(|it| **it == "SE5D"), "the certificate stays until another one is known");
    let names = found["webhooks"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    assert!(!names.clone().any(|it| it == names::webhooks::RESOURCE_QUOTAS_STATUS) && names.count() > 4);
}

/// A newer API server may add a field to an object that is written.
#[test]
fn what_the_api_server_makes_of_a_write_is_not_written_again() {
    let (required, mut state) = (required(true), installed(true));
    let target = policy(names::policies::ANCHORS, Kind::Policy);
    let mut embellished = repair::complete(&required.policies[&target], &state.context);
    embellished["spec"]["new"] = json!("field");
    state.observed.insert(target.clone(), Observed::Present(embellished.clone()));
    let first = plan(&required, &state);
    assert_eq!(described(&first), [("replace", Kind::Policy)]);
    let [Write::Replace(_, sent)] = first.writes.as_slice() else { panic!("{first:?}") };
    state.answered.insert(target.clone(), (repair::content(sent), repair::content(&embellished)));
    assert_eq!(plan(&required, &state), Plan::default());
    embellished["spec"]["validations"] = json!([]);
    state.observed.insert(target, Observed::Present(embellished));
    assert_eq!(described(&plan(&required, &state)), [("replace", Kind::Policy)]);
}

fn ours_with(authority: &str, mut object: Value) -> Value {
    for entry in object["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = json!(authority);
    }
    object
}

/// Without certificates every review fails.
#[test]
fn authorities_come_first_and_in_every_entry() {
    let (required, mut state) = (required(true), installed(false));
    assert_eq!(state.registered(&required), Registered::Everywhere(vec![]));
    state.context.bundle = Some(json!("TkVX"));
    let first = plan(&required, &state);
    assert_eq!(described(&first), [("replace", Kind::Validating), ("replace", Kind::Mutating)]);
    assert!(!first.settle);
    for write in &first.writes {
        let Write::Replace(target, object) = write else { panic!("{write:?}") };
        assert_eq!(
            object["webhooks"],
            ours_with("TkVX", required.webhooks_alone[target].clone())["webhooks"]
        );
    }
    carry_out(first, &mut state);
    assert_eq!(state.registered(&required), Registered::Everywhere(b"NEW".to_vec()));
    assert_eq!(described(&plan(&required, &state))[0], ("create", Kind::Policy));
    state.only_bundle = true;
    assert_eq!(plan(&required, &state), Plan::default());
}

#[test]
fn what_is_registered_is_clear_only_where_all_entries_agree() {
    let (required, mut state) = (required(true), installed(true));
    let target = policy(names::MUTATING_WEBHOOK_CONFIGURATION, Kind::Mutating);
    let other = ours_with("TkVX", required.webhooks[&target].clone());
    state.observed.insert(target.clone(), Observed::Present(other));
    assert_eq!(state.registered(&required), Registered::Unclear);
    state.observed.insert(target.clone(), Observed::Unreadable("no".into()));
    assert_eq!(state.registered(&required), Registered::Unclear);
    state.observed.insert(target, Observed::Absent);
    assert_eq!(state.registered(&required), Registered::Everywhere(vec![]));
    let validating = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
    state.observed.insert(validating, Observed::Present(json!({ "webhooks": [{ "name": "foreign" }] })));
    assert_eq!(state.registered(&required), Registered::Nowhere);
}
