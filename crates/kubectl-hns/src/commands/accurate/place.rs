//! The place of a namespace in the hierarchy, which its labels say, and the write that changes it.

use std::collections::BTreeMap;

use forest::EdgeKind;
use hns_api::accurate::annotations::MOVED_FROM;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::labels;
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, PostParams};

use super::failed;
use crate::commands::{hierarchy, relocation};
use crate::failure::Problem;
use crate::session::Session;
use crate::structure::subnamespace_of;
use crate::{Failure, optimistic};

/// The hint for a namespace that does not exist.
pub(super) const ALL: &str = "`kubectl get namespaces` shows all namespaces.";

/// The place of a namespace. An empty value counts as none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kind: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) template: Option<String>,
    /// What an unfinished move or cut still has to delete.
    pub(super) moved_from: Option<Original>,
    /// Whether it is in HNC's hierarchy.
    pub(super) is_in_hnc: bool,
    /// Whether it is being deleted.
    pub(super) is_ending: bool,
}

/// A `SubNamespace` that a namespace no longer belongs to. A user who may write the annotation, but may not read the `SubNamespace`, does
/// not know its UID, and so cannot make a command delete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) struct Original {
    pub(in crate::commands) namespace: String,
    pub(in crate::commands) uid: String,
}

impl Original {
    /// What an annotation says.
    pub(in crate::commands) fn read(text: &str) -> Option<Self> {
        let (namespace, uid) = text.split_once('/')?;
        Some(Self { namespace: namespace.to_owned(), uid: uid.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}/{}", self.namespace, self.uid)
    }
}

impl Place {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let value = |map: &Option<BTreeMap<String, String>>, key| {
            map.as_ref().and_then(|it| it.get(key)).filter(|it| !it.is_empty()).cloned()
        };
        let label = |key| value(&metadata.labels, key);
        Self {
            kind: label(TYPE),
            parent: label(PARENT),
            template: label(TEMPLATE),
            moved_from: value(&metadata.annotations, MOVED_FROM).as_deref().and_then(Original::read),
            is_in_hnc: is_in_hnc(metadata),
            is_ending: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Finds out whether it is in HNC's hierarchy. One that is in both is halted there, and has no labels of its place; that others name it
    /// is enough. Who may not read that sees the rest.
    pub(super) async fn look_into_hnc(&mut self, session: &Session, name: &str) {
        if self.is_in_hnc {
            return;
        }
        let found = session.call(hierarchy::api(session, name).get_opt(HIERARCHY_CONFIGURATION)).await;
        self.is_in_hnc = found.ok().flatten().is_some_and(|it| ingest::hierarchy(it).1.parent.is_some());
    }

    /// Whether others can name it as their parent, or as their template. A sub-namespace needs no type for either.
    pub(super) fn leads(&self, kind: EdgeKind) -> bool {
        let wanted = match kind {
            EdgeKind::Parent => TYPE_ROOT,
            EdgeKind::Template => TYPE_TEMPLATE,
        };
        self.parent.is_some() || self.kind.as_deref() == Some(wanted)
    }

    /// The parent, or else the template.
    pub(super) fn upstream(&self) -> Option<(&str, EdgeKind)> {
        let parent = self.parent.as_deref().map(|it| (it, EdgeKind::Parent));
        parent.or(self.template.as_deref().map(|it| (it, EdgeKind::Template)))
    }

    /// The labels that say it.
    pub(super) fn labels(&self) -> [(&'static str, Option<&str>); 3] {
        [(TYPE, &self.kind), (PARENT, &self.parent), (TEMPLATE, &self.template)]
            .map(|(key, value)| (key, value.as_deref()))
    }

    fn write(&self, metadata: &mut ObjectMeta) {
        let labels = metadata.labels.get_or_insert_default();
        self.labels().into_iter().for_each(|(key, value)| set(labels, key, value));
        let annotations = metadata.annotations.get_or_insert_default();
        set(annotations, MOVED_FROM, self.moved_from.as_ref().map(Original::text).as_deref());
    }
}

/// Whether HNC's labels and annotations say that the namespace has a parent or a child.
fn is_in_hnc(metadata: &ObjectMeta) -> bool {
    let own = metadata.name.as_deref();
    let is_above = |key: &str| labels::tree_label_namespace(key).is_some_and(|it| Some(it) != own);
    let shows = |key: &String| key == labels::HAS_CHILDREN || is_above(key);
    metadata.labels.iter().flatten().any(|(key, _)| shows(key)) || subnamespace_of(metadata).is_some()
}

fn set(map: &mut BTreeMap<String, String>, key: &str, value: Option<&str>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value.to_owned())),
        None => drop(map.remove(key)),
    }
}

/// Whether the API server stores a change, or only says whether it would be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Store,
    DryRun,
}

/// Reads the place of a namespace.
pub(super) async fn read(session: &Session, name: &str) -> Result<Place, Failure> {
    metadata(session, name).await.map(|it| Place::of(&it))
}

/// The same of a namespace that is to be moved. One that is being deleted would be created anew, and empty, after the move.
pub(super) async fn to_move(session: &Session, name: &str) -> Result<Place, Failure> {
    let metadata = metadata(session, name).await?;
    stays(name, &metadata)?;
    Ok(Place::of(&metadata))
}

/// Fails if the namespace is being deleted.
pub(super) fn stays(name: &str, metadata: &ObjectMeta) -> Result<(), Failure> {
    hierarchy::stays(name, metadata).map_err(|failure| {
        failure.with_hint(format!(
            "A deletion cannot be undone. `kubectl get namespace {name} -o yaml` shows what it waits for, in its conditions."
        ))
    })
}

async fn metadata(session: &Session, name: &str) -> Result<ObjectMeta, Failure> {
    let found = session.call(session.all::<Namespace>().get_metadata(name)).await;
    found.map(|it| it.metadata).map_err(|problem| unreadable(name, &problem))
}

/// Changes the place of a namespace to what `next` makes of it, and returns whether it was another one before. If the namespace is
/// changed meanwhile, `next` decides again.
pub(super) async fn change(
    session: &Session,
    name: &str,
    mode: Mode,
    next: impl Fn(Place) -> Result<Place, Failure>,
) -> Result<bool, Failure> {
    attempt(session, name, mode, next).await?.map_err(|problem| unchanged(name, &problem))
}

/// The same. The inner error is the problem of the request.
pub(super) async fn attempt(
    session: &Session,
    name: &str,
    mode: Mode,
    next: impl Fn(Place) -> Result<Place, Failure>,
) -> Result<Result<bool, Problem>, Failure> {
    let params = PostParams { dry_run: mode == Mode::DryRun, ..PostParams::default() };
    let edit = |namespace: &mut DynamicObject| {
        let present = Place::of(&namespace.metadata);
        let wanted = next(present.clone())?;
        wanted.write(&mut namespace.metadata);
        Ok(wanted != present)
    };
    let mut attempts = optimistic::ATTEMPTS;
    let again = |problem: &Problem| {
        attempts -= 1;
        problem.is_stale() && attempts > 0
    };
    let api = relocation::namespaces(session);
    optimistic::change((session, &api), (name, &params), edit, again).await
}

/// The failure of a change.
pub(super) fn unchanged(name: &str, problem: &Problem) -> Failure {
    if problem.is_not_found() {
        return unreadable(name, problem);
    }
    failed(format_args!("namespace {name} cannot be changed"), problem)
}

pub(super) fn unreadable(name: &str, problem: &Problem) -> Failure {
    let failure = failed(format_args!("namespace {name} cannot be read"), problem);
    if problem.is_not_found() {
        return failure.with_hint(ALL);
    }
    failure
}

#[cfg(test)]
mod tests {
    use hns_api::annotations;

    use super::*;

    #[test]
    fn a_parent_or_a_child_shows_that_a_namespace_is_in_hnc() {
        for (label, annotation, wanted) in [
            ("n.tree.hnc.x-k8s.io/depth", "", false),
            ("p.tree.hnc.x-k8s.io/depth", "", true),
            (labels::HAS_CHILDREN, "", true),
            (labels::INCLUDED_NAMESPACE, "", false),
            (labels::INCLUDED_NAMESPACE, "p", true),
        ] {
            let map = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
            let metadata = ObjectMeta {
                name: Some("n".into()),
                labels: map(label, "1"),
                annotations: map(annotations::SUBNAMESPACE_OF, annotation),
                ..ObjectMeta::default()
            };
            assert_eq!(Place::of(&metadata).is_in_hnc, wanted, "{label} {annotation:?}");
        }
    }

    #[test]
    fn a_sub_namespace_can_be_a_parent_and_a_template() {
        for (kind, parent, wanted) in [
            (None, None, [false, false]),
            (Some(TYPE_ROOT), None, [true, false]),
            (Some(TYPE_TEMPLATE), None, [false, true]),
            (None, Some("p"), [true, true]),
        ] {
            let [kind, parent] = [kind, parent].map(|it| it.map(str::to_owned));
            let place = Place { kind, parent, ..Place::default() };
            assert_eq!([EdgeKind::Parent, EdgeKind::Template].map(|it| place.leads(it)), wanted, "{place:?}");
        }
    }

    #[test]
    fn a_change_of_place_keeps_other_labels() {
        let mut metadata = ObjectMeta::default();
        let labels = [("team", "a"), (TYPE, "root"), (TEMPLATE, "")];
        metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let place = Place::of(&metadata);
        assert_eq!(place, Place { kind: Some("root".into()), ..Place::default() });
        let moved = Place {
            parent: Some("p".into()),
            moved_from: Original::read("o/1"),
            kind: None,
            ..place.clone()
        };
        moved.write(&mut metadata);
        assert_eq!(Place::of(&metadata), moved);
        let keys: Vec<String> = metadata.labels.clone().unwrap_or_default().into_keys().collect();
        assert_eq!(keys, [PARENT, "team"], "an empty label goes as well");
        place.write(&mut metadata);
        assert_eq!((Place::of(&metadata), metadata.annotations), (place, Some([].into())));
    }
}
