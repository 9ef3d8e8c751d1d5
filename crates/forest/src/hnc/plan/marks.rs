//! The desired labels and annotations of a namespace.
//!
//! These are the tree labels, the included label, the marker of parents, and the managed labels and annotations of the hierarchy
//! (section 3.1 of docs/compatibility.md). Other labels stay, and so do labels with a managed key for which the hierarchy has no
//! value and which neither HNC nor the controller has set. In a namespace of Accurate's, managed labels and annotations are
//! Accurate's alone.

use std::borrow::Cow;
use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::place::Place;
use super::{Action, Edit, HncAction};
use crate::core::key_syntax::label_value_fault;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::tree::{Id, Namespace, NamespaceLabels};
use crate::core::version::Version;
use crate::dialects::Forest;
use crate::hnc::condition::{Condition, Halt, Reason};
use crate::hnc::keys::{ANCESTRY, EXCLUDED, HAS_CHILDREN, INCLUDED, INITIAL_ADMIN, TREE_LABEL};
use crate::hnc::settings::Settings;

/// The difference between a namespace's labels and annotations and the desired ones.
#[derive(Debug, Default)]
pub(super) struct Marks {
    version: Version,
    labels: Edit,
    annotations: Edit,
}

impl Marks {
    /// The writes before and after all others: labels are removed first, and the marker is set first if a child is about to be
    /// created. If nothing depends on the order, one write does both: a single write is never wider than either state.
    pub(super) fn around(self, nothing_lost: bool, child_comes: bool) -> (Option<Action>, Option<Action>) {
        let Self { version, labels, annotations } = self;
        let write = |labels: Edit, annotations: Edit| {
            let needed = !labels.is_empty() || !annotations.is_empty();
            needed.then(|| Action::PatchNamespace { version: version.clone(), labels, annotations })
        };
        if child_comes && nothing_lost {
            return (write(labels, annotations), None);
        }
        if nothing_lost && !child_comes {
            return (None, write(labels, annotations));
        }
        let Edit { mut set, remove } = labels;
        let marker = set.remove_entry(HAS_CHILDREN).into_iter().collect();
        let first = write(Edit { set: marker, remove }, Edit::default());
        (first, write(Edit { set, ..Edit::default() }, annotations))
    }

    /// Takes out the removal of the annotation that names the initial admin.
    pub(super) fn without_admin(&mut self) -> Option<Action> {
        let remove = self.annotations.remove.take(INITIAL_ADMIN).into_iter().collect();
        let annotations = Edit { remove, ..Edit::default() };
        let labels = Edit::default();
        (!annotations.is_empty()).then(|| Action::PatchNamespace {
            version: self.version.clone(),
            labels,
            annotations,
        })
    }

    /// Whether labels change on which others depend: tree labels and inherited managed values.
    pub(super) fn change_place(&self) -> bool {
        let others_go_by = |key: &String| !matches!(key.as_str(), HAS_CHILDREN | INCLUDED | EXCLUDED);
        self.labels.set.keys().chain(&self.labels.remove).any(others_go_by)
    }

    /// The first of the two writes alone.
    pub(super) fn first(self) -> Option<Action> {
        self.around(false, true).0
    }
}

/// The topmost namespace whose labels of this edit the namespace does not have, by its distance from the root. Tree labels, and labels to be
/// removed, count as the root's.
pub(super) fn first_missing(place: &Place<'_>, edit: &Edit) -> Option<usize> {
    let (forest, id) = (place.forest, place.id);
    let live = forest.labels(id)?;
    let values = managed(forest, &forest.labelling(id), Labelling::Labels);
    let missing = edit.set.iter().filter(|(key, value)| live.get(key) != Some(value.as_str()));
    let present = edit.remove.iter().filter(|key| live.get(key).is_some());
    let sources = missing.map(|(key, _)| values.get(key).map_or(0, |value| place.depth(&value.from)));
    sources.chain(present.map(|_| 0)).min()
}

/// The writes for this namespace. A namespace that is not managed loses only the included label. A namespace that is being deleted
/// is not changed.
pub(super) fn changes(forest: &Forest, id: Id) -> Marks {
    let Some((seen, live)) = forest.lasting_namespace(id).zip(forest.labels(id)) else {
        return Marks::default();
    };
    let (labels, annotations) = if forest.is_managed(id) {
        wanted(forest, id, &forest.labelling(id), seen)
    } else {
        Default::default()
    };
    let settings = forest.settings();
    let is_others = sets_no_managed(forest, id);
    let own_label = |key: &str| is_own_label(forest, id, key);
    let own_annotation = |key: &str| match key {
        _ if !forest.is_managed(id) => false,
        // The annotation of a first administrator goes while the feature is off, too: the rights of that time are not those of the
        // time when it is switched on.
        ANCESTRY | INITIAL_ADMIN => true,
        _ => !is_others && settings.is_managed_annotation(key) && !seen.foreign().annotations.contains(key),
    };
    Marks {
        version: seen.version.get(),
        labels: edit(live.iter(), labels, own_label),
        annotations: edit(
            seen.annotations.iter().map(|(key, it)| (key.into(), it)),
            annotations,
            own_annotation,
        ),
    }
}

/// Whether only the hierarchy decides this label of a namespace.
fn is_own_label(forest: &Forest, id: Id, key: &str) -> bool {
    let settings = forest.settings();
    match key {
        INCLUDED => true,
        EXCLUDED => !settings.is_listed(forest.name(id)),
        _ if !forest.is_managed(id) => false,
        HAS_CHILDREN => true,
        _ if key.ends_with(TREE_LABEL) => !forest.is_external(id),
        _ if sets_no_managed(forest, id) => false,
        _ => {
            let foreign = |seen: &Namespace| seen.foreign().labels.contains(key);
            settings.is_managed_label(key) && !forest.namespace(id).is_some_and(foreign)
        }
    }
}

/// Whether others decide the managed labels and annotations of a namespace.
pub(crate) fn sets_no_managed(forest: &Forest, id: Id) -> bool {
    forest.is_external(id) || forest.is_marked_by_accurate(id)
}

fn edit<'a>(
    seen: impl Iterator<Item = (Cow<'a, str>, &'a str)>,
    mut wanted: Pairs,
    ours: impl Fn(&str) -> bool,
) -> Edit {
    let mut remove = BTreeSet::new();
    for (key, value) in seen {
        match wanted.get(&*key) {
            Some(wanted_value) if wanted_value == value => drop(wanted.remove(&*key)),
            None if ours(&key) => drop(remove.insert(key.into_owned())),
            _ => {}
        }
    }
    Edit { set: wanted, remove }
}

/// The binding of the first administrator of a subnamespace, whom the annotation names until the binding exists. In a halted tree, and
/// once it is shown that bindings wait for a quota, the annotation is removed: later the user may have lost the right above.
pub(super) fn initial_admin(forest: &Forest, id: Id) -> Option<Action> {
    let waits = |shown: &Condition| *shown.reason == *Reason::QuotaNotInForce.as_str();
    if forest.halted_at(id).is_some() || forest.conditions_shown(forest.name(id)).iter().any(waits) {
        return None;
    }
    forest.subnamespace_of(id)?;
    let namespace = forest.namespace(id)?;
    let user = namespace.annotations.get(INITIAL_ADMIN).filter(|user| !user.is_empty())?;
    let cluster_role = forest.settings().initial_admin.clone()?;
    Some(HncAction::BindInitialAdmin { user: user.into(), cluster_role }.into())
}

type Pairs = BTreeMap<String, String>;

fn wanted(forest: &Forest, id: Id, path: &[Id], seen: &Namespace) -> (Pairs, Pairs) {
    let mut labels = tree_labels(forest, path);
    labels.insert(INCLUDED.into(), "true".into());
    if has_children(forest, id) {
        labels.insert(HAS_CHILDREN.into(), "true".into());
    }
    let mut annotations = Pairs::new();
    if seen.external_manager().is_none() && !forest.is_marked_by_accurate(id) {
        labels.extend(managed(forest, path, Labelling::Labels).into_iter().map(|(key, it)| (key, it.value)));
        annotations = managed(forest, path, Labelling::Annotations)
            .into_iter()
            .map(|(key, it)| (key, it.value))
            .collect();
    }
    if forest.settings().ancestry_annotation {
        let names: Vec<&str> = path.iter().rev().map(|above| &**forest.name(*above)).collect();
        annotations.insert(ANCESTRY.into(), names.join("."));
    }
    (labels, annotations)
}

/// The desired labels of a namespace, looked up by key. Selectors are matched against desired values, so that propagation does not
/// depend on labels that are still to be written.
pub(crate) fn wanted_labels(forest: &Forest, id: Id) -> impl Fn(&str) -> Option<String> {
    labels_below(forest, id, move || forest.labelling(id))
}

/// The same if the namespace and its ancestors were `path`, which begins with the namespace itself.
///
/// A user can write a selector with many requirements, declare many managed values, and make long paths: the path, the tree labels
/// and the managed values are found once, when a requirement needs them.
pub(crate) fn labels_below<'a>(
    forest: &'a Forest,
    id: Id,
    path: impl FnOnce() -> Vec<Id> + 'a,
) -> impl Fn(&str) -> Option<String> + 'a {
    let path = LazyCell::new(path);
    let (depths, managed_values) = (OnceCell::new(), OnceCell::new());
    move |key| {
        let live = forest.labels(id)?;
        let wanted = match key {
            _ if !forest.is_managed(id) => None,
            INCLUDED => Some("true".to_owned()),
            HAS_CHILDREN => has_children(forest, id).then(|| "true".to_owned()),
            _ if key.ends_with(TREE_LABEL) => {
                let depths = depths.get_or_init(|| tree_depths(forest, &path));
                depths.get(key.strip_suffix(TREE_LABEL)?).map(usize::to_string)
            }
            _ if !sets_no_managed(forest, id) && forest.settings().is_managed_label(key) => {
                let values = managed_values.get_or_init(|| managed(forest, &path, Labelling::Labels));
                values.get(key).map(|it| it.value.clone())
            }
            _ => None,
        };
        wanted.or_else(|| live.get(key).filter(|_| !is_own_label(forest, id, key)).map(str::to_owned))
    }
}

fn has_children(forest: &Forest, id: Id) -> bool {
    !forest.downstream(id).is_empty() || !forest.anchors(id).is_empty()
}

/// One per namespace in the path. An external root passes its own tree labels down, with the depth added, and so does an orphan:
/// its labels stay, because only they tell which tree it belongs to.
fn tree_labels(forest: &Forest, path: &[Id]) -> Pairs {
    let depths = tree_depths(forest, path).into_iter();
    depths.map(|(ancestor, depth)| (format!("{ancestor}{TREE_LABEL}"), depth.to_string())).collect()
}

/// The depth of the first of `path` below each namespace that its tree labels name.
fn tree_depths<'a>(forest: &'a Forest, path: &[Id]) -> HashMap<&'a str, usize> {
    let inside = path.iter().enumerate().map(|(depth, above)| (&**forest.name(*above), depth));
    // What the path says replaces what the labels say.
    above_the_path(forest, path).chain(inside).collect()
}

/// The ancestors that an external root or an orphan at the end of `path` has in its tree labels, with the depth of the first of
/// `path` below each.
fn above_the_path<'a>(forest: &'a Forest, path: &[Id]) -> impl Iterator<Item = (&'a str, usize)> {
    let top = path.last().copied().filter(|top| forest.is_external(*top) || forest.is_orphan(*top));
    let between = path.len().saturating_sub(1);
    let tree_labels = top.and_then(|top| forest.labels(top)).into_iter().flat_map(NamespaceLabels::suffixed);
    // Another tool wrote the value: it may be no number, or too large.
    tree_labels.filter_map(move |(ancestor, depth)| {
        let depth = depth.parse::<usize>().ok()?.checked_add(between)?;
        (top.is_none_or(|top| *ancestor != **forest.name(top))).then_some((ancestor, depth))
    })
}

/// The existing namespaces above `path`, if it ends at a halted namespace whose place is known.
fn above_a_halted_end(forest: &Forest, path: &[Id]) -> Vec<Id> {
    let Some(end) = path.last().copied() else { return Vec::new() };
    match forest.own_halt(end) {
        None | Some(Halt::InCycle(_)) => Vec::new(),
        Some(_) => {
            forest.place(end).into_iter().filter(|id| !path.contains(id) && forest.is_existing(*id)).collect()
        }
    }
}

/// Labels or annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labelling {
    Labels,
    Annotations,
}

impl Labelling {
    /// Whether the hierarchy manages this label or annotation of namespaces.
    pub(crate) fn manages(self, settings: &Settings, key: &str) -> bool {
        match self {
            Self::Labels => settings.is_managed_label(key),
            Self::Annotations => settings.is_managed_annotation(key),
        }
    }
}

/// A managed value, and the namespace that sets it.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) value: String,
    pub(crate) from: Name,
}

/// The managed values of the first of `path`, which ends at the root or at a halted namespace: the highest namespace that sets a
/// key decides. A halted namespace keeps the values from above it, which may be restrictions.
pub(crate) fn managed(forest: &Forest, path: &[Id], which: Labelling) -> BTreeMap<String, Managed> {
    let mut values = BTreeMap::new();
    for id in path.iter().chain(&above_a_halted_end(forest, path)) {
        let from = forest.name(*id);
        for (key, value) in asked_for(forest, *id, which) {
            values.insert(key.into_owned(), Managed { value: value.to_owned(), from: from.clone() });
        }
    }
    values
}

/// The managed values that one namespace sets for itself and those below. The values that an external namespace already has count
/// as set. Labels that the API server would refuse do not count. They may have been requested while no webhook judged them.
pub(crate) fn asked_for(forest: &Forest, id: Id, which: Labelling) -> Vec<(Cow<'_, str>, &str)> {
    let settings = forest.settings();
    let spec = forest.requested(id).map(|(labels, annotations)| match which {
        Labelling::Labels => labels,
        Labelling::Annotations => annotations,
    });
    let borrowed = |(key, value)| (Cow::Borrowed(key), value);
    let mut pairs: Vec<_> = spec.into_iter().flat_map(Labels::iter).map(borrowed).collect();
    if let Some(seen) = forest.namespace(id).filter(|_| forest.is_external(id)) {
        match which {
            Labelling::Labels => {
                pairs.extend(forest.labels(id).into_iter().flat_map(NamespaceLabels::iter));
            }
            Labelling::Annotations => pairs.extend(seen.annotations.iter().map(borrowed)),
        }
    }
    let is_accepted =
        |key: &str, value: &str| which == Labelling::Annotations || label_value_fault(key, value).is_none();
    pairs.retain(|(key, value)| which.manages(settings, key) && is_accepted(key, value));
    pairs
}
