//! The annotations by which a source says where it goes: `select`, `treeSelect`, `none` and `all` (section 3.3 of
//! docs/compatibility.md).
//!
//! Values are parsed here and nowhere else, for admission and for reconciliation alike, and matched against the labels that
//! a destination should have. Full Kubernetes selector syntax is understood; HNC knows no `!=`, `>` and `<`. No text makes
//! the parsers fail in any other way than by saying what is wrong with it. The cost of a text grows with its length, and what a
//! source asks of each namespace below has a limit ([`MOST`]): anybody who may edit an object writes these texts. Never looks at
//! modes or at the tree.

mod selector;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::selector::Selector;
use crate::{Mode, Name, keys};

/// The most requirements of a selector, values of one requirement, and namespaces in `treeSelect`.
pub const MOST: usize = 256;

/// The most bytes of a text that a message repeats.
const SHOWN: usize = 256;

/// A text as a message shows it: quoted, and only its beginning if it is long.
fn shortened(text: &str) -> String {
    if text.len() <= SHOWN {
        return format!("{text:?}");
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{:?}… ({} bytes)", &text[..end], text.len())
}

/// What a source's annotations ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions {
    select: Option<Selector>,
    tree_select: Option<TreeSelector>,
    none: bool,
    all: bool,
}

/// An annotation that makes no sense. As a sentence, it says which, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsable {
    /// The annotation's key.
    pub annotation: &'static str,
    /// What is wrong with its value.
    pub why: Box<str>,
}

impl fmt::Display for Unparsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the annotation {} cannot be understood: {}", self.annotation, self.why)
    }
}

/// Why an object does not go to some destination. As a clause, it completes "… is not propagated because".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// Its kind is in this mode.
    Mode(Mode),
    /// It, or everything like it, never propagates; the text says why.
    Excluded(Box<str>),
    /// One of its annotations cannot be understood.
    Unparsable(Unparsable),
    /// `select` does not match the destination.
    NotSelected,
    /// `treeSelect` does not match the destination.
    NotInTree,
    /// `none` is set.
    OptedOut,
    /// Its kind needs it to opt in, and it does not.
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

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "its kind is in mode {mode}"),
            Self::Excluded(why) => f.write_str(why),
            Self::Unparsable(unparsable) => unparsable.fmt(f),
            Self::NotSelected => write!(f, "its annotation {} does not select the namespace", keys::SELECT),
            Self::NotInTree => {
                write!(f, "its annotation {} does not select the namespace", keys::TREE_SELECT)
            }
            Self::OptedOut => write!(f, "its annotation {} is true", keys::NONE),
            Self::NotOptedIn => write!(
                f,
                "its kind is in mode AllowPropagate and none of its annotations {}, {} and {} asks for it",
                keys::SELECT,
                keys::TREE_SELECT,
                keys::ALL
            ),
            Self::OtherRole { role, there: None, .. } => {
                write!(f, "it refers to the Role {}, which its own namespace does not have", shortened(role))
            }
            Self::OtherRole { role, there: Some(there), here: None } => {
                let role = shortened(role);
                write!(f, "it refers to the Role {role} of namespace {there:?}, which is not copied here")
            }
            Self::OtherRole { role, there: Some(there), here: Some(here) } => write!(
                f,
                "it refers to the Role {} of namespace {there:?}, and the Role of that name here is the one of namespace {here:?}",
                shortened(role)
            ),
            Self::RoleTerminating(role) => {
                let role = shortened(role);
                write!(f, "it refers to the Role {role}, and an older one of that name is being deleted here")
            }
        }
    }
}

impl Exceptions {
    /// What the annotations ask for; `annotation` looks one up. The first one that cannot be parsed, in
    /// the order of section 3.3, is the error.
    ///
    /// # Errors
    /// An annotation that cannot be parsed.
    pub fn parse<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Unparsable> {
        let value = |key: &'static str| annotation(key).unwrap_or_default();
        let because = |annotation| move |why: String| Unparsable { annotation, why: why.into() };
        Ok(Self {
            select: Selector::parse(value(keys::SELECT)).map_err(because(keys::SELECT))?,
            tree_select: TreeSelector::parse(value(keys::TREE_SELECT)).map_err(because(keys::TREE_SELECT))?,
            none: boolean(value(keys::NONE)).map_err(because(keys::NONE))?,
            all: boolean(value(keys::ALL)).map_err(because(keys::ALL))?,
        })
    }

    /// Whether an object that asks for this goes to a destination. `label` looks up a label that the destination should
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

    /// Whether there can be a destination at all that such an object goes to, whatever its labels.
    ///
    /// # Errors
    /// Why there can be none.
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

    /// The annotations by which it says where it goes.
    pub fn asking(&self) -> impl Iterator<Item = &'static str> {
        let asked = [
            (self.select.is_some(), keys::SELECT),
            (self.tree_select.is_some(), keys::TREE_SELECT),
            (self.all, keys::ALL),
        ];
        asked.into_iter().filter(|(asks, _)| *asks).map(|(_, key)| key)
    }

    /// Whether it depends on a destination's labels where the object goes.
    pub fn looks_at_labels(&self) -> bool {
        self.select.is_some() || self.tree_select.is_some()
    }
}

/// The subtrees that a source goes to, or does not go to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TreeSelector {
    /// Tree labels that must, or must not, be there.
    parts: Box<[(bool, Box<str>)]>,
}

impl TreeSelector {
    fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let mut parts: Vec<(bool, Box<str>)> = Vec::new();
        let mut has_wanted = false;
        for part in text.split(',').map(str::trim) {
            if parts.len() == MOST {
                return Err(format!(
                    "at most {MOST} namespaces may be named, and there are more in {}",
                    shortened(text)
                ));
            }
            let (wanted, name) = part.strip_prefix('!').map_or((true, part), |name| (false, name));
            if !is_dns_label(name) {
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
            parts.push((wanted, format!("{name}{}", keys::TREE_LABEL).into()));
        }
        Ok(Some(Self { parts: parts.into() }))
    }

    fn matches(&self, label: &dyn Fn(&str) -> Option<String>) -> bool {
        self.parts.iter().all(|(wanted, key)| label(key).is_some() == *wanted)
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|c| inner(*c))
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

/// Go's literals, and nothing for false.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        other => Err(format!("{} is neither true nor false", shortened(other))),
    }
}
