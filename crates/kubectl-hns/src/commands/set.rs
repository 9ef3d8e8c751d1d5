//! `set`: sets the parent of a namespace and whether cascading deletion is allowed.

use clap::Args;
use forest::Settings;
use hns_api::HierarchyConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;

use super::hierarchy::{self, AllowingAncestor, Edit, NewParent, Spec};
use super::relocation;
use crate::flags::{True, only_true};
use crate::installation::{is_definition_deleted, without_definitions};
use crate::session::Session;
use crate::user_rights;
use crate::wait::WaitArgs;
use crate::{Failure, Terminal, accurate_trees, published, structure};

/// Set the parent of a namespace, or whether subnamespaces may be deleted with it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    properties: Properties,

    #[command(flatten)]
    wait: WaitArgs,
}

/// The properties to set.
#[derive(Debug, Args)]
pub(crate) struct Properties {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,

    /// Remove the parent.
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "true", value_parser = |it: &str| only_true(it, "leave --root out to keep the parent"))]
    root: Option<True>,

    /// Set this parent.
    #[arg(short, long, value_name = "NAMESPACE")]
    parent: Option<String>,

    /// Allow the deletion of its subnamespaces together with the namespace.
    #[arg(short, long = "allowCascadingDeletion", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true",
          value_parser = |it: &str| only_true(it, "use --forbidCascadingDeletion to forbid it"))]
    allow: Option<True>,

    /// Forbid the deletion of its subnamespaces together with the namespace.
    #[arg(short, long = "forbidCascadingDeletion", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true",
          value_parser = |it: &str| only_true(it, "use --allowCascadingDeletion to allow it"))]
    forbid: Option<True>,
}

/// The requested properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SpecRequest {
    pub(super) root: bool,
    pub(super) parent: Option<String>,
    pub(super) allow: bool,
    pub(super) forbid: bool,
}

/// The lines to print and the change to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) lines: Vec<String>,
    pub(super) edit: Edit,
    pub(super) changes: usize,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let (name, request) = (&*arguments.properties.namespace, arguments.properties.request()?);
    let object = hierarchy::read_to_change(session, name, request.changes_parent()).await?;
    let outcome = outcome(name, &hierarchy::spec(&object), &request);
    if outcome.changes == 0 {
        is_defined(session, name).await?;
    }
    if let Some(warning) = hierarchy::going(name, &object) {
        terminal.warn(&warning);
    }
    for line in &outcome.lines {
        terminal.line(line);
    }
    let parent = outcome.edit.parent(&hierarchy::spec(&object));
    if request.forbid
        && let Some(warning) = still_allowed(session, name, parent, "is still").await
    {
        terminal.warn(&warning);
    }
    if let Some(note) = without_effect(session, name, &request).await {
        terminal.note(&note);
    }
    if outcome.changes == 0 {
        terminal.line("No changes made");
    } else {
        change(name, object, &outcome, session, terminal).await?;
    }
    // An earlier change may not have taken effect yet.
    if request.changes_parent() && arguments.wait.is_wanted() {
        wait_for_arrival(arguments, request.parent.as_deref(), session, terminal).await?;
    }
    Ok(())
}

/// Fails while the definition of `HierarchyConfiguration` is being deleted: then an object may be gone whose parent is still in force.
async fn is_defined(session: &Session, name: &str) -> Result<(), Failure> {
    if !is_definition_deleted::<HierarchyConfiguration>(session).await {
        return Ok(());
    }
    Err(without_definitions(format_args!("the hierarchical configuration of {name} cannot be changed now")))
}

/// A note that the request does not concern Accurate's hierarchy, if the namespace is in it.
pub(super) async fn without_effect(session: &Session, name: &str, request: &SpecRequest) -> Option<String> {
    if !request.allow && !request.root {
        return None;
    }
    let found = session.call(session.all::<Namespace>().get_metadata(name)).await.ok()?;
    let label = |key: &str| found.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let what = if request.root {
        "which this command does not change"
    } else {
        "in which the setting accurate.allowCascadingDeletion decides whether sub-namespaces may be deleted with it"
    };
    let note = || {
        format!(
            "{name} is in a hierarchy of Accurate, {what}: see `kubectl accurate namespace describe {name}`"
        )
    };
    accurate_trees::is_in(session, name, label).await.then(note)
}

async fn change(
    name: &str,
    object: DynamicObject,
    outcome: &Outcome,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    // Afterwards, the rights to read this may be lost.
    let lost = match &outcome.edit.parent {
        Some(parent) => user_rights::lost_with(session, name, parent.name()).await,
        None => None,
    };
    if let Err(problem) = hierarchy::write(session, name, object, &outcome.edit, false).await {
        let failure = could_not(name, &problem);
        let is_about_parent = outcome.edit.parent.is_some() && problem.is_refusal();
        let hint = if is_about_parent { other_way(session, name).await } else { None };
        return Err(Failure { hint: hint.or(failure.hint), ..failure });
    }
    terminal.line(&updated(name, outcome.changes));
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    Ok(())
}

/// A warning if an ancestor still allows, or may allow, the cascading deletion that is forbidden here; `is` is the verb of the sentence.
pub(super) async fn still_allowed(
    session: &Session,
    name: &str,
    parent: Option<String>,
    is: &str,
) -> Option<String> {
    despite_ancestor(name, &hierarchy::allowing_ancestor(session, name, parent).await, is)
}

fn despite_ancestor(name: &str, ancestor: &AllowingAncestor, is: &str) -> Option<String> {
    match ancestor {
        AllowingAncestor::AllowedBy(above) => {
            Some(format!("cascading deletion of {name} {is} allowed by {above}, which is above it"))
        }
        AllowingAncestor::Unknown(above) => Some(format!(
            "it is unknown whether cascading deletion of {name} {is} {}",
            hierarchy::allowed_by_unread(above)
        )),
        AllowingAncestor::None => None,
    }
}

async fn wait_for_arrival(
    arguments: &Arguments,
    parent: Option<&str>,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let name = &*arguments.properties.namespace;
    let (what, deadline) = (format!("the place of {name} in the hierarchy"), arguments.wait.deadline());
    let arrival = relocation::wait_for_arrival(session, terminal, (&what, name, parent), deadline).await?;
    for note in &arrival.unchecked {
        terminal.note(note);
    }
    Ok(())
}

/// The parent in the namespace's annotation, if the namespace has one and can be read.
pub(super) async fn subnamespace_of(session: &Session, name: &str) -> Option<String> {
    let namespaces = session.all::<Namespace>();
    let found = session.call(namespaces.get_metadata(name)).await.ok()?;
    structure::subnamespace_of(&found.metadata).map(str::to_owned)
}

/// What to do instead of setting the parent, if the namespace is a subnamespace.
pub(super) async fn other_way(session: &Session, name: &str) -> Option<String> {
    let parent = subnamespace_of(session, name).await?;
    let (settings, _) = published::settings(session).await;
    is_subnamespace(name, &parent, &settings)
}

/// An excluded namespace cannot be moved or converted either.
fn is_subnamespace(name: &str, parent: &str, settings: &Settings) -> Option<String> {
    let hint = format!(
        "{name} is a subnamespace of {parent}. `kubectl hns move {name} --to PARENT` moves it below another parent; \
         `kubectl hns convert {name} --to full` makes it a full namespace, whose parent can be set. Each says which rights it needs, \
         if you lack one."
    );
    settings.is_managed(name).then_some(hint)
}

pub(super) fn could_not(name: &str, problem: &crate::failure::Problem) -> Failure {
    Failure::could_not(format!("update the hierarchical configuration of {name}"), problem)
}

/// HNC's message, with its spelling.
fn updated(name: &str, changes: usize) -> String {
    let properties = if changes == 1 { "property" } else { "properties" };
    format!("Succesfully updated {changes} {properties} of the hierarchical configuration of {name}")
}

impl Properties {
    /// The requested properties, if they are consistent.
    pub(super) fn request(&self) -> Result<SpecRequest, Failure> {
        if self.parent.as_deref() == Some("") {
            return Err(Failure::new("Error: --parent needs the name of a namespace; nothing was changed")
                .with_hint("--root removes the parent."));
        }
        if let Some(Err(why)) = self.parent.as_deref().map(crate::flags::namespace) {
            return Err(Failure::new(format!("Error: --parent {why}; nothing was changed")));
        }
        let request = SpecRequest {
            root: self.root.is_some(),
            parent: self.parent.clone(),
            allow: self.allow.is_some(),
            forbid: self.forbid.is_some(),
        };
        request.is_sensible()?;
        Ok(request)
    }
}

impl SpecRequest {
    pub(super) fn changes_parent(&self) -> bool {
        self.root || self.parent.is_some()
    }

    fn is_sensible(&self) -> Result<(), Failure> {
        if self.root && self.parent.is_some() {
            return Err(Failure::new(
                "Cannot give the namespace a parent and make it a root at the same time",
            ));
        }
        if self.allow && self.forbid {
            return Err(Failure::new(
                "Cannot set both --allowCascadingDeletion and --forbidCascadingDeletion",
            ));
        }
        Ok(())
    }
}

/// The change of the namespace `name` by `request`, given its `present` properties.
pub(super) fn outcome(name: &str, present: &Spec, request: &SpecRequest) -> Outcome {
    let mut outcome = Outcome::default();
    if request.root {
        outcome.make_root(name, present);
    }
    if let Some(parent) = &request.parent {
        outcome.give_parent(name, present, parent);
    }
    if request.allow || request.forbid {
        outcome.cascade(name, present, request.allow);
    }
    outcome
}

impl Outcome {
    fn make_root(&mut self, name: &str, present: &Spec) {
        match &present.parent {
            // HNC's message ends with a blank.
            None => self.lines.push(format!("{name} is already a root namespace; unchanged ")),
            Some(parent) => {
                self.lines.push(format!("Unsetting the parent of {name} (was previously {parent})"));
                self.edit.parent = Some(NewParent::Root);
                self.changes += 1;
            }
        }
    }

    fn give_parent(&mut self, name: &str, present: &Spec, parent: &str) {
        let line = match &present.parent {
            Some(old) if old == parent => {
                self.lines.push(format!("Parent of {name} is already {parent}; unchanged"));
                return;
            }
            Some(old) => format!("Changing the parent of {name} from {old} to {parent}"),
            None => format!("Setting the parent of {name} to {parent}"),
        };
        self.lines.push(line);
        self.edit.parent = Some(NewParent::Namespace(parent.to_owned()));
        self.changes += 1;
    }

    fn cascade(&mut self, name: &str, present: &Spec, allow: bool) {
        if present.allows_cascading_deletion == allow {
            self.lines.push(format!("Cascading deletion for '{name}' is already set to {allow}; unchanged"));
            return;
        }
        let verb = if allow { "Allowing" } else { "Forbidding" };
        self.lines.push(format!("{verb} cascading deletion on '{name}'"));
        self.edit.allow_cascading_deletion = Some(allow);
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(parent: &str, allows_cascading_deletion: bool) -> Spec {
        Spec { parent: Some(parent.to_owned()).filter(|it| !it.is_empty()), allows_cascading_deletion }
    }

    fn said(present: &Spec, request: &SpecRequest) -> (Vec<String>, usize) {
        let outcome = outcome("n", present, request);
        (outcome.lines, outcome.changes)
    }

    #[test]
    fn every_line_equals_that_of_hnc() {
        let root = SpecRequest { root: true, ..SpecRequest::default() };
        let parent = SpecRequest { parent: Some("p".into()), ..SpecRequest::default() };
        let allow = SpecRequest { allow: true, ..SpecRequest::default() };
        let forbid = SpecRequest { forbid: true, ..SpecRequest::default() };
        for (present, request, line, changes) in [
            (spec("o", false), &root, "Unsetting the parent of n (was previously o)", 1),
            (spec("", false), &root, "n is already a root namespace; unchanged ", 0),
            (spec("", false), &parent, "Setting the parent of n to p", 1),
            (spec("o", false), &parent, "Changing the parent of n from o to p", 1),
            (spec("p", false), &parent, "Parent of n is already p; unchanged", 0),
            (spec("", false), &allow, "Allowing cascading deletion on 'n'", 1),
            (spec("", true), &allow, "Cascading deletion for 'n' is already set to true; unchanged", 0),
            (spec("", true), &forbid, "Forbidding cascading deletion on 'n'", 1),
            (spec("", false), &forbid, "Cascading deletion for 'n' is already set to false; unchanged", 0),
        ] {
            assert_eq!(said(&present, request), (vec![line.to_owned()], changes), "{request:?}");
        }
        assert_eq!(said(&spec("o", true), &SpecRequest::default()), (Vec::new(), 0));
        let both = SpecRequest { parent: Some("p".into()), allow: true, ..SpecRequest::default() };
        assert_eq!(said(&spec("o", false), &both).1, 2);
        assert_eq!(updated("n", 1), "Succesfully updated 1 property of the hierarchical configuration of n");
        assert_eq!(
            updated("n", 2),
            "Succesfully updated 2 properties of the hierarchical configuration of n"
        );
    }

    #[test]
    fn what_an_ancestor_allows_or_may_allow_is_a_warning() {
        for (ancestor, is, wanted) in [
            (
                AllowingAncestor::AllowedBy("a".into()),
                "would still be",
                Some("cascading deletion of n would still be allowed by a, which is above it"),
            ),
            (
                AllowingAncestor::Unknown("a".into()),
                "is still",
                Some(
                    "it is unknown whether cascading deletion of n is still allowed by a or a namespace above it: you may not read \
                     hierarchyconfigurations in a",
                ),
            ),
            (AllowingAncestor::None, "is still", None),
        ] {
            assert_eq!(despite_ancestor("n", &ancestor, is).as_deref(), wanted);
        }
    }

    #[test]
    fn an_excluded_subnamespace_has_no_other_way() {
        let settings = Settings::new("home", ["out"], "[^x].*").unwrap();
        for (name, is_told) in [("n", true), ("out", false), ("x1", false), ("home", false)] {
            let hint = is_subnamespace(name, "p", &settings);
            assert_eq!(hint.is_some(), is_told, "{name}: {hint:?}");
        }
        let hint = is_subnamespace("n", "out", &settings).unwrap();
        assert!(hint.starts_with("n is a subnamespace of out. `kubectl hns move n --to PARENT` "), "{hint}");
    }

    #[test]
    fn contradicting_flags_are_refused() {
        let root = SpecRequest { root: true, parent: Some("p".into()), ..SpecRequest::default() };
        let cascade = SpecRequest { allow: true, forbid: true, ..SpecRequest::default() };
        assert!(root.is_sensible().unwrap_err().text.ends_with("make it a root at the same time"));
        assert!(cascade.is_sensible().unwrap_err().text.starts_with("Cannot set both"));
    }
}
