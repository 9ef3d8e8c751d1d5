//! The annotations that say where a source propagates: `select`, `treeSelect`, `none` and `all` (section 3.3 of
//! docs/compatibility.md).
//!
//! Admission and reconciliation both use these parsers. Selectors are evaluated for the labels that a destination should have. The
//! parsers accept the full Kubernetes selector syntax; HNC does not accept `!=`, `>` and `<`. Any user who may edit an object can
//! write these texts. So an invalid text only gives an error message, the cost of parsing is proportional to the length, and the
//! number of requirements has a limit ([`MOST`]), because they are evaluated for each namespace below.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::core::destination::TreeSelector;
pub use crate::core::destination::{Exceptions, Selector, Unparsable, Withheld};
use crate::core::name::is_namespace_name;
pub use crate::core::selector::MOST;
use crate::core::selector::shortened;
use crate::hnc::keys;

/// The annotations of section 3.3, in its order.
pub(super) const EXCEPTIONS: [&str; 4] = [keys::SELECT, keys::TREE_SELECT, keys::NONE, keys::ALL];

/// Whether this annotation must be one of the four: its prefix is one label below the project's group. Deeper prefixes, and
/// the group itself, are free.
pub fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map_or(key, |(prefix, _)| prefix);
    prefix.split_once('.').is_some_and(|(_, rest)| rest == keys::GROUP)
}

impl Exceptions {
    /// The exceptions of an object with these annotations; `None` without any reserved annotation. The object propagates nowhere
    /// if one is unknown: its author wanted an exception, and would not notice that the annotation has no effect.
    pub fn of<'a>(annotations: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Result<Self, Unparsable>> {
        let reserved: BTreeMap<&str, &str> = annotations.filter(|(key, _)| is_reserved(key)).collect();
        let unknown = reserved.keys().find(|key| !EXCEPTIONS.contains(key));
        match unknown {
            _ if reserved.is_empty() => None,
            Some(&key) => {
                let why = format!("it is none of {}", EXCEPTIONS.join(", "));
                Some(Err(Unparsable { annotation: key.to_owned().into(), why: why.into() }))
            }
            None => Some(Self::parse(|key| reserved.get(key).copied())),
        }
    }

    /// The exceptions in the annotations; `annotation` looks one up.
    ///
    /// # Errors
    /// The first annotation that cannot be parsed, in the order of section 3.3.
    pub fn parse<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Unparsable> {
        let value = |key: &'static str| annotation(key).unwrap_or_default();
        let because = |annotation: &'static str| {
            move |why: String| Unparsable { annotation: Cow::Borrowed(annotation), why: why.into() }
        };
        Ok(Self {
            select: Selector::parse(value(keys::SELECT)).map_err(because(keys::SELECT))?,
            tree_select: tree_selector(value(keys::TREE_SELECT)).map_err(because(keys::TREE_SELECT))?,
            none: boolean(value(keys::NONE)).map_err(because(keys::NONE))?,
            all: boolean(value(keys::ALL)).map_err(because(keys::ALL))?,
        })
    }

    /// The annotations that ask for propagation.
    pub fn asking(&self) -> impl Iterator<Item = &'static str> {
        let asked = [
            (self.select.is_some(), keys::SELECT),
            (self.tree_select.is_some(), keys::TREE_SELECT),
            (self.all, keys::ALL),
        ];
        asked.into_iter().filter(|(asks, _)| *asks).map(|(_, key)| key)
    }
}

/// The namespaces that `treeSelect` names.
fn tree_selector(text: &str) -> Result<Option<TreeSelector>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut has_wanted = false;
    for part in text.split(',').map(str::trim) {
        if parts.len() == MOST {
            return Err(format!(
                "at most {MOST} namespaces may be named, and there are more in {}",
                shortened(text)
            ));
        }
        let (wanted, name) = part.strip_prefix('!').map_or((true, part), |name| (false, name));
        if !is_namespace_name(name) {
            return Err(format!(
                "{} is no name of a namespace, with or without a leading \"!\", in the list {}",
                shortened(part),
                shortened(text)
            ));
        }
        if wanted && has_wanted {
            return Err(format!(
                "only one namespace may be named without a leading \"!\" in {}",
                shortened(text)
            ));
        }
        has_wanted |= wanted;
        parts.push(part);
    }
    Ok(Some(TreeSelector { names: parts.join(",").into(), suffix: keys::TREE_LABEL }))
}

/// Parses the boolean literals of Go; an empty text is false.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        other => Err(format!("{} is neither true nor false", shortened(other))),
    }
}
