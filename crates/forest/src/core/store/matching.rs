//! Whether what is known of the structure is as new as the lists that writes rest on.
//!
//! Each stream has a list and a watch of its own. A list of objects may already hold what came after a namespace had left its tree,
//! while the stream that tells of the move is behind: then a copy would be made where none ever should be. So a complete list
//! counts for plans only once the streams of the structure have told of everything that was so by then. Never asks: lists that are
//! not older are shown to it.

use std::collections::{BTreeMap, HashMap};

use crate::tree::Node;
use crate::{Change, Forest, Name, Stream, Version};

/// Complete lists that plans do not rest on yet, each with the number of all lists before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unmatched(BTreeMap<Stream, u64>);

impl Unmatched {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, stream: Stream) -> bool {
        self.0.contains_key(&stream)
    }

    fn has_structure(&self) -> bool {
        Stream::STRUCTURE.iter().any(|stream| self.contains(*stream))
    }
}

/// A namespace and a name.
type Place = (Name, Name);

/// A list of one of the streams of the structure, read by itself: which objects there were, in which state.
#[derive(Debug, Default)]
pub struct Listing {
    /// The resource version of the list.
    pub resource_version: Box<str>,
    /// The states of the objects by namespace and name. The namespace of namespaces is empty, and so is the name of
    /// `HierarchyConfigurations`: of several in one namespace the stream knows one.
    pub objects: HashMap<Place, Vec<Version>>,
}

/// What a stream has yet to tell of a listing.
#[derive(Debug)]
pub struct Lag {
    stream: Stream,
    resource_version: Box<str>,
    /// These states, or later ones.
    missing: Vec<(Place, Vec<Version>)>,
    /// That these are gone.
    surplus: Vec<Place>,
}

impl Forest {
    /// The same forest, whose plans rest on a complete list only once the structure is known to be as new
    /// ([`crate::Fact::Matched`]).
    #[must_use]
    pub fn matching(mut self) -> Self {
        self.unmatched = Some(Unmatched::default());
        self
    }

    /// The lists that the structure has to catch up with.
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched.clone().unwrap_or_default()
    }

    /// Whether plans may rest on what this stream has listed.
    pub fn is_matched(&self, stream: Stream) -> bool {
        self.unmatched.as_ref().is_none_or(|unmatched| !unmatched.contains(stream))
    }

    /// Whether the lists of the structure may be of different moments.
    pub(crate) fn is_structure_unmatched(&self) -> bool {
        self.unmatched.as_ref().is_some_and(Unmatched::has_structure)
    }

    /// A complete list has come.
    pub(super) fn note_list(&mut self, stream: Stream) {
        if let Some(unmatched) = &mut self.unmatched {
            self.lists += 1;
            unmatched.0.insert(stream, self.lists);
            self.progress += 1;
        }
    }

    /// A list does not count any more.
    pub(super) fn need_not_match(&mut self, stream: Stream) {
        if let Some(unmatched) = &mut self.unmatched {
            unmatched.0.remove(&stream);
        }
    }

    /// The structure is as new as these lists.
    pub(super) fn matched(&mut self, lists: &Unmatched, change: &mut Change) {
        let Some(unmatched) = &mut self.unmatched else { return };
        let before = unmatched.0.len();
        unmatched.0.retain(|stream, number| lists.0.get(stream) != Some(number));
        if unmatched.0.len() < before {
            self.progress += 1;
            change.everything = true;
        }
    }

    /// What this stream of the structure has yet to tell, going by a list that was read after everything else was.
    pub fn lag(&self, stream: Stream, listing: Listing) -> Lag {
        let Listing { resource_version, objects } = listing;
        let surplus = self
            .states(stream)
            .filter(|(place, state)| !objects.contains_key(place) && !is_after(state, &resource_version))
            .map(|(place, _)| place)
            .collect();
        let mut lag = Lag { stream, resource_version, missing: objects.into_iter().collect(), surplus };
        lag.missing.retain(|(place, state)| !self.has_told(stream, &lag.resource_version, place, state));
        lag
    }

    /// Whether the stream has told all that it had yet to tell.
    pub fn has_made_up(&self, lag: &Lag) -> bool {
        let Lag { stream, resource_version, missing, surplus } = lag;
        let is_gone =
            |place: &Place| self.state(*stream, place).is_none_or(|state| is_after(&state, resource_version));
        surplus.iter().all(is_gone)
            && missing.iter().all(|(place, state)| self.has_told(*stream, resource_version, place, state))
    }

    /// Whether one of these states of an object, or a later one, or its end, is known.
    fn has_told(&self, stream: Stream, listed_at: &str, place: &Place, listed: &[Version]) -> bool {
        match self.state(stream, place) {
            Some(known) => {
                let is_later = |state: &Version| known.uid == state.uid && !known.is_older_than(state);
                listed.iter().any(is_later) || is_after(&known, listed_at)
            }
            None => listed.iter().any(|state| self.departed.contains(&state.uid)),
        }
    }

    fn state(&self, stream: Stream, (namespace, name): &Place) -> Option<Version> {
        let node = |name: &Name| Some(self.tree.node(self.tree.id(name)?));
        match stream {
            Stream::Namespaces => namespace_state(node(name)?),
            Stream::Hierarchies => hierarchy_state(node(namespace)?),
            Stream::Anchors => Some(node(namespace)?.anchors().get(name)?.version.clone()),
            Stream::Configuration | Stream::Kind(_) => None,
        }
    }

    fn states(&self, stream: Stream) -> impl Iterator<Item = (Place, Version)> {
        self.tree.nodes().flat_map(move |(name, node)| match stream {
            Stream::Namespaces => one((Name::default(), name.clone()), namespace_state(node)),
            Stream::Hierarchies => one((name.clone(), Name::default()), hierarchy_state(node)),
            Stream::Anchors => node
                .anchors()
                .values()
                .map(|anchor| ((name.clone(), anchor.name.clone()), anchor.version.clone()))
                .collect(),
            Stream::Configuration | Stream::Kind(_) => Vec::new(),
        })
    }
}

/// Where one is no number, nothing is known to be older.
fn is_after(state: &Version, listed_at: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(&state.resource_version), number(listed_at)) {
        (Some(state), Some(list)) => state > list,
        _ => true,
    }
}

fn namespace_state(node: &Node) -> Option<Version> {
    Some(node.namespace.as_ref()?.version.get())
}

fn hierarchy_state(node: &Node) -> Option<Version> {
    Some(node.hierarchy.as_ref()?.version.get())
}

fn one(place: Place, state: Option<Version>) -> Vec<(Place, Version)> {
    state.map(|state| (place, state)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::plan;
    use crate::{Definition, Fact, HierarchyFact, Kind, NamespaceFact, Scope, Settings};

    fn version(uid: &str, resource_version: u64) -> Version {
        Version { uid: uid.into(), resource_version: resource_version.to_string().into() }
    }

    fn namespace(name: &str, resource_version: u64) -> NamespaceFact {
        NamespaceFact {
            name: name.into(),
            version: version(name, resource_version),
            ..NamespaceFact::default()
        }
    }

    fn listing(resource_version: u64, namespaces: &[(&str, u64)]) -> Listing {
        let object =
            |(name, state): &(&str, u64)| ((Name::default(), Name::from(*name)), vec![version(name, *state)]);
        Listing {
            resource_version: resource_version.to_string().into(),
            objects: namespaces.iter().map(object).collect(),
        }
    }

    fn forest() -> Forest {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        Forest::new(Arc::new(settings), vec![Kind::role()]).matching()
    }

    fn tell(forest: &mut Forest, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            forest.apply(fact);
        }
    }

    #[test]
    fn nothing_is_planned_before_the_structure_has_caught_up_with_each_list() {
        let mut forest = forest();
        let is_planned = |forest: &Forest| !plan(forest, "a", &Scope::whole()).is_empty();
        tell(
            &mut forest,
            [
                Fact::Definitions(Definition::Here),
                Fact::Namespaces(vec![namespace("a", 5)]),
                Fact::Hierarchies(vec![]),
                Fact::Anchors(vec![]),
            ],
        );
        assert!(
            forest.structure_gap().is_none() && !is_planned(&forest),
            "these lists may be of different moments"
        );
        let structure = forest.unmatched();
        let kind = forest.kind_named("rbac.authorization.k8s.io", "Role").unwrap();
        tell(&mut forest, [Fact::Objects(kind, vec![]), Fact::Matched(structure.clone())]);
        assert!(is_planned(&forest) && !forest.is_matched(Stream::Kind(kind)), "of objects nothing was said");
        assert!(forest.apply(Fact::Matched(forest.unmatched())).everything);
        assert!(forest.unmatched().is_empty());

        tell(&mut forest, [Fact::Hierarchies(vec![]), Fact::Matched(structure)]);
        assert!(!is_planned(&forest), "a later list needs another look");
    }

    #[test]
    fn a_stream_has_caught_up_when_it_has_told_of_every_state_and_every_end() {
        let mut forest = forest();
        tell(
            &mut forest,
            [Fact::Namespaces(vec![namespace("a", 5), namespace("gone", 6), namespace("new", 20)])],
        );
        let behind = |forest: &Forest, listing| {
            let lag = forest.lag(Stream::Namespaces, listing);
            !forest.has_made_up(&lag)
        };
        assert!(
            !behind(&forest, listing(10, &[("a", 5), ("gone", 6)])),
            "what is newer than the list says nothing"
        );
        assert!(!behind(&forest, listing(10, &[("a", 4), ("gone", 6)])));
        assert!(behind(&forest, listing(10, &[("a", 7), ("gone", 6)])), "a is older than it should be");
        assert!(behind(&forest, listing(10, &[("a", 5), ("gone", 6), ("b", 8)])), "b is not known");
        let lag = forest.lag(Stream::Namespaces, listing(10, &[("a", 7)]));
        assert!(!forest.has_made_up(&lag));
        tell(&mut forest, [Fact::Namespace(namespace("a", 9))]);
        assert!(!forest.has_made_up(&lag), "one should be gone");
        tell(&mut forest, [Fact::NamespaceGone("gone".into(), "gone".into())]);
        assert!(forest.has_made_up(&lag));
        assert!(!behind(&forest, listing(10, &[("a", 9), ("gone", 6)])), "what was listed has gone since");
    }

    #[test]
    fn of_several_hierarchies_in_one_namespace_any_is_enough() {
        let mut forest = forest();
        let hierarchy = HierarchyFact { version: version("h2", 6), ..HierarchyFact::default() };
        tell(
            &mut forest,
            [Fact::Namespaces(vec![namespace("a", 5)]), Fact::Hierarchies(vec![("a".into(), hierarchy)])],
        );
        let both = vec![version("h1", 7), version("h2", 6)];
        let objects = [((Name::from("a"), Name::default()), both)].into();
        let lag = forest.lag(Stream::Hierarchies, Listing { resource_version: "10".into(), objects });
        assert!(forest.has_made_up(&lag));
    }
}
