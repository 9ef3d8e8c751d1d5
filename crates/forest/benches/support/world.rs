//! A cluster of any size, and all that is told and asked of it: for the benches, and for what counts bytes.
//!
//! Trees of a thousand namespaces, each with five children, so that most are four or five levels below their root. Names
//! have 20 bytes, uids and resource versions are as an API server makes them, and all labels and states are those that the
//! controller has written. Never draws at random: the same size is the same world.

use std::collections::BTreeMap;
use std::sync::Arc;

use forest::hnc;
use forest::{
    Canonical, Fact, Forest, HierarchyFact, HierarchyStatus, Kind, KindId, KnownContent, Labels, Name,
    NamespaceFact, ObjectFact, ObjectKey, Settings, Version, keys,
};
use serde_json::{Map, Value, json};

const TREE: usize = 1000;
const CHILDREN: usize = 5;

/// What a world holds beside namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Objects {
    /// How many Roles each root holds; all below have a copy of each.
    pub(crate) shared: usize,
    /// How many Roles each namespace holds that go nowhere, because they are of a leaf or of a name that no other has.
    pub(crate) own: usize,
}

/// A cluster on paper.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) namespaces: usize,
    objects: Objects,
    body: Map<String, Value>,
    clock: u64,
}

impl World {
    pub(crate) fn new(namespaces: usize, objects: Objects) -> Self {
        let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] }]);
        let body = Map::from_iter([("rules".to_owned(), rules)]);
        Self { namespaces, objects, body, clock: 900_000_000 }
    }

    /// A forest that knows this world, as it is when nothing is left to be written.
    pub(crate) fn forest(&self) -> Forest {
        let mut forest = empty();
        let kind = roles(&forest);
        for fact in self.one_by_one() {
            forest.apply(fact);
        }
        for at in 0..self.namespaces {
            self.objects_in(at).for_each(|seen| drop(forest.apply(Fact::Object(kind, seen))));
        }
        forest
    }

    /// All of the structure, so that no list of it is ever in memory: what that would leave behind, the allocator would sort
    /// while something is measured.
    pub(crate) fn one_by_one(&self) -> impl Iterator<Item = Fact> {
        let all = 0..self.namespaces;
        let namespaces = all.clone().map(|at| Fact::Namespace(self.namespace(at)));
        namespaces.chain(all.map(|at| Fact::Hnc(hnc::Fact::Hierarchy(name(at), self.hierarchy(at)))))
    }

    /// The complete lists that a start begins with.
    pub(crate) fn structure(&self) -> [Fact; 3] {
        let all = 0..self.namespaces;
        [
            Fact::Namespaces(all.clone().map(|at| self.namespace(at)).collect()),
            Fact::Hnc(hnc::Fact::Hierarchies(all.map(|at| (name(at), self.hierarchy(at))).collect())),
            Fact::Hnc(hnc::Fact::Anchors(Vec::new())),
        ]
    }

    /// The objects of one namespace.
    pub(crate) fn objects_in(&self, at: usize) -> impl Iterator<Item = ObjectFact> {
        let own = (0..self.objects.own).map(move |index| self.own(at, index));
        own.chain((0..self.objects.shared).map(move |index| self.shared(at, index)))
    }

    /// A namespace with all labels that it should have.
    pub(crate) fn namespace(&self, at: usize) -> NamespaceFact {
        self.touched(at, "1")
    }

    /// The same with another value of a label of its owner's.
    pub(crate) fn touched(&self, at: usize, value: &str) -> NamespaceFact {
        NamespaceFact {
            name: name(at),
            version: self.version(at, 0),
            labels: self.labels(at, value),
            ..NamespaceFact::default()
        }
    }

    pub(crate) fn labels(&self, at: usize, value: &str) -> Labels {
        let tree = ancestry(at).enumerate();
        let tree =
            tree.map(|(depth, above)| (format!("{}{}", name(above), keys::TREE_LABEL), depth.to_string()));
        let mark = self.child(at).map(|_| (keys::HAS_CHILDREN.to_owned(), "true".to_owned()));
        let own = [
            ("kubernetes.io/metadata.name".to_owned(), name(at).to_string()),
            (keys::INCLUDED.to_owned(), "true".to_owned()),
            ("team".to_owned(), value.to_owned()),
        ];
        own.into_iter().chain(tree).chain(mark).collect()
    }

    /// Its `HierarchyConfiguration`.
    pub(crate) fn hierarchy(&self, at: usize) -> HierarchyFact {
        self.moved(at, parent(at))
    }

    /// The same below another parent.
    pub(crate) fn moved(&self, at: usize, parent: Option<usize>) -> HierarchyFact {
        HierarchyFact {
            version: self.version(at, 1),
            parent: parent.map(name),
            status: HierarchyStatus {
                children: self.children(at).map(name).collect(),
                conditions: Vec::new(),
            },
            ..HierarchyFact::default()
        }
    }

    /// A Role of the root of `at`, or its copy there.
    pub(crate) fn shared(&self, at: usize, index: usize) -> ObjectFact {
        let mut labels = BTreeMap::from([("app.kubernetes.io/component".to_owned(), index.to_string())]);
        let inherited_from = (!at.is_multiple_of(TREE)).then(|| name(at - at % TREE));
        if inherited_from.is_some() {
            labels.insert("app.kubernetes.io/managed-by".into(), "hnc.x-k8s.io".into());
        }
        let content = Canonical::new(labels, BTreeMap::new(), self.body.clone());
        let content = if inherited_from.is_none() { content.as_copy() } else { content };
        self.object(at, shared_name(index), (2 + index as u64, inherited_from, content))
    }

    /// A Role of a root, changed.
    pub(crate) fn changed(&self, at: usize, index: usize, value: u64) -> ObjectFact {
        let labels = BTreeMap::from([("changed".to_owned(), value.to_string())]);
        let content = Canonical::new(labels, BTreeMap::new(), self.body.clone()).as_copy();
        self.object(at, shared_name(index), (2 + index as u64, None, content))
    }

    /// A Role of this namespace alone. At the root of a tree it goes to all that is below; elsewhere it bears a name of its
    /// own.
    pub(crate) fn own(&self, at: usize, index: usize) -> ObjectFact {
        let content = Canonical::new(BTreeMap::new(), BTreeMap::new(), self.body.clone()).as_copy();
        self.object(at, format!("own-{at:07}-{index:03}").into(), (1_000 + index as u64, None, content))
    }

    fn object(
        &self,
        at: usize,
        name_: Name,
        (salt, from, content): (u64, Option<Name>, Canonical),
    ) -> ObjectFact {
        ObjectFact {
            inherited_from: from,
            content: Some(KnownContent::whole(content)),
            ..ObjectFact::new(name(at), name_, self.version(at, salt))
        }
    }

    /// The next state of everything.
    pub(crate) fn tick(&mut self) {
        self.clock += 1;
    }

    fn version(&self, at: usize, salt: u64) -> Version {
        let (high, low) = (mix(at as u64 ^ (salt << 40)), mix(!(at as u64) ^ (salt << 40)));
        let uid = format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        );
        Version { uid: uid.into(), resource_version: self.clock.to_string().into() }
    }

    /// One of its children, if it has any.
    pub(crate) fn child(&self, at: usize) -> Option<usize> {
        self.children(at).next()
    }

    fn children(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let (tree, place) = (at - at % TREE, at % TREE);
        let end = self.namespaces;
        (place * CHILDREN + 1..=place * CHILDREN + CHILDREN)
            .take_while(|child| *child < TREE)
            .map(move |child| tree + child)
            .filter(move |child| *child < end)
    }

    /// Some namespace without children, another one for each `turn`, all over the world.
    pub(crate) fn leaf(&self, turn: u64) -> usize {
        let tree =
            usize::try_from(mix(turn) % (self.namespaces as u64 / TREE as u64)).expect("it is below that");
        tree * TREE + 400 + usize::try_from(mix(!turn) % 500).expect("it is below that")
    }
}

/// All namespaces in one tree, ten to a parent, and a Role in its root.
pub(crate) fn single_tree(namespaces: usize) -> Forest {
    let world = World::new(namespaces, Objects::default());
    let parent = |at: usize| (at > 0).then(|| (at - 1) / 10);
    let mut forest = empty();
    for at in 0..namespaces {
        forest.apply(Fact::Namespace(world.touched(at, "1")));
        forest.apply(Fact::Hnc(hnc::Fact::Hierarchy(name(at), world.moved(at, parent(at)))));
    }
    let kind = roles(&forest);
    forest.apply(Fact::Objects(kind, vec![world.shared(0, 0)]));
    forest
}

/// A forest that has been told that there is nothing at all.
pub(crate) fn empty() -> Forest {
    let settings = Settings::new("hnc-system", ["kube-system"], ".*").expect("the pattern is one");
    let mut forest = Forest::new(Arc::new(settings), vec![Kind::role()]);
    for fact in World::new(0, Objects::default()).structure() {
        forest.apply(fact);
    }
    forest.apply(Fact::Objects(roles(&forest), Vec::new()));
    forest
}

/// The kind that these worlds are of.
pub(crate) fn roles(forest: &Forest) -> KindId {
    forest.kinds().next().expect("one is configured").0
}

pub(crate) fn shared_name(index: usize) -> Name {
    format!("role-of-the-root-{index:03}").into()
}

/// The key of a Role that a root shares.
pub(crate) fn shared_key(forest: &Forest, index: usize) -> ObjectKey {
    ObjectKey { kind: roles(forest), name: shared_name(index) }
}

pub(crate) fn name(at: usize) -> Name {
    format!("team-{:05}-web-{:06}", at / TREE, at % TREE).into()
}

pub(crate) fn parent(at: usize) -> Option<usize> {
    let place = at % TREE;
    (place > 0).then(|| at - place + (place - 1) / CHILDREN)
}

/// The namespace itself and all above it.
fn ancestry(at: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(at), |below| parent(*below))
}

/// Spreads numbers.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
