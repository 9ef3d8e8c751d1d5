//! Shapes of trees of namespaces, and the labels that they should have.

use std::collections::{BTreeMap, HashMap};

/// Namespaces with their parents, parents first.
pub(crate) struct Shape {
    /// The namespaces that get a parent, with it.
    pub(crate) edges: Vec<(String, String)>,
    pub(crate) roots: Vec<String>,
}

impl Shape {
    /// One root with `count` children.
    pub(crate) fn wide(root: &str, count: usize) -> Self {
        Self::tree(root, count, count)
    }

    /// A root and `count` namespaces below it, with `children` children each until there are enough.
    pub(crate) fn tree(root: &str, count: usize, children: usize) -> Self {
        let name = |number: usize| {
            if number == 0 { root.to_owned() } else { format!("{root}-{number:05}") }
        };
        let edges = (1..=count).map(|number| (name(number), name((number - 1) / children))).collect();
        Self { edges, roots: vec![root.to_owned()] }
    }

    /// Chains of `depth` namespaces, each below its own root, `count` in all, level by level.
    pub(crate) fn chains(prefix: &str, count: usize, depth: usize) -> Self {
        let name = |chain: usize, level: usize| format!("{prefix}-{chain:02}-{level:03}");
        let chains = count / depth;
        let levels = (1..=depth).flat_map(|level| (0..chains).map(move |chain| (chain, level)));
        Self {
            edges: levels.map(|(chain, level)| (name(chain, level), name(chain, level - 1))).collect(),
            roots: (0..chains).map(|chain| name(chain, 0)).collect(),
        }
    }

    /// All names, roots first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.roots.iter().chain(self.edges.iter().map(|(name, _)| name))
    }

    /// The number of namespaces with children.
    pub(crate) fn parents(&self) -> usize {
        let parents: std::collections::BTreeSet<&String> =
            self.edges.iter().map(|(_, parent)| parent).collect();
        parents.len()
    }

    /// For each namespace, its ancestors and itself with their distances.
    pub(crate) fn labels(&self) -> BTreeMap<String, BTreeMap<String, usize>> {
        let parents: HashMap<&String, &String> =
            self.edges.iter().map(|(name, parent)| (name, parent)).collect();
        let path = |name: &String| {
            let up = std::iter::successors(Some(name), |name| parents.get(*name).copied());
            up.enumerate().map(|(depth, ancestor)| (ancestor.clone(), depth)).collect()
        };
        self.names().map(|name| (name.clone(), path(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_filled_from_the_top() {
        let shape = Shape::tree("t", 4, 3);
        let edges: Vec<(&str, &str)> =
            shape.edges.iter().map(|(name, parent)| (name.as_str(), parent.as_str())).collect();
        assert_eq!(edges, [("t-00001", "t"), ("t-00002", "t"), ("t-00003", "t"), ("t-00004", "t-00001")]);
        assert_eq!(shape.parents(), 2);
        let labels = &shape.labels()["t-00004"];
        assert_eq!(
            labels.iter().map(|(name, depth)| (name.as_str(), *depth)).collect::<Vec<_>>(),
            [("t", 2), ("t-00001", 1), ("t-00004", 0)]
        );
    }

    #[test]
    fn each_chain_has_a_root() {
        let shape = Shape::chains("s", 6, 3);
        assert_eq!(shape.roots, ["s-00-000", "s-01-000"]);
        assert_eq!(shape.edges.len(), 6);
        assert_eq!(shape.edges[5], ("s-01-003".to_owned(), "s-01-002".to_owned()));
        assert_eq!(shape.labels()["s-01-003"].len(), 4);
    }
}
