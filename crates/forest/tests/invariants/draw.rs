//! Random worlds and random requests: few names, so that everything meets everything.

use forest::configuration::Entry;
use forest::{Mode, OnConflict, keys};

use super::access::{CLUSTER_ROLES, Rights, SUPERUSER, USERS};
use super::ask::{AnchorWrite, Ask, HierarchyWrite, NamespaceWrite, ObjectWrite, Pairs, Says, What, Word};
use super::story::Story;
use super::world::World;
use crate::cluster::{EXCLUDED, asks::ASKS};

/// All namespaces that there ever are; the last is not managed.
const NAMES: [Word; 7] = ["a", "b", "c", "d", "e", "f", EXCLUDED];
/// Groups of users whom bindings name.
const SUBJECTS: [Word; 10] = ["u", "v", "w", "x", "uv", "wx", "vw", "p", "q", "k"];
/// What Roles allow.
const RULES: [Word; 9] = ["", "s", "h", "a", "sw", "r", "n", "rs", "hs"];
/// Which of [`ASKS`] keeps an object where it is.
const NONE: usize = 7;

/// A sequence that its seed decides (xorshift).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.below(2);
        }
        dice
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn name(&mut self) -> Word {
        if self.chance(2) { EXCLUDED } else { NAMES[self.below(NAMES.len() - 1)] }
    }

    /// A world in which there is something, and nothing has been asked yet.
    pub(crate) fn story(&mut self) -> Story {
        let mut cluster_wide = [Rights::default(); USERS.len()];
        for (at, rights) in [(4, "n"), (5, "cd"), (6, "k")] {
            cluster_wide[at] = Rights::of(rights);
        }
        cluster_wide[SUPERUSER] = Rights::all();
        for rights in &mut cluster_wide[..SUPERUSER] {
            if self.chance(15) {
                *rights = rights.with(Rights::of(self.one(&["n", "c", "d", "cd", "h"])));
            }
        }
        let mut setup = self.places();
        for _ in 0..3 + self.below(7) {
            let (namespace, write) = (self.name(), self.grant());
            setup.push(Ask::Object(
                namespace,
                What::Binding,
                self.one(&["b0", "b1", "b2", "b3"]),
                Some(write),
            ));
        }
        for _ in 0..self.below(10) {
            setup.push(self.put_object());
        }
        setup.push(self.configuration());
        Story { cluster_wide, initial_admin: self.chance(30), setup, asked: Vec::new() }
    }

    /// Namespaces and who is whose child, in every state that may be stored.
    fn places(&mut self) -> Vec<Ask> {
        let mut setup = Vec::new();
        for (at, name) in NAMES.into_iter().enumerate() {
            if !self.chance(85) {
                continue;
            }
            let mut write = NamespaceWrite::default();
            if self.chance(30) {
                write.labels.push(("team", Some("blue")));
            }
            if self.chance(4) {
                write.annotations.push((keys::EXTERNALLY_MANAGED_BY, Some("another-tool")));
            }
            let parent = if self.chance(4) { self.name() } else { NAMES[self.below(at)] };
            let has_parent = at > 0 && name != EXCLUDED && self.chance(60);
            let is_sub = has_parent && self.chance(50);
            if is_sub {
                write.annotations.push((keys::SUBNAMESPACE_OF, Some(parent)));
            }
            setup.push(Ask::Namespace(name, Some(write)));
            if is_sub && self.chance(85) {
                let state = self.one(&[None, Some("Ok"), Some("Conflict")]);
                setup.push(Ask::Anchor(parent, name, Some(AnchorWrite { labels: vec![], state })));
            }
            if has_parent && !is_sub {
                let cascading = self.chance(20);
                let write = HierarchyWrite { parent: Some(parent), cascading, labels: self.managed() };
                setup.push(Ask::Hierarchy(name, Some(write)));
            }
        }
        for _ in 0..self.below(3) {
            let state = self.one(&[None, Some("Ok"), Some("Conflict"), Some("Missing"), Some("Forbidden")]);
            let write = AnchorWrite { labels: self.managed(), state };
            setup.push(Ask::Anchor(self.name(), self.name(), Some(write)));
        }
        setup
    }

    /// Any request. What it is about exists more often than not.
    pub(crate) fn ask(&mut self, world: &World) -> Ask {
        if world.is_stopped && self.chance(15) {
            return Ask::Stop(false);
        }
        match self.below(21) {
            ..4 => self.hierarchy(),
            4..7 => self.anchor(world),
            7..12 => self.namespace(),
            12..19 => self.object(world),
            19 => self.configuration(),
            _ => self.move_or_end(world),
        }
    }

    /// A request about the places of namespaces, also of those that are being deleted, and while no controller runs.
    pub(crate) fn move_or_end(&mut self, world: &World) -> Ask {
        match self.below(20) {
            ..8 => self.hierarchy(),
            8..10 => self.anchor(world),
            10..13 => Ask::Namespace(self.name(), None),
            13..15 => Ask::Namespace(self.name(), Some(NamespaceWrite::default())),
            15..18 => Ask::Hold(self.name(), self.chance(80)),
            _ => Ask::Stop(!world.is_stopped),
        }
    }

    /// One of those whom RBAC lets ask this, if there are any.
    pub(crate) fn user(&mut self, world: &World, ask: &Ask) -> usize {
        let may: Vec<usize> = (0..USERS.len()).filter(|user| world.rbac_allows(*user, ask)).collect();
        let ordinary: Vec<usize> = may.iter().copied().filter(|user| *user != SUPERUSER).collect();
        if !ordinary.is_empty() && self.chance(85) {
            self.one(&ordinary)
        } else if !may.is_empty() && self.chance(60) {
            self.one(&may)
        } else {
            self.below(USERS.len())
        }
    }

    fn hierarchy(&mut self) -> Ask {
        let write = HierarchyWrite {
            parent: if self.chance(75) { Some(self.name()) } else { None },
            cascading: self.chance(20),
            labels: self.managed(),
        };
        let deletes = self.chance(12);
        Ask::Hierarchy(self.name(), (!deletes).then_some(write))
    }

    fn managed(&mut self) -> Pairs {
        self.one(&[&[][..], &[][..], &[("tier", "gold")], &[("tier", "iron")], &[("zone", "a")]]).to_vec()
    }

    fn anchor(&mut self, world: &World) -> Ask {
        let known: Vec<_> = world.cluster.anchors.keys().collect();
        let named = |name: &str| NAMES.into_iter().find(|it| *it == name).unwrap_or(EXCLUDED);
        if !known.is_empty() && self.chance(45) {
            let (parent, child) = known[self.below(known.len())];
            let states = [None, Some("Ok"), Some("Missing"), Some("Conflict"), Some(""), Some("nonsense")];
            let write = AnchorWrite { labels: self.managed(), state: self.one(&states) };
            return Ask::Anchor(named(parent), named(child), self.chance(40).then_some(write));
        }
        Ask::Anchor(self.name(), self.name(), Some(AnchorWrite { labels: self.managed(), state: None }))
    }

    fn namespace(&mut self) -> Ask {
        let name = self.name();
        if self.chance(25) {
            return Ask::Namespace(name, None);
        }
        let mut write = NamespaceWrite::default();
        match self.below(10) {
            0 => {}
            1..3 => write.labels.push(("team", self.one(&[Some("blue"), Some("red"), None]))),
            3 => write.labels.push((
                self.one(&[keys::HAS_CHILDREN, keys::INCLUDED, "a.tree.hnc.x-k8s.io/depth", "tier"]),
                self.one(&[None, Some("1"), Some("false"), Some("gold")]),
            )),
            4 => write.annotations.push((
                keys::EXTERNALLY_MANAGED_BY,
                self.one(&[None, Some("another-tool"), Some(keys::GROUP)]),
            )),
            5 => write.annotations.push((keys::INITIAL_ADMIN, self.one(&[None, Some("u"), Some("p")]))),
            6 => write.annotations.push((keys::SUBNAMESPACE_OF, self.one(&[None, None, Some("")]))),
            _ => write.annotations.push((keys::SUBNAMESPACE_OF, Some(self.name()))),
        }
        Ask::Namespace(name, Some(write))
    }

    fn object(&mut self, world: &World) -> Ask {
        let known: Vec<_> = world.cluster.objects.keys().collect();
        if !known.is_empty() && self.chance(20) {
            let (namespace, key) = known[self.below(known.len())];
            if let Some(deletion) = deletion(namespace, key) {
                return deletion;
            }
        }
        self.put_object()
    }

    fn grant(&mut self) -> ObjectWrite {
        let (role, _) = self.one(&CLUSTER_ROLES);
        let says = Says::Binds { cluster_role: true, role, users: self.one(&SUBJECTS) };
        ObjectWrite { says, asks: if self.chance(35) { NONE } else { 0 }, copy_of: None }
    }

    fn put_object(&mut self) -> Ask {
        let (what, name, says) = match self.below(10) {
            0..3 => (What::Role, self.one(&["r0", "r1"]), Says::Rules(self.one(&RULES))),
            3..6 => {
                let (role, users) = (self.one(&["r0", "r1"]), self.one(&SUBJECTS));
                let says = Says::Binds { cluster_role: false, role, users };
                (What::Binding, self.one(&["b0", "b1", "b2", "b3"]), says)
            }
            6 => (What::Binding, self.one(&["b0", "b1", "b2", "b3"]), self.grant().says),
            7..9 => (What::Secret, self.one(&["s0", "s1"]), Says::Data(u8::from(self.chance(50)))),
            _ => (What::LimitRange, "l0", Says::Data(u8::from(self.chance(50)))),
        };
        let asks = if self.chance(60) { 0 } else { self.below(ASKS.len()) };
        let copy_of = self.chance(2).then(|| self.name());
        Ask::Object(self.name(), what, name, Some(ObjectWrite { says, asks, copy_of }))
    }

    fn configuration(&mut self) -> Ask {
        let mut entries = Vec::new();
        let modes = [
            Mode::Propagate,
            Mode::Propagate,
            Mode::Propagate,
            Mode::AllowPropagate,
            Mode::Remove,
            Mode::Ignore,
        ];
        for (what, percent) in
            [(What::Role, 8), (What::Binding, 8), (What::Secret, 65), (What::LimitRange, 35)]
        {
            if !self.chance(percent) {
                continue;
            }
            let is_enforced = percent == 8;
            let excluded = !is_enforced && self.chance(20);
            entries.push(Entry {
                group: what.kind().group.clone(),
                resource: what.kind().resource.clone(),
                mode: if is_enforced { Mode::AllowPropagate } else { self.one(&modes) },
                on_conflict: self.chance(20).then_some(OnConflict::Report),
                excluded_names: if excluded { vec![self.one(&["s0", "l0"]).to_owned()] } else { vec![] },
            });
        }
        Ask::Configuration(entries)
    }
}

/// The request to delete an object that there is.
fn deletion(namespace: &str, key: &forest::ObjectKey) -> Option<Ask> {
    let namespace = NAMES.into_iter().find(|known| *known == namespace)?;
    let all = [What::Role, What::Binding, What::Secret, What::LimitRange];
    let what = all.into_iter().find(|what| what.key("").kind == key.kind)?;
    let names = ["r0", "r1", "b0", "b1", "b2", "b3", "s0", "s1", "l0"];
    let name = names.into_iter().find(|known| **known == *key.name)?;
    Some(Ask::Object(namespace, what, name, None))
}
