//! The leading controller creates and corrects registrations and policies. The tests run the program on a cluster of their own, because
//! it would correct what the tables of this suite need.

use std::time::Duration;

use hns_api::names;
use hns_cluster::settings::FailurePolicy;
use hns_e2e::product::{CONTROLLER_USER, Component, Launch};
use hns_e2e::programs::Kubernetes;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Cluster, Mark, Options, Product, Replica, eventually, stays};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::table::Users;

mod first;
mod kinds;

const VALIDATING: &str = "validatingwebhookconfigurations/hnc-validating-webhook-configuration";
const MUTATING: &str = "mutatingwebhookconfigurations/hnc-mutating-webhook-configuration";

/// The policy that labels namespaces, in place of a mutating webhook.
const LABELS_POLICY: &str = "mutatingadmissionpolicies/hns-defaults";

/// What the controller logs once it may write.
const LEADS: &str = "leading: everything is planned";

/// Objects of the group that all of this is about, as somebody whom no policy knows; to oneself for as long as this is held.
struct Objects {
    product: &'static Product<'static>,
    users: Users<'static>,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for the turn of one test, and restores the registrations as the default settings require them.
async fn turn() -> Objects {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static PRODUCT: OnceCell<Product<'static>> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let cluster = CLUSTER.get_or_init(async || Cluster::start().await.unwrap()).await;
    // With the rights for quotas, which some settings of the tests enable.
    let manifests = Options::with_quotas(FailurePolicy::Fail).manifests;
    let options = Options { manifests, ..Options::default() };
    let product = PRODUCT.get_or_init(async || Product::install(cluster, options).await.unwrap()).await;
    product.install_registrations().await.unwrap();
    Objects { product, users: Users::of(cluster), _turn: turn }
}

fn has_mutating_policies() -> bool {
    Kubernetes::wanted().unwrap().has_mutating_policies()
}

/// All policies and bindings of the default settings, which enforce no quotas.
pub(super) fn policies() -> Vec<String> {
    let names = names::policies::ALL.into_iter().filter(|name| *name != names::policies::QUOTAS);
    let validating = names.flat_map(|name| {
        ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
            .map(|kind| format!("{kind}/{name}"))
    });
    let mutating = [LABELS_POLICY, "mutatingadmissionpolicybindings/hns-defaults"].map(str::to_owned);
    validating.chain(mutating.into_iter().filter(|_| has_mutating_policies())).collect()
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
            let mutating = if has_mutating_policies() {
                objects.get(LABELS_POLICY).await?["spec"].to_string()
            } else {
                decides_by(&objects.entry(MUTATING, "namespacelabel.hnc.x-k8s.io").await?)
            };
            let namespaces = "['hnc-system', 'kept-out']";
            let known = [decides_by(&entry), mutating, policy["spec"].to_string()];
            Ok(known.iter().all(|it| it.contains(namespaces)))
        })
        .await;
}

/// Waits until the controller writes nothing more. The pause after writes of policies is shorter.
async fn quiet(objects: &Objects, since: Mark) -> Vec<String> {
    let calm = Duration::from_secs(4);
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
async fn what_is_changed_or_deleted_is_corrected() {
    let objects = turn().await;
    let flags = ["--excluded-namespace=kept-out"];
    let running = controller(&objects, &flags).await;
    knows_the_flags(&objects).await;

    for object in policies() {
        let before = objects.get(&object).await.unwrap();
        objects.send(Method::DELETE, &object, &Value::Null).await.unwrap();
        objects
            .until(&format!("{object} was deleted, and is back"), async |objects| {
                let found = objects.get(&object).await?;
                Ok(found["spec"] == before["spec"] && found["metadata"]["uid"] != before["metadata"]["uid"])
            })
            .await;
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
    registrations_are_corrected(&objects).await;
    nothing_is_written_when_nothing_differs(&objects, running).await;
}

#[tokio::test]
async fn what_is_about_quotas_comes_and_goes_with_the_setting() {
    let objects = turn().await;
    let (policy, binding) =
        ("validatingadmissionpolicies/hns-quotas", "validatingadmissionpolicybindings/hns-quotas");
    let usage = "resourcesquotasstatus.hnc.x-k8s.io";
    // As in the other tests, which count how often a controller leads: it leads anew when settings change.
    let others = "--excluded-namespace=kept-out";
    let running = controller(&objects, &[others, "--enable-hrq", "--hrq-failure-policy=Fail"]).await;
    objects
        .until("the policy, its binding and the webhooks are there", async |objects| {
            objects.get(policy).await?;
            objects.get(binding).await?;
            objects.entry(VALIDATING, "hrq.hnc.x-k8s.io").await?;
            Ok(objects.entry(VALIDATING, usage).await?["failurePolicy"] == "Fail")
        })
        .await;
    running.terminate().await.unwrap();
    let running = controller(&objects, &[others, "--enable-hrq"]).await;
    objects
        .until("usage fails open", async |objects| {
            Ok(objects.entry(VALIDATING, usage).await?["failurePolicy"] == "Ignore")
        })
        .await;
    running.terminate().await.unwrap();
    let running = controller(&objects, &[others]).await;
    objects
        .until("nothing is left of them", async |objects| {
            let is_gone = [
                objects.get(policy).await.is_err(),
                objects.get(binding).await.is_err(),
                objects.entry(VALIDATING, "hrq.hnc.x-k8s.io").await.is_err(),
                objects.entry(VALIDATING, usage).await.is_err(),
            ];
            Ok(is_gone == [true; 4])
        })
        .await;
    running.terminate().await.unwrap();
}

/// Addresses included. Webhooks of others go: HNC's webhooks for quotas are in the same object, and hns answers them with an error.
async fn registrations_are_corrected(objects: &Objects) {
    let hierarchies = "hierarchyconfigurations.hnc.x-k8s.io";
    objects
        .change(VALIDATING, |entries| {
            entries.retain(|entry| entry["name"] != "hncconfigurations.hnc.x-k8s.io");
            let entry = entries.iter_mut().find(|entry| entry["name"] == hierarchies).unwrap();
            entry["failurePolicy"] = json!("Ignore");
            entry["matchConditions"] = json!([{ "name": "never", "expression": "false" }]);
            entry["clientConfig"] =
                json!({ "url": "https://127.0.0.1:1/x", "caBundle": entry["clientConfig"]["caBundle"] });
            let mut foreign = entry.clone();
            foreign["name"] = json!("foreign.example.com");
            entries.push(foreign);
        })
        .await;
    objects
        .until("a webhook failed open, never asked, elsewhere; and is as before", async |objects| {
            let entry = objects.entry(VALIDATING, hierarchies).await?;
            let sibling = objects.entry(VALIDATING, "namespaces.hnc.x-k8s.io").await?;
            let conditions = entry["matchConditions"].to_string();
            Ok(entry["failurePolicy"] == "Fail"
                && !conditions.contains("never")
                && entry["clientConfig"]["url"].is_null()
                && entry["clientConfig"]["service"]["port"] == sibling["clientConfig"]["service"]["port"])
        })
        .await;
    objects
        .until("a deleted webhook is back, with the certificate", async |objects| {
            let entry = objects.entry(VALIDATING, "hncconfigurations.hnc.x-k8s.io").await?;
            Ok(entry["clientConfig"]["caBundle"].is_string())
        })
        .await;
    objects
        .until("a webhook of others is gone", async |objects| {
            Ok(objects.entry(VALIDATING, "foreign.example.com").await.is_err())
        })
        .await;
    if has_mutating_policies() {
        let closed = json!({ "spec": { "failurePolicy": "Fail" } });
        objects.send(Method::PATCH, LABELS_POLICY, &closed).await.unwrap();
        objects
            .until("the mutating policy failed closed, and fails open again", async |objects| {
                Ok(objects.get(LABELS_POLICY).await?["spec"]["failurePolicy"] == "Ignore")
            })
            .await;
    } else {
        objects.change(MUTATING, |entries| entries[0]["timeoutSeconds"] = json!(30)).await;
        objects
            .until(
                "the mutating webhook waited half a minute, and waits two seconds again",
                async |objects| {
                    Ok(objects.entry(MUTATING, "namespacelabel.hnc.x-k8s.io").await?["timeoutSeconds"] == 2)
                },
            )
            .await;
    }
    let without_owner = json!({ "metadata": { "ownerReferences": null } });
    objects.send(Method::PATCH, VALIDATING, &without_owner).await.unwrap();
    objects
        .until("the owner is back", async |objects| {
            Ok(objects.get(VALIDATING).await?["metadata"]["ownerReferences"][0]["name"] == "hns-controller")
        })
        .await;
    for object in [VALIDATING, MUTATING] {
        let before = objects.get(object).await.unwrap();
        objects.send(Method::DELETE, object, &Value::Null).await.unwrap();
        objects
            .until(&format!("{object} was deleted, and is back"), async |objects| {
                Ok(objects.get(object).await?["webhooks"] == before["webhooks"])
            })
            .await;
    }
}

async fn nothing_is_written_when_nothing_differs(objects: &Objects, mut running: Replica) {
    quiet(objects, objects.product.cluster().audit().mark().unwrap()).await;
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

/// One of the policies about hierarchical quotas does not exist.
const POLICIES: usize = names::policies::ALL.len() - 1;

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
                for object in policies() {
                    if objects.get(&object).await.is_ok() {
                        return Ok(false);
                    }
                }
                Ok(decides_by(&objects.entry(VALIDATING, anchors).await?).contains(creator))
            },
        )
        .await;
    let written = quiet(&objects, mark).await;
    let mutating = |write: &'static str| has_mutating_policies().then_some(write);
    let expected = ["update validatingwebhookconfigurations"]
        .into_iter()
        .chain(mutating("update mutatingwebhookconfigurations"))
        .chain(mutating("delete mutatingadmissionpolicybindings"))
        .chain(["delete validatingadmissionpolicybindings"; POLICIES])
        .chain(mutating("delete mutatingadmissionpolicies"))
        .chain(["delete validatingadmissionpolicies"; POLICIES]);
    assert_eq!(written, expected.collect::<Vec<_>>());
    running.terminate().await.unwrap();

    let mark = objects.product.cluster().audit().mark().unwrap();
    let running = controller(&objects, &flags).await;
    objects
        .until("the policies are back, and the webhook is spared the creator of an anchor", async |objects| {
            Ok(!decides_by(&objects.entry(VALIDATING, anchors).await?).contains(creator))
        })
        .await;
    let written = quiet(&objects, mark).await;
    let expected = ["patch validatingadmissionpolicies"; POLICIES]
        .into_iter()
        .chain(mutating("patch mutatingadmissionpolicies"))
        .chain(["patch validatingadmissionpolicybindings"; POLICIES])
        .chain(mutating("patch mutatingadmissionpolicybindings"))
        .chain(["update validatingwebhookconfigurations"])
        .chain(mutating("update mutatingwebhookconfigurations"));
    assert_eq!(written, expected.collect::<Vec<_>>());
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

async fn leads_again(running: &Replica) {
    eventually("it leads again", PATIENCE, async || {
        let leads = running.log().matches(LEADS).count();
        if leads == 2 { Ok(()) } else { Err(format!("{leads} times")) }
    })
    .await
    .unwrap();
}
