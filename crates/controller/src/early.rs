//! Not being in anybody's way: whoever makes a namespace often makes its `HierarchyConfiguration` right after, in two requests,
//! and "already exists" is no answer to somebody who has looked and found none.
//!
//! So an object that would only list children waits a little. Everything else is written at once. Decides nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forest::plan::Action;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long it waits. Less than anybody waits for a list of children.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// What was wanted longer ago is wanted anew.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Since when objects are wanted, by the uid of their namespace. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Early {
    wanted: Arc<Mutex<HashMap<Box<str>, Instant>>>,
}

impl Early {
    /// Whether it is too early for this report about the namespace with this uid.
    pub(crate) fn is_too_early(&self, uid: &str, report: &Action) -> bool {
        if !matches!(report, Action::CreateHierarchy { spec: None, held: false, .. }) {
            return false;
        }
        let now = Instant::now();
        let mut wanted = self.wanted.lock();
        wanted.retain(|_, since| now < *since + FORGOTTEN);
        let since = *wanted.entry(uid.into()).or_insert(now);
        now < since + PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use forest::HierarchyStatus;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_list_of_children_waits_and_each_for_itself() {
        let early = Early::default();
        let create = |held| Action::CreateHierarchy { spec: None, held, status: HierarchyStatus::default() };
        let too_early = |uid: &str, held| early.is_too_early(uid, &create(held));
        assert!(!too_early("a", true), "an anchor has to be held at once");
        assert!(too_early("a", false));
        tokio::time::advance(PATIENCE / 2).await;
        assert!(too_early("a", false) && too_early("b", false));
        tokio::time::advance(PATIENCE / 2).await;
        assert!(!too_early("a", false), "asking again does not put it off");
        assert!(too_early("b", false));
        tokio::time::advance(FORGOTTEN).await;
        assert!(too_early("a", false), "another one, much later");
    }
}
