//! A cluster on paper with its users, the forest that follows it, and both controllers at work until nothing is left to do.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use forest::configuration::{Entry, Served, ServedKind, resolve};
use forest::plan::{Action, plan};
use forest::{Change, Fact, Forest, Name, ObjectKey, Scope, Settings, Stream};

use super::access::{Rights, USERS};
use super::places::Places;
use crate::cluster::{Cluster, kinds, settings};

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) forest: Forest,
    /// What the `HNCConfiguration` says.
    pub(crate) entries: Vec<Entry>,
    /// What each user may do everywhere.
    pub(crate) cluster_wide: [Rights; USERS.len()],
    /// Whether the creator of a subnamespace becomes its admin.
    pub(crate) initial_admin: bool,
    /// The objects that were no copies and that the controller has replaced or deleted.
    pub(crate) taken: Vec<(Name, ObjectKey)>,
    /// The namespaces in which an object with a finalizer is.
    pub(crate) held: BTreeSet<Name>,
    /// Whether no controller of ours runs.
    pub(crate) is_stopped: bool,
    /// Where the namespaces belong.
    pub(crate) places: Places,
    touched: Change,
}

/// What the API server serves.
pub(crate) fn served() -> Served {
    let served = |kind: &forest::Kind| ServedKind {
        kind: kind.clone(),
        singular: kind.kind.to_lowercase(),
        short_names: vec![],
        namespaced: true,
        verbs: ["create", "delete", "get", "list", "update", "watch"].map(str::to_owned).into(),
    };
    Served { kinds: kinds().iter().map(|(_, kind)| served(kind)).collect(), ..Served::default() }
}

fn shared_settings(initial_admin: bool) -> Arc<Settings> {
    static SETTINGS: LazyLock<[Arc<Settings>; 2]> = LazyLock::new(|| {
        [None, Some("admin")].map(|role| {
            let mut settings = settings();
            settings.initial_admin = role.map(Box::from);
            Arc::new(settings)
        })
    });
    SETTINGS[usize::from(initial_admin)].clone()
}

impl World {
    pub(crate) fn new(cluster_wide: [Rights; USERS.len()], initial_admin: bool) -> Self {
        let all = kinds().iter().map(|(_, kind)| kind.clone()).collect();
        let mut world = Self {
            cluster: Cluster::default(),
            forest: Forest::new(shared_settings(initial_admin), all),
            entries: Vec::new(),
            cluster_wide,
            initial_admin,
            taken: Vec::new(),
            held: BTreeSet::new(),
            is_stopped: false,
            places: Places::default(),
            touched: Change::default(),
        };
        world.tell_structure();
        world.configure(&[]);
        world
    }

    pub(crate) fn hear(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            self.touched.merge(self.forest.apply(fact));
        }
    }

    fn tell_structure(&mut self) {
        let lists =
            [self.cluster.list_namespaces(), self.cluster.list_hierarchies(), self.cluster.list_anchors()];
        self.hear(lists);
    }

    pub(crate) fn configure(&mut self, entries: &[Entry]) {
        self.entries = entries.to_vec();
        let entries: Vec<_> = entries.iter().cloned().map(Ok).collect();
        let resolution = resolve(&entries, &served());
        self.hear([Fact::Kinds(resolution.settings().cloned().collect())]);
        let ids: Vec<_> = self.forest.kinds().map(|(id, _)| id).collect();
        for id in ids
            .into_iter()
            .filter(|id| !self.forest.stream(Stream::Kind(*id)).is_synced())
            .collect::<Vec<_>>()
        {
            self.hear([self.cluster.list_objects(id)]);
        }
    }

    pub(crate) fn hold(&mut self, namespace: &str, holds: bool) {
        if holds {
            self.held.insert(namespace.into());
        } else {
            self.held.remove(namespace);
        }
    }

    /// Lets both controllers work until neither finds anything to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            if self.is_stopped {
                while self.clean_up() {}
                return self.places.update(&self.cluster, self.is_stopped);
            }
            let touched = std::mem::take(&mut self.touched);
            let names: BTreeSet<Name> = if touched.everything {
                self.cluster.mentioned()
            } else {
                touched.namespaces.into_keys().collect()
            };
            for name in &names {
                self.reconcile(name);
            }
            if self.touched.is_empty() && !self.clean_up() {
                return self.places.update(&self.cluster, self.is_stopped);
            }
        }
        unreachable!("no rest: {:#?}", self.cluster);
    }

    /// One turn of the namespace controller in every namespace that is going.
    fn clean_up(&mut self) -> bool {
        let going = self.cluster.namespaces.values().filter(|seen| seen.terminating);
        let going: Vec<Name> = going.map(|seen| seen.name.clone()).collect();
        let found = going.iter().fold(false, |found, name| {
            self.cluster.empty(name)
                | (!self.held.contains(name) && self.cluster.remove_if_empty(name))
                | found
        });
        if found {
            self.tell_structure();
            let ids: Vec<_> = self.forest.kinds().map(|(id, _)| id).collect();
            self.hear(ids.into_iter().map(|id| self.cluster.list_objects(id)).collect::<Vec<_>>());
        }
        found
    }

    fn reconcile(&mut self, name: &Name) {
        for _ in 0..20 {
            let mut planned = plan(&self.forest, name, &Scope::whole());
            if !planned.unread.is_empty() {
                let read = planned.unread.iter();
                let read: Vec<Fact> = read.map(|(at, key)| self.cluster.object_fact(at, key)).collect();
                self.hear(read);
                planned = plan(&self.forest, name, &Scope::whole());
            }
            let settled = planned.settled.iter().map(|key| Fact::WriteSettled(name.clone(), key.clone()));
            let conflicts = planned.conflicts.iter();
            let conflicts =
                conflicts.map(|(key, why)| Fact::Conflict(name.clone(), key.clone(), why.clone()));
            self.hear(settled.chain(conflicts).collect::<Vec<_>>());
            if planned.actions().all(|action| self.perform(name, action)) {
                return;
            }
        }
        unreachable!("{name} is never as planned: {:#?}", self.cluster);
    }

    /// Whether what was planned could be done; what has changed by an earlier write is planned again.
    fn perform(&mut self, name: &Name, action: &Action) -> bool {
        if let Action::ReplaceCopy { key, .. } | Action::DeleteCopy { key, .. } = action {
            let place = (name.clone(), key.clone());
            if self.cluster.objects.get(&place).is_some_and(|object| object.inherited_from.is_none()) {
                self.taken.push(place);
            }
        }
        let written = self.cluster.perform(name, action);
        let done = written.is_ok();
        self.hear(written);
        done
    }
}
