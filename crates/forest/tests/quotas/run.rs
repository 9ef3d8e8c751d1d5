//! A controller on paper: it plans what was touched, and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use forest::plan::{Action, HncAction, Plan, plan};
use forest::{Change, Fact, Forest, Name, Scope};

use crate::cluster::{Cluster, forest_with, note_conflicts, settings};

/// A forest that knows nothing yet, where quotas are enabled.
pub(super) fn empty_forest() -> Forest {
    let mut settings = settings();
    settings.hierarchical_quotas = true;
    forest_with(Arc::new(settings))
}

/// The complete lists of a cluster.
pub(super) fn lists(cluster: &Cluster) -> Vec<Fact> {
    let quotas = [cluster.list_quotas(), cluster.list_derived(), cluster.configuration()];
    cluster.lists().into_iter().chain(quotas).collect()
}

pub(super) fn afresh(cluster: &Cluster) -> Forest {
    let mut forest = empty_forest();
    for fact in lists(cluster) {
        forest.apply(fact);
    }
    note_conflicts(&mut forest);
    forest
}

pub(super) struct Run {
    pub(super) cluster: Cluster,
    pub(super) forest: Forest,
    due: HashMap<Name, Scope>,
    /// Whether everything that is told is compared with what it touches.
    pub(super) checks_changes: bool,
}

/// The plans of all namespaces.
type Plans = HashMap<Name, Plan>;

impl Run {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, forest: empty_forest(), due: HashMap::new(), checks_changes: false }
    }

    /// A run in which everything is known and done.
    pub(super) fn at_rest(cluster: Cluster) -> Self {
        let mut run = Self::new(cluster);
        let facts = lists(&run.cluster);
        run.hear(facts);
        run.come_to_rest();
        run
    }

    pub(super) fn hear(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            let before = self.checks_changes.then(|| self.plans());
            let change = self.forest.apply(fact.clone());
            if let Some(before) = before {
                self.check_change(&fact, &before, &change);
            }
            if change.everything {
                let names: Vec<Name> = self.forest.names().cloned().collect();
                self.due.extend(names.into_iter().map(|name| (name, Scope::whole())));
            }
            for (name, scope) in change.namespaces {
                self.due.entry(name).or_default().merge(scope);
            }
        }
    }

    fn plans(&self) -> Plans {
        self.forest.names().map(|name| (name.clone(), plan(&self.forest, name, &Scope::whole()))).collect()
    }

    /// What is not touched is planned as before.
    fn check_change(&self, fact: &Fact, before: &Plans, change: &Change) {
        if change.everything {
            return;
        }
        let (after, none) = (self.plans(), Plan::default());
        // A plan is not complete before the sources that it needs are read.
        let reads = |plans: &Plans, name: &Name| plans.get(name).is_some_and(|plan| !plan.unread.is_empty());
        let is_complete = |name: &&Name| !reads(before, name) && !reads(&after, name);
        for name in before.keys().chain(after.keys()).filter(is_complete) {
            let scope = change.namespaces.get(name).cloned().unwrap_or_default();
            let untouched = |plans: &Plans| outside(&scope, plans.get(name).unwrap_or(&none));
            assert_eq!(
                untouched(before),
                untouched(&after),
                "{name} after {fact:?}, which touched {change:?}"
            );
        }
    }

    /// Carries out what is due, as a controller does, until nothing is.
    pub(super) fn come_to_rest(&mut self) {
        for _ in 0..40 {
            let due = std::mem::take(&mut self.due);
            for (name, scope) in due {
                self.work(&name, &scope);
            }
            let counted = self.cluster.count();
            self.hear(counted);
            let enforced = self.cluster.enforce();
            self.hear(enforced);
            if self.due.is_empty() {
                return;
            }
        }
        panic!("no rest, but {:#?}", self.due);
    }

    fn work(&mut self, name: &Name, scope: &Scope) {
        let plan = plan(&self.forest, name, scope);
        let read: Vec<Fact> = plan.unread.iter().map(|(at, key)| self.cluster.object_fact(at, key)).collect();
        if !read.is_empty() {
            self.hear(read);
            self.due.entry(name.clone()).or_default().merge(scope.clone());
            return;
        }
        let settled = plan.settled.iter().map(|key| Fact::WriteSettled(name.clone(), key.clone()));
        let kept = plan.conflicts.iter();
        let kept = kept.map(|(key, why)| Fact::Conflict(name.clone(), key.clone(), why.clone()));
        self.hear(settled.chain(kept));
        for action in plan.actions() {
            match self.cluster.perform(name, action) {
                Ok(fact) => self.hear([fact]),
                Err(_) => self.due.entry(name.clone()).or_default().merge(scope.clone()),
            }
        }
    }

    /// Checks the end, and that a start would find nothing to do.
    pub(super) fn check(&self) {
        self.cluster.check_quotas();
        let afresh = afresh(&self.cluster);
        for (forest, is_new) in [(&self.forest, false), (&afresh, true)] {
            for name in forest.names() {
                let left = plan(forest, name, &Scope::whole());
                // A conflict in a namespace that is being deleted is not known after a start.
                let report = left.report.iter().filter(|_| !is_new);
                let steps = left.steps.iter().flat_map(|step| &step.actions);
                let writes: Vec<&Action> = report.chain(&left.quota_statuses).chain(steps).collect();
                assert!(writes.is_empty(), "{name}: {writes:#?}");
            }
        }
    }
}

/// The writes of a plan that a scope does not include.
fn outside(scope: &Scope, plan: &Plan) -> Vec<String> {
    let is_outside = |action: &&Action| match action {
        Action::Dialect(
            HncAction::WriteDerivedQuota { .. }
            | HncAction::DeleteDerivedQuota { .. }
            | HncAction::FreeDerivedQuota { .. }
            | HncAction::UpdateQuotaStatus { .. },
        ) => !scope.quotas,
        action => action.key().map_or(!scope.structure, |key| !scope.objects.includes(key)),
    };
    let mut writes: Vec<String> = plan.actions().filter(is_outside).map(|it| format!("{it:?}")).collect();
    writes.sort();
    writes
}
