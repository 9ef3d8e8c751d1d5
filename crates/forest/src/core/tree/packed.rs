//! The labels of one namespace, in a few bytes each.
//!
//! A dialect may label a namespace once per ancestor, with keys of one suffix, and the labels also contain the name of the
//! namespace. So a key is an [`Id`]: of the part before that suffix, or of the whole key. A value is a text, or a mark for the
//! name of the namespace.

use std::borrow::Cow;

use super::texts::{Id, Texts};
use crate::core::labels::Labels;

/// Packed labels. Reading them needs the [`Texts`] that hold their keys.
#[derive(Debug, Default)]
pub(crate) struct Packed(Box<[u8]>);

/// The key ends with the shared suffix; the id is of the text before it.
const SUFFIXED: u8 = 1;
/// The value is the namespace's name.
const OWN_NAME: u8 = 2;

impl Packed {
    /// Packs the labels of the namespace `own`, in order, and adds a reference to each key.
    pub(super) fn new(labels: &Labels, own: Id, texts: &mut Texts) -> Self {
        let mut bytes = Vec::new();
        let suffix = texts.key_suffix();
        for (key, value) in labels.iter() {
            let (suffixed, text) = key.strip_suffix(suffix).map_or((0, key), |name| (SUFFIXED, name));
            let own_name = if *value == **texts.text(own) { OWN_NAME } else { 0 };
            bytes.push(suffixed | own_name);
            bytes.extend(texts.mention(text).to_bytes());
            if own_name == 0 {
                append_length(&mut bytes, value.len());
                bytes.extend(value.as_bytes());
            }
        }
        Self(bytes.into_boxed_slice())
    }

    /// Drops the references to the keys.
    pub(super) fn forget(&self, texts: &mut Texts) {
        Pairs(&self.0).for_each(|pair| texts.forget(pair.key));
    }

    pub(super) fn read<'a>(&'a self, own: Id, texts: &'a Texts) -> NamespaceLabels<'a> {
        NamespaceLabels { packed: self, own, texts }
    }
}

/// The labels of a namespace.
#[derive(Clone, Copy)]
pub(crate) struct NamespaceLabels<'a> {
    packed: &'a Packed,
    own: Id,
    texts: &'a Texts,
}

impl<'a> NamespaceLabels<'a> {
    pub(crate) fn get(self, key: &str) -> Option<&'a str> {
        let suffix = self.texts.key_suffix();
        let (is_suffixed, text) = key.strip_suffix(suffix).map_or((false, key), |name| (true, name));
        let key = self.texts.find(text)?;
        let found = Pairs(&self.packed.0).find(|pair| pair.key == key && pair.is_suffixed == is_suffixed)?;
        Some(self.value(&found))
    }

    /// All pairs, ordered by key.
    pub(crate) fn iter(self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
        Pairs(&self.packed.0).map(move |pair| {
            let text = self.texts.text(pair.key);
            let key = if pair.is_suffixed {
                format!("{text}{}", self.texts.key_suffix()).into()
            } else {
                (&**text).into()
            };
            (key, self.value(&pair))
        })
    }

    /// The labels with the shared suffix: the part before it, and the value.
    pub(crate) fn suffixed(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let suffixed = Pairs(&self.packed.0).filter(|pair| pair.is_suffixed);
        suffixed.map(move |pair| (&**self.texts.text(pair.key), self.value(&pair)))
    }

    /// A copy of all labels.
    pub(crate) fn all(self) -> Labels {
        self.iter().collect()
    }

    fn value(self, pair: &Pair<'a>) -> &'a str {
        let text =
            pair.value.map(|value| std::str::from_utf8(value).expect("it was a text when it was packed"));
        text.unwrap_or_else(|| self.texts.text(self.own))
    }
}

struct Pair<'a> {
    key: Id,
    is_suffixed: bool,
    /// `None` for the namespace's own name.
    value: Option<&'a [u8]>,
}

/// The bytes that are not read yet.
struct Pairs<'a>(&'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let (flags, rest) = self.0.split_first()?;
        let (key, rest) = rest.split_first_chunk()?;
        let key = Id::from_bytes(*key)?;
        self.0 = rest;
        let value = (flags & OWN_NAME == 0).then(|| {
            let length = self.length();
            let (value, rest) = self.0.split_at(length);
            self.0 = rest;
            value
        });
        Some(Pair { key, is_suffixed: flags & SUFFIXED != 0, value })
    }
}

impl Pairs<'_> {
    fn length(&mut self) -> usize {
        let mut length = 0;
        let mut shift = 0;
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            length |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte & 128 == 0 {
                break;
            }
        }
        length
    }
}

fn append_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length > 127 {
        bytes.push(length.to_le_bytes()[0] | 128);
        length >>= 7;
    }
    bytes.push(length.to_le_bytes()[0]);
}
