//! Edits of the `HNCConfiguration`: adds, changes and removes entries.

use std::collections::BTreeSet;
use std::fmt;

use clap::{Args, ValueEnum};
use forest::Kind;
use forest::configuration::{Entry, Fault, Served};
use hns_api::HNCConfiguration;
use hns_api::labels::INHERITED_FROM;
use hns_api::names::HNC_CONFIGURATION as NAME;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::discover;
use hns_cluster::feed::api_resource;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::Failure;
use crate::failure::Problem;
use crate::flags::named;
use crate::object_argument::as_typed;
use crate::optimistic;
use crate::session::Session;

#[derive(Debug, Args)]
pub(super) struct SetResource {
    /// The resource: plural, singular or a short name, such as secrets, secret or cm, or with its group, such as jobs.batch.
    #[arg(value_name = "RESOURCE", value_parser = |it: &str| named(it, "resource"))]
    pub(super) resource: String,

    /// The API group of the resource. Needed only if several groups have a resource of that name.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// Propagate (every object is copied to all namespaces below), `AllowPropagate` (only objects that opt in), Remove
    /// (copies are deleted) or Ignore (nothing is done). Case does not matter.
    #[arg(long, value_name = "MODE", ignore_case = true, hide_possible_values = true)]
    pub(super) mode: Mode,

    /// Allow the change from Ignore to Propagate or `AllowPropagate`, which may replace or delete objects in namespaces
    /// below.
    #[arg(short, long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct DeleteType {
    /// The API group of the resource. Needed only if several groups have a resource of that name.
    #[arg(long, value_name = "GROUP", default_value = "", hide_default_value = true)]
    pub(super) group: String,

    /// The resource: plural, singular or a short name, or with its group, such as jobs.batch.
    #[arg(long, value_name = "RESOURCE", value_parser = |it: &str| named(it, "resource"))]
    pub(super) resource: String,
}

/// The mode of a kind, in the API's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(super) enum Mode {
    Propagate,
    AllowPropagate,
    Remove,
    Ignore,
}

impl Mode {
    pub(super) fn propagates(self) -> bool {
        matches!(self, Self::Propagate | Self::AllowPropagate)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A resource of the command line under its name in the API; as it was typed if the API server has none of that name.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) resource: String,
    served: Served,
}

/// Whether the kind is propagated without an entry.
pub(super) fn is_enforced(group: &str, resource: &str) -> bool {
    [Kind::role(), Kind::role_binding()].iter().any(|it| (&*it.group, &*it.resource) == (group, resource))
}

/// `resource.group`, or `resource` for the core group.
pub(super) fn full_name(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Target {
    /// Looks the resource up.
    pub(super) async fn find(session: &Session, group: &str, resource: &str) -> Result<Self, Failure> {
        // If the API server does not say, the name is used as typed.
        Self::among(discover(&session.client).await.unwrap_or_default(), group, resource)
    }

    /// The resource may be typed with its group, as in `jobs.batch`.
    fn among(served: Served, group: &str, resource: &str) -> Result<Self, Failure> {
        let typed = as_typed(&served, resource);
        if !group.is_empty() && !typed.group.is_empty() && typed.group != group {
            let text = format!("Error: the group is given twice: {resource} and --group {group}");
            return Err(Failure::new(text).with_hint("Leave out one of them."));
        }
        let group = if group.is_empty() { &typed.group } else { group };
        let (group, resource) = name_in_api(&served, group, &typed.resource);
        Ok(Self { group, resource, served })
    }

    /// The resource with the group of the only entry for it, if the API server does not serve it any more and the user named no group.
    ///
    /// # Errors
    /// Several groups have such an entry.
    pub(super) fn among_entries(self, entries: &[Value]) -> Result<Self, Failure> {
        let is_known = !self.group.is_empty() || entries.iter().any(|it| self.is_meant_by(it));
        if is_known || self.is_served().is_ok() {
            return Ok(self);
        }
        let named = entries.iter().filter(|it| it["resource"] == *self.resource);
        let groups: BTreeSet<&str> = named.filter_map(|it| it["group"].as_str()).collect();
        let mut groups = groups.into_iter();
        match (groups.next(), groups.next()) {
            (Some(_), Some(_)) => {
                let text = format!("Error: there is configuration for {} of several groups", self.resource);
                Err(Failure::new(text)
                    .with_hint("Name the group with --group; `kubectl hns config describe` shows them."))
            }
            (Some(group), None) => Ok(Self { group: group.to_owned(), ..self }),
            _ => Ok(self),
        }
    }

    /// `jobs.batch`.
    pub(super) fn full_name(&self) -> String {
        full_name(&self.resource, &self.group)
    }

    /// The resource as in a command line.
    pub(super) fn words(&self) -> String {
        let Self { resource, group, .. } = self;
        if group.is_empty() { resource.clone() } else { format!("{resource} --group {group}") }
    }

    /// [`is_enforced`].
    pub(super) fn is_enforced(&self) -> bool {
        is_enforced(&self.group, &self.resource)
    }

    /// Whether an entry is about this resource, by whatever name.
    fn is_meant_by(&self, entry: &Value) -> bool {
        let [group, resource] = ["group", "resource"].map(|key| entry[key].as_str().unwrap_or_default());
        self.is_named(group, resource)
    }

    /// Whether this is one of the names of the resource.
    pub(super) fn is_named(&self, group: &str, resource: &str) -> bool {
        let (group, resource) = name_in_api(&self.served, group, resource);
        (group, resource) == (self.group.clone(), self.resource.clone())
    }

    /// The entries with this mode for the resource.
    ///
    /// # Errors
    /// The change is dangerous and not forced, or adds a resource that the API server does not serve.
    pub(super) fn set(
        &self,
        mut entries: Vec<Value>,
        mode: Mode,
        force: bool,
    ) -> Result<Vec<Value>, Failure> {
        // The webhook refuses an entry that says this.
        if mode == Mode::Propagate && self.is_enforced() {
            return Ok(self.remove(entries));
        }
        let mut is_present = false;
        for entry in entries.iter_mut().filter(|entry| self.is_meant_by(entry)) {
            if entry["mode"] == "Ignore" && mode.propagates() && !force {
                return Err(self.is_risky(mode));
            }
            self.write(entry, mode);
            is_present = true;
        }
        if !is_present {
            self.is_served()?;
            let mut entry = json!({});
            self.write(&mut entry, mode);
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Fails if the API server serves no such resource, as far as it says what it serves.
    fn is_served(&self) -> Result<(), Failure> {
        let entry = Entry { resource: self.resource.clone(), group: self.group.clone(), ..Entry::default() };
        match self.served.named(&entry) {
            Err((Fault::NotFound, _)) if !self.served.kinds.is_empty() => {
                let text = format!("Error: the API server serves no resource {}", self.full_name());
                Err(Failure::new(text)
                    .with_hint("`kubectl api-resources --namespaced` lists those that it serves."))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, entry: &mut Value, mode: Mode) {
        entry["resource"] = json!(self.resource);
        entry["mode"] = json!(mode.to_string());
        if !self.group.is_empty() {
            entry["group"] = json!(self.group);
        }
    }

    /// The entries without those of the resource.
    pub(super) fn remove(&self, mut entries: Vec<Value>) -> Vec<Value> {
        entries.retain(|it| !self.is_meant_by(it));
        entries
    }

    /// Whether the controller follows the kind with these entries, so that its copies are protected.
    fn is_followed(&self, entries: &[Value]) -> bool {
        let mut own = entries.iter().filter(|it| self.is_meant_by(it)).peekable();
        if own.peek().is_none() { self.is_enforced() } else { own.any(|it| it["mode"] != "Ignore") }
    }

    /// What becomes of the copies of the kind, if the change of the entries ends their protection.
    pub(super) async fn unprotected(
        &self,
        session: &Session,
        (before, after): (&[Value], &[Value]),
        tense: Tense,
    ) -> Option<String> {
        if !self.is_followed(before) || self.is_followed(after) {
            return None;
        }
        let entry = Entry { resource: self.resource.clone(), group: self.group.clone(), ..Entry::default() };
        let resource = api_resource(&self.served.named(&entry).ok()?.kind);
        let api = Api::<DynamicObject>::all_with(session.client.clone(), &resource);
        let copies = session.list_metadata(&api, &ListParams::default().labels(INHERITED_FROM)).await;
        unprotected(copies.ok().map(|it| it.len()), tense)
    }

    fn is_risky(&self, mode: Mode) -> Failure {
        let (resource, words) = (&self.resource, self.words());
        Failure::new(format!(
            "Switching {resource} from Ignore straight to {mode} is dangerous: copies in namespaces below that are out of \
             date are replaced or deleted at once."
        ))
        .with_hint(format!(
            "`kubectl hns plan config set-resource {words} --mode {mode} --force` lists what would happen. To go ahead: \
             `kubectl hns config set-resource {words} --mode {mode} --force`."
        ))
    }
}

/// Whether a change is planned or made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Planned,
    Made,
}

/// `None` means that the number of copies is not known.
fn unprotected(copies: Option<usize>, tense: Tense) -> Option<String> {
    let (subject, stay, they_are, them) = match copies {
        Some(0) => return None,
        Some(1) => ("1 existing copy".to_owned(), "stays", "it is", "it"),
        Some(count) => (format!("{count} existing copies"), "stay", "they are", "them"),
        None if tense == Tense::Planned => ("Existing copies".to_owned(), "stay", "they are", "them"),
        None => ("existing copies".to_owned(), "stay", "they are", "them"),
    };
    let (stay, can) = match tense {
        Tense::Planned => ("would stay and would no longer be".to_owned(), "could"),
        // The API server enforces a changed policy some seconds after it is written.
        Tense::Made => (format!("{stay}; in a few seconds {they_are} no longer"), "can"),
    };
    Some(format!("{subject} {stay} protected: every user with the RBAC right {can} change or delete {them}"))
}

/// The group and the plural of a resource that may have another of its names; as typed if the API server has none of that name.
fn name_in_api(served: &Served, group: &str, resource: &str) -> (String, String) {
    let entry = Entry { resource: resource.into(), group: group.into(), ..Entry::default() };
    served.named(&entry).map_or((entry.group.clone(), entry.resource.clone()), |found| {
        (found.kind.group.clone(), found.kind.resource.clone())
    })
}

pub(super) fn entries(object: &DynamicObject) -> Vec<Value> {
    object.data["spec"]["resources"].as_array().cloned().unwrap_or_default()
}

fn api(session: &Session) -> Api<DynamicObject> {
    Api::all_with(session.client.clone(), &ApiResource::erase::<HNCConfiguration>(&()))
}

/// Writes the entries. If only the status was changed after the object was read, they are written to the new version.
pub(crate) async fn write(
    session: &Session,
    params: &PostParams,
    object: DynamicObject,
    entries: &[Value],
) -> Result<(), Problem> {
    let edit = |it: &mut DynamicObject| it.data["spec"]["resources"] = Value::Array(entries.to_vec());
    let spec = |it: &DynamicObject| it.data["spec"].clone();
    optimistic::write((session, &api(session)), params, object, edit, spec).await
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

/// What is said where the controller has not created the `HNCConfiguration` yet.
pub(crate) const ABSENT: &str = "there is no HNCConfiguration; the controller creates it when it starts";

pub(super) fn unreadable(problem: &Problem) -> Failure {
    if problem.is_not_found() {
        return Failure::new(format!("Error: {ABSENT}"))
            .with_hint("`kubectl hns doctor` checks the controller.");
    }
    Failure::because("the HNCConfiguration cannot be read", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_argument::tests::served_kind;

    #[test]
    fn the_case_of_modes_is_ignored() {
        for (typed, wanted) in [
            ("propagate", Some("Propagate")),
            ("REMOVE", Some("Remove")),
            ("allowPropagate", Some("AllowPropagate")),
            ("Ignore", Some("Ignore")),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(Mode::from_str(typed, true).ok().map(|it| it.to_string()).as_deref(), wanted);
        }
    }

    fn served() -> Served {
        let kinds = vec![
            served_kind("", "Secret", &[]),
            served_kind("apps", "Deployment", &["deploy"]),
            served_kind("batch", "Job", &[]),
        ];
        Served { kinds, ..Served::default() }
    }

    fn target(group: &str, typed: &str) -> Target {
        Target::among(served(), group, typed).unwrap()
    }

    #[test]
    fn a_resource_has_the_names_of_kubectl() {
        for (typed, group, wanted) in [
            ("secret", "", "secrets"),
            ("deployments", "", "deployments.apps"),
            ("Deploy", "apps", "deployments.apps"),
            ("jobs", "batch", "jobs.batch"),
            ("nonsense", "", "nonsense"),
            ("deployments.apps", "", "deployments.apps"),
            ("deploy.apps", "", "deployments.apps"),
            ("nonsense.example.com", "", "nonsense.example.com"),
            ("deployments.v1.apps", "", "deployments.apps"),
            ("secrets", "other", "secrets.other"),
            ("deployments.apps", "apps", "deployments.apps"),
            ("jobs.v1.batch", "batch", "jobs.batch"),
            ("secrets.v1", "", "secrets"),
        ] {
            assert_eq!(target(group, typed).full_name(), wanted);
        }
        let twice = Target::among(served(), "apps", "jobs.batch").unwrap_err();
        assert_eq!(twice.text, "Error: the group is given twice: jobs.batch and --group apps");
    }

    #[test]
    fn a_resource_is_known_by_each_of_its_names() {
        for (group, resource, wanted) in [
            ("apps", "deployments", true),
            ("", "deployments", true),
            ("", "deploy", true),
            ("batch", "deployments", false),
            ("", "jobs", false),
            ("", "nonsense", false),
        ] {
            assert_eq!(target("", "deployments").is_named(group, resource), wanted, "{resource}.{group}");
        }
    }

    #[test]
    fn roles_are_propagated_without_an_entry() {
        let roles = Target { resource: "roles".into(), group: Kind::role().group, served: served() };
        assert!(roles.is_enforced() && !target("", "secrets").is_enforced());
        let entry =
            json!({ "group": "rbac.authorization.k8s.io", "resource": "roles", "mode": "AllowPropagate" });
        assert_eq!(roles.set(vec![entry], Mode::Propagate, false), Ok(Vec::new()));
        assert_eq!(roles.set(Vec::new(), Mode::Propagate, false), Ok(Vec::new()), "nothing is to be written");
    }

    #[test]
    fn copies_of_a_kind_that_is_no_longer_followed_lose_their_protection() {
        let roles = Target { resource: "roles".into(), group: Kind::role().group, served: served() };
        assert!(roles.is_followed(&[]));
        let secrets = target("", "secrets");
        for (entries, followed) in [
            (vec![], false),
            (vec![json!({ "resource": "jobs", "group": "batch" })], false),
            (vec![json!({ "resource": "secret" })], true),
            (vec![json!({ "resource": "secrets", "mode": "Remove" })], true),
            (vec![json!({ "resource": "secrets", "mode": "Ignore" })], false),
        ] {
            assert_eq!(secrets.is_followed(&entries), followed, "{entries:?}");
        }
        for (copies, tense, wanted) in [
            (Some(0), Tense::Planned, None),
            (
                Some(1),
                Tense::Made,
                Some(
                    "1 existing copy stays; in a few seconds it is no longer protected: every user with the RBAC right can change or delete it",
                ),
            ),
            (
                Some(2),
                Tense::Made,
                Some(
                    "2 existing copies stay; in a few seconds they are no longer protected: every user with the RBAC right can change or delete them",
                ),
            ),
            (
                None,
                Tense::Planned,
                Some(
                    "Existing copies would stay and would no longer be protected: every user with the RBAC right could change or delete them",
                ),
            ),
        ] {
            assert_eq!(unprotected(copies, tense).as_deref(), wanted);
        }
    }

    #[test]
    fn no_entry_is_added_for_a_resource_that_is_not_served() {
        let of = |resource: &str| vec![json!({ "resource": resource })];
        let unknown = Served::default();
        let in_doubt = Served { unavailable: ["x.io".into()].into(), ..served() };
        for (served, entries, is_possible) in [
            (served(), Vec::new(), false),
            (served(), of("secrets"), false),
            (served(), of("nonsense"), true),
            (unknown, Vec::new(), true),
            (in_doubt, Vec::new(), true),
        ] {
            let result = Target::among(served, "", "nonsense").unwrap().set(entries, Mode::Ignore, false);
            let wanted = (!is_possible).then_some("Error: the API server serves no resource nonsense");
            assert_eq!(result.err().map(|it| it.text).as_deref(), wanted);
        }
    }

    #[test]
    fn the_group_of_a_resource_that_is_gone_is_that_of_its_entry() {
        let entry = |group: &str| json!({ "group": group, "resource": "gadgets" });
        for (typed, group, entries, wanted) in [
            ("gadgets", "", vec![], Some("gadgets")),
            ("gadgets", "", vec![entry("a.io")], Some("gadgets.a.io")),
            ("gadgets", "b.io", vec![entry("a.io")], Some("gadgets.b.io")),
            ("gadgets", "", vec![entry("a.io"), entry("b.io")], None),
            ("gadgets", "", vec![json!({ "resource": "gadgets" }), entry("b.io")], Some("gadgets")),
            ("jobs", "", vec![json!({ "group": "a.io", "resource": "jobs" })], Some("jobs.batch")),
        ] {
            let found = target(group, typed).among_entries(&entries);
            assert_eq!(found.ok().map(|it| it.full_name()).as_deref(), wanted, "{typed} {group}");
        }
    }

    #[test]
    fn an_entry_is_replaced_added_or_removed() {
        let entries = vec![
            json!({ "resource": "secrets", "mode": "Remove", "other": 1 }),
            json!({ "resource": "deploy", "mode": "Ignore" }),
        ];
        let target = |typed: &str| target("", typed);
        let replaced = target("secret").set(entries.clone(), Mode::Propagate, false).unwrap();
        assert_eq!(replaced[0], json!({ "resource": "secrets", "mode": "Propagate", "other": 1 }));
        assert_eq!(replaced[1], entries[1]);
        let added = target("job").set(entries.clone(), Mode::Ignore, false).unwrap();
        assert_eq!(added[2], json!({ "group": "batch", "resource": "jobs", "mode": "Ignore" }));
        let named = target("deployment").set(entries.clone(), Mode::Remove, false).unwrap();
        assert_eq!(named[1], json!({ "group": "apps", "resource": "deployments", "mode": "Remove" }));
        assert_eq!(target("deployments").remove(entries.clone()), entries[..1]);
        for (mode, force, refused) in [
            (Mode::Propagate, false, true),
            (Mode::AllowPropagate, false, true),
            (Mode::Propagate, true, false),
            (Mode::Remove, false, false),
        ] {
            let outcome = target("deployments").set(entries.clone(), mode, force);
            assert_eq!(outcome.is_err(), refused, "{mode} {force}");
        }
    }
}
