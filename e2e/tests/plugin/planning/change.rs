//! Changes, as arguments of `plan` and as requests of a user.

use anyhow::{Result, bail};
use hns_api::{HNCConfiguration, HierarchyConfigurationSpec, SubnamespaceAnchorSpec, names};
use hns_e2e::{Dice, Steps};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::snapshot::Snapshot;

/// A change of a user.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Set { name: String, parent: Option<String>, allow: bool },
    Create { parent: String, child: String },
    Delete { name: String },
    SetResource { resource: &'static str, mode: &'static str },
    DeleteType { resource: &'static str },
}

/// The values for random changes.
pub(super) struct Choice<'a> {
    pub(super) names: &'a [String],
    /// Those that have children.
    pub(super) parents: &'a [String],
    /// An unused name.
    pub(super) fresh: String,
    /// Whether a namespace may be deleted, which is slow.
    pub(super) deletions: bool,
    /// The resources that are configured.
    pub(super) configured: &'a [String],
}

const RESOURCES: [&str; 2] = ["configmaps", "limitranges"];
const MODES: [&str; 4] = ["Propagate", "AllowPropagate", "Remove", "Ignore"];

impl Change {
    pub(super) fn roll(dice: &mut Dice, choice: &Choice<'_>) -> Self {
        let name = dice.pick(choice.names);
        match dice.below(20) {
            0..12 => {
                let parent = (!dice.percent(20)).then(|| dice.pick(choice.names));
                Self::Set { name, parent, allow: dice.percent(20) }
            }
            12..14 => {
                let taken = dice.percent(40).then(|| dice.pick(choice.names));
                Self::Create { parent: name, child: taken.unwrap_or_else(|| choice.fresh.clone()) }
            }
            14..16 if choice.deletions => {
                let parent = !choice.parents.is_empty() && dice.percent(60);
                Self::Delete { name: if parent { dice.pick(choice.parents) } else { name } }
            }
            14..19 => Self::SetResource { resource: dice.pick(&RESOURCES), mode: dice.pick(&MODES) },
            _ => {
                let resource = dice.pick(&RESOURCES);
                if choice.configured.iter().any(|it| it == resource) {
                    Self::DeleteType { resource }
                } else {
                    Self::SetResource { resource, mode: "Propagate" }
                }
            }
        }
    }

    /// Whether only an administrator can make it.
    pub(super) fn is_configuration(&self) -> bool {
        matches!(self, Self::SetResource { .. } | Self::DeleteType { .. })
    }

    /// The arguments of `plan`.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Set { name, parent, allow } => {
                let place =
                    parent.as_ref().map_or("--root".to_owned(), |parent| format!("--parent {parent}"));
                format!("plan set {name} {place} {}", if *allow { "-a" } else { "-f" })
            }
            Self::Create { parent, child } => format!("plan create {child} -n {parent}"),
            Self::Delete { name } => format!("plan delete {name}"),
            Self::SetResource { resource, mode } => {
                format!("plan config set-resource {resource} --mode {mode} --force")
            }
            Self::DeleteType { resource } => format!("plan config delete-type --resource {resource}"),
        }
    }

    /// Makes the change, or only has it judged as a dry run; returns the denial, if any.
    pub(super) async fn make(&self, steps: &Steps, snapshot: &Snapshot, dry: bool) -> Result<Option<Status>> {
        let params = PatchParams { dry_run: dry, ..PatchParams::default() };
        let post = PostParams { dry_run: dry, ..PostParams::default() };
        let delete = DeleteParams { dry_run: dry, ..DeleteParams::default() };
        let done = match self {
            Self::Set { name, parent, allow } => {
                return set(steps, name, parent.as_deref(), *allow, &post).await;
            }
            Self::Create { parent, child } => {
                let anchor = hns_api::SubnamespaceAnchor::new(child, SubnamespaceAnchorSpec::default());
                steps.anchors(parent).create(&post, &anchor).await.map(drop)
            }
            Self::Delete { name } => match snapshot.anchors.iter().find(|(_, it)| it == name) {
                Some((parent, _)) => steps.anchors(parent).delete(name, &delete).await.map(drop),
                None => steps.namespaces().delete(name, &delete).await.map(drop),
            },
            Self::SetResource { resource, mode } => {
                let mut entries = entries(steps).await?;
                match entries.iter_mut().find(|it| it["resource"] == *resource) {
                    Some(entry) => entry["mode"] = json!(mode),
                    None => entries.push(json!({ "resource": resource, "mode": mode })),
                }
                configure(steps, &entries, &params).await
            }
            Self::DeleteType { resource } => {
                let mut entries = entries(steps).await?;
                entries.retain(|it| it["resource"] != *resource);
                configure(steps, &entries, &params).await
            }
        };
        refused(done)
    }
}

fn refused(done: Result<(), kube::Error>) -> Result<Option<Status>> {
    match done {
        Ok(()) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(*status)),
        Err(error) => bail!(error),
    }
}

/// As the plugin does it: updates the whole object, or creates one; `None` if nothing changes.
async fn set(
    steps: &Steps,
    name: &str,
    parent: Option<&str>,
    allow: bool,
    params: &PostParams,
) -> Result<Option<Status>> {
    let api = steps.hierarchies(name);
    let known = match api.get_opt("hierarchy").await {
        Ok(known) => known,
        Err(error) => return refused(Err(error)),
    };
    let exists = known.is_some();
    let mut object = known.unwrap_or_else(|| {
        hns_api::HierarchyConfiguration::new("hierarchy", HierarchyConfigurationSpec::default())
    });
    let before = object.spec.clone();
    object.spec.parent = parent.map(str::to_owned);
    object.spec.allow_cascading_deletion = Some(allow);
    let same = before.parent.filter(|it| !it.is_empty()) == object.spec.parent
        && before.allow_cascading_deletion.unwrap_or(false) == allow;
    if same {
        return Ok(None);
    }
    refused(if exists {
        api.replace("hierarchy", params, &object).await.map(drop)
    } else {
        api.create(params, &object).await.map(drop)
    })
}

/// The entries of the configuration.
pub(super) async fn entries(steps: &Steps) -> Result<Vec<Value>> {
    let found = Api::<HNCConfiguration>::all(steps.client.clone()).get_opt(names::HNC_CONFIGURATION).await?;
    let found = found.map(|it| serde_json::to_value(it.spec)).transpose()?.unwrap_or_default();
    Ok(found["resources"].as_array().cloned().unwrap_or_default())
}

async fn configure(steps: &Steps, entries: &[Value], params: &PatchParams) -> Result<(), kube::Error> {
    let api = Api::<HNCConfiguration>::all(steps.client.clone());
    let patch = Patch::Merge(json!({ "spec": { "resources": entries } }));
    api.patch(names::HNC_CONFIGURATION, params, &patch).await.map(drop)
}
