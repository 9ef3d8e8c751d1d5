//! The exported metrics of the reconcilers.

use prometheus::TextEncoder;

use super::*;
use crate::fake::{World, copy, secret, secrets_kind};

fn registered(suppressed: bool) -> (Reconcilers, Registry) {
    let registry = Registry::new();
    (Reconcilers::register(&registry, suppressed).unwrap(), registry)
}

/// The metrics that are not zero, without the common prefix of their names.
fn shown(registry: &Registry) -> Vec<String> {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let metrics = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
    metrics.map(|line| line.trim_start_matches("hnc_reconcilers_").to_owned()).collect()
}

fn pass(structure: bool, objects: &[(Kind, u64)]) -> Pass {
    let forest = Forest::new(
        Arc::new(forest::Settings::new("hnc-system", [""; 0], ".*").unwrap()),
        objects.iter().map(|(kind, _)| kind.clone()).collect(),
    );
    let ids = forest.kinds().map(|(id, _)| id);
    Pass { structure, objects: ids.zip(objects.iter().cloned()).collect() }
}

#[test]
fn metrics_are_by_kind_or_summed() {
    let objects = [(Kind::role(), 2), (secrets_kind(), 3)];
    for (suppressed, wanted) in [
        (
            false,
            vec![
                "object_concurrent_peak{GroupKind=\"Role.rbac.authorization.k8s.io\"} 2",
                "object_concurrent_peak{GroupKind=\"Secret\"} 2",
                "object_total{GroupKind=\"Role.rbac.authorization.k8s.io\"} 4",
                "object_total{GroupKind=\"Secret\"} 6",
            ],
        ),
        (true, vec!["object_concurrent_peak{GroupKind=\"\"} 4", "object_total{GroupKind=\"\"} 10"]),
    ] {
        let (reconcilers, registry) = registered(suppressed);
        let both = [reconcilers.start(pass(false, &objects)), reconcilers.start(pass(false, &objects))];
        drop(both);
        assert_eq!(shown(&registry), wanted);
    }
}

#[test]
fn every_metric_is_exported_from_the_start_when_kinds_are_suppressed() {
    let (_, registry) = registered(true);
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let peak = |of: &str| format!("# TYPE hnc_reconcilers_{of}_concurrent_peak gauge\n");
    let counter = |of: &str| format!("# TYPE hnc_reconcilers_{of}_total counter\n");
    let counters = ["hierconfig", "hierconfig_hierconfig_writes", "hierconfig_namespace_writes"];
    let of_objects = ["object", "object_writes", "object_overwrites"];
    let wanted = counters.into_iter().chain(of_objects).map(counter);
    for line in wanted.chain([peak("hierconfig"), peak("object")]) {
        assert!(text.contains(&line), "{line}{text}");
    }
    for name in of_objects {
        assert!(text.contains(&format!("hnc_reconcilers_{name}_total{{GroupKind=\"\"}} 0\n")), "{text}");
    }
}

#[test]
fn passes_over_the_structure_are_counted_after_they_end() {
    let (reconcilers, registry) = registered(true);
    for _ in 0..3 {
        drop(reconcilers.start(pass(true, &[])));
    }
    assert_eq!(shown(&registry), ["hierconfig_concurrent_peak 1", "hierconfig_total 3"]);
}

#[test]
fn a_pass_includes_existing_and_planned_objects() {
    let created = World::of(&[secret("root", "1", "10", "new")]);
    let known = World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "new")]);
    for world in [created, known] {
        let (namespace, scope, plan) = world.plan();
        let pass = world.forest.read(|forest| Pass::of(forest, &namespace, &scope, &plan));
        assert!(!pass.structure);
        assert_eq!(pass.objects.values().map(|(_, count)| *count).collect::<Vec<_>>(), [1]);
        let unknown = world.forest.read(|forest| Pass::of(forest, &"nowhere".into(), &Scope::whole(), &plan));
        assert_eq!((unknown.structure, unknown.objects.len()), (false, 0));
    }
}

#[test]
fn only_a_write_that_loses_content_is_an_overwrite() {
    let source = || secret("root", "1", "10", "new");
    let mut from_elsewhere = copy("2", "11", "new");
    from_elsewhere["metadata"]["labels"]["hnc.x-k8s.io/inherited-from"] = "elsewhere".into();
    let table = [
        ("a creation", vec![source()], false),
        ("an object that is not a copy", vec![source(), secret("leaf", "2", "11", "own")], true),
        ("a copy with other content", vec![source(), copy("2", "11", "old")], true),
        ("a copy with only another source namespace", vec![source(), from_elsewhere], false),
        ("a copy that is deleted", vec![copy("2", "11", "old")], false),
    ];
    for (what, secrets, overwrites) in table {
        let world = World::of(&secrets).overwriting();
        let (namespace, _, plan) = world.plan();
        let (reconcilers, registry) = registered(true);
        for action in plan.actions() {
            world.forest.read(|forest| reconcilers.count_write(forest, &namespace, action));
        }
        let overwritten = overwrites.then_some("object_overwrites_total{GroupKind=\"\"} 1");
        let wanted = overwritten.into_iter().chain(["object_writes_total{GroupKind=\"\"} 1"]);
        assert_eq!(shown(&registry), wanted.collect::<Vec<_>>(), "{what}");
    }
}
