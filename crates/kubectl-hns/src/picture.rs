//! Trees of namespaces as data, ready to be drawn. Built from a [`Structure`] by pure functions; the submodules draw
//! them.

pub(crate) mod dot;
pub(crate) mod mermaid;
pub(crate) mod svg;
pub(crate) mod text;

use std::collections::BTreeSet;

use forest::hnc::external_manager;
use forest::{Forest, Name, Settings};
use serde::Serialize;

use crate::lines::printable;
use crate::object_states::{ObjectState, ObjectStates, State};
use crate::structure::Structure;

/// A namespace in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// `None` if that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subnamespace: Option<bool>,
    /// Whether the settings of the installation exclude the namespace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) excluded: bool,
    /// The other tool that manages the place of the namespace in the hierarchy.
    #[serde(skip_serializing_if = "Option::is_none", rename = "externalManager")]
    pub(crate) external_manager: Option<String>,
    /// Whether the namespace is being deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) terminating: bool,
    pub(crate) conditions: Vec<ConditionView>,
    /// The state of the requested object in this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<ObjectState>,
    /// The number of namespaces below that `--depth` leaves out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) omitted: usize,
    pub(crate) children: Vec<Node>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
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
        let object = self.object.as_ref();
        match (self.health(), object.map(|it| it.state)) {
            (Health::Halted, _) => Some("halted"),
            (_, Some(State::Source)) => Some("source"),
            (_, Some(State::Copy)) => Some("copy"),
            (Health::Well, _) if !object.is_some_and(ObjectState::needs_attention) => None,
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

impl Node {
    /// The name with the words that follow it in a drawing.
    pub(crate) fn title(&self) -> String {
        let excluded = if self.excluded { " [excluded]" } else { "" };
        let external = if self.external_manager.is_some() { " [external]" } else { "" };
        let terminating = if self.terminating { " [terminating]" } else { "" };
        let omitted =
            if self.omitted == 0 { String::new() } else { format!(" [{} more below]", self.omitted) };
        format!("{}{excluded}{external}{terminating}{omitted}", self.name)
    }

    /// Whether it is known to be a subnamespace.
    pub(crate) fn is_sub(&self) -> bool {
        self.subnamespace == Some(true)
    }

    /// Marks the namespaces that the settings exclude.
    pub(crate) fn exclude(&mut self, settings: &Settings) {
        self.each(&mut |node| node.excluded = !settings.is_managed(&node.name));
    }

    /// Changes this node and all nodes below it.
    pub(crate) fn each(&mut self, change: &mut impl FnMut(&mut Self)) {
        change(self);
        for child in &mut self.children {
            child.each(change);
        }
    }

    /// Removes the namespaces more than `depth` levels below this one.
    pub(crate) fn cut(&mut self, depth: usize) {
        if depth == 0 {
            self.omitted = self.all().len() - 1;
            self.children.clear();
        }
        for child in &mut self.children {
            child.cut(depth - 1);
        }
    }

    /// Keeps the namespaces that match and those above them; returns whether there is one.
    pub(crate) fn keep(&mut self, matches: &impl Fn(&str) -> bool) -> bool {
        self.children.retain_mut(|child| child.keep(matches));
        !self.children.is_empty() || matches(&self.name)
    }
}

/// Builds the trees below `roots`. A member of a cycle is repeated where the cycle closes, without the nodes below it.
pub(crate) fn build(structure: &Structure, roots: &[Name]) -> Vec<Node> {
    let forest = structure.forest();
    roots.iter().map(|root| node((structure, &forest), root, &mut Vec::new())).collect()
}

/// Builds the same trees, with the state of an object in each namespace. It is omitted if the object is known to be
/// neither there nor in a namespace above.
pub(crate) fn build_with_object(object_states: &ObjectStates, roots: &[Name]) -> Vec<Node> {
    let mut trees = build(&object_states.loaded.structure, roots);
    for tree in &mut trees {
        tree.each(&mut |node| {
            let found = object_states.answer(&node.name).as_ref().map(ObjectState::from);
            node.object = found.filter(|mark| mark.state != State::Absent || mark.is_doubtful);
        });
    }
    trees
}

fn node(seen: (&Structure, &Forest), name: &Name, above: &mut Vec<Name>) -> Node {
    let (structure, forest) = seen;
    let mut children = Vec::new();
    if !above.contains(name) {
        above.push(name.clone());
        children.extend(forest.children(name).iter().map(|child| node(seen, child, above)));
        above.pop();
    }
    let seen = structure.namespaces.get(name);
    Node {
        name: name.to_string(),
        subnamespace: structure.known_subnamespace(forest, name),
        excluded: false,
        external_manager: seen.and_then(|it| external_manager(&it.annotations)).map(ToOwned::to_owned),
        terminating: structure.is_terminating(name),
        conditions: structure.conditions(name).iter().map(ConditionView::from).collect(),
        object: None,
        omitted: 0,
        children,
    }
}

/// The roots of all trees: namespaces without a parent, members of cycles, and namespaces whose parent does not exist.
pub(crate) fn roots(structure: &Structure) -> Vec<Name> {
    let forest = structure.forest();
    // A user who may not read a namespace may still know its place.
    let names: BTreeSet<&Name> = structure.namespaces.keys().chain(structure.hierarchies.keys()).collect();
    names.into_iter().filter(|name| is_tree_root(&forest, name)).cloned().collect()
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

    #[test]
    fn namespaces_that_are_being_deleted_or_external_are_marked() {
        let mut structure = sketch(&["a", "b < a"]);
        structure.namespaces.get_mut("b").unwrap().terminating = true;
        let tree = build(&structure, &["a".into()]).remove(0);
        assert_eq!(tree.all().iter().map(|it| it.title()).collect::<Vec<_>>(), ["a", "b [terminating]"]);
        let other = ("hnc.x-k8s.io/managed-by".to_owned(), "other".to_owned());
        structure.namespaces.get_mut("a").unwrap().annotations = [other].into_iter().collect();
        assert_eq!(build(&structure, &["a".into()])[0].title(), "a [external]");
    }

    #[test]
    fn trees_are_cut_at_a_depth_and_by_a_selection() {
        let lines = ["a", "b < a", "c < b", "d < c", "e < a"];
        let tree = || build(&sketch(&lines), &["a".into()]).remove(0);
        for (depth, wanted) in [
            (0, "a [4 more below]"),
            (1, "a, b [2 more below], e"),
            (2, "a, b, c [1 more below], e"),
            (9, "a, b, c, d, e"),
        ] {
            let mut tree = tree();
            tree.cut(depth);
            let titles: Vec<String> = tree.all().iter().map(|it| it.title()).collect();
            assert_eq!(titles.join(", "), wanted);
        }
        for (matching, wanted) in [("c", Some("a, b, c")), ("ae", Some("a, e")), ("x", None)] {
            let mut tree = tree();
            let is_kept = tree.keep(&|name| matching.contains(name));
            let names: Vec<&str> = tree.all().iter().map(|it| &*it.name).collect();
            assert_eq!(is_kept.then(|| names.join(", ")).as_deref(), wanted);
        }
    }
}
