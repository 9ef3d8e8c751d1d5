//! What a dialect keeps for some nodes.

use super::Id;

/// A value for some ids, in as little memory as a pointer for each id.
#[derive(Debug)]
pub(crate) struct ById<T>(Vec<Option<Box<T>>>);

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ById<T> {
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.0.get(id.index())?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.0.get_mut(id.index())?.as_deref_mut()
    }

    /// Returns the previous value.
    pub(crate) fn insert(&mut self, id: Id, value: T) -> Option<Box<T>> {
        let at = id.index();
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].replace(Box::new(value))
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Box<T>> {
        self.0.get_mut(id.index())?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.0.iter().enumerate().filter_map(|(at, value)| Some((Id::at(at), value.as_deref()?)))
    }
}
