//! The changes of parent that this replica has allowed and not yet observed.
//!
//! While the parent of a namespace is being changed, no other change is allowed that depends on this parent. The rule has already
//! allowed such a change; this module makes it wait, or denies it with "try again".
//!
//! A change ends when the watch shows the object in a later state or deleted. It also ends after ten seconds, because the request
//! may have failed after this webhook has allowed it; nothing reports that.
//!
//! The number of changes is limited for each address that sends reviews and for each user, so that neither forged reviews nor requests
//! that are never stored can block all changes of parents. Behind address translation all API servers have one address, and may
//! have half of all changes. The service accounts of a namespace count as one user, because a
//! user who can create one can create many.
//!
//! New anchors are not limited: only a namespace that waits for the same name, and the deletion of the anchor above, wait for them. The oldest is
//! dropped when there are too many.

use std::net::IpAddr;
use std::time::Duration;

use forest::rules::ParentChange;
use forest::{Forest, Version};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a change that the watch does not show is kept.
///
/// A request can be stored later than this, if other webhooks are slow. Then another change may be allowed, and if both make a cycle,
/// the controller halts it. With a longer time, requests that are never stored would block other changes for longer.
const LONGEST: Duration = Duration::from_secs(10);

/// How many changes are kept. An address may have as many as remain free, so there is always room for another address. Beyond
/// that no change is allowed: a dropped one could conflict with another.
const MOST: usize = 2_000;

/// How many new anchors are kept.
const MOST_ANCHORS: usize = 2_000;

/// How many changes of one user are kept. A user can send requests that the webhook allows and the API server does not store.
const MOST_OF_A_USER: usize = 250;

/// The parts of a request that matter for a change of parent, beside what the rule knows.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Whether the request changes nothing: it is a dry run.
    pub(crate) changes_nothing: bool,
    /// The user who sends it.
    pub(crate) user: String,
    /// The state that the request changes, as the API server sent it. It may be older than the forest's; such a request fails,
    /// and the API server repeats it. `None` for a new object.
    pub(crate) over: Option<Version>,
    /// The address that the request comes from.
    pub(crate) source: IpAddr,
}

/// The changes of this replica that are in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    changes: Mutex<Vec<Allowed>>,
}

/// A change that was allowed.
#[derive(Debug)]
struct Allowed {
    change: ParentChange,
    origin: Origin,
    since: Instant,
    /// Whether the forest knew the object then. If it no longer does, the object was deleted; an object that it never knew may
    /// still appear.
    was_known: bool,
}

impl Allowed {
    fn is_over(&self, forest: &Forest) -> bool {
        let known = known(forest, &self.change);
        let is_settled = known.as_ref().is_some_and(|known| {
            self.origin.over.as_ref().is_none_or(|over| over.uid != known.uid || over.is_older_than(known))
        });
        is_settled || (self.was_known && known.is_none()) || Instant::now() >= self.since + LONGEST
    }
}

fn known(forest: &Forest, change: &ParentChange) -> Option<Version> {
    forest.changed_version(change)
}

/// Whether the request changes a state that the forest does not know yet. A forged one could name a state that never comes, and
/// its change would stay in flight.
pub(crate) fn is_ahead(forest: &Forest, change: &ParentChange, origin: &Origin) -> bool {
    origin.over.as_ref().zip(known(forest, change)).is_some_and(|(over, known)| known.is_older_than(over))
}

/// Whether the request creates an object that the forest still knows. Either the API server will refuse it, or the object is just
/// being deleted; then its deletion could not be told from that of the new object.
pub(crate) fn is_repeated(forest: &Forest, change: &ParentChange, origin: &Origin) -> bool {
    origin.over.is_none() && known(forest, change).is_some()
}

/// Why a change is not allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// It depends on the parent of a namespace that another request is changing.
    Crossing,
    /// Too many are in flight.
    Full,
}

impl InFlight {
    /// Allows the change, unless another one blocks it, and keeps it. The rule must have judged by this very state of the forest.
    pub(crate) fn admit(
        &self,
        forest: &Forest,
        change: &ParentChange,
        origin: &Origin,
    ) -> Result<(), Blocked> {
        let mut changes = self.changes.lock();
        changes.retain(|allowed| !allowed.is_over(forest));
        let pending = changes.iter().map(|allowed| &allowed.change);
        if pending.clone().any(|other| change.is_blocked_by(other)) || change.exceeds_with(&pending) {
            return Err(Blocked::Crossing);
        }
        if change.is_new_anchor() {
            drop_oldest_anchor(&mut changes);
        } else if is_full(&changes, origin) {
            return Err(Blocked::Full);
        }
        if !origin.changes_nothing {
            let was_known = known(forest, change).is_some();
            let (change, origin) = (change.clone(), origin.clone());
            changes.push(Allowed { change, origin, since: Instant::now(), was_known });
        }
        Ok(())
    }

    /// Drops the changes that have ended. Call it whenever the forest has changed: an object that is created and deleted between
    /// two calls leaves no trace in the forest.
    pub(crate) fn settle(&self, forest: &Forest) {
        self.changes.lock().retain(|allowed| !allowed.is_over(forest));
    }

    /// Whether a change in flight still blocks this one.
    pub(crate) fn blocks(&self, forest: &Forest, change: &ParentChange) -> bool {
        let changes = self.changes.lock();
        let pending =
            changes.iter().filter(|allowed| !allowed.is_over(forest)).map(|allowed| &allowed.change);
        pending.clone().any(|other| change.is_blocked_by(other)) || change.exceeds_with(&pending)
    }
}

fn is_full(changes: &[Allowed], origin: &Origin) -> bool {
    let limited =
        || changes.iter().filter(|allowed| !allowed.change.is_new_anchor()).map(|allowed| &allowed.origin);
    let of_address = limited().filter(|it| it.source == origin.source).count();
    let of_user = limited().filter(|it| sender(&it.user) == sender(&origin.user)).count();
    of_address + limited().count() >= MOST || of_user >= MOST_OF_A_USER
}

fn drop_oldest_anchor(changes: &mut Vec<Allowed>) {
    let mut anchors =
        changes.iter().enumerate().filter(|(_, allowed)| allowed.change.is_new_anchor()).map(|(at, _)| at);
    if let Some(oldest) = anchors.next()
        && anchors.count() + 1 >= MOST_ANCHORS
    {
        changes.remove(oldest);
    }
}

/// The user for the limits: `system:serviceaccount:<namespace>` for a service account.
fn sender(user: &str) -> &str {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    account.map_or(user, |(_, name)| &user[..user.len() - name.len() - 1])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::hnc;
    use forest::rules::Link;
    use forest::{AnchorFact, Fact, HierarchyFact, Settings, Stream, Version};

    use super::*;

    fn forest() -> Forest {
        Forest::new(Arc::new(Settings::new("hnc-system", [""; 0], ".*").unwrap()), vec![])
    }

    fn change(child: &str, above: &[&str]) -> ParentChange {
        let parent_is_in = Stream::HIERARCHIES;
        let link = |namespace: &&str| Link { namespace: (*namespace).into(), parent: None, parent_is_in };
        ParentChange {
            child: child.into(),
            parent_is_in,
            links: above.iter().map(link).collect(),
            missing_parent: None,
            added_to: Vec::new(),
            anchor_in: None,
            deletes: false,
            decides_below: false,
            consenting: Vec::new(),
        }
    }

    fn origin(last: u8, changes_nothing: bool) -> Origin {
        Origin { changes_nothing, user: "joe".into(), over: None, source: IpAddr::from([10, 0, 0, last]) }
    }

    fn admit(
        in_flight: &InFlight,
        forest: &Forest,
        change: &ParentChange,
        dry_run: bool,
    ) -> Result<(), Blocked> {
        in_flight.admit(forest, change, &origin(1, dry_run))
    }

    #[tokio::test(start_paused = true)]
    async fn crossing_changes_wait_until_the_first_is_seen_or_forgotten() {
        let (in_flight, mut forest) = (InFlight::default(), forest());
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), false), Ok(()));
        assert_eq!(admit(&in_flight, &forest, &change("b", &["a"]), false), Err(Blocked::Crossing));
        assert_eq!(
            admit(&in_flight, &forest, &change("a", &["c"]), false),
            Err(Blocked::Crossing),
            "the same object again"
        );
        assert_eq!(admit(&in_flight, &forest, &change("x", &["y"]), false), Ok(()), "nothing to do with it");

        let version = Version { uid: "1".into(), resource_version: "1".into() };
        forest.apply(Fact::Hnc(hnc::Fact::Hierarchy(
            "a".into(),
            HierarchyFact { version, ..HierarchyFact::default() },
        )));
        assert_eq!(admit(&in_flight, &forest, &change("b", &["a"]), false), Ok(()), "it was seen");

        assert_eq!(admit(&in_flight, &forest, &change("y", &["x"]), false), Err(Blocked::Crossing));
        tokio::time::advance(LONGEST).await;
        assert_eq!(admit(&in_flight, &forest, &change("y", &["x"]), false), Ok(()), "some time has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_and_goes_again_is_over_and_so_is_what_was_deleted() {
        let (in_flight, mut forest) = (InFlight::default(), forest());
        let version = |uid: &str| Version { uid: uid.into(), resource_version: "1".into() };
        let shown = |forest: &mut Forest, uid: &str| {
            let hierarchy = HierarchyFact { version: version(uid), ..HierarchyFact::default() };
            forest.apply(Fact::Hnc(hnc::Fact::Hierarchy("a".into(), hierarchy)));
            in_flight.settle(forest);
        };
        let gone = |forest: &mut Forest, uid: &str| {
            forest.apply(Fact::Hnc(hnc::Fact::HierarchyGone("a".into(), uid.into())));
            in_flight.settle(forest);
        };
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), false), Ok(()), "it is created");
        in_flight.settle(&forest);
        assert_eq!(
            admit(&in_flight, &forest, &change("b", &["a"]), false),
            Err(Blocked::Crossing),
            "and not seen yet"
        );
        shown(&mut forest, "1");
        gone(&mut forest, "1");
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), false), Ok(()), "it is created again");
        shown(&mut forest, "2");
        let deletion = Origin { over: Some(version("2")), ..origin(1, false) };
        assert_eq!(in_flight.admit(&forest, &change("a", &["b"]), &deletion), Ok(()), "it is deleted");
        assert_eq!(
            admit(&in_flight, &forest, &change("a", &["c"]), false),
            Err(Blocked::Crossing),
            "and still seen"
        );
        gone(&mut forest, "2");
        assert_eq!(admit(&in_flight, &forest, &change("a", &["c"]), false), Ok(()), "and created once more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_is_blocked_and_blocks_no_other_change() {
        let (in_flight, forest) = (InFlight::default(), forest());
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), true), Ok(()));
        assert_eq!(admit(&in_flight, &forest, &change("b", &["a"]), false), Ok(()));
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), true), Err(Blocked::Crossing));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_fills_its_own_share_and_some_time_later_there_is_room() {
        let (in_flight, forest) = (InFlight::default(), forest());
        let fill = |from: u8| {
            let mut count = 0;
            let next = |count| change(&format!("from-{from}-{count}"), &[]);
            let by =
                |count| Origin { user: format!("{from}-{}", count / MOST_OF_A_USER), ..origin(from, false) };
            while in_flight.admit(&forest, &next(count), &by(count)) == Ok(()) {
                count += 1;
            }
            count
        };
        assert_eq!(fill(1), MOST / 2, "one address alone");
        assert!((1..=10).all(|from| from == 1 || fill(from) > 0), "there is room for further addresses");
        assert_eq!(in_flight.admit(&forest, &change("honest", &[]), &origin(99, false)), Ok(()));
        assert_eq!(in_flight.admit(&forest, &change("more", &[]), &origin(1, false)), Err(Blocked::Full));
        tokio::time::advance(LONGEST).await;
        assert_eq!(in_flight.admit(&forest, &change("more", &[]), &origin(1, false)), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_fills_their_own_share() {
        let (in_flight, forest) = (InFlight::default(), forest());
        let admit = |count: usize, user: &str| {
            let by = Origin { user: user.into(), ..origin(1, false) };
            in_flight.admit(&forest, &change(&format!("{user}-{count}"), &[]), &by)
        };
        assert!((0..MOST_OF_A_USER).all(|count| admit(count, "tim") == Ok(())));
        assert_eq!(admit(MOST_OF_A_USER, "tim"), Err(Blocked::Full));
        assert_eq!(admit(0, "rita"), Ok(()));
        tokio::time::advance(LONGEST).await;
        assert_eq!(admit(MOST_OF_A_USER, "tim"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_accounts_of_a_namespace_share_their_limit() {
        let (in_flight, forest) = (InFlight::default(), forest());
        let admit = |count: usize, namespace: &str| {
            let user = format!("system:serviceaccount:{namespace}:account-{count}");
            let by = Origin { user, ..origin(1, false) };
            in_flight.admit(&forest, &change(&format!("{namespace}-{count}"), &[]), &by)
        };
        assert!((0..MOST_OF_A_USER).all(|count| admit(count, "a") == Ok(())));
        assert_eq!(admit(MOST_OF_A_USER, "a"), Err(Blocked::Full));
        assert_eq!(admit(0, "b"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn anchors_leave_room_for_changes_of_parents() {
        let (in_flight, forest) = (InFlight::default(), forest());
        for count in 0..=MOST_ANCHORS {
            let anchor = ParentChange { anchor_in: Some("e".into()), ..change(&format!("p{count}"), &[]) };
            assert_eq!(admit(&in_flight, &forest, &anchor, false), Ok(()));
        }
        assert_eq!(in_flight.changes.lock().len(), MOST_ANCHORS);
        assert_eq!(admit(&in_flight, &forest, &change("a", &["b"]), false), Ok(()));
        let waiting = |name: &str| ParentChange {
            missing_parent: Some(name.into()),
            ..change(&format!("y-{name}"), &[])
        };
        assert_eq!(admit(&in_flight, &forest, &waiting("p0"), false), Ok(()), "the oldest was dropped");
        assert_eq!(admit(&in_flight, &forest, &waiting("p1"), false), Err(Blocked::Crossing));
    }

    #[tokio::test(start_paused = true)]
    async fn an_anchor_and_a_namespace_that_waits_for_its_name_block_each_other() {
        let anchor = ParentChange { anchor_in: Some("e".into()), ..change("p", &[]) };
        let waiting = ParentChange { missing_parent: Some("p".into()), ..change("y", &[]) };
        for (first, second) in [(&anchor, &waiting), (&waiting, &anchor)] {
            let (in_flight, mut forest) = (InFlight::default(), forest());
            assert_eq!(admit(&in_flight, &forest, first, false), Ok(()));
            assert_eq!(admit(&in_flight, &forest, second, false), Err(Blocked::Crossing));
            let version = Version { uid: "1".into(), resource_version: "1".into() };
            let seen = if first.anchor_in.is_some() {
                hnc::Fact::Anchor(
                    "e".into(),
                    AnchorFact { name: "p".into(), version, ..AnchorFact::default() },
                )
            } else {
                hnc::Fact::Hierarchy("y".into(), HierarchyFact { version, ..HierarchyFact::default() })
            };
            forest.apply(seen);
            assert_eq!(
                admit(&in_flight, &forest, second, false),
                Ok(()),
                "it was seen, and the rule judges it"
            );
        }
    }

    /// A quota may refuse the first after it was reviewed, again and again.
    #[tokio::test(start_paused = true)]
    async fn anchors_of_one_name_do_not_wait_for_each_other() {
        let (in_flight, forest) = (InFlight::default(), forest());
        let anchor = |holder: &str| ParentChange { anchor_in: Some(holder.into()), ..change("p", &[]) };
        let waiting = ParentChange { missing_parent: Some("p".into()), ..change("y", &[]) };
        assert_eq!(admit(&in_flight, &forest, &anchor("e"), false), Ok(()));
        assert_eq!(admit(&in_flight, &forest, &anchor("v"), false), Ok(()));
        assert_eq!(admit(&in_flight, &forest, &waiting, false), Err(Blocked::Crossing));
        assert_eq!(
            admit(&in_flight, &forest, &anchor("e"), false),
            Err(Blocked::Crossing),
            "the same object"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_deletion_of_an_anchor_and_what_comes_to_be_below_its_namespace_wait_for_each_other() {
        let anchor = |holder: &str, child: &str, deletes| ParentChange {
            anchor_in: Some(holder.into()),
            deletes,
            ..change(child, &[])
        };
        let deletion = anchor("p", "s", true);
        for (other, result) in [
            (anchor("s", "new", false), Err(Blocked::Crossing)),
            (change("moved", &["s", "p"]), Err(Blocked::Crossing)),
            (anchor("p", "s", false), Err(Blocked::Crossing)),
            (anchor("other", "new", false), Ok(())),
            (anchor("other", "s", true), Err(Blocked::Crossing)),
            (change("moved", &["p"]), Ok(())),
        ] {
            for [first, second] in [[&deletion, &other], [&other, &deletion]] {
                let (in_flight, forest) = (InFlight::default(), forest());
                assert_eq!(admit(&in_flight, &forest, first, false), Ok(()));
                assert_eq!(admit(&in_flight, &forest, second, false), result, "{first:?} {second:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_decides_about_those_below_and_what_comes_to_be_below_wait_for_each_other() {
        let label = ParentChange { decides_below: true, ..change("x", &["r"]) };
        let anchor = |holder: &str| ParentChange { anchor_in: Some(holder.into()), ..change("new", &[]) };
        for (other, result) in [
            (change("y", &["x", "p"]), Err(Blocked::Crossing)),
            (anchor("x"), Err(Blocked::Crossing)),
            (change("x", &[]), Err(Blocked::Crossing)),
            (anchor("r"), Ok(())),
            (change("y", &["r"]), Ok(())),
        ] {
            for [first, second] in [[&label, &other], [&other, &label]] {
                let (in_flight, forest) = (InFlight::default(), forest());
                assert_eq!(admit(&in_flight, &forest, first, false), Ok(()));
                assert_eq!(admit(&in_flight, &forest, second, false), result, "{first:?} {second:?}");
            }
        }
    }

    /// Also if it has the name of one that is being deleted: its own end could not be told from that of the other one.
    #[test]
    fn an_object_that_is_still_known_is_not_created() {
        let mut forest = forest();
        let anchor = ParentChange { anchor_in: Some("e".into()), ..change("p", &[]) };
        let version = Version { uid: "1".into(), resource_version: "5".into() };
        let creation = origin(1, false);
        assert!(!is_repeated(&forest, &anchor, &creation));
        let seen = AnchorFact { name: "p".into(), version: version.clone(), ..AnchorFact::default() };
        forest.apply(hnc::Fact::Anchor("e".into(), seen));
        assert!(is_repeated(&forest, &anchor, &creation));
        assert!(!is_repeated(&forest, &anchor, &Origin { over: Some(version), ..creation }));
    }

    #[test]
    fn a_state_that_is_not_known_yet_is_ahead() {
        let mut forest = forest();
        let version = |of: &str| Version { uid: "1".into(), resource_version: of.into() };
        let hierarchy = HierarchyFact { version: version("5"), ..HierarchyFact::default() };
        forest.apply(hnc::Fact::Hierarchy("a".into(), hierarchy));
        for (over, expected) in [(None, false), (Some("4"), false), (Some("5"), false), (Some("999"), true)] {
            let origin = Origin { over: over.map(version), ..origin(1, false) };
            assert_eq!(is_ahead(&forest, &change("a", &[]), &origin), expected, "{over:?}");
        }
    }
}
