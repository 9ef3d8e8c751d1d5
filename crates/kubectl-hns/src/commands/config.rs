//! `config`: shows and changes which kinds are propagated.

use std::time::Duration;

use clap::{Args, Subcommand};
use forest::rules::configuration::LISTED_BY_PLAN;
use hns_api::names::webhooks::OBJECTS;
use hns_api::names::{HNC_CONFIGURATION as NAME, VALIDATING_WEBHOOK_CONFIGURATION};
use hns_api::{HNCConfiguration, ResourceSpec, ResourceStatus, SynchronizationMode, TreeSpec};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::kinds::{self, DeleteType, Mode, SetResource, Target, Tense, entries, unreadable};
use super::plan;
use crate::cluster_preview::Document;
use crate::copies::Objects;
use crate::format::{Format, render};
use crate::lines::Lines;
use crate::session::Session;
use crate::structure::{self, Extent};
use crate::terminal::{Ink, Paint};
use crate::wait::{Deadline, Progress, WaitArgs, until};
use crate::{Failure, Terminal};

/// How long the registration of the webhook may take, and the interval between checks.
const REGISTRATION: Duration = Duration::from_secs(10);
/// The command that shows the problems of the configuration.
const SHOWN_BY: &str = "config describe";
const PAUSE: Duration = Duration::from_millis(100);

/// Show or change which kinds of object are propagated.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which kinds are propagated, and the problems of the configuration.
    Describe(Describe),
    /// Set the mode of a kind.
    SetResource(SetResourceArguments),
    /// Remove a kind from the configuration.
    DeleteType(DeleteTypeArguments),
}

#[derive(Debug, Args)]
struct Describe {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Without `--yes` it asks for confirmation if copies would be changed or deleted, or if objects of the same name conflict.
#[derive(Debug, Args)]
struct SetResourceArguments {
    #[command(flatten)]
    resource: SetResource,

    /// Do not ask for confirmation, even if copies would be changed or deleted, or objects in namespaces below would be overwritten or
    /// prevent copies.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Args)]
struct DeleteTypeArguments {
    #[command(flatten)]
    resource: DeleteType,

    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    match &arguments.command {
        Command::Describe(arguments) => describe(arguments, session, terminal).await,
        Command::SetResource(arguments) => set_resource(arguments, session, terminal).await,
        Command::DeleteType(arguments) => delete_type(arguments, session, terminal).await,
    }
}

async fn describe(arguments: &Describe, session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    let api = session.all::<HNCConfiguration>();
    let mut config = session.call(api.get(NAME)).await.map_err(|problem| unreadable(&problem))?;
    // As with kubectl.
    config.metadata.managed_fields = None;
    match arguments.output {
        None => terminal.print(&text(&config, terminal.paint)),
        Some(format) => {
            let names = [format!("hncconfiguration.hnc.x-k8s.io/{NAME}")];
            terminal.print(&render(format, &config, names)?);
        }
    }
    Ok(())
}

fn text(config: &HNCConfiguration, paint: Paint) -> String {
    let status = config.status.clone().unwrap_or_default();
    let mut text = String::from("Synchronized resources:\n");
    for resource in &status.resources {
        text.push_str(&synchronized(resource));
    }
    let mut may_be_renamed = false;
    for spec in config.spec.resources.iter().flatten() {
        let group = spec.group.as_deref().unwrap_or_default();
        let mode = spec.mode.clone().unwrap_or(SynchronizationMode::Propagate);
        let is_it = |it: &ResourceStatus| is_about(spec, it) && it.mode.as_ref().is_none_or(|it| *it == mode);
        if !status.resources.iter().any(is_it) {
            let named = format!("{:?}", spec.resource);
            let is_faulty = status.conditions.iter().any(|it| it.message.contains(&named));
            let yet = if is_faulty { "" } else { " yet" };
            let name = kinds::full_name(&spec.resource, group);
            text.line(format!("* Not in effect{yet}: {name} ({mode:?})"));
            may_be_renamed |= !is_faulty && !status.resources.iter().any(|it| is_about(spec, it));
        }
    }
    let is_left =
        |it: &&ResourceStatus| !config.spec.resources.iter().flatten().any(|spec| is_about(spec, it));
    for left in status.resources.iter().filter(is_left) {
        let name = kinds::full_name(&left.resource, &left.group);
        // Without an entry, an enforced kind is propagated.
        match &left.mode {
            _ if !kinds::is_enforced(&left.group, &left.resource) => {
                // An entry may have another name of the same resource, such as its plural.
                let by_name = if may_be_renamed { " by this name" } else { "" };
                text.line(format!("* Not in effect yet: {name} is no longer configured{by_name}"));
            }
            Some(SynchronizationMode::Propagate) | None => {}
            Some(_) => text.line(format!("* Not in effect yet: {name} (Propagate)")),
        }
    }
    if let Some(trees) = config.spec.trees.as_ref().filter(|it| !it.is_empty()) {
        text.push_str("\nLimits of trees:\n");
        for tree in trees {
            text.line(limits(tree));
        }
    }
    if !status.conditions.is_empty() {
        text.push_str("\nConditions:\n");
    }
    for condition in &status.conditions {
        let line = format!("{} ({}): {}", condition.type_, condition.reason, condition.message);
        text.line(paint.ink(Ink::Warning, &line));
    }
    text
}

/// What may be below a namespace.
fn limits(tree: &TreeSpec) -> String {
    let TreeSpec { root, max_namespaces, max_depth, name_pattern } = tree;
    let limits = [
        max_namespaces.map(|it| format!("at most {it} {}", if it == 1 { "namespace" } else { "namespaces" })),
        max_depth.map(|it| format!("at most {it} {}", if it == 1 { "level" } else { "levels" })),
        name_pattern
            .as_ref()
            .map(|it| format!("names that match {}", if it.is_empty() { "\"\"" } else { it })),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    format!("* below {root}: {}", if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") })
}

/// Whether the entry has this status, perhaps with another mode.
fn is_about(spec: &ResourceSpec, status: &ResourceStatus) -> bool {
    let group = spec.group.as_deref().unwrap_or_default();
    status.resource == spec.resource && (group.is_empty() || status.group == group)
}

fn synchronized(resource: &ResourceStatus) -> String {
    use SynchronizationMode::{AllowPropagate, Ignore, Propagate, Remove, Unknown};
    let verb = match resource.mode.clone().unwrap_or_default() {
        Propagate => "Propagating",
        Remove => "Removing",
        AllowPropagate => "AllowPropagate",
        Ignore | Unknown(_) => "Ignoring",
    };
    let ResourceStatus { group, version, resource, .. } = resource;
    format!("* {verb}: {resource} ({group}/{version})\n")
}

async fn set_resource(
    SetResourceArguments { resource: arguments, yes, wait }: &SetResourceArguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let object = kinds::read(session).await?;
    let force = arguments.force;
    let target = Target::find(session, &arguments.group, &arguments.resource).await?;
    let mode = arguments.mode;
    let present = entries(&object);
    let wanted = target.set(present.clone(), mode, force)?;
    let changes = wanted != present;
    if changes {
        if !yes && mode != Mode::Ignore {
            confirm(arguments, session, terminal).await?;
            session.warnings.omit(LISTED_BY_PLAN);
        }
        write(session, object, &wanted).await?;
    }
    let unchanged = if changes { "" } else { "; unchanged" };
    terminal.line(&format!("{}: mode {mode}{unchanged}", target.full_name()));
    if let Some(note) = target.unprotected(session, (&present, &wanted), Tense::Made).await {
        terminal.note(&note);
    }
    if wait.is_wanted() { in_effect((&target, Some(mode)), wait, session, terminal).await } else { Ok(()) }
}

/// Waits until the controller has taken the mode up, the API server has the webhook judge the kind, and all copies of the kind are
/// right. `None` is a kind that is not configured.
async fn in_effect(
    (target, mode): (&Target, Option<Mode>),
    wait: &WaitArgs,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let (deadline, resource) = (wait.deadline(), target.full_name());
    taken_up((target, mode), deadline, session, terminal).await?;
    let Some(mode) = mode else { return Ok(()) };
    if mode != Mode::Ignore {
        judged(target, wait, session, terminal).await;
    }
    let (what, mut notes, mut kept) = (format!("the copies of {resource}"), Vec::new(), 0);
    until(terminal, (&what, SHOWN_BY), deadline, async || {
        let structure = structure::read(session, Extent::Around(&[])).await?;
        if !structure.is_whole {
            notes =
                vec![format!("you may not list namespaces in the whole cluster, so {what} were not checked")];
            return Ok(Progress::Done);
        }
        let everywhere = structure.namespaces.keys().cloned().collect();
        let objects = Objects::read(session, structure).await?;
        notes = objects.notes().to_vec();
        kept = objects.kept(&everywhere, Some(&resource));
        Ok(objects.progress(&everywhere, Some(&resource)))
    })
    .await?;
    for note in &notes {
        terminal.note(note);
    }
    if kept > 0 {
        let (objects, are, them) =
            if kept == 1 { ("object", "is", "it") } else { ("objects", "are", "them") };
        terminal.note(&format!(
            "{kept} {objects} of that kind {are} kept in the way of a copy, and not replaced; `kubectl hns doctor` names {them}, of each namespace the first ones"
        ));
    }
    Ok(())
}

/// Waits until the webhook is registered for the kind. Where it is never registered, for example because another program writes the
/// registration, it says so.
async fn judged(target: &Target, wait: &WaitArgs, session: &Session, terminal: &Terminal) {
    let (api, end) = (session.all(), Instant::now() + wait.patience(REGISTRATION));
    // Without the right to read the registration, nothing is known.
    while let Ok(registration) = session.call(api.get(VALIDATING_WEBHOOK_CONFIGURATION)).await
        && !is_judged(&registration, target)
    {
        if Instant::now() >= end {
            let resource = target.full_name();
            return terminal.note(&format!(
                "{VALIDATING_WEBHOOK_CONFIGURATION} does not name {resource}, so the webhook refuses no conflicts and no wrong \
                 annotations of that kind; see the log of the controller"
            ));
        }
        sleep(PAUSE).await;
    }
}

/// Whether the API server sends requests about the kind to the webhook.
fn is_judged(registration: &ValidatingWebhookConfiguration, target: &Target) -> bool {
    let entries = registration.webhooks.iter().flatten().filter(|it| it.name == OBJECTS);
    entries.flat_map(|it| it.rules.iter().flatten()).any(|rule| {
        let names = |list: &Option<Vec<String>>, it: &String| list.iter().flatten().any(|name| name == it);
        names(&rule.api_groups, &target.group) && names(&rule.resources, &target.resource)
    })
}

/// Waits until the controller reports the mode, after which it follows the objects of the kind.
async fn taken_up(
    (target, mode): (&Target, Option<Mode>),
    deadline: Deadline,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let api = session.all::<HNCConfiguration>();
    let (what, mode) = (format!("the mode of {}", target.full_name()), mode.map(|it| it.to_string()));
    until(terminal, (&what, SHOWN_BY), deadline, async || {
        let config = session.call(api.get(NAME)).await.map_err(|problem| unreadable(&problem))?;
        let status = config.status.unwrap_or_default();
        // The status has the names that are written in the entry.
        let is_it = |it: &&ResourceStatus| target.is_named(&it.group, &it.resource);
        let shown = status.resources.iter().find(is_it).and_then(|it| it.mode.as_ref());
        Ok(if shown.map(|it| format!("{it:?}")) == mode {
            Progress::Done
        } else {
            Progress::missing("the controller has not taken it up yet")
        })
    })
    .await
}

/// Asks for confirmation if copies would be changed or deleted, or objects of the same name conflict. Whether the change is allowed is left to the API server.
async fn confirm(arguments: &SetResource, session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    let (change, result) = plan::set_resource(arguments, session).await?;
    let document = Document::new(change, &result);
    let conflicts = document.conflicts();
    if !document.changes_copies() && conflicts.is_empty() {
        return Ok(());
    }
    for note in &document.notes {
        terminal.note(note);
    }
    terminal.print(&document.text(terminal.paint));
    if !terminal.can_ask() && !conflicts.is_empty() {
        return Err(Terminal::unconfirmed().with_hint(
            "Rename or delete one of the two objects of each name, or use --yes to continue without confirmation.",
        ));
    }
    if terminal.confirm("Go on?")? { Ok(()) } else { Err(Failure::new("Nothing was changed")) }
}

async fn delete_type(
    DeleteTypeArguments { resource: arguments, wait }: &DeleteTypeArguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let object = kinds::read(session).await?;
    let before = entries(&object);
    let target =
        Target::find(session, &arguments.group, &arguments.resource).await?.among_entries(&before)?;
    let after = target.remove(before.clone());
    let full_name = target.full_name();
    if after.len() == before.len() {
        terminal.line(&format!("Nothing to delete: there is no configuration for {full_name}"));
        return Ok(());
    }
    write(session, object, &after).await?;
    terminal.line(&format!("The configuration for {full_name} is deleted"));
    if let Some(note) = target.unprotected(session, (&before, &after), Tense::Made).await {
        terminal.note(&note);
    }
    let mode = target.is_enforced().then_some(Mode::Propagate);
    if wait.is_wanted() { in_effect((&target, mode), wait, session, terminal).await } else { Ok(()) }
}

async fn write(session: &Session, object: DynamicObject, entries: &[Value]) -> Result<(), Failure> {
    let written = kinds::write(session, &PostParams::default(), object, entries).await;
    written.map_err(|problem| Failure::because("the HNCConfiguration cannot be written", &problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A kind that has just been configured, and one that does not exist.
    #[test]
    fn what_is_not_in_effect_is_named() {
        let config: HNCConfiguration = serde_json::from_value(json!({
            "metadata": { "name": "config" },
            "spec": {
                "resources": [
                    { "resource": "deployments" },
                    { "group": "", "resource": "secrets", "mode": "AllowPropagate" },
                    { "resource": "nonsense" },
                    { "resource": "jobs", "mode": "Remove" },
                    { "group": "events.k8s.io", "resource": "events", "mode": "Remove" },
                ],
                "trees": [
                    { "root": "acme", "maxNamespaces": 10, "maxDepth": 2, "namePattern": "acme-.*" },
                    { "root": "b", "maxNamespaces": 1, "maxDepth": 1, "namePattern": "" },
                ],
            },
            "status": {
                "resources": [{ "group": "apps", "version": "v1", "resource": "deployments", "mode": "Propagate" }, { "group": "batch", "version": "v1", "resource": "jobs", "mode": "Propagate" },
                    { "group": "", "version": "v1", "resource": "services", "mode": "Propagate" },
                    { "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles", "mode": "Propagate" },
                    { "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "rolebindings", "mode": "AllowPropagate" }],
                "conditions": [{
                    "type": "BadConfiguration", "reason": "ResourceNotFound", "status": "True",
                    "message": "spec.resources[2] (\"nonsense\"): no such", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
        .unwrap();
        let wanted = "Synchronized resources:\n* Propagating: deployments (apps/v1)\n* Propagating: jobs (batch/v1)\n\
             * Propagating: services (/v1)\n* Propagating: roles (rbac.authorization.k8s.io/v1)\n\
             * AllowPropagate: rolebindings (rbac.authorization.k8s.io/v1)\n\
             * Not in effect yet: secrets (AllowPropagate)\n* Not in effect: nonsense (Propagate)\n* Not in effect yet: jobs (Remove)\n\
             * Not in effect yet: events.events.k8s.io (Remove)\n* Not in effect yet: services is no longer configured by this name\n\
             * Not in effect yet: rolebindings.rbac.authorization.k8s.io (Propagate)\n\nLimits of trees:\n\
             * below acme: at most 10 namespaces, at most 2 levels, names that match acme-.*\n\
             * below b: at most 1 namespace, at most 1 level, names that match \"\"\n\nConditions:\n\
             BadConfiguration (ResourceNotFound): spec.resources[2] (\"nonsense\"): no such\n";
        assert_eq!(text(&config, Paint::NONE), wanted);
    }

    #[test]
    fn the_description_equals_that_of_hnc() {
        let config: HNCConfiguration = serde_json::from_value(json!({
            "metadata": { "name": "config" },
            "spec": { "resources": [
                { "resource": "secrets", "mode": "Remove" },
                { "resource": "configmaps", "mode": "AllowPropagate" },
                { "group": "apps", "resource": "deployments", "mode": "Ignore" },
            ] },
            "status": {
                "resources": [
                    { "group": "", "version": "v1", "resource": "secrets", "mode": "Remove" },
                    { "group": "", "version": "v1", "resource": "configmaps", "mode": "AllowPropagate" },
                    { "group": "apps", "version": "v1", "resource": "deployments", "mode": "Ignore" },
                    { "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles", "mode": "Propagate" },
                ],
                "conditions": [{
                    "type": "BadConfiguration", "reason": "ResourceNotFound", "message": "no such resource",
                    "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
        .unwrap();
        let wanted = "\
Synchronized resources:
* Removing: secrets (/v1)
* AllowPropagate: configmaps (/v1)
* Ignoring: deployments (apps/v1)
* Propagating: roles (rbac.authorization.k8s.io/v1)

Conditions:
BadConfiguration (ResourceNotFound): no such resource
";
        assert_eq!(text(&config, Paint::NONE), wanted);
        let empty = HNCConfiguration::new("config", hns_api::HNCConfigurationSpec::default());
        assert_eq!(text(&empty, Paint::NONE), "Synchronized resources:\n", "no heading without conditions");
    }
}
