//! Moves a namespace, and converts between subnamespaces and full namespaces: the writes, their order, the rights that
//! they need, and their completion. `move` and `convert` use it.
//!
//! The order prevents data loss. The annotation on the namespace decides which anchor owns it, so it is changed before
//! an anchor is deleted: deleting that anchor then does not delete the namespace. After an interruption at any point,
//! nothing is lost, and the remaining steps follow from the current state.

mod arrival;
mod perform;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use forest::preview::Intent;
use forest::{Labels, Name};
use hns_api::accurate::labels::PARENT;
use hns_api::{KeyValue, annotations};
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::Value;

use super::hierarchy::{self, stays};
use crate::cluster_preview::{ClusterPreview, Document};
use crate::failure::{CONVERT, Problem};
use crate::lines::printable;
use crate::session::Session;
use crate::structure::{self, unreadable};
use crate::user_rights::{self, Right};
use crate::{Failure, Terminal, accurate_trees};

pub(super) use self::arrival::wait_for_arrival;
pub(super) use self::perform::{Attempts, PATIENCE, create_anchor, perform};

/// The current place of a namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Placement {
    pub(super) name: String,
    /// The parent in the annotation that makes it a subnamespace.
    pub(super) subnamespace_of: Option<String>,
    /// The parent in its `HierarchyConfiguration`.
    pub(super) parent: Option<String>,
    /// The other tool that manages its place.
    external_manager: Option<String>,
    /// Whether it is in a hierarchy of Accurate.
    is_in_accurate: bool,
    /// The parent there.
    accurate_parent: Option<String>,
    /// Whether its `HierarchyConfiguration` allows cascading deletion.
    allows_cascading_deletion: bool,
    /// The namespaces that have an anchor of its name.
    pub(super) anchors: Vec<String>,
    /// The managed labels and annotations of its anchor or, without one, of its `HierarchyConfiguration`.
    pub(super) managed: ManagedMetadata,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

/// Managed labels and annotations, as the `spec` of an anchor holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ManagedMetadata {
    pub(super) labels: Option<Vec<KeyValue>>,
    pub(super) annotations: Option<Vec<KeyValue>>,
}

/// A single write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Set the parent in the `HierarchyConfiguration`.
    SetParent { to: String },
    /// Change the annotation that names the parent of a subnamespace.
    Annotate { from: Option<String>, to: Option<String> },
    /// Create the anchor in this namespace.
    CreateAnchor { parent: String },
    /// Delete the anchor in this namespace, after it no longer owns the namespace.
    DeleteAnchor { parent: String },
}

impl Step {
    /// The line in a plan.
    pub(super) fn line(&self, name: &str) -> String {
        let key = annotations::SUBNAMESPACE_OF;
        match self {
            Self::SetParent { to } => format!("set the parent of {name} to {to}"),
            Self::Annotate { to: Some(to), from: None } => {
                format!("annotate namespace {name} with {key}={to}")
            }
            Self::Annotate { to: Some(to), from: Some(from) } => {
                format!("annotate namespace {name} with {key}={to} (now {from})")
            }
            Self::Annotate { to: None, .. } => format!("remove the annotation {key} from namespace {name}"),
            Self::CreateAnchor { parent } => format!("create the subnamespace anchor {name} in {parent}"),
            Self::DeleteAnchor { parent } => {
                format!("delete the subnamespace anchor {name} in {parent}, which then no longer owns {name}")
            }
        }
    }

    /// Who has to answer before the step is done.
    pub(super) fn waits_for(&self) -> &'static str {
        match self {
            Self::DeleteAnchor { .. } => "the controller",
            Self::SetParent { .. } | Self::Annotate { .. } | Self::CreateAnchor { .. } => "the API server",
        }
    }

    /// The step as an intent of a preview.
    fn intent(&self, placement: &Placement) -> Intent {
        let name = Name::from(&*placement.name);
        match self {
            Self::SetParent { to } => Intent::SetHierarchy {
                namespace: name,
                parent: Some(to.as_str().into()),
                allow_cascading_deletion: placement.allows_cascading_deletion,
            },
            Self::Annotate { to, .. } => {
                Intent::Annotate { namespace: name, subnamespace_of: to.as_deref().map(Name::from) }
            }
            Self::CreateAnchor { parent } => Intent::CreateAnchor {
                parent: parent.as_str().into(),
                child: name,
                labels: pairs(placement.managed.labels.as_deref()),
                annotations: pairs(placement.managed.annotations.as_deref()),
            },
            Self::DeleteAnchor { parent } => {
                Intent::DeleteAnchor { parent: parent.as_str().into(), child: name }
            }
        }
    }

    /// The other namespace that the step is about.
    fn target(&self) -> Option<&str> {
        match self {
            Self::SetParent { to } => Some(to),
            Self::Annotate { to, .. } => to.as_deref(),
            Self::CreateAnchor { parent } | Self::DeleteAnchor { parent } => Some(parent),
        }
    }

    /// The right that the step needs.
    fn right(&self, name: &str) -> Right {
        match self {
            Self::SetParent { .. } => Right::ours("update", "hierarchyconfigurations", name, ""),
            Self::Annotate { .. } => Right::namespace("update", name),
            Self::CreateAnchor { parent } => Right::ours("create", "subnamespaceanchors", parent, ""),
            Self::DeleteAnchor { parent } => Right::ours("delete", "subnamespaceanchors", parent, name),
        }
    }
}

fn pairs(pairs: Option<&[KeyValue]>) -> Labels {
    pairs.into_iter().flatten().map(|pair| (pair.key.as_str(), pair.value.as_str())).collect()
}

/// The steps that move the namespace below `to`, or that finish an interrupted move.
pub(super) fn move_to(placement: &Placement, to: &str) -> Vec<Step> {
    let Placement { subnamespace_of, parent, anchors, .. } = placement;
    if subnamespace_of.is_none() {
        let there = parent.as_deref() == Some(to);
        return if there { Vec::new() } else { vec![Step::SetParent { to: to.to_owned() }] };
    }
    let mut steps = Vec::new();
    if subnamespace_of.as_deref() != Some(to) {
        steps.push(Step::Annotate { from: subnamespace_of.clone(), to: Some(to.to_owned()) });
    }
    if !anchors.iter().any(|it| it == to) {
        steps.push(Step::CreateAnchor { parent: to.to_owned() });
    }
    steps.extend(anchors.iter().filter(|it| *it != to).cloned().map(|parent| Step::DeleteAnchor { parent }));
    steps
}

/// The steps that make a subnamespace a full namespace with the same parent.
pub(super) fn to_full(placement: &Placement) -> Result<Vec<Step>, Failure> {
    let Placement { name, subnamespace_of, parent, anchors, .. } = placement;
    let mut steps = Vec::new();
    if let Some(of) = subnamespace_of {
        // Otherwise the namespace would have no parent for a moment.
        if parent.as_ref() != Some(of) {
            return Err(Failure::new(format!(
                "Error: {name} is a subnamespace of {of}, and its parent is not {of} yet"
            ))
            .with_hint("The controller will set the parent: try again in a moment."));
        }
        steps.push(Step::Annotate { from: subnamespace_of.clone(), to: None });
    }
    steps.extend(anchors.iter().cloned().map(|parent| Step::DeleteAnchor { parent }));
    match &placement.accurate_parent {
        Some(parent) if steps.is_empty() => Err(Failure::new(format!(
            "Error: {name} is a sub-namespace of {parent} in Accurate's hierarchy, so it cannot become a full namespace"
        ))
        .with_hint(format!("`kubectl accurate sub cut {name}` makes it a root namespace of that hierarchy."))),
        _ => Ok(steps),
    }
}

/// The steps that make a full namespace a subnamespace of its parent.
pub(super) fn to_sub(placement: &Placement) -> Result<Vec<Step>, Failure> {
    let Placement { name, subnamespace_of, parent, anchors, .. } = placement;
    let Some(of) = subnamespace_of.as_ref().or(parent.as_ref()) else {
        if let Some(manager) = &placement.external_manager {
            return Err(Failure::new(format!(
                "Error: {} manages the place of {name} (annotation {}), so it cannot become a subnamespace",
                printable(manager),
                annotations::MANAGED_BY
            )));
        }
        if placement.is_in_accurate {
            return Err(Failure::new(format!(
                "Error: {name} is in a hierarchy of Accurate, so it cannot become a subnamespace"
            ))
            .with_hint(CONVERT));
        }
        return Err(Failure::new(format!("Error: {name} has no parent, so it cannot become a subnamespace"))
            .with_hint(format!("Set a parent first: `kubectl hns move {name} --to PARENT`.")));
    };
    let mut steps = Vec::new();
    if subnamespace_of.is_none() {
        steps.push(Step::Annotate { from: None, to: Some(of.clone()) });
    }
    if !anchors.contains(of) {
        steps.push(Step::CreateAnchor { parent: of.clone() });
    }
    Ok(steps)
}

/// Reads the place of a namespace; the namespaces `also` may have an anchor for it, besides its present parents.
pub(super) async fn read(session: &Session, name: &str, also: &[&str]) -> Result<Placement, Failure> {
    let namespaces = session.all::<Namespace>();
    let namespace = session.call(namespaces.get_metadata(name)).await.map_err(|it| unreadable(name, &it))?;
    stays(name, &namespace.metadata)?;
    let object = hierarchy::read(session, name).await?;
    let value =
        |key: &str| namespace.metadata.annotations.as_ref()?.get(key).filter(|it| !it.is_empty()).cloned();
    let labels = namespace.metadata.labels.as_ref();
    let label = |key: &str| labels?.get(key).map(String::as_str).filter(|it| !it.is_empty());
    let is_in_accurate = accurate_trees::is_in(session, name, label).await;
    let spec = hierarchy::spec(&object);
    let mut placement = Placement {
        name: name.to_owned(),
        subnamespace_of: value(annotations::SUBNAMESPACE_OF),
        external_manager: value(annotations::MANAGED_BY).filter(|it| it != hns_api::GROUP),
        is_in_accurate,
        accurate_parent: label(PARENT).filter(|_| is_in_accurate).map(str::to_owned),
        parent: spec.parent,
        allows_cascading_deletion: spec.allows_cascading_deletion,
        managed: managed(&object.data),
        ..Placement::default()
    };
    let own = [placement.subnamespace_of.clone(), placement.parent.clone()];
    let own = own.into_iter().flatten().filter(|it| !hierarchy::reports_missing(&object, it));
    let likely: BTreeSet<String> = own.chain(also.iter().map(|it| (*it).to_owned())).collect();
    for anchor in anchors(session, name, &likely, &mut placement.notes).await? {
        if anchor.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let namespace = anchor.metadata.namespace.clone().unwrap_or_default();
        let decides = placement.subnamespace_of.as_ref() == Some(&namespace) || placement.anchors.is_empty();
        if decides && placement.subnamespace_of.is_some() {
            placement.managed = managed(&anchor.data);
        }
        placement.anchors.push(namespace);
    }
    Ok(placement)
}

fn managed(data: &Value) -> ManagedMetadata {
    let list = |field: &str| serde_json::from_value(data["spec"][field].clone()).ok().flatten();
    ManagedMetadata { labels: list("labels"), annotations: list("annotations") }
}

/// The namespaces with an anchor of that name, in the whole cluster or, for a user who may not list them, among the
/// `likely` namespaces.
async fn anchors(
    session: &Session,
    name: &str,
    likely: &BTreeSet<String>,
    notes: &mut Vec<String>,
) -> Result<Vec<DynamicObject>, Failure> {
    let failed = |problem: Problem| Failure::because("subnamespaceanchors cannot be read", &problem);
    let everywhere = Api::<DynamicObject>::all_with(session.client.clone(), &structure::anchors());
    let of_that_name = ListParams::default().fields(&format!("metadata.name={name}"));
    match session.list(&everywhere, &of_that_name).await {
        Ok(found) => return Ok(found),
        Err(problem) if problem.is_forbidden() => {}
        Err(problem) => return Err(failed(problem)),
    }
    let (mut found, mut searched) = (Vec::new(), Vec::new());
    for namespace in likely {
        match session.call(anchors_in(session, namespace).get_opt(name)).await {
            Ok(anchor) => {
                found.extend(anchor);
                searched.push(&**namespace);
            }
            Err(problem) if problem.is_forbidden() => {
                notes.push(format!("you may not read subnamespaceanchors in {namespace}"));
            }
            Err(problem) => return Err(failed(problem)),
        }
    }
    notes.extend(where_searched(&searched));
    Ok(found)
}

/// A note that anchors were searched only in these namespaces, if there are any.
fn where_searched(searched: &[&str]) -> Option<String> {
    let names = searched.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "you may not list subnamespaceanchors in the whole cluster, so they were searched only in {names}"
        )
    })
}

fn anchors_in(session: &Session, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(session.client.clone(), namespace, &structure::anchors())
}

/// The namespaces, as objects that can be written back.
pub(super) fn namespaces(session: &Session) -> Api<DynamicObject> {
    Api::all_with(session.client.clone(), &ApiResource::erase::<Namespace>(&()))
}

/// Fails if the user lacks rights that the steps need, and names all of them.
pub(super) async fn check_rights(session: &Session, name: &str, steps: &[Step]) -> Result<(), Failure> {
    let rights: Vec<Right> = steps.iter().map(|step| step.right(name)).collect();
    user_rights::require(session, &rights).await
}

/// Shows the effects of the steps and asks for confirmation, unless `yes`. Fails before the first write if a step would
/// be refused.
pub(super) async fn confirm(
    session: &Session,
    terminal: &Terminal,
    (placement, steps): (&Placement, &[Step]),
    (heading, yes): (&str, bool),
) -> Result<(), Failure> {
    let plan = preview(session, placement, steps).await?;
    for note in plan.notes.iter().filter(|note| !placement.notes.contains(note)) {
        terminal.note(note);
    }
    plan.is_possible()?;
    if let Some(why) = plan.verdict.message.as_ref().filter(|_| plan.verdict.outcome == "unknown") {
        terminal.note(&format!("it is unknown whether this would be allowed: {why}"));
    }
    terminal.line(heading);
    for (place, step) in steps.iter().enumerate() {
        terminal.line(&format!("  {}. {}", place + 1, step.line(&placement.name)));
    }
    terminal.print(&plan.effects(terminal.paint));
    // The API server sends them with the writes again.
    for warning in plan.warnings.iter().filter(|it| session.warnings.is_new(it)) {
        terminal.warn(warning);
    }
    if yes || terminal.confirm("Go on?")? {
        return Ok(());
    }
    Err(Failure::new("Nothing was changed"))
}

/// The effects of the steps, including copies.
async fn preview(session: &Session, placement: &Placement, steps: &[Step]) -> Result<Document, Failure> {
    let intents: Vec<Intent> = steps.iter().map(|step| step.intent(placement)).collect();
    let targets = steps.iter().filter_map(Step::target);
    let own = [Some(&placement.name), placement.subnamespace_of.as_ref(), placement.parent.as_ref()];
    let concerned: Vec<&str> = own.into_iter().flatten().map(String::as_str).chain(targets).collect();
    let preview = ClusterPreview::open(session, &concerned, &[]).await?;
    Ok(Document::new(Vec::new(), &preview.try_all(&intents).await?))
}
