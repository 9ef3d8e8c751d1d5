//! Why nothing reaches a namespace in Accurate's hierarchy, and what happens to an object in it. Plans and explanations ask the same
//! functions.

use super::keys;
use super::place::Labelled;
use super::plan::place::{Decision, Place, Reach, reach};
use super::state::labels_of;
use crate::core::hop::{Hop, HopMode};
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::tree::EdgeKind;
use crate::dialects::Forest;

/// Why nothing is written in a namespace, although it has labels of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frozen {
    /// This namespace is in a hierarchy of HNC's, too: it, its upstream namespace, or one above it there.
    Crossed(Name),
    /// Its upstream namespace does not exist.
    Missing(Name),
    /// Its upstream namespace is not one of that kind: no root and no sub-namespace, or no template.
    NotLeading(EdgeKind, Name),
    /// It is in a cycle.
    Cycle,
}

/// Why nothing is written in this namespace, if so.
pub fn frozen(forest: &Forest, namespace: &str) -> Option<Frozen> {
    match reach(forest, forest.id(namespace)?) {
        Reach::Frozen(why) => Some(why),
        _ => None,
    }
}

/// The template that the labels of a sub-namespace name. It has no effect: objects come from the parent only.
pub fn idle_template(forest: &Forest, namespace: &str) -> Option<Name> {
    let labels = labels_of(forest, forest.id(namespace)?);
    labels.value(keys::PARENT)?;
    labels.value(keys::TEMPLATE).map(Name::from)
}

/// Whether the namespace has a type, which a sub-namespace cannot have. It can have got both labels while Accurate's API was disabled.
pub fn has_type(forest: &Forest, namespace: &str) -> bool {
    forest.id(namespace).is_some_and(|id| labels_of(forest, id).value(keys::TYPE).is_some())
}

/// The Role of the binding of this name in the upstream namespace, if the binding is not copied because the Role here is none or another
/// one.
pub fn lacking_role(forest: &Forest, namespace: &str, binding: &ObjectKey) -> Option<ObjectKey> {
    let place = Place::of(forest, namespace)?;
    place.role_of(binding).filter(|role| !place.role_is_the_same(role))
}

/// What the controller does with an object in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Stays,
    /// It becomes a copy of the one in the upstream namespace.
    Written,
    /// The copy is deleted.
    Removed,
    /// It is kept and reported: it is in the place of a copy.
    Conflict,
}

/// What the controller does with this object, in a namespace that is not frozen.
pub fn next(forest: &Forest, namespace: &str, key: &ObjectKey) -> Option<Next> {
    Some(match Place::of(forest, namespace)?.decide(key) {
        Decision::Leave => Next::Stays,
        Decision::Write(..) => Next::Written,
        Decision::Delete => Next::Removed,
        Decision::Report(_) => Next::Conflict,
    })
}

/// The namespace of the source that this object keeps from being copied.
pub(crate) fn conflicting_source(forest: &Forest, namespace: &str, key: &ObjectKey) -> Option<Name> {
    match Place::of(forest, namespace)?.decide(key) {
        Decision::Report(upstream) => Some(upstream.clone()),
        _ => None,
    }
}

/// What is in the place of an object.
#[derive(Debug, Clone, Copy)]
pub enum There<'a> {
    /// Nothing.
    Nothing,
    /// An object that says nothing about its propagation.
    Silent,
    /// An object that says this.
    Says(&'a Hop),
}

impl<'a> There<'a> {
    /// Whether there is an object.
    pub fn is_something(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// The namespace of its source, if it is marked as a copy.
    pub fn from(self) -> Option<&'a Name> {
        let Self::Says(hop) = self else { return None };
        hop.from.as_ref()
    }

    /// Whether it has the label of copies, and names no source.
    pub fn is_only_labelled(self) -> bool {
        matches!(self, Self::Says(hop) if hop.marked && hop.from.is_none())
    }

    /// How it is copied to the next namespaces, if it is.
    pub fn mode(self) -> Option<HopMode> {
        let Self::Says(hop) = self else { return None };
        hop.mode
    }
}

/// What is in the place of this object.
pub fn there<'a>(forest: &'a Forest, namespace: &str, key: &ObjectKey) -> There<'a> {
    match Place::of(forest, namespace).and_then(|place| place.object(key)) {
        None => There::Nothing,
        Some(object) => object.hop().map_or(There::Silent, There::Says),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accurate::world::draw;
    use crate::{ObjectFact, Version};

    #[test]
    fn frozen_namespaces_have_a_reason() {
        let forest = draw("r root, s ^r, o ^gone, n, m ^n, i ~r, x ^y, y ^x, t template, u ~t");
        let (parent, template) = (EdgeKind::Parent, EdgeKind::Template);
        for (name, wanted) in [
            ("r", None),
            ("s", None),
            ("u", None),
            ("o", Some(Frozen::Missing("gone".into()))),
            ("m", Some(Frozen::NotLeading(parent, "n".into()))),
            ("i", Some(Frozen::NotLeading(template, "r".into()))),
            ("x", Some(Frozen::Cycle)),
        ] {
            assert_eq!(frozen(&forest, name), wanted, "{name}");
        }
    }

    #[test]
    fn a_labelled_object_in_mode_update_counts_as_a_copy() {
        let update = Some(HopMode::Update);
        for (mode, from, marked, wanted) in [
            (update, Some("r"), true, true),
            (None, Some("r"), false, true),
            (update, None, true, true),
            (update, None, false, false),
            (Some(HopMode::Create), None, true, false),
            (None, None, true, false),
        ] {
            let mut forest = draw("r root, s ^r");
            let key = forest.kinds().map(|(kind, _)| ObjectKey { kind, name: "x".into() }).next().unwrap();
            let hop = Some(Box::new(Hop::new(mode, from.map(Name::from), marked, None)));
            let fact = ObjectFact::new("s".into(), "x".into(), Version::default());
            forest.apply(crate::Fact::Object(key.kind, ObjectFact { hop, ..fact }));
            assert_eq!(forest.counts_as_copy("s", &key), wanted, "{mode:?} {from:?} {marked}");
        }
    }

    #[test]
    fn the_template_of_a_sub_namespace_has_no_effect() {
        let forest = draw("r root ~t, s ^r ~t, m ^gone ~lost, i ~t, t template");
        for (name, wanted) in
            [("r", None), ("s", Some("t")), ("m", Some("lost")), ("i", None), ("gone", None)]
        {
            assert_eq!(idle_template(&forest, name).as_deref(), wanted, "{name}");
        }
    }
}
