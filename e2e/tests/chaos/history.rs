//! What should have been, and when; and what that says about an event that was seen.
//!
//! One user acts at a time and waits for each answer, so at every moment the specification gives one state, or, while a
//! request is under way, two. The controller may act on any state since the last calm: a calm is a moment at which the
//! cluster had been equal to the specification for a while, so that nothing older was still on its way.
//!
//! A copy may go when its source did not go there in one of these states: because the source was deleted, or is another
//! one by now, or says so, or because the tree or the mode is another. An object that cannot be changed (an immutable
//! Secret, a binding's `roleRef`) differs from its source only once the source itself was deleted and created anew, in
//! between which it did not exist: that deletion needs no excuse here, and that the new copy comes is what the next calm
//! shows. There are two excuses. An immutable object whose source was created anew while nothing was done about its kind makes way
//! for the new copy once something is done again: no update makes the new one of it. And a binding that changes while a role in its
//! namespace changes must go first and come again last, or its old subjects would have the new rules for a moment. It is told from
//! a loss by what the specification says: in one of the states the binding differed from the one deleted, and the roles there were
//! not the same in all of them.
//!
//! The modes come by a watch of their own, and may be known a moment later than what a user did after switching them. So what
//! is written may be what one of the modes since the last calm makes of a later state; of a kind that is then left alone it
//! stays. And what is deleted may be what one of these modes lets no source go to in a later state: who says of a source that
//! it goes nowhere, right after having said that its kind is left alone, may see its copies go.
//!
//! The Roles that bindings go by come by a watch of their own as well. So a binding may be written by what its Role was in one state
//! and everything else is in another; that it goes again the next calm shows.
//!
//! Nothing else excuses a deletion; not that the object came again, not that the controller had just been killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::kind::{Form, Kind};
use super::observer::Event;
use super::specification::{Key, Mode, Wanted, World, inherited_from};

/// All states, in their order.
#[derive(Default)]
pub(crate) struct History {
    states: Vec<State>,
    calms: Vec<Calm>,
    /// All since the last calm.
    modes: BTreeSet<(Kind, Mode)>,
}

struct State {
    from: Instant,
    /// Still, when absent.
    until: Option<Instant>,
    world: World,
    wanted: BTreeMap<Key, Wanted>,
    /// What should be of a kind if it were still in a mode that it was in before.
    late: Vec<(Kind, BTreeMap<Key, Wanted>)>,
}

struct Calm {
    at: Instant,
    copies: BTreeMap<Key, Form>,
}

/// What an event was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// A copy appeared or changed as it should.
    Written,
    /// A copy went as it should.
    Removed,
    /// A binding or an immutable object made way for another one.
    Replaced,
    /// A user's own object came, changed, went, or was overwritten.
    Own,
    /// What must not happen.
    Wrong(String),
}

impl History {
    /// The world is like this, possibly since `from`.
    pub(crate) fn push(&mut self, from: Instant, world: World) {
        self.follow(Instant::now(), from, world);
    }

    /// The last state is over at `until`, and the next began at `from`.
    fn follow(&mut self, until: Instant, from: Instant, world: World) {
        if let Some(last) = self.states.last_mut() {
            last.until = Some(until);
        }
        let now = Kind::CONFIGURED.map(|kind| (kind, world.mode(kind)));
        self.modes.extend(now);
        let acts = |mode: &Mode| !matches!(mode, Mode::Ignore | Mode::Dropped);
        let before = self.modes.iter().filter(|it| !now.contains(it) && acts(&it.1));
        let late = before.map(|(kind, mode)| (*kind, world.in_mode(*kind, *mode).wanted())).collect();
        let wanted = world.wanted();
        self.states.push(State { from, until: None, world, wanted, late });
    }

    /// The modes that may be taken to be in force.
    pub(crate) fn modes(&self) -> &BTreeSet<(Kind, Mode)> {
        &self.modes
    }

    /// At this time the copies were these, and as they should.
    pub(crate) fn calm(&mut self, at: Instant, copies: BTreeMap<Key, Form>) {
        self.calms.push(Calm { at, copies });
        if let Some(last) = self.states.last() {
            self.modes.clear();
            self.follow(at, at, last.world.clone());
        }
    }

    pub(crate) fn calms(&self) -> usize {
        self.calms.len()
    }

    /// When it was calm last before this time.
    pub(crate) fn calm_before(&self, at: Instant) -> Option<Instant> {
        self.calms.iter().map(|calm| calm.at).take_while(|calm| *calm <= at).last()
    }

    /// Every state that the controller may have acted on at this time.
    fn states(&self, at: Instant) -> impl Iterator<Item = &State> {
        let calm = self.calm_before(at);
        let recent = move |state: &&State| match (calm, state.until) {
            (Some(calm), Some(until)) => until > calm,
            _ => true,
        };
        self.states.iter().filter(move |state| state.from <= at).filter(recent)
    }

    /// What may stand here now, of a kind that nothing is done about: what stood here when it was last calm, or what should
    /// have since, before nothing was done any more.
    pub(crate) fn may_be(&self, key: &Key, found: Option<&Form>) -> bool {
        let mut since = self.states(Instant::now()).flat_map(|state| state.made_of(key));
        let before = self.calms.last().and_then(|calm| calm.copies.get(key));
        found == before || since.any(|wanted| wanted.map(|it| &it.form) == found)
    }

    /// What the event was.
    pub(crate) fn judge(&self, event: &Event, names: &BTreeSet<&'static str>) -> Verdict {
        let Some(name) = names.get(event.name.as_str()) else {
            return Verdict::Wrong(format!("no object of this name is expected: {event:?}"));
        };
        let key = Key { kind: event.kind, namespace: event.namespace.clone(), name };
        let states: Vec<&State> = self.states(event.at).collect();
        match inherited_from(&event.form) {
            None if event.deleted && states.iter().all(|state| state.has_own(&key, &event.form)) => {
                Verdict::Wrong(format!("a user's own {key} is gone"))
            }
            None => Verdict::Own,
            Some(source) if event.deleted => removal(&states, &key, source, event),
            Some(source) => written(&states, &key, source, event),
        }
    }
}

impl State {
    /// The source of the copy that should be here; nothing when none should.
    fn source(&self, key: &Key) -> Option<(&str, u64)> {
        self.wanted.get(key).map(|wanted| (wanted.source.as_str(), wanted.incarnation))
    }

    /// As [`State::source`], in each mode that it was in before and that may still be taken to be in force.
    fn late_sources(&self, key: &Key) -> impl Iterator<Item = Option<(&str, u64)>> {
        let late = self.late.iter().filter(|(kind, _)| *kind == key.kind);
        late.map(|(_, wanted)| wanted.get(key).map(|wanted| (wanted.source.as_str(), wanted.incarnation)))
    }

    /// What may be made of it here in any mode that may be in force; nothing where nothing is done.
    fn made_of(&self, key: &Key) -> impl Iterator<Item = Option<&Wanted>> {
        let now = (!self.world.is_frozen(key.kind)).then(|| self.wanted.get(key));
        let late = self.late.iter().filter(|(kind, _)| *kind == key.kind);
        now.into_iter().chain(late.map(|(_, wanted)| wanted.get(key)))
    }

    fn has_own(&self, key: &Key, form: &Form) -> bool {
        self.world.own.get(key).is_some_and(|own| own.form(key.kind) == *form)
    }

    fn roles(&self, namespace: &str) -> BTreeMap<&str, &serde_json::Value> {
        let roles =
            self.wanted.iter().filter(|(key, _)| key.kind == Kind::Role && key.namespace == namespace);
        roles.map(|(key, wanted)| (key.name, &wanted.form.body)).collect()
    }
}

fn removal(states: &[&State], key: &Key, source: &str, event: &Event) -> Verdict {
    let active: Vec<_> = states.iter().filter(|state| !state.world.is_frozen(key.kind)).collect();
    let in_force = active.iter().map(|state| state.source(key));
    let sources: BTreeSet<_> =
        in_force.chain(states.iter().flat_map(|state| state.late_sources(key))).collect();
    let throughout =
        sources.len() <= 1 && sources.iter().flatten().all(|(namespace, _)| *namespace == source);
    if !throughout || sources.contains(&None) {
        return Verdict::Removed;
    }
    let roles: BTreeSet<_> =
        active.iter().map(|state| format!("{:?}", state.roles(&key.namespace))).collect();
    let differs = active
        .iter()
        .any(|state| state.wanted.get(key).is_some_and(|wanted| wanted.form.body != event.form.body));
    let is_immutable = event.form.body["immutable"] == true;
    if differs && (is_immutable || key.kind == Kind::RoleBinding && roles.len() > 1) {
        return Verdict::Replaced;
    }
    Verdict::Wrong(format!(
        "{key} was deleted, though its source in {source:?} went there in each of {} states: {:?}",
        states.len(),
        event.form
    ))
}

fn written(states: &[&State], key: &Key, source: &str, event: &Event) -> Verdict {
    let mut meant = states.iter().flat_map(|state| state.made_of(key)).flatten();
    if meant.any(|wanted| wanted.source == source && wanted.form == event.form) {
        return Verdict::Written;
    }
    if by_other_roles(states, key).any(|wanted| wanted.source == source && wanted.form == event.form) {
        return Verdict::Written;
    }
    let wanted: Vec<_> = states.iter().filter_map(|state| state.wanted.get(key)).collect();
    Verdict::Wrong(format!(
        "{key} was written so in none of {} states: {:?}; {wanted:?}",
        states.len(),
        event.form
    ))
}

/// What should be here by one state, but for the Roles, which are those of another. Only bindings depend on them.
fn by_other_roles(states: &[&State], key: &Key) -> impl Iterator<Item = Wanted> {
    let worlds = || states.iter().map(|state| &state.world).filter(|_| key.kind == Kind::RoleBinding);
    worlds().flat_map(move |world| {
        worlds().filter_map(move |roles| {
            let mut world = world.clone();
            let of_roles = roles.own.iter().filter(|(key, _)| key.kind == Kind::Role);
            world.own.retain(|key, _| key.kind != Kind::Role);
            world.own.extend(of_roles.map(|(key, own)| (key.clone(), own.clone())));
            world.wanted_at(key)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::kind::Content;
    use super::super::operation::{Operation, Sort};
    use super::super::specification::Own;
    use super::*;

    fn key(kind: Kind, namespace: &str) -> Key {
        Key { kind, namespace: namespace.to_owned(), name: "x" }
    }

    fn own(number: u64) -> Own {
        let content = Content { number, immutable: false, role: "x" };
        Own { incarnation: number, content, label: None, remark: None, asks: 0, excluded: false }
    }

    /// A root with one object of each of these kinds, and a leaf.
    fn world(kinds: &[Kind]) -> World {
        let parents = BTreeMap::from([("root".into(), None), ("leaf".into(), Some("root".into()))]);
        let mut world = World { parents, ..World::default() };
        for kind in kinds {
            world.own.insert(key(*kind, "root"), own(1));
        }
        world
    }

    /// The deletion, or the writing, of the copy in the leaf as `world` wants it.
    fn event(world: &World, kind: Kind, deleted: bool) -> Event {
        let form = world.wanted()[&key(kind, "leaf")].form.clone();
        let (namespace, name, uid) = ("leaf".into(), "x".into(), "1".into());
        Event { at: Instant::now(), kind, namespace, name, uid, deleted, form }
    }

    fn judged(history: &History, event: &Event) -> Verdict {
        match history.judge(event, &BTreeSet::from(["x"])) {
            Verdict::Wrong(_) => Verdict::Wrong(String::new()),
            other => other,
        }
    }

    /// What the deletion of the copy in the leaf is, after these operations.
    fn deletion_after(kinds: &[Kind], kind: Kind, operations: &[Operation]) -> Verdict {
        let mut history = History::default();
        let before = world(kinds);
        let mut now = before.clone();
        history.push(Instant::now(), now.clone());
        for operation in operations {
            now = operation.done(&now);
            history.push(Instant::now(), now.clone());
        }
        judged(&history, &event(&before, kind, true))
    }

    #[test]
    fn a_deletion_is_a_loss_unless_the_source_did_not_go_there_for_a_moment() {
        use Kind::{ConfigMap, Role, RoleBinding};
        let wrong = || Verdict::Wrong(String::new());
        let changed = |kind| {
            Operation::Change(Sort::Update, key(kind, "root"), Own { content: own(2).content, ..own(1) })
        };
        let created = |kind| Operation::Create(key(kind, "root"), own(3));
        let deleted = |kind| Operation::Delete(key(kind, "root"));
        let moved = |parent: Option<&str>| Operation::Move("leaf".into(), parent.map(Into::into));
        let mode = |mode| Operation::Mode(ConfigMap, mode);
        for (operations, verdict) in [
            (vec![], wrong()),
            (vec![changed(ConfigMap)], wrong()),
            (vec![deleted(ConfigMap)], Verdict::Removed),
            (vec![deleted(ConfigMap), created(ConfigMap)], Verdict::Removed),
            (vec![moved(None), moved(Some("root"))], Verdict::Removed),
            (vec![mode(Mode::Remove), mode(Mode::Propagate)], Verdict::Removed),
            (vec![mode(Mode::Ignore)], wrong()),
            (vec![mode(Mode::Ignore), deleted(ConfigMap)], Verdict::Removed),
            (vec![mode(Mode::Ignore), changed(ConfigMap)], wrong()),
            (vec![mode(Mode::Dropped), mode(Mode::Propagate)], wrong()),
        ] {
            assert_eq!(deletion_after(&[ConfigMap], ConfigMap, &operations), verdict, "{operations:?}");
        }
        let rbac = [Role, RoleBinding];
        for (operations, verdict) in [
            (vec![changed(RoleBinding)], wrong()),
            (vec![changed(Role)], wrong()),
            (vec![changed(Role), changed(RoleBinding)], Verdict::Replaced),
            (vec![changed(RoleBinding), deleted(Role)], Verdict::Removed),
        ] {
            assert_eq!(deletion_after(&rbac, RoleBinding, &operations), verdict, "{operations:?}");
        }
        assert_eq!(deletion_after(&rbac, Role, &[changed(Role), changed(RoleBinding)]), wrong());
    }

    #[test]
    fn an_immutable_copy_of_a_former_source_makes_way_once_something_is_done_again() {
        let in_root = key(Kind::Secret, "root");
        let holding = |number, immutable| {
            let own = Own { content: Content { immutable, ..own(number).content }, ..own(number) };
            World { own: BTreeMap::from([(in_root.clone(), own)]), ..world(&[]) }
        };
        let replaced = |immutable| {
            let now = holding(2, immutable);
            let mut history = History::default();
            history.push(Instant::now(), now.in_mode(Kind::Secret, Mode::Ignore));
            history.push(Instant::now(), now);
            let deletion = |number| event(&holding(number, immutable), Kind::Secret, true);
            [1, 2].map(|number| judged(&history, &deletion(number)))
        };
        let wrong = || Verdict::Wrong(String::new());
        assert_eq!(replaced(true), [Verdict::Replaced, wrong()]);
        assert_eq!(replaced(false), [wrong(), wrong()]);
    }

    #[test]
    fn a_binding_may_be_written_by_what_its_role_was() {
        let first = world(&[Kind::Role, Kind::RoleBinding]);
        let binding = key(Kind::RoleBinding, "root");
        let stays = Own { excluded: true, ..own(1) };
        let operations = [
            Operation::Change(Sort::Update, key(Kind::Role, "root"), stays),
            Operation::Create(binding.clone(), own(1)),
        ];
        let mut history = History::default();
        let mut now = Operation::Delete(binding).done(&first);
        history.push(Instant::now(), now.clone());
        for operation in operations {
            now = operation.done(&now);
            history.push(Instant::now(), now.clone());
        }
        assert!(now.wanted().is_empty(), "the Role stays, and the binding with it");
        let seen = event(&first, Kind::RoleBinding, false);
        assert_eq!(judged(&history, &seen), Verdict::Written);
        std::thread::sleep(Duration::from_millis(2));
        history.calm(Instant::now(), BTreeMap::new());
        assert_eq!(judged(&history, &event(&first, Kind::RoleBinding, false)), Verdict::Wrong(String::new()));
    }

    #[test]
    fn what_was_before_a_calm_excuses_nothing_after_it() {
        let mut history = History::default();
        let first = world(&[Kind::Secret]);
        let none = Operation::Delete(key(Kind::Secret, "root")).done(&first);
        history.push(Instant::now(), none);
        history.push(Instant::now(), first.clone());
        assert_eq!(judged(&history, &event(&first, Kind::Secret, true)), Verdict::Removed);
        std::thread::sleep(Duration::from_millis(2));
        history.calm(Instant::now(), BTreeMap::new());
        assert_eq!(judged(&history, &event(&first, Kind::Secret, true)), Verdict::Wrong(String::new()));
    }

    #[test]
    fn what_is_written_was_meant_at_some_time() {
        let mut history = History::default();
        let first = world(&[Kind::Widget]);
        history.push(Instant::now(), first.clone());
        let mut seen = event(&first, Kind::Widget, false);
        assert_eq!(judged(&history, &seen), Verdict::Written);
        seen.form.labels.insert("other".into(), "label".into());
        assert_eq!(judged(&history, &seen), Verdict::Wrong(String::new()));
        let frozen = Operation::Mode(Kind::Widget, Mode::Ignore).done(&first);
        let mut history = History::default();
        history.push(Instant::now(), frozen);
        assert_eq!(judged(&history, &event(&first, Kind::Widget, false)), Verdict::Wrong(String::new()));
        assert!(!history.may_be(&key(Kind::Widget, "leaf"), Some(&event(&first, Kind::Widget, false).form)));
    }

    #[test]
    fn what_is_done_right_after_a_switch_may_be_treated_as_before_it_until_it_is_calm() {
        let mut history = History::default();
        let empty = world(&[]);
        history.push(Instant::now(), empty.clone());
        let frozen = Operation::Mode(Kind::Widget, Mode::Ignore).done(&empty);
        history.push(Instant::now(), frozen.clone());
        let late = Operation::Create(key(Kind::Widget, "root"), own(1)).done(&frozen);
        history.push(Instant::now(), late.clone());
        let seen = event(&world(&[Kind::Widget]), Kind::Widget, false);
        let place = key(Kind::Widget, "leaf");
        assert_eq!(judged(&history, &seen), Verdict::Written);
        assert!(history.may_be(&place, Some(&seen.form)) && history.may_be(&place, None));

        std::thread::sleep(Duration::from_millis(2));
        history.calm(Instant::now(), BTreeMap::new());
        history.push(Instant::now(), late);
        assert!(!history.may_be(&place, Some(&seen.form)) && history.may_be(&place, None));
    }

    #[test]
    fn a_users_own_object_stays() {
        let mut history = History::default();
        let first = world(&[Kind::Widget]);
        history.push(Instant::now(), first.clone());
        let mut seen = event(&first, Kind::Widget, true);
        seen.namespace = "root".into();
        seen.form = own(1).form(Kind::Widget);
        assert_eq!(judged(&history, &seen), Verdict::Wrong(String::new()));
        history.push(Instant::now(), Operation::Delete(key(Kind::Widget, "root")).done(&first));
        seen.at = Instant::now();
        assert_eq!(judged(&history, &seen), Verdict::Own);
    }
}
