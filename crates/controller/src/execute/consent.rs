//! Before the namespace of an anchor or a `SubNamespace` is created: may it become the parent of all that are about to name it ([`forest::hnc::naming`])?

use forest::hnc::naming::Naming;
use forest::plan::HncAction;
use forest::{AnchorState, Name};
use hns_cluster::namings;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Executor;
use crate::apply::{Outcome, WriteResult};

/// A review whose namespace has consented, or that denies its request after all, ends within this time.
const REVIEW: SignedDuration = SignedDuration::from_secs(10);

impl Executor {
    /// The outcome if the namespace may not be created. A naming without consent was reviewed at the same moment as the anchor, so
    /// nobody has judged the two together. If it stays in the list, the anchor is in conflict, and must be created again.
    pub(crate) async fn check_consent(&self, holder: &Name, child: &Name) -> Option<Outcome> {
        let list = match namings::read(&self.store).await {
            Ok(stored) => stored.content,
            Err(error) => return Some(error.into()),
        };
        let naming = list.without_consent(child, holder)?;
        let why = format!(
            "namespace {:?} named {child:?} as its parent at the moment in which the anchor in namespace {holder:?} was created",
            naming.child
        );
        if is_under_review(naming) {
            return Some(Outcome::Transient(why, None));
        }
        let version = self.forest.read(|forest| forest.anchor_version(holder, child));
        // It has just been deleted.
        let Some(version) = version else { return Some(Outcome::Conflict) };
        let message =
            format!("The subnamespace is not created: {why}. Delete the anchor and create it again.");
        let (child, state) = (child.clone(), Some(AnchorState::Conflict));
        let conflict = HncAction::UpdateAnchor { child: child.clone(), version, finalizers: None, state };
        let WriteResult { outcome, facts } = self.applier(holder).apply(&conflict.into()).await;
        self.writer.tell(facts);
        if outcome != Outcome::Done {
            return Some(outcome);
        }
        tracing::warn!(namespace = %holder, anchor = %child, why, "the anchor is in conflict");
        self.recorder.record_anchor_conflict(holder, &child, message);
        Some(Outcome::Conflict)
    }

    /// The outcome if the namespace of a `SubNamespace` may not be created yet: a namespace of HNC's hierarchy is about to name it as its
    /// parent. If it does, the `SubNamespace` is in conflict as soon as that is seen.
    pub(crate) async fn check_namings(&self, child: &Name) -> Option<Outcome> {
        let list = match namings::read(&self.store).await {
            Ok(stored) => stored.content,
            Err(error) => return Some(error.into()),
        };
        let naming = list.of(child)?;
        let why = format!("namespace {:?} has just named {child:?} as its parent", naming.child);
        Some(Outcome::Transient(why, None))
    }
}

/// Without a readable time it counts as old.
fn is_under_review(naming: &Naming) -> bool {
    let age = |since: Timestamp| Timestamp::now().duration_since(since);
    naming.since.parse().is_ok_and(|since| age(since) < REVIEW)
}
