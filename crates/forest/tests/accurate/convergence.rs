//! Plans are carried out until there is nothing left to do.

use forest::accurate::plan::{Plan, plan};
use forest::{Fact, Forest, Name, ObjectKey, Scope, plan as hnc_plan};
use proptest::prelude::*;

use super::cluster::Cluster;
use super::draw::{NAMES, Op, Place, any_changes, any_start, tamper};
use super::specification::{check, is_followed};

struct Run {
    cluster: Cluster,
    forest: Forest,
}

fn plans(forest: &Forest) -> Vec<(Name, Plan)> {
    let names = NAMES.iter().map(|name| Name::from(*name));
    names.map(|name| (name.clone(), plan(forest, &name, &Scope::whole()))).collect()
}

impl Run {
    fn start(ops: &[Op]) -> Self {
        let mut cluster = Cluster::default();
        for op in ops {
            op.perform(&mut cluster);
        }
        Self { forest: cluster.forest(), cluster }
    }

    /// Applies facts. A namespace that is not touched keeps its plan. A plan that waits for content is asked for again in any case.
    fn hear(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            let before = plans(&self.forest);
            let told = format!("{fact:?}");
            let change = self.forest.apply(fact);
            for ((name, before), (_, after)) in before.iter().zip(plans(&self.forest)) {
                let is_touched = change.everything || change.namespaces.contains_key(name);
                let waits = !before.unread.is_empty();
                let is_same = before.steps == after.steps
                    && before.unread == after.unread
                    && before.settled == after.settled
                    && before.conflicts == after.conflicts;
                assert!(
                    is_touched || waits || is_same,
                    "{told} changes the plan of {name}: {before:#?} {after:#?}"
                );
            }
        }
    }

    fn read(&mut self) {
        for (_, plan) in plans(&self.forest) {
            for (namespace, key) in plan.unread {
                self.forest.apply(Fact::Object(key.kind, self.cluster.object_fact(&namespace, &key)));
            }
        }
        assert!(plans(&self.forest).iter().all(|(_, plan)| plan.unread.is_empty()), "read in vain");
    }

    /// At any moment, access is no wider than before or after all writes of a plan.
    fn check_access(planned_on: &Cluster, name: &Name, plan: &Plan) {
        let mut cluster = planned_on.clone();
        let mut moments = vec![cluster.access(name)];
        for action in plan.actions() {
            assert!(cluster.perform(name, action).is_some(), "nothing else has changed: {action:?}");
            moments.push(cluster.access(name));
        }
        let (before, after) = (&moments[0], &moments[moments.len() - 1]);
        for moment in &moments {
            assert!(moment.is_subset(before) || moment.is_subset(after), "{name}: {moments:?} by {plan:#?}");
        }
    }

    /// The controller dies after so many writes, and starts again.
    fn die_after(&mut self, writes: usize) {
        self.read();
        let all = plans(&self.forest);
        let writes =
            all.iter().flat_map(|(name, plan)| plan.actions().map(move |it| (name, it))).take(writes);
        for (name, action) in writes {
            self.cluster.perform(name, action);
        }
        self.forest = self.cluster.forest();
    }

    /// All namespaces are planned on the same state, and all writes are made; then they are heard of.
    fn round(&mut self) -> bool {
        self.read();
        let all = plans(&self.forest);
        let planned_on = self.cluster.clone();
        let mut facts = Vec::new();
        for (name, plan) in &all {
            Self::check_access(&planned_on, name, plan);
            let settled = plan.settled.iter().map(|key| Fact::WriteSettled(name.clone(), key.clone()));
            let kept = plan.conflicts.iter().cloned();
            facts.extend(settled.chain(kept.map(|(key, why)| Fact::Conflict(name.clone(), key, why))));
            facts.extend(plan.actions().filter_map(|action| self.cluster.perform(name, action)));
        }
        facts.extend(self.cluster.end_namespaces());
        let is_at_rest = facts.is_empty();
        self.hear(facts);
        assert!(is_at_rest || all.iter().any(|(_, plan)| !plan.is_empty()) || self.ends());
        is_at_rest
    }

    /// Whether a namespace was being deleted.
    fn ends(&self) -> bool {
        NAMES.iter().any(|name| self.cluster.namespaces.get(*name).is_none_or(|seen| seen.terminating))
    }

    fn come_to_rest(&mut self) {
        let before = self.cluster.clone();
        let rounds = (0..40).take_while(|_| !self.round()).count();
        assert!(rounds < 40, "no rest: {:#?}", plans(&self.forest));
        check(&before, &self.cluster);
        self.check_restart();
        self.check_hnc();
    }

    /// After a restart nothing is written. What is kept is noted again.
    fn check_restart(&self) {
        for (name, plan) in plans(&self.cluster.forest()) {
            assert_eq!(
                plan.actions().collect::<Vec<_>>(),
                Vec::<&_>::new(),
                "a restart finds work in {name}"
            );
        }
    }

    /// For HNC these are namespaces without parents: it marks them, and does nothing else.
    fn check_hnc(&self) {
        for name in NAMES {
            let plan = hnc_plan::plan(&self.forest, name, &Scope::whole());
            assert!(
                plan.actions().all(|action| matches!(action, hnc_plan::Action::PatchNamespace { .. })),
                "{plan:#?}"
            );
            assert!(plan.settled.is_empty() && plan.conflicts.is_empty());
        }
    }
}

impl Run {
    /// A user changes or deletes a copy. If it becomes as it was, nothing else has changed.
    fn damage(&mut self, (namespace, key): &(Name, ObjectKey), how: usize) {
        let before = self.cluster.objects.clone();
        let fact = match how {
            7.. => self.cluster.remove_object(namespace, key).unwrap(),
            _ => self.cluster.object(namespace, key, |object| tamper(object, how)),
        };
        self.hear(vec![fact]);
        self.come_to_rest();
        let mut after = self.cluster.objects.clone();
        let place = (namespace.clone(), key.clone());
        let (Some(repaired), old) = (after.get_mut(&place), &before[&place]) else { return };
        repaired.version = old.version.clone();
        if repaired == old {
            assert_eq!(after, before, "only {place:?} was damaged, by {how}");
        }
    }
}

fn converges(start: &[Op], changes: Vec<(Vec<Op>, Option<usize>)>) {
    let mut run = Run::start(start);
    run.come_to_rest();
    for (ops, dies_after) in changes {
        let facts = ops.iter().filter_map(|op| op.perform(&mut run.cluster)).collect();
        run.hear(facts);
        if let Some(writes) = dies_after {
            run.die_after(writes);
        }
        run.come_to_rest();
    }
}

/// Rare in random runs.
#[test]
fn rare_worlds_converge() {
    let below = |at: usize, parent: usize| Op::Place(at, Place::Parent(parent));
    let started = |more: Vec<Op>| -> Vec<Op> {
        (0..NAMES.len()).map(|at| Op::Place(at, Place::Normal)).chain(more).collect()
    };
    // A namespace of a cycle is deleted, and a SubNamespace below it has its name.
    let cycle = [below(1, 0), Op::Form(1, 4, None), below(4, 1), below(0, 4), Op::DeleteNamespace(4)];
    converges(&started(cycle.into()), vec![]);
    // The source of a copy goes when the namespace of the copy already has another parent, which is missing.
    let chain = [Op::Place(1, Place::Root), below(3, 1), below(0, 3), Op::Object(1, (2, 0), 3, 0, 0)];
    let moves = vec![Op::DeleteNamespace(5), below(0, 5)];
    converges(&started(chain.into()), vec![(moves, None), (vec![Op::DeleteNamespace(3)], None)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_lead_to_what_the_specification_says(
        start in any_start(),
        changes in prop::collection::vec(any_changes(), 0..5),
    ) {
        converges(&start, changes);
    }

    #[test]
    fn damage_to_a_copy_is_repaired_where_it_is(start in any_start(), which in any::<prop::sample::Index>(), how in 0..8usize) {
        let mut run = Run::start(&start);
        run.come_to_rest();
        let copies = run.cluster.objects.iter().filter(|(_, object)| is_followed(object)).map(|(place, _)| place);
        let copies: Vec<_> = copies.cloned().collect();
        if !copies.is_empty() {
            run.damage(which.get(&copies), how);
        }
    }
}
