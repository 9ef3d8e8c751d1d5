//! Why nothing reaches a namespace in Accurate's hierarchy. Plans and explanations ask the same function.

use super::plan::place::{Reach, reach};
use crate::core::name::Name;
use crate::core::tree::EdgeKind;
use crate::dialects::Forest;

/// Why nothing is written in a namespace, although it has labels of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frozen {
    /// This namespace, it or its upstream namespace, is in a hierarchy of HNC's, too.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accurate::world::draw;

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
}
