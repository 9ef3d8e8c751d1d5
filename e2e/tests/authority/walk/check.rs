//! The invariants, between two states and the request between them.

use anyhow::{Result, ensure};

use super::USERS;
use super::ask::Ask;
use super::state::{Rights, State, users};

const ADMIN: &str = "update hierarchyconfigurations.hnc.x-k8s.io";
const BINDINGS: &str = "patch rolebindings.rbac.authorization.k8s.io";
const BIND: &str = "bind roles.rbac.authorization.k8s.io";

impl State {
    /// The effects of the request of `user` keep the invariants.
    pub(crate) fn check(&self, after: &Self, user: usize, ask: &Ask) -> Result<()> {
        for (name, seen) in &self.namespaces {
            let stays = after.namespaces.get(name).is_some_and(|now| now.uid == seen.uid && !now.terminating);
            if stays {
                self.no_user_gains(after, (user, ask), name)?;
            }
            let halts = |state: &Self| state.forest.halted_root(name).is_some();
            let frozen = stays && !halts(self) && halts(after);
            let may_be = self.holders(name).iter().any(|it| self.deletes(ask, it))
                || frozen && self.above(name).iter().any(|it| self.moves_with_consent(user, ask, it));
            ensure!(stays || may_be, "{name} is deleted");
            ensure!(!frozen || may_be, "{name} is frozen");
        }
        self.nothing_is_taken(after, ask)
    }

    fn is_admin(&self, user: usize, namespace: &str) -> bool {
        self.access.of(user, namespace).contains(ADMIN)
    }

    fn no_user_gains(&self, after: &Self, (user, ask): (usize, &Ask), name: &str) -> Result<()> {
        let above = self.above(name);
        if matches!(ask, Ask::Configure(_)) || above.iter().any(|it| self.is_admin(user, it)) {
            return Ok(());
        }
        let may_grant = |right: &String| {
            let held = above.iter().map(|it| self.access.of(user, it));
            held.filter(|held| held.contains(BINDINGS))
                .any(|held| held.contains(right) || held.contains(BIND))
        };
        for who in users() {
            let granted_above =
                |right: &String| above.iter().skip(1).any(|it| self.access.of(who, it).contains(right));
            let gained: Rights =
                after.access.of(who, name).difference(self.access.of(who, name)).cloned().collect();
            let gained: Vec<&String> =
                gained.iter().filter(|right| !may_grant(right) && !granted_above(right)).collect();
            ensure!(gained.is_empty(), "{} gains {gained:?} in {name}", USERS[who]);
        }
        Ok(())
    }

    /// Whether the request deletes a namespace, if it is allowed.
    pub(crate) fn deletes_a_namespace(&self, ask: &Ask) -> bool {
        self.namespaces.keys().any(|name| self.deletes(ask, name))
    }

    /// Whether the request is to delete this namespace, or the anchor that made it.
    fn deletes(&self, ask: &Ask, name: &str) -> bool {
        match ask {
            Ask::DeleteNamespace(deleted) => **deleted == *name,
            Ask::DeleteAnchor(parent, child) => **child == *name && self.made_by(name) == Some(*parent),
            _ => false,
        }
    }

    fn made_by(&self, name: &str) -> Option<&str> {
        self.namespaces.get(name)?.made_by.as_deref()
    }

    /// The namespace and those whose deletion may delete or orphan it.
    fn holders(&self, name: &str) -> Vec<String> {
        self.above(name).iter().map(ToString::to_string).collect()
    }

    /// Whether the request changes the parent of this namespace with the consents of section 7.3 of docs/compatibility.md. No
    /// user here may name a parent that does not exist.
    fn moves_with_consent(&self, user: usize, ask: &Ask, name: &str) -> bool {
        let parent = match ask {
            Ask::SetParent(child, parent) if **child == *name => *parent,
            Ask::DeleteHierarchy(child) if **child == *name => None,
            Ask::Annotate(child, parent, _) if **child == *name && self.is_admin(user, name) => *parent,
            _ => return false,
        };
        let root = |name: &str| self.above(name).last().map(ToString::to_string).unwrap_or_default();
        let present = self.forest.parent(name).filter(|it| self.forest.exists(it));
        match (present, parent) {
            (None, None) => true,
            (None, Some(new)) => self.is_admin(user, new),
            (Some(old), None) => self.is_admin(user, &root(old)),
            (Some(old), Some(new)) => {
                let common = self.above(old).into_iter().find(|it| self.above(new).contains(it));
                match common {
                    Some(common) => self.is_admin(user, &common),
                    None => self.is_admin(user, &root(old)) && self.is_admin(user, new),
                }
            }
        }
    }

    /// Every object that is no copy still exists and is no copy, unless its namespace or the request deleted it.
    fn nothing_is_taken(&self, after: &Self, ask: &Ask) -> Result<()> {
        let own = self.objects.iter().filter(|(_, is_copy)| !**is_copy);
        for (key, _) in own {
            let [resource, namespace, name] = key;
            let uid = |state: &Self| state.namespaces.get(namespace).map(|seen| seen.uid.clone());
            let asked = matches!(ask, Ask::DeleteObject(of, kind, called)
                if **of == **namespace && kind.resource() == resource && **called == **name);
            if asked || uid(self) != uid(after) {
                continue;
            }
            match after.objects.get(key) {
                Some(is_copy) => ensure!(!is_copy, "{resource} {name} of {namespace} is overwritten"),
                None => anyhow::bail!("{resource} {name} of {namespace} is deleted"),
            }
        }
        Ok(())
    }
}
