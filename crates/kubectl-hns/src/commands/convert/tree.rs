//! A tree of Accurate's that passes to HNC's hierarchy: where each namespace is, and the writes that are left, in their order.
//!
//! Leaves come first, for a namespace that others name as their parent cannot leave. One write takes a namespace from the one hierarchy to
//! the other, so it always has its parent in one of them. A namespace is halted, with everything below it, while only some of its children
//! have passed; so no copy is written or deleted there. The `SubNamespaces` go last, and each after its anchor is there. After an
//! interruption at any point, the writes that are left follow from the present state.

use std::collections::{BTreeMap, BTreeSet};

use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::annotations::SUBNAMESPACE_OF;

use forest::{Name, NamespaceFact, Settings};

use crate::Failure;
use crate::commands::hierarchy;
use crate::failure::Done;

/// A namespace below another, in either hierarchy, with that parent.
type Place = (Name, Name);

/// What is known of the cluster.
pub(super) struct Cluster<'a> {
    pub(super) namespaces: &'a BTreeMap<Name, NamespaceFact>,
    /// The parents and names of all `SubNamespaces`.
    pub(super) forms: BTreeSet<(Name, Name)>,
    /// The parents and names of all anchors.
    pub(super) anchors: BTreeSet<(Name, Name)>,
}

/// A single write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The namespace gets its parent by the annotation of a subnamespace, and loses the label that names it.
    Pass { name: Name, parent: Name },
    /// The root loses its type.
    Release { root: Name },
    /// The anchor is created in the parent.
    CreateAnchor { name: Name, parent: Name },
    /// The `SubNamespace` is deleted, which does not own the namespace any more.
    DeleteForm { name: Name, parent: Name },
}

impl Step {
    /// The line in a plan.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Pass { name, parent } => {
                format!(
                    "annotate namespace {name} with {SUBNAMESPACE_OF}={parent}, and remove its label {PARENT}"
                )
            }
            Self::Release { root } => format!("remove the label {TYPE} from namespace {root}"),
            Self::CreateAnchor { name, parent } => {
                format!("create the subnamespace anchor {name} in {parent}")
            }
            Self::DeleteForm { name, parent } => {
                format!("delete the SubNamespace {name} in {parent}, which then no longer owns {name}")
            }
        }
    }
}

/// The tree below a root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: Name,
    /// Parents first.
    pub(super) below: Vec<Place>,
    pub(super) steps: Vec<Step>,
    /// The parents and names of the `SubNamespaces` in the tree to which no namespace belongs. They stay.
    pub(super) idle: Vec<(Name, Name)>,
}

impl Tree {
    /// All namespaces of the tree, the root first.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.root).chain(self.below.iter().map(|(name, _)| name))
    }

    /// Its namespaces as they will be after the steps.
    pub(super) fn passed(&self, namespaces: &BTreeMap<Name, NamespaceFact>) -> Vec<NamespaceFact> {
        let parents = std::iter::once(None).chain(self.below.iter().map(|(_, parent)| Some(parent)));
        let passed = self.names().zip(parents).filter_map(|(name, parent)| {
            let mut seen = namespaces.get(name)?.clone();
            seen.labels = seen.labels.iter().filter(|(key, _)| ![PARENT, TYPE].contains(key)).collect();
            if let Some(parent) = parent {
                let of = (SUBNAMESPACE_OF, &**parent);
                let others = seen.annotations.iter().filter(|(key, _)| *key != SUBNAMESPACE_OF);
                seen.annotations = others.chain([of]).collect();
            }
            Some(seen)
        });
        passed.collect()
    }

    /// Reads the tree, and fails where it cannot pass.
    pub(super) fn read(cluster: &Cluster<'_>, root: &str) -> Result<Self, Failure> {
        let Some(seen) = cluster.namespaces.get(root) else {
            return Err(Failure::new(format!("Error: there is no namespace {root}")));
        };
        if let Some(parent) = label(seen, PARENT) {
            return Err(Failure::new(format!(
                "Error: {root} is a sub-namespace of {parent}, and only whole trees can be converted"
            ))
            .with_hint("Name the root of its tree, which `kubectl accurate list` shows."));
        }
        let below = cluster.below(&seen.name);
        for name in std::iter::once(&seen.name).chain(below.iter().map(|(name, _)| name)) {
            if cluster.namespaces.get(name).is_some_and(|it| it.terminating) {
                return Err(hierarchy::is_going(name));
            }
        }
        let (steps, idle) = (cluster.steps(seen, &below), cluster.idle(&seen.name, &below));
        let tree = Self { root: seen.name.clone(), below, steps, idle };
        let leaves =
            |it: &Step| matches!(it, Step::Pass { .. } | Step::Release { .. } | Step::DeleteForm { .. });
        if !tree.steps.iter().any(leaves) {
            return Err(Failure::new(format!(
                "Error: {root} is not a root of a tree of Accurate's, so there is nothing to convert"
            ))
            .with_hint("`kubectl accurate list` shows the trees."));
        }
        tree.has_no_templates(cluster)?;
        Ok(tree)
    }

    /// Fails if a namespace is excluded: it would be in HNC's hierarchy as little as it is in Accurate's.
    pub(super) fn refuse_excluded(&self, settings: &Settings) -> Done {
        let Some((name, why)) = self.names().find_map(|name| Some((name, settings.unmanaged(name)?))) else {
            return Ok(());
        };
        let root = &self.root;
        Err(Failure::new(format!(
            "Error: namespace {name} {why}, so it is in no hierarchy, and the tree of {root} cannot be converted"
        ))
        .with_hint(format!("Include {name} again in the settings first.")))
    }

    fn has_no_templates(&self, cluster: &Cluster<'_>) -> Result<(), Failure> {
        let mine: BTreeSet<&Name> = self.names().collect();
        let concerns = |seen: &NamespaceFact| {
            let template = label(seen, TEMPLATE);
            let is_mine = mine.contains(&seen.name);
            let is_used = template.is_some_and(|it| mine.contains(&Name::from(it)));
            let is_one = label(seen, TYPE) == Some(TYPE_TEMPLATE);
            is_used || is_mine && (template.is_some() || is_one)
        };
        let found: Vec<&NamespaceFact> = cluster.namespaces.values().filter(|it| concerns(it)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let (what, commands): (Vec<String>, Vec<String>) = found.into_iter().flat_map(of_templates).unzip();
        Err(Failure::new(format!("Error: HNC's hierarchy has no templates, but {}", what.join(", ")))
            .with_hint(format!(
                "Remove these first: {}. Then the copies in mode update that a namespace has from its template are deleted; those in mode \
                 create stay.",
                commands.join(", ")
            )))
    }
}

/// What a namespace has to do with templates, each with the command that ends it.
fn of_templates(seen: &NamespaceFact) -> impl Iterator<Item = (String, String)> {
    let name = &seen.name;
    let has = label(seen, TEMPLATE).map(|template| {
        (format!("{name} has the template {template}"), format!("`kubectl accurate template unset {name}`"))
    });
    let is = (label(seen, TYPE) == Some(TYPE_TEMPLATE))
        .then(|| (format!("{name} is a template"), format!("`kubectl accurate ns set-type {name} none`")));
    has.into_iter().chain(is)
}

impl Cluster<'_> {
    /// The namespaces below, parents first; those that have passed already, too.
    fn below(&self, root: &Name) -> Vec<Place> {
        let mut children: BTreeMap<&str, Vec<&Name>> = BTreeMap::new();
        for seen in self.namespaces.values() {
            if let Some(parent) = label(seen, PARENT).or_else(|| passed_to(seen)) {
                children.entry(parent).or_default().push(&seen.name);
            }
        }
        let (mut below, mut seen, mut next) =
            (Vec::new(), BTreeSet::from([root.clone()]), vec![root.clone()]);
        while !next.is_empty() {
            let mut further = Vec::new();
            for parent in &next {
                for child in children.get(&**parent).into_iter().flatten() {
                    if seen.insert((*child).clone()) {
                        below.push(((*child).clone(), parent.clone()));
                        further.push((*child).clone());
                    }
                }
            }
            next = further;
        }
        below
    }

    fn steps(&self, root: &NamespaceFact, below: &[Place]) -> Vec<Step> {
        let is_labelled = |name: &Name| label(&self.namespaces[name], PARENT).is_some();
        let passing = below.iter().rev().filter(|(name, _)| is_labelled(name));
        let mut steps: Vec<Step> =
            passing.map(|(name, parent)| Step::Pass { name: name.clone(), parent: parent.clone() }).collect();
        if label(root, TYPE) == Some(TYPE_ROOT) {
            steps.push(Step::Release { root: root.name.clone() });
        }
        for (name, parent) in below {
            let place = (parent.clone(), name.clone());
            let (name, parent) = (name.clone(), parent.clone());
            if !self.anchors.contains(&place) {
                steps.push(Step::CreateAnchor { name: name.clone(), parent: parent.clone() });
            }
            if self.forms.contains(&place) {
                steps.push(Step::DeleteForm { name, parent });
            }
        }
        steps
    }

    /// The `SubNamespaces` in the tree to which none of its namespaces belongs.
    fn idle(&self, root: &Name, below: &[Place]) -> Vec<(Name, Name)> {
        let is_in = |name: &Name| name == root || below.iter().any(|(it, _)| it == name);
        let owns =
            |form: &(Name, Name)| below.iter().any(|(name, parent)| (parent, name) == (&form.0, &form.1));
        self.forms.iter().filter(|form| is_in(&form.0) && !owns(form)).cloned().collect()
    }
}

fn label<'a>(seen: &'a NamespaceFact, key: &str) -> Option<&'a str> {
    seen.labels.get(key).filter(|value| !value.is_empty())
}

/// The parent in HNC's hierarchy.
fn passed_to(seen: &NamespaceFact) -> Option<&str> {
    seen.annotations.get(SUBNAMESPACE_OF).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Namespaces in lines: a name, `^` and the parent, `~` and the template, `=` and the type, `<` and the parent in HNC's hierarchy.
    fn namespaces(lines: &[&str]) -> BTreeMap<Name, NamespaceFact> {
        let namespace = |line: &&str| {
            let mut words = line.split_whitespace();
            let name = Name::from(words.next().unwrap());
            let (mut labels, mut annotations) = (Vec::new(), Vec::new());
            for word in words {
                match word.split_at(1) {
                    ("^", parent) => labels.push((PARENT, parent)),
                    ("~", template) => labels.push((TEMPLATE, template)),
                    ("=", kind) => labels.push((TYPE, kind)),
                    (_, parent) => annotations.push((SUBNAMESPACE_OF, parent)),
                }
            }
            let labels = labels.into_iter().collect();
            let annotations = annotations.into_iter().collect();
            (name.clone(), NamespaceFact { name, labels, annotations, ..NamespaceFact::default() })
        };
        lines.iter().map(namespace).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeSet<(Name, Name)> {
        pairs.iter().map(|(parent, name)| (Name::from(*parent), Name::from(*name))).collect()
    }

    fn read(
        lines: &[&str],
        forms: &[(&str, &str)],
        anchors: &[(&str, &str)],
        root: &str,
    ) -> Result<String, String> {
        let namespaces = namespaces(lines);
        let cluster = Cluster { namespaces: &namespaces, forms: pairs(forms), anchors: pairs(anchors) };
        let word = |step: &Step| match step {
            Step::Pass { name, parent } => format!("{name}>{parent}"),
            Step::Release { root } => format!("-{root}"),
            Step::CreateAnchor { name, parent } => format!("+{parent}/{name}"),
            Step::DeleteForm { name, parent } => format!("-{parent}/{name}"),
        };
        let tree = Tree::read(&cluster, root).map_err(|failure| failure.text)?;
        Ok(tree.steps.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn leaves_pass_first_and_what_is_left_follows_from_the_state() {
        let all = [("r", "s"), ("s", "t")];
        let tree = ["r =root", "s ^r", "t ^s", "u ^r", "other"];
        assert_eq!(
            read(&tree, &all, &[], "r").unwrap(),
            "t>s u>r s>r -r +r/s -r/s +r/u +s/t -s/t",
            "u is a sub-namespace by its label only"
        );
        let begun = ["r =root", "s ^r", "t <s", "u <r"];
        assert_eq!(read(&begun, &all, &[], "r").unwrap(), "s>r -r +r/s -r/s +r/u +s/t -s/t");
        let passed = ["r", "s <r", "t <s", "u <r"];
        assert_eq!(read(&passed, &all, &[("r", "s")], "r").unwrap(), "-r/s +r/u +s/t -s/t");
        let left = read(&passed, &all[1..], &[("r", "s"), ("r", "u"), ("s", "t")], "r");
        assert_eq!(left.unwrap(), "-s/t");
    }

    #[test]
    fn sub_namespaces_without_a_namespace_in_the_tree_stay() {
        let namespaces = namespaces(&["r =root", "s ^r", "other"]);
        let forms = pairs(&[("r", "s"), ("r", "other"), ("s", "gone"), ("other", "gone")]);
        let cluster = Cluster { namespaces: &namespaces, forms, anchors: pairs(&[]) };
        let tree = Tree::read(&cluster, "r").unwrap();
        assert_eq!(tree.idle.into_iter().collect::<BTreeSet<_>>(), pairs(&[("r", "other"), ("s", "gone")]));
    }

    #[test]
    fn a_tree_with_an_excluded_namespace_is_refused() {
        let namespaces = namespaces(&["r =root", "s ^r", "t ^s", "other"]);
        let cluster = Cluster { namespaces: &namespaces, forms: pairs(&[]), anchors: pairs(&[]) };
        let tree = Tree::read(&cluster, "r").unwrap();
        for (excluded, pattern, wanted) in [
            (&["other"][..], ".*", None),
            (&["r"], ".*", Some("namespace r is excluded by excludedNamespaces")),
            (&["s"], ".*", Some("namespace s is excluded by excludedNamespaces")),
            (&[], "[^t]", Some("namespace t is excluded, because it does not match includedNamespaceRegex")),
        ] {
            let refused = tree.refuse_excluded(&Settings::new("home", excluded, pattern).unwrap()).err();
            assert_eq!(refused.is_some(), wanted.is_some(), "{refused:?}");
            let text = refused.map(|it| it.text).unwrap_or_default();
            assert!(text.contains(wanted.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn what_cannot_pass_is_refused() {
        for (lines, root, wanted) in [
            (&["r =root", "s ^r"][..], "s", "s is a sub-namespace of r"),
            (&["r"], "r", "r is not a root of a tree"),
            (&["r"], "gone", "there is no namespace gone"),
            (&["r =root ~t", "t =template"], "r", "but r has the template t"),
            (&["r =root", "s ^r", "i ~s"], "r", "but i has the template s"),
            (&["r", "s <r"], "r", "r is not a root of a tree"),
        ] {
            let failed = read(lines, &[], &[], root).unwrap_err();
            assert!(failed.contains(wanted), "{lines:?}: {failed}");
        }
    }
}
