//! The version of an object that was observed, as texts and in as little memory as possible.
//!
//! The usual values of an API server, a UUID and a number, take 24 bytes; any other text is kept as it is.

use std::fmt::Write;
use std::num::NonZeroU64;

/// The observed version of an object; the precondition of every later write to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
}

impl Version {
    /// Whether `self` is an earlier state of the same object than `other`. Resource versions of one resource compare as integers;
    /// if one is not an integer, nothing counts as older.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &Self| version.resource_version.parse::<u64>().ok();
        self.uid == other.uid
            && matches!((number(self), number(other)), (Some(mine), Some(theirs)) if mine < theirs)
    }

    /// Whether `self` is the same state of the same object as `other`, or an earlier one. A write that changes nothing keeps the
    /// version, and must not cause another plan.
    pub(crate) fn is_same_or_older_than(&self, other: &Self) -> bool {
        self.is_older_than(other) || (self == other && !self.resource_version.is_empty())
    }
}

/// A [`Version`] as the forest keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompactVersion {
    Usual {
        uid: [u8; 16],
        resource_version: NonZeroU64,
    },
    /// Boxed, because it is rare and would enlarge the usual case.
    Unusual(Box<Version>),
}

impl CompactVersion {
    pub(crate) fn uid(&self) -> Box<str> {
        match self {
            Self::Usual { uid, .. } => text(uid).into(),
            Self::Unusual(version) => version.uid.clone(),
        }
    }

    pub(crate) fn has_uid(&self, text: &str) -> bool {
        match self {
            Self::Usual { uid, .. } => bytes(text).is_some_and(|bytes| bytes == *uid),
            Self::Unusual(version) => *version.uid == *text,
        }
    }

    /// As [`Version::is_older_than`].
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Usual { uid, resource_version: mine },
                Self::Usual { uid: other, resource_version: theirs },
            ) => uid == other && mine < theirs,
            _ => self.get().is_older_than(&other.get()),
        }
    }

    /// As [`Version::is_same_or_older_than`].
    pub(crate) fn is_same_or_older_than(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Usual { uid, resource_version: mine },
                Self::Usual { uid: other, resource_version: theirs },
            ) => uid == other && mine <= theirs,
            _ => self.get().is_same_or_older_than(&other.get()),
        }
    }

    /// The unpacked version.
    pub(crate) fn get(&self) -> Version {
        match self {
            Self::Usual { uid, resource_version } => {
                Version { uid: text(uid).into(), resource_version: resource_version.to_string().into() }
            }
            Self::Unusual(version) => (**version).clone(),
        }
    }
}

impl From<Version> for CompactVersion {
    fn from(version: Version) -> Self {
        match (bytes(&version.uid), number(&version.resource_version)) {
            (Some(uid), Some(resource_version)) => Self::Usual { uid, resource_version },
            _ => Self::Unusual(Box::new(version)),
        }
    }
}

/// The number, if the text is its canonical form.
fn number(text: &str) -> Option<NonZeroU64> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

/// The positions of the hyphens of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The UUID, if the text is its canonical form: lower case, with hyphens.
fn bytes(text: &str) -> Option<[u8; 16]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        if HYPHENS.contains(&at) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        bytes[digits / 2] = (bytes[digits / 2] << 4) | digit(*byte)?;
        digits += 1;
    }
    Some(bytes)
}

fn text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for byte in bytes {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0b5aa7f0-3b3c-4d1e-9f00-a1b2c3d4e5f6";

    fn version(uid: &str, resource_version: &str) -> Version {
        Version { uid: uid.into(), resource_version: resource_version.into() }
    }

    #[test]
    fn the_usual_is_small_and_everything_comes_out_as_it_went_in() {
        assert_eq!(size_of::<CompactVersion>(), 24);
        for (uid, resource_version, is_usual) in [
            (UUID, "1", true),
            (UUID, "18446744073709551615", true),
            (UUID, "18446744073709551616", false),
            (UUID, "0", false),
            (UUID, "01", false),
            (UUID, "+1", false),
            (UUID, "", false),
            (UUID, "planned-1", false),
            ("", "", false),
            ("uid-1", "7", false),
            (&UUID.to_uppercase(), "7", false),
            (&UUID.replace('-', "0"), "7", false),
            (&UUID.replace("a7", "a-"), "7", false),
            (&UUID.replace("a7", "é"), "7", false),
            ("0b5aa7f03b3c4d1e9f00a1b2c3d4e5f6----", "7", false),
        ] {
            let version = version(uid, resource_version);
            let compact = CompactVersion::from(version.clone());
            assert_eq!(compact.get(), version);
            assert_eq!(compact.uid(), version.uid);
            assert!(compact.has_uid(uid) && !compact.has_uid("other"), "{version:?}");
            assert_eq!(matches!(compact, CompactVersion::Usual { .. }), is_usual, "{version:?}");
        }
    }

    #[test]
    fn versions_compare_as_they_would_in_full() {
        let uids = [UUID, "0b5aa7f0-3b3c-4d1e-9f00-a1b2c3d4e5f7", "uid", ""];
        let all = uids.map(|uid| ["1", "2", "10", "02", "x", ""].map(|it| version(uid, it)));
        for one in all.as_flattened() {
            for other in all.as_flattened() {
                let compact = [one, other].map(|it| CompactVersion::from(it.clone()));
                let what = format!("{one:?} and {other:?}");
                assert_eq!(compact[0].is_older_than(&compact[1]), one.is_older_than(other), "{what}");
                assert_eq!(
                    compact[0].is_same_or_older_than(&compact[1]),
                    one.is_same_or_older_than(other),
                    "{what}"
                );
                assert_eq!(compact[0] == compact[1], one == other, "{what}");
                assert_eq!(compact[0].has_uid(&other.uid), one.uid == other.uid, "{what}");
            }
        }
    }
}
