//! What the controller owns of objects that a manifest is applied to again and again, and a user who tries all the time to make
//! use of a moment in which it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hns_e2e::Cluster;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const GROUP: &str = "admissionregistration.k8s.io";

async fn get(client: &Client, kind: &str, name: &str) -> Value {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// Each authority, the kinds in the entries about objects, and those of which copies are guarded.
pub(crate) async fn owned(cluster: &Cluster) -> Value {
    let client = cluster.admin();
    let validating =
        get(&client, "ValidatingWebhookConfiguration", "hnc-validating-webhook-configuration").await;
    let mutating = get(&client, "MutatingWebhookConfiguration", "hnc-mutating-webhook-configuration").await;
    let binding = get(&client, "ValidatingAdmissionPolicyBinding", "hns-copies").await;
    let entries = |object: &Value| -> serde_json::Map<String, Value> {
        // With a mutating policy there are no mutating webhooks.
        let entries = object["webhooks"].as_array().into_iter().flatten();
        entries
            .map(|entry| {
                let name = entry["name"].as_str().unwrap();
                let rules = if name.contains("objects") { &entry["rules"] } else { &Value::Null };
                let authority = &entry["clientConfig"]["caBundle"];
                (name.to_owned(), json!({ "authority": authority, "rules": rules }))
            })
            .collect()
    };
    json!({
        "validating": entries(&validating),
        "mutating": entries(&mutating),
        "kinds": binding["spec"]["matchResources"]["resourceRules"],
    })
}

/// Whether all of it is there, and the kinds name `resource`.
pub(crate) fn is_whole(owned: &Value, resource: &str) -> bool {
    let entries = || {
        let of = |which: &str| owned[which].as_object().unwrap().iter();
        of("validating").chain(of("mutating"))
    };
    let names = |rules: &Value| rules.to_string().contains(&format!("\"{resource}\""));
    entries().all(|(_, entry)| entry["authority"].is_string())
        && entries().filter(|(name, _)| name.contains("objects")).all(|(_, entry)| names(&entry["rules"]))
        && names(&owned["kinds"])
}

/// Somebody who edits copies once a second.
pub(crate) struct Tinkerer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<String>>,
}

impl Tinkerer {
    /// Begins. Each copy is a plural's path and a name.
    pub(crate) fn start(client: Client, copies: Vec<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut answers = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                for copy in &copies {
                    answers.push(format!("{copy}: {}", attempt(&client, copy).await));
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            answers
        });
        Self { stop, task }
    }

    /// Ends, and says how many attempts there were. Fails when one was not refused.
    pub(crate) async fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let answers = self.task.await.unwrap();
        let wrong: Vec<&String> = answers.iter().filter(|it| !it.contains("refused")).collect();
        assert!(wrong.is_empty(), "of {} edits of copies: {wrong:#?}", answers.len());
        answers.len()
    }
}

async fn attempt(client: &Client, path: &str) -> String {
    let edit = Patch::Merge(json!({ "metadata": { "labels": { "tinkered": "yes" } } }));
    let request = kube::core::Request::new(path.rsplit_once('/').unwrap().0);
    let name = path.rsplit_once('/').unwrap().1;
    let request = request.patch(name, &PatchParams::default(), &edit).unwrap();
    match client.request_text(request).await {
        Ok(_) => "written".to_owned(),
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("is a copy") => {
            "refused".to_owned()
        }
        Err(error) => error.to_string(),
    }
}
