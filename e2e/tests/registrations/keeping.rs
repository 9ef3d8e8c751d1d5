//! What the leading controller does about registrations and policies that are not as its flags say: the real program, on a
//! cluster of its own, since it would put right what the tables need.

use std::time::Duration;

use hns_e2e::product::{CONTROLLER_USER, Component, Launch};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Cluster, Mark, Options, Product, Replica, eventually, stays};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::table::Users;

mod kinds;

const VALIDATING: &str = "validatingwebhookconfigurations/hnc-validating-webhook-configuration";
const MUTATING: &str = "mutatingwebhookconfigurations/hnc-mutating-webhook-configuration";

/// What the controller logs once it may write.
const LEADS: &str = "leading: everything is planned";

/// Objects of the group that all of this is about, as somebody whom no policy knows; to oneself for as long as this is held.
struct Objects {
    product: &'static Product<'static>,
    users: Users<'static>,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for one's turn, and begins it with everything as the manifests have it.
async fn turn() -> Objects {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static PRODUCT: OnceCell<Product<'static>> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let cluster = CLUSTER.get_or_init(async || Cluster::start().await.unwrap()).await;
    let product =
        PRODUCT.get_or_init(async || Product::install(cluster, Options::default()).await.unwrap()).await;
    product.install_registrations().await.unwrap();
    Objects { product, users: Users::of(cluster), _turn: turn }
}

impl Objects {
    async fn send(&self, method: Method, object: &str, body: &Value) -> Result<Value, kube::Error> {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{object}");
        self.users.send("operator", method, &path, body).await
    }

    async fn get(&self, object: &str) -> Result<Value, String> {
        self.send(Method::GET, object, &Value::Null).await.map_err(|error| error.to_string())
    }

    async fn entry(&self, object: &str, name: &str) -> Result<Value, String> {
        let found = self.get(object).await?;
        let entries = found["webhooks"].as_array().cloned().unwrap_or_default();
        entries
            .into_iter()
            .find(|entry| entry["name"] == name)
            .ok_or_else(|| format!("no {name} in {object}"))
    }

    /// Changes the entries of a webhook configuration.
    async fn change(&self, object: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let mut entries = self.get(object).await.unwrap()["webhooks"].as_array().unwrap().clone();
        change(&mut entries);
        self.send(Method::PATCH, object, &json!({ "webhooks": entries })).await.unwrap();
    }

    /// Waits until this is so.
    async fn until(&self, what: &str, check: impl AsyncFn(&Self) -> Result<bool, String>) {
        eventually(
            what,
            PATIENCE,
            async || {
                if check(self).await? { Ok(()) } else { Err("not so".to_owned()) }
            },
        )
        .await
        .unwrap();
        println!("  {what}");
    }

    /// The writes of the controller to this group.
    fn written(&self, since: Mark) -> Vec<AuditEvent> {
        let all = self.product.cluster().audit().mutating_by(CONTROLLER_USER, since).unwrap();
        all.into_iter().filter(|it| it.group == "admissionregistration.k8s.io").collect()
    }
}

async fn controller(objects: &Objects, flags: &[&str]) -> Replica {
    let args = flags.iter().map(|&flag| flag.to_owned()).collect();
    objects.product.start(Component::Controller, Launch { args, ..Launch::default() }).await.unwrap()
}

/// The condition by which an entry decides, where the names of excluded namespaces stand.
fn decides_by(entry: &Value) -> String {
    entry["matchConditions"]
        .as_array()
        .and_then(|all| all.last())
        .map(|it| it["expression"].to_string())
        .unwrap_or_default()
}

async fn knows_the_flags(objects: &Objects) {
    objects
        .until("the registrations know the controller's flags", async |objects| {
            let entry = objects.entry(VALIDATING, "namespaces.hnc.x-k8s.io").await?;
            let policy = objects.get("validatingadmissionpolicies/hns-namespace-keys").await?;
            let mutating = objects.entry(MUTATING, "namespacelabel.hnc.x-k8s.io").await?;
            let namespaces = "['hnc-system', 'kept-out']";
            let known = [decides_by(&entry), decides_by(&mutating), policy["spec"].to_string()];
            Ok(known.iter().all(|it| it.contains(namespaces)))
        })
        .await;
    objects.until("and nothing is left to be given back", given_back).await;
}

/// Whether the controller is on record for nothing that manifests say, so that it has no more to write on that account.
async fn given_back(objects: &Objects) -> Result<bool, String> {
    let mut all = vec![objects.get(VALIDATING).await?, objects.get(MUTATING).await?];
    for policy in hns_api::names::policies::ALL {
        if let Ok(found) = objects.get(&format!("validatingadmissionpolicies/{policy}")).await {
            all.push(found);
        }
    }
    let entries = all.iter().filter_map(|object| object["metadata"]["managedFields"].as_array()).flatten();
    let mut ours = entries.filter(|entry| entry["manager"] == "hns-controller");
    Ok(ours.all(|entry| {
        let fields = entry["fieldsV1"].to_string();
        !fields.contains("f:matchConditions") && !fields.contains("f:validations")
    }))
}

/// Waits until the controller writes nothing more: what it has put right it then gives back to whoever applies the manifests,
/// by one more write to each.
async fn quiet(objects: &Objects, since: Mark) -> Vec<String> {
    let calm = Duration::from_secs(2);
    eventually("the controller has done all it had to", PATIENCE, async || {
        let before = objects.written(since).len();
        let unchanged = async || match objects.written(since).len() {
            now if now == before => Ok(()),
            now => Err(format!("{now} writes")),
        };
        stays("nothing more is written", calm, unchanged).await.map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    objects.written(since).iter().map(|it| format!("{} {}", it.verb, it.resource)).collect()
}

#[tokio::test]
async fn what_is_changed_is_put_back_and_what_is_not_ours_is_left_alone() {
    let objects = turn().await;
    let flags = ["--excluded-namespace=kept-out"];
    let running = controller(&objects, &flags).await;
    knows_the_flags(&objects).await;

    for kind in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        for policy in hns_api::names::policies::ALL {
            let object = format!("{kind}/{policy}");
            let before = objects.get(&object).await.unwrap();
            objects.send(Method::DELETE, &object, &Value::Null).await.unwrap();
            objects
                .until(&format!("{object} was deleted, and is back"), async |objects| {
                    let found = objects.get(&object).await?;
                    Ok(found["spec"] == before["spec"]
                        && found["metadata"]["uid"] != before["metadata"]["uid"])
                })
                .await;
        }
    }
    let binding = "validatingadmissionpolicybindings/hns-copies";
    objects
        .send(Method::PATCH, binding, &json!({ "spec": { "validationActions": ["Warn"] } }))
        .await
        .unwrap();
    objects
        .until("a binding only warned, and denies again", async |objects| {
            Ok(objects.get(binding).await?["spec"]["validationActions"] == json!(["Deny"]))
        })
        .await;
    let policy = "validatingadmissionpolicies/hns-namespace-keys";
    let excluding = json!({ "spec": { "matchConstraints": { "excludeResourceRules": [
        { "apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["namespaces"] }] } } });
    objects.send(Method::PATCH, policy, &excluding).await.unwrap();
    objects
        .until("a policy excluded what it is for, and does not any more", async |objects| {
            Ok(objects.get(policy).await?["spec"]["matchConstraints"]["excludeResourceRules"].is_null())
        })
        .await;
    registrations_are_put_back(&objects).await;
    nothing_is_written_when_nothing_differs(&objects, running).await;
}

/// Who is called, and what is not ours, stays as it was found.
async fn registrations_are_put_back(objects: &Objects) {
    let hierarchies = "hierarchyconfigurations.hnc.x-k8s.io";
    let configurations = "hncconfigurations.hnc.x-k8s.io";
    let elsewhere = "https://127.0.0.1:1/elsewhere";
    objects
        .change(VALIDATING, |entries| {
            entries.retain(|entry| entry["name"] != configurations);
            let entry = entries.iter_mut().find(|entry| entry["name"] == hierarchies).unwrap();
            entry["failurePolicy"] = json!("Ignore");
            entry["matchConditions"] = json!([]);
            entry["clientConfig"] =
                json!({ "url": elsewhere, "caBundle": entry["clientConfig"]["caBundle"] });
            let mut foreign = entry.clone();
            foreign["name"] = json!("foreign.example.com");
            foreign["timeoutSeconds"] = json!(7);
            entries.push(foreign);
        })
        .await;
    objects
        .until("an entry failed open without conditions, and fails closed again; its address stays as it was set", async |objects| {
            let entry = objects.entry(VALIDATING, hierarchies).await?;
            let right = entry["failurePolicy"] == "Fail" && decides_by(&entry).contains("spec");
            Ok(right && entry["clientConfig"]["url"] == elsewhere)
        })
        .await;
    objects
        .until("a missing entry is back, called as the others are, under its own path", async |objects| {
            let entry = objects.entry(VALIDATING, configurations).await?;
            let mut expected =
                objects.entry(VALIDATING, "namespaces.hnc.x-k8s.io").await?["clientConfig"].take();
            expected["service"]["path"] = json!(hns_api::names::paths::HNC_CONFIGURATIONS);
            Ok(entry["clientConfig"] == expected && expected["caBundle"].is_string())
        })
        .await;
    objects
        .until("an entry of somebody else stays as it is", async |objects| {
            let entry = objects.entry(VALIDATING, "foreign.example.com").await?;
            Ok(entry["failurePolicy"] == "Ignore" && entry["timeoutSeconds"] == 7)
        })
        .await;
    objects.change(MUTATING, |entries| entries[0]["timeoutSeconds"] = json!(30)).await;
    objects
        .until("the mutating entry waited half a minute, and waits two seconds again", async |objects| {
            Ok(objects.entry(MUTATING, "namespacelabel.hnc.x-k8s.io").await?["timeoutSeconds"] == 2)
        })
        .await;
}

async fn nothing_is_written_when_nothing_differs(objects: &Objects, mut running: Replica) {
    objects.send(Method::DELETE, VALIDATING, &Value::Null).await.unwrap();
    let says = "is missing and cannot be created";
    objects.until("a deleted configuration is reported", async |_| Ok(running.log().contains(says))).await;
    assert!(objects.get(VALIDATING).await.is_err(), "nobody could know the authority");
    objects.product.install_registrations().await.unwrap();
    knows_the_flags(objects).await;

    let mark = objects.product.cluster().audit().mark().unwrap();
    running.restart().await.unwrap();
    leads_again(&running).await;
    stays("a restart with nothing to do writes nothing", Duration::from_secs(5), async || {
        let written = objects.written(mark);
        if written.is_empty() { Ok(()) } else { Err(format!("{written:?}")) }
    })
    .await
    .unwrap();
    println!("  a restart with nothing to do wrote nothing");
}

/// Make before break, in both directions.
#[tokio::test]
async fn policies_go_after_the_webhook_is_sent_more_and_come_before_it_is_sent_less() {
    let objects = turn().await;
    let flags = ["--excluded-namespace=kept-out"];
    let running = controller(&objects, &flags).await;
    knows_the_flags(&objects).await;
    quiet(&objects, objects.product.cluster().audit().mark().unwrap()).await;
    running.terminate().await.unwrap();
    let creator = "initial-admin";
    let anchors = "subnamespaceanchors.hnc.x-k8s.io";

    let mark = objects.product.cluster().audit().mark().unwrap();
    let running = controller(&objects, &[flags[0], "--admission-policies=false"]).await;
    objects
        .until(
            "all policies and bindings are gone, and the webhook judges the creator of an anchor",
            async |objects| {
                for policy in hns_api::names::policies::ALL {
                    for kind in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
                        if objects.get(&format!("{kind}/{policy}")).await.is_ok() {
                            return Ok(false);
                        }
                    }
                }
                Ok(decides_by(&objects.entry(VALIDATING, anchors).await?).contains(creator))
            },
        )
        .await;
    let written = quiet(&objects, mark).await;
    let mut expected = vec!["update validatingwebhookconfigurations".to_owned()];
    expected.extend(["delete validatingadmissionpolicybindings"; 5].map(str::to_owned));
    expected.extend(["delete validatingadmissionpolicies"; 5].map(str::to_owned));
    begins_with(&written, &expected);
    running.terminate().await.unwrap();

    let mark = objects.product.cluster().audit().mark().unwrap();
    let running = controller(&objects, &flags).await;
    objects
        .until("the policies are back, and the webhook is spared the creator of an anchor", async |objects| {
            Ok(!decides_by(&objects.entry(VALIDATING, anchors).await?).contains(creator))
        })
        .await;
    let written = quiet(&objects, mark).await;
    let mut expected = vec!["create validatingadmissionpolicies".to_owned(); 5];
    expected.extend(["create validatingadmissionpolicybindings"; 5].map(str::to_owned));
    expected.push("update validatingwebhookconfigurations".to_owned());
    begins_with(&written, &expected);
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn with_the_flag_off_everything_is_left_as_it_is() {
    let objects = turn().await;
    let binding = "validatingadmissionpolicybindings/hns-copies";
    let actions = async |action: &str| {
        let change = json!({ "spec": { "validationActions": [action] } });
        objects.send(Method::PATCH, binding, &change).await.unwrap();
    };
    let mark = objects.product.cluster().audit().mark().unwrap();
    let running =
        controller(&objects, &["--manage-registrations=false", "--excluded-namespace=kept-out"]).await;
    actions("Warn").await;
    eventually("it leads", PATIENCE, async || {
        if running.log().contains(LEADS) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    stays("nothing is written", Duration::from_secs(5), async || {
        let written = objects.written(mark);
        if written.is_empty() { Ok(()) } else { Err(format!("{written:?}")) }
    })
    .await
    .unwrap();
    running.terminate().await.unwrap();
    actions("Deny").await;
    println!("  with --manage-registrations=false nothing was written");
}

/// What follows gives fields back to whoever applies manifests, and changes nothing else.
fn begins_with(written: &[String], expected: &[String]) {
    let (first, rest) = written.split_at_checked(expected.len()).unwrap_or((written, &[]));
    assert_eq!(first, expected);
    assert!(rest.iter().all(|it| it.starts_with("update ")), "{rest:?}");
}

async fn leads_again(running: &Replica) {
    eventually("it leads again", PATIENCE, async || {
        let leads = running.log().matches(LEADS).count();
        if leads == 2 { Ok(()) } else { Err(format!("{leads} times")) }
    })
    .await
    .unwrap();
}
