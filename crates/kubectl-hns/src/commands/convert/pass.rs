//! `convert --to hnc`: takes a whole tree of Accurate's API to HNC's.

use std::collections::BTreeMap;
use std::time::Duration;

use forest::{Fact, Kind, KindSettings, Name, NamespaceFact, hnc};
use hns_api::accurate::labels::{PARENT, TYPE};
use hns_api::annotations::SUBNAMESPACE_OF;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::discover_groups;
use hns_cluster::settings::SharedSettings;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::ObjectMeta;
use tokio::time::{Instant, sleep};

use super::objects::{Findings, kinds};
use super::tree::{Cluster, Step, Tree};
use crate::commands::accurate::forms;
use crate::commands::accurate::sub::to_delete_form;
use crate::commands::hierarchy;
use crate::commands::relocation::{self, ManagedMetadata};
use crate::configured_kinds;
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::user_rights::{self, Right};
use crate::{Failure, Terminal, accurate_trees, loader, optimistic, quotas};

/// How long the webhook may lag behind the previous write.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);

/// What warnings say while a part of the tree has passed. The user was told before.
const CROSSED: &str = "Namespace is also in a hierarchy of accurate.cybozu.com";

pub(super) async fn run(
    root: &str,
    yes: bool,
    settings: &SharedSettings,
    session: &Session,
    terminal: &Terminal,
) -> Done {
    if !settings.accurate.enabled {
        // Where hns is not installed, there are no settings.
        hierarchy::read(session, root).await?;
        return Err(Failure::new(
            "Error: Accurate's API is not enabled in the settings of hns, so there is no tree to convert",
        ));
    }
    let (tree, namespaces) = read(root, settings, session).await?;
    user_rights::require(session, &rights(&tree)).await?;
    quotas_have_room(&tree, session).await?;
    let mut found = Findings::default();
    // Where all namespaces have passed, HNC's own rules hold already.
    if tree.steps.iter().any(|it| matches!(it, Step::Pass { .. })) {
        let passed = tree.passed(&namespaces);
        found = findings(&tree, passed, settings, session, terminal).await?;
        found.allow()?;
    }
    terminal.line(&format!("Converting the tree of {root} to HNC's hierarchy:"));
    for (place, step) in tree.steps.iter().enumerate() {
        terminal.line(&format!("  {}. {}", place + 1, step.line()));
    }
    terminal.line(
        "Until the last namespace has passed, some namespaces are in both hierarchies. Nothing is copied to or from these, or to those \
         that are below them in HNC's hierarchy.",
    );
    terminal.line("Then HNC's copies replace those of Accurate. Labels and annotations that Accurate has set stay, and follow nothing.");
    if found.stays > 0 {
        let (copies, they) = match found.stays {
            1 => ("1 copy that was created once stays".to_owned(), "it is, and follows"),
            stays => (format!("{stays} copies that were created once stay"), "they are, and follow"),
        };
        terminal.line(&format!("{copies} as {they} nothing."));
    }
    for (parent, name) in &tree.idle {
        terminal.note(&format!(
            "SubNamespace {parent}/{name} owns no namespace, and stays: {}",
            to_delete_form(parent, name)
        ));
    }
    if !yes && !terminal.confirm("Go on?")? {
        return Err(Failure::new("Nothing was changed"));
    }
    session.warnings.omit(CROSSED);
    for (place, step) in tree.steps.iter().enumerate() {
        perform(session, terminal, step).await.map_err(Failure::resumable)?;
        terminal.line(&format!("[{}/{}] {}", place + 1, tree.steps.len(), step.line()));
    }
    terminal.line(&format!("The tree of {root} is in HNC's hierarchy now"));
    Ok(())
}

/// The tree, and all namespaces of the cluster.
async fn read(
    root: &str,
    settings: &SharedSettings,
    session: &Session,
) -> Result<(Tree, BTreeMap<Name, NamespaceFact>), Failure> {
    let trees = accurate_trees::read(session, settings).await?;
    let anchors = Api::<DynamicObject>::all_with(session.client.clone(), &crate::structure::anchors());
    let anchors = session.list(&anchors, &ListParams::default()).await;
    let anchors = anchors.map_err(|it| Failure::because("subnamespaceanchors cannot be listed", &it))?;
    let place = |it: DynamicObject| {
        (
            it.metadata.namespace.unwrap_or_default().as_str().into(),
            it.metadata.name.unwrap_or_default().as_str().into(),
        )
    };
    let namespaces = trees.namespaces.into_iter().map(|it| (it.name.clone(), it)).collect();
    let forms = trees.forms.into_iter().map(|(parent, form)| (parent, form.name)).collect();
    let anchors = anchors.into_iter().map(place).collect();
    let tree = Tree::read(&Cluster { namespaces: &namespaces, forms, anchors }, root)?;
    tree.refuse_excluded(trees.forest.settings())?;
    Ok((tree, namespaces))
}

/// An admin of the whole tree, who may also change its namespaces.
fn rights(tree: &Tree) -> Vec<Right> {
    let admin = |name| Right::ours("update", "hierarchyconfigurations", name, "");
    let mut rights: Vec<Right> = tree.names().map(|name| admin(name)).collect();
    rights.extend(tree.steps.iter().map(|step| match step {
        Step::Pass { name, .. } | Step::Release { root: name } => Right::namespace("update", name),
        Step::CreateAnchor { parent, .. } => Right::ours("create", "subnamespaceanchors", parent, ""),
        Step::DeleteForm { name, parent } => Right::of_form("delete", parent, name),
    }));
    rights
}

/// Fails if the quota of a namespace would refuse an anchor in the middle of the conversion.
async fn quotas_have_room(tree: &Tree, session: &Session) -> Done {
    let mut new: BTreeMap<&Name, Vec<Name>> = BTreeMap::new();
    for step in &tree.steps {
        if let Step::CreateAnchor { name, parent } = step {
            new.entry(parent).or_default().push(name.clone());
        }
    }
    for (parent, names) in new {
        if let Some(why) = quotas::exceeded_by::<hns_api::SubnamespaceAnchor>(session, parent, &names).await {
            return Err(Failure::new(format!(
                "Error: this would be refused in {parent}: {why}; nothing was changed"
            )));
        }
    }
    Ok(())
}

async fn findings(
    tree: &Tree,
    passed: Vec<NamespaceFact>,
    settings: &SharedSettings,
    session: &Session,
    terminal: &Terminal,
) -> Result<Findings, Failure> {
    let mut notes = Vec::new();
    let configured = configured_kinds::read(session, &mut notes).await?;
    for note in &notes {
        terminal.note(note);
    }
    if !configured.is_known {
        return Err(Failure::new("Error: the HNCConfiguration must be readable, to see what HNC would copy"));
    }
    let watched = settings.accurate.config.watches.iter();
    let groups = discover_groups(&session.client).await;
    let groups = groups.map_err(|why| Failure::new(format!("Error: the kinds cannot be read: {why}")))?;
    let watched: Vec<Kind> = watched.filter_map(|watch| watch.resolve(&groups).ok()).collect();
    let mut forest = accurate_trees::forest(session, settings).await?;
    let kinds = kinds(&configured, watched);
    forest.apply(Fact::Kinds(kinds.clone()));
    forest.apply(hnc::Fact::TreeLimits(configured.resolution.limits.clone()));
    forest.apply(Fact::Namespaces(passed));
    let mut objects = Vec::new();
    for KindSettings { kind, .. } in &kinds {
        let Some(id) = forest.kind_named(&kind.group, &kind.kind) else { continue };
        let mut all = Vec::new();
        for namespace in tree.names() {
            let listed = loader::objects(session, &forest, (kind, false), Some(namespace)).await;
            let what = || format!("{} in {namespace} cannot be listed", kind.group_resource());
            all.extend(listed.map_err(|problem| Failure::because(what(), &problem))?);
        }
        objects.push((id, all));
    }
    Ok(Findings::of(forest, objects))
}

async fn perform(session: &Session, terminal: &Terminal, step: &Step) -> Done {
    let done = match step {
        Step::Pass { name, parent } => {
            let pass = |metadata: &mut ObjectMeta| {
                let said = metadata.labels.as_ref().and_then(|it| it.get(PARENT));
                let stays = said.is_none_or(|it| **it == **parent);
                metadata.labels.get_or_insert_default().remove(PARENT);
                metadata
                    .annotations
                    .get_or_insert_default()
                    .insert(SUBNAMESPACE_OF.to_owned(), parent.to_string());
                stays
            };
            change(session, name, pass).await?
        }
        Step::Release { root } => {
            let release = |metadata: &mut ObjectMeta| {
                metadata.labels.get_or_insert_default().remove(TYPE);
                true
            };
            change(session, root, release).await?
        }
        Step::CreateAnchor { name, parent } => {
            let managed = ManagedMetadata::default();
            insist(async || {
                let attempts = (session, relocation::Attempts::new(terminal, relocation::PATIENCE));
                relocation::create_anchor(attempts, name, managed.clone(), parent).await
            })
            .await
        }
        Step::DeleteForm { name, parent } => {
            return forms::release((session, terminal), parent, name, None).await.map(drop);
        }
    };
    done.map_err(|problem| Failure::could_not(step.line(), &problem))
}

/// Changes a namespace. `edit` says whether it may still be changed in this way.
async fn change(
    session: &Session,
    name: &str,
    edit: impl Fn(&mut ObjectMeta) -> bool,
) -> Result<Result<(), Problem>, Failure> {
    let edit = |namespace: &mut DynamicObject| {
        let overtaken = || Failure::new(format!("Error: the parent of {name} was changed meanwhile"));
        if edit(&mut namespace.metadata) { Ok(true) } else { Err(overtaken()) }
    };
    let deadline = Instant::now() + PATIENCE;
    let api = relocation::namespaces(session);
    let again = |problem: &Problem| may_pass(problem, deadline);
    let written = optimistic::change((session, &api), (name, &PostParams::default()), edit, again).await?;
    Ok(written.map(drop))
}

/// Whether the webhook may not have seen the write before.
fn may_pass(problem: &Problem, deadline: Instant) -> bool {
    (problem.is_stale() || problem.is_denied() || problem.is_temporary()) && Instant::now() < deadline
}

/// Repeats a write while the webhook may not have seen the one before.
async fn insist(write: impl AsyncFn() -> Result<(), Problem>) -> Result<(), Problem> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match write().await {
            Err(problem) if may_pass(&problem, deadline) => {}
            done => return done,
        }
        sleep(POLL).await;
    }
}
