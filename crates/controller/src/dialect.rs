//! What the executor must know of a dialect: the API whose plans it executes. Everything else is the same for all of them.

use std::fmt::Debug;

use forest::core::plan::Action;
use forest::plan::HncAction;
use forest::{Forest, Name, ObjectKey, accurate, plan};

use crate::apply::{Applier, Outcome, WriteResult};
use crate::events::EventRecorder;
use crate::execute::Executor;

/// A write of a dialect beside copies.
pub(crate) trait Dialect: Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Its name in metrics and log lines.
    fn label(&self) -> &'static str;

    /// Whether it writes a `HierarchyConfiguration`.
    fn writes_hierarchy(&self) -> bool {
        false
    }

    /// Whether the plan goes on after its refusal, and does not make it again.
    fn is_not_retried(&self) -> bool {
        false
    }

    /// The sources of the derived quota that it writes.
    fn derived_quota_sources(&self) -> Option<&str> {
        None
    }

    /// The writes to make instead of skipped ones that give access.
    fn withdrawals(forest: &Forest, namespace: &str, skipped: &[Action<Self>]) -> Vec<Action<Self>>;

    /// What remains of a step that gives access after the API server has refused these guarding copies and labels.
    ///
    /// Everything, as in Accurate: there all copies come through the parent, so that an editor there could otherwise keep out rights
    /// and labels from further up.
    fn despite_refusals(
        _forest: &Forest,
        _namespace: &str,
        _refused: &[Action<Self>],
        actions: Vec<Action<Self>>,
    ) -> Vec<Action<Self>> {
        actions
    }

    /// The child whose anchor or `SubNamespace` this changes.
    fn changes_child(&self) -> Option<&Name>;

    /// The child that this creates. Its anchor or `SubNamespace` must be changed first.
    fn creates_child(&self) -> Option<&Name>;

    /// The writes that must follow refused ones.
    fn after_refusals(forest: &Forest, namespace: &str, refused: &[Action<Self>]) -> Vec<Action<Self>>;

    /// Reports problems of this dialect's writes.
    fn recorder(executor: &Executor) -> &EventRecorder;

    /// The object that is not a copy and that the action replaces or deletes.
    fn overwritten_by<'a>(
        forest: &Forest,
        namespace: &Name,
        action: &'a Action<Self>,
    ) -> Option<&'a ObjectKey>;

    /// The outcome of a write that must not be sent.
    fn check(
        executor: &Executor,
        namespace: &Name,
        action: &Action<Self>,
        overwritten: Option<&ObjectKey>,
    ) -> impl Future<Output = Option<Outcome>> + Send;

    /// Makes the write.
    fn apply(applier: &Applier<'_>, action: &Action<Self>) -> impl Future<Output = WriteResult> + Send;
}

impl Dialect for HncAction {
    fn label(&self) -> &'static str {
        match self {
            Self::CreateHierarchy { .. } => "create-hierarchy",
            Self::UpdateHierarchy { .. } => "change-hierarchy",
            Self::UpdateAnchor { .. } => "change-anchor",
            Self::CreateSubnamespace { .. } => "create-subnamespace",
            Self::BindInitialAdmin { .. } => "bind-initial-admin",
            Self::DeleteSubnamespace { .. } => "delete-subnamespace",
            Self::WriteDerivedQuota { .. } => "write-derived-quota",
            Self::DeleteDerivedQuota { .. } => "delete-derived-quota",
            Self::FreeDerivedQuota { .. } => "free-derived-quota",
            Self::UpdateQuotaStatus { .. } => "change-quota-status",
        }
    }

    fn writes_hierarchy(&self) -> bool {
        matches!(self, Self::CreateHierarchy { .. } | Self::UpdateHierarchy { .. })
    }

    /// When the API server accepts it at last, the user may have lost the right above.
    fn is_not_retried(&self) -> bool {
        matches!(self, Self::BindInitialAdmin { .. })
    }

    fn derived_quota_sources(&self) -> Option<&str> {
        match self {
            Self::WriteDerivedQuota { sources, .. } => Some(sources),
            _ => None,
        }
    }

    fn withdrawals(forest: &Forest, namespace: &str, skipped: &[Action<Self>]) -> Vec<Action<Self>> {
        plan::withdrawals(forest, namespace, skipped)
    }

    fn despite_refusals(
        forest: &Forest,
        namespace: &str,
        refused: &[Action<Self>],
        actions: Vec<Action<Self>>,
    ) -> Vec<Action<Self>> {
        plan::despite_refusals(forest, namespace, refused, actions)
    }

    fn changes_child(&self) -> Option<&Name> {
        if let Self::UpdateAnchor { child, .. } = self { Some(child) } else { None }
    }

    fn creates_child(&self) -> Option<&Name> {
        if let Self::CreateSubnamespace { child, .. } = self { Some(child) } else { None }
    }

    fn after_refusals(forest: &Forest, namespace: &str, refused: &[Action<Self>]) -> Vec<Action<Self>> {
        plan::after_refusals(forest, namespace, refused)
    }

    fn recorder(executor: &Executor) -> &EventRecorder {
        &executor.recorder
    }

    fn overwritten_by<'a>(
        forest: &Forest,
        namespace: &Name,
        action: &'a Action<Self>,
    ) -> Option<&'a ObjectKey> {
        let (Action::ReplaceCopy { key, .. } | Action::DeleteCopy { key, .. }) = action else { return None };
        forest.is_own(namespace, key).then_some(key)
    }

    async fn check(
        executor: &Executor,
        namespace: &Name,
        action: &Action<Self>,
        overwritten: Option<&ObjectKey>,
    ) -> Option<Outcome> {
        if let Some(key) = overwritten
            && let Some(outcome) = executor.check_overwrite(namespace, action, key).await
        {
            return Some(outcome);
        }
        if let Some(child) = action.dialect().and_then(Self::creates_child)
            && let Some(outcome) = executor.check_consent(namespace, child).await
        {
            return Some(outcome);
        }
        executor.check_guard(namespace, action).await
    }

    async fn apply(applier: &Applier<'_>, action: &Action<Self>) -> WriteResult {
        applier.apply(action).await
    }
}

impl Dialect for accurate::AccurateAction {
    fn label(&self) -> &'static str {
        match self {
            Self::ApplyNamespace { .. } => "apply-namespace",
            Self::CreateNamespace { .. } => "create-sub-namespace",
            Self::DeleteNamespace { .. } => "delete-sub-namespace",
            Self::UpdateSubNamespace { .. } => "change-sub-namespace",
        }
    }

    fn withdrawals(forest: &Forest, namespace: &str, skipped: &[Action<Self>]) -> Vec<Action<Self>> {
        accurate::plan::withdrawals(forest, namespace, skipped)
    }

    fn changes_child(&self) -> Option<&Name> {
        if let Self::UpdateSubNamespace { child, .. } = self { Some(child) } else { None }
    }

    fn creates_child(&self) -> Option<&Name> {
        if let Self::CreateNamespace { child } = self { Some(child) } else { None }
    }

    fn after_refusals(forest: &Forest, namespace: &str, refused: &[Action<Self>]) -> Vec<Action<Self>> {
        accurate::plan::after_refusals(forest, namespace, refused)
    }

    fn recorder(executor: &Executor) -> &EventRecorder {
        &executor.accurate_recorder
    }

    fn overwritten_by<'a>(
        forest: &Forest,
        namespace: &Name,
        action: &'a Action<Self>,
    ) -> Option<&'a ObjectKey> {
        let Action::ReplaceCopy { key, .. } = action else { return None };
        let is_copy = forest.counts_as_copy(namespace, key);
        (!is_copy && forest.object_version(namespace, key).is_some()).then_some(key)
    }

    /// As in Accurate, users may change copies, so nothing guards them.
    async fn check(
        executor: &Executor,
        _namespace: &Name,
        action: &Action<Self>,
        _overwritten: Option<&ObjectKey>,
    ) -> Option<Outcome> {
        let child = action.dialect().and_then(Self::creates_child)?;
        executor.check_namings(child).await
    }

    async fn apply(applier: &Applier<'_>, action: &Action<Self>) -> WriteResult {
        applier.apply_accurate(action).await
    }
}
