//! The changes of parent that this replica has just let through and not seen yet.
//!
//! While one is pending, no other change is let through that rests on the place of its namespace. So a pending change only
//! ever turns a "yes" into "try again". It ends when the watch shows the object in a later state, or gone, or after a minute:
//! the request may have failed behind this webhook, which nobody tells.
//!
//! Their number has a limit for each address that reviews come from, so that reviews that no API server has sent do not keep all
//! others from changing a parent. Behind address translation all API servers have one address, and may have half of all changes.

use std::net::IpAddr;
use std::time::Duration;

use forest::Forest;
use forest::rules::adoption::Adoption;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a change is remembered that the watch does not show.
const LONGEST: Duration = Duration::from_secs(60);

/// How many changes are remembered. An address may have as many as there is room for besides, so there is always room for
/// another address. Beyond that none is let through: a forgotten one could cross another.
const MOST: usize = 2_000;

/// The pending changes of this replica.
#[derive(Debug, Default)]
pub struct Pending {
    changes: Mutex<Vec<Change>>,
}

/// A change that was let through.
#[derive(Debug)]
struct Change {
    adoption: Adoption,
    source: IpAddr,
    since: Instant,
    /// Whether the forest knew the object then. If it does not know it any more, the object is gone; an object that it never
    /// knew may have yet to come.
    was_known: bool,
}

impl Change {
    fn is_over(&self, forest: &Forest) -> bool {
        let gone = self.was_known && !self.adoption.is_known(forest);
        gone || self.adoption.is_settled(forest) || Instant::now() >= self.since + LONGEST
    }
}

/// Why a change is not let through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// It rests on the place of a namespace that is just changing.
    Crossing,
    /// Too many are pending.
    Full,
}

impl Pending {
    /// Lets the change through, unless a pending one is in its way, and remembers it. `judge` has the last word: it is
    /// asked while no other change can be let through. `source` is where the request comes from.
    pub(crate) fn admit<T>(
        &self,
        forest: &Forest,
        judge: impl FnOnce() -> Result<Option<Adoption>, T>,
        dry_run: bool,
        source: IpAddr,
    ) -> Result<Result<(), Held>, T> {
        let mut changes = self.changes.lock();
        changes.retain(|change| !change.is_over(forest));
        let Some(adoption) = judge()? else { return Ok(Ok(())) };
        if changes.iter().any(|change| adoption.concerns(&change.adoption.child)) {
            return Ok(Err(Held::Crossing));
        }
        let own = changes.iter().filter(|change| change.source == source).count();
        if own + changes.len() >= MOST {
            return Ok(Err(Held::Full));
        }
        if !dry_run {
            let was_known = adoption.is_known(forest);
            changes.push(Change { adoption, source, since: Instant::now(), was_known });
        }
        Ok(Ok(()))
    }

    /// Forgets the changes that are over. To be called whenever the forest has changed: an object that comes and goes again
    /// leaves no trace of having been there.
    pub(crate) fn settle(&self, forest: &Forest) {
        self.changes.lock().retain(|change| !change.is_over(forest));
    }

    /// Whether a change that concerns this adoption is still pending in the forest.
    pub(crate) fn is_in_the_way(&self, forest: &Forest, adoption: &Adoption) -> bool {
        let changes = self.changes.lock();
        changes.iter().any(|change| adoption.concerns(&change.adoption.child) && !change.is_over(forest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::rules::adoption::{Link, Object};
    use forest::{Fact, HierarchyFact, Settings, Version};

    use super::*;

    fn forest() -> Forest {
        Forest::new(Arc::new(Settings::new("hnc-system", [""; 0], ".*").unwrap()), vec![])
    }

    fn adoption(child: &str, above: &[&str]) -> Adoption {
        let link = |namespace: &&str| Link {
            namespace: (*namespace).into(),
            parent: None,
            object: Object::Hierarchy,
        };
        Adoption {
            child: child.into(),
            object: Object::Hierarchy,
            over: None,
            links: above.iter().map(link).collect(),
        }
    }

    fn admit(pending: &Pending, forest: &Forest, change: Adoption, dry_run: bool) -> Result<(), Held> {
        admit_from(1, pending, forest, change, dry_run)
    }

    fn admit_from(
        last: u8,
        pending: &Pending,
        forest: &Forest,
        change: Adoption,
        dry_run: bool,
    ) -> Result<(), Held> {
        let source = IpAddr::from([10, 0, 0, last]);
        match pending.admit(forest, || Ok::<_, ()>(Some(change)), dry_run, source) {
            Ok(admitted) => admitted,
            Err(()) => panic!("it was judged"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn crossing_changes_wait_until_the_first_is_seen_or_forgotten() {
        let (pending, mut forest) = (Pending::default(), forest());
        assert_eq!(admit(&pending, &forest, adoption("a", &["b"]), false), Ok(()));
        assert_eq!(admit(&pending, &forest, adoption("b", &["a"]), false), Err(Held::Crossing));
        assert_eq!(
            admit(&pending, &forest, adoption("a", &["c"]), false),
            Err(Held::Crossing),
            "the same object again"
        );
        assert_eq!(admit(&pending, &forest, adoption("x", &["y"]), false), Ok(()), "nothing to do with it");

        let version = Version { uid: "1".into(), resource_version: "1".into() };
        forest.apply(Fact::Hierarchy("a".into(), HierarchyFact { version, ..HierarchyFact::default() }));
        assert_eq!(admit(&pending, &forest, adoption("b", &["a"]), false), Ok(()), "it was seen");

        assert_eq!(admit(&pending, &forest, adoption("y", &["x"]), false), Err(Held::Crossing));
        tokio::time::advance(LONGEST).await;
        assert_eq!(admit(&pending, &forest, adoption("y", &["x"]), false), Ok(()), "a minute has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_and_goes_again_is_over_and_so_is_what_was_deleted() {
        let (pending, mut forest) = (Pending::default(), forest());
        let version = |uid: &str| Version { uid: uid.into(), resource_version: "1".into() };
        let shown = |forest: &mut Forest, uid: &str| {
            let hierarchy = HierarchyFact { version: version(uid), ..HierarchyFact::default() };
            forest.apply(Fact::Hierarchy("a".into(), hierarchy));
            pending.settle(forest);
        };
        let gone = |forest: &mut Forest, uid: &str| {
            forest.apply(Fact::HierarchyGone("a".into(), uid.into()));
            pending.settle(forest);
        };
        assert_eq!(admit(&pending, &forest, adoption("a", &["b"]), false), Ok(()), "it is created");
        pending.settle(&forest);
        assert_eq!(
            admit(&pending, &forest, adoption("b", &["a"]), false),
            Err(Held::Crossing),
            "and not seen yet"
        );
        shown(&mut forest, "1");
        gone(&mut forest, "1");
        assert_eq!(admit(&pending, &forest, adoption("a", &["b"]), false), Ok(()), "it is created again");
        shown(&mut forest, "2");
        let deletion = Adoption { over: Some(version("2")), ..adoption("a", &["b"]) };
        assert_eq!(admit(&pending, &forest, deletion, false), Ok(()), "it is deleted");
        assert_eq!(
            admit(&pending, &forest, adoption("a", &["c"]), false),
            Err(Held::Crossing),
            "and still seen"
        );
        gone(&mut forest, "2");
        assert_eq!(admit(&pending, &forest, adoption("a", &["c"]), false), Ok(()), "and created once more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_is_held_up_and_holds_up_nobody() {
        let (pending, forest) = (Pending::default(), forest());
        assert_eq!(admit(&pending, &forest, adoption("a", &["b"]), true), Ok(()));
        assert_eq!(admit(&pending, &forest, adoption("b", &["a"]), false), Ok(()));
        assert_eq!(admit(&pending, &forest, adoption("a", &["b"]), true), Err(Held::Crossing));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_fills_its_own_share_and_a_minute_later_there_is_room() {
        let (pending, forest) = (Pending::default(), forest());
        let fill = |from: u8| {
            let mut count = 0;
            let next = |count| adoption(&format!("from-{from}-{count}"), &[]);
            while admit_from(from, &pending, &forest, next(count), false) == Ok(()) {
                count += 1;
            }
            count
        };
        assert_eq!(fill(1), MOST / 2, "one address alone");
        assert!((1..=10).all(|from| from == 1 || fill(from) > 0), "there is room for further addresses");
        assert_eq!(admit_from(99, &pending, &forest, adoption("honest", &[]), false), Ok(()));
        assert_eq!(admit_from(1, &pending, &forest, adoption("more", &[]), false), Err(Held::Full));
        tokio::time::advance(LONGEST).await;
        assert_eq!(admit_from(1, &pending, &forest, adoption("more", &[]), false), Ok(()));
    }
}
