//! The cluster on paper is written to: by our controller, and by the one that cleans up in namespaces that go.

use std::collections::BTreeMap;

use forest::hnc;
use forest::plan::{Action, CopyContent, Edit, HncAction, SubnamespaceSpec};
use forest::{Fact, HierarchyFact, HierarchyStatus, Labels, Name, ObjectKey, Version, keys};
use serde_json::{Value, json};

use super::{Cluster, Object, binding_key, kinds};

const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";

/// A write whose precondition did not hold.
#[derive(Debug)]
pub(crate) struct Conflict;

fn edited(pairs: &Labels, edit: &Edit) -> BTreeMap<String, String> {
    let mut pairs: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    pairs.retain(|key, _| !edit.remove.contains(key));
    pairs.extend(edit.set.clone());
    pairs
}

/// Being written to.
impl Cluster {
    /// Performs a planned write in `namespace` and tells what a watch would. A write that changes nothing is a mistake of
    /// its planner.
    pub(crate) fn perform(&mut self, namespace: &Name, action: &Action) -> Result<Fact, Conflict> {
        match action {
            Action::PatchNamespace { version, labels, annotations } => {
                self.mark(namespace, version, labels, annotations)
            }
            Action::Dialect(HncAction::CreateHierarchy { spec, with_finalizer, status }) => {
                if self.hierarchies.contains_key(namespace) {
                    return Err(Conflict);
                }
                let finalizers = with_finalizer.then(|| vec![keys::HIERARCHY_FINALIZER.into()]);
                Ok(self.write_hierarchy(namespace, spec.as_ref(), finalizers, Some(status)))
            }
            Action::Dialect(HncAction::UpdateHierarchy { version, spec, finalizers, status }) => {
                let seen = self.hierarchies.get(namespace).filter(|seen| seen.version == *version);
                let before = seen.ok_or(Conflict)?.clone();
                let fact =
                    self.write_hierarchy(namespace, spec.as_ref(), finalizers.clone(), status.as_ref());
                if let Some(after) = self.hierarchies.get(namespace) {
                    let same = HierarchyFact { version: before.version.clone(), ..after.clone() } == before;
                    assert!(!same, "{namespace}: the HierarchyConfiguration is as it should be already");
                }
                Ok(fact)
            }
            Action::Dialect(HncAction::UpdateAnchor { child, version, finalizers, state }) => {
                let seen = self.anchors.get(&(namespace.clone(), child.clone())).ok_or(Conflict)?;
                if seen.version != *version {
                    return Err(Conflict);
                }
                let state = state.map(|state| Box::from(state.as_str()));
                let same = finalizers.as_ref().is_none_or(|it| *it == seen.finalizers)
                    && state.as_ref().is_none_or(|it| seen.state.as_ref() == Some(it));
                assert!(!same, "{namespace}: the anchor {child} is as it should be already");
                Ok(self.write_anchor(namespace, child, finalizers.clone(), state))
            }
            Action::Dialect(HncAction::BindInitialAdmin { user, cluster_role }) => {
                let key = binding_key(&format!("{}{namespace}", keys::INITIAL_ADMIN_BINDING));
                let body = json!({
                    "roleRef": { "kind": "ClusterRole", "name": cluster_role },
                    "subjects": [{ "kind": "User", "name": user }],
                });
                let exists = self.objects.contains_key(&(namespace.clone(), key.clone()));
                Ok(if exists {
                    self.object_fact(namespace, &key)
                } else {
                    self.put(namespace, &key, None, body)
                })
            }
            Action::Dialect(HncAction::CreateSubnamespace { child, initial_admin }) => {
                if self.namespaces.contains_key(child) {
                    return Err(Conflict);
                }
                self.namespace(child);
                let admin = initial_admin.as_deref().map(|user| (keys::INITIAL_ADMIN, user));
                let annotations: Vec<(&str, &str)> =
                    [(keys::SUBNAMESPACE_OF, &**namespace)].into_iter().chain(admin).collect();
                self.annotate(child, &annotations).ok_or(Conflict)
            }
            Action::Dialect(HncAction::DeleteSubnamespace { child, version }) => {
                let seen = self.namespaces.get(child).filter(|seen| seen.version == *version);
                assert!(!seen.ok_or(Conflict)?.terminating, "{child} is going already");
                self.terminate(child).ok_or(Conflict)
            }
            Action::Dialect(HncAction::WriteDerivedQuota { version, hard, dropped, sources, limits }) => self
                .write_derived(namespace, version.as_ref(), (hard, dropped), (sources, limits))
                .ok_or(Conflict),
            Action::Dialect(
                HncAction::DeleteDerivedQuota { version } | HncAction::FreeDerivedQuota { version },
            ) => {
                let known = self.derived.get(namespace).is_some_and(|it| it.version == *version);
                known.then(|| self.delete_derived(namespace)).flatten().ok_or(Conflict)
            }
            Action::Dialect(HncAction::UpdateQuotaStatus { name, version, status, .. }) => {
                self.write_quota_status(namespace, name, version, status).ok_or(Conflict)
            }
            Action::CreateCopy { key, source, content } => {
                let vacant = !self.objects.contains_key(&(namespace.clone(), key.clone()));
                assert!(!self.is_terminating(namespace), "{namespace}: {key:?} cannot be created");
                vacant.then(|| self.write_copy(namespace, key, source, content, None)).ok_or(Conflict)
            }
            Action::ReplaceCopy { key, version, source, content } => {
                self.expect(namespace, key, version)?;
                Ok(self.write_copy(namespace, key, source, content, Some(version)))
            }
            Action::DeleteCopy { key, version } => {
                self.expect(namespace, key, version)?;
                self.remove_object(namespace, key).ok_or(Conflict)
            }
        }
    }

    fn is_terminating(&self, name: &Name) -> bool {
        self.namespaces.get(name).is_some_and(|seen| seen.terminating)
    }

    /// One turn of the namespace controller: what is in a namespace that is going is deleted, and when nothing is left in it,
    /// so is the namespace. Tells whether there was anything to do.
    pub(crate) fn clean_up(&mut self, name: &Name) -> bool {
        let emptied = self.empty(name);
        self.remove_if_empty(name) || emptied
    }

    /// The first half of such a turn: what is in the namespace is deleted.
    pub(crate) fn empty(&mut self, name: &Name) -> bool {
        if !self.namespaces.get(name).is_some_and(|seen| seen.terminating) {
            return false;
        }
        let keys: Vec<ObjectKey> =
            self.objects.keys().filter(|(at, _)| at == name).map(|(_, key)| key.clone()).collect();
        for key in &keys {
            self.remove_object(name, key);
        }
        let anchors = self.anchors.iter().filter(|((parent, _), seen)| parent == name && !seen.terminating);
        let anchors: Vec<_> = anchors.map(|(place, _)| place.clone()).collect();
        for (parent, child) in &anchors {
            self.delete_anchor(parent, child);
        }
        let has_hierarchy = self.hierarchies.get(name).is_some_and(|seen| !seen.terminating);
        if has_hierarchy {
            self.delete_hierarchy(name);
        }
        has_hierarchy || !anchors.is_empty() || !keys.is_empty()
    }

    /// The second half: the namespace goes if nothing is left in it.
    pub(crate) fn remove_if_empty(&mut self, name: &Name) -> bool {
        let is_empty =
            !self.hierarchies.contains_key(name) && !self.anchors.keys().any(|(parent, _)| parent == name);
        let goes = is_empty && self.namespaces.get(name).is_some_and(|seen| seen.terminating);
        goes && self.remove_namespace(name).is_some()
    }

    fn expect(&self, namespace: &Name, key: &ObjectKey, version: &Version) -> Result<(), Conflict> {
        let object = self.objects.get(&(namespace.clone(), key.clone()));
        if object.is_some_and(|object| object.version == *version) { Ok(()) } else { Err(Conflict) }
    }

    fn mark(
        &mut self,
        namespace: &Name,
        version: &Version,
        labels: &Edit,
        annotations: &Edit,
    ) -> Result<Fact, Conflict> {
        let seen = self.namespaces.get(namespace).filter(|seen| seen.version == *version).ok_or(Conflict)?;
        let set = (&labels.set, &annotations.set);
        let (labels, annotations) = (edited(&seen.labels, labels), edited(&seen.annotations, annotations));
        let (labels, annotations): (Labels, Labels) =
            (labels.into_iter().collect(), annotations.into_iter().collect());
        assert!(
            (&seen.labels, &seen.annotations) != (&labels, &annotations),
            "{namespace}: labels and annotations are as they should be already"
        );
        let marked = self.change_namespace(namespace, |seen| {
            seen.foreign.labels.retain(|key| !set.0.contains_key(&**key));
            seen.foreign.annotations.retain(|key| !set.1.contains_key(&**key));
            seen.labels = labels;
            seen.annotations = annotations;
        });
        marked.ok_or(Conflict)
    }

    fn write_hierarchy(
        &mut self,
        namespace: &Name,
        spec: Option<&SubnamespaceSpec>,
        finalizers: Option<Vec<Box<str>>>,
        status: Option<&HierarchyStatus>,
    ) -> Fact {
        let now = format!("T{}", self.tick());
        let fact = self.change_hierarchy(namespace, |seen| {
            if let Some(SubnamespaceSpec { parent, from_anchor }) = spec {
                seen.parent = Some(parent.clone());
                if let Some((labels, annotations)) = from_anchor {
                    (seen.labels, seen.annotations) = (labels.clone(), annotations.clone());
                }
            }
            seen.finalizers = finalizers.unwrap_or(std::mem::take(&mut seen.finalizers));
            if let Some(status) = status {
                seen.status = status.clone();
                for condition in &mut seen.status.conditions {
                    condition.since.get_or_insert_with(|| now.as_str().into());
                }
            }
        });
        let is_free =
            self.hierarchies.get(namespace).is_some_and(|it| it.terminating && it.finalizers.is_empty());
        if is_free { self.remove_hierarchy(namespace).unwrap_or(fact) } else { fact }
    }

    fn write_anchor(
        &mut self,
        parent: &Name,
        child: &Name,
        finalizers: Option<Vec<Box<str>>>,
        state: Option<Box<str>>,
    ) -> Fact {
        let fact = self.change_anchor(parent, child, |seen| {
            seen.finalizers = finalizers.unwrap_or(std::mem::take(&mut seen.finalizers));
            seen.state = state.or(seen.state.take());
        });
        let Fact::Hnc(hnc::Fact::Anchor(_, seen)) = &fact else { return fact };
        if seen.terminating && seen.finalizers.is_empty() {
            return self.remove_anchor(parent, child).unwrap_or(fact);
        }
        fact
    }

    fn write_copy(
        &mut self,
        namespace: &Name,
        key: &ObjectKey,
        source: &Name,
        content: &CopyContent,
        version: Option<&Version>,
    ) -> Fact {
        let kind = kinds().iter().find(|(id, _)| *id == key.kind).map(|(_, kind)| kind);
        let kind = kind.expect("the kind is one of those that there can be");
        let manifest = content.0.manifest(kind, namespace, &key.name, source, version);
        assert_eq!(manifest["metadata"]["uid"].as_str(), version.map(|version| &*version.uid));
        let mut labels: BTreeMap<String, String> =
            serde_json::from_value(manifest["metadata"]["labels"].clone()).unwrap();
        let inherited_from = labels.remove(INHERITED_FROM).map(Name::from);
        let Value::Object(mut body) = manifest else { panic!("a manifest is an object") };
        for field in ["apiVersion", "kind", "metadata"] {
            body.remove(field);
        }
        let version = match version {
            Some(version) => self.next_version(version),
            None => self.new_version(),
        };
        let place = (namespace.clone(), key.clone());
        let in_force = self.stays_in_force(&place, &body);
        let object = Object {
            version,
            inherited_from,
            labels,
            body,
            excluded: false,
            asks: 0,
            in_force,
            terminating: false,
        };
        let same = |old: &Object| {
            (&old.inherited_from, &old.labels, &old.body)
                == (&object.inherited_from, &object.labels, &object.body)
        };
        assert!(
            !self.objects.get(&place).is_some_and(same),
            "{namespace}: {key:?} is as it should be already"
        );
        self.store(place, object)
    }
}
