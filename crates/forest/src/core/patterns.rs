//! Names and keys by glob: `*` stands for any characters, also for `/`, and `?` for one.

use std::fmt;

use globset::{Glob, GlobSet};

/// The most patterns in one list.
const MOST: usize = 256;

/// The most bytes of a pattern. No name or key is longer, and the parser recurses on nested braces.
const LONGEST: usize = 512;

/// Why a list of patterns cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternError {
    /// There are more than [`MOST`].
    TooMany,
    /// One has more than [`LONGEST`] bytes.
    TooLong(usize),
    /// One is not a valid glob, or all are too large together.
    Glob(globset::Error),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "a list has at most {MOST} patterns"),
            Self::TooLong(length) => {
                write!(f, "a pattern has at most {LONGEST} bytes, and one has {length}")
            }
            Self::Glob(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PatternError {}

/// A list of patterns. A text matches if one of them matches all of it.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    texts: Vec<Box<str>>,
    set: GlobSet,
}

impl Patterns {
    /// Parses the patterns.
    ///
    /// # Errors
    /// There are too many, or the first invalid one and why.
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, PatternError> {
        let mut patterns = Self::default();
        let mut set = GlobSet::builder();
        for text in texts {
            let text = text.as_ref();
            if patterns.texts.len() == MOST {
                return Err(PatternError::TooMany);
            }
            if text.len() > LONGEST {
                return Err(PatternError::TooLong(text.len()));
            }
            set.add(Glob::new(text).map_err(PatternError::Glob)?);
            patterns.texts.push(text.into());
        }
        patterns.set = set.build().map_err(PatternError::Glob)?;
        Ok(patterns)
    }

    /// Whether one of them matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// The texts of the patterns, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// Equal if they have the same patterns in the same order.
impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_text_and_a_star_also_slashes() {
        let patterns = Patterns::new(["argocd.argoproj.io/*", "sh.helm.?"]).unwrap();
        for (text, matches) in [
            ("argocd.argoproj.io/tracking-id", true),
            ("argocd.argoproj.io/a/b", true),
            ("xargocd.argoproj.io/a", false),
            ("sh.helm.v", true),
            ("sh.helm.v1", false),
        ] {
            assert_eq!(patterns.matches(text), matches, "{text}");
        }
        assert!(!Patterns::default().matches(""));
        assert!(Patterns::new(["["]).is_err());
    }
}
