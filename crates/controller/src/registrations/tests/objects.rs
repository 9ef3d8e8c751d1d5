//! The webhooks for objects, and the policy for copies.

use super::*;

/// The webhooks for sources and for copies.
fn both() -> [Entry; 2] {
    let names = [names::webhooks::OBJECTS, names::webhooks::COPIES];
    let entries = entries(&alone()).into_iter().filter(|entry| names.contains(&&*entry.name));
    entries.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("two entries"))
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

/// Programs that read HNC's registration look for the kinds in the webhook with HNC's name. Only copies cannot be deleted.
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
    let [sources, copies] = both();
    assert_eq!(shown(&sources.rules), expected(&["CREATE", "UPDATE"]));
    assert_eq!(shown(&copies.rules), expected(&["CREATE", "UPDATE", "DELETE"]));
}

#[test]
fn the_order_of_kinds_means_nothing() {
    let mut reversed = everything();
    reversed.propagated.reverse();
    let twice = reversed.propagated.clone();
    reversed.propagated.extend(twice);
    assert_eq!(admission(&everything()), admission(&reversed));
}

/// Sources are judged in namespaces with children only, copies everywhere.
#[test]
fn labels_of_namespaces_and_objects_decide_between_the_entries() {
    let shown = |selector: Option<LabelSelector>| -> Vec<String> {
        let requirements = selector.unwrap().match_expressions.unwrap_or_default().into_iter();
        let shown =
            requirements.map(|it| format!("{} {} {:?}", it.key, it.operator, it.values.unwrap_or_default()));
        shown.collect()
    };
    let managed =
        ["hnc.x-k8s.io/included-namespace In [\"true\"]", "hnc.x-k8s.io/excluded-namespace NotIn [\"true\"]"];
    let [sources, copies] = both();
    let [namespaces, objects] = sources.selectors.map(shown);
    assert_eq!(namespaces, [managed[0], managed[1], "hnc.x-k8s.io/has-children Exists []"]);
    assert_eq!(objects, ["hnc.x-k8s.io/inherited-from DoesNotExist []"]);
    let [namespaces, objects] = copies.selectors.map(shown);
    assert_eq!(namespaces, managed);
    assert_eq!(objects, ["hnc.x-k8s.io/inherited-from Exists []"]);
}

/// Only the controller is exempt, and of copies also the namespace controller.
#[test]
fn copies_are_judged_by_policies_or_by_the_webhook() {
    let names =
        |entry: &Entry| -> Vec<String> { entry.conditions.iter().map(|it| it.name.clone()).collect() };
    let [sources, copies] = both();
    assert_eq!(names(&sources), ["not-the-controller", "not-a-copy", "can-be-refused"]);
    assert_eq!(names(&copies), ["not-the-controller", "not-the-namespace-controller", "can-be-refused"]);
    assert!(copies.conditions[2].expression.contains("ownerReferences"));
}

/// The webhook for sources skips excluded objects.
#[test]
fn what_never_propagates_is_known_by_everything_that_a_request_shows() {
    let [sources, _] = both();
    let decides = &sources.conditions[2].expression;
    for part in [
        "request.resource.resource == 'configmaps' && object.metadata.?name.orValue('') == 'kube-root-ca.crt'",
        "request.resource.resource == 'configmaps' && object.metadata.?name.orValue('') == 'istio-ca-root-cert'",
        "request.resource.resource == 'serviceaccounts' && object.metadata.?name.orValue('') == 'default'",
        "object.?type.orValue('') in ['helm.sh/release.v1', 'kubernetes.io/service-account-token']",
    ] {
        assert_eq!(decides.matches(part).count(), 1, "{part}");
    }
    for part in [
        "object.metadata.?annotations[?'openshift.io/description'].hasValue()",
        "object.metadata.?finalizers.orValue([]).size() > 0",
        "object.metadata.?labels[?'cattle.io/creator'] == optional.of('norman')",
        "object.metadata.?labels[?'private'] == optional.of('')",
    ] {
        assert_eq!(decides.matches(part).count(), 1, "{part}");
        let old = part.replace("object.", "oldObject.");
        assert_eq!(decides.matches(&old).count(), 1, "{old}");
    }
}

fn of_copies(settings: &RegistrationSettings) -> Vec<String> {
    let at = names::policies::ALL.iter().position(|name| *name == names::policies::COPIES).unwrap();
    let spec = specs(settings).into_iter().nth(at).unwrap();
    spec.validations.unwrap().into_iter().map(|it| it.expression).collect()
}

/// Every pattern must be expressible without a regular expression.
#[test]
fn tracking_keys_can_be_removed_unless_they_are_propagated() {
    let content = &of_copies(&everything())[4];
    for pattern in forest::tracking_keys() {
        let prefix = pattern.trim_end_matches('*');
        assert!(!prefix.contains(['*', '?', '[', '{', '\\']), "{pattern}");
        let literal =
            if prefix == pattern { format!("'{pattern}'") } else { format!("k.startsWith('{prefix}')") };
        // Of labels and of annotations.
        assert_eq!(content.matches(&literal).count(), 2, "{pattern}");
    }
    let settings = RegistrationSettings { propagate_tracking_metadata: true, ..everything() };
    let content = &of_copies(&settings)[4];
    assert!(!content.contains("helm.sh") && !content.contains("orValue({})"), "{content}");
    assert!(content.contains("object.metadata.?labels == oldObject.metadata.?labels"), "{content}");
}

/// As for [`the_sizes_are_asked_before_any_loop_over_keys`]: the same for the loops that compare copies.
#[test]
fn the_sizes_are_asked_before_copies_are_compared() {
    let [_, copies] = both();
    let closed = [copies.conditions[2].expression.clone()];
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
    // One policy and one webhook: of each of four maps.
    assert_eq!(loops, 2 * 4);
}
