//! Names and keys by glob: `*` stands for any characters, also for `/`, and `?` for one.

use globset::{Glob, GlobSet};

/// Some patterns. A text matches when one of them matches all of it.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    texts: Vec<Box<str>>,
    set: GlobSet,
}

impl Patterns {
    /// The patterns as written.
    ///
    /// # Errors
    /// The first that is no glob, and why.
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, globset::Error> {
        let mut patterns = Self::default();
        let mut set = GlobSet::builder();
        for text in texts {
            set.add(Glob::new(text.as_ref())?);
            patterns.texts.push(text.as_ref().into());
        }
        patterns.set = set.build()?;
        Ok(patterns)
    }

    /// Whether one of them matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// As written, in their order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// The same patterns in the same order.
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
