//! The webhook configurations and policies of hns in a cluster: deleted and created again, while no controller keeps them.

use std::time::Duration;

use anyhow::ensure;
use hns_e2e::Cluster;
use serde_json::{Value, json};

/// The API server reads policies once a second, and compiles them then.
const IN_FORCE: Duration = Duration::from_secs(2);

const RESOURCES: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,\
                         validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings";

/// What the controller had registered.
pub(crate) struct Registered<'c> {
    cluster: &'c Cluster,
    /// Without versions and owners.
    pub(crate) objects: Vec<Value>,
}

impl<'c> Registered<'c> {
    pub(crate) async fn read(cluster: &'c Cluster) -> anyhow::Result<Self> {
        let get = ["get", RESOURCES, "-o", "json"];
        let found: Value = serde_json::from_str(&cluster.kubectl().args(get).ok().await?)?;
        let is_ours = |it: &&Value| it["metadata"]["name"].as_str().is_some_and(|it| it.starts_with("hn"));
        let objects = found["items"].as_array().into_iter().flatten().filter(is_ours).cloned();
        let objects = objects.map(|mut object| {
            object["metadata"] = json!({ "name": object["metadata"]["name"] });
            object
        });
        Ok(Self { cluster, objects: objects.collect() })
    }

    /// A webhook configuration with this entry alone, or this policy and its binding.
    pub(crate) fn alone(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let mut alone = Vec::new();
        for object in &self.objects {
            let entries = object["webhooks"].as_array();
            let entry = entries.into_iter().flatten().find(|entry| entry["name"] == name);
            if let Some(entry) = entry {
                let mut object = object.clone();
                object["webhooks"] = json!([entry]);
                alone.push(object);
            } else if object["metadata"]["name"] == name {
                alone.push(object.clone());
            }
        }
        ensure!(!alone.is_empty(), "{name} is not registered");
        Ok(alone)
    }

    /// Creates these objects, and waits until they are in force.
    pub(crate) async fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        self.kubectl(&["create", "-f", "-"], objects).await
    }

    /// Deletes these objects, and waits until they are not in force any more.
    pub(crate) async fn delete(&self, objects: &[Value]) -> anyhow::Result<()> {
        self.kubectl(&["delete", "--ignore-not-found", "-f", "-"], objects).await
    }

    async fn kubectl(&self, words: &[&str], objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.cluster.kubectl().args(words.iter().copied()).stdin(list.to_string()).ok().await?;
        tokio::time::sleep(IN_FORCE).await;
        Ok(())
    }
}
