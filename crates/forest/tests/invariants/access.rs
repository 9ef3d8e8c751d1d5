//! RBAC as plainly as possible: who may do what by the bindings that there are, and whether a request may be sent at all.
//!
//! Knows nothing of the hierarchy: a copy counts like any other object.

use std::collections::BTreeMap;
use std::fmt;

use forest::Name;

use super::ask::{Ask, ObjectWrite, Says, What};
use super::world::World;
use crate::cluster::{Cluster, Object, bindings, role_key};

/// The users, named by a letter each, as subjects of bindings are.
pub(crate) const USERS: [&str; 8] = ["u", "v", "w", "x", "p", "q", "k", "z"];

/// The user who may do everything.
pub(crate) const SUPERUSER: usize = 7;

/// Each letter is a right; the order is that of the bits.
const LETTERS: &str = "harewsndck";

/// To write the `HierarchyConfiguration`, which makes an admin.
pub(crate) const HIERARCHY: char = 'h';
/// To write anchors.
const ANCHORS: char = 'a';
/// To write Roles and bindings.
pub(crate) const RBAC: char = 'r';
/// To bind and to escalate.
const ESCALATE: char = 'e';
/// To write Secrets and `LimitRanges`. To read Secrets is `s`, which no request here needs.
const WRITE: char = 'w';
/// To change the namespace itself.
const PATCH_NAMESPACE: char = 'n';
/// To delete it.
const DELETE_NAMESPACE: char = 'd';
/// To create namespaces; only cluster-wide.
pub(crate) const CREATE_NAMESPACE: char = 'c';
/// To write the `HNCConfiguration`; only cluster-wide.
pub(crate) const CONFIGURE: char = 'k';

/// The `ClusterRoles` that there are.
pub(crate) const CLUSTER_ROLES: [(&str, &str); 7] = [
    ("admin", "harsw"),
    ("edit", "asw"),
    ("hierarchy", "h"),
    ("binder", "re"),
    ("rbac", "rs"),
    ("patcher", "n"),
    ("deleter", "d"),
];

/// A set of rights in one namespace.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rights(u16);

impl Rights {
    pub(crate) fn of(letters: &str) -> Self {
        let bit = |letter: char| LETTERS.find(letter).map_or(0, |at| 1 << at);
        Self(letters.chars().fold(0, |bits, letter| bits | bit(letter)))
    }

    pub(crate) fn all() -> Self {
        Self::of(LETTERS)
    }

    pub(crate) fn has(self, letter: char) -> bool {
        self.0 & Self::of(letter.encode_utf8(&mut [0; 4])).0 != 0
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String = LETTERS.chars().filter(|letter| self.has(*letter)).collect();
        write!(f, "{letters:?}")
    }
}

/// What each user may do, by namespace.
pub(crate) type Access = BTreeMap<Name, [Rights; USERS.len()]>;

/// What the bindings that `counts` picks are worth in their own namespaces.
pub(crate) fn by_bindings(cluster: &Cluster, counts: impl Fn(&Name, &forest::ObjectKey) -> bool) -> Access {
    let mut access = Access::new();
    for ((namespace, key), binding) in &cluster.objects {
        if key.kind != bindings() || !counts(namespace, key) {
            continue;
        }
        let (kind, name) = (text(&binding.body["roleRef"]["kind"]), text(&binding.body["roleRef"]["name"]));
        let Some(worth) = role(cluster, namespace, kind == "ClusterRole", name) else { continue };
        let here = access.entry(namespace.clone()).or_default();
        for (at, user) in USERS.into_iter().enumerate() {
            if binds(binding, user) {
                here[at] = here[at].with(worth);
            }
        }
    }
    access
}

/// Whether a binding names this user.
pub(crate) fn binds(binding: &Object, user: &str) -> bool {
    binding.body["subjects"].as_array().into_iter().flatten().any(|subject| subject["name"] == user)
}

/// What a Role allows.
pub(crate) fn allowed_by(role: &Object) -> Rights {
    let verbs = role.body["rules"][0]["verbs"].as_array().into_iter().flatten();
    verbs.fold(Rights::default(), |rights, verb| rights.with(Rights::of(text(verb))))
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The rules of a role, if there is such a role.
fn role(cluster: &Cluster, namespace: &Name, is_cluster_role: bool, name: &str) -> Option<Rights> {
    if is_cluster_role {
        return CLUSTER_ROLES.iter().find(|(known, _)| *known == name).map(|(_, rules)| Rights::of(rules));
    }
    cluster.objects.get(&(namespace.clone(), role_key(name))).map(allowed_by)
}

impl World {
    /// What a user may do in a namespace, whether or not that exists.
    pub(crate) fn rights(&self, user: usize, namespace: &str) -> Rights {
        let here = by_bindings(&self.cluster, |at, _| **at == *namespace);
        here.get(namespace).map_or(Rights::default(), |users| users[user]).with(self.cluster_wide[user])
    }

    /// Whether RBAC lets `user` send this request.
    pub(crate) fn rbac_allows(&self, user: usize, ask: &Ask) -> bool {
        let everywhere = self.cluster_wide[user];
        match ask {
            Ask::Hierarchy(namespace, _) => self.rights(user, namespace).has(HIERARCHY),
            Ask::Anchor(parent, ..) => self.rights(user, parent).has(ANCHORS),
            Ask::Namespace(name, Some(_)) if self.cluster.namespaces.contains_key(*name) => {
                self.rights(user, name).has(PATCH_NAMESPACE)
            }
            Ask::Namespace(_, Some(_)) => everywhere.has(CREATE_NAMESPACE),
            Ask::Namespace(name, None) => self.rights(user, name).has(DELETE_NAMESPACE),
            Ask::Object(namespace, what, _, write) => {
                let held = self.rights(user, namespace);
                match (what, write) {
                    (What::Secret | What::LimitRange, _) => held.has(WRITE),
                    (_, None) => held.has(RBAC),
                    (_, Some(write)) => held.has(RBAC) && self.escalates_nothing(held, namespace, write),
                }
            }
            Ask::Hold(namespace, _) => self.rights(user, namespace).has(WRITE),
            Ask::Stop(_) => user == SUPERUSER,
            Ask::Configuration(_) => everywhere.has(CONFIGURE),
        }
    }

    /// A user may write no role, and bind to none, that is worth more than what they hold, unless they may escalate and bind.
    fn escalates_nothing(&self, held: Rights, namespace: &str, write: &ObjectWrite) -> bool {
        held.has(ESCALATE)
            || match &write.says {
                Says::Rules(rules) => held.covers(Rights::of(rules)),
                Says::Binds { cluster_role, role: name, .. } => {
                    role(&self.cluster, &namespace.into(), *cluster_role, name)
                        .is_some_and(|worth| held.covers(worth))
                }
                Says::Data(_) => true,
            }
    }
}

/// What a user with these rights in a namespace may give others there.
pub(crate) fn may_grant(held: Rights) -> Rights {
    match (held.has(RBAC), held.has(ESCALATE)) {
        (false, _) => Rights::default(),
        (true, false) => held,
        (true, true) => Rights::all(),
    }
}
