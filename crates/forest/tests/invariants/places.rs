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

fn known(cluster: &Cluster, name: &Name) -> Option<Known> {
    cluster.namespaces.get(name).map(|seen| (name.clone(), seen.version.uid.clone()))
}

impl Places {
    /// A namespace belongs below its parent. If that does not exist, or if the namespace is being deleted, it stays where it was. While
    /// nobody writes tree labels, so does one whose parent is the same (docs/security.md, "Trees that move above an orphan").
    pub(crate) fn update(&mut self, cluster: &Cluster, is_stopped: bool) {
        let earlier = std::mem::take(self);
        let stays = |path: &[Known], name: &Name| {
            let parent = cluster.parent(name);
            let is_missing = parent.as_ref().is_some_and(|parent| !cluster.exists(parent));
            let is_same =
                || path.get(1) == parent.as_ref().and_then(|parent| known(cluster, parent)).as_ref();
            cluster.namespaces[name].terminating || is_missing || (is_stopped && is_same())
        };
        for name in cluster.namespaces.keys() {
            let mut path = Path::new();
            let mut next = Some(name.clone());
            while let Some(at) = next.take_if(|it| cluster.exists(it) || it == name)
                && let Some(itself) = known(cluster, &at).filter(|it| !path.contains(it))
            {
                let place = earlier.of(&itself);
                if !place.is_empty() && stays(place, &at) {
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

    /// What a namespace has left: the nearest existing namespace below which it belonged, and all above that one. An orphan belongs
    /// to no tree if the namespaces above it have moved (docs/security.md, "Trees that move above an orphan").
    pub(crate) fn left<'a>(&'a self, before: &Cluster, after: &Self, name: &Name) -> Option<Vec<&'a Name>> {
        let itself = known(before, name)?;
        let path = self.of(&itself);
        let at = 1 + path.iter().skip(1).position(|above| known(before, &above.0).as_ref() == Some(above))?;
        let has_left = !after.of(&itself).contains(&path[at]) && self.of(&path[at]) == &path[at..];
        has_left.then(|| path[at..].iter().map(|(name, _)| name).collect())
    }

    /// All above a namespace that is, or was, in a cluster.
    pub(crate) fn above(&self, cluster: &Cluster, name: &Name) -> Vec<&Name> {
        let path = known(cluster, name).map_or(&[][..], |itself| self.of(&itself));
        path.iter().skip(1).map(|(name, _)| name).collect()
    }
}
