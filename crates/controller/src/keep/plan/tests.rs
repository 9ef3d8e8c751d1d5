//! Which writes come before which.

use hns_api::names;
use serde_json::json;

use super::super::objects::targets;
use super::*;
use crate::registrations::RegistrationSettings;

fn wanted(policies: bool) -> Wanted {
    Wanted::new(&RegistrationSettings { policies, ..RegistrationSettings::default() }).unwrap()
}

/// A cluster in which everything is as these settings say.
fn installed(policies: bool) -> State {
    let wanted = wanted(policies);
    let mut state = State::default();
    for target in targets() {
        let object = wanted.policies.get(&target).or_else(|| wanted.webhooks.get(&target));
        state.seen.insert(target, object.map_or(Seen::Absent, |object| Seen::Present(object.clone())));
    }
    state
}

fn policy(name: &str, kind: Kind) -> Target {
    Target { kind, name: name.to_owned() }
}

fn described(plan: &Plan) -> Vec<(&str, Kind)> {
    let describe = |write: &Write| match write {
        Write::Create(target, _) => ("create", target.kind),
        Write::Replace(target, _) => ("replace", target.kind),
        Write::Release(target, _) => ("release", target.kind),
        Write::Delete(target) => ("delete", target.kind),
    };
    plan.writes.iter().map(describe).collect()
}

/// As if the API server had done what was asked.
fn carry_out(plan: Plan, state: &mut State) {
    for write in plan.writes {
        match write {
            Write::Create(target, object)
            | Write::Replace(target, object)
            | Write::Release(target, object) => state.seen.insert(target, Seen::Present(object)),
            Write::Delete(target) => state.seen.insert(target, Seen::Absent),
        };
    }
}

#[test]
fn nothing_is_written_when_nothing_differs() {
    for policies in [true, false] {
        assert_eq!(plan(&wanted(policies), &installed(policies)), Plan::default());
    }
}

#[test]
fn policies_are_in_force_before_the_webhook_is_sent_less() {
    let (wanted, mut state) = (wanted(true), installed(false));
    let first = plan(&wanted, &state);
    let mut expected = vec![("create", Kind::Policy); 5];
    expected.extend([("create", Kind::Binding); 5]);
    assert_eq!(described(&first), expected);
    assert!(first.settle);
    carry_out(first, &mut state);
    let second = plan(&wanted, &state);
    assert_eq!(described(&second), [("replace", Kind::Validating)]);
    carry_out(second, &mut state);
    assert_eq!(plan(&wanted, &state), Plan::default());
}

#[test]
fn the_webhook_is_sent_more_before_bindings_and_then_policies_go() {
    let (wanted, mut state) = (wanted(false), installed(true));
    let first = plan(&wanted, &state);
    assert_eq!(described(&first), [("replace", Kind::Validating)]);
    assert!(first.settle);
    carry_out(first, &mut state);
    let second = plan(&wanted, &state);
    let mut expected = vec![("delete", Kind::Binding); 5];
    expected.extend([("delete", Kind::Policy); 5]);
    assert_eq!(described(&second), expected);
    carry_out(second, &mut state);
    assert_eq!(plan(&wanted, &state), Plan::default());
}

/// A kind's copies are guarded before the webhook is asked about its sources, and nothing else is written.
#[test]
fn another_kind_is_written_to_the_policys_binding_and_then_to_the_webhook() {
    let mut propagated = RegistrationSettings::default().propagated;
    propagated.push((String::new(), "secrets".to_owned()));
    let more = RegistrationSettings { propagated: propagated.clone(), ..RegistrationSettings::default() };
    let (wanted, mut state) = (Wanted::new(&more).unwrap(), installed(true));
    assert_eq!(state.registered_kinds().unwrap().len(), 2);
    let first = plan(&wanted, &state);
    let [Write::Replace(target, _)] = first.writes.as_slice() else { panic!("{first:?}") };
    assert_eq!(*target, policy(names::policies::COPIES, Kind::Binding));
    assert!(first.settle);
    carry_out(first, &mut state);
    let second = plan(&wanted, &state);
    assert_eq!(described(&second), [("replace", Kind::Validating)]);
    carry_out(second, &mut state);
    assert_eq!(plan(&wanted, &state), Plan::default());
    propagated.sort();
    assert_eq!(state.registered_kinds(), Some(propagated));
}

/// The entry of the awaited names comes at once, and alone; it goes when there is nothing more urgent.
#[test]
fn awaited_names_wait_neither_for_policies_nor_for_a_pause() {
    let awaiting = |policies, awaited: &[&str]| {
        let awaited = awaited.iter().map(|&name| name.to_owned()).collect();
        let settings = RegistrationSettings { awaited, policies, ..RegistrationSettings::default() };
        Wanted::new(&settings).unwrap()
    };
    let names = |state: &State| {
        let validating = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
        let Some(Seen::Present(found)) = state.seen.get(&validating) else { panic!("no registration") };
        let entries = found["webhooks"].as_array().unwrap();
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = awaiting(true, &["one"]);
    let mut state = installed(false);
    let before = names(&state);
    let urgent = in_a_pause(&one, &state);
    assert_eq!((described(&urgent), urgent.settle), (vec![("replace", Kind::Validating)], false));
    assert_eq!(plan(&one, &state), urgent);
    carry_out(urgent, &mut state);
    assert_eq!(names(&state), [before, vec![names::webhooks::AWAITED_NAMESPACES.to_owned()]].concat());

    // Only then do policies come.
    assert_eq!(described(&in_a_pause(&one, &state))[0], ("create", Kind::Policy));
    let mut state = installed(true);
    let before = names(&state);
    carry_out(plan(&one, &state), &mut state);
    assert_eq!(plan(&one, &state), Plan::default());
    let other = awaiting(true, &["one", "other"]);
    carry_out(in_a_pause(&other, &state), &mut state);
    assert_eq!(plan(&other, &state), Plan::default());

    assert_eq!(in_a_pause(&wanted(true), &state), Plan::default());
    carry_out(plan(&wanted(true), &state), &mut state);
    assert_eq!(names(&state), before);
}

/// Whoever applies the manifests next, with other values, is not told of a conflict.
#[test]
fn what_was_put_right_is_given_back_at_the_end() {
    let (wanted, mut state) = (wanted(true), installed(true));
    let target = policy(names::policies::HIERARCHY, Kind::Policy);
    let Some(Seen::Present(found)) = state.seen.get_mut(&target) else { panic!("no policy") };
    found["metadata"]["managedFields"] = serde_json::json!([
        { "manager": "helm", "fieldsV1": {} },
        { "manager": "hns-controller", "fieldsV1": { "f:spec": { "f:validations": {} } } },
    ]);
    let plan_of_one = plan(&wanted, &state);
    assert_eq!(described(&plan_of_one), [("release", Kind::Policy)]);
    carry_out(plan_of_one, &mut state);
    assert_eq!(plan(&wanted, &state), Plan::default());
}

/// A policy that cannot be had must not leave a gap.
#[test]
fn without_policies_the_webhook_is_sent_everything_whatever_the_flag_says() {
    let wanted = wanted(true);
    let mut failed = installed(true);
    failed.policies_failed = true;
    assert_eq!(described(&plan(&wanted, &failed)), [("replace", Kind::Validating)]);

    let mut refused = installed(true);
    refused.seen.insert(policy(names::policies::COPIES, Kind::Binding), Seen::Refused("no".into()));
    let plan = plan(&wanted, &refused);
    assert_eq!(described(&plan), [("replace", Kind::Validating)]);
    assert_eq!(plan.impossible.len(), 1, "{:?}", plan.impossible);
    assert!(plan.impossible[0].contains("hns-copies"), "{:?}", plan.impossible);
}

#[test]
fn a_changed_policy_is_put_right_and_a_webhook_configuration_never_created() {
    let (wanted, mut state) = (wanted(true), installed(true));
    let target = policy(names::policies::ANCHORS, Kind::Policy);
    state.seen.insert(target.clone(), Seen::Present(json!({ "spec": {}, "status": {} })));
    let changed = plan(&wanted, &state);
    let [Write::Replace(written, object)] = changed.writes.as_slice() else { panic!("{changed:?}") };
    assert_eq!((written, &object["spec"]), (&target, &wanted.policies[&target]["spec"]));
    carry_out(changed, &mut state);

    state.seen.insert(policy(names::MUTATING_WEBHOOK_CONFIGURATION, Kind::Mutating), Seen::Absent);
    let missing = plan(&wanted, &state);
    assert_eq!(described(&missing), []);
    assert!(missing.impossible[0].contains(names::MUTATING_WEBHOOK_CONFIGURATION));
}

/// A newer API server may add a field of its own to whatever is written.
#[test]
fn what_the_api_server_makes_of_a_write_is_not_written_again() {
    let (wanted, mut state) = (wanted(true), installed(true));
    let target = policy(names::policies::ANCHORS, Kind::Policy);
    let mut embellished = wanted.policies[&target].clone();
    embellished["spec"]["new"] = json!("field");
    state.seen.insert(target.clone(), Seen::Present(embellished.clone()));
    let first = plan(&wanted, &state);
    assert_eq!(described(&first), [("replace", Kind::Policy)]);
    let sent = wanted.policies[&target]["spec"].clone();
    state.answered.insert(target.clone(), (sent, embellished["spec"].clone()));
    assert_eq!(plan(&wanted, &state), Plan::default());
    // Anything else is.
    embellished["spec"]["validations"] = json!([]);
    state.seen.insert(target, Seen::Present(embellished));
    assert_eq!(described(&plan(&wanted, &state)), [("replace", Kind::Policy)]);
}

fn ours_with(authority: &str, mut object: Value) -> Value {
    for entry in object["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = json!(authority);
    }
    object
}

/// Nothing else works without it, and nothing else waits for long: the rest follows in the next plan.
#[test]
fn authorities_come_first_and_in_every_entry() {
    let (wanted, mut state) = (wanted(true), installed(false));
    assert_eq!(state.registered(&wanted), Registered::Everywhere(vec![]));
    state.authority = Some(json!("TkVX"));
    let first = plan(&wanted, &state);
    assert_eq!(described(&first), [("replace", Kind::Validating), ("replace", Kind::Mutating)]);
    assert!(!first.settle);
    for write in &first.writes {
        let Write::Replace(target, object) = write else { panic!("{write:?}") };
        assert_eq!(*object, ours_with("TkVX", wanted.webhooks_alone[target].clone()));
    }
    carry_out(first, &mut state);
    assert_eq!(state.registered(&wanted), Registered::Everywhere(b"NEW".to_vec()));
    assert_eq!(described(&plan(&wanted, &state))[0], ("create", Kind::Policy));
    state.only_authority = true;
    assert_eq!(plan(&wanted, &state), Plan::default());
}

#[test]
fn what_is_registered_is_clear_only_where_all_entries_agree() {
    let (wanted, mut state) = (wanted(true), installed(true));
    let target = policy(names::MUTATING_WEBHOOK_CONFIGURATION, Kind::Mutating);
    let other = ours_with("TkVX", wanted.webhooks[&target].clone());
    state.seen.insert(target.clone(), Seen::Present(other));
    assert_eq!(state.registered(&wanted), Registered::Unclear);
    state.seen.insert(target.clone(), Seen::Refused("no".into()));
    assert_eq!(state.registered(&wanted), Registered::Unclear);
    state.seen.insert(target, Seen::Absent);
    assert_eq!(state.registered(&wanted), Registered::Everywhere(vec![]));
    let validating = policy(names::VALIDATING_WEBHOOK_CONFIGURATION, Kind::Validating);
    state.seen.insert(validating, Seen::Present(json!({ "webhooks": [{ "name": "foreign" }] })));
    assert_eq!(state.registered(&wanted), Registered::Nowhere);
}
