//! `config`: which kinds are propagated, and how.

use clap::{Args, Subcommand};
use hns_api::names::HNC_CONFIGURATION as NAME;
use hns_api::{HNCConfiguration, ResourceStatus, SynchronizationMode};
use hns_cluster::api::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::plan;
use crate::failure::Problem;
use crate::flags::Switch;
use crate::foresight::Document;
use crate::format::{Format, render};
use crate::lines::Lines;
use crate::session::Session;
use crate::terminal::{Ink, Paint};
use crate::{Failure, Terminal};

/// Conflicts that an error names.
const SHOWN: usize = 10;

/// Show or change which kinds of object are propagated.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which kinds are propagated, and what is wrong with the configuration.
    Describe(Describe),
    /// Say how a kind is propagated.
    SetResource(SetAsked),
    /// Take a kind out of the configuration.
    DeleteType(DeleteType),
}

#[derive(Debug, Args)]
struct Describe {
    /// Print the object in this form.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Without `--yes` it asks where objects of the same name are in the way.
#[derive(Debug, Args)]
struct SetAsked {
    #[command(flatten)]
    resource: SetResource,

    /// Do not ask, also if objects of namespaces below would be overwritten, or are in the way of copies.
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct SetResource {
    /// The resource, in the plural: secrets.
    #[arg(value_name = "RESOURCE")]
    pub(super) resource: String,

    /// Its API group; without it the core group.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// Propagate (every object goes to everything below), `AllowPropagate` (those do that ask for it), Remove (copies are
    /// deleted) or Ignore (nothing is done). Upper and lower case do not matter.
    #[arg(long, value_name = "MODE")]
    mode: String,

    /// Go from Ignore to Propagate or `AllowPropagate` although copies below may be replaced or deleted.
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    force: Option<Switch>,
}

#[derive(Debug, Args)]
pub(super) struct DeleteType {
    /// The API group of the resource; empty for the core group.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// The resource.
    #[arg(long, value_name = "RESOURCE")]
    pub(super) resource: String,
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
    let config = session.call(api.get(NAME)).await.map_err(|problem| unreadable(&problem))?;
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
    text.push_str("\nConditions:\n");
    for condition in &status.conditions {
        let line = format!("{} ({}): {}", condition.type_, condition.reason, condition.message);
        text.line(paint.ink(Ink::Warm, &line));
    }
    text
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
    SetAsked { resource: arguments, yes }: &SetAsked,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut object = read(session).await?;
    let force = Switch::is_on(arguments.force);
    let wanted = with_resource(arguments, entries(&object), force)?;
    if !yes && propagates(&mode(&arguments.mode)) {
        agree(arguments, session, terminal).await?;
    }
    object.data["spec"]["resources"] = Value::Array(wanted);
    write(session, &object).await
}

/// Asks, if objects of the same name are in the way. What would be refused is left to the API server to refuse.
async fn agree(arguments: &SetResource, session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    let (change, foretold) = plan::set_resource(arguments, session).await?;
    let document = Document::new(change, &foretold);
    let conflicts = document.conflicts();
    if conflicts.is_empty() {
        return Ok(());
    }
    if !terminal.can_ask() {
        let (shown, more) = conflicts.split_at(conflicts.len().min(SHOWN));
        let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
        return Err(Failure::new(format!(
            "Error: this needs your consent, and stdin is not a terminal; nothing was changed: {}{more}",
            shown.join("; ")
        ))
        .or_else(format!(
            "Rename or delete one of the two of each name, or use --yes. `kubectl hns plan config set-resource {} --mode {}` \
             lists everything.",
            arguments.words(),
            mode(&arguments.mode)
        )));
    }
    for note in &document.notes {
        terminal.note(note);
    }
    terminal.print(&document.text(terminal.paint));
    if terminal.asks("Go on?")? { Ok(()) } else { Err(Failure::new("Nothing was changed")) }
}

fn propagates(mode: &str) -> bool {
    matches!(mode, "Propagate" | "AllowPropagate")
}

/// The entries with what is asked for.
///
/// # Errors
/// That is known to be dangerous, and not forced.
pub(super) fn with_resource(
    arguments: &SetResource,
    present: Vec<Value>,
    force: bool,
) -> Result<Vec<Value>, Failure> {
    let mode = mode(&arguments.mode);
    let named = (&*arguments.group, &*arguments.resource);
    with(present, named, &mode, force).map_err(|()| risky(named.1, &mode))
}

impl SetResource {
    /// The resource, as the command line names it.
    fn words(&self) -> String {
        let Self { resource, group, .. } = self;
        if group.is_empty() { resource.clone() } else { format!("{resource} --group {group}") }
    }
}

/// The entries without those about the resource.
pub(super) fn without_type(arguments: &DeleteType, mut present: Vec<Value>) -> Vec<Value> {
    present.retain(|it| !is_about(it, (&arguments.group, &arguments.resource)));
    present
}

async fn delete_type(arguments: &DeleteType, session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    let (group, resource) = (&*arguments.group, &*arguments.resource);
    let mut object = read(session).await?;
    let before = entries(&object);
    let after = without_type(arguments, before.clone());
    let full_name = full_name(group, resource);
    if after.len() == before.len() {
        terminal.line(&format!("Nothing to delete: there is no configuration for {full_name}"));
        return Ok(());
    }
    object.data["spec"]["resources"] = Value::Array(after);
    write(session, &object).await?;
    terminal.line(&format!("The configuration for {full_name} is deleted"));
    Ok(())
}

pub(super) fn full_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// A mode in the spelling of the API, however it was typed. What is none is left to the API server to refuse.
fn mode(typed: &str) -> String {
    let lower = typed.to_lowercase();
    if lower == "allowpropagate" {
        return "AllowPropagate".into();
    }
    let mut letters = lower.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

pub(super) fn entries(object: &DynamicObject) -> Vec<Value> {
    object.data["spec"]["resources"].as_array().cloned().unwrap_or_default()
}

fn is_about(entry: &Value, (group, resource): (&str, &str)) -> bool {
    entry["group"].as_str().unwrap_or_default() == group && entry["resource"].as_str() == Some(resource)
}

/// The entries with this one replaced or added; an error if that is known to be dangerous and not forced.
fn with(mut entries: Vec<Value>, named: (&str, &str), mode: &str, force: bool) -> Result<Vec<Value>, ()> {
    let mut found = false;
    for entry in entries.iter_mut().filter(|entry| is_about(entry, named)) {
        if entry["mode"] == "Ignore" && propagates(mode) && !force {
            return Err(());
        }
        entry["mode"] = json!(mode);
        found = true;
    }
    if !found {
        let (group, resource) = named;
        let mut entry = json!({ "resource": resource, "mode": mode });
        if !group.is_empty() {
            entry["group"] = json!(group);
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn risky(resource: &str, mode: &str) -> Failure {
    Failure::new(format!(
        "Switching {resource} from Ignore straight to {mode} is dangerous: copies in namespaces below that are out of \
         date are replaced or deleted at once."
    ))
    .or_else(format!(
        "`kubectl hns plan config set-resource {resource} --mode {mode} --force` lists what would happen. To go ahead: \
         `kubectl hns config set-resource {resource} --mode {mode} --force`."
    ))
}

fn api(session: &Session) -> Api<DynamicObject> {
    Api::all_with(session.client.clone(), &ApiResource::erase::<HNCConfiguration>(&()))
}

pub(super) async fn read(session: &Session) -> Result<DynamicObject, Failure> {
    let found = session.call(api(session).get_opt(NAME)).await.map_err(|problem| unreadable(&problem))?;
    let mut object = found.unwrap_or_else(|| {
        let mut object = DynamicObject::new(NAME, &ApiResource::erase::<HNCConfiguration>(&()));
        object.data = json!({});
        object
    });
    if !object.data["spec"].is_object() {
        object.data["spec"] = json!({});
    }
    Ok(object)
}

async fn write(session: &Session, object: &DynamicObject) -> Result<(), Failure> {
    let (api, params) = (api(session), PostParams::default());
    let written = if object.metadata.resource_version.is_some() {
        session.call(api.replace(NAME, &params, object)).await
    } else {
        session.call(api.create(&params, object)).await
    };
    written.map(drop).map_err(|problem| Failure::because("the HNCConfiguration cannot be written", &problem))
}

fn unreadable(problem: &Problem) -> Failure {
    let failure = Failure::because("the HNCConfiguration cannot be read", problem);
    if problem.is_not_found() {
        return failure.or_else(
            "Nothing is configured, so only roles and rolebindings are propagated; `kubectl hns config set-resource` adds others.",
        );
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_hnc_s() {
        let config: HNCConfiguration = serde_json::from_value(json!({
            "metadata": { "name": "config" },
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
    }

    #[test]
    fn modes_are_read_in_any_case() {
        for (typed, wanted) in [
            ("propagate", "Propagate"),
            ("REMOVE", "Remove"),
            ("allowPropagate", "AllowPropagate"),
            ("AllowPropagate", "AllowPropagate"),
            ("nonsense", "Nonsense"),
            ("", ""),
        ] {
            assert_eq!(mode(typed), wanted);
        }
    }

    #[test]
    fn an_entry_is_replaced_or_added_and_others_stay() {
        let entries = vec![
            json!({ "resource": "secrets", "mode": "Remove", "other": 1 }),
            json!({ "group": "apps", "resource": "secrets", "mode": "Ignore" }),
        ];
        let replaced = with(entries.clone(), ("", "secrets"), "Propagate", false).unwrap();
        assert_eq!(replaced[0], json!({ "resource": "secrets", "mode": "Propagate", "other": 1 }));
        assert_eq!(replaced[1], entries[1]);
        let added = with(entries.clone(), ("batch", "jobs"), "Ignore", false).unwrap();
        assert_eq!(added[2], json!({ "group": "batch", "resource": "jobs", "mode": "Ignore" }));
        for (mode, force, refused) in [
            ("Propagate", false, true),
            ("AllowPropagate", false, true),
            ("Propagate", true, false),
            ("Remove", false, false),
        ] {
            let outcome = with(entries.clone(), ("apps", "secrets"), mode, force);
            assert_eq!(outcome.is_err(), refused, "{mode} {force}");
        }
    }
}
