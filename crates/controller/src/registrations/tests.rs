//! One test for each way in which registrations are known to go wrong. What the conditions mean is shown on
//! a real API server; here is what can be seen by looking.

use super::*;

fn webhooks() -> Vec<ValidatingWebhook> {
    validating(&RegistrationSettings::default()).webhooks.unwrap()
}

fn webhook(name: &str) -> ValidatingWebhook {
    webhooks().into_iter().find(|webhook| webhook.name == name).unwrap()
}

fn expression(webhook: &ValidatingWebhook, name: &str) -> String {
    let conditions = webhook.match_conditions.as_deref().unwrap();
    let found = conditions.iter().find(|condition| condition.name == name);
    found.unwrap().expression.clone()
}

fn expressions() -> Vec<String> {
    let conditions = webhooks().into_iter().flat_map(|webhook| webhook.match_conditions.unwrap());
    conditions.map(|condition| condition.expression).collect()
}

fn covers(webhook: &ValidatingWebhook, resource: &str, operation: &str) -> bool {
    let has =
        |words: &Option<Vec<String>>, word: &str| words.as_ref().unwrap().iter().any(|found| found == word);
    let rules = webhook.rules.as_ref().unwrap();
    rules.iter().any(|rule| has(&rule.resources, resource) && has(&rule.operations, operation))
}

#[test]
fn both_fail_closed_within_five_seconds_and_without_side_effects() {
    let webhooks = webhooks();
    assert_eq!(webhooks.len(), 2);
    for webhook in &webhooks {
        assert_eq!(webhook.failure_policy.as_deref(), Some("Fail"));
        assert_eq!(webhook.side_effects, "None");
        assert_eq!(webhook.admission_review_versions, ["v1"]);
        assert_eq!(webhook.timeout_seconds, Some(5));
        assert_eq!(webhook.client_config.ca_bundle, None);
        let service = webhook.client_config.service.as_ref().unwrap();
        assert_eq!(service.namespace, "hnc-system");
        assert_eq!(service.name, "hnc-webhook-service");
    }
    let path = |name: &str| webhook(name).client_config.service.unwrap().path.unwrap();
    assert_eq!(path("namespaces.hnc.x-k8s.io"), "/validate-v1-namespace");
    assert_eq!(
        path("hierarchyconfigurations.hnc.x-k8s.io"),
        "/validate-hnc-x-k8s-io-v1alpha2-hierarchyconfigurations"
    );
}

#[test]
fn settings_reach_every_entry() {
    let settings = RegistrationSettings {
        namespace: "here".into(),
        service: "door".into(),
        controller_service_account: "it".into(),
    };
    for webhook in validating(&settings).webhooks.unwrap() {
        let service = webhook.client_config.service.clone().unwrap();
        assert_eq!((service.namespace, service.name), ("here".into(), "door".into()));
        assert_eq!(
            expression(&webhook, "not-the-controller"),
            "request.userInfo.username != 'system:serviceaccount:here:it'"
        );
    }
}

/// It compiles in such conditions and is always null there, so that every request would end in an error.
#[test]
fn no_condition_asks_for_the_namespace_of_an_object() {
    for expression in expressions() {
        assert!(!expression.contains("namespaceObject"), "{expression}");
    }
}

/// The namespace controller goes by two names. The garbage collector deletes on behalf of anyone who sets
/// an owner reference.
#[test]
fn only_deletion_and_only_by_the_namespace_controller_is_exempt() {
    let webhook = webhook(names::webhooks::HIERARCHY_CONFIGURATIONS);
    let exemption = expression(&webhook, "not-the-namespace-controller");
    assert!(exemption.starts_with("!(request.operation == 'DELETE' &&"));
    assert!(exemption.contains("'system:serviceaccount:kube-system:namespace-controller'"));
    assert!(exemption.contains("'system:kube-controller-manager'"));
    for expression in expressions() {
        assert!(!expression.contains("garbage-collector"), "{expression}");
        assert!(!expression.contains("groups"), "{expression}");
    }
}

/// Labels can be written through the subresources too.
#[test]
fn labels_are_guarded_on_every_way_in() {
    let webhook = webhook(names::webhooks::NAMESPACES);
    assert!(covers(&webhook, "namespaces", "CREATE"));
    for resource in ["namespaces", "namespaces/status", "namespaces/finalize"] {
        assert!(covers(&webhook, resource, "UPDATE"), "{resource}");
        assert!(!covers(&webhook, resource, "DELETE"), "{resource}");
    }
}

#[test]
fn leaving_a_tree_by_deletion_is_judged() {
    let webhook = webhook(names::webhooks::HIERARCHY_CONFIGURATIONS);
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        assert!(covers(&webhook, "hierarchyconfigurations", operation));
    }
    let can_be_refused = expression(&webhook, "can-be-refused");
    assert!(can_be_refused.contains("oldObject.?spec.?parent.orValue('') != ''"));
}

/// A selector looks at the new labels only; `request.name` is absent when a collection is deleted.
#[test]
fn no_entry_has_a_selector_or_goes_by_the_request_name() {
    for webhook in webhooks() {
        assert_eq!(webhook.namespace_selector, None);
        assert_eq!(webhook.object_selector, None);
    }
    for expression in expressions() {
        assert!(!expression.contains("request.name"), "{expression}");
    }
}

/// A key looked up in an absent map is an error, and an error under `Fail` is a lock-out. `metadata` of the
/// new object is always there in the operations registered; nothing else is.
#[test]
fn every_step_that_may_find_nothing_is_optional() {
    for expression in expressions() {
        let certain = expression
            .replace("request.userInfo.username", "")
            .replace("request.operation", "")
            .replace("object.metadata.?", "");
        for step in ["bject.metadata", "bject.spec", ".labels", ".annotations", ".parent"] {
            assert!(!certain.contains(step), "{step} in {expression}");
        }
        assert!(!expression.replace("[?", "").contains("[k]"), "{expression}");
    }
}

/// The loops' time grows with the square of the number of keys, and no limit of the API server stops that.
#[test]
fn the_size_is_asked_before_any_loop() {
    let mut loops = 0;
    for expression in expressions() {
        let Some(first_loop) = expression.find(".exists(") else {
            continue;
        };
        loops += 1;
        let guards = &expression[..first_loop];
        for map in ["object.metadata.?labels", "oldObject.?metadata.?labels"] {
            let guard = format!("{map}.orValue({{}}).size() > 1000 ||");
            assert!(guards.contains(&guard), "{guard} in {guards}");
        }
        for other in [".all(", ".filter(", ".map("] {
            assert!(!expression.contains(other), "{expression}");
        }
    }
    assert_eq!(loops, 1);
}

/// Whoever has all rights has every invented verb too, so asking for one would exempt all administrators.
#[test]
fn no_condition_asks_for_rights() {
    for expression in expressions() {
        assert!(!expression.contains("authorizer"), "{expression}");
    }
}

/// A wildcard would catch access reviews and our own repairs.
#[test]
fn resources_are_named_one_by_one() {
    for webhook in webhooks() {
        for rule in webhook.rules.unwrap() {
            for resource in rule.resources.unwrap() {
                assert!(!resource.contains('*'), "{resource}");
            }
            for group in rule.api_groups.unwrap() {
                assert!(["", "hnc.x-k8s.io"].contains(&group.as_str()), "{group}");
            }
        }
    }
}

/// Conditions are joined by "and": joined into another, an exemption would be lost to an error there.
#[test]
fn exemptions_stand_alone_and_come_first() {
    for webhook in webhooks() {
        let conditions = webhook.match_conditions.unwrap();
        assert_eq!(conditions[0].name, "not-the-controller");
        assert_eq!(conditions.last().unwrap().name, "can-be-refused");
    }
}

/// A name cannot end its literal and go on as an expression.
#[test]
fn literals_are_escaped() {
    assert_eq!(literal("plain"), "'plain'");
    assert_eq!(literal(r"it's \ there"), r"'it\'s \\ there'");
}

#[test]
fn the_same_settings_give_the_same_object() {
    let settings = RegistrationSettings::default();
    assert_eq!(validating(&settings), validating(&settings.clone()));
}
