//! A cluster on paper: namespaces, `HierarchyConfigurations`, Roles and `RoleBindings` with their versions. It tells facts
//! as watches would and performs writes as an API server would, preconditions included.
//!
//! Knows nothing of what should be: it can be drawn, scribbled on and written to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use forest::plan::{Action, Content};
use forest::{
    Canonical, Fact, Forest, HierarchyFact, HierarchyStatus, Kind, KindId, Name, NamespaceFact, ObjectFact,
    ObjectKey, Settings, Version,
};
use serde_json::{Map, Value, json};

/// A managed-looking name that the settings exclude.
pub(crate) const EXCLUDED: &str = "kube-system";
const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";

pub(crate) fn empty_forest() -> Forest {
    static SETTINGS: LazyLock<Arc<Settings>> =
        LazyLock::new(|| Arc::new(Settings::new("hnc-system", [EXCLUDED], ".*").unwrap()));
    Forest::new(SETTINGS.clone(), vec![Kind::role(), Kind::role_binding()])
}

fn kind(at: usize) -> KindId {
    static KINDS: LazyLock<Vec<KindId>> =
        LazyLock::new(|| empty_forest().kinds().map(|(id, _)| id).collect());
    KINDS[at]
}

pub(crate) fn roles() -> KindId {
    kind(0)
}

pub(crate) fn bindings() -> KindId {
    kind(1)
}

pub(crate) fn role_key(name: &str) -> ObjectKey {
    ObjectKey { kind: roles(), name: name.into() }
}

pub(crate) fn binding_key(name: &str) -> ObjectKey {
    ObjectKey { kind: bindings(), name: name.into() }
}

/// The body of a Role; every letter is a verb.
pub(crate) fn rules(verbs: &str) -> Value {
    json!({ "rules": [{ "verbs": letters(verbs) }] })
}

/// The body of a `RoleBinding`; every letter is a user.
pub(crate) fn binds(role: &str, users: &str) -> Value {
    let subjects: Vec<Value> =
        letters(users).into_iter().map(|user| json!({ "kind": "User", "name": user })).collect();
    json!({ "roleRef": { "kind": "Role", "name": role }, "subjects": subjects })
}

fn letters(text: &str) -> Vec<String> {
    text.chars().map(String::from).collect()
}

/// An object as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) version: Version,
    pub(crate) inherited_from: Option<Name>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) body: Map<String, Value>,
    pub(crate) excluded: bool,
    pub(crate) terminating: bool,
}

impl Object {
    fn fact(&self, namespace: &Name, key: &ObjectKey) -> ObjectFact {
        let content = Canonical::new(self.labels.clone(), BTreeMap::new(), self.body.clone());
        let content = if self.inherited_from.is_none() { content.as_copy() } else { content };
        ObjectFact {
            namespace: namespace.clone(),
            name: key.name.clone(),
            version: self.version.clone(),
            inherited_from: self.inherited_from.clone(),
            terminating: self.terminating,
            excluded: self.excluded.then(|| "it is marked so".into()),
            content: Some(Arc::new(content)),
        }
    }

    fn strings<'a>(&'a self, list: &str, item: impl Fn(&'a Value) -> &'a Value) -> Vec<&'a str> {
        let items = self.body.get(list).and_then(Value::as_array).into_iter().flatten();
        items.map(item).flat_map(flat).filter_map(Value::as_str).collect()
    }
}

fn flat(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |items| items.iter().collect())
}

/// A write whose precondition did not hold.
#[derive(Debug)]
pub(crate) struct Conflict;

#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) namespaces: BTreeMap<Name, NamespaceFact>,
    pub(crate) hierarchies: BTreeMap<Name, HierarchyFact>,
    pub(crate) objects: BTreeMap<(Name, ObjectKey), Object>,
    clock: u64,
}

/// Drawing and scribbling. Each change gives the fact that a watch would tell.
impl Cluster {
    /// Draws namespaces: `"root, child:root, old!:root, odd?:child, (gone):root"`. After the colon stands the configured
    /// parent; `!` is terminating, `?` has a `HierarchyConfiguration` that cannot be understood, and of a name in
    /// parentheses there is only the `HierarchyConfiguration`.
    pub(crate) fn draw(text: &str) -> Self {
        let mut cluster = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (head, parent) = item.split_once(':').map_or((item, None), |(head, it)| (head, Some(it)));
            let name = head.trim_matches(['(', ')', '!', '?']);
            if !head.starts_with('(') {
                cluster.namespace(name);
            }
            if parent.is_some() {
                cluster.set_parent(name, parent);
            }
            if head.contains('?') {
                cluster.garble(name);
            }
            if head.contains('!') {
                cluster.terminate(name);
            }
        }
        cluster
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn new_version(&mut self) -> Version {
        let now = self.tick();
        Version { uid: format!("uid-{now}").into(), resource_version: now.to_string().into() }
    }

    fn next_version(&mut self, version: &Version) -> Version {
        Version { uid: version.uid.clone(), resource_version: self.tick().to_string().into() }
    }

    /// Creates a namespace, or one again under the name of another that went unseen.
    pub(crate) fn namespace(&mut self, name: &str) -> Fact {
        let version = self.new_version();
        let seen = NamespaceFact {
            name: name.into(),
            version,
            labels: [("team", "red")].into_iter().collect(),
            terminating: false,
        };
        self.namespaces.insert(name.into(), seen.clone());
        Fact::Namespace(seen)
    }

    pub(crate) fn change_namespace(
        &mut self,
        name: &str,
        edit: impl FnOnce(&mut NamespaceFact),
    ) -> Option<Fact> {
        let mut seen = self.namespaces.get(name)?.clone();
        seen.version = self.next_version(&seen.version);
        edit(&mut seen);
        self.namespaces.insert(seen.name.clone(), seen.clone());
        Some(Fact::Namespace(seen))
    }

    pub(crate) fn terminate(&mut self, name: &str) -> Option<Fact> {
        self.change_namespace(name, |seen| seen.terminating = true)
    }

    pub(crate) fn label(&mut self, name: &str, labels: &[(&str, &str)]) -> Option<Fact> {
        self.change_namespace(name, |seen| seen.labels = labels.iter().copied().collect())
    }

    pub(crate) fn remove_namespace(&mut self, name: &str) -> Option<Fact> {
        let seen = self.namespaces.remove(name)?;
        Some(Fact::NamespaceGone(seen.name, seen.version.uid))
    }

    pub(crate) fn change_hierarchy(&mut self, name: &str, edit: impl FnOnce(&mut HierarchyFact)) -> Fact {
        let mut seen = self.hierarchies.get(name).cloned().unwrap_or_default();
        seen.version =
            if seen.version.uid.is_empty() { self.new_version() } else { self.next_version(&seen.version) };
        edit(&mut seen);
        self.hierarchies.insert(name.into(), seen.clone());
        Fact::Hierarchy(name.into(), seen)
    }

    pub(crate) fn set_parent(&mut self, name: &str, parent: Option<&str>) -> Fact {
        self.change_hierarchy(name, |seen| {
            seen.parent = parent.map(Name::from);
            seen.unreadable = None;
        })
    }

    pub(crate) fn garble(&mut self, name: &str) -> Fact {
        self.change_hierarchy(name, |seen| seen.unreadable = Some("spec.parent is a number".into()))
    }

    pub(crate) fn remove_hierarchy(&mut self, name: &str) -> Option<Fact> {
        let seen = self.hierarchies.remove(name)?;
        Some(Fact::HierarchyGone(name.into(), seen.version.uid))
    }

    /// Creates or changes an object; `from` makes it a copy.
    pub(crate) fn put(&mut self, namespace: &str, key: &ObjectKey, from: Option<&str>, body: Value) -> Fact {
        let place = (Name::from(namespace), key.clone());
        let version = match self.objects.get(&place).map(|old| old.version.clone()) {
            Some(old) => self.next_version(&old),
            None => self.new_version(),
        };
        let mut labels = BTreeMap::from([("app".to_owned(), "demo".to_owned())]);
        if from.is_some() {
            labels.insert("app.kubernetes.io/managed-by".into(), "hnc.x-k8s.io".into());
        }
        let Value::Object(body) = body else { panic!("a body is an object: {body}") };
        let inherited_from = from.map(Name::from);
        self.store(
            place,
            Object { version, inherited_from, labels, body, excluded: false, terminating: false },
        )
    }

    pub(crate) fn role(&mut self, namespace: &str, name: &str, verbs: &str) -> Fact {
        self.put(namespace, &role_key(name), None, rules(verbs))
    }

    pub(crate) fn binding(&mut self, namespace: &str, name: &str, role: &str, users: &str) -> Fact {
        self.put(namespace, &binding_key(name), None, binds(role, users))
    }

    pub(crate) fn change_object(
        &mut self,
        namespace: &str,
        key: &ObjectKey,
        edit: impl FnOnce(&mut Object),
    ) -> Option<Fact> {
        let place = (Name::from(namespace), key.clone());
        let mut object = self.objects.get(&place)?.clone();
        object.version = self.next_version(&object.version);
        edit(&mut object);
        Some(self.store(place, object))
    }

    fn store(&mut self, place: (Name, ObjectKey), object: Object) -> Fact {
        let fact = Fact::Object(place.1.kind, object.fact(&place.0, &place.1));
        self.objects.insert(place, object);
        fact
    }

    pub(crate) fn remove_object(&mut self, namespace: &str, key: &ObjectKey) -> Option<Fact> {
        let object = self.objects.remove(&(namespace.into(), key.clone()))?;
        Some(Fact::ObjectGone(key.kind, namespace.into(), key.name.clone(), object.version.uid))
    }
}

/// Telling.
impl Cluster {
    pub(crate) fn list_namespaces(&self) -> Fact {
        Fact::Namespaces(self.namespaces.values().cloned().collect())
    }

    pub(crate) fn list_hierarchies(&self) -> Fact {
        Fact::Hierarchies(self.hierarchies.iter().map(|(name, seen)| (name.clone(), seen.clone())).collect())
    }

    pub(crate) fn list_objects(&self, kind: KindId) -> Fact {
        let of_kind = self.objects.iter().filter(|((_, key), _)| key.kind == kind);
        Fact::Objects(kind, of_kind.map(|((namespace, key), object)| object.fact(namespace, key)).collect())
    }

    pub(crate) fn lists(&self) -> [Fact; 4] {
        [
            self.list_namespaces(),
            self.list_hierarchies(),
            self.list_objects(roles()),
            self.list_objects(bindings()),
        ]
    }

    /// A forest that has seen all of this and nothing else.
    pub(crate) fn forest(&self) -> Forest {
        let mut forest = empty_forest();
        for fact in self.lists() {
            forest.apply(fact);
        }
        forest
    }

    /// Who may do what in a namespace: pairs of user and verb.
    pub(crate) fn access(&self, namespace: &str) -> BTreeSet<(String, String)> {
        let mut access = BTreeSet::new();
        for ((place, key), binding) in &self.objects {
            let name = binding.body.get("roleRef").and_then(|role| role["name"].as_str());
            let (true, Some(name)) = (key.kind == bindings() && **place == *namespace, name) else {
                continue;
            };
            let Some(role) = self.objects.get(&(place.clone(), role_key(name))) else { continue };
            for user in binding.strings("subjects", |subject| &subject["name"]) {
                for verb in role.strings("rules", |rule| &rule["verbs"]) {
                    access.insert((user.to_owned(), verb.to_owned()));
                }
            }
        }
        access
    }
}

/// Being written to.
impl Cluster {
    /// Performs a planned write in `namespace` and tells what a watch would. A write that changes nothing is a mistake of
    /// its planner.
    pub(crate) fn perform(&mut self, namespace: &Name, action: &Action) -> Result<Fact, Conflict> {
        match action {
            Action::Label { version, set, remove } => self.relabel(namespace, version, set, remove),
            Action::CreateHierarchy(status) => {
                let vacant = !self.hierarchies.contains_key(namespace);
                vacant.then(|| self.report(namespace, status)).ok_or(Conflict)
            }
            Action::ReportStatus { version, status } => {
                let seen = self.hierarchies.get(namespace).filter(|seen| seen.version == *version);
                let seen = seen.ok_or(Conflict)?;
                assert_ne!(seen.status, *status, "{namespace}: the status is as it should be already");
                Ok(self.report(namespace, status))
            }
            Action::Create { key, source, content } => {
                let vacant = !self.objects.contains_key(&(namespace.clone(), key.clone()));
                vacant.then(|| self.write_copy(namespace, key, source, content, None)).ok_or(Conflict)
            }
            Action::Replace { key, version, source, content } => {
                self.expect(namespace, key, version)?;
                Ok(self.write_copy(namespace, key, source, content, Some(version)))
            }
            Action::Delete { key, version } => {
                self.expect(namespace, key, version)?;
                self.remove_object(namespace, key).ok_or(Conflict)
            }
        }
    }

    fn expect(&self, namespace: &Name, key: &ObjectKey, version: &Version) -> Result<(), Conflict> {
        let object = self.objects.get(&(namespace.clone(), key.clone()));
        if object.is_some_and(|object| object.version == *version) { Ok(()) } else { Err(Conflict) }
    }

    fn relabel(
        &mut self,
        namespace: &Name,
        version: &Version,
        set: &BTreeMap<String, String>,
        remove: &BTreeSet<String>,
    ) -> Result<Fact, Conflict> {
        let seen = self.namespaces.get(namespace).filter(|seen| seen.version == *version).ok_or(Conflict)?;
        let mut labels: BTreeMap<String, String> =
            seen.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let before = labels.clone();
        labels.retain(|key, _| !remove.contains(key));
        labels.extend(set.clone());
        assert_ne!(before, labels, "{namespace}: the labels are as they should be already");
        self.change_namespace(namespace, |seen| seen.labels = labels.into_iter().collect()).ok_or(Conflict)
    }

    fn report(&mut self, namespace: &Name, status: &HierarchyStatus) -> Fact {
        let mut status = status.clone();
        let now = format!("T{}", self.tick());
        for condition in &mut status.conditions {
            condition.since.get_or_insert_with(|| now.as_str().into());
        }
        self.change_hierarchy(namespace, |seen| seen.status = status)
    }

    fn write_copy(
        &mut self,
        namespace: &Name,
        key: &ObjectKey,
        source: &Name,
        content: &Content,
        version: Option<&Version>,
    ) -> Fact {
        let forest = empty_forest();
        let manifest = content.0.manifest(forest.kind(key.kind), namespace, &key.name, source, version);
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
        let object = Object { version, inherited_from, labels, body, excluded: false, terminating: false };
        let place = (namespace.clone(), key.clone());
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
