//! Labels and annotations of facts: any pairs of texts, in one piece of memory.

use std::fmt;

/// Labels or annotations, sorted by key, in one text.
///
/// Each key and each value follows its length. A length is written in digits of six bits; the seventh bit is set in all but the
/// last.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

impl Labels {
    /// The value of `key`. Scans all pairs before it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// All pairs, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| {
                let key = split_off(&mut rest);
                (key, split_off(&mut rest))
            })
        })
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// If a key has several values, the smallest counts.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        pairs.sort_unstable_by(|(key, value), (other_key, other_value)| {
            (key.as_ref(), value.as_ref()).cmp(&(other_key.as_ref(), other_value.as_ref()))
        });
        pairs.dedup_by(|later, earlier| later.0.as_ref() == earlier.0.as_ref());
        let parts = || pairs.iter().flat_map(|(key, value)| [key.as_ref(), value.as_ref()]);
        let mut text = String::with_capacity(parts().map(|part| digits(part.len()) + part.len()).sum());
        parts().for_each(|part| append(&mut text, part));
        Self(text.into_boxed_str())
    }
}

/// How many digits a length has.
fn digits(length: usize) -> usize {
    length.checked_ilog2().map_or(1, |bits| bits as usize / 6 + 1)
}

fn append(text: &mut String, part: &str) {
    let digit = |at: usize| (part.len() >> (6 * at)).to_le_bytes()[0] & 63;
    for at in (1..digits(part.len())).rev() {
        text.push(char::from(digit(at) | 64));
    }
    text.push(char::from(digit(0)));
    text.push_str(part);
}

fn split_off<'a>(rest: &mut &'a str) -> &'a str {
    let mut length = 0;
    for (at, digit) in rest.bytes().enumerate() {
        length = (length << 6) | usize::from(digit & 63);
        if digit & 64 == 0 {
            let part;
            (part, *rest) = rest[at + 1..].split_at(length);
            return part;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_any_length_come_out_sorted_and_as_they_went_in() {
        for length in [0, 1, 63, 64, 65, 4095, 4096, 4097, 262_144] {
            let value = "é".repeat(length / 2) + &"\0".repeat(length % 2);
            let pairs = [("z", &*value), (&*value, "y"), ("b/ü", "\u{7f}@")];
            let labels = Labels::from_iter(pairs);
            let mut sorted = pairs;
            sorted.sort_unstable();
            assert_eq!(labels.iter().collect::<Vec<_>>(), sorted, "{length}");
            assert!(pairs.iter().all(|(key, value)| labels.get(key) == Some(value)), "{length}");
            assert_eq!(labels.get("a"), None);
        }
    }

    #[test]
    fn of_several_values_of_a_key_one_counts_in_any_order() {
        let [one, other] =
            [["b", "a"], ["a", "b"]].map(|values| Labels::from_iter(values.map(|it| ("k", it))));
        assert_eq!(one, other);
        assert_eq!(one.iter().collect::<Vec<_>>(), [("k", "a")]);
        assert_eq!(format!("{one:?}"), r#"{"k": "a"}"#);
        assert_eq!(Labels::from_iter([("", ""); 0]), Labels::default());
        assert_eq!(Labels::default().iter().count(), 0);
    }
}
