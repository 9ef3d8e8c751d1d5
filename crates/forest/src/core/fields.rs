//! What a request shows of an object, borrowed from the request: labels, annotations, and the fields beside metadata.
//!
//! Most of the thousands of reviews per second read only two or three keys. So nothing here copies a text, and a field's value is
//! parsed only to compare it with another one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Labels or annotations, sorted by key. Of pairs with the same key the last one counts, as for the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Pairs<'_> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All pairs, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<Cow<'a, str>>> FromIterator<(K, V)> for Pairs<'a> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // The API server sends them sorted, so this is one pass.
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        pairs.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            same
        });
        Self(pairs)
    }
}

/// The top-level fields of an object, by name and JSON text, sorted by name. Metadata and status may be left out.
#[derive(Debug, Clone, Default)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Fields<'a> {
    /// Takes fields in any order.
    ///
    /// # Errors
    /// The name of a field that is there twice.
    pub fn new(mut fields: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>) -> Result<Self, String> {
        fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        match fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(Self(fields)),
            Some(pair) => Err(pair[0].0.clone().into_owned()),
        }
    }
}

impl Fields<'_> {
    /// The value of the field `name`; `None` also if it is not valid JSON.
    pub fn get(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.text(name)?.get()).ok()
    }

    /// The JSON text of the field `name`.
    pub fn text(&self, name: &str) -> Option<&RawValue> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Whether both have the field `name` with the same value. Spaces and the order of keys do not matter.
    pub(crate) fn has_the_same(&self, name: &str, other: &Self) -> bool {
        match (self.text(name), other.text(name)) {
            (Some(one), Some(another)) => is_same(one, another, LEVELS),
            _ => false,
        }
    }
}

/// How many levels are compared one by one; each reads the text once more. Deeper levels are read as a whole.
const LEVELS: usize = 4;

/// Whether both texts have the same value. Near the top, reads only the parts whose texts differ. Texts that are nested too
/// deeply to be parsed count as different.
fn is_same(one: &RawValue, other: &RawValue, levels: usize) -> bool {
    if one.get() == other.get() {
        return true;
    }
    let (first, levels_below) = match levels.checked_sub(1) {
        Some(levels) => ((one.get().as_bytes().first(), other.get().as_bytes().first()), levels),
        None => ((None, None), 0),
    };
    match first {
        (Some(b'['), Some(b'[')) => {
            let (Ok(one), Ok(other)) = (list(one), list(other)) else { return false };
            one.len() == other.len()
                && one.iter().zip(&other).all(|(one, other)| is_same(one, other, levels_below))
        }
        (Some(b'{'), Some(b'{')) => {
            let (Ok(one), Ok(other)) = (members(one), members(other)) else { return false };
            one.len() == other.len()
                && one.iter().zip(&other).all(|((name, one), (other_name, other))| {
                    name == other_name && is_same(one, other, levels_below)
                })
        }
        _ => {
            let read = |text: &RawValue| serde_json::from_str::<Value>(text.get()).ok();
            read(one).is_some_and(|one| Some(one) == read(other))
        }
    }
}

fn list(text: &RawValue) -> serde_json::Result<Vec<&RawValue>> {
    serde_json::from_str(text.get())
}

fn members(text: &RawValue) -> serde_json::Result<BTreeMap<String, &RawValue>> {
    serde_json::from_str(text.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_deep_to_be_read_differs() {
        let nested = |depth: usize, inner: &str| {
            let text = format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
            fields(&format!(r#"{{"f": {text}}}"#))
        };
        assert!(nested(90, "1").has_the_same("f", &nested(90, " 1")));
        assert!(!nested(100_000, "1").has_the_same("f", &nested(100_000, " 1")));
        assert!(nested(100_000, "1").has_the_same("f", &nested(100_000, "1")), "it is the same text");
    }

    fn fields(text: &str) -> Fields<'static> {
        let object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap();
        Fields::new(object.into_iter().map(|(name, text)| (name.into(), Cow::Owned(text))).collect()).unwrap()
    }

    #[test]
    fn pairs_are_found_in_any_order_and_the_last_counts() {
        let pairs: Pairs<'_> =
            [("b", "1"), ("c", "2"), ("a", "3"), ("b", "4"), ("b", "5")].into_iter().collect();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "5"), ("c", "2")]);
        assert_eq!((pairs.get("b"), pairs.get("d"), pairs.contains_key("c")), (Some("5"), None, true));
    }

    #[test]
    fn values_are_compared_not_their_spelling() {
        let one = fields(
            r#"{"same": {"a": 1, "b": [true]}, "other": 1, "gone": null, "text": "ä", "longer": [1], "more": {"a": 1},
                "order": [1, 2], "twice": {"a": 1}, "renamed": {"a": 1}, "kind": [], "number": 1}"#,
        );
        let two = fields(
            r#"{"same": {"b":[true],"a":1}, "other": 2, "text": "\u00e4", "longer": [1, 2], "more": {"a": 1, "b": 2},
                "order": [2, 1], "twice": {"a": 2, "a": 1}, "renamed": {"b": 1}, "kind": {}, "number": "1"}"#,
        );
        let same: Vec<_> = one.names().filter(|name| one.has_the_same(name, &two)).collect();
        assert_eq!(same, ["same", "text", "twice"]);
        assert_eq!((one.get("gone"), two.get("gone")), (Some(Value::Null), None));
    }
}
