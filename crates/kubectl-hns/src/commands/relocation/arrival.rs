//! Waits until a namespace is in its new place, with all below it and all copies.

use std::collections::BTreeSet;

use forest::Name;
use hns_api::conditions::activities_halted::ANCESTOR_HALT_ACTIVITIES;
use hns_api::{labels, names};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};

use crate::commands::hierarchy::{self, stays};
use crate::copies::Objects;
use crate::failure::Problem;
use crate::lines::printable;
use crate::session::Session;
use crate::structure::{self, Extent};
use crate::wait::{Deadline, Progress, until};
use crate::{Failure, Terminal};

/// What failed if the namespace cannot be read.
const UNREAD: &str = "the change is stored, but its progress cannot be read";

/// What is known of a namespace that has arrived with all below it.
#[derive(Debug, Default)]
pub(in crate::commands) struct Arrival {
    /// What could not be checked, as notes for the user.
    pub(in crate::commands) unchecked: Vec<String>,
    /// The number of objects that are kept in the way of copies.
    pub(in crate::commands) kept: usize,
}

/// Waits until the namespace and all namespaces below it are in place below `parent`, with all copies; `what` is what
/// is waited for, as a noun.
pub(in crate::commands) async fn wait_for_arrival(
    session: &Session,
    terminal: &Terminal,
    (what, name, parent): (&str, &str, Option<&str>),
    deadline: Deadline,
) -> Result<Arrival, Failure> {
    let shown_by = format!("describe {name}");
    until(terminal, (what, &shown_by), deadline, async || progress(session, name, parent).await).await?;
    let mut arrival = Arrival::default();
    let right = format!("the copies in {name} and below");
    until(terminal, (&right, &shown_by), deadline, async || {
        copies(session, (name, parent), &mut arrival).await
    })
    .await?;
    Ok(arrival)
}

/// The progress of the move below `parent`.
async fn progress(session: &Session, name: &str, parent: Option<&str>) -> Result<Progress, Failure> {
    let failed = |problem: Problem| Failure::because(UNREAD, &problem);
    let api = session.all::<Namespace>();
    if let Ok(namespace) = session.call(api.get_metadata(name)).await {
        stays(name, &namespace.metadata)?;
    }
    let halt_of_parent = async || Some(halt_above(session, parent?).await);
    let hierarchies = hierarchy::api(session, name);
    let object = match session.call(hierarchies.get_opt(names::HIERARCHY_CONFIGURATION)).await {
        Err(problem) if problem.is_forbidden() => {
            return without_rights(name, halt_of_parent().await, &problem);
        }
        found => found.map_err(failed)?,
    };
    let present = object.as_ref().map(hierarchy::spec).unwrap_or_default().parent;
    if present.as_deref() != parent {
        return Ok(Progress::missing(format!(
            "the parent of {name} is {}",
            present.as_deref().unwrap_or("none")
        )));
    }
    if let Some(parent) = parent {
        // There is nothing to wait for. A user who may not read the parent sees the condition that follows from it.
        if let Ok(Some(halt)) = halt_above(session, parent).await {
            return Err(parent_is_halted(name, parent, &halt));
        }
    }
    let halt = object.as_ref().and_then(|it| Halt::of(name, it));
    let above = match parent {
        None => Depths::new(),
        Some(parent) => match session.call(api.get_metadata(parent)).await {
            Err(problem) if problem.is_not_found() => return Err(parent_is_missing(name, parent)),
            found => depths(&found.map_err(failed)?.metadata),
        },
    };
    if let Some(halt) = halt {
        return Ok(Progress::missing(format!("{halt}: {}", halt.message)));
    }
    let below = ListParams::default().labels(&labels::tree_label(name));
    let members = match session.list_metadata(&api, &below).await {
        Err(problem) if problem.is_forbidden() => match session.call(api.get_metadata(name)).await {
            Err(problem) if problem.is_forbidden() => {
                return without_rights(name, halt_of_parent().await, &problem);
            }
            found => vec![found.map_err(failed)?],
        },
        other => other.map_err(failed)?,
    };
    // A namespace that is being deleted keeps its labels.
    let members: Vec<(String, Depths)> = members
        .iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .map(|it| (it.metadata.name.clone().unwrap_or_default(), depths(&it.metadata)))
        .collect();
    Ok(label_progress(name, &above, &members))
}

fn rights_missing(name: &str) -> Progress {
    Progress::missing(format!(
        "your rights in {name} (a RoleBinding above that is not propagated gives none)"
    ))
}

/// A namespace that is halted, or below a halted one that the user may not read.
#[derive(Debug)]
struct Halt {
    namespace: String,
    is_below: bool,
    message: String,
}

impl Halt {
    /// The condition that halts the namespace of this `HierarchyConfiguration`.
    fn of(namespace: &str, hierarchy: &DynamicObject) -> Option<Self> {
        let mut conditions = hierarchy::conditions(hierarchy).iter();
        let halts = conditions.find(|it| it["type"] == hns_api::conditions::ACTIVITIES_HALTED)?;
        let is_below = halts["reason"] == ANCESTOR_HALT_ACTIVITIES;
        let message = printable(halts["message"].as_str().unwrap_or_default()).into_owned();
        Some(Self { namespace: namespace.to_owned(), is_below, message })
    }

    /// What the user can do.
    fn way_out(&self) -> String {
        format!("`kubectl hns describe {}` shows the problem.", self.namespace)
    }
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.is_below { "is below a halted namespace" } else { "is halted" };
        write!(f, "{} {what}", self.namespace)
    }
}

/// Why nothing is copied to the children of `parent`, if nothing is: the nearest namespace with a fault of its own. `Err` if the user may
/// not read the hierarchy of the parent.
async fn halt_above(session: &Session, parent: &str) -> Result<Option<Halt>, Problem> {
    let read = async |name: &str| {
        session.call(hierarchy::api(session, name).get_opt(names::HIERARCHY_CONFIGURATION)).await
    };
    let mut object = read(parent).await?;
    let mut halt = object.as_ref().and_then(|it| Halt::of(parent, it));
    let mut seen = BTreeSet::from([parent.to_owned()]);
    while halt.as_ref().is_some_and(|it| it.is_below)
        && let Some(above) =
            object.as_ref().and_then(hierarchy::existing_parent).filter(|it| seen.insert(it.clone()))
    {
        object = read(&above).await.unwrap_or_default();
        halt = object.as_ref().and_then(|it| Halt::of(&above, it)).or(halt);
    }
    Ok(halt)
}

/// The progress where the user may not read the namespace, which exists: the rights that they have in the parent arrive below it with
/// the other copies, unless it is halted.
fn without_rights(
    name: &str,
    above: Option<Result<Option<Halt>, Problem>>,
    problem: &Problem,
) -> Result<Progress, Failure> {
    let failure = || Failure::because(UNREAD, problem).where_it_exists();
    match above {
        Some(Ok(None)) => Ok(rights_missing(name)),
        Some(Ok(Some(halt))) => Err(failure().with_hint(format!(
            "Your rights above {name} are not copied to it, because {halt}: {}",
            halt.way_out()
        ))),
        Some(Err(_)) | None => Err(failure()),
    }
}

fn parent_is_halted(name: &str, parent: &str, halt: &Halt) -> Failure {
    let which = if halt.namespace == parent { "parent" } else { "ancestor" };
    Failure::new(format!(
        "Error: {name} is below {parent}, but nothing is copied to it, because its {which} {halt}: {}",
        halt.message
    ))
    .with_hint(format!("{} When it is solved, {name} gets its copies.", halt.way_out()))
}

/// There is nothing to wait for: the parent can be created at any time.
fn parent_is_missing(name: &str, parent: &str) -> Failure {
    Failure::new(format!(
        "Error: {name} is below {parent}, but is halted, because its parent {parent} does not exist"
    ))
    .with_hint(format!(
        "Create {parent}, or set another parent: `kubectl hns set {name} --parent PARENT`, or --root."
    ))
}

/// The depths by ancestor, from tree labels.
type Depths = std::collections::BTreeMap<String, u64>;

fn depths(metadata: &ObjectMeta) -> Depths {
    let depth = |(key, value): (&String, &String)| {
        Some((labels::tree_label_namespace(key)?.to_owned(), value.parse().ok()?))
    };
    metadata.labels.iter().flatten().filter_map(depth).collect()
}

/// Whether all members of the tree below `name` have exactly the labels of the ancestors in `above` and within the
/// tree.
fn label_progress(name: &str, above: &Depths, members: &[(String, Depths)]) -> Progress {
    let inside: BTreeSet<&str> = members.iter().map(|(member, _)| &**member).collect();
    let is_right = |(_, marks): &&(String, Depths)| {
        let Some(own) = marks.get(name) else { return false };
        let right = above.iter().all(|(ancestor, depth)| marks.get(ancestor) == Some(&(depth + own + 1)));
        right && marks.keys().all(|it| above.contains_key(it) || inside.contains(&**it))
    };
    let done = members.iter().filter(is_right).count();
    if !members.is_empty() && done == members.len() {
        return Progress::Done;
    }
    let missing = members.iter().find(|it| !is_right(it)).map_or(name, |(member, _)| member);
    Progress::Part(to_u64(done), to_u64(members.len().max(1)), format!("the tree labels of {missing}"))
}

/// The progress of the copies in the namespace and below. What the user may not read is omitted and noted, unless the right to read it
/// will arrive from the parent, with the other copies.
async fn copies(
    session: &Session,
    (name, parent): (&str, Option<&str>),
    arrival: &mut Arrival,
) -> Result<Progress, Failure> {
    let structure = structure::read(session, Extent::Around(&[name.to_owned()])).await?;
    let tree = BTreeSet::from_iter(below(&structure.forest(), name));
    let objects = Objects::read(session, structure).await?;
    *arrival = Arrival { unchecked: objects.notes_on_objects(), kept: objects.kept(&tree, None) };
    match parent.and_then(|parent| objects.awaiting_rights(&tree, parent)) {
        Some(place) => Ok(rights_missing(place)),
        None => Ok(objects.progress(&tree, None)),
    }
}

fn below(forest: &forest::Forest, name: &str) -> Vec<Name> {
    let mut all = vec![Name::from(name)];
    let mut next = 0;
    while let Some(name) = all.get(next).cloned() {
        next += 1;
        let children = forest.children(&name).into_iter().filter(|child| !all.contains(child));
        all.extend(children.collect::<Vec<_>>());
    }
    all
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depths(pairs: &[(&str, u64)]) -> Depths {
        pairs.iter().map(|(name, depth)| ((*name).to_owned(), *depth)).collect()
    }

    #[test]
    fn rights_arrive_with_the_copies_unless_the_parent_is_halted() {
        let text = "x is forbidden: User \"u\" cannot get resource \"x\" in the namespace \"n\"";
        let status = kube::core::Status::failure(text, "Forbidden").with_code(403);
        let problem = Problem::Refused(Box::new(status));
        let halt = |is_below| Halt { namespace: "p".into(), is_below, message: "m".into() };
        for (above, hint) in [
            (Some(Ok(None)), None),
            (
                Some(Ok(Some(halt(false)))),
                Some("because p is halted: `kubectl hns describe p` shows the problem."),
            ),
            (
                Some(Ok(Some(halt(true)))),
                Some("because p is below a halted namespace: `kubectl hns describe p` shows the problem."),
            ),
            (None, Some("An administrator of the namespace can give it to you.")),
        ] {
            let failure = without_rights("n", above, &problem).err();
            assert!(failure.as_ref().is_none_or(|it| it.text.contains("cannot be read: x is forbidden")));
            let found = failure.and_then(|it| it.hint);
            assert_eq!(found.is_some(), hint.is_some(), "{found:?}");
            assert!(found.as_deref().unwrap_or_default().ends_with(hint.unwrap_or_default()), "{found:?}");
        }
    }

    #[test]
    fn a_move_is_complete_when_all_labels_are_right() {
        let above = depths(&[("p", 0), ("root", 1)]);
        let moved = ("n".to_owned(), depths(&[("n", 0), ("p", 1), ("root", 2)]));
        let child = ("c".to_owned(), depths(&[("c", 0), ("n", 1), ("p", 2), ("root", 3)]));
        assert_eq!(label_progress("n", &above, &[moved.clone(), child.clone()]), Progress::Done);
        for late in [
            ("c".to_owned(), depths(&[("c", 0), ("n", 1), ("p", 2)])),
            ("c".to_owned(), depths(&[("c", 0), ("n", 1), ("p", 2), ("root", 2)])),
            ("c".to_owned(), depths(&[("c", 0), ("n", 1), ("p", 2), ("root", 3), ("old", 2)])),
        ] {
            let seen = label_progress("n", &above, &[moved.clone(), late.clone()]);
            assert_eq!(seen, Progress::Part(1, 2, "the tree labels of c".into()), "{late:?}");
        }
        assert!(
            matches!(label_progress("n", &above, &[]), Progress::Part(0, 1, _)),
            "without members there is no progress"
        );
        let lone = ("n".to_owned(), depths(&[("n", 0)]));
        assert_eq!(label_progress("n", &Depths::new(), &[lone]), Progress::Done, "a root");
    }
}
