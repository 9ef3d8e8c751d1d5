//! Where each namespace belongs, whatever its tree labels say.

use std::collections::BTreeMap;

use forest::Name;

use crate::cluster::Cluster;

/// A namespace that exists, or existed: its name and its UID.
type Known = (Name, Box<str>);

/// The namespace itself and all above it, the nearest first.
type Path = Vec<Known>;

/// The places of all namespaces, by UID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(BTreeMap<Box<str>, Path>);

impl Places {
    /// A namespace belongs below its parent. If that does not exist, or if the namespace is being deleted, it stays where it was. While
    /// the controller is stopped, nobody writes tree labels, and all namespaces stay where they were.
    pub(crate) fn update(&mut self, cluster: &Cluster, is_stopped: bool) {
        let earlier = std::mem::take(self);
        let stays = |name: &Name| {
            let is_missing = |parent: &Name| !cluster.exists(parent);
            is_stopped
                || cluster.namespaces[name].terminating
                || cluster.parent(name).as_ref().is_some_and(is_missing)
        };
        for name in cluster.namespaces.keys() {
            let mut path = Path::new();
            let mut next = Some(name.clone());
            while let Some(at) = next.take_if(|it| cluster.exists(it) || it == name)
                && let Some(itself) = known(cluster, &at).filter(|it| !path.contains(it))
            {
                let place = earlier.of(&itself);
                if !place.is_empty() && stays(&at) {
                    path.extend_from_slice(place);
                    break;
                }
                path.push(itself);
                next = cluster.parent(&at);
            }
            self.0.insert(path[0].1.clone(), path);
        }
    }

    fn of(&self, (_, uid): &Known) -> &[Known] {
        self.0.get(uid).map_or(&[], Vec::as_slice)
    }

    /// All above a namespace, the nearest first. An orphan, and a namespace that is being deleted, are where they were. `None` in
    /// and below a cycle.
    pub(crate) fn above(&self, cluster: &Cluster, name: &Name) -> Option<Vec<Name>> {
        let mut path = vec![name.clone()];
        while let Some(next) = self.next(cluster, &path[path.len() - 1]) {
            if path.contains(&next) {
                return None;
            }
            path.push(next);
        }
        Some(path.split_off(1))
    }

    fn next(&self, cluster: &Cluster, name: &Name) -> Option<Name> {
        match cluster.parent(name) {
            Some(parent) if cluster.exists(&parent) => Some(parent),
            None if !cluster.namespaces[name].terminating => None,
            _ => self.former(cluster, name),
        }
    }

    /// The nearest existing namespace above the place where this one was. `None` if that one has moved (docs/security.md, "Trees that
    /// move above an orphan").
    fn former(&self, cluster: &Cluster, name: &Name) -> Option<Name> {
        let path = self.of(&known(cluster, name)?);
        let exists = |above: &Known| known(cluster, &above.0).as_ref() == Some(above);
        let at = 1 + path.iter().skip(1).position(exists)?;
        (self.of(&path[at]) == &path[at..]).then(|| path[at].0.clone())
    }
}

pub(super) fn known(cluster: &Cluster, name: &Name) -> Option<Known> {
    cluster.namespaces.get(name).map(|seen| (name.clone(), seen.version.uid.clone()))
}
