//! Trees of namespaces as data, ready to be drawn. Built from a [`Structure`] by pure functions; the submodules draw
//! them.

pub(crate) mod dot;
pub(crate) mod mermaid;
pub(crate) mod svg;
pub(crate) mod text;

use forest::{Forest, Name};
use serde::Serialize;

use crate::lines::printable;
use crate::object_states::{ObjectState, ObjectStates, State};
use crate::structure::Structure;

/// A namespace in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) subnamespace: bool,
    pub(crate) conditions: Vec<ConditionView>,
    /// The state of the requested object in this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<ObjectState>,
    pub(crate) children: Vec<Node>,
}

/// A condition for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConditionView {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl ConditionView {
    /// `Type (Reason): message`.
    pub(crate) fn line(&self) -> String {
        printable(&format!("{} ({}): {}", self.type_, self.reason, self.message)).into_owned()
    }

    /// Whether the condition halts propagation.
    fn halts(&self) -> bool {
        self.type_ == hns_api::conditions::ACTIVITIES_HALTED
    }
}

impl From<&forest::Condition> for ConditionView {
    fn from(condition: &forest::Condition) -> Self {
        let text = |it: &str| it.to_owned();
        Self {
            type_: text(&condition.type_),
            reason: text(&condition.reason),
            message: text(&condition.message),
        }
    }
}

impl Node {
    /// The severity of the node's conditions.
    fn health(&self) -> Health {
        if self.conditions.iter().any(ConditionView::halts) {
            Health::Halted
        } else if self.conditions.is_empty() {
            Health::Well
        } else {
            Health::Complaining
        }
    }

    /// The remarks on the node: its conditions, and why the object is here or not.
    fn remarks(&self) -> Vec<String> {
        let why = self.object.iter().filter_map(|mark| mark.why.clone());
        self.conditions.iter().map(ConditionView::line).chain(why).collect()
    }

    /// The style class of the node, if it is not the default: by its conditions, or else by the state of the object.
    fn class(&self) -> Option<&'static str> {
        match (self.health(), self.object.as_ref().map(|it| it.state)) {
            (Health::Halted, _) => Some("halted"),
            (_, Some(State::Source)) => Some("source"),
            (_, Some(State::Copy)) => Some("copy"),
            (Health::Well, None | Some(State::Unknown | State::Absent)) => None,
            _ => Some("complaining"),
        }
    }

    /// This node and all nodes below it, in drawing order.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.all());
        }
        all
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Well,
    Complaining,
    Halted,
}

/// Builds the trees below `roots`. A member of a cycle is repeated where the cycle closes, without the nodes below it.
pub(crate) fn build(structure: &Structure, roots: &[Name]) -> Vec<Node> {
    roots.iter().map(|root| node(structure, root, &mut Vec::new())).collect()
}

/// Builds the same trees, with the state of an object in each namespace. It is omitted if the object is neither there
/// nor in a namespace above.
pub(crate) fn build_with_object(object_states: &ObjectStates, roots: &[Name]) -> Vec<Node> {
    let mut trees = build(&object_states.loaded.structure, roots);
    mark(&mut trees, object_states);
    trees
}

fn mark(trees: &mut [Node], object_states: &ObjectStates) {
    for node in trees {
        let found = object_states.answer(&node.name).as_ref().map(ObjectState::from);
        node.object = found.filter(|mark| mark.state != State::Absent);
        mark(&mut node.children, object_states);
    }
}

fn node(structure: &Structure, name: &Name, above: &mut Vec<Name>) -> Node {
    let mut children = Vec::new();
    if !above.contains(name) {
        above.push(name.clone());
        children.extend(structure.children(name).iter().map(|child| node(structure, child, above)));
        above.pop();
    }
    Node {
        name: name.to_string(),
        subnamespace: structure.is_subnamespace(name),
        conditions: structure.conditions(name).iter().map(ConditionView::from).collect(),
        object: None,
        children,
    }
}

/// The roots of all trees: namespaces without a parent, members of cycles, and namespaces whose parent does not exist.
pub(crate) fn roots(structure: &Structure) -> Vec<Name> {
    let forest = structure.forest();
    structure.namespaces.keys().filter(|name| is_tree_root(&forest, name)).cloned().collect()
}

fn is_tree_root(forest: &Forest, name: &str) -> bool {
    forest.parent(name).is_none_or(|parent| !forest.exists(parent)) || forest.cycle(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn all_trees_start_at_roots_orphans_and_cycles() {
        let structure = sketch(&["b", "a", "c < a", "o < gone", "p < o", "x < y", "y < x", "z < x"]);
        let names: Vec<String> = roots(&structure).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b", "o", "x", "y"]);
    }

    #[test]
    fn a_cycle_is_drawn_once() {
        let structure = sketch(&["x < y", "y < x"]);
        let drawn = build(&structure, &["x".into()]);
        let names: Vec<&str> = drawn[0].all().iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["x", "y", "x"]);
    }
}
