//! Loads a [`Forest`] of the cluster: structure, configuration and objects, from lists, with the same conversion to
//! facts as the controller and the webhook. Only metadata is read, and of a `RoleBinding` the name of its role, which
//! propagation depends on. Everything is read of objects that can be compared with their copies: those of kinds that are asked for, and of
//! kinds that Accurate's API watches, if all `SubNamespaces` are known.
//!
//! What the user may not read is named in a note; everything else is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forest::exclusion::{SECRET_TYPES, field_selector};
use forest::hnc;
use forest::{Fact, Forest, Kind, KindId, KindSettings, Mode, Name, ObjectFact, Settings, Stream, accurate};
use futures::StreamExt;
use futures::stream;
use hns_cluster::api::Api;
use hns_cluster::api_object::ApiObject;
use hns_cluster::feed::api_resource;
use hns_cluster::ingest;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde_json::{Map, Value};

use crate::Failure;
use crate::configured_kinds::{self, ConfiguredKinds};
use crate::failure::Problem;
use crate::quotas;
use crate::session::{AT_ONCE, Session};
use crate::structure::Structure;

/// Which objects to read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// The objects of all configured kinds except ignored ones, and of these kinds, which are ignored unless they are
    /// configured, with their content.
    All(&'a [Kind]),
    /// The objects of this kind and name, whether or not the kind is configured, and the Roles that they refer to.
    Named(&'a Kind, &'a str),
}

impl Selection<'_> {
    fn is_whole(self, kind: &Kind) -> bool {
        matches!(self, Self::All(whole) if whole.contains(kind))
    }
}

/// The loaded forest and the structure that it was built from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The forest. It has anchors if they were added to the structure ([`crate::structure::add_anchors`]). Objects of a
    /// kind that could be listed in the whole cluster, or in each requested namespace, are synced, so that they are planned for;
    /// of other kinds it has the objects that could be read.
    pub(crate) forest: Forest,
    /// The structure that was read.
    pub(crate) structure: Structure,
    /// By kind, the namespaces whose objects could not be read, except namespaces that were not requested.
    pub(crate) unread: BTreeMap<KindId, BTreeSet<Name>>,
    /// Whether hierarchical quotas could not be read.
    pub(crate) lacks_quotas: bool,
    /// What could not be read, as notes for the user.
    pub(crate) notes: Vec<String>,
}

/// Reads the objects and puts them and the structure into the `empty` forest. If a kind cannot be listed in the whole cluster, its objects are read in
/// each namespace of `within`.
///
/// # Errors
/// A request failed for a reason other than missing rights.
pub(crate) async fn load(
    session: &Session,
    (structure, empty): (Structure, Forest),
    configured: &ConfiguredKinds,
    selection: Selection<'_>,
    within: &BTreeSet<Name>,
) -> Result<Loaded, Failure> {
    let mut forest = structure.put_into(empty);
    let kinds = kinds(configured, selection);
    forest.apply(Fact::Kinds(kinds.clone()));
    forest.apply(Fact::Hnc(hnc::Fact::TreeLimits(configured.resolution.limits.clone())));
    let notes = structure.notes.clone();
    let mut loaded = Loaded { forest, structure, unread: BTreeMap::new(), lacks_quotas: false, notes };
    let mut unlisted = Vec::new();
    for KindSettings { kind, mode, .. } in &kinds {
        let name = match selection {
            Selection::Named(asked, name) if (&asked.group, &asked.kind) == (&kind.group, &kind.kind) => {
                Some(name)
            }
            Selection::All(whole) if *mode != Mode::Ignore || whole.contains(kind) => None,
            _ => continue,
        };
        if configured.can_be_listed(kind) {
            let reader = Reader::new(session, &loaded.forest, kind, (name, selection.is_whole(kind)));
            loaded.add(&reader, within).await?;
        } else if let Some(id) = loaded.forest.kind_named(&kind.group, &kind.kind) {
            loaded.notes.push(format!("the API server lists no {}", kind.group_resource()));
            unlisted.push((id, within.clone()));
        }
    }
    if matches!(selection, Selection::Named(..)) {
        loaded.add_bound_roles(session, within).await?;
    }
    let unread = loaded.unread.iter();
    let unread = unread.map(|(id, names)| (loaded.forest.kind(*id).group_resource(), names));
    // Of one object, the answer says what is not known.
    let consequence = match selection {
        Selection::All(_) => ", so whether copies of these kinds have arrived was not checked",
        Selection::Named(..) => "",
    };
    let notes = not_read(unread).into_iter().map(|note| format!("{note}{consequence}"));
    loaded.notes.extend(notes);
    loaded.unread.extend(unlisted);
    // What is said of one object does not depend on quotas: that a binding waits for them is in the conditions of its namespace.
    if matches!(selection, Selection::All(_)) && loaded.forest.settings().hierarchical_quotas {
        loaded.add_quotas(session).await?;
    }
    Ok(loaded)
}

/// The configured kinds, and the selected ones.
fn kinds(configured: &ConfiguredKinds, selection: Selection<'_>) -> Vec<KindSettings> {
    let mut kinds = configured.settings();
    let also = match selection {
        Selection::All(also) => also,
        Selection::Named(kind, _) => std::slice::from_ref(kind),
    };
    for kind in also {
        if configured.of_kind(kind).is_none() {
            kinds.push(KindSettings::new(kind.clone(), Mode::Ignore));
        }
    }
    kinds
}

impl Loaded {
    async fn add(&mut self, reader: &Reader<'_>, within: &BTreeSet<Name>) -> Result<(), Failure> {
        let Reader { kind, name, .. } = *reader;
        let Some(id) = self.forest.kind_named(&kind.group, &kind.kind) else { return Ok(()) };
        let failed =
            |problem| Failure::because(format!("{} cannot be listed", kind.group_resource()), &problem);
        match reader.read(None).await {
            Ok(facts) => {
                self.forest.apply(Fact::Objects(id, facts));
                return Ok(());
            }
            Err(problem) if problem.is_forbidden() => {}
            Err(problem) => return Err(failed(problem)),
        }
        let looks = within.iter().map(|namespace| reader.within(namespace));
        let mut looks = stream::iter(looks.collect::<Vec<_>>()).buffered(AT_ONCE);
        let mut all = Vec::new();
        while let Some((namespace, found)) = looks.next().await {
            match found {
                Ok(facts) => all.extend(facts),
                Err(problem) if problem.is_forbidden() => {
                    self.unread.entry(id).or_default().insert(namespace);
                }
                Err(problem) => return Err(failed(problem)),
            }
        }
        let is_complete = name.is_none() && !within.is_empty() && !self.unread.contains_key(&id);
        if is_complete {
            self.forest.apply(Fact::Objects(id, all));
        } else {
            for fact in all {
                self.forest.apply(Fact::Object(id, fact));
            }
        }
        if within.is_empty() {
            let resource = kind.group_resource();
            self.notes.push(format!(
                "you may not list {resource} in the whole cluster, so their copies were not checked"
            ));
        }
        Ok(())
    }

    /// Reads the Roles that the loaded bindings refer to, each by its name.
    async fn add_bound_roles(&mut self, session: &Session, within: &BTreeSet<Name>) -> Result<(), Failure> {
        let names: Vec<Name> = self.forest.bound_roles().cloned().collect();
        let name = match &names[..] {
            [] => return Ok(()),
            [name] => Some(&**name),
            _ => None,
        };
        let role = Kind::role();
        let reader = Reader::new(session, &self.forest, &role, (name, false));
        self.add(&reader, within).await
    }

    /// Reads the hierarchical quotas and the derived ones. Without the right to, they are treated as unknown.
    async fn add_quotas(&mut self, session: &Session) -> Result<(), Failure> {
        match quotas::read(session).await {
            Ok(facts) => facts.into_iter().for_each(|fact| drop(self.forest.apply(fact))),
            Err(problem) if problem.is_forbidden() => {
                let note = "you may not list hierarchicalresourcequotas and resourcequotas in the whole cluster; hierarchical \
                            quotas are not considered";
                self.notes.push(note.to_owned());
                self.lacks_quotas = true;
                for stream in Stream::QUOTAS {
                    self.forest.apply(Fact::StreamLost(stream, note.into()));
                }
            }
            Err(problem) => return Err(Failure::because("hierarchical quotas cannot be listed", &problem)),
        }
        Ok(())
    }
}

/// In which namespaces the user may not read which resources. Resources for which these are the same are in one note.
fn not_read<'a>(unread: impl Iterator<Item = (String, &'a BTreeSet<Name>)>) -> Vec<String> {
    let mut groups: Vec<(&BTreeSet<Name>, Vec<String>)> = Vec::new();
    for (resource, namespaces) in unread {
        match groups.iter_mut().find(|(same, _)| *same == namespaces) {
            Some((_, resources)) => resources.push(resource),
            None => groups.push((namespaces, vec![resource])),
        }
    }
    let note = |(namespaces, resources): (&BTreeSet<Name>, Vec<String>)| {
        let names: Vec<&str> = namespaces.iter().map(|it| &**it).collect();
        format!("you may not read {} in {}", resources.join(", "), names.join(", "))
    };
    groups.into_iter().map(note).collect()
}

/// Reads the objects of one kind, or those of one name.
struct Reader<'a> {
    session: &'a Session,
    settings: Arc<Settings>,
    /// If Accurate's API watches the kind.
    accurate: Option<Arc<accurate::Settings>>,
    kind: &'a Kind,
    name: Option<&'a str>,
    /// Whether more than metadata is needed.
    is_whole: bool,
}

impl<'a> Reader<'a> {
    fn new(
        session: &'a Session,
        forest: &Forest,
        kind: &'a Kind,
        (name, is_whole): (Option<&'a str>, bool),
    ) -> Self {
        let watches = |it: &&Arc<accurate::Settings>| it.watches(kind);
        let is_whole = is_whole || forest.known_accurate().is_some_and(|it| watches(&it));
        // Its copies are no sources of HNC's hierarchy, also while nothing is planned for them.
        let accurate = forest.accurate_settings().filter(watches).cloned();
        Self { session, settings: forest.shared_settings(), accurate, kind, name, is_whole }
    }

    fn api<K>(&self, within: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let (client, resource) = (self.session.client.clone(), api_resource(self.kind));
        match within {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Reads the objects of one namespace. A user who may not list may still be allowed to get.
    async fn within(&self, namespace: &Name) -> (Name, Result<Vec<ObjectFact>, Problem>) {
        let found = match (self.read(Some(namespace)).await, self.name) {
            (Err(problem), Some(name)) if problem.is_forbidden() => self.get(namespace, name).await,
            (found, _) => found,
        };
        (namespace.clone(), found)
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Vec<ObjectFact>, Problem> {
        let api: Api<DynamicObject> = self.api(Some(namespace));
        let found = if self.kind.binds_subjects() {
            self.session.call(api.get(name)).await.map(|binding| self.binding(binding))
        } else {
            self.session.call(api.get_metadata(name)).await.map(|object| self.fact(object.metadata, None))
        };
        match found {
            Ok(fact) => Ok(vec![fact]),
            Err(problem) if problem.is_not_found() => Ok(Vec::new()),
            Err(problem) => Err(problem),
        }
    }

    /// Secrets of types that are never propagated can be numerous, so they are read only by name.
    async fn read(&self, within: Option<&str>) -> Result<Vec<ObjectFact>, Problem> {
        let named: Vec<String> =
            self.name.map(|name| format!("metadata.name={}", field_value(name))).into_iter().collect();
        let others = field_selector(self.kind);
        let is_secret = others.is_some();
        let mut facts = self.list(within, named.iter().cloned().chain(others).collect(), None).await?;
        if is_secret && !named.is_empty() {
            for secret_type in SECRET_TYPES {
                let fields = named.iter().cloned().chain([format!("type={secret_type}")]);
                facts.extend(self.list(within, fields.collect(), Some(secret_type)).await?);
            }
        }
        Ok(facts)
    }

    async fn list(
        &self,
        within: Option<&str>,
        fields: Vec<String>,
        secret_type: Option<&str>,
    ) -> Result<Vec<ObjectFact>, Problem> {
        let params = ListParams::default();
        let params = if fields.is_empty() { params } else { params.fields(&fields.join(",")) };
        if self.is_whole {
            let listed = self.session.list(&self.api::<ApiObject>(within), &params).await?;
            let settings = (&*self.settings, self.accurate.as_deref());
            let fact = |object| ingest::api_object(self.kind, settings, object);
            return Ok(listed.into_iter().map(fact).collect());
        }
        let api: Api<DynamicObject> = self.api(within);
        if self.kind.binds_subjects() {
            let listed = self.session.list(&api, &params).await?;
            return Ok(listed.into_iter().map(|binding| self.binding(binding)).collect());
        }
        let listed = self.session.list_metadata(&api, &params).await?;
        let type_ = secret_type.map(|it| ("type", Value::from(it)));
        Ok(listed.into_iter().map(|object| self.fact(object.metadata, type_.clone())).collect())
    }

    fn binding(&self, mut binding: DynamicObject) -> ObjectFact {
        let role = binding.data["roleRef"].take();
        self.fact(binding.metadata, Some(("roleRef", role)))
    }

    /// The fact for an object: its metadata, and one field if propagation depends on it.
    fn fact(&self, metadata: ObjectMeta, field: Option<(&str, Value)>) -> ObjectFact {
        let content: Map<String, Value> = field.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        ingest::parts(self.kind, (&self.settings, self.accurate.as_deref()), metadata, Some(content))
    }
}

/// Lists the objects of a kind for this forest, with their content if `is_whole`, in the whole cluster or in one namespace.
///
/// # Errors
/// The list failed.
pub(crate) async fn objects(
    session: &Session,
    forest: &Forest,
    (kind, is_whole): (&Kind, bool),
    within: Option<&Name>,
) -> Result<Vec<ObjectFact>, Problem> {
    Reader::new(session, forest, kind, (None, is_whole)).read(within.map(|it| &**it)).await
}

/// Reads the configuration, and puts the objects and the structure into the empty forest. A kind that cannot be listed in the whole
/// cluster is read in each namespace of `within`.
///
/// # Errors
/// A request failed for a reason other than missing rights.
pub(crate) async fn load_all(
    session: &Session,
    seen: (Structure, Forest),
    within: &BTreeSet<Name>,
) -> Result<Loaded, Failure> {
    let mut notes = Vec::new();
    let configured = configured_kinds::read(session, &mut notes).await?;
    let mut loaded = load(session, seen, &configured, Selection::All(&[]), within).await?;
    loaded.notes.extend(notes);
    Ok(loaded)
}

/// The text as a value in a field selector, in which names of RBAC objects may contain separators.
fn field_value(text: &str) -> String {
    text.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_may_not_be_read_in_the_same_namespaces_are_in_one_note() {
        let [one, two] =
            [&["a"][..], &["a", "b"]].map(|names| names.iter().copied().map(Name::from).collect());
        let unread = [("roles", &one), ("secrets", &two), ("limitranges", &one)];
        let notes = not_read(unread.into_iter().map(|(resource, names)| (resource.to_owned(), names)));
        assert_eq!(notes, ["you may not read roles, limitranges in a", "you may not read secrets in a, b"]);
    }

    #[test]
    fn separators_of_a_field_selector_are_escaped() {
        assert_eq!(field_value(r"c?d#e f&g=h,i\j"), r"c?d#e f&g\=h\,i\\j");
    }
}
