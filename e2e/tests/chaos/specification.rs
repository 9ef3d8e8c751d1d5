//! What should exist, on one page: HNC's rules of propagation written down once more, from docs/compatibility.md, with nothing of
//! the product. It is a function of what the users did and were allowed to do, and of nothing that the controller did.

use std::collections::BTreeMap;
use std::fmt;

use super::kind::{Content, Form, Kind};

const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const DESCRIPTION: &str = "openshift.io/description";
/// A key that a tool tracks its own objects by: it belongs to the source and is not copied.
const TRACKED: &str = "argocd.argoproj.io/tracking-id";
pub(crate) const REMARK: &str = "example.com/remark";
pub(crate) const TEAM: &str = "team";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Propagate,
    AllowPropagate,
    Remove,
    Ignore,
    /// Not in the configuration at all, which is as `Ignore`.
    Dropped,
}

/// What a source says about where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exception {
    Nothing,
    Select(&'static str),
    SelectNot(&'static str),
    TreeSelect(String),
    TreeSelectNot(String),
    None(bool),
    All(bool),
    /// One of the built-in exclusions.
    Description,
}

/// A user's own object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// Another one for every creation.
    pub(crate) incarnation: u64,
    pub(crate) content: Content,
    pub(crate) label: Option<u64>,
    pub(crate) remark: Option<u64>,
    pub(crate) exception: Exception,
}

/// The whole of what the rules look at.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct World {
    pub(crate) parents: BTreeMap<String, Option<String>>,
    pub(crate) teams: BTreeMap<String, &'static str>,
    pub(crate) modes: BTreeMap<Kind, Mode>,
    pub(crate) own: BTreeMap<Key, Own>,
}

/// A copy that should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) source: String,
    pub(crate) incarnation: u64,
    pub(crate) form: Form,
}

impl World {
    /// The namespaces above, the root first. A cycle is refused before it is made.
    pub(crate) fn above(&self, namespace: &str) -> Vec<&str> {
        let mut above = Vec::new();
        let mut at = namespace;
        while let Some(Some(parent)) = self.parents.get(at) {
            above.insert(0, parent.as_str());
            at = parent;
        }
        above
    }

    pub(crate) fn mode(&self, kind: Kind) -> Mode {
        self.modes.get(&kind).copied().unwrap_or(Mode::Propagate)
    }

    /// As it would be in another mode.
    pub(crate) fn in_mode(&self, kind: Kind, mode: Mode) -> Self {
        let mut other = self.clone();
        other.modes.insert(kind, mode);
        other
    }

    /// Whether nothing is done about the kind: copies stay as they happen to be.
    pub(crate) fn is_frozen(&self, kind: Kind) -> bool {
        matches!(self.mode(kind), Mode::Ignore | Mode::Dropped)
    }

    /// Whether a source may be copied to the namespace. What selects, selects among what would not go by itself too.
    fn goes_to(&self, kind: Kind, own: &Own, namespace: &str) -> bool {
        let in_tree =
            |tree: &str| namespace == tree || self.above(namespace).into_iter().any(|above| above == tree);
        let team = self.teams.get(namespace);
        let by_itself = match self.mode(kind) {
            Mode::Propagate => true,
            Mode::AllowPropagate => false,
            Mode::Remove | Mode::Ignore | Mode::Dropped => return false,
        };
        match &own.exception {
            Exception::Nothing | Exception::None(false) | Exception::All(false) => by_itself,
            Exception::All(true) => true,
            Exception::None(true) | Exception::Description => false,
            Exception::Select(wanted) => team == Some(wanted),
            Exception::SelectNot(unwanted) => team != Some(unwanted),
            Exception::TreeSelect(tree) => in_tree(tree),
            Exception::TreeSelectNot(tree) => !in_tree(tree),
        }
    }

    /// The top-most source above that goes to where this object is, or would be.
    pub(crate) fn source(&self, key: &Key) -> Option<(&str, &Own)> {
        self.above(&key.namespace).into_iter().find_map(|above| {
            let own = self.own.get(&Key { namespace: above.to_owned(), ..key.clone() })?;
            let goes = self.goes_to(key.kind, own, &key.namespace) && self.finds_its_role(key, own, above);
            goes.then_some((above, own))
        })
    }

    /// Whether the Role that a binding of this namespace refers to is the same one where this object is, or would be.
    fn finds_its_role(&self, key: &Key, binding: &Own, namespace: &str) -> bool {
        let meant = |namespace: &str| {
            let role = Key { kind: Kind::Role, namespace: namespace.to_owned(), name: binding.content.role };
            let source = self.source(&role).map(|(source, _)| source.to_owned());
            source.or_else(|| self.own.contains_key(&role).then_some(role.namespace))
        };
        key.kind != Kind::RoleBinding
            || meant(namespace).is_some_and(|role| Some(role) == meant(&key.namespace))
    }

    /// Every copy that should be. Of a frozen kind it says nothing.
    pub(crate) fn wanted(&self) -> BTreeMap<Key, Wanted> {
        let names = self.own.keys().map(|key| (key.kind, key.name));
        let places = names.flat_map(|(kind, name)| {
            self.parents.keys().map(move |namespace| Key { kind, namespace: namespace.clone(), name })
        });
        places.filter_map(|key| Some((key.clone(), self.wanted_at(&key)?))).collect()
    }

    /// The copy that should be here.
    pub(crate) fn wanted_at(&self, key: &Key) -> Option<Wanted> {
        if key.kind.keeps() && self.own.contains_key(key) {
            return None;
        }
        let (source, own) = self.source(key)?;
        let form = own.copy(key.kind, source);
        Some(Wanted { source: source.to_owned(), incarnation: own.incarnation, form })
    }

    /// Users' own objects that are in the way of a copy and will be overwritten.
    pub(crate) fn doomed(&self) -> Vec<Key> {
        let in_the_way = |key: &&Key| !key.kind.keeps() && self.source(key).is_some();
        self.own.keys().filter(in_the_way).cloned().collect()
    }

    /// The depth labels of a namespace: itself, its parent, and so on.
    pub(crate) fn depths(&self, namespace: &str) -> BTreeMap<String, String> {
        let path = [namespace].into_iter().chain(self.above(namespace).into_iter().rev());
        path.enumerate().map(|(depth, name)| (name.to_owned(), depth.to_string())).collect()
    }

    pub(crate) fn children(&self, namespace: &str) -> Vec<String> {
        let below = self.parents.iter().filter(|(_, parent)| parent.as_deref() == Some(namespace));
        below.map(|(name, _)| name.clone()).collect()
    }
}

impl Own {
    /// As its user writes it.
    pub(crate) fn form(&self, kind: Kind) -> Form {
        let mut annotations = BTreeMap::from([(TRACKED.to_owned(), self.incarnation.to_string())]);
        annotations.extend(self.remark.map(|remark| (REMARK.to_owned(), remark.to_string())));
        let propagate = |key: &str| format!("propagate.hnc.x-k8s.io/{key}");
        annotations.extend(match &self.exception {
            Exception::Nothing => None,
            Exception::Select(team) => Some((propagate("select"), format!("{TEAM}={team}"))),
            Exception::SelectNot(team) => Some((propagate("select"), format!("{TEAM}!={team}"))),
            Exception::TreeSelect(tree) => Some((propagate("treeSelect"), tree.clone())),
            Exception::TreeSelectNot(tree) => Some((propagate("treeSelect"), format!("!{tree}"))),
            Exception::None(value) => Some((propagate("none"), value.to_string())),
            Exception::All(value) => Some((propagate("all"), value.to_string())),
            Exception::Description => Some((DESCRIPTION.to_owned(), "ours".to_owned())),
        });
        let labels = self.label.map(|label| ("label".to_owned(), label.to_string())).into_iter().collect();
        Form { body: kind.body(&self.content), labels, annotations }
    }

    /// As it arrives below: with two labels more, and without what is said to us or to a tool.
    fn copy(&self, kind: Kind, source: &str) -> Form {
        let mut form = self.form(kind);
        form.annotations.retain(|key, _| key == REMARK);
        form.labels.insert(INHERITED_FROM.to_owned(), source.to_owned());
        form.labels.insert(MANAGED_BY.to_owned(), "hnc.x-k8s.io".to_owned());
        form
    }
}

/// The namespace that a copy says it is inherited from.
pub(crate) fn inherited_from(form: &Form) -> Option<&str> {
    form.labels.get(INHERITED_FROM).map(String::as_str)
}
