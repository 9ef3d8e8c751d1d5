//! Namespace `y` names the missing parent `p` at the moment in which an anchor for `p` is created in `x`. Nobody has the consent of the
//! other side. In every order of events, `p` is not created above `y`. The same holds for a `SubNamespace` for `p`, which can have no consent.
//!
//! The model runs the real list ([`forest::hnc::naming`]) with one replica of the webhook for each request, and two controllers, of which
//! one may have stood still since it looked. Each may crash between any two steps, requests may fail after they were allowed, and what
//! is stored is known as late as it may be.

use std::collections::HashSet;

use forest::Name;
use forest::hnc::naming::{Naming, Namings};

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Sent,
    /// The naming is in the list, and its review goes on.
    Listed,
    Allowed,
    Stored,
    /// It is denied, it fails, or its replica has crashed.
    Over,
}
use Request::{Allowed, Listed, Over, Sent, Stored};

/// How far the deletion of the anchor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Stays,
    Deleted,
    /// The controller has removed its finalizer: no creation is under way.
    Released,
}

/// What creates `p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Creator {
    Anchor,
    SubNamespace,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    creator: Creator,
    list: Namings,
    naming: Request,
    anchor: Request,
    /// Whether each replica knows what the other side has stored: that of the anchor the naming, that of the naming the anchor.
    known: [bool; 2],
    /// Whether the anchor was reviewed before the naming was in the list.
    anchor_first: bool,
    /// Whether the anchor shows `Conflict`.
    conflict: bool,
    end: End,
    /// Whether each controller has looked, and is about to create the namespace.
    creating: [bool; 2],
    created: bool,
}

/// What is left out, to show that the model finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The webhook does not look for anchors after it has listed a naming.
    NoLook,
    /// The webhook does not read the list for an anchor.
    NoReadForAnchor,
    /// The controller does not read the list.
    NoReadBeforeCreation,
    /// A naming leaves the list while requests from before it may still be stored.
    EndsEarly,
    /// A naming leaves the list while an anchor waits.
    EndsForWaiting,
    /// An anchor is in conflict with a naming whose review goes on.
    ConflictInReview,
    /// An anchor does not wait any more from the moment in which it is deleted.
    DeletedIsReleased,
}

fn naming() -> Naming {
    let (parent, child): (Name, Name) = ("p".into(), "y".into());
    Naming { parent, child, holders: Vec::new(), review: "1".into(), since: "".into() }
}

impl World {
    fn waits(&self) -> bool {
        self.anchor == Stored && !self.conflict && self.end != End::Released
    }

    fn is_taken_over(&self) -> bool {
        self.created && self.naming == Stored
    }

    /// Everything that can happen next.
    fn next(&self, fault: Fault) -> Vec<Self> {
        let mut next = Vec::new();
        let mut then = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        match self.naming {
            Sent if self.known[1] || self.created => then(&|it| it.naming = Over),
            Sent => then(&|it| {
                assert!(it.list.add(naming()));
                it.naming = Listed;
            }),
            Listed => {
                then(&|it| it.naming = Over);
                if fault != Fault::NoLook && (self.waits() || self.created) {
                    then(&|it| {
                        it.list.remove(&naming());
                        it.naming = Over;
                    });
                } else {
                    then(&|it| it.naming = Allowed);
                }
            }
            Allowed => [Stored, Over].map(|end| then(&|it| it.naming = end)).into_iter().collect(),
            Stored => then(&|it| it.known[0] = true),
            Over => {}
        }
        match self.anchor {
            Sent => then(&|it| {
                let read =
                    if fault == Fault::NoReadForAnchor { &mut Namings::default() } else { &mut it.list };
                let may = !it.created
                    && !it.known[0]
                    && (it.creator == Creator::SubNamespace
                        || read.consent(&"p".into(), &"x".into(), &[]).is_ok());
                it.anchor = if may { Allowed } else { Over };
                it.anchor_first = it.naming == Sent;
            }),
            Allowed => [Stored, Over].map(|end| then(&|it| it.anchor = end)).into_iter().collect(),
            Stored => then(&|it| it.known[1] = true),
            Listed | Over => {}
        }
        for at in [0, 1] {
            if self.creating[at] {
                then(&|it| it.creating[at] = false);
                then(&|it| {
                    it.creating[at] = false;
                    it.created = true;
                });
            } else if self.waits() && self.end == End::Stays && !self.created {
                let is_free = if self.creator == Creator::SubNamespace {
                    // Once it is known that `y` names it, the plan creates nothing.
                    !self.known[0] && self.list.of("p").is_none()
                } else {
                    self.list.without_consent("p", "x").is_none()
                };
                if fault == Fault::NoReadBeforeCreation || is_free {
                    then(&|it| it.creating[at] = true);
                } else if self.creator == Creator::SubNamespace {
                    // It waits.
                } else if fault == Fault::ConflictInReview || self.naming != Listed {
                    then(&|it| it.conflict = true);
                }
            }
        }
        match self.end {
            End::Stays if self.anchor == Stored => {
                let early = fault == Fault::DeletedIsReleased;
                then(&|it| it.end = if early { End::Released } else { End::Deleted });
            }
            End::Deleted if self.creating == [false; 2] => then(&|it| it.end = End::Released),
            _ => {}
        }
        let waiting: &[Name] =
            if self.waits() && self.creator == Creator::Anchor { &["x".into()] } else { &[] };
        let is_old = self.naming != Listed
            && self.naming != Allowed
            && (self.naming != Stored || self.known[0])
            && !(self.anchor == Allowed && self.anchor_first);
        let may_end = fault == Fault::EndsForWaiting || naming().may_end(waiting);
        if (is_old || fault == Fault::EndsEarly) && may_end {
            then(&|it| it.list.remove(&naming()));
        }
        next
    }
}

/// All that can be.
fn reachable(creator: Creator, fault: Fault) -> HashSet<World> {
    let start = World {
        creator,
        list: Namings::default(),
        naming: Sent,
        anchor: Sent,
        known: [false; 2],
        anchor_first: false,
        conflict: false,
        end: End::Stays,
        creating: [false; 2],
        created: false,
    };
    let (mut seen, mut open) = (HashSet::from([start.clone()]), vec![start]);
    while let Some(world) = open.pop() {
        open.extend(world.next(fault).into_iter().filter(|it| seen.insert(it.clone())));
    }
    seen
}

/// All that can be without a fault: the namespace is taken over nowhere.
fn safe_worlds(creator: Creator) -> HashSet<World> {
    let worlds = reachable(creator, Fault::None);
    for world in &worlds {
        assert!(!world.is_taken_over(), "{world:?}");
    }
    worlds
}

fn are_found(creator: Creator, faults: &[Fault]) {
    for fault in faults {
        assert!(reachable(creator, *fault).iter().any(World::is_taken_over), "{fault:?} is not found");
    }
}

#[test]
fn in_no_order_an_anchor_takes_a_namespace_that_names_it_at_the_same_moment() {
    let worlds = safe_worlds(Creator::Anchor);
    println!("{} states", worlds.len());
    let seen = |what: &str, is_so: fn(&World) -> bool| assert!(worlds.iter().any(is_so), "never: {what}");
    seen("the anchor creates its namespace", |it| it.created && it.list.0.is_empty());
    seen("the naming is stored", |it| it.naming == Stored && it.anchor == Over && it.list.0.is_empty());
    seen("an anchor is gone", |it| it.naming == Stored && it.end == End::Released && !it.conflict);
    seen("both are allowed", |it| it.naming == Stored && it.anchor == Stored && it.conflict);
}

#[test]
fn without_any_of_the_checks_it_does() {
    let faults = [
        Fault::NoLook,
        Fault::NoReadForAnchor,
        Fault::NoReadBeforeCreation,
        Fault::EndsEarly,
        Fault::EndsForWaiting,
        Fault::ConflictInReview,
        Fault::DeletedIsReleased,
    ];
    are_found(Creator::Anchor, &faults);
}

#[test]
fn in_no_order_a_sub_namespace_takes_the_name_of_a_missing_parent() {
    let worlds = safe_worlds(Creator::SubNamespace);
    println!("{} states", worlds.len());
    let seen = |what: &str, is_so: fn(&World) -> bool| assert!(worlds.iter().any(is_so), "never: {what}");
    seen("the namespace is created", |it| it.created && it.list.0.is_empty());
    seen("it is created after a naming that failed", |it| it.created && it.naming == Over && it.known[1]);
    seen("both are allowed", |it| it.naming == Stored && it.anchor == Stored);
    let faults = [Fault::NoLook, Fault::NoReadBeforeCreation, Fault::EndsEarly, Fault::DeletedIsReleased];
    are_found(Creator::SubNamespace, &faults);
}
