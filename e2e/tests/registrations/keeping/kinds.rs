//! The kinds that registrations and policies are about follow the configuration.

use std::time::Duration;

use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::{Mark, stays};
use http::Method;
use serde_json::{Value, json};

use super::{Objects, VALIDATING, controller, knows_the_flags, leads_again, quiet, turn};

/// Group, or nothing for core, and plural, as [`kinds_of`] shows them.
const ENFORCED: [&str; 2] = ["rbac.authorization.k8s.io/rolebindings", "rbac.authorization.k8s.io/roles"];

#[tokio::test]
async fn kinds_follow_the_configuration_and_nothing_else_is_touched() {
    let objects = turn().await;
    let flags = ["--excluded-namespace=kept-out"];
    configure(&objects, &[]).await;
    let mut running = controller(&objects, &flags).await;
    knows_the_flags(&objects).await;
    until_kinds_are(&objects, &ENFORCED).await;
    quiet(&objects, objects.product.cluster().audit().mark().unwrap()).await;
    let before = objects.get(VALIDATING).await.unwrap();

    let mark = objects.product.cluster().audit().mark().unwrap();
    let modes = [
        ("secrets", "Propagate"),
        ("configmaps", "AllowPropagate"),
        ("services", "Ignore"),
        ("limitranges", "Remove"),
    ];
    configure(&objects, &modes).await;
    let more = ["/configmaps", "/limitranges", "/secrets", ENFORCED[0], ENFORCED[1]];
    until_kinds_are(&objects, &more).await;
    let update = |of: &str| format!("update {of}");
    let [policies, webhooks] =
        ["validatingadmissionpolicybindings", "validatingwebhookconfigurations"].map(update);
    assert_eq!(verbs(&objects, mark), [webhooks.clone(), policies.clone()]);
    only_rules_differ(&before, &objects.get(VALIDATING).await.unwrap());
    println!("  the webhook's entry knew of the kinds first, then the policy's binding, in one write each");

    // What is registered stays until the configuration has been read.
    let mark = objects.product.cluster().audit().mark().unwrap();
    running.restart().await.unwrap();
    leads_again(&running).await;
    stays("a restart does not forget the kinds for a moment", Duration::from_secs(5), async || {
        let written = verbs(&objects, mark);
        if written.is_empty() { Ok(()) } else { Err(format!("{written:?}")) }
    })
    .await
    .unwrap();

    configure(&objects, &modes[1..]).await;
    until_kinds_are(&objects, &["/configmaps", "/limitranges", ENFORCED[0], ENFORCED[1]]).await;
    configure(&objects, &[]).await;
    until_kinds_are(&objects, &ENFORCED).await;
    assert_eq!(objects.get(VALIDATING).await.unwrap()["webhooks"], before["webhooks"]);
    assert_eq!(verbs(&objects, mark), [webhooks.clone(), policies.clone(), webhooks, policies]);
    println!("  everything was as before in the end");
    running.terminate().await.unwrap();
}

/// Writes the configuration as the controller might, whom the webhook does not judge.
async fn configure(objects: &Objects, modes: &[(&str, &str)]) {
    let resources: Vec<Value> =
        modes.iter().map(|(resource, mode)| json!({ "resource": resource, "mode": mode })).collect();
    let body = json!({ "metadata": { "name": "config" }, "spec": { "resources": resources } });
    let all = "/apis/hnc.x-k8s.io/v1alpha2/hncconfigurations";
    let change = objects.users.send(CONTROLLER_USER, Method::PATCH, &format!("{all}/config"), &body).await;
    match change {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            objects.users.send(CONTROLLER_USER, Method::POST, all, &body).await.unwrap()
        }
        other => other.unwrap(),
    };
}

async fn until_kinds_are(objects: &Objects, expected: &[&str]) {
    objects
        .until(&format!("registered and guarded are {expected:?}"), async |objects| {
            let entry = objects.entry(VALIDATING, "objects.hnc.x-k8s.io").await?;
            if kinds_of(&entry["rules"]) != expected {
                return Err(format!("{}: {:?}", entry["name"], kinds_of(&entry["rules"])));
            }
            let binding = objects.get("validatingadmissionpolicybindings/hns-copies").await?;
            Ok(kinds_of(&binding["spec"]["matchResources"]["resourceRules"]) == expected)
        })
        .await;
}

/// What rules are about; each must be about the statuses of the same kinds as well.
fn kinds_of(rules: &Value) -> Vec<String> {
    let named = rules.as_array().unwrap().iter().flat_map(|rule| {
        let group = rule["apiGroups"][0].as_str().unwrap();
        let resources = rule["resources"].as_array().unwrap().iter();
        resources.map(move |resource| format!("{group}/{}", resource.as_str().unwrap()))
    });
    let (statuses, kinds): (Vec<String>, Vec<String>) = named.partition(|it| it.ends_with("/status"));
    let with_status: Vec<String> = kinds.iter().map(|kind| format!("{kind}/status")).collect();
    assert_eq!(statuses, with_status);
    kinds
}

fn only_rules_differ(before: &Value, after: &Value) {
    let without_rules = |object: &Value| {
        let mut entries = object["webhooks"].as_array().unwrap().clone();
        for entry in &mut entries {
            if entry["name"].as_str().unwrap().contains("objects") {
                entry["rules"] = Value::Null;
            }
        }
        entries
    };
    assert_eq!(without_rules(before), without_rules(after));
    assert_eq!(before["metadata"]["labels"], after["metadata"]["labels"]);
}

fn verbs(objects: &Objects, since: Mark) -> Vec<String> {
    objects.written(since).iter().map(|it| format!("{} {}", it.verb, it.resource)).collect()
}
