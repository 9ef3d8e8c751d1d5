//! The place of a namespace in Accurate's hierarchy, as its labels say (section 1 of its contract).
//!
//! An empty value counts as no label.

use std::collections::BTreeMap;

use super::keys;
use crate::core::name::Name;
use crate::core::tree::EdgeKind;

/// The labels of a namespace, by key.
pub(crate) trait Labelled<'a> {
    /// The value of a label, if it is not empty.
    fn value(&self, key: &str) -> Option<&'a str>;

    /// The upstream namespace. A sub-namespace has no template.
    fn edge(&self) -> Option<(EdgeKind, &'a str)> {
        let parent = self.value(keys::PARENT).map(|parent| (EdgeKind::Parent, parent));
        parent.or_else(|| self.value(keys::TEMPLATE).map(|template| (EdgeKind::Template, template)))
    }

    /// Whether it can be the upstream namespace of such an edge. As in Accurate, a sub-namespace can also be a template.
    fn leads(&self, kind: EdgeKind) -> bool {
        let wanted = match kind {
            EdgeKind::Parent => keys::ROOT,
            EdgeKind::Template => keys::TEMPLATE_TYPE,
        };
        self.value(keys::TYPE) == Some(wanted) || self.value(keys::PARENT).is_some()
    }

    /// Whether a label says anything about its place.
    fn has_place(&self) -> bool {
        [keys::TYPE, keys::PARENT, keys::TEMPLATE].iter().any(|key| self.value(key).is_some())
    }
}

/// Whether a namespace with these labels has this edge.
pub fn has_edge(labels: Option<&BTreeMap<String, String>>, (kind, upstream): &(EdgeKind, Name)) -> bool {
    let label = |key: &str| labels?.get(key).map(String::as_str);
    label.edge() == Some((*kind, &**upstream))
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Labelled<'a> for F {
    fn value(&self, key: &str) -> Option<&'a str> {
        self(key).filter(|value| !value.is_empty())
    }
}
