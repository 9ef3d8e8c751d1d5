//! A cluster on paper with Accurate's objects. It tells facts as watches would and performs writes as an API server would. It knows
//! nothing of what should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use forest::accurate::content::{hop, manifest};
use forest::accurate::glob::Keys;
use forest::accurate::plan::Action;
use forest::accurate::{self, AccurateAction, Settings, SubNamespaceFact, keys};
use forest::{
    Applied, Canonical, Fact, Forest, Kind, KindId, KindSettings, KnownContent, Mode, Name, NamespaceFact,
    ObjectFact, ObjectKey, Version, hnc,
};
use serde_json::{Map, Value, json};

pub(super) type Pairs = BTreeMap<String, String>;

pub(super) fn kinds() -> [Kind; 4] {
    let core = |kind: &str, resource: &str| Kind {
        group: String::new(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
    };
    [Kind::role(), Kind::role_binding(), core("Secret", "secrets"), core("LimitRange", "limitranges")]
}

/// The labels `team` and `zone` flow, and a `SubNamespace` may set `tier`; keys of kubernetes.io are not copied.
pub(super) fn settings() -> &'static Arc<Settings> {
    static SETTINGS: LazyLock<Arc<Settings>> = LazyLock::new(|| {
        let keys = |patterns: &[&str]| Keys::new(patterns).unwrap();
        Arc::new(Settings {
            label_keys: keys(&["team", "zone", "*/type", "*/parent"]),
            annotation_keys: keys(&["note"]),
            sub_namespace_label_keys: keys(&["tier", "team"]),
            sub_namespace_annotation_keys: keys(&["owner"]),
            label_excludes: keys(&["*kubernetes.io/*"]),
            annotation_excludes: keys(&["*kubernetes.io/*"]),
            watches: kinds().into(),
            ..Settings::default()
        })
    });
    &SETTINGS
}

/// A forest that knows the kinds, and nothing else.
pub(super) fn empty_forest() -> Forest {
    let hnc = forest::Settings::new("hnc-system", ["kube-system"], ".*").unwrap();
    let mut forest = Forest::unconfigured(Arc::new(hnc)).with_accurate(settings().clone());
    forest.apply(Fact::Kinds(kinds().map(|kind| KindSettings::new(kind, Mode::Propagate)).into()));
    forest
}

pub(super) fn kind_ids() -> &'static [KindId] {
    static IDS: LazyLock<Vec<KindId>> = LazyLock::new(|| empty_forest().kinds().map(|(id, _)| id).collect());
    &IDS
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Namespace {
    pub(super) version: Version,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) applied: Applied,
    pub(super) terminating: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object {
    pub(super) version: Version,
    pub(super) labels: Pairs,
    pub(super) annotations: Pairs,
    pub(super) body: Map<String, Value>,
}

impl Object {
    pub(super) fn mode(&self) -> Option<&str> {
        self.annotations.get(keys::PROPAGATE).map(String::as_str)
    }

    pub(super) fn from(&self) -> Option<&str> {
        self.annotations.get(keys::FROM).map(String::as_str)
    }

    /// The Role that a binding refers to.
    pub(super) fn role(&self) -> Option<&str> {
        self.body.get("roleRef").filter(|role| role["kind"] == "Role")?["name"].as_str()
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cluster {
    pub(super) namespaces: BTreeMap<Name, Namespace>,
    /// By parent and child.
    pub(super) forms: BTreeMap<(Name, Name), SubNamespaceFact>,
    pub(super) objects: BTreeMap<(Name, ObjectKey), Object>,
    clock: u64,
}

/// Versions.
impl Cluster {
    fn next(&mut self, known: Option<&Version>) -> Version {
        self.clock += 1;
        let uid = known.map_or_else(|| format!("uid-{}", self.clock).into(), |known| known.uid.clone());
        Version { uid, resource_version: self.clock.to_string().into() }
    }
}

/// Changes; each gives the fact that a watch would tell.
impl Cluster {
    /// Changes a namespace, or creates it.
    pub(super) fn namespace(&mut self, name: &Name, edit: impl FnOnce(&mut Namespace)) -> Fact {
        let mut seen = self.namespaces.get(name).cloned().unwrap_or_default();
        let known = Some(&seen.version).filter(|version| !version.uid.is_empty()).cloned();
        seen.version = self.next(known.as_ref());
        edit(&mut seen);
        self.namespaces.insert(name.clone(), seen);
        Fact::Namespace(self.namespace_fact(name))
    }

    fn namespace_fact(&self, name: &Name) -> NamespaceFact {
        let seen = &self.namespaces[name];
        NamespaceFact {
            name: name.clone(),
            version: seen.version.clone(),
            labels: seen.labels.iter().collect(),
            annotations: seen.annotations.iter().collect(),
            applied: seen.applied.clone(),
            terminating: seen.terminating,
            ..NamespaceFact::default()
        }
    }

    /// Changes a `SubNamespace`, or creates it.
    pub(super) fn form(
        &mut self,
        parent: &Name,
        child: &Name,
        edit: impl FnOnce(&mut SubNamespaceFact),
    ) -> Fact {
        let place = (parent.clone(), child.clone());
        let mut seen = self.forms.get(&place).cloned().unwrap_or_default();
        let known = Some(&seen.version).filter(|version| !version.uid.is_empty()).cloned();
        seen.version = self.next(known.as_ref());
        seen.name = child.clone();
        edit(&mut seen);
        if seen.terminating && seen.finalizers.is_empty() {
            self.forms.remove(&place);
            return accurate::Fact::SubNamespaceGone(place.0, place.1, seen.version.uid).into();
        }
        self.forms.insert(place, seen.clone());
        accurate::Fact::SubNamespace(parent.clone(), seen).into()
    }

    /// Changes an object, or creates it.
    pub(super) fn object(
        &mut self,
        namespace: &Name,
        key: &ObjectKey,
        edit: impl FnOnce(&mut Object),
    ) -> Fact {
        let place = (namespace.clone(), key.clone());
        let known = self.objects.get(&place).cloned();
        let version = self.next(known.as_ref().map(|known| &known.version));
        let (labels, annotations, body) = Default::default();
        let mut object = known.unwrap_or(Object { version: version.clone(), labels, annotations, body });
        object.version = version;
        edit(&mut object);
        self.objects.insert(place, object);
        Fact::Object(key.kind, self.object_fact(namespace, key))
    }

    pub(super) fn object_fact(&self, namespace: &Name, key: &ObjectKey) -> ObjectFact {
        let Object { version, labels, annotations, body } = &self.objects[&(namespace.clone(), key.clone())];
        let at = kind_ids().iter().position(|id| *id == key.kind).unwrap();
        ObjectFact {
            hop: hop(settings(), &kinds()[at], labels, annotations, Some(body)),
            role: self.objects[&(namespace.clone(), key.clone())].role().map(Name::from),
            content: Some(KnownContent::whole(
                Canonical::new(labels.clone(), annotations.clone(), body.clone()).as_copy(),
            )),
            ..ObjectFact::new(namespace.clone(), key.name.clone(), version.clone())
        }
    }

    /// Who may do what in a namespace: pairs of a user, and a verb or a cluster role.
    pub(super) fn access(&self, namespace: &Name) -> BTreeSet<(String, String)> {
        let here = self.objects.iter().filter(|((place, _), _)| place == namespace);
        let mut access = BTreeSet::new();
        for (_, binding) in here.filter(|((_, key), _)| key.kind == kind_ids()[1]) {
            let role = |name: &str| ObjectKey { kind: kind_ids()[0], name: name.into() };
            let rights = match binding.role() {
                None => binding.body.get("roleRef").cloned(),
                Some(name) => {
                    let role = self.objects.get(&(namespace.clone(), role(name)));
                    role.and_then(|role| Some(role.body.get("rules")?[0]["verbs"][0].clone()))
                }
            };
            let users = binding.body.get("subjects").and_then(Value::as_array).into_iter().flatten();
            access.extend(
                users
                    .zip(rights.into_iter().cycle())
                    .map(|(user, it)| (user["name"].to_string(), it.to_string())),
            );
        }
        access
    }

    pub(super) fn remove_object(&mut self, namespace: &Name, key: &ObjectKey) -> Option<Fact> {
        let object = self.objects.remove(&(namespace.clone(), key.clone()))?;
        Some(Fact::ObjectGone(key.kind, namespace.clone(), key.name.clone(), object.version.uid))
    }

    /// A turn of the controller that deletes namespaces: what is in them goes first.
    pub(super) fn end_namespaces(&mut self) -> Vec<Fact> {
        let ending =
            self.namespaces.iter().filter(|(_, seen)| seen.terminating).map(|(name, _)| name.clone());
        let mut facts = Vec::new();
        for name in ending.collect::<Vec<_>>() {
            let objects = self.objects.keys().filter(|(place, _)| *place == name).cloned();
            for (place, key) in objects.collect::<Vec<_>>() {
                facts.extend(self.remove_object(&place, &key));
            }
            let forms = self.forms.iter().filter(|((parent, _), form)| *parent == name && !form.terminating);
            for (parent, child) in forms.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
                facts.push(self.form(&parent, &child, |form| form.terminating = true));
            }
            if self.forms.keys().all(|(parent, _)| *parent != name)
                && let Some(seen) = self.namespaces.remove(&name)
            {
                facts.push(Fact::NamespaceGone(name, seen.version.uid));
            }
        }
        facts
    }

    /// A forest that has seen all of this and nothing else.
    pub(super) fn forest(&self) -> Forest {
        let mut forest = empty_forest();
        forest.apply(hnc::Fact::Hierarchies(Vec::new()));
        forest.apply(hnc::Fact::Anchors(Vec::new()));
        forest
            .apply(Fact::Namespaces(self.namespaces.keys().map(|name| self.namespace_fact(name)).collect()));
        let forms = self.forms.iter().map(|((parent, _), form)| (parent.clone(), form.clone()));
        forest.apply(accurate::Fact::SubNamespaces(forms.collect()));
        for kind in kind_ids() {
            let places = self.objects.keys().filter(|(_, key)| key.kind == *kind);
            let facts = places.map(|(namespace, key)| self.object_fact(namespace, key)).collect();
            forest.apply(Fact::Objects(*kind, facts));
        }
        forest
    }
}

/// Writes. `None` if the API server refuses.
impl Cluster {
    pub(super) fn perform(&mut self, namespace: &Name, action: &Action) -> Option<Fact> {
        let place = |key: &ObjectKey| (namespace.clone(), key.clone());
        match action {
            Action::CreateCopy { key, source, content } => {
                let is_free = !self.objects.contains_key(&place(key));
                let may = is_free && !self.namespaces.get(namespace)?.terminating;
                may.then(|| self.write(namespace, key, source, content))
            }
            Action::ReplaceCopy { key, version, source, content } => {
                let is_right = self.objects.get(&place(key))?.version == *version;
                is_right.then(|| self.write(namespace, key, source, content))
            }
            Action::DeleteCopy { key, version } => {
                let is_right = self.objects.get(&place(key))?.version == *version;
                self.remove_object(namespace, key).filter(|_| is_right)
            }
            Action::PatchNamespace { .. } => panic!("Accurate applies labels"),
            Action::Dialect(action) => self.perform_own(namespace, action),
        }
    }

    fn perform_own(&mut self, namespace: &Name, action: &AccurateAction) -> Option<Fact> {
        match action {
            AccurateAction::ApplyNamespace { version, labels, annotations, .. } => {
                let seen = self.namespaces.get(namespace).filter(|seen| seen.version == *version);
                seen.is_some().then(|| self.namespace(namespace, |seen| apply(seen, labels, annotations)))
            }
            AccurateAction::CreateNamespace { child } => {
                let labels = [(keys::CREATED_BY, keys::CREATOR), (keys::PARENT, &**namespace)];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let is_free = !self.namespaces.contains_key(child);
                is_free.then(|| self.namespace(child, |seen| apply(seen, &labels, &Pairs::new())))
            }
            AccurateAction::DeleteNamespace { child, version } => {
                let seen = self.namespaces.get(child).filter(|seen| seen.version == *version);
                seen.is_some().then(|| self.namespace(child, |seen| seen.terminating = true))
            }
            AccurateAction::UpdateSubNamespace { child, version, finalizers, status, .. } => {
                let known = self.forms.get(&(namespace.clone(), child.clone()))?;
                (known.version == *version).then(|| {
                    self.form(namespace, child, |form| {
                        form.finalizers = finalizers.clone().unwrap_or(std::mem::take(&mut form.finalizers));
                        form.status = status.clone().unwrap_or(std::mem::take(&mut form.status));
                    })
                })
            }
        }
    }

    fn write(
        &mut self,
        namespace: &Name,
        key: &ObjectKey,
        source: &Name,
        content: &forest::plan::CopyContent,
    ) -> Fact {
        let at = kind_ids().iter().position(|id| *id == key.kind).unwrap();
        let written = manifest(&content.0, &kinds()[at], [namespace, &key.name, source], None);
        let pairs = |field: &str| serde_json::from_value(written["metadata"][field].clone()).unwrap();
        self.object(namespace, key, |object| {
            object.labels = pairs("labels");
            object.annotations = pairs("annotations");
            let mut body = written.as_object().cloned().unwrap();
            for field in ["apiVersion", "kind", "metadata"] {
                body.remove(field);
            }
            object.body = body;
        })
    }
}

/// As the API server does: keys that were applied and are not in the new set go.
fn apply(seen: &mut Namespace, labels: &Pairs, annotations: &Pairs) {
    let owned =
        |pairs: &Pairs| -> BTreeSet<Box<str>> { pairs.keys().map(|key| key.as_str().into()).collect() };
    seen.labels.retain(|key, _| !seen.applied.labels.contains(&**key));
    seen.annotations.retain(|key, _| !seen.applied.annotations.contains(&**key));
    seen.labels.extend(labels.clone());
    seen.annotations.extend(annotations.clone());
    seen.applied = Applied { labels: owned(labels), annotations: owned(annotations), ..Applied::default() };
}

/// The body of an object of a kind, by its position; `which` makes it this or that.
pub(super) fn body(kind: usize, which: u8) -> Map<String, Value> {
    let body = match kind {
        0 => json!({ "rules": [{ "verbs": [format!("verb-{which}")] }] }),
        1 => {
            let role = if which < 3 { "Role" } else { "ClusterRole" };
            json!({ "roleRef": { "kind": role, "name": "a" }, "subjects": [{ "kind": "User", "name": format!("user-{which}") }] })
        }
        _ => json!({ "data": { "key": format!("value-{which}") } }),
    };
    body.as_object().cloned().unwrap()
}
