//! Known mistakes in registrations, one test each. The suite `registrations` shows the meaning of the conditions on an API
//! server.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ValidatingAdmissionPolicySpec, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::*;

mod objects;

/// Every setting has a value.
fn everything() -> RegistrationSettings {
    RegistrationSettings {
        restore_identities: vec!["restorer".into()],
        external_managers: vec![("fleet".into(), "agent".into()), ("fleet".into(), "agents".into())],
        initial_admin: true,
        quotas: Some(FailurePolicy::Fail),
        accurate: true,
        followed: [("", "resourcequotas"), ("", "limitranges"), ("networking.k8s.io", "networkpolicies")]
            .map(|(group, plural)| (group.to_owned(), plural.to_owned()))
            .into(),
        awaited: vec!["missing".into()],
        parents: vec!["parent".into()],
        propagated: [
            ("rbac.authorization.k8s.io", "roles"),
            ("", "secrets"),
            ("rbac.authorization.k8s.io", "rolebindings"),
        ]
        .map(|(group, plural)| (group.to_owned(), plural.to_owned()))
        .into(),
        nopropagation_labels: vec![
            ("cattle.io/creator".into(), "norman".into()),
            ("private".into(), String::new()),
        ],
        ..RegistrationSettings::default()
    }
}

/// Whether an entry judges everybody, the controller too: usage must not escape, whoever records it.
fn judges_everybody(entry: &Entry) -> bool {
    entry.name == names::webhooks::RESOURCE_QUOTAS_STATUS
}

/// The common fields of both kinds of webhooks.
struct Entry {
    name: String,
    client: WebhookClientConfig,
    conditions: Vec<MatchCondition>,
    policy: String,
    timeout: i32,
    rules: Vec<RuleWithOperations>,
    selectors: [Option<LabelSelector>; 2],
}

fn entries(settings: &RegistrationSettings) -> Vec<Entry> {
    let Admission { validating, parents, mutating, .. } = admission(settings);
    let validating = validating.webhooks.into_iter().chain(parents.webhooks).flatten();
    let mut entries: Vec<Entry> = validating.map(entry).collect();
    for webhook in mutating.webhooks.unwrap() {
        assert_eq!(webhook.reinvocation_policy.as_deref(), Some("Never"));
        assert_eq!(webhook.side_effects, "None");
        entries.push(entry(ValidatingWebhook {
            name: webhook.name,
            admission_review_versions: webhook.admission_review_versions,
            client_config: webhook.client_config,
            failure_policy: webhook.failure_policy,
            match_conditions: webhook.match_conditions,
            match_policy: webhook.match_policy,
            namespace_selector: webhook.namespace_selector,
            object_selector: webhook.object_selector,
            rules: webhook.rules,
            side_effects: webhook.side_effects,
            timeout_seconds: webhook.timeout_seconds,
        }));
    }
    entries
}

fn entry(webhook: ValidatingWebhook) -> Entry {
    assert!(["None", "NoneOnDryRun"].contains(&&*webhook.side_effects));
    assert_eq!(webhook.admission_review_versions, ["v1"]);
    Entry {
        name: webhook.name,
        client: webhook.client_config,
        conditions: webhook.match_conditions.unwrap(),
        policy: webhook.failure_policy.unwrap(),
        timeout: webhook.timeout_seconds.unwrap(),
        rules: webhook.rules.unwrap(),
        selectors: [webhook.namespace_selector, webhook.object_selector],
    }
}

fn specs(settings: &RegistrationSettings) -> Vec<ValidatingAdmissionPolicySpec> {
    admission(settings).policies.into_iter().map(|policy| policy.spec.unwrap()).collect()
}

/// The conditions of webhooks and of policies.
fn conditions() -> Vec<String> {
    let settings = everything();
    let alone = RegistrationSettings { policies: false, ..everything() };
    let of_entries = [&settings, &alone].into_iter().flat_map(entries).flat_map(|entry| entry.conditions);
    let of_policies = specs(&settings).into_iter().flat_map(|spec| spec.match_conditions.unwrap());
    of_entries.chain(of_policies).map(|condition| condition.expression).collect()
}

/// All CEL expressions.
fn expressions() -> Vec<String> {
    let mut expressions = conditions();
    let [policy, _] = policies::mutating(&everything());
    let fields = ["/spec/mutations/0/jsonPatch/expression", "/spec/matchConditions/1/expression"];
    expressions.extend(fields.map(|field| policy.pointer(field).unwrap().as_str().unwrap().to_owned()));
    for spec in specs(&everything()) {
        expressions.extend(spec.variables.into_iter().flatten().map(|variable| variable.expression));
        for validation in spec.validations.unwrap() {
            expressions.push(validation.expression);
            expressions.extend(validation.message_expression);
        }
    }
    expressions
}

#[test]
fn entries_fail_closed_within_five_seconds_or_open_within_two() {
    let shown: Vec<_> = entries(&everything())
        .into_iter()
        .map(|entry| {
            let service = entry.client.service.unwrap();
            assert_eq!(entry.client.ca_bundle, None);
            assert_eq!((&*service.namespace, &*service.name), ("hnc-system", "hnc-webhook-service"));
            (entry.name, service.path.unwrap(), entry.policy, entry.timeout)
        })
        .collect();
    let expected = [
        ("namespaces", "/validate-v1-namespace", "Fail", 5),
        ("awaited-namespaces", "/validate-v1-namespace", "Fail", 5),
        ("hierarchyconfigurations", "/validate-hnc-x-k8s-io-v1alpha2-hierarchyconfigurations", "Fail", 5),
        ("subnamespaceanchors", "/validate-hnc-x-k8s-io-v1alpha2-subnamespaceanchors", "Fail", 5),
        ("hncconfigurations", "/validate-hnc-x-k8s-io-v1alpha2-hncconfigurations", "Fail", 5),
        ("hrq", "/validate-hnc-x-k8s-io-v1alpha2-hrq", "Fail", 5),
        ("resourcesquotasstatus", "/validate-hnc-x-k8s-io-v1alpha2-resourcequotasstatus", "Fail", 2),
        ("vsubnamespace.kb.io", "/validate-accurate-cybozu-com-v2-subnamespace", "Fail", 5),
        ("objects", "/validate-objects", "Fail", 2),
        ("parent-namespaces", "/validate-v1-namespace", "Ignore", 2),
        ("namespacelabel", "/mutate-namespace", "Ignore", 2),
        ("initialadmin", "/mutate-initial-admin", "Ignore", 2),
        ("subnamespace.accurate.cybozu.io", "/mutate-accurate-cybozu-com-v2-subnamespace", "Ignore", 2),
    ];
    let expected = expected.map(|(name, path, policy, timeout)| {
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}.hnc.x-k8s.io") };
        (name, path.to_owned(), policy.to_owned(), timeout)
    });
    assert_eq!(shown, expected);
    let open = RegistrationSettings { quotas: Some(FailurePolicy::Ignore), ..everything() };
    let usage = entries(&open).into_iter().find(judges_everybody).unwrap();
    assert_eq!((&*usage.policy, usage.timeout), ("Ignore", 2));
}

#[test]
fn without_quotas_nothing_is_about_them_but_a_warning() {
    let without = RegistrationSettings { quotas: None, ..everything() };
    let names = |settings: &RegistrationSettings| -> Vec<String> {
        let policies = admission(settings).policies.into_iter().filter_map(|it| it.metadata.name);
        entries(settings).into_iter().map(|it| it.name).chain(policies).collect()
    };
    let mut missing = names(&everything());
    missing.retain(|name| !names(&without).contains(name));
    assert_eq!(missing, ["hrq.hnc.x-k8s.io", "resourcesquotasstatus.hnc.x-k8s.io", "hns-quotas"]);
    let warning = admission(&without).bindings.pop().unwrap();
    assert_eq!(warning.metadata.name.as_deref(), Some("hns-quotas-disabled"));
    assert_eq!(warning.spec.unwrap().validation_actions.unwrap(), ["Warn"]);
}

#[test]
fn without_accurate_nothing_is_about_it() {
    let with = entries(&everything());
    let without = RegistrationSettings { accurate: false, followed: Vec::new(), ..everything() };
    let Admission { validating, parents, mutating, policies, bindings, mutating_policy } =
        admission(&without);
    let text =
        serde_json::to_string(&(validating, parents, mutating, policies, bindings, mutating_policy)).unwrap();
    assert!(!text.contains("cybozu"), "{text}");
    let names: Vec<String> = entries(&without).into_iter().map(|it| it.name).collect();
    let more: Vec<_> =
        with.iter().map(|it| &*it.name).filter(|name| !names.iter().any(|it| it == name)).collect();
    assert_eq!(more, ["vsubnamespace.kb.io", "subnamespace.accurate.cybozu.io"]);
}

#[test]
fn settings_reach_every_entry_and_every_policy() {
    let settings = RegistrationSettings {
        namespace: "here".into(),
        service: "door".into(),
        controller_service_account: "it".into(),
        ..everything()
    };
    let exemption = "request.userInfo.username != 'system:serviceaccount:here:it'";
    for entry in entries(&settings) {
        let service = entry.client.service.unwrap();
        assert_eq!((service.namespace, service.name), ("here".into(), "door".into()));
        let is_exempt = entry.conditions[0].expression == exemption;
        assert_ne!(is_exempt, entry.name == names::webhooks::RESOURCE_QUOTAS_STATUS, "{}", entry.name);
    }
    for policy in admission(&settings).policies {
        let first = &policy.spec.unwrap().match_conditions.unwrap()[0];
        let name = policy.metadata.name.unwrap();
        let probed = format!("{exemption} ||\n{}", conditions::is_probe());
        let expected = if name == names::policies::COPIES { probed.as_str() } else { exemption };
        assert_eq!(first.expression, expected, "{name}");
    }
}

/// A real write of the controller is never sent, whatever annotations its object has.
#[test]
fn without_policies_only_dry_runs_of_the_controller_are_sent_to_the_webhook() {
    let alone = RegistrationSettings { policies: false, ..RegistrationSettings::default() };
    let probed = |entry: &Entry| entry.conditions[0].expression.contains(&conditions::is_probe());
    let entries = entries(&alone);
    let names: Vec<_> = entries.iter().filter(|it| probed(it)).map(|it| it.name.clone()).collect();
    assert_eq!(names, [names::webhooks::COPIES]);
    assert!(conditions::is_probe().starts_with("(request.?dryRun.orValue(false) && "));
}

#[test]
fn without_policies_the_webhook_is_sent_what_they_judge() {
    let alone = RegistrationSettings { policies: false, ..RegistrationSettings::default() };
    let Admission { policies, bindings, .. } = admission(&alone);
    assert!(policies.is_empty() && bindings.is_empty());
    let judged = |settings: &RegistrationSettings| {
        let anchors =
            entries(settings).into_iter().find(|entry| entry.name.starts_with("subnamespace")).unwrap();
        anchors.conditions.last().unwrap().expression.contains("initial-admin")
    };
    assert!(judged(&alone));
    assert!(!judged(&RegistrationSettings::default()));
    let of_copies = |settings: &RegistrationSettings| {
        entries(settings).iter().any(|it| it.name == names::webhooks::COPIES)
    };
    assert!(of_copies(&alone));
    assert!(!of_copies(&RegistrationSettings::default()));
}

#[test]
fn every_policy_is_bound_by_its_name_and_denies_with_403() {
    let Admission { policies, bindings, .. } = admission(&everything());
    let name_of = |metadata: &ObjectMeta| metadata.name.clone().unwrap();
    let found: Vec<String> = policies.iter().map(|policy| name_of(&policy.metadata)).collect();
    let all = names::policies::ALL.into_iter().filter(|name| *name != names::policies::QUOTAS_DISABLED);
    assert_eq!(found, all.collect::<Vec<_>>());
    for (policy, binding) in policies.iter().zip(&bindings) {
        let (spec, bound) = (policy.spec.as_ref().unwrap(), binding.spec.as_ref().unwrap());
        let name = name_of(&policy.metadata);
        assert_eq!((name_of(&binding.metadata), bound.policy_name.clone().unwrap()), (name.clone(), name));
        assert_eq!(bound.validation_actions.as_deref().unwrap(), ["Deny"]);
        assert_eq!(bound.param_ref.is_some(), spec.param_kind.is_some());
        for validation in spec.validations.as_ref().unwrap() {
            assert_eq!(validation.reason.as_deref(), Some("Forbidden"));
            assert!(validation.message.as_ref().is_some_and(|message| !message.contains('\n')));
        }
    }
}

/// Without the definition of its parameters, a policy that fails closed would refuse all matching requests.
#[test]
fn a_policy_with_parameters_fails_open_and_every_other_closed() {
    for spec in specs(&everything()) {
        let expected = if spec.param_kind.is_some() { "Ignore" } else { "Fail" };
        assert_eq!(spec.failure_policy.as_deref(), Some(expected));
    }
}

/// It compiles in conditions, but is always null there, so every request would be an error.
#[test]
fn no_condition_asks_for_the_namespace_of_an_object() {
    for expression in conditions() {
        assert!(!expression.contains("namespaceObject"), "{expression}");
    }
}

/// The namespace controller has two names. The garbage collector deletes for every user who may set an owner reference.
#[test]
fn only_deletion_and_only_by_the_namespace_controller_is_exempt() {
    let entries = entries(&everything());
    let exemptions: Vec<&MatchCondition> = entries
        .iter()
        .flat_map(|entry| &entry.conditions)
        .filter(|condition| condition.expression.contains("namespace-controller"))
        .collect();
    assert_eq!(exemptions.len(), 1);
    assert_eq!(exemptions[0].name, "not-the-namespace-controller");
    let exemption = &exemptions[0].expression;
    assert!(exemption.starts_with("!(request.operation == 'DELETE' &&"));
    assert!(exemption.contains("'system:serviceaccount:kube-system:namespace-controller'"));
    assert!(exemption.contains("'system:kube-controller-manager'"));
    let all = entries.iter().flat_map(|entry| &entry.conditions);
    for condition in all {
        assert!(!condition.expression.contains("garbage-collector"), "{}", condition.expression);
    }
}

/// Without awaited names there is no such webhook; above the limit it judges all names.
#[test]
fn awaited_names_are_literals_unless_there_are_too_many() {
    let decides_by = |awaited: Vec<String>| {
        let settings = RegistrationSettings { awaited, ..RegistrationSettings::default() };
        let entry =
            entries(&settings).into_iter().find(|entry| entry.name == names::webhooks::AWAITED_NAMESPACES);
        entry.map(|entry| entry.conditions.last().unwrap().expression.clone())
    };
    let named = |count: usize| (0..count).map(|number| format!("missing-{number}")).collect::<Vec<_>>();
    assert_eq!(decides_by(named(0)), None);
    let two = "object.metadata.?name.orValue('') in ['missing-0', 'missing-1'] &&\n";
    assert!(decides_by(named(2)).unwrap().starts_with(two));
    assert!(decides_by(named(500)).unwrap().contains("'missing-499'"));
    let managed = conditions::managed(&RegistrationSettings::default(), conditions::NEW_NAME);
    assert!(decides_by(named(501)).unwrap().starts_with(&managed));
}

/// Labels and annotations can also be written through the subresources.
#[test]
fn our_keys_are_guarded_on_every_way_in() {
    let entries = entries(&everything());
    let of_entry = &entries.iter().find(|entry| entry.name == names::webhooks::NAMESPACES).unwrap().rules;
    let covers = |resource: &str, operation: &str| {
        let has = |words: &Option<Vec<String>>, word: &str| words.iter().flatten().any(|found| found == word);
        of_entry.iter().any(|rule| has(&rule.resources, resource) && has(&rule.operations, operation))
    };
    assert!(covers("namespaces", "CREATE") && covers("namespaces", "DELETE"));
    for resource in ["namespaces", "namespaces/status", "namespaces/finalize"] {
        assert!(covers(resource, "UPDATE"), "{resource}");
    }
    let policies = admission(&everything()).policies;
    let resources = |name: &str| -> Vec<String> {
        let policy = policies.iter().find(|policy| policy.metadata.name.as_deref() == Some(name)).unwrap();
        let constraints = policy.spec.as_ref().unwrap().match_constraints.as_ref().unwrap();
        constraints.resource_rules.iter().flatten().flat_map(|rule| rule.resources.clone().unwrap()).collect()
    };
    assert_eq!(
        resources(names::policies::NAMESPACE_KEYS),
        ["namespaces", "namespaces/status", "namespaces/finalize"]
    );
    let copied =
        ["secrets", "rolebindings", "roles", "secrets/status", "rolebindings/status", "roles/status"];
    let bindings = admission(&everything()).bindings;
    let binding = bindings.iter().find(|it| it.metadata.name.as_deref() == Some(names::policies::COPIES));
    let kinds = binding.unwrap().spec.as_ref().unwrap().match_resources.as_ref().unwrap();
    let kinds: Vec<String> =
        kinds.resource_rules.iter().flatten().flat_map(|rule| rule.resources.clone().unwrap()).collect();
    assert_eq!(kinds, copied);
    assert_eq!(resources(names::policies::COPIES), ["*", "*/status"]);
}

/// A namespace selector sees only the new labels, so removing the selected label would escape review. An object selector sees the old
/// ones too; the entry for new namespaces selects them by the label with their name; the webhook that adds a label skips namespaces that have it before and after. `request.name` is missing when a collection
/// is deleted.
#[test]
fn no_entry_about_namespaces_has_a_selector_and_nothing_goes_by_the_name_in_the_request() {
    let selects =
        |entry: &&Entry| entry.name.contains("objects") || entry.name == names::webhooks::PARENT_NAMESPACES;
    for entry in entries(&everything()).into_iter().filter(|entry| !selects(&entry)) {
        let skips = entry.name == names::webhooks::NAMESPACE_LABEL;
        let objects = if skips { entries::without_included_label() } else { LabelSelector::default() };
        assert_eq!(entry.selectors, [Some(LabelSelector::default()), Some(objects)], "{}", entry.name);
    }
    for expression in expressions() {
        assert!(!expression.contains("request.name"), "{expression}");
    }
}

/// A key that is missing in a map is an error, which refuses the request under `Fail`.
#[test]
fn every_step_that_may_find_nothing_is_optional() {
    for expression in expressions() {
        let certain = expression
            .replace("request.userInfo.username", "")
            .replace("request.userInfo.?groups", "")
            .replace("request.operation", "")
            .replace("request.?dryRun", "")
            .replace("request.?subResource", "")
            .replace("request.resource.resource", "")
            .replace("request.resource.group", "")
            // Inside `has`, or where a condition has seen that it is there.
            .replace("has(oldObject.metadata.deletionTimestamp)", "")
            .replace("has(object.metadata.deletionTimestamp)", "")
            .replace("has(namespaceObject.metadata.deletionTimestamp)", "")
            .replace("params.metadata.name", "")
            // A stored object has a name; what has `metadata` at all, has it in every operation that is registered.
            .replace("oldObject.metadata.name", "")
            .replace("oldObject.metadata.?", "")
            .replace("object.metadata.?", "");
        for step in ["bject.metadata", "bject.spec", "request."] {
            assert!(!certain.contains(step), "{step} in {expression}");
        }
        assert!(!certain.contains("labels['") && !certain.contains("annotations['"), "{expression}");
    }
}

/// The time of a loop grows with the square of the number of keys, and the API server does not limit it.
#[test]
fn the_sizes_are_asked_before_any_loop_over_keys() {
    let maps = ["labels", "annotations"].into_iter().flat_map(|map| {
        ["object.metadata", "oldObject.?metadata"].map(|of| format!("{of}.?{map}.orValue({{}})"))
    });
    let maps: Vec<String> = maps.collect();
    let mut loops = 0;
    for expression in conditions() {
        let Some(first_loop) = maps.iter().filter_map(|map| expression.find(&format!("{map}.exists("))).min()
        else {
            continue;
        };
        for map in &maps {
            let looped = expression.matches(&format!("{map}.exists(")).count();
            let asked = expression[..first_loop].contains(&format!("{map}.size() > 1000"));
            assert!(looped == 0 || asked, "{map} in {expression}");
            loops += looped;
        }
    }
    // Twice three entries about namespaces, and one policy: of each of four maps, or of the two of a new namespace. Twice one
    // entry about sources: of two maps.
    assert_eq!(loops, 2 * (4 + 2 + 2 + 2) + 4);
}

/// A user with all rights also has every invented verb, so all administrators would be exempt. Only who has the same
/// right in all namespaces is exempt, and only from the policies about quotas and about the status of `SubNamespaces`. An admin of a
/// namespace may remove the finalizers of its anchors.
#[test]
fn nothing_asks_for_rights_except_in_all_namespaces_or_those_of_an_admin() {
    let asking: Vec<String> = expressions().into_iter().filter(|it| it.contains("authorizer")).collect();
    let [of_finalizer, of_status, of_all, of_derived] = &asking[..] else { panic!("{asking:?}") };
    assert!(
        of_finalizer.contains("resource('hierarchyconfigurations').namespace(object.metadata.?namespace")
    );
    assert!(of_finalizer.contains(".check('update')"));
    assert!(of_status.contains("resource('subnamespaces').subresource('status').check('update')"));
    assert!(of_all.contains("resource('resourcequotas').check('create')"));
    assert!(of_derived.contains("resource('hierarchicalresourcequotas').check('update')"));
    for expression in [of_status, of_all, of_derived] {
        assert!(!expression.contains("namespace("), "in one namespace everybody may have this right");
    }
}

/// A wildcard would include access reviews, and policies see changes of webhook configurations. The one policy with a wildcard is
/// limited to objects in namespaces with our label.
#[test]
fn resources_are_named_one_by_one() {
    let of_entries = entries(&everything()).into_iter().flat_map(|entry| entry.rules);
    let of_entries = of_entries.map(|rule| (rule.api_groups, rule.resources));
    let of_policies = specs(&everything()).into_iter().flat_map(|spec| {
        let constraints = spec.match_constraints.unwrap();
        let mut rules = constraints.resource_rules.unwrap();
        let of_copies = constraints.object_selector.unwrap().match_expressions.is_some();
        rules.retain(|rule| !(of_copies && rule.scope.as_deref() == Some("Namespaced")));
        rules.into_iter().map(|rule| (rule.api_groups, rule.resources))
    });
    for (groups, resources) in of_entries.chain(of_policies) {
        for resource in resources.unwrap() {
            assert!(!resource.contains('*'), "{resource}");
        }
        for group in groups.unwrap() {
            let known =
                ["", "hnc.x-k8s.io", "accurate.cybozu.com", "rbac.authorization.k8s.io", "networking.k8s.io"];
            assert!(known.contains(&group.as_str()), "{group}");
        }
    }
}

/// All conditions must be true. An exemption inside another condition would be lost if that one is an error.
#[test]
fn exemptions_stand_alone_and_come_first() {
    for entry in entries(&everything()) {
        let first = if judges_everybody(&entry) { "is-derived" } else { "not-the-controller" };
        assert_eq!(entry.conditions[0].name, first);
        let last = &entry.conditions.last().unwrap().name;
        assert!(["can-be-refused", "can-be-changed"].contains(&last.as_str()), "{last}");
    }
}

#[test]
fn identities_are_users_or_groups() {
    let expression = conditions::requested_by(&["ops", "o'hara"]);
    assert_eq!(
        expression,
        r"(request.userInfo.username in ['ops', 'o\'hara'] || request.userInfo.?groups.orValue([]).exists(g, g in ['ops', 'o\'hara']))"
    );
    assert_eq!(conditions::requested_by::<&str>(&[]), "false");
    assert_eq!(conditions::restoring(&RegistrationSettings::default()), "false");
    assert_eq!(conditions::kept_by_the_user(&RegistrationSettings::default(), "m"), "false");
    let kept = conditions::kept_by_the_user(&everything(), "m");
    assert_eq!(kept.matches("m == 'fleet'").count(), 1, "{kept}");
    assert!(kept.contains("['agent', 'agents']"), "{kept}");
}

#[test]
fn the_same_settings_give_the_same_objects_in_whatever_order_namespaces_are_given() {
    let settings = everything();
    let mut reversed = settings.clone();
    reversed.excluded.reverse();
    assert_eq!(admission(&settings), admission(&reversed));
}
