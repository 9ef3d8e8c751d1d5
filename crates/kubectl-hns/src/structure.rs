//! Reads the structure: lists of the whole cluster or, for a user who may not list, what their rights allow around one
//! namespace. A [`Forest`] is built from it.

mod around;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forest::hnc;
use forest::{AnchorFact, Condition, Fact, Forest, HierarchyFact, Name, NamespaceFact, Settings, Version};
use hns_api::conditions::activities_halted::PARENT_MISSING;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, annotations, labels, names};
use hns_cluster::api::Api;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;

use crate::Failure;
use crate::failure::Problem;
use crate::installation::{DEFINITIONS_GO, is_definition_deleted};
use crate::session::Session;

/// The namespaces, hierarchies and anchors that were read.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    pub(crate) namespaces: BTreeMap<Name, NamespaceFact>,
    pub(crate) hierarchies: BTreeMap<Name, HierarchyFact>,
    /// The anchors, each with its namespace.
    pub(crate) anchors: Vec<(Name, AnchorFact)>,
    /// What the user may not read, as notes.
    pub(crate) notes: Vec<String>,
    /// The namespaces whose hierarchy the user may not read.
    pub(crate) hidden: BTreeSet<Name>,
    /// The namespaces whose anchors the user may not read.
    pub(crate) without_anchors: BTreeSet<Name>,
    /// Whether these are all namespaces and hierarchies of the cluster.
    pub(crate) is_whole: bool,
}

impl Structure {
    /// The children in the status of the `HierarchyConfiguration`, which may be older than the parents in `spec`.
    pub(crate) fn listed_children(&self, name: &str) -> &[Name] {
        self.hierarchies.get(name).map_or(&[], |it| &it.status.children)
    }

    /// The conditions in the status of the `HierarchyConfiguration`.
    pub(crate) fn conditions(&self, name: &str) -> &[Condition] {
        self.hierarchies.get(name).map_or(&[], |it| &it.status.conditions)
    }

    /// The parent of the namespace in this forest, if the controller reports that it does not exist. A report about another parent is an old one.
    fn missing_parent<'a>(&self, forest: &'a Forest, name: &str) -> Option<&'a Name> {
        forest.parent(name).filter(|parent| reports_missing(self.conditions(name), parent))
    }

    /// Removes the namespaces of which nothing could be read, and which the controller reports as missing parents. To a user who may
    /// not read a namespace, the API server does not say that it does not exist.
    fn remove_missing_parents(&mut self) {
        let forest = self.forest();
        let missing = self.hierarchies.keys().filter_map(|name| self.missing_parent(&forest, name));
        let missing: BTreeSet<&Name> = missing.filter(|name| !self.has_read(name)).collect();
        for name in missing {
            self.hierarchies.remove(name);
            self.hidden.remove(name);
        }
    }

    /// Whether the namespace or its hierarchy could be read.
    fn has_read(&self, name: &str) -> bool {
        let has_hierarchy = self.hierarchies.get(name).is_some_and(|it| !it.version.uid.is_empty());
        has_hierarchy || self.namespaces.contains_key(name)
    }

    /// Whether a namespace of which nothing was read may exist: the controller does not report it as missing.
    pub(crate) fn may_exist(&self, forest: &Forest, name: &str) -> bool {
        let is_missing = |child: &Name| self.missing_parent(forest, child).is_some_and(|it| **it == *name);
        !self.is_whole && !self.has_read(name) && !self.hierarchies.keys().any(is_missing)
    }

    /// Whether the namespace exists, or may exist although nothing of it was read.
    pub(crate) fn has(&self, forest: &Forest, name: &str) -> bool {
        self.has_read(name) || self.may_exist(forest, name)
    }

    /// Whether the namespace is annotated as a subnamespace or, if it cannot be read, has an anchor.
    pub(crate) fn is_subnamespace(&self, name: &str) -> bool {
        if let Some(namespace) = self.namespaces.get(name) {
            return namespace.annotations.get(annotations::SUBNAMESPACE_OF).is_some_and(|of| !of.is_empty());
        }
        self.holder(name).is_some()
    }

    /// The same; `None` if neither the namespace nor the anchors in its parent can be read.
    pub(crate) fn known_subnamespace(&self, forest: &Forest, name: &str) -> Option<bool> {
        let has_read = |it: &Name| self.hierarchies.contains_key(it) && !self.without_anchors.contains(it);
        let is_known = self.namespaces.contains_key(name)
            || self.holder(name).is_some()
            || forest.parent(name).is_none_or(has_read);
        is_known.then(|| self.is_subnamespace(name))
    }

    /// Whether the namespace is being deleted or, if it cannot be read, its anchor is.
    pub(crate) fn is_terminating(&self, name: &str) -> bool {
        match self.namespaces.get(name) {
            Some(namespace) => namespace.terminating,
            None => self.holder(name).is_some_and(|(_, anchor)| anchor.terminating),
        }
    }

    /// The anchor that says that the namespace is its subnamespace, with its namespace.
    fn holder(&self, name: &str) -> Option<&(Name, AnchorFact)> {
        let ok = Some(hns_api::anchor_states::OK);
        self.anchors.iter().find(|(_, anchor)| *anchor.name == *name && anchor.state.as_deref() == ok)
    }

    /// Whether a `HierarchyConfiguration` is being deleted, and its namespace is not, or is gone already.
    fn loses_hierarchy(&self) -> bool {
        let is_gone = |name: &Name| {
            let found = self.hierarchies.get(name);
            !self.hidden.contains(name) && found.is_none_or(|it| it.version.uid.is_empty())
        };
        self.hierarchies.iter().any(|(name, it)| it.terminating && !self.is_terminating(name))
            || self.namespaces.values().any(|it| has_place(it) && is_gone(&it.name))
    }

    /// Adds the anchors of subnamespaces in the parents whose anchors the user may not read.
    fn presume_anchors(&mut self, is_unread: impl Fn(&str) -> bool) {
        let of = |it: &NamespaceFact| {
            let parent = it.annotations.get(annotations::SUBNAMESPACE_OF)?;
            (!parent.is_empty() && is_unread(parent)).then(|| (parent.into(), presumed_anchor(&it.name)))
        };
        self.anchors.extend(self.namespaces.values().filter_map(of));
    }

    /// Whether the last of these namespaces, each the parent of the one before, may have a parent that could not be read: neither its
    /// hierarchy nor the tree labels of one of them could.
    pub(crate) fn ends_unread(&self, ancestry: &[Name]) -> bool {
        let is_labelled = ancestry.iter().any(|name| self.namespaces.contains_key(name));
        !is_labelled && ancestry.last().is_some_and(|top| self.hidden.contains(top))
    }

    /// Whether nothing is copied somewhere until a cycle or a missing parent is repaired.
    pub(crate) fn has_halted_tree(&self) -> bool {
        let forest = self.forest();
        self.namespaces.keys().any(|name| forest.halted_root(name).is_some())
    }

    /// A forest of the structure, with default settings. A namespace that could not be read exists in it if another
    /// object refers to it.
    pub(crate) fn forest(&self) -> Forest {
        self.forest_under(Arc::new(settings()))
    }

    /// A forest of the structure, with the settings of the installation.
    pub(crate) fn forest_under(&self, settings: Arc<Settings>) -> Forest {
        self.put_into(Forest::unconfigured(settings))
    }

    /// The same in an empty forest.
    pub(crate) fn put_into(&self, mut forest: Forest) -> Forest {
        // What was not read needs a uid, so that a preview can delete it.
        let version = |name: &Name| Version { uid: format!("unread-{name}").into(), ..Version::default() };
        let seen = |name: &Name| {
            let of = self.holder(name).map(|(parent, _)| (annotations::SUBNAMESPACE_OF, &**parent));
            NamespaceFact {
                name: name.clone(),
                version: version(name),
                annotations: of.into_iter().collect(),
                terminating: self.is_terminating(name),
                ..NamespaceFact::default()
            }
        };
        let unread = self.hierarchies.keys().filter(|name| !self.namespaces.contains_key(*name)).map(seen);
        let namespaces = self.namespaces.values().cloned().chain(unread).collect();
        forest.apply(Fact::Namespaces(namespaces));
        let hierarchies = self.hierarchies.iter().map(|(name, fact)| {
            let is_read = !fact.version.uid.is_empty();
            let version = if is_read { fact.version.clone() } else { version(name) };
            (name.clone(), HierarchyFact { version, ..fact.clone() })
        });
        forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(hierarchies.collect())));
        forest.apply(Fact::Hnc(hnc::Fact::Anchors(self.anchors.clone())));
        forest
    }
}

/// Whether the conditions of a namespace say that this parent does not exist. To a user who may not read it, the API server does not say so.
pub(crate) fn reports_missing(conditions: &[Condition], parent: &str) -> bool {
    let quoted = format!("{parent:?}");
    conditions.iter().any(|it| &*it.reason == PARENT_MISSING && it.message.contains(&quoted))
}

/// An anchor that the user may not read, as that of an existing subnamespace.
pub(crate) fn presumed_anchor(name: &Name) -> AnchorFact {
    AnchorFact { name: name.clone(), state: Some(hns_api::anchor_states::OK.into()), ..AnchorFact::default() }
}

/// The default settings of an installation.
pub(crate) fn settings() -> Settings {
    // The tests check this constant pattern.
    Settings::new(names::DEFAULT_NAMESPACE, <[&str; 0]>::default(), ".*").unwrap_or_else(|_| unreachable!())
}

/// The resource of hierarchies, as objects whose content may be invalid.
pub(crate) fn hierarchies() -> ApiResource {
    ApiResource::erase::<HierarchyConfiguration>(&())
}

/// The resource of anchors, as objects whose content may be invalid.
pub(crate) fn anchors() -> ApiResource {
    ApiResource::erase::<SubnamespaceAnchor>(&())
}

/// The namespaces that a command needs. A user who may list the whole cluster gets all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent<'a> {
    /// These namespaces, which must exist, and all below them.
    Below(&'a [String]),
    /// These namespaces, which must exist, and all above and below them.
    Around(&'a [String]),
    /// The whole cluster. For a user who may not list it: what is above and below the namespace of the request.
    All,
}

/// Reads the whole cluster in a few lists, or what the user's rights allow.
///
/// # Errors
/// A list failed for a reason other than missing rights, or a namespace does not exist or cannot be read at all.
pub(crate) async fn read(session: &Session, extent: Extent<'_>) -> Result<Structure, Failure> {
    let mut structure = Box::pin(read_extent(session, extent)).await?;
    if structure.loses_hierarchy() && is_definition_deleted::<HierarchyConfiguration>(session).await {
        structure.notes.push(without_definitions());
    }
    Ok(structure)
}

/// Whether labels show a place in a tree, which a `HierarchyConfiguration` configures.
pub(crate) fn has_place(namespace: &NamespaceFact) -> bool {
    let shows = |(key, value): (&str, &str)| {
        key == labels::HAS_CHILDREN || value != "0" && labels::tree_label_namespace(key).is_some()
    };
    !namespace.terminating && namespace.labels.iter().any(shows)
}

/// The note on what is shown while the definitions are being deleted.
pub(crate) fn without_definitions() -> String {
    format!("namespaces may be shown without their parents and children. {DEFINITIONS_GO}")
}

async fn read_extent(session: &Session, extent: Extent<'_>) -> Result<Structure, Failure> {
    let structure = match lists(session).await? {
        Ok(structure) => structure,
        Err(unlisted) => return around::read(session, extent, unlisted).await,
    };
    let (Extent::Below(names) | Extent::Around(names)) = extent else { return Ok(structure) };
    match names.iter().find(|name| !structure.namespaces.contains_key(&***name)) {
        Some(name) => Err(unreadable(name, &missing(name))),
        None => Ok(structure),
    }
}

/// The same with all anchors.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_with_anchors(session: &Session, extent: Extent<'_>) -> Result<Structure, Failure> {
    let mut structure = read(session, extent).await?;
    if structure.is_whole && !add_anchors(session, &mut structure).await? {
        let note = "you may not list subnamespaceanchors in the whole cluster; they are omitted";
        structure.notes.push(note.into());
        structure.presume_anchors(|_| true);
    }
    Ok(structure)
}

/// What a user may not list who may list namespaces.
const HIERARCHIES: &str = "hierarchyconfigurations";

/// The namespaces and hierarchies of the whole cluster, or which of them the user may not list.
pub(crate) async fn lists(session: &Session) -> Result<Result<Structure, &'static str>, Failure> {
    let everything = ListParams::default();
    let namespaces_api = session.all::<Namespace>();
    let hierarchies_api = Api::<DynamicObject>::all_with(session.client.clone(), &hierarchies());
    let (namespaces, hierarchies) = futures::join!(
        session.list_metadata(&namespaces_api, &everything),
        session.list(&hierarchies_api, &everything),
    );
    let is_forbidden = |problem: Option<&Problem>| problem.is_some_and(Problem::is_forbidden);
    match (is_forbidden(namespaces.as_ref().err()), is_forbidden(hierarchies.as_ref().err())) {
        (true, true) => return Ok(Err("namespaces and hierarchyconfigurations")),
        (true, false) => return Ok(Err("namespaces")),
        (false, true) => return Ok(Err(HIERARCHIES)),
        (false, false) => {}
    }
    match (namespaces, hierarchies) {
        (Err(problem), _) => Err(Failure::because("namespaces cannot be listed", &problem)),
        (_, Err(problem)) => Err(Failure::because("hierarchyconfigurations cannot be listed", &problem)),
        (Ok(namespaces), Ok(hierarchies)) => Ok(Ok(Structure {
            namespaces: namespaces.iter().map(|it| ingest::namespace(&it.metadata)).map(named).collect(),
            hierarchies: hierarchies.into_iter().map(ingest::hierarchy).collect(),
            is_whole: true,
            ..Structure::default()
        })),
    }
}

/// Adds the anchors of the whole cluster; returns false if the user may not list them.
///
/// # Errors
/// The list failed for another reason.
pub(crate) async fn add_anchors(session: &Session, structure: &mut Structure) -> Result<bool, Failure> {
    let api = Api::<DynamicObject>::all_with(session.client.clone(), &anchors());
    match session.list(&api, &ListParams::default()).await {
        Ok(all) => {
            structure.anchors = all.into_iter().map(ingest::anchor).collect();
            Ok(true)
        }
        Err(problem) if problem.is_forbidden() => Ok(false),
        Err(problem) => Err(Failure::because("subnamespaceanchors cannot be listed", &problem)),
    }
}

/// HNC's message for a namespace that cannot be read.
pub(crate) fn unreadable(namespace: &str, problem: &Problem) -> Failure {
    let failure =
        Failure { text: format!("Error reading namespace {namespace}: {problem}"), hint: problem.hint() };
    if problem.is_not_found() {
        return failure.with_hint("`kubectl hns tree -A` shows all namespaces.");
    }
    failure
}

/// Whose subnamespace a namespace is, by its annotation.
pub(crate) fn subnamespace_of(metadata: &ObjectMeta) -> Option<&str> {
    let of = metadata.annotations.as_ref()?.get(annotations::SUBNAMESPACE_OF)?;
    Some(&**of).filter(|it| !it.is_empty())
}

/// The API server's answer for a namespace that does not exist.
fn missing(namespace: &str) -> Problem {
    let message = format!("namespaces {namespace:?} not found");
    Problem::Refused(Box::new(kube::core::Status::failure(&message, "NotFound").with_code(404)))
}

fn named(fact: NamespaceFact) -> (Name, NamespaceFact) {
    (fact.name.clone(), fact)
}

/// The results of reading one namespace without lists; each request may be refused.
struct NamespaceRead {
    name: Name,
    namespace: Result<NamespaceFact, Problem>,
    hierarchy: Result<Option<HierarchyFact>, Problem>,
    anchors: Result<Vec<(Name, AnchorFact)>, Problem>,
}

async fn read_namespace(session: &Session, name: &Name) -> NamespaceRead {
    let namespaces = session.all::<Namespace>();
    let hierarchies = Api::<DynamicObject>::namespaced_with(session.client.clone(), name, &hierarchies());
    let anchors = Api::<DynamicObject>::namespaced_with(session.client.clone(), name, &anchors());
    let params = ListParams::default();
    let (namespace, hierarchy, anchors) = futures::join!(
        session.call(namespaces.get_metadata(name)),
        session.call(hierarchies.get_opt(names::HIERARCHY_CONFIGURATION)),
        session.list(&anchors, &params),
    );
    NamespaceRead {
        name: name.clone(),
        namespace: namespace.map(|it| ingest::namespace(&it.metadata)),
        hierarchy: hierarchy.map(|it| it.map(|object| ingest::hierarchy(object).1)),
        anchors: anchors.map(|all| all.into_iter().map(ingest::anchor).collect()),
    }
}
