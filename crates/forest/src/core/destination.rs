//! To which namespaces below a source propagates. Rules and plans both use this predicate.
//!
//! The exceptions of a source are data here. A dialect parses them from its own annotations and words the reasons. This module
//! does not know the tree: it is given the labels that a destination should have.

use std::borrow::Cow;

use super::kind::{KindSettings, Mode};
use super::name::Name;
pub use super::selector::Selector;

/// The exceptions that the annotations of a source state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions {
    pub(crate) select: Option<Selector>,
    pub(crate) tree_select: Option<TreeSelector>,
    pub(crate) none: bool,
    pub(crate) all: bool,
}

/// An annotation that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsable {
    /// The annotation's key.
    pub annotation: Cow<'static, str>,
    /// What is wrong with its value.
    pub why: Box<str>,
}

/// Why an object does not propagate to some destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// The mode of its kind.
    Mode(Mode),
    /// It, or every object like it, never propagates; the text says why.
    Excluded(Box<str>),
    /// It is a copy that was made hop by hop, which is never a source of copies below.
    CopiedByHop,
    /// Objects of its kind and name never propagate: the configuration excludes the name.
    ExcludedName(Box<str>),
    /// One of its annotations cannot be parsed.
    Unparsable(Unparsable),
    /// `select` does not match the destination.
    NotSelected,
    /// `treeSelect` does not match the destination.
    NotInTree,
    /// `none` is set.
    OptedOut,
    /// Its kind requires objects to opt in, and it does not.
    NotOptedIn,
    /// It refers to a Role, and a copy of it would refer to another one, or to none.
    OtherRole {
        /// The name of the Role.
        role: Name,
        /// The namespace of the Role that it refers to in its own namespace; `None` if there is no such Role.
        there: Option<Name>,
        /// The namespace of the Role that a copy would refer to in the destination; `None` if there is no such Role.
        here: Option<Name>,
    },
    /// It refers to a Role of this name, and in the destination an older Role of that name is being deleted.
    RoleTerminating(Name),
}

impl Exceptions {
    /// Those of a source that propagates to all namespaces below, also where its kind requires it to opt in.
    #[must_use]
    pub fn everywhere() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Whether an object with these exceptions propagates to a destination. `label` looks up a label that the destination should
    /// have; `mode` is the kind's.
    ///
    /// # Errors
    /// Why it does not.
    pub fn admit(&self, mode: Mode, label: &dyn Fn(&str) -> Option<String>) -> Result<(), Withheld> {
        if !mode.propagates() {
            return Err(Withheld::Mode(mode));
        }
        if self.select.as_ref().is_some_and(|select| !select.matches(label)) {
            return Err(Withheld::NotSelected);
        }
        if self.tree_select.as_ref().is_some_and(|select| !select.matches(label)) {
            return Err(Withheld::NotInTree);
        }
        self.admit_somewhere(mode)
    }

    /// Whether any destination is possible for such an object, for some labels.
    ///
    /// # Errors
    /// Why none is.
    pub fn admit_somewhere(&self, mode: Mode) -> Result<(), Withheld> {
        if !mode.propagates() {
            return Err(Withheld::Mode(mode));
        }
        if self.none {
            return Err(Withheld::OptedOut);
        }
        let asks = self.all || self.looks_at_labels();
        if mode == Mode::AllowPropagate && !asks { Err(Withheld::NotOptedIn) } else { Ok(()) }
    }

    /// Whether the result depends on the labels of the destination.
    pub fn looks_at_labels(&self) -> bool {
        self.select.is_some() || self.tree_select.is_some()
    }
}

/// The subtrees that a source propagates to, or does not propagate to. It takes no more memory than its text, because users decide
/// how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeSelector {
    /// Namespaces that the destination must be in or below, with commas between them; with a `!`, those that it must not.
    pub(crate) names: Box<str>,
    /// What makes a name the key of a tree label.
    pub(crate) suffix: &'static str,
}

impl TreeSelector {
    fn matches(&self, label: &dyn Fn(&str) -> Option<String>) -> bool {
        self.names.split(',').all(|part| {
            let (wanted, name) = part.strip_prefix('!').map_or((true, part), |name| (false, name));
            label(&format!("{name}{}", self.suffix)).is_some() == wanted
        })
    }
}

/// Whether an object of this name and kind propagates to a namespace below that should have these labels. The object need not be
/// in a forest.
///
/// # Errors
/// Why it does not.
pub(crate) fn goes_to(
    kind: &KindSettings,
    name: &str,
    excluded: Option<&str>,
    exceptions: Option<&Result<Exceptions, Unparsable>>,
    label: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Withheld> {
    may_go(kind, name, excluded, exceptions)?.unwrap_or(&Exceptions::default()).admit(kind.mode, label)
}

/// Whether any namespace is possible to which such an object propagates, for some labels.
///
/// # Errors
/// Why none is.
pub(crate) fn goes_somewhere(
    kind: &KindSettings,
    name: &str,
    excluded: Option<&str>,
    exceptions: Option<&Result<Exceptions, Unparsable>>,
) -> Result<(), Withheld> {
    may_go(kind, name, excluded, exceptions)?.unwrap_or(&Exceptions::default()).admit_somewhere(kind.mode)
}

/// The exceptions, if an object with them may propagate in some mode. Reasons that no mode changes come first.
fn may_go<'a>(
    kind: &KindSettings,
    name: &str,
    excluded: Option<&str>,
    exceptions: Option<&'a Result<Exceptions, Unparsable>>,
) -> Result<Option<&'a Exceptions>, Withheld> {
    let exceptions = exceptions.map(Result::as_ref).transpose();
    let exceptions = exceptions.map_err(|unparsable| Withheld::Unparsable(unparsable.clone()))?;
    if kind.excluded_names.matches(name) {
        return Err(Withheld::ExcludedName(name.into()));
    }
    excluded.map_or(Ok(exceptions), |why| Err(Withheld::Excluded(why.into())))
}
