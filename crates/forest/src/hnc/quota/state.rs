//! What is known of quotas and derived quotas.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::fact::{DerivedQuotaFact, QuotaFact};
use super::sources;
use crate::core::change::Change;
use crate::core::name::Name;
use crate::core::store::Store;
use crate::core::stream::Stream;
use crate::core::tree::{ById, Id};

/// The quotas in a namespace, by name.
pub(crate) type Quotas = BTreeMap<Name, QuotaFact>;

/// The known quotas, and the derived quotas of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    quotas: ById<Quotas>,
    derived: ById<DerivedQuotaFact>,
    /// The last states of those that were deleted. Objects may stay long in a namespace that is being deleted.
    ended: ById<DerivedQuotaFact>,
    /// The namespaces whose derived quota names a quota, `NAMESPACE/NAME`, as a source.
    members: HashMap<Name, BTreeSet<Id>>,
    /// Everything up to this resource version was reported about derived quotas.
    reported: u64,
}

impl KnownQuotas {
    pub(crate) fn of(&self, id: Id) -> &Quotas {
        static NONE: Quotas = Quotas::new();
        self.quotas.get(id).unwrap_or(&NONE)
    }

    pub(crate) fn derived(&self, id: Id) -> Option<&DerivedQuotaFact> {
        self.derived.get(id)
    }

    /// The last state of a derived quota that was deleted, until there is another one or the namespace is gone.
    pub(crate) fn ended(&self, id: Id) -> Option<&DerivedQuotaFact> {
        self.ended.get(id)
    }

    /// All quotas.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Id, &QuotaFact)> {
        self.quotas.iter().flat_map(|(id, quotas)| quotas.values().map(move |quota| (id, quota)))
    }

    /// The namespaces whose derived quota names this quota, `NAMESPACE/NAME`, as a source.
    pub(crate) fn members(&self, quota: &str) -> impl Iterator<Item = Id> {
        self.members.get(quota).into_iter().flatten().copied()
    }

    pub(crate) fn reported(&self) -> u64 {
        self.reported
    }

    pub(crate) fn observe(
        &mut self,
        store: &mut Store,
        namespace: &Name,
        fact: QuotaFact,
        change: &mut Change,
    ) {
        let known = store.id(namespace).and_then(|id| self.of(id).get(&fact.name));
        if known.is_some_and(|known| fact.version.is_same_or_older_than(&known.version)) {
            return;
        }
        let touched = match known {
            Some(known) if known.hard != fact.hard => Touched::Limits,
            Some(known)
                if sources::shows_other_limits(known, &fact)
                    || known.status.says_enforced() != fact.status.says_enforced() =>
            {
                Touched::Annotations
            }
            Some(_) => Touched::Sums,
            None => Touched::Limits,
        };
        let is_new = known.is_none();
        let id = if is_new { store.tree.pin(namespace) } else { store.id(namespace).expect("it is pinned") };
        match self.quotas.get_mut(id) {
            Some(quotas) => drop(quotas.insert(fact.name.clone(), fact)),
            None => drop(self.quotas.insert(id, Quotas::from([(fact.name.clone(), fact)]))),
        }
        touch(store, id, touched, change);
    }

    pub(crate) fn gone(
        &mut self,
        store: &mut Store,
        namespace: &str,
        name: &Name,
        uid: &str,
        change: &mut Change,
    ) {
        store.departed(uid);
        let Some(id) = store.id(namespace) else { return };
        let Some(quotas) = self.quotas.get_mut(id) else { return };
        if quotas.get(name).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        quotas.remove(name);
        if quotas.is_empty() {
            self.quotas.remove(id);
        }
        touch(store, id, Touched::Limits, change);
        store.tree.unpin(id);
    }

    pub(crate) fn list(&mut self, store: &mut Store, all: Vec<(Name, QuotaFact)>, change: &mut Change) {
        store.listed(Stream::HIERARCHICAL_QUOTAS, all.iter().map(|(_, seen)| &*seen.version.uid), change);
        let listed: HashSet<(&str, &str)> =
            all.iter().map(|(namespace, it)| (&**namespace, &*it.name)).collect();
        let known =
            self.all().map(|(id, it)| (store.name(id).clone(), it.name.clone(), it.version.uid.clone()));
        let gone: Vec<_> =
            known.filter(|(namespace, name, _)| !listed.contains(&(namespace, name))).collect();
        for (namespace, name, uid) in gone {
            self.gone(store, &namespace, &name, &uid, change);
        }
        for (namespace, seen) in all {
            self.observe(store, &namespace, seen, change);
        }
    }

    /// Everything up to this resource version was reported about derived quotas.
    pub(crate) fn reported_up_to(&mut self, version: u64) {
        self.reported = self.reported.max(version);
    }

    pub(crate) fn observe_derived(
        &mut self,
        store: &mut Store,
        namespace: &Name,
        fact: DerivedQuotaFact,
        change: &mut Change,
    ) {
        let known = store.id(namespace).and_then(|id| self.derived(id));
        if known.is_some_and(|known| fact.version.is_same_or_older_than(&known.version)) {
            return;
        }
        let id = match known {
            Some(_) => store.id(namespace).expect("it is pinned"),
            None => store.tree.pin(namespace),
        };
        self.forget_ended(store, id, &fact.sources);
        for source in sources::names(&fact.sources) {
            self.members.entry(source.into()).or_default().insert(id);
        }
        let awaited = |it: &DerivedQuotaFact| (it.hard_in_force.clone(), it.has_scopes);
        let (new, sources) = (awaited(&fact), fact.sources.clone());
        let old = self.derived.insert(id, fact);
        if let Some(old) = &old {
            self.forget_members(id, &old.sources, &sources);
        }
        if old.is_none_or(|old| awaited(&old) != new) {
            // Bindings wait for limits that are not in force.
            change.whole(namespace.clone());
        }
        touch(store, id, Touched::Sums, change);
    }

    /// `version` is the resource version of the deletion.
    pub(crate) fn derived_gone(
        &mut self,
        store: &mut Store,
        namespace: &str,
        uid: &str,
        version: u64,
        change: &mut Change,
    ) {
        self.reported_up_to(version);
        store.departed(uid);
        let Some(id) = store.id(namespace) else { return };
        if self.derived(id).is_none_or(|known| *known.version.uid != *uid) {
            return;
        }
        change.whole(namespace.into());
        touch(store, id, Touched::Sums, change);
        let Some(old) = self.derived.remove(id) else { return };
        if store.namespace(id).is_some() {
            self.ended.insert(id, *old);
        } else {
            self.forget_members(id, &old.sources, "");
            store.tree.unpin(id);
        }
    }

    /// A namespace is being forgotten.
    pub(crate) fn namespace_gone(&mut self, store: &mut Store, id: Id, change: &mut Change) {
        if self.ended(id).is_some() {
            touch(store, id, Touched::Sums, change);
            self.forget_ended(
                store,
                id,
                self.derived(id).map(|it| it.sources.clone()).as_deref().unwrap_or_default(),
            );
        }
    }

    fn forget_ended(&mut self, store: &mut Store, id: Id, kept: &str) {
        if let Some(old) = self.ended.remove(id) {
            self.forget_members(id, &old.sources, kept);
            store.tree.unpin(id);
        }
    }

    /// The list shows everything up to the resource version `reported`.
    pub(crate) fn list_derived(
        &mut self,
        store: &mut Store,
        all: Vec<(Name, DerivedQuotaFact)>,
        reported: u64,
        change: &mut Change,
    ) {
        store.listed(Stream::DERIVED_QUOTAS, all.iter().map(|(_, seen)| &*seen.version.uid), change);
        let listed: HashSet<&str> = all.iter().map(|(namespace, _)| &**namespace).collect();
        let known = self.derived.iter().map(|(id, it)| (store.name(id).clone(), it.version.uid.clone()));
        let gone: Vec<_> = known.filter(|(namespace, _)| !listed.contains(&**namespace)).collect();
        for (namespace, uid) in gone {
            self.derived_gone(store, &namespace, &uid, 0, change);
        }
        for (namespace, seen) in all {
            self.reported_up_to(seen.number());
            self.observe_derived(store, &namespace, seen, change);
        }
        self.reported_up_to(reported);
    }

    fn forget_members(&mut self, id: Id, old: &str, new: &str) {
        let kept: HashSet<&str> = sources::names(new).collect();
        for source in sources::names(old).filter(|it| !kept.contains(it)) {
            if let Some(members) = self.members.get_mut(source) {
                members.remove(&id);
                if members.is_empty() {
                    self.members.remove(source);
                }
            }
        }
    }
}

/// What a change concerns, beside the quotas of the namespace and those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Nothing else.
    Sums,
    /// What derived quotas say: those of the namespace and of all below.
    Annotations,
    /// Everything in these: bindings wait for derived quotas.
    Limits,
}

fn touch(store: &Store, id: Id, touched: Touched, change: &mut Change) {
    if change.everything {
        return;
    }
    for above in store.tree.place(id) {
        change.quotas(store.name(above).clone());
    }
    if touched == Touched::Sums {
        return;
    }
    let at_and_below = store.tree.at_and_below(id).into_iter();
    at_and_below.map(|it| store.name(it).clone()).for_each(|name| match touched {
        Touched::Limits => change.whole(name),
        _ => change.quotas(name),
    });
}
