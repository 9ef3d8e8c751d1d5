//! What can be asked of the API server, and what becomes of it when nothing objects.

use std::collections::BTreeMap;

use forest::configuration::Entry;
use forest::{Fact, Name, NamespaceFact, ObjectKey, keys};
use serde_json::{Value, json};

use super::access::USERS;
use super::world::World;
use crate::cluster::{Cluster, kinds, rules};

/// A word out of a short list.
pub(crate) type Word = &'static str;
/// Labels or annotations.
pub(crate) type Pairs = Vec<(Word, Word)>;

/// A request. What is written is the whole of what users write; `None` deletes.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// The `HierarchyConfiguration` of a namespace.
    Hierarchy(Word, Option<HierarchyWrite>),
    /// The anchor in a namespace, of a name.
    Anchor(Word, Word, Option<AnchorWrite>),
    /// A namespace: created, or patched.
    Namespace(Word, Option<NamespaceWrite>),
    /// An object in a namespace.
    Object(Word, What, Word, Option<ObjectWrite>),
    /// An object with a finalizer is created in a namespace, or loses the finalizer: the namespace cannot go while it is there.
    Hold(Word, bool),
    /// Our controller is stopped, or started.
    Stop(bool),
    /// All entries of the `HNCConfiguration`.
    Configuration(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(crate) struct HierarchyWrite {
    pub(crate) parent: Option<Word>,
    pub(crate) cascading: bool,
    pub(crate) labels: Pairs,
}

#[derive(Debug, Clone)]
pub(crate) struct AnchorWrite {
    pub(crate) labels: Pairs,
    /// `status.status`, which a user who may write anchors may write, too; `None` leaves it.
    pub(crate) state: Option<Word>,
}

/// Each key with its new value; `None` removes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamespaceWrite {
    pub(crate) labels: Vec<(Word, Option<Word>)>,
    pub(crate) annotations: Vec<(Word, Option<Word>)>,
}

#[derive(Debug, Clone)]
pub(crate) struct ObjectWrite {
    pub(crate) says: Says,
    /// Which of [`crate::cluster::asks::ASKS`] it makes.
    pub(crate) asks: usize,
    /// Whether it claims to be a copy.
    pub(crate) copy_of: Option<Word>,
}

#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// Of a Role: every letter is a right.
    Rules(Word),
    /// Of a `RoleBinding`: every letter of `users` is a user.
    Binds { cluster_role: bool, role: Word, users: Word },
    /// Of anything else.
    Data(u8),
}

/// By their place among all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Role = 0,
    Binding = 1,
    Secret = 3,
    LimitRange = 4,
}

impl What {
    pub(crate) fn key(self, name: &str) -> ObjectKey {
        ObjectKey { kind: kinds()[self as usize].0, name: name.into() }
    }

    pub(crate) fn kind(self) -> &'static forest::Kind {
        &kinds()[self as usize].1
    }
}

impl Says {
    pub(crate) fn body(&self) -> Value {
        match self {
            Self::Rules(letters) => rules(letters),
            Self::Binds { cluster_role, role, users } => {
                let kind = if *cluster_role { "ClusterRole" } else { "Role" };
                let subjects: Vec<Value> =
                    users.chars().map(|user| json!({ "kind": "User", "name": user.to_string() })).collect();
                json!({ "roleRef": { "kind": kind, "name": role }, "subjects": subjects })
            }
            Self::Data(data) => json!({ "data": { "it": data.to_string() } }),
        }
    }
}

/// The pairs as `edits` leave them.
pub(crate) fn edited<'a>(
    present: impl Iterator<Item = (&'a str, &'a str)>,
    edits: &[(Word, Option<Word>)],
) -> BTreeMap<String, String> {
    let mut pairs: BTreeMap<String, String> =
        present.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    for (key, value) in edits {
        match value {
            Some(value) => drop(pairs.insert((*key).to_owned(), (*value).to_owned())),
            None => drop(pairs.remove(*key)),
        }
    }
    pairs
}

impl Ask {
    /// Whether the API server itself has no objection: what the request is about is there, or can be.
    pub(crate) fn can_be(&self, cluster: &Cluster) -> bool {
        let stays = |name: &str| cluster.namespaces.get(name).is_some_and(|seen| !seen.terminating);
        let place = |namespace: &str, name: &str| (Name::from(namespace), Name::from(name));
        match self {
            Self::Hierarchy(namespace, Some(_)) => {
                stays(namespace) || cluster.hierarchies.contains_key(*namespace)
            }
            Self::Hierarchy(namespace, None) => cluster.hierarchies.contains_key(*namespace),
            Self::Anchor(parent, child, Some(_)) => {
                stays(parent) || cluster.anchors.contains_key(&place(parent, child))
            }
            Self::Anchor(parent, child, None) => cluster.anchors.contains_key(&place(parent, child)),
            Self::Namespace(_, Some(_)) | Self::Stop(_) | Self::Configuration(_) => true,
            Self::Namespace(name, None) => stays(name),
            Self::Object(namespace, what, name, write) => {
                let present = cluster.objects.get(&(Name::from(*namespace), what.key(name)));
                match (present, write) {
                    (None, Some(_)) => stays(namespace),
                    (Some(present), Some(write)) => {
                        stays(namespace) && present.body.get("roleRef") == write.says.body().get("roleRef")
                    }
                    (present, None) => present.is_some(),
                }
            }
            Self::Hold(namespace, true) => stays(namespace),
            Self::Hold(namespace, false) => cluster.namespaces.contains_key(*namespace),
        }
    }
}

impl World {
    /// Lets it happen, as the API server would.
    pub(crate) fn apply(&mut self, user: usize, ask: &Ask) {
        let cluster = &mut self.cluster;
        let fact = match ask {
            Ask::Hierarchy(namespace, Some(write)) => Some(cluster.change_hierarchy(namespace, |seen| {
                seen.parent = write.parent.map(Name::from);
                seen.allow_cascading_deletion = write.cascading;
                seen.labels = write.labels.iter().copied().collect();
            })),
            Ask::Hierarchy(namespace, None) => cluster.delete_hierarchy(namespace),
            Ask::Anchor(parent, child, Some(write)) => {
                let is_new = !cluster.anchors.contains_key(&(Name::from(*parent), Name::from(*child)));
                let creator = self.initial_admin.then_some(USERS[user]).filter(|_| is_new);
                Some(cluster.change_anchor(parent, child, |seen| {
                    seen.labels = write.labels.iter().copied().collect();
                    seen.state = write.state.map(Box::from).or(seen.state.take());
                    seen.initial_admin = creator.map(Box::from).or(seen.initial_admin.take());
                }))
            }
            Ask::Anchor(parent, child, None) => cluster.delete_anchor(parent, child),
            Ask::Namespace(name, Some(write)) => self.put_namespace(user, name, write),
            Ask::Namespace(name, None) => cluster.terminate(name),
            Ask::Object(namespace, what, name, Some(write)) => {
                let key = what.key(name);
                let earlier = cluster.put(namespace, &key, write.copy_of, write.says.body());
                cluster.change_object(namespace, &key, |object| object.asks = write.asks).or(Some(earlier))
            }
            Ask::Object(namespace, what, name, None) => cluster.remove_object(namespace, &what.key(name)),
            Ask::Hold(namespace, holds) => return self.hold(namespace, *holds),
            Ask::Stop(stops) => return self.is_stopped = *stops,
            Ask::Configuration(entries) => return self.configure(entries),
        };
        self.hear(fact);
    }

    fn put_namespace(&mut self, user: usize, name: &str, write: &NamespaceWrite) -> Option<Fact> {
        let is_new = !self.cluster.namespaces.contains_key(name);
        if is_new {
            self.cluster.namespace(name);
        }
        let names_parent =
            write.annotations.iter().any(|(key, it)| *key == keys::SUBNAMESPACE_OF && it.is_some());
        let creator = self.initial_admin && is_new && names_parent;
        self.cluster.change_namespace(name, |seen: &mut NamespaceFact| {
            let annotations = edited(seen.annotations.iter(), &write.annotations).into_iter();
            let creator = creator.then(|| (keys::INITIAL_ADMIN.to_owned(), USERS[user].to_owned()));
            seen.annotations = annotations.chain(creator).collect();
            seen.labels = edited(seen.labels.iter(), &write.labels).into_iter().collect();
        })
    }
}
