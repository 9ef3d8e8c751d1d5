//! The states of a `SubnamespaceAnchor` (section 4.2 of docs/compatibility.md).

use super::fact::AnchorFact;
use super::keys;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::tree::Id;
use crate::dialects::Forest;

/// What `status.status` of an anchor should say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnchorState {
    /// There is no namespace of the anchor's name.
    Missing,
    /// The namespace exists and is a subnamespace of the anchor's.
    Ok,
    /// The namespace exists and is not a subnamespace of the anchor's.
    Conflict,
    /// The anchor has the name of a namespace that is not managed, or its subnamespace would exceed a limit of the tree.
    Forbidden,
}

impl AnchorState {
    /// The value of `status.status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::Ok => "Ok",
            Self::Conflict => "Conflict",
            Self::Forbidden => "Forbidden",
        }
    }
}

impl Forest {
    /// The state of an anchor named `child` in the namespace `parent`. Depends on the namespaces, not on the stored state.
    pub(crate) fn anchor_state(&self, parent: &str, child: &str) -> AnchorState {
        if !self.settings().is_managed(child) {
            return AnchorState::Forbidden;
        }
        match self.id(child).and_then(|id| self.namespace(id)) {
            None => AnchorState::Missing,
            Some(namespace) if namespace.subnamespace_of() == Some(parent) => AnchorState::Ok,
            Some(_) => AnchorState::Conflict,
        }
    }

    /// The state that this anchor in `parent` should show. If an anchor has shown `Conflict`, and the namespace of that name is
    /// then deleted, the anchor stays in `Conflict`: its user must not take over a name that another user had. Only the controller
    /// can remove that state. An anchor beyond a limit of the tree stays in `Forbidden` while a limit holds there, so that it creates
    /// nothing at the moment in which another namespace is deleted.
    pub(crate) fn shown_anchor_state(&self, parent: &Name, anchor: &AnchorFact) -> AnchorState {
        match self.anchor_state(parent, &anchor.name) {
            AnchorState::Missing if anchor.shows(AnchorState::Conflict) => AnchorState::Conflict,
            AnchorState::Missing if self.is_beyond_a_limit(parent, anchor) => AnchorState::Forbidden,
            state => state,
        }
    }

    /// Anchors are created in their turns, so that plans that are made at the same moment create no more than there is room for: the
    /// creations of those before this one may be under way.
    fn is_beyond_a_limit(&self, parent: &Name, anchor: &AnchorFact) -> bool {
        let turn = || self.id(parent).and_then(|id| self.hnc().turn(id, &anchor.name)).unwrap_or(u64::MAX);
        self.is_limited(parent)
            && (anchor.shows(AnchorState::Forbidden) || self.exceeded(parent, &anchor.name, turn()).is_some())
    }

    /// The namespaces with an anchor of this name that may still create a namespace.
    pub(crate) fn holders_of_waiting(&self, child: &str) -> Vec<Name> {
        let waits = |holder: &Id| {
            let state = self.anchor_state(self.name(*holder), child);
            matches!(state, AnchorState::Missing | AnchorState::Conflict)
                && self.anchors(*holder)[child].may_create()
        };
        self.hnc().holders(child).filter(waits).map(|holder| self.name(holder).clone()).collect()
    }

    /// Whether anchors here are about to create namespaces.
    pub(crate) fn has_waiting_anchors(&self, id: Id) -> bool {
        let state = |anchor: &AnchorFact| self.shown_anchor_state(self.name(id), anchor);
        self.anchors(id).values().any(|anchor| !anchor.terminating && state(anchor) == AnchorState::Missing)
    }

    /// The anchor of this subnamespace, if it exists.
    pub(crate) fn anchor_of(&self, child: Id) -> Option<&AnchorFact> {
        self.hnc().anchor_of(self, child)
    }

    /// The namespace with the anchor of this subnamespace, if that anchor is being deleted and will delete the subnamespace. Once
    /// the controller has removed its finalizer, the subnamespace stays.
    pub(crate) fn ending_holder(&self, child: Id) -> Option<&str> {
        let holder = self.subnamespace_of(child)?;
        let anchor = self.anchor_of(child)?;
        (anchor.terminating && anchor.has_our_finalizer()).then_some(holder)
    }

    /// The anchor that decides the labels and annotations of this subnamespace, instead of its `HierarchyConfiguration`, with the
    /// namespace that holds it.
    pub(crate) fn deciding_anchor(&self, id: Id) -> Option<(&str, &AnchorFact)> {
        let anchor = self.hnc().deciding_anchor(self, id)?;
        Some((self.namespace(id)?.subnamespace_of()?, anchor))
    }

    /// The labels and annotations that a namespace requests for itself and the namespaces below.
    pub(crate) fn requested(&self, id: Id) -> Option<(&Labels, &Labels)> {
        self.hnc().requested(self, id)
    }
}

impl AnchorFact {
    /// Whether this is its stored state.
    pub(crate) fn shows(&self, state: AnchorState) -> bool {
        self.state.as_deref() == Some(state.as_str())
    }

    /// Whether its namespace may be created, or is just being created. An anchor that shows `Conflict` creates none. An anchor that
    /// is being deleted creates none either, but the creation may be under way until the controller removes its finalizer, which
    /// nobody can add again.
    pub(crate) fn may_create(&self) -> bool {
        !self.shows(AnchorState::Conflict) && (!self.terminating || self.has_our_finalizer())
    }

    /// Whether our finalizer is on it.
    pub(crate) fn has_our_finalizer(&self) -> bool {
        self.finalizers.iter().any(|it| **it == *keys::ANCHOR_FINALIZER)
    }
}

/// The finalizers with or without `ours`; all others stay. `None` when that changes nothing.
pub(crate) fn finalizers(present: &[Box<str>], ours: &str, wanted: bool) -> Option<Vec<Box<str>>> {
    if present.iter().any(|it| **it == *ours) == wanted {
        return None;
    }
    let others = present.iter().filter(|it| ***it != *ours).cloned();
    Some(others.chain(wanted.then(|| ours.into())).collect())
}
