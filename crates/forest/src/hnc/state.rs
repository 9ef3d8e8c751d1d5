//! What is known of HNC's own objects, and the edges between namespaces that follow from them.

mod facts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::fact::AnchorFact;
use super::hierarchy::Hierarchy;
use super::keys;
use super::quota::state::KnownQuotas;
use super::settings::Settings;
use super::tree_limit::TreeLimit;
use crate::core::change::Change;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::namespace::NamespaceFact;
use crate::core::store::{Layout, NamespacedName, Store};
use crate::core::stream::Stream;
use crate::core::tree::Namespace;
use crate::core::tree::{ById, Id, NamespaceLabels};
use crate::core::version::Version;

/// What the store must know about HNC's objects.
pub(crate) const LAYOUT: Layout = Layout {
    structure: &Stream::STRUCTURE,
    configuration: Stream::CONFIGURATION,
    key_suffix: keys::TREE_LABEL,
};

/// The anchors in a namespace, by the name of the child.
pub(crate) type Anchors = BTreeMap<Name, AnchorFact>;

#[derive(Debug)]
pub(crate) struct State {
    settings: Arc<Settings>,
    limits: Vec<TreeLimit>,
    hierarchies: ById<Hierarchy>,
    anchors: ById<Anchors>,
    quotas: KnownQuotas,
    /// The namespaces whose `HierarchyConfiguration` shows conditions.
    conditioned: BTreeSet<Id>,
    /// The namespaces that hold an anchor of a name, with the turn of each anchor.
    holders: HashMap<Name, BTreeMap<Id, u64>>,
    /// The last turn. The watch shows anchors in the order in which they were created, so an anchor that is not known yet comes
    /// after all that are.
    turn: u64,
    /// Whether it is unclear if objects were deleted by users or with their CRD, and the CRDs must be read.
    doubt: bool,
    /// Whether the CRDs are being deleted.
    crds_are_being_deleted: bool,
}

/// What a namespace passes on to all namespaces below, beside objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct HandedDown {
    allow_cascading_deletion: bool,
    labels: Labels,
    annotations: Labels,
    /// All labels and annotations of an external namespace; some of them are inherited.
    external: Option<(Labels, Labels)>,
    /// The labels of an orphan, of which the tree labels are inherited, and the names of its place.
    orphan: Option<(Labels, Vec<Name>)>,
}

/// The properties of a namespace on which others depend.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Whether it exists, is unreadable, is external.
    counts: (bool, bool, bool),
    handed_down: HandedDown,
    terminating: bool,
    subnamespace_of: Option<Box<str>>,
    /// It exists and is not being deleted.
    lasts: bool,
}

impl Namespace {
    /// The parent that the annotation of a subnamespace names.
    pub(crate) fn subnamespace_of(&self) -> Option<&str> {
        self.annotations.get(keys::SUBNAMESPACE_OF).filter(|parent| !parent.is_empty())
    }

    /// The other tool that manages the place of this namespace, if any.
    pub(crate) fn external_manager(&self) -> Option<&str> {
        external_manager(&self.annotations)
    }
}

/// The other tool that manages the place of a namespace with these annotations, if any.
pub fn external_manager(annotations: &Labels) -> Option<&str> {
    annotations
        .get(keys::EXTERNALLY_MANAGED_BY)
        .filter(|manager| !manager.is_empty() && *manager != keys::GROUP)
}

/// The labels and annotations that a subnamespace requests have changed: new rights in it wait for them, and the namespaces below
/// inherit them.
fn touch_requested(store: &Store, child: &Name, change: &mut Change) {
    change.whole(child.clone());
    if let Some(id) = store.id(child) {
        store.descendants(id).into_iter().for_each(|below| change.structure(store.name(below).clone()));
    }
}

/// Whether another tool manages the place of this namespace.
pub(crate) fn is_external(store: &Store, id: Id) -> bool {
    store.is_managed(id) && store.namespace(id).is_some_and(|seen| seen.external_manager().is_some())
}

/// The parent of a subnamespace. A namespace that is being deleted counts as any other; one that is not managed is no
/// subnamespace, even with the annotation.
pub(crate) fn subnamespace_of(store: &Store, id: Id) -> Option<&str> {
    let namespace = store.lasting_namespace(id).filter(|_| !is_external(store, id))?;
    namespace.subnamespace_of().filter(|_| store.is_managed(id))
}

/// Questions.
impl State {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            limits: Vec::new(),
            hierarchies: ById::default(),
            anchors: ById::default(),
            quotas: KnownQuotas::default(),
            conditioned: BTreeSet::new(),
            holders: HashMap::new(),
            turn: 0,
            doubt: true,
            crds_are_being_deleted: false,
        }
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The limits of trees.
    pub(crate) fn limits(&self) -> &[TreeLimit] {
        &self.limits
    }

    pub(crate) fn hierarchy(&self, id: Id) -> Option<&Hierarchy> {
        self.hierarchies.get(id)
    }

    pub(crate) fn anchors(&self, id: Id) -> &Anchors {
        static NONE: Anchors = Anchors::new();
        self.anchors.get(id).unwrap_or(&NONE)
    }

    /// The hierarchical quotas.
    pub(crate) fn quotas(&self) -> &KnownQuotas {
        &self.quotas
    }

    /// The anchor of this subnamespace, if it exists.
    pub(crate) fn anchor_of(&self, store: &Store, child: Id) -> Option<&AnchorFact> {
        let parent = store.id(store.namespace(child)?.subnamespace_of()?)?;
        self.anchors(parent).get(store.name(child))
    }

    /// The anchor that decides the labels and annotations of this subnamespace: users of the subnamespace can write its
    /// `HierarchyConfiguration`, and the controller corrects that later. The anchor counts also while the subnamespace is being
    /// deleted.
    pub(crate) fn deciding_anchor(&self, store: &Store, id: Id) -> Option<&AnchorFact> {
        let is_ours = store.is_managed(id) && !is_external(store, id);
        self.anchor_of(store, id).filter(|_| is_ours)
    }

    /// The labels and annotations that a namespace requests for itself and the namespaces below.
    pub(crate) fn requested(&self, store: &Store, id: Id) -> Option<(&Labels, &Labels)> {
        match self.deciding_anchor(store, id) {
            Some(anchor) => Some((&anchor.labels, &anchor.annotations)),
            None => self.hierarchy(id).map(|seen| (seen.labels(), seen.annotations())),
        }
    }

    /// The namespaces that hold an anchor of this name.
    pub(crate) fn holders(&self, child: &str) -> impl Iterator<Item = Id> {
        self.holders.get(child).into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// The turn of an anchor: the order in which this forest came to know the anchors.
    pub(crate) fn turn(&self, holder: Id, child: &str) -> Option<u64> {
        self.holders.get(child)?.get(&holder).copied()
    }

    /// The namespaces whose `HierarchyConfiguration` shows conditions.
    pub(crate) fn conditioned(&self) -> impl Iterator<Item = Id> {
        self.conditioned.iter().copied()
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt
    }

    pub(crate) fn crds_are_being_deleted(&self) -> bool {
        self.crds_are_being_deleted
    }

    /// The known version of an object of a structure stream.
    pub(crate) fn version(
        &self,
        store: &Store,
        stream: Stream,
        (namespace, name): &NamespacedName,
    ) -> Option<Version> {
        match stream {
            Stream::HIERARCHIES => Some(self.hierarchy(store.id(namespace)?)?.version.get()),
            Stream::ANCHORS => Some(self.anchors(store.id(namespace)?).get(name)?.version.clone()),
            _ => None,
        }
    }

    /// The known versions of all objects of a structure stream.
    pub(crate) fn versions(&self, store: &Store, stream: Stream) -> Vec<(NamespacedName, Version)> {
        match stream {
            Stream::HIERARCHIES => {
                let all = self.hierarchies.iter();
                all.map(|(id, seen)| ((store.name(id).clone(), Name::default()), seen.version.get()))
                    .collect()
            }
            Stream::ANCHORS => {
                let all =
                    self.anchors.iter().flat_map(|(id, anchors)| anchors.values().map(move |it| (id, it)));
                all.map(|(id, it)| ((store.name(id).clone(), it.name.clone()), it.version.clone())).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Namespaces.
impl State {
    /// Drops the parts that neither HNC nor another dialect reads.
    pub(crate) fn reduce(&self, seen: &mut NamespaceFact, others_read: impl Fn(&str) -> bool) {
        let settings = &self.settings;
        let is_read = |key: &str| {
            key.starts_with(keys::GROUP) || settings.is_managed_annotation(key) || others_read(key)
        };
        seen.annotations = seen.annotations.iter().filter(|(key, _)| is_read(key)).collect();
        seen.foreign.labels.retain(|key| settings.is_managed_label(key));
        seen.foreign.annotations.retain(|key| settings.is_managed_annotation(key));
    }

    /// The properties of a namespace on which others depend, before it changes.
    pub(crate) fn standing(&self, store: &Store, id: Id) -> Standing {
        let unreadable = self.hierarchy(id).is_some_and(|seen| seen.unreadable().is_some());
        let namespace = store.namespace(id);
        Standing {
            counts: (namespace.is_some(), unreadable, is_external(store, id)),
            handed_down: self.handed_down(store, id),
            terminating: namespace.is_some_and(|seen| seen.terminating),
            lasts: store.lasting_namespace(id).is_some(),
            subnamespace_of: namespace.and_then(Namespace::subnamespace_of).map(Box::from),
        }
    }

    fn handed_down(&self, store: &Store, id: Id) -> HandedDown {
        let settings = &self.settings;
        let managed =
            |labels: &Labels, is: &dyn Fn(&str) -> bool| labels.iter().filter(|(key, _)| is(key)).collect();
        let asked = |(labels, annotations): (&Labels, &Labels)| {
            (
                managed(labels, &|key| settings.is_managed_label(key)),
                managed(annotations, &|key| settings.is_managed_annotation(key)),
            )
        };
        let hierarchy = self.hierarchy(id);
        let (labels, annotations) = self.requested(store, id).map(asked).unwrap_or_default();
        let external = store.namespace(id).filter(|_| is_external(store, id));
        let live = || store.labels(id).map(NamespaceLabels::all).unwrap_or_default();
        let place = || store.place(id).into_iter().map(|above| store.name(above).clone()).collect();
        HandedDown {
            allow_cascading_deletion: hierarchy.is_some_and(|it| it.allow_cascading_deletion),
            labels,
            annotations,
            external: external.map(|seen| (live(), seen.annotations.clone())),
            orphan: store.tree.is_orphan(id).then(|| (live(), place())),
        }
    }

    /// A namespace was observed and has changed from `before`.
    pub(crate) fn namespace_changed(
        &mut self,
        store: &mut Store,
        id: Id,
        before: &Standing,
        change: &mut Change,
    ) {
        if let Some(seen) = store.namespace(id) {
            let parent = before.subnamespace_of.as_deref();
            if before.terminating != seen.terminating || parent != seen.subnamespace_of() {
                // Objects in a namespace are reconciled until it is deleted, and again in a new one of its name. The rights of a
                // subnamespace wait for what its anchor requests.
                change.whole(store.name(id).clone());
            }
        }
        self.follow(store, id, before, change);
    }

    /// A namespace is being forgotten.
    pub(crate) fn namespace_gone(&mut self, store: &mut Store, id: Id, change: &mut Change) {
        self.quotas.namespace_gone(store, id, change);
    }

    /// A namespace has changed from `before`: updates the edges.
    fn follow(&mut self, store: &mut Store, id: Id, before: &Standing, change: &mut Change) {
        let now = self.standing(store, id);
        let parent = self.configured_parent(store, id);
        let counts_anew = before.counts != now.counts;
        let is_touched = store.tree.set_upstream(id, parent.as_ref(), counts_anew, change);
        if !change.everything && !is_touched {
            let name = store.name(id).clone();
            change.structure(name.clone());
            if before.handed_down != now.handed_down {
                // New rights wait for managed labels.
                change.whole(name);
                store.at_and_below(id).into_iter().for_each(|it| change.structure(store.name(it).clone()));
            }
            if self.settings.hierarchical_quotas && before.handed_down.orphan != now.handed_down.orphan {
                let places = [&before.handed_down, &now.handed_down].into_iter().flat_map(|it| &it.orphan);
                places.flat_map(|(_, place)| place).for_each(|above| change.quotas(above.clone()));
                store.descendants(id).into_iter().for_each(|it| change.whole(store.name(it).clone()));
            }
        }
        if self.settings.hierarchical_quotas && !change.everything && before.lasts != now.lasts {
            // Only the quotas of lasting namespaces must be in force.
            store.place(id).into_iter().for_each(|above| change.quotas(store.name(above).clone()));
        }
        store.tree.set_unreadable(id, self.hierarchy(id).and_then(|seen| seen.unreadable()).map(Box::from));
        if self.hierarchy(id).is_some_and(|seen| !seen.conditions().is_empty()) {
            self.conditioned.insert(id);
        } else {
            self.conditioned.remove(&id);
        }
        store.tree.release(id);
    }

    /// The requested parent: by the annotation of a subnamespace, or by the `HierarchyConfiguration`. A namespace that is being
    /// deleted loses that object before it is deleted itself; until then its tree labels give its place, so that the namespaces
    /// below keep what they inherit. An external namespace has no parent.
    fn configured_parent(&self, store: &Store, id: Id) -> Option<Name> {
        let namespace = store.namespace(id).filter(|_| store.is_managed(id) && !is_external(store, id))?;
        if let Some(parent) = subnamespace_of(store, id) {
            return Some(parent.into());
        }
        match self.hierarchy(id) {
            Some(hierarchy) => hierarchy.parent().map(|parent| store.name(parent).clone()),
            None if namespace.terminating => {
                let mut above = store.labels(id)?.suffixed();
                above.find(|(_, depth)| *depth == "1").map(|(parent, _)| parent.into())
            }
            None => None,
        }
    }

    /// A change of a namespace changes the state of the anchors of its name.
    pub(crate) fn touch_holders(&self, store: &Store, change: &mut Change) {
        if change.everything {
            return;
        }
        let structure = change.namespaces.iter().filter(|(_, scope)| scope.structure);
        let holders: Vec<Name> =
            structure.flat_map(|(name, _)| self.holders(name)).map(|id| store.name(id).clone()).collect();
        for holder in holders {
            change.structure(holder);
        }
    }
}
