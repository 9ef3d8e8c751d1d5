//! Which copies depend on what is about to be written upstream.
//!
//! Of copies that go hop by hop: one that is not equal to its source may be equal to what will be in the place of that source. So it
//! depends on the plan of the upstream namespace, and thereby on the namespace above that.

use super::super::change::{Change, ObjectScope};
use super::super::kind::ObjectKey;
use super::super::object::Object;
use super::super::tree::Id;
use super::Store;

impl Store {
    /// Touches the outdated copies of what is touched.
    pub(super) fn touch_outdated_hops(&self, change: &mut Change) {
        if change.everything {
            return;
        }
        let mut touched: Vec<(Id, ObjectKey)> = Vec::new();
        for (name, scope) in &change.namespaces {
            let Some(id) = self.tree.id(name) else { continue };
            for next in self.tree.next_hops(id) {
                self.outdated_hops([id, *next], &scope.objects, |key| touched.push((*next, key.clone())));
            }
        }
        for (id, key) in touched {
            change.object(self.tree.name(id).clone(), key);
        }
    }

    /// Gives the copies in a namespace that are to be kept equal to their sources upstream, and are not.
    fn outdated_hops(&self, [upstream, id]: [Id; 2], scope: &ObjectScope, mut give: impl FnMut(&ObjectKey)) {
        let mut consider = |key: &ObjectKey, object: &Object| {
            let Some(copy) = object.hop().filter(|hop| hop.is_followed()) else { return };
            let source = self.objects.get(upstream, key).and_then(Object::hop).filter(|it| it.is_source());
            if source.is_none_or(|source| !copy.is_of(self.tree.name(upstream), source)) {
                give(key);
            }
        };
        match scope {
            ObjectScope::None => {}
            ObjectScope::Some(keys) => {
                for key in keys {
                    self.objects.get(id, key).into_iter().for_each(|object| consider(key, object));
                }
            }
            ObjectScope::All => self.objects.within(id).for_each(|(key, object)| consider(key, object)),
        }
    }
}
