//! The user's hands: sends operations as requests and says whether they were accepted.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use hns_api::{HNCConfiguration, HNCConfigurationSpec, ResourceSpec, SynchronizationMode};
use hns_e2e::Steps;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::kind::{Form, Kind};
use super::operation::Operation;
use super::specification::{Key, Mode, TEAM, World};

/// The codes of a refusal: by the API server's own rules, by ours, or for the moment.
const REFUSALS: [u16; 7] = [400, 401, 403, 409, 422, 500, 503];

pub(crate) struct User {
    pub(crate) steps: Steps,
    /// By code and the beginning of the reason.
    pub(crate) refused: BTreeMap<(u16, String), usize>,
}

impl User {
    pub(crate) fn of(client: Client) -> Self {
        Self { steps: Steps::of(client), refused: BTreeMap::new() }
    }

    pub(crate) fn objects(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.steps.client.clone(), namespace, &kind.resource())
    }

    /// Does it; whether it was accepted. `world` is how things are before.
    pub(crate) async fn act(&mut self, operation: &Operation, world: &World) -> Result<bool> {
        let answer = match operation {
            Operation::Create(key, own) => {
                let manifest = manifest(key, &own.form(key.kind));
                let object = serde_json::from_value(manifest)?;
                let api = self.objects(key.kind, &key.namespace);
                api.create(&PostParams::default(), &object).await.map(drop)
            }
            Operation::Change(_, key, own) => {
                let old = world.own.get(key).context("a change of what exists")?.form(key.kind);
                let patch = change(&old, &own.form(key.kind));
                let api = self.objects(key.kind, &key.namespace);
                api.patch(key.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            Operation::Delete(key) => {
                let api = self.objects(key.kind, &key.namespace);
                api.delete(key.name, &DeleteParams::default()).await.map(drop)
            }
            Operation::Move(child, parent) => {
                self.steps.set_parent(child, parent.as_deref().unwrap_or_default()).await.map(drop)
            }
            Operation::Mode(..) => self.configure(&operation.done(world)).await,
            Operation::Team(namespace, team) => {
                let patch = Patch::Merge(json!({ "metadata": { "labels": { TEAM: team } } }));
                self.steps.namespaces().patch(namespace, &PatchParams::default(), &patch).await.map(drop)
            }
        };
        self.judge(answer, operation)
    }

    /// Makes the modes of `world` the configuration.
    pub(crate) async fn configure(&self, world: &World) -> Result<(), kube::Error> {
        let entry = |kind: Kind| {
            let mode = match world.mode(kind) {
                Mode::Propagate => SynchronizationMode::Propagate,
                Mode::AllowPropagate => SynchronizationMode::AllowPropagate,
                Mode::Remove => SynchronizationMode::Remove,
                Mode::Ignore => SynchronizationMode::Ignore,
                Mode::Dropped => return None,
            };
            let (group, resource, _) = kind.names();
            Some(ResourceSpec {
                group: (!group.is_empty()).then(|| group.to_owned()),
                resource: resource.to_owned(),
                mode: Some(mode),
                on_conflict: kind.on_conflict(),
                ..ResourceSpec::default()
            })
        };
        let resources = Kind::CONFIGURED.into_iter().filter_map(entry).collect();
        let config =
            HNCConfiguration::new("config", HNCConfigurationSpec { resources: Some(resources), trees: None });
        let api: Api<HNCConfiguration> = Api::all(self.steps.client.clone());
        api.patch("config", &PatchParams::apply("chaos").force(), &Patch::Apply(&config)).await.map(drop)
    }

    fn judge(&mut self, answer: Result<(), kube::Error>, operation: &Operation) -> Result<bool> {
        match answer {
            Ok(()) => Ok(true),
            Err(kube::Error::Api(status)) if REFUSALS.contains(&status.code) => {
                let ours =
                    if status.message.contains("admission webhook") { "webhook" } else { "API server" };
                let why = format!("{:?} by the {ours}: {}", operation.sort(), status.reason);
                *self.refused.entry((status.code, why)).or_default() += 1;
                Ok(false)
            }
            Err(error) => bail!("{operation:?}: {error}"),
        }
    }
}

fn manifest(key: &Key, form: &Form) -> Value {
    let mut manifest = form.body.clone();
    let resource = key.kind.resource();
    manifest["apiVersion"] = json!(resource.api_version);
    manifest["kind"] = json!(resource.kind);
    manifest["metadata"] = json!({
        "name": key.name, "namespace": key.namespace, "labels": form.labels, "annotations": form.annotations,
    });
    manifest
}

/// A merge patch from one form to another: a key that is to go is null.
fn change(old: &Form, new: &Form) -> Value {
    let metadata = |old: &BTreeMap<String, String>, new: &BTreeMap<String, String>| {
        let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
        gone.chain(new.iter().map(|(key, value)| (key.clone(), json!(value)))).collect::<Map<_, _>>()
    };
    let mut patch = new.body.clone();
    patch["metadata"] = json!({
        "labels": metadata(&old.labels, &new.labels),
        "annotations": metadata(&old.annotations, &new.annotations),
    });
    patch
}
