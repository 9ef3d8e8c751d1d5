//! A cluster on paper: namespaces, `HierarchyConfigurations`, anchors, Roles and `RoleBindings` with their versions. It
//! tells facts as watches would and performs writes as an API server would, preconditions and finalizers included.
//!
//! Knows nothing of what should be: it can be drawn, scribbled on and written to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use forest::exceptions::Exceptions;
use forest::hnc;
use forest::hnc::quota::{DerivedQuotaFact, QuotaFact, Resources};
use forest::plan::{Plan, plan};
use forest::{
    AnchorFact, Canonical, Fact, Forest, HierarchyFact, Kind, KindId, KindSettings, KnownContent, Mode, Name,
    NamespaceFact, ObjectFact, ObjectKey, OnConflict, Scope, Settings, Version, keys,
};
use serde_json::{Map, Value, json};

pub(crate) mod hierarchical;
mod perform;

/// A managed-looking name that the settings exclude.
pub(crate) const EXCLUDED: &str = "kube-system";

#[path = "asks.rs"]
pub(crate) mod asks;

use asks::ASKS;

/// What every installation here decides; labels and annotations of these keys are managed.
pub(crate) const MANAGED_LABELS: [&str; 2] = ["tier", "zone"];
pub(crate) const MANAGED_ANNOTATION: &str = "owner";

pub(crate) fn settings() -> Settings {
    let settings = Settings::new("hnc-system", [EXCLUDED], ".*").unwrap();
    settings.managing(&["tier", "zone"], &[MANAGED_ANNOTATION]).unwrap()
}

pub(crate) fn empty_forest() -> Forest {
    static SETTINGS: LazyLock<Arc<Settings>> = LazyLock::new(|| Arc::new(settings()));
    forest_with(SETTINGS.clone())
}

pub(crate) fn forest_with(settings: Arc<Settings>) -> Forest {
    Forest::new(settings, usual_kinds().collect())
}

/// Every kind that there can be. A forest gives the same ids if it comes to know the kinds in this order.
pub(crate) fn kinds() -> &'static [(KindId, Kind)] {
    static KINDS: LazyLock<Vec<(KindId, Kind)>> = LazyLock::new(|| {
        let core = |kind: &str, resource: &str| Kind {
            group: String::new(),
            version: "v1".into(),
            kind: kind.into(),
            resource: resource.into(),
        };
        let all = [
            Kind::role(),
            Kind::role_binding(),
            core("ResourceQuota", "resourcequotas"),
            core("Secret", "secrets"),
            core("LimitRange", "limitranges"),
        ];
        let forest = Forest::new(Arc::new(settings()), all.into());
        forest.kinds().map(|(id, known)| (id, known.kind.clone())).collect()
    });
    &KINDS
}

/// Those that every forest here propagates.
fn usual_kinds() -> impl Iterator<Item = Kind> {
    kinds().iter().take(3).map(|(_, kind)| kind.clone())
}

pub(crate) fn roles() -> KindId {
    kinds()[0].0
}

pub(crate) fn bindings() -> KindId {
    kinds()[1].0
}

/// These are in force only when their controller says so ([`Cluster::enforce`]).
pub(crate) fn quotas() -> KindId {
    kinds()[2].0
}

pub(crate) fn quota_key(name: &str) -> ObjectKey {
    ObjectKey { kind: quotas(), name: name.into() }
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

/// The body of a `RoleBinding` to a `ClusterRole`; every letter is a user.
pub(crate) fn binds_everywhere(users: &str) -> Value {
    let mut body = binds("view", users);
    body["roleRef"]["kind"] = "ClusterRole".into();
    body
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
    /// Which of [`ASKS`] it makes.
    pub(crate) asks: usize,
    pub(crate) in_force: bool,
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
            exceptions: Exceptions::of(ASKS[self.asks].annotations.iter().copied()).map(Box::new),
            content: Some(KnownContent { in_force: self.in_force, ..KnownContent::whole(content) }),
            role: self.role().filter(|_| key.kind == bindings()).map(Name::from),
            hop: None,
        }
    }

    /// The Role that a binding refers to, unless it is a `ClusterRole`.
    pub(crate) fn role(&self) -> Option<&str> {
        let role = self.body.get("roleRef").filter(|role| role["kind"] == "Role")?;
        role["name"].as_str()
    }

    fn strings<'a>(&'a self, list: &str, item: impl Fn(&'a Value) -> &'a Value) -> Vec<&'a str> {
        let items = self.body.get(list).and_then(Value::as_array).into_iter().flatten();
        items.map(item).flat_map(flat).filter_map(Value::as_str).collect()
    }
}

fn flat(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |items| items.iter().collect())
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) namespaces: BTreeMap<Name, NamespaceFact>,
    pub(crate) hierarchies: BTreeMap<Name, HierarchyFact>,
    /// By parent and child.
    pub(crate) anchors: BTreeMap<(Name, Name), AnchorFact>,
    pub(crate) objects: BTreeMap<(Name, ObjectKey), Object>,
    /// Of Roles and of bindings.
    pub(crate) modes: [Mode; 2],
    /// Of the same: whether the configuration says `onConflict: Overwrite`.
    pub(crate) overwrites: [bool; 2],
    /// Of any kind, instead of those: its mode, and whether own objects are overwritten.
    pub(crate) configured: BTreeMap<KindId, (Mode, bool)>,
    /// Hierarchical quotas, by namespace and name.
    pub(crate) hierarchical: BTreeMap<(Name, Name), QuotaFact>,
    pub(crate) derived: BTreeMap<Name, DerivedQuotaFact>,
    /// What there is in each namespace.
    pub(crate) usage: BTreeMap<Name, Resources>,
    clock: u64,
}

/// Drawing and scribbling. Each change gives the fact that a watch would tell.
impl Cluster {
    /// Draws namespaces: `"root, child:root, old!:root, odd?:child, (gone):root, sub<root, lost<<root"`. After the colon
    /// stands the configured parent; after `<` the parent of a subnamespace with its anchor, after `<<` of one without;
    /// `!` is terminating, `?` has a `HierarchyConfiguration` that cannot be understood, `+` allows cascading deletion, and
    /// of a name in parentheses there is only the `HierarchyConfiguration`.
    pub(crate) fn draw(text: &str) -> Self {
        let mut cluster = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (head, parent) = item.split_once([':', '<']).map_or((item, None), |(it, of)| (it, Some(of)));
            let name = head.trim_matches(['(', ')', '!', '?', '+']);
            if !head.starts_with('(') {
                cluster.namespace(name);
            }
            if let Some(parent) = parent.filter(|_| item.contains('<')) {
                let parent = parent.trim_start_matches('<');
                cluster.annotate(name, &[(keys::SUBNAMESPACE_OF, parent)]);
                if !item.contains("<<") {
                    cluster.anchor(parent, name);
                }
            } else if parent.is_some() {
                cluster.set_parent(name, parent);
            }
            if head.contains('+') {
                cluster.change_hierarchy(name, |seen| seen.allow_cascading_deletion = true);
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
            ..NamespaceFact::default()
        };
        self.namespaces.insert(name.into(), seen.clone());
        Fact::Namespace(seen)
    }

    /// Gives a namespace the tree labels of a place below these namespaces, the nearest first.
    pub(crate) fn label_place(&mut self, name: &str, above: &[&str]) -> Option<Fact> {
        self.change_namespace(name, |seen| {
            let places = std::iter::once(&name).chain(above).enumerate();
            let label =
                |(depth, at): (usize, &&str)| (format!("{at}{}", keys::TREE_LABEL), depth.to_string());
            let labels = seen.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            seen.labels = labels.chain(places.map(label)).collect();
        })
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

    pub(crate) fn annotate(&mut self, name: &str, annotations: &[(&str, &str)]) -> Option<Fact> {
        self.change_namespace(name, |seen| seen.annotations = annotations.iter().copied().collect())
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
        Fact::Hnc(hnc::Fact::Hierarchy(name.into(), seen))
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
        Some(Fact::Hnc(hnc::Fact::HierarchyGone(name.into(), seen.version.uid)))
    }

    /// Deletes as a user does: what has finalizers stays until they are gone.
    pub(crate) fn delete_hierarchy(&mut self, name: &str) -> Option<Fact> {
        if self.hierarchies.get(name)?.finalizers.is_empty() {
            return self.remove_hierarchy(name);
        }
        Some(self.change_hierarchy(name, |seen| seen.terminating = true))
    }

    /// Creates an anchor as a user does, without finalizer and state, or leaves the one that there is.
    pub(crate) fn anchor(&mut self, parent: &str, child: &str) -> Fact {
        self.change_anchor(parent, child, |_| ())
    }

    /// Changes an anchor, or creates one.
    pub(crate) fn change_anchor(
        &mut self,
        parent: &str,
        child: &str,
        edit: impl FnOnce(&mut AnchorFact),
    ) -> Fact {
        let place = (Name::from(parent), Name::from(child));
        let mut seen = self.anchors.get(&place).cloned().unwrap_or_default();
        seen.name = child.into();
        seen.version =
            if seen.version.uid.is_empty() { self.new_version() } else { self.next_version(&seen.version) };
        edit(&mut seen);
        self.anchors.insert(place, seen.clone());
        Fact::Hnc(hnc::Fact::Anchor(parent.into(), seen))
    }

    pub(crate) fn remove_anchor(&mut self, parent: &str, child: &str) -> Option<Fact> {
        let seen = self.anchors.remove(&(parent.into(), child.into()))?;
        Some(Fact::Hnc(hnc::Fact::AnchorGone(parent.into(), child.into(), seen.version.uid)))
    }

    /// Deletes as a user does: what has finalizers stays until they are gone.
    pub(crate) fn delete_anchor(&mut self, parent: &str, child: &str) -> Option<Fact> {
        let place = (Name::from(parent), Name::from(child));
        if self.anchors.get(&place)?.finalizers.is_empty() {
            return self.remove_anchor(parent, child);
        }
        Some(self.change_anchor(parent, child, |seen| seen.terminating = true))
    }

    /// An anchor with the controller's finalizer is being deleted.
    pub(crate) fn end_anchor(&mut self, parent: &str, child: &str) -> Fact {
        self.change_anchor(parent, child, |seen| {
            (seen.terminating, seen.finalizers) = (true, vec![keys::ANCHOR_FINALIZER.into()]);
        })
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
        let in_force = self.stays_in_force(&place, &body);
        self.store(
            place,
            Object {
                version,
                inherited_from,
                labels,
                body,
                excluded: false,
                asks: 0,
                in_force,
                terminating: false,
            },
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

    /// A turn of the controller that puts quotas in force.
    pub(crate) fn enforce(&mut self) -> Vec<Fact> {
        let late = self.objects.iter().filter(|(_, object)| !object.in_force);
        let late: Vec<_> = late.map(|(place, _)| place.clone()).collect();
        late.iter().filter_map(|(name, key)| self.change_object(name, key, |it| it.in_force = true)).collect()
    }

    /// Whether an object is in force when this body was written: the status of a quota stays as it was.
    fn stays_in_force(&self, place: &(Name, ObjectKey), body: &Map<String, Value>) -> bool {
        let known = self.objects.get(place);
        place.1.kind != quotas() || known.is_some_and(|known| known.in_force && known.body == *body)
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
        Fact::Hnc(hnc::Fact::Hierarchies(
            self.hierarchies.iter().map(|(name, seen)| (name.clone(), seen.clone())).collect(),
        ))
    }

    pub(crate) fn list_anchors(&self) -> Fact {
        Fact::Hnc(hnc::Fact::Anchors(
            self.anchors.iter().map(|((parent, _), seen)| (parent.clone(), seen.clone())).collect(),
        ))
    }

    pub(crate) fn configuration(&self) -> Fact {
        let modes = self.modes.into_iter().chain([Mode::Propagate]);
        let overwrites = self.overwrites.into_iter().chain([false]);
        let settings = |((kind, mode), overwrites): ((Kind, Mode), bool)| KindSettings {
            on_conflict: overwrites.then_some(OnConflict::Overwrite),
            ..KindSettings::new(kind, mode)
        };
        Fact::Kinds(usual_kinds().zip(modes).zip(overwrites).map(settings).collect())
    }

    /// What is seen of one of the objects when it is looked at.
    pub(crate) fn object_fact(&self, namespace: &Name, key: &ObjectKey) -> Fact {
        Fact::Object(key.kind, self.objects[&(namespace.clone(), key.clone())].fact(namespace, key))
    }

    pub(crate) fn list_objects(&self, kind: KindId) -> Fact {
        let of_kind = self.objects.iter().filter(|((_, key), _)| key.kind == kind);
        Fact::Objects(kind, of_kind.map(|((namespace, key), object)| object.fact(namespace, key)).collect())
    }

    pub(crate) fn lists(&self) -> [Fact; 6] {
        [
            self.list_namespaces(),
            self.list_hierarchies(),
            self.list_anchors(),
            self.list_objects(roles()),
            self.list_objects(bindings()),
            self.list_objects(quotas()),
        ]
    }

    /// A forest that has seen all of this and nothing else.
    pub(crate) fn forest(&self) -> Forest {
        self.told_to(empty_forest())
    }

    /// The same under other settings.
    pub(crate) fn forest_with(&self, settings: Settings) -> Forest {
        self.told_to(forest_with(Arc::new(settings)))
    }

    fn told_to(&self, mut forest: Forest) -> Forest {
        for fact in self.lists().into_iter().chain([self.configuration()]) {
            forest.apply(fact);
        }
        forest
    }

    /// Who may do what in a namespace: pairs of user and verb.
    pub(crate) fn access(&self, namespace: &str) -> BTreeSet<(String, String)> {
        let mut access = BTreeSet::new();
        for ((place, key), binding) in &self.objects {
            if key.kind != bindings() || **place != *namespace {
                continue;
            }
            let Some(name) = binding.role() else {
                let users = binding.strings("subjects", |subject| &subject["name"]);
                access.extend(users.into_iter().map(|user| (user.to_owned(), "everything".to_owned())));
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

/// Tells a forest what its own plans say of conflicts, as the controller does.
pub(crate) fn note_conflicts(forest: &mut Forest) {
    let names: Vec<Name> = forest.names().cloned().collect();
    for name in names {
        let Plan { settled, conflicts, .. } = plan(forest, &name, &Scope::whole());
        for key in settled {
            forest.apply(Fact::WriteSettled(name.clone(), key));
        }
        for (key, why) in conflicts {
            forest.apply(Fact::Conflict(name.clone(), key, why));
        }
    }
}
