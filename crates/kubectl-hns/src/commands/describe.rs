//! `describe`: shows the place of a namespace in the hierarchy, and its problems.

mod children;

use clap::Args;
use forest::hnc::external_manager;
use forest::text::limited;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, annotations, events};
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use self::children::{Child, as_namespaces, children, undecided};
use super::hierarchy::{self, AllowingAncestor};
use crate::format::{Format, render};
use crate::installation::is_definition_deleted;
use crate::lines::{Lines, printable};
use crate::picture::ConditionView;
use crate::session::Session;
use crate::structure::{self, Extent, Structure};
use crate::table::{aligned, row};
use crate::terminal::{Ink, Paint};
use crate::{Failure, Terminal, accurate_trees, age, published};

/// Show the parent, children and conditions of a namespace, and recent events of its objects.
///
/// Namespaces that the settings exclude are no children, whatever parent they name; `kubectl hns tree` draws them. If one has an
/// anchor, that anchor is listed as "Forbidden subnamespace, excluded".
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    namespace: String,
    /// Why the namespace takes part in no hierarchy, as a clause after its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    excluded: Option<String>,
    /// The other tool that manages the place of the namespace in the hierarchy.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_manager: Option<String>,
    parent: Option<String>,
    /// Whether the `HierarchyConfiguration` is being deleted, and the namespace is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hierarchy_terminating: bool,
    children: Vec<Child>,
    allow_cascading_deletion: bool,
    /// The nearest ancestor that allows it as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    cascading_deletion_allowed_by: Option<String>,
    /// The nearest ancestor that the user may not read, if it or one above it may allow what is not allowed below.
    #[serde(skip_serializing_if = "Option::is_none")]
    cascading_deletion_unknown_from: Option<String>,
    /// Whether the namespace is being deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    terminating: bool,
    /// What its deletion waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deletion_waits_for: Vec<String>,
    conditions: Vec<ConditionView>,
    events: Vec<Line>,
}

/// The last event of one object for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    last_seen: String,
    #[serde(skip)]
    seconds: i64,
    reason: String,
    object: String,
    message: String,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let name = &*arguments.namespace;
    let mut notes = Vec::new();
    let object = match hierarchy::read(session, name).await {
        Ok(object) => object,
        Err(failure) => return Err(without_rights(session, name, failure).await),
    };
    let anchors = session.within::<SubnamespaceAnchor>(name);
    let of_ours = ListParams::default().fields(&format!("source={}", events::COMPONENT));
    let events = session.within::<Event>(name);
    let everything = ListParams::default();
    let namespaces = session.all::<Namespace>();
    let spec = hierarchy::spec(&object);
    let (anchors, events, (settings, note), allowing, found) = futures::join!(
        session.list(&anchors, &everything),
        session.list(&events, &of_ours),
        Box::pin(published::settings(session)),
        Box::pin(hierarchy::allowing_ancestor(session, name, hierarchy::existing_parent(&object))),
        session.call(namespaces.get(name)),
    );
    notes.extend(note);
    let left_out = |what: &str| format!("you may not read the {what} in {name}; they are left out");
    let anchors = match anchors {
        Ok(anchors) => anchors,
        Err(problem) if problem.is_forbidden() => {
            notes.push(left_out("subnamespaceanchors"));
            Vec::new()
        }
        Err(problem) => {
            return Err(Failure::because(
                format!("the subnamespaceanchors in {name} cannot be read"),
                &problem,
            ));
        }
    };
    let events = events.unwrap_or_else(|problem| {
        // A user who may create events can create one that cannot be parsed.
        let unreadable = || format!("the events in {name} cannot be read ({problem}); they are left out");
        notes.push(if problem.is_forbidden() { left_out("events") } else { unreadable() });
        Vec::new()
    });
    let deletion_waits_for = found.as_ref().map(obstacles).unwrap_or_default();
    let found = found.map(|it| ingest::namespace(&it.metadata)).unwrap_or_default();
    let excluded = settings.unmanaged(name).map(|why| why.to_string());
    let exists = object.metadata.resource_version.is_some();
    let hierarchy_terminating = object.metadata.deletion_timestamp.is_some() && !found.terminating;
    if (hierarchy_terminating || !exists && structure::has_place(&found))
        && is_definition_deleted::<HierarchyConfiguration>(session).await
    {
        notes.push(structure::without_definitions());
    }
    let mut place = Place { parent: spec.parent, children: shown_children(&object.data) };
    let around = if found.terminating || excluded.is_some() {
        let around = Box::pin(read_around(session, name, &mut notes)).await?;
        place.add(&around, name);
        around
    } else {
        Box::pin(as_namespaces(session, name, &undecided(&place.children, &anchors))).await
    };
    notes.extend(accurate_trees::note(session, &found, &format!("accurate ns describe {name}")).await);
    let manager = external_manager(&found.annotations).map(ToOwned::to_owned);
    // What is above has no effect on a namespace that the settings exclude or another tool manages.
    let allowing = if excluded.is_some() || manager.is_some() { AllowingAncestor::None } else { allowing };
    let (allowed_by, unknown_from) = match allowing {
        AllowingAncestor::AllowedBy(ancestor) => (Some(ancestor), None),
        AllowingAncestor::Unknown(ancestor) => (None, Some(ancestor)),
        AllowingAncestor::None => (None, None),
    };
    let description = Description {
        namespace: name.to_owned(),
        excluded,
        children: children(&place.children, &anchors, &around, &settings),
        conditions: hierarchy::conditions(&object).iter().map(condition).collect(),
        events: lines(&events, Timestamp::now()),
        parent: place.parent,
        hierarchy_terminating,
        allow_cascading_deletion: spec.allows_cascading_deletion,
        cascading_deletion_allowed_by: allowed_by,
        cascading_deletion_unknown_from: unknown_from.filter(|_| !spec.allows_cascading_deletion),
        external_manager: manager,
        terminating: found.terminating,
        deletion_waits_for,
    };
    let named = exists
        .then(|| format!("hierarchyconfiguration.hnc.x-k8s.io/{}", hns_api::names::HIERARCHY_CONFIGURATION));
    match arguments.output {
        None => terminal.print(&text(&description, terminal.paint)),
        Some(format) => terminal.print(&render(format, &description, named)?),
    }
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

/// The failure to read a namespace. If it is a subnamespace that is being deleted, its `RoleBindings` may be gone; its anchor shows the
/// deletion.
async fn without_rights(session: &Session, name: &str, failure: Failure) -> Failure {
    let parent = &session.namespace;
    let (anchors, namespaces) = (session.within::<SubnamespaceAnchor>(parent), session.all::<Namespace>());
    let (anchor, namespace) =
        futures::join!(session.call(anchors.get_metadata(name)), session.call(namespaces.get_metadata(name)));
    let is_hidden = namespace.is_err_and(|it| it.is_forbidden());
    if !is_hidden || !anchor.is_ok_and(|it| it.metadata.deletion_timestamp.is_some()) {
        return failure;
    }
    failure.with_hint(format!(
        "The subnamespace anchor {name} in {parent} is being deleted, and {name} with it, so its RoleBindings may be gone already. \
         `kubectl hns describe {name}` shows a cluster administrator what the deletion waits for."
    ))
}

/// What the deletion of the namespace waits for, as the namespace controller says.
pub(super) fn obstacles(namespace: &Namespace) -> Vec<String> {
    let conditions = namespace.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let holds = conditions.filter(|it| it.status == "True");
    holds.map(|it| format!("{}: {}", it.type_, it.message.as_deref().unwrap_or_default())).collect()
}

fn shown_children(data: &serde_json::Value) -> Vec<String> {
    let children = data["status"]["children"].as_array();
    children.into_iter().flatten().filter_map(|child| child.as_str()).map(str::to_owned).collect()
}

/// The place of the namespace in the hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    parent: Option<String>,
    children: Vec<String>,
}

impl Place {
    /// Adds what the `HierarchyConfiguration` does not say: that of an excluded namespace has no children, and a namespace that is being
    /// deleted has none any more.
    fn add(&mut self, structure: &Structure, name: &str) {
        let forest = structure.forest();
        self.parent = self.parent.take().or_else(|| forest.parent(name).map(ToString::to_string));
        self.children.extend(forest.children(name).iter().map(ToString::to_string));
        self.children.sort();
        self.children.dedup();
    }
}

/// What is around the namespace, as `tree` draws it.
async fn read_around(session: &Session, name: &str, notes: &mut Vec<String>) -> Result<Structure, Failure> {
    let structure = structure::read(session, Extent::Around(&[name.to_owned()])).await?;
    if !structure.is_whole {
        let what = "you may not list namespaces and hierarchyconfigurations in the whole cluster";
        notes.push(format!("{what}; {name} may have more children"));
    }
    Ok(structure)
}

fn condition(value: &serde_json::Value) -> ConditionView {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    ConditionView { type_: text("type"), reason: text("reason"), message: text("message") }
}

/// One line per reason and object, the latest first.
fn lines(events: &[Event], now: Timestamp) -> Vec<Line> {
    let mut lines: Vec<Line> = events.iter().filter_map(|event| line(event, now)).collect();
    lines.sort_by_key(|line| line.seconds);
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        if !kept.iter().any(|it| (&it.reason, &it.object) == (&line.reason, &line.object)) {
            kept.push(line);
        }
    }
    kept
}

fn line(event: &Event, now: Timestamp) -> Option<Line> {
    let component = event.source.as_ref()?.component.as_deref();
    if component != Some(events::COMPONENT) {
        return None;
    }
    let created = event.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let at = event.last_timestamp.as_ref().map(|it| it.0);
    let at = at.or(event.event_time.as_ref().map(|it| it.0)).or(created)?;
    let seconds = now.as_second() - at.as_second();
    let object = &event.involved_object;
    let part = |it: &Option<String>| printable(it.as_deref().unwrap_or_default()).into_owned();
    Some(Line {
        last_seen: age::short(seconds),
        seconds,
        reason: part(&event.reason),
        object: format!("{}:{}/{}", part(&object.kind), part(&object.namespace), part(&object.name)),
        message: part(&event.message),
    })
}

/// Every kind, namespace and name but a very long name of an RBAC object is shown whole.
const OBJECT: usize = 400;

fn text(description: &Description, paint: Paint) -> String {
    let Description { namespace, parent, children, conditions, .. } = description;
    let mut text = format!("Hierarchy configuration for namespace {namespace}\n");
    if let Some(why) = &description.excluded {
        let so = if parent.is_some() { ", so its parent has no effect" } else { "" };
        text.line(paint.ink(Ink::Warning, &format!("  The namespace {why}{so}")));
    }
    if let Some(manager) = &description.external_manager {
        let why = format!(
            "  The namespace is external: {} manages its place in the hierarchy, because its annotation {} says so",
            printable(manager),
            annotations::MANAGED_BY
        );
        text.line(paint.ink(Ink::Warning, &why));
    }
    if description.terminating {
        text.line(paint.ink(Ink::Warning, "  The namespace is being deleted"));
        for obstacle in &description.deletion_waits_for {
            text.line(format!("  - {}", paint.ink(Ink::Warning, &printable(obstacle))));
        }
    }
    text.line(
        parent
            .as_ref()
            .map_or_else(|| "  No parent".to_owned(), |parent| format!("  Parent: {}", printable(parent))),
    );
    if description.hierarchy_terminating {
        let then = hierarchy::loses_parent(namespace, parent.as_deref());
        let line = format!("  The HierarchyConfiguration is being deleted{then}");
        text.line(paint.ink(Ink::Warning, &line));
    }
    text.push_str(match &description.excluded {
        _ if children.is_empty() => "  No children\n",
        Some(_) => "  Children, to which nothing is copied:\n",
        None => "  Children:\n",
    });
    for child in children {
        text.line(format!("  - {}", child.line()));
    }
    text.line(format!("  Allows Cascading Deletion: {}", description.allow_cascading_deletion));
    if let Some(ancestor) = &description.cascading_deletion_allowed_by {
        text.line(format!("  Cascading deletion is allowed by {}, which is above", printable(ancestor)));
    }
    if let Some(ancestor) = &description.cascading_deletion_unknown_from {
        let unread = hierarchy::allowed_by_unread(&printable(ancestor));
        text.line(format!("  It is unknown whether cascading deletion is {unread}"));
    }
    text.push_str(if conditions.is_empty() { "  No conditions\n" } else { "  Conditions:\n" });
    for condition in conditions {
        text.line(format!("  - {}", paint.ink(Ink::Warning, &condition.line())));
    }
    text.push('\n');
    if description.events.is_empty() {
        text.push_str("No recent HNC events for objects in this namespace\n");
        return text;
    }
    text.line(format!("Events from the objects in namespace {namespace}"));
    let heading = row(["Last Seen", "Reason", "Object", "Message"]);
    let cells = |it: &Line| row([&*it.last_seen, &*it.reason, &*limited(&it.object, OBJECT), &*it.message]);
    let rows: Vec<Vec<String>> =
        std::iter::once(heading).chain(description.events.iter().map(cells)).collect();
    text.push_str(&aligned(&rows, 2));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::children::tests::anchor;
    use super::*;
    use crate::structure::tests::sketch;

    fn drawn(description: &Description) -> String {
        text(description, Paint::NONE)
    }

    #[test]
    fn an_empty_description_equals_that_of_hnc() {
        let description = Description { namespace: "parent".into(), ..Description::default() };
        let wanted = "\
Hierarchy configuration for namespace parent
  No parent
  No children
  Allows Cascading Deletion: false
  No conditions

No recent HNC events for objects in this namespace
";
        assert_eq!(drawn(&description), wanted);
    }

    /// What `tree` draws around a namespace that is being deleted, whose `HierarchyConfiguration` is gone.
    #[test]
    fn the_place_of_a_namespace_without_its_object_is_known() {
        let mut structure = sketch(&["rival", "t < rival", "kid < t"]);
        structure.hierarchies.remove("t");
        let seen = structure.namespaces.get_mut("t").unwrap();
        seen.terminating = true;
        seen.labels = [("t.tree.hnc.x-k8s.io/depth", "0"), ("rival.tree.hnc.x-k8s.io/depth", "1")]
            .into_iter()
            .collect();
        let mut place = Place { parent: None, children: Vec::new() };
        place.add(&structure, "t");
        assert_eq!(place, Place { parent: Some("rival".into()), children: vec!["kid".into()] });
        let mut place = Place { parent: Some("other".into()), children: vec!["kid".into()] };
        place.add(&structure, "t");
        assert_eq!(place, Place { parent: Some("other".into()), children: vec!["kid".into()] });
    }

    #[test]
    fn an_excluded_namespace_is_called_so() {
        let excluded = Some(forest::Unmanaged::Own.to_string());
        let mut description = Description { namespace: "home".into(), excluded, ..Description::default() };
        let wanted = "namespace home\n  The namespace is excluded, because hns runs in it\n  No parent\n";
        assert!(drawn(&description).contains(wanted), "{}", drawn(&description));
        description.parent = Some("a".into());
        let wanted =
            "  The namespace is excluded, because hns runs in it, so its parent has no effect\n  Parent: a\n";
        assert!(drawn(&description).contains(wanted), "{}", drawn(&description));
    }

    #[test]
    fn a_hierarchy_that_goes_is_named() {
        for (parent, line) in [
            (
                Some("a"),
                "  Parent: a\n  The HierarchyConfiguration is being deleted; when it is gone, n has no parent, unless",
            ),
            (None, "  No parent\n  The HierarchyConfiguration is being deleted\n  No children"),
        ] {
            let (namespace, parent) = ("n".into(), parent.map(str::to_owned));
            let description =
                Description { namespace, parent, hierarchy_terminating: true, ..Description::default() };
            assert!(drawn(&description).contains(line), "{}", drawn(&description));
        }
    }

    #[test]
    fn what_holds_beside_the_own_fields_has_lines_of_its_own() {
        let waiting: Namespace = serde_json::from_value(json!({ "metadata": {}, "status": { "conditions": [
            { "type": "NamespaceContentRemaining", "status": "True", "message": "configmaps. has 1" },
            { "type": "NamespaceDeletionContentFailure", "status": "False", "message": "no" },
        ] } }))
        .unwrap();
        let description = Description {
            namespace: "n".into(),
            cascading_deletion_allowed_by: Some("acme".into()),
            external_manager: Some("other".into()),
            terminating: true,
            deletion_waits_for: obstacles(&waiting),
            ..Description::default()
        };
        let text = drawn(&description);
        let lines = "namespace n\n  The namespace is external: other manages its place in the hierarchy, because its annotation \
                     hnc.x-k8s.io/managed-by says so\n  The namespace is being deleted\n  - NamespaceContentRemaining: configmaps. has 1\n";
        assert!(text.contains(lines), "{text}");
        let lines =
            "  Allows Cascading Deletion: false\n  Cascading deletion is allowed by acme, which is above\n";
        assert!(text.contains(lines), "{text}");
        let description = Description {
            cascading_deletion_allowed_by: None,
            cascading_deletion_unknown_from: Some("acme".into()),
            ..description
        };
        let text = drawn(&description);
        let lines = "  Allows Cascading Deletion: false\n  It is unknown whether cascading deletion is allowed by acme or a namespace \
                     above it: you may not read hierarchyconfigurations in acme\n";
        assert!(text.contains(lines), "{text}");
    }

    #[test]
    fn a_full_description_equals_that_of_hnc() {
        let anchors = [
            anchor("e", "Ok"),
            anchor("d", "Conflict"),
            anchor("g", "Missing"),
            anchor("h", "Conflict"),
            anchor("i", "Ok"),
        ];
        let missing = json!({ "type": "ActivitiesHalted", "reason": "ParentMissing", "message": "gone" });
        let description = Description {
            namespace: "parent".into(),
            parent: Some("P".into()),
            children: children(
                &["f", "e", "h"].map(str::to_owned),
                &anchors,
                &Structure::default(),
                &structure::settings(),
            ),
            allow_cascading_deletion: true,
            conditions: vec![condition(&missing)],
            ..Description::default()
        };
        let wanted = "\
Hierarchy configuration for namespace parent
  Parent: P
  Children:
  - d (Conflict subnamespace)
  - e (subnamespace)
  - f
  - g (Missing subnamespace)
  - h (Conflict subnamespace)
  - i (subnamespace)
  Allows Cascading Deletion: true
  Conditions:
  - ActivitiesHalted (ParentMissing): gone

No recent HNC events for objects in this namespace
";
        assert_eq!(drawn(&description), wanted);
    }

    fn event(reason: &str, name: &str, at: &str, component: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "reason": reason, "message": format!("{reason} of {name}"), "lastTimestamp": at,
            "source": { "component": component },
            "involvedObject": { "kind": "Secret", "namespace": "n", "name": name },
        }))
        .unwrap()
    }

    #[test]
    fn events_are_merged_by_object_and_reason() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let events = [
            event("CannotPropagateObject", "a", "2026-01-01T00:00:00Z", "hnc.x-k8s.io"),
            event("CannotPropagateObject", "a", "2026-01-01T00:58:30Z", "hnc.x-k8s.io"),
            event("CannotUpdateObject", "b", "2026-01-01T00:59:59Z", "hnc.x-k8s.io"),
            event("Killing", "c", "2026-01-01T00:59:59Z", "kubelet"),
        ];
        let description =
            Description { namespace: "n".into(), events: lines(&events, now), ..Description::default() };
        let wanted = "
Events from the objects in namespace n
Last Seen  Reason                 Object      Message
1s         CannotUpdateObject     Secret:n/b  CannotUpdateObject of b
90s        CannotPropagateObject  Secret:n/a  CannotPropagateObject of a
";
        assert!(drawn(&description).ends_with(wanted), "{}", drawn(&description));

        let long = ["x".repeat(253), "x".repeat(1_100)];
        let events = long
            .map(|name| Event { message: None, ..event("R", &name, "2026-01-01T00:59:59Z", "hnc.x-k8s.io") });
        let description = Description { events: lines(&events, now), ..Description::default() };
        let sizes: Vec<_> =
            drawn(&description).lines().rev().take(2).map(|line| line.trim_end().len()).collect();
        assert_eq!(sizes, [19 + OBJECT, 19 + "Secret:n/".len() + 253]);
    }
}
