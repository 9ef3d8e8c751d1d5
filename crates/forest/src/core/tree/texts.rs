//! The texts of the tree, each kept once with a small number, and the nodes of some of them.
//!
//! A text is kept for as long as it is referenced: by its node, by the labels of a namespace, or by a parent or a child that a
//! dialect names.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Node;
use crate::core::name::Name;

/// The number of a text. Valid for as long as the text is referenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(NonZeroU32);

impl Id {
    /// Its size in bytes.
    pub(super) const SIZE: usize = size_of::<Self>();

    pub(super) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 texts are mentioned"))
    }

    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    pub(super) fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.get().to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        NonZeroU32::new(u32::from_le_bytes(bytes)).map(Self)
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// `None` when it is free.
    text: Option<Name>,
    node: Option<Box<Node>>,
    mentions: u32,
}

#[derive(Debug)]
pub(super) struct Texts {
    /// The suffix that the keys of many labels share.
    key_suffix: &'static str,
    /// Users choose the texts, so each process hashes them with a key of its own.
    hasher: DefaultHashBuilder,
    by_text: HashTable<Id>,
    all: Vec<Entry>,
    free: Vec<Id>,
}

impl Texts {
    pub(super) fn new(key_suffix: &'static str) -> Self {
        let (hasher, by_text) = Default::default();
        Self { key_suffix, hasher, by_text, all: Vec::new(), free: Vec::new() }
    }

    pub(super) fn key_suffix(&self) -> &'static str {
        self.key_suffix
    }

    /// The id of a known text.
    pub(super) fn find(&self, text: &str) -> Option<Id> {
        let is_meant = |id: &Id| self.all[id.index()].text.as_deref() == Some(text);
        self.by_text.find(self.hasher.hash_one(text), is_meant).copied()
    }

    /// The id of a text, which gets one more reference.
    pub(super) fn mention<T: AsRef<str> + Into<Name>>(&mut self, text: T) -> Id {
        if let Some(id) = self.find(text.as_ref()) {
            self.mention_again(id);
            return id;
        }
        let text: Name = text.into();
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(Entry::default());
            Id::at(self.all.len() - 1)
        });
        let Self { hasher, all, .. } = self;
        let hash = |id: &Id| hasher.hash_one(all[id.index()].text.as_deref().unwrap_or_default());
        self.by_text.insert_unique(hasher.hash_one(&*text), id, hash);
        self.all[id.index()] = Entry { text: Some(text), node: None, mentions: 1 };
        id
    }

    pub(super) fn mention_again(&mut self, id: Id) {
        self.all[id.index()].mentions += 1;
    }

    /// Drops a reference. A text without references is removed.
    pub(super) fn forget(&mut self, id: Id) {
        let place = &mut self.all[id.index()];
        place.mentions -= 1;
        if place.mentions > 0 {
            return;
        }
        let text = place.text.take().unwrap_or_default();
        if let Ok(entry) = self.by_text.find_entry(self.hasher.hash_one(&*text), |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
    }

    pub(super) fn text(&self, id: Id) -> &Name {
        self.all[id.index()].text.as_ref().expect("an id is used only while its text is mentioned")
    }

    pub(super) fn node(&self, id: Id) -> Option<&Node> {
        self.all[id.index()].node.as_deref()
    }

    /// The node of the text. A caller that adds or removes a node also adds or drops a reference.
    pub(super) fn node_mut(&mut self, id: Id) -> &mut Option<Box<Node>> {
        &mut self.all[id.index()].node
    }

    /// The texts that have a node.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Id, &Node)> {
        let ids = (0..self.all.len()).map(Id::at);
        ids.zip(&self.all).filter_map(|(id, place)| Some((id, place.node.as_deref()?)))
    }

    /// How many texts there are, and how many there is room for.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let used = self.all.iter().filter(|place| place.text.is_some()).count();
        assert_eq!((used, used + self.free.len()), (self.by_text.len(), self.all.len()));
        (used, self.all.len())
    }
}
