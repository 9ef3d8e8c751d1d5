//! The invariants, written down as they stand in `docs/concepts.md` under "What must always hold".

use std::collections::BTreeMap;

use forest::{KindId, Name, ObjectKey, keys};

use super::access::{
    Access, CONFIGURE, CREATE_NAMESPACE, HIERARCHY, Rights, USERS, allowed_by, binds, by_bindings, may_grant,
};
use super::ask::{Ask, What};
use super::places::{Places, known};
use super::world::World;
use crate::cluster::{Cluster, Object, bindings, role_key};

/// What was so before a request.
pub(crate) struct Before {
    cluster: Cluster,
    places: Places,
    was_stopped: bool,
    access: Access,
    /// By namespace: itself and what is above it, nearest first.
    above: BTreeMap<Name, Vec<Name>>,
    halted: BTreeMap<Name, Option<Name>>,
    cluster_wide: [Rights; USERS.len()],
}

/// What is broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Broken {
    pub(crate) invariant: &'static str,
    pub(crate) how: String,
}

impl Before {
    pub(crate) fn of(world: &World) -> Self {
        let cluster = world.cluster.clone();
        let names = || cluster.namespaces.keys().cloned();
        Self {
            access: by_bindings(&cluster, |_, _| true),
            above: names().map(|name| (name.clone(), cluster.ancestry(&name))).collect(),
            halted: names().map(|name| (name.clone(), cluster.halted_root(&name))).collect(),
            cluster_wide: world.cluster_wide,
            places: world.places.clone(),
            was_stopped: world.is_stopped,
            cluster,
        }
    }

    fn rights(&self, user: usize, namespace: &str) -> Rights {
        let bound = self.access.get(namespace).map_or(Rights::default(), |users| users[user]);
        bound.with(self.cluster_wide[user])
    }

    fn is_admin(&self, user: usize, namespace: &str) -> bool {
        self.rights(user, namespace).has(HIERARCHY)
    }

    /// What is wrong after `user` has asked for this and everything has come to rest.
    pub(crate) fn broken(&self, after: &World, user: usize, ask: &Ask) -> Option<Broken> {
        let departed = self.departed(after, user, ask);
        if self.was_stopped {
            // What our controller does when it starts follows from several requests.
            return departed;
        }
        departed
            .or_else(|| self.gained(after, user, ask))
            .or_else(|| self.lost(after, user, ask))
            .or_else(|| overwritten(after))
    }

    /// No namespace leaves the tree to which it belongs without the consent of its root, or goes elsewhere in it without the consent of
    /// one above both places.
    fn departed(&self, after: &World, user: usize, ask: &Ask) -> Option<Broken> {
        // While the controller is stopped, a namespace can join a tree, and leave it because its parent is deleted (docs/security.md,
        // "Trees that move above an orphan").
        if self.was_stopped && matches!(ask, Ask::Namespace(_, None) | Ask::Hold(_, false)) {
            return None;
        }
        let stays =
            |name: &&Name| !self.cluster.namespaces[*name].terminating && is_the_same(self, after, name);
        self.above.keys().filter(stays).find_map(|name| {
            let old = self.places.above(&self.cluster, name)?;
            let new = after.places.above(&after.cluster, name)?;
            let place = old.iter().find(|above| still_exists(self, after, above))?;
            if new.contains(place) {
                return None;
            }
            let may = |above: &Name| {
                self.is_admin(user, above) && (Some(above) == old.last() || new.contains(above))
            };
            let how = format!("{name} leaves {old:?} for {new:?}");
            let broken = || Broken { invariant: "no namespace leaves its tree without consent", how };
            (!old.iter().any(may)).then(broken)
        })
    }

    /// Gives no user a right in a namespace that existed before, unless by a user who may.
    fn gained(&self, after: &World, user: usize, ask: &Ask) -> Option<Broken> {
        if matches!(ask, Ask::Configuration(_)) && self.cluster_wide[user].has(CONFIGURE) {
            return None;
        }
        let access = by_bindings(&after.cluster, |_, _| true);
        let own = std::cell::OnceCell::new();
        for (name, above) in &self.above {
            if !is_the_same(self, after, name) {
                continue;
            }
            if above.iter().any(|above| self.is_admin(user, above)) {
                continue;
            }
            let grantable = above
                .iter()
                .fold(Rights::default(), |all, above| all.with(may_grant(self.rights(user, above))));
            let now = access.get(name).copied().unwrap_or_default();
            for (at, who) in USERS.into_iter().enumerate() {
                let gained = now[at].without(self.rights(at, name)).without(grantable);
                if gained.is_empty() {
                    continue;
                }
                let own = own.get_or_init(|| self.unchanged_sources(after));
                let held_above = above.iter().skip(1).filter_map(|above| own.get(above));
                let held_above = held_above.fold(Rights::default(), |all, users| all.with(users[at]));
                let gained = gained.without(held_above).without(self.named_before(after, name, who));
                if !gained.is_empty() {
                    let how = format!("{who} gains {gained:?} in {name}");
                    return Some(Broken { invariant: "gives no user a right", how });
                }
            }
        }
        None
    }

    /// What bindings that are no copies, and are as they were, gave at home before. Where one of them comes to reach
    /// further down, because a selector matches or another object is not in its way any more, its own admin has given it.
    fn unchanged_sources(&self, after: &World) -> Access {
        by_bindings(&self.cluster, |namespace, key| {
            let place = (namespace.clone(), key.clone());
            let source = |object: &&Object| object.inherited_from.is_none();
            let now = after.cluster.objects.get(&place).filter(source);
            self.cluster
                .objects
                .get(&place)
                .filter(source)
                .zip(now)
                .is_some_and(|(old, new)| old.body == new.body)
        })
    }

    /// What Roles above that are as they were give a user by bindings of this namespace that name them and are as they were. As in
    /// plain RBAC, a binding may name a Role that has yet to come.
    fn named_before(&self, after: &World, name: &Name, who: &str) -> Rights {
        let is_unchanged = |place: &(Name, ObjectKey), old: &Object| {
            let now = after.cluster.objects.get(place);
            old.inherited_from.is_none()
                && now.is_some_and(|now| now.inherited_from.is_none() && now.body == old.body)
        };
        let unchanged = |key: &ObjectKey, at: &Name| {
            let place = (at.clone(), key.clone());
            self.cluster.objects.get(&place).filter(|old| is_unchanged(&place, old))
        };
        let own = self.cluster.objects.iter().filter(|((at, key), old)| {
            at == name && key.kind == bindings() && unchanged(key, at).is_some() && binds(old, who)
        });
        let roles = own.filter_map(|(_, binding)| {
            let role = binding.body["roleRef"]["name"].as_str()?;
            (binding.body["roleRef"]["kind"] == "Role").then(|| role_key(role))
        });
        let above =
            |role: ObjectKey| self.above[name].iter().skip(1).filter_map(move |at| unchanged(&role, at));
        roles.flat_map(above).fold(Rights::default(), |all, role| all.with(allowed_by(role)))
    }

    /// No existing namespace is deleted or frozen, unless by a user who may.
    fn lost(&self, after: &World, user: usize, ask: &Ask) -> Option<Broken> {
        for (name, above) in &self.above {
            if self.cluster.namespaces[name].terminating {
                continue;
            }
            let deleted = !is_the_same(self, after, name);
            let frozen = !deleted && self.halted[name].is_none() && after.cluster.halted_root(name).is_some();
            if (!deleted && !frozen) || self.holders(name).iter().any(|above| self.deletes(ask, above)) {
                continue;
            }
            if frozen && above.iter().any(|above| self.moves_with_consent(user, ask, above)) {
                continue;
            }
            let how = if deleted { "deleted" } else { "frozen" };
            return Some(Broken {
                invariant: "no namespace is deleted or frozen",
                how: format!("{name} is {how}"),
            });
        }
        None
    }

    /// Whether the request is to delete this namespace, or the anchor that made it.
    fn deletes(&self, ask: &Ask, name: &Name) -> bool {
        if self.cluster.namespaces.get(name).is_some_and(|seen| seen.terminating) {
            return true;
        }
        match ask {
            Ask::Namespace(deleted, None) => **deleted == **name,
            Ask::Anchor(parent, child, None) => **child == **name && self.made_by(name) == Some(*parent),
            _ => false,
        }
    }

    /// The namespace whose anchor made this one, also where another tool says who is above it.
    fn made_by(&self, name: &Name) -> Option<&str> {
        let seen = self.cluster.namespaces.get(name)?;
        seen.annotations.get(keys::SUBNAMESPACE_OF).filter(|parent| !parent.is_empty())
    }

    /// Itself and all whose deletion may delete or orphan it.
    fn holders(&self, name: &Name) -> Vec<Name> {
        let mut path = vec![name.clone()];
        while let Some(last) = path.last() {
            let next = self.made_by(last).map(Name::from).or_else(|| self.cluster.parent(last));
            match next.filter(|next| !path.contains(next)) {
                Some(next) => path.push(next),
                None => break,
            }
        }
        path
    }

    /// Whether the request changes the parent of this namespace, and those agree whom section 7.3 of docs/compatibility.md
    /// names; or takes the namespace back from another tool, by its admin.
    fn moves_with_consent(&self, user: usize, ask: &Ask, name: &Name) -> bool {
        if let Ask::Namespace(child, Some(write)) = ask
            && write.annotations.iter().any(|(key, _)| *key == keys::EXTERNALLY_MANAGED_BY)
        {
            return **child == **name && self.is_admin(user, name);
        }
        let parent = match ask {
            Ask::Hierarchy(child, write) if **child == **name => {
                write.as_ref().and_then(|write| write.parent)
            }
            Ask::Namespace(child, Some(write)) if **child == **name && self.is_admin(user, name) => {
                let parent = write.annotations.iter().find(|(key, _)| *key == keys::SUBNAMESPACE_OF);
                let Some((_, parent)) = parent else { return false };
                *parent
            }
            _ => return false,
        };
        let exists = |name: &str| self.cluster.exists(name);
        let root = |name: &Name| self.above.get(name).and_then(|path| path.last()).unwrap_or(name).clone();
        let may_create = || {
            let everywhere = self.cluster_wide[user];
            everywhere.has(CREATE_NAMESPACE) && everywhere.has(HIERARCHY)
        };
        let present = self.cluster.parent(name).filter(|present| exists(present));
        match (present, parent) {
            (None, None) => true,
            (None, Some(new)) if exists(new) => self.is_admin(user, new),
            (None, Some(_)) => may_create(),
            (Some(old), None) => self.is_admin(user, &root(&old)),
            (Some(old), Some(new)) if !exists(new) => may_create() && self.is_admin(user, &root(&old)),
            (Some(old), Some(new)) => {
                let common = self.above[&old].iter().find(|above| self.above[new].contains(*above));
                match common {
                    Some(common) => self.is_admin(user, common),
                    None => self.is_admin(user, &root(&old)) && self.is_admin(user, new),
                }
            }
        }
    }
}

/// No object that is no copy is overwritten or deleted by the controller, unless its kind must replace.
fn overwritten(after: &World) -> Option<Broken> {
    let must_replace = |kind: KindId| kind == What::LimitRange.key("").kind;
    let (namespace, key) = after.taken.iter().find(|(_, key)| !must_replace(key.kind))?;
    let how = format!("{} {:?} of {namespace} is overwritten", after.forest.kind(key.kind).kind, key.name);
    Some(Broken { invariant: "no user's own object is overwritten", how })
}

/// Whether a namespace is there that was there before.
fn still_exists(before: &Before, after: &World, name: &Name) -> bool {
    known(&before.cluster, name) == known(&after.cluster, name)
}

/// Whether a namespace is there that was there before, and stays.
fn is_the_same(before: &Before, after: &World, name: &Name) -> bool {
    let uid = |cluster: &Cluster| {
        let seen = cluster.namespaces.get(name)?;
        (!seen.terminating).then(|| seen.version.uid.clone())
    };
    uid(&before.cluster).is_some_and(|it| uid(&after.cluster) == Some(it))
}
