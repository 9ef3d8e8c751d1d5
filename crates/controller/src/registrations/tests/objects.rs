//! The webhooks for objects, and the policy for copies.

use super::*;

fn of_objects(settings: &RegistrationSettings) -> Vec<Entry> {
    entries(settings).into_iter().filter(|entry| entry.name.contains("objects")).collect()
}

fn alone() -> RegistrationSettings {
    RegistrationSettings { policies: false, ..everything() }
}

type Rule<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

/// Group, resources and operations of rules.
fn shown(rules: &[RuleWithOperations]) -> Vec<(String, Vec<String>, Vec<String>)> {
    let words = |words: &Option<Vec<String>>| words.clone().unwrap();
    let shown = rules.iter().map(|rule| {
        assert_eq!(words(&rule.api_versions), ["*"]);
        assert_eq!(rule.scope.as_deref(), Some("Namespaced"));
        (words(&rule.api_groups).concat(), words(&rule.resources), words(&rule.operations))
    });
    shown.collect()
}

fn owned(rules: &[Rule<'_>]) -> Vec<(String, Vec<String>, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    rules.iter().map(|(group, of, on)| ((*group).to_owned(), words(of), words(on))).collect()
}

/// Programs that read HNC's registration look for the kinds in the webhook with HNC's name. Without policies, the webhooks that
/// fail closed judge deletions too; only copies cannot be deleted.
#[test]
fn each_entry_has_a_rule_for_each_group_and_one_for_their_statuses() {
    let rbac = "rbac.authorization.k8s.io";
    let expected = |operations: &[&str]| {
        owned(&[
            ("", &["secrets"], operations),
            (rbac, &["rolebindings", "roles"], operations),
            ("", &["secrets/status"], &["UPDATE"]),
            (rbac, &["rolebindings/status", "roles/status"], &["UPDATE"]),
        ])
    };
    for entry in of_objects(&everything()) {
        assert_eq!(shown(&entry.rules), expected(&["CREATE", "UPDATE"]), "{}", entry.name);
    }
    for entry in of_objects(&alone()) {
        assert_eq!(shown(&entry.rules), expected(&["CREATE", "UPDATE", "DELETE"]), "{}", entry.name);
    }
}

#[test]
fn the_order_of_kinds_means_nothing() {
    let mut reversed = everything();
    reversed.propagated.reverse();
    let twice = reversed.propagated.clone();
    reversed.propagated.extend(twice);
    assert_eq!(admission(&everything()), admission(&reversed));
}

/// Each namespace matches exactly one of the webhooks that fail closed.
#[test]
fn the_mark_of_a_namespace_decides_between_the_entries() {
    for entry in of_objects(&everything()).into_iter().chain(of_objects(&alone())) {
        let [namespaces, _] = entry.selectors;
        let requirements = namespaces.unwrap().match_expressions.unwrap();
        let shown: Vec<_> = requirements
            .iter()
            .map(|it| (it.key.as_str(), it.operator.as_str(), it.values.clone().unwrap_or_default().concat()))
            .collect();
        let marked = if entry.name.starts_with("tree-") { "Exists" } else { "DoesNotExist" };
        let expected = [
            ("hnc.x-k8s.io/included-namespace", "In", "true".to_owned()),
            ("hnc.x-k8s.io/excluded-namespace", "NotIn", "true".to_owned()),
            ("hnc.x-k8s.io/has-children", marked, String::new()),
        ];
        assert_eq!(shown, expected, "{}", entry.name);
    }
}

/// With policies, no copy is sent, and only the controller is exempt. Without them, the namespace controller is exempt too.
#[test]
fn copies_are_judged_by_policies_or_by_the_webhook() {
    let names =
        |entry: &Entry| -> Vec<String> { entry.conditions.iter().map(|it| it.name.clone()).collect() };
    for entry in of_objects(&everything()) {
        assert_eq!(names(&entry), ["not-the-controller", "not-a-copy", "can-be-refused"], "{}", entry.name);
    }
    for entry in of_objects(&alone()) {
        assert_eq!(names(&entry)[1], "not-the-namespace-controller", "{}", entry.name);
        let decides = &entry.conditions.last().unwrap().expression;
        assert!(decides.contains("ownerReferences"), "{}", entry.name);
    }
}

/// If a condition skips copies, a selector has done so before. The selector matches an object that is a source before or after
/// the write, and a write that makes a source a copy still meets the condition. If copies are judged, all are.
#[test]
fn copies_that_stay_copies_are_passed_over_without_a_look() {
    let none = vec![("hnc.x-k8s.io/inherited-from".to_owned(), "DoesNotExist".to_owned(), None)];
    let (mut passed, mut judged) = (0, 0);
    for entry in of_objects(&everything()).into_iter().chain(of_objects(&alone())) {
        let [_, objects] = entry.selectors;
        let requirements = objects.unwrap().match_expressions;
        if entry.conditions.iter().any(|it| it.name == "not-a-copy") {
            let shown = requirements.into_iter().flatten().map(|it| (it.key, it.operator, it.values));
            assert_eq!(shown.collect::<Vec<_>>(), none, "{}", entry.name);
            passed += 1;
        } else {
            assert_eq!(requirements, None, "{}", entry.name);
            judged += 1;
        }
    }
    assert_eq!((passed, judged), (2, 2));
}

/// Excluded objects are skipped by every webhook for sources.
#[test]
fn what_never_propagates_is_known_by_everything_that_a_request_shows() {
    for entry in of_objects(&everything()).iter().filter(|entry| entry.name != names::webhooks::OBJECTS) {
        let decides = &entry.conditions.last().unwrap().expression;
        for part in [
            "request.resource.resource == 'configmaps' && object.metadata.?name.orValue('') == 'kube-root-ca.crt'",
            "request.resource.resource == 'configmaps' && object.metadata.?name.orValue('') == 'istio-ca-root-cert'",
            "request.resource.resource == 'serviceaccounts' && object.metadata.?name.orValue('') == 'default'",
            "object.?type.orValue('') in ['helm.sh/release.v1', 'kubernetes.io/service-account-token']",
        ] {
            assert_eq!(decides.matches(part).count(), 1, "{part} in {}", entry.name);
        }
        for part in [
            "object.metadata.?annotations[?'openshift.io/description'].hasValue()",
            "object.metadata.?finalizers.orValue([]).size() > 0",
            "object.metadata.?labels[?'cattle.io/creator'] == optional.of('norman')",
            "object.metadata.?labels[?'private'] == optional.of('')",
        ] {
            assert_eq!(decides.matches(part).count(), 1, "{part} in {}", entry.name);
            let old = part.replace("object.", "oldObject.");
            assert_eq!(decides.matches(&old).count(), 1, "{old} in {}", entry.name);
        }
    }
}

fn of_copies(settings: &RegistrationSettings) -> Vec<String> {
    let spec = specs(settings).into_iter().nth(1).unwrap();
    spec.validations.unwrap().into_iter().map(|it| it.expression).collect()
}

/// Every pattern must be expressible without a regular expression.
#[test]
fn tracking_keys_can_be_removed_unless_they_are_propagated() {
    let content = &of_copies(&everything())[3];
    for pattern in forest::tracking_keys() {
        let prefix = pattern.trim_end_matches('*');
        assert!(!prefix.contains(['*', '?', '[', '{', '\\']), "{pattern}");
        let literal =
            if prefix == pattern { format!("'{pattern}'") } else { format!("k.startsWith('{prefix}')") };
        // Of labels and of annotations.
        assert_eq!(content.matches(&literal).count(), 2, "{pattern}");
    }
    let settings = RegistrationSettings { propagate_tracking_metadata: true, ..everything() };
    let content = &of_copies(&settings)[3];
    assert!(!content.contains("helm.sh") && !content.contains("orValue({})"), "{content}");
    assert!(content.contains("object.metadata.?labels == oldObject.metadata.?labels"), "{content}");
}

/// As for [`the_sizes_are_asked_before_any_loop_over_keys`]: the same for the loops that compare copies.
#[test]
fn the_sizes_are_asked_before_copies_are_compared() {
    let closed = of_objects(&alone()).into_iter().filter(|entry| entry.policy == "Fail");
    let closed = closed.map(|entry| entry.conditions.last().unwrap().expression.clone());
    let mut loops = 0;
    for expression in of_copies(&everything()).into_iter().chain(closed) {
        for of in ["object", "oldObject"] {
            for map in ["labels", "annotations"].map(|map| format!("{of}.metadata.?{map}.orValue({{}})")) {
                // What ends in the shorter name is not meant.
                let looped = format!("\n{map}.all(");
                for (at, _) in expression.match_indices(&looped) {
                    assert!(
                        expression[..at].contains(&format!("{map}.size() <= 1000")),
                        "{map} in {expression}"
                    );
                    loops += 1;
                }
            }
        }
    }
    // One policy and two entries: of each of four maps.
    assert_eq!(loops, 3 * 4);
}
