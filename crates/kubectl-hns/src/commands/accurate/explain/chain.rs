//! Reads the namespaces above a namespace, and an object in all of them.

use std::collections::{BTreeMap, BTreeSet};

use forest::accurate::Fact as AccurateFact;
use forest::accurate::why::{Frozen, frozen};
use forest::{
    EdgeKind, Fact, Forest, HierarchyFact, Hop, Kind, KindSettings, Mode, Name, NamespaceFact, ObjectFact,
    exclusion, hnc,
};
use hns_api::accurate::labels::{
    CREATED_BY, CREATED_BY_ACCURATE, PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE,
};
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_cluster::api::Api;
use hns_cluster::api_object::ApiObject;
use hns_cluster::feed::api_resource;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::super::place::{self, Place};
use crate::commands::hierarchy;
use crate::failure::Problem;
use crate::lines::printable;
use crate::session::Session;
use crate::{Failure, accurate_trees};

/// A namespace and those above it.
pub(super) struct Chain<'a> {
    pub(super) session: &'a Session,
    pub(super) forest: Forest,
    /// The namespace first.
    pub(super) path: Vec<Name>,
    /// Whether the first one is in HNC's hierarchy, as its labels or its `HierarchyConfiguration` say.
    pub(super) is_in_hnc: bool,
    /// Those above in which the user may not read the object, or that the user may not read at all.
    pub(super) hidden: BTreeSet<Name>,
    /// Why the Secret of these is never propagated. The controller does not see it.
    pub(super) bound: BTreeMap<Name, String>,
}

impl Chain<'_> {
    /// Reads the namespace and those above it, one by one.
    pub(super) async fn read(&mut self, start: &str) -> Result<(), Failure> {
        let namespaces = self.session.all::<Namespace>();
        let (mut facts, mut hierarchies) = (Vec::<NamespaceFact>::new(), Vec::new());
        let mut following = Some(Name::from(start));
        while let Some(name) = following.take().filter(|name| !self.path.contains(name)) {
            let found = self.session.call(namespaces.get_metadata(&name)).await;
            let mut is_in_hnc = false;
            let fact = match found {
                Ok(found) => {
                    is_in_hnc = Place::of(&found.metadata).is_in_hnc;
                    ingest::namespace(&found.metadata)
                }
                Err(problem) if problem.is_not_found() && !self.path.is_empty() => break,
                Err(problem) if problem.is_forbidden() && !self.path.is_empty() => self.unread(&name),
                Err(problem) => return Err(place::unreadable(&name, &problem)),
            };
            // A namespace can be in a hierarchy of the other API, too. Who may not read that sees the rest.
            let api = hierarchy::api(self.session, &name);
            let other = self.session.call(api.get_opt(HIERARCHY_CONFIGURATION)).await;
            let other = other.ok().flatten().map(ingest::hierarchy);
            if self.path.is_empty() {
                self.is_in_hnc = is_in_hnc || other.as_ref().is_some_and(|(_, it)| it.parent.is_some());
            }
            hierarchies.extend(other);
            facts.push(fact);
            self.path.push(name.clone());
            self.forest.apply(Fact::Namespaces(facts.clone()));
            following = self.forest.accurate_upstream(&name).cloned();
        }
        with_children(&mut facts, &mut hierarchies);
        self.forest.apply(Fact::Namespaces(facts.clone()));
        self.forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(hierarchies)));
        let form = match self.path.get(1) {
            Some(above) => accurate_trees::get(self.session, above, start).await,
            None => None,
        };
        self.forest.apply(AccurateFact::SubNamespaces(form.into_iter().collect()));
        if let Some(Frozen::NotLeading(kind, above)) = frozen(&self.forest, start) {
            facts.extend(self.dependent(kind, &above).await);
            self.forest.apply(Fact::Namespaces(facts));
        }
        Ok(())
    }

    /// Those that name a namespace in the label of the other kind, as far as the user may list them: they may keep it from getting another
    /// type.
    async fn dependent(&self, kind: EdgeKind, above: &str) -> Vec<NamespaceFact> {
        let label = if kind == EdgeKind::Parent { TEMPLATE } else { PARENT };
        let params = ListParams::default().labels(&format!("{label}={above}"));
        let found = self.session.list_metadata(&self.session.all::<Namespace>(), &params).await;
        let facts = found.unwrap_or_default().into_iter().map(|it| ingest::namespace(&it.metadata));
        facts.filter(|it| !self.path.contains(&it.name)).collect()
    }

    /// A namespace that the user may not read: that the labels of the one below name it is all that is known.
    fn unread(&mut self, name: &Name) -> NamespaceFact {
        self.hidden.insert(name.clone());
        let edge = self.path.last().and_then(|below| self.forest.accurate_edge(below));
        let kind = if edge == Some(EdgeKind::Template) { TYPE_TEMPLATE } else { TYPE_ROOT };
        ingest::namespace(&ObjectMeta {
            name: Some(name.to_string()),
            labels: Some([(TYPE.to_owned(), kind.to_owned())].into()),
            ..ObjectMeta::default()
        })
    }

    /// Reads the object in all of them; with a binding, the Roles that it refers to.
    pub(super) async fn read_objects(&mut self, kind: &Kind, name: &str) -> Result<(), Failure> {
        let role = Kind::role();
        let kinds = [kind.clone()].into_iter().chain((kind.is_rbac() && *kind != role).then_some(role));
        let kinds: Vec<_> = kinds.map(|kind| KindSettings::new(kind, Mode::Ignore)).collect();
        self.forest.apply(Fact::Kinds(kinds));
        let mut roles = BTreeSet::new();
        for fact in self.get(kind, name).await? {
            roles.extend(fact.role.clone());
            self.tell(kind, fact);
        }
        for role in roles {
            for fact in self.get(&Kind::role(), &role).await? {
                self.tell(&Kind::role(), fact);
            }
        }
        Ok(())
    }

    fn tell(&mut self, kind: &Kind, fact: ObjectFact) {
        if let Some(id) = self.forest.kind_named(&kind.group, &kind.kind) {
            self.forest.apply(Fact::Object(id, fact));
        }
    }

    async fn get(&mut self, kind: &Kind, name: &str) -> Result<Vec<ObjectFact>, Failure> {
        let (settings, accurate) = (self.forest.shared_settings(), self.forest.accurate_settings().cloned());
        let mut facts = Vec::new();
        for namespace in self.path.iter().filter(|it| !self.hidden.contains(*it)).cloned().collect::<Vec<_>>()
        {
            let api = Api::<ApiObject>::namespaced_with(
                self.session.client.clone(),
                &namespace,
                &api_resource(kind),
            );
            let found = match self.session.call(api.get_opt(name)).await {
                Err(problem) if problem.is_forbidden() && self.path.first() != Some(&namespace) => {
                    self.hidden.insert(namespace);
                    continue;
                }
                found => found.map_err(|problem| unreadable(kind, name, &namespace, &problem))?,
            };
            let Some(found) = found else { continue };
            let (why, is_labelled) = (bound(kind, &found), is_labelled(&found.metadata));
            let mut fact = ingest::api_object(kind, (&settings, accurate.as_deref()), found);
            keep_label(&mut fact, is_labelled);
            if let Some(why) = why {
                fact.hop = None;
                self.bound.insert(namespace, why);
            }
            facts.push(fact);
        }
        Ok(facts)
    }
}

fn unreadable(kind: &Kind, name: &str, namespace: &str, problem: &Problem) -> Failure {
    let what = format!("{} {} in {namespace} cannot be read", kind.group_resource(), printable(name));
    Failure::because(what, problem)
}

/// Adds the children in HNC's hierarchy, as the status of their parents shows them, except those that were read.
pub(super) fn with_children(facts: &mut Vec<NamespaceFact>, hierarchies: &mut Vec<(Name, HierarchyFact)>) {
    let shown = |(parent, it): &(Name, HierarchyFact)| {
        it.status.children.iter().map(|child| (child.clone(), parent.clone())).collect::<Vec<_>>()
    };
    for (name, parent) in hierarchies.iter().flat_map(shown).collect::<Vec<_>>() {
        if !facts.iter().any(|it| it.name == name) {
            facts.push(NamespaceFact { name: name.clone(), ..NamespaceFact::default() });
            hierarchies.push((name, HierarchyFact { parent: Some(parent), ..HierarchyFact::default() }));
        }
    }
}

fn is_labelled(metadata: &ObjectMeta) -> bool {
    let creator = metadata.labels.as_ref().and_then(|labels| labels.get(CREATED_BY));
    creator.is_some_and(|creator| creator == CREATED_BY_ACCURATE)
}

/// Has the forest know that an object has the label of copies, also if it has none of their annotations. No decision depends on that.
pub(super) fn keep_label(fact: &mut ObjectFact, is_labelled: bool) {
    if is_labelled && fact.hop.is_none() {
        fact.hop = Some(Box::new(Hop::new(None, None, true, None)));
    }
}

/// Why an object is never propagated, if it is a Secret of such a type.
fn bound(kind: &Kind, object: &ApiObject) -> Option<String> {
    let content = object.content.as_ref().filter(|_| kind.group.is_empty() && kind.kind == "Secret")?;
    exclusion::type_of_secret(content.parse().0.get("type")?.as_str()?)
}
