//! Which problems the recorder reports, and which it does not report again.

use forest::plan::Plan;
use forest::{Fact, Scope, hnc};
use hns_cluster::handle::ForestWriter;
use prometheus::{Registry, TextEncoder};

use super::*;
use crate::fake::{World, copy, secret};

struct TestRecorder {
    world: World,
    recorder: EventRecorder,
    events: mpsc::Receiver<Event>,
    registry: Registry,
}

impl TestRecorder {
    fn new() -> Self {
        let world = World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "old")]);
        let registry = Registry::new();
        let metrics = EventMetrics::register(&registry).unwrap();
        let (recorder, events) = EventRecorder::new(world.forest.clone(), metrics);
        Self { world, recorder, events, registry }
    }

    /// The events since the last call: the namespace and uid of the object, the reason, the message.
    fn sent(&mut self) -> Vec<(String, String, &'static str, String)> {
        let mut sent = Vec::new();
        while let Ok(Event { about, reason, message }) = self.events.try_recv() {
            let uid = about.version.map(|version| version.uid.to_string()).unwrap_or_default();
            sent.push((about.namespace.to_string(), uid, reason, message));
        }
        sent
    }

    fn reasons(&mut self) -> Vec<&'static str> {
        self.sent().into_iter().map(|(_, _, reason, _)| reason).collect()
    }

    fn fail(&self, removal: bool, kind: FailureKind, why: &str) {
        let namespace = Name::from("leaf");
        let source = Name::from("root");
        let key = &self.world.key;
        let source = (!removal).then_some(&source);
        self.recorder.record_failure(&Failure { namespace: &namespace, key, source, removal, why, kind });
    }

    fn complain(&self, uid: &str, message: Option<&str>) {
        let complaint = message.map(|message| Complaint {
            key: self.world.key.clone(),
            version: Version { uid: uid.into(), resource_version: "1".into() },
            reason: ComplaintReason::CannotParseSelector,
            message: message.into(),
        });
        let complaints: Vec<Complaint> = complaint.into_iter().collect();
        self.recorder.record_complaints(&"root".into(), &ObjectScope::All, &complaints);
    }

    fn dropped(&self) -> String {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().find(|line| line.contains("dropped\"")).unwrap().to_owned()
    }
}

const BOTH: [&str; 2] = [CANNOT_PROPAGATE_OBJECT, CANNOT_UPDATE_OBJECT];

#[test]
fn a_failed_write_is_reported_on_the_source_and_on_the_copy() {
    let mut test = TestRecorder::new();
    let event = |namespace: &str, uid: &str, reason, message: &str| {
        (namespace.to_owned(), uid.to_owned(), reason, message.to_owned())
    };
    test.fail(false, FailureKind::Permanent, "it is full.");
    assert_eq!(
        test.sent(),
        [
            event(
                "root",
                "1",
                CANNOT_PROPAGATE_OBJECT,
                "Could not write to destination namespace \"leaf\": it is full."
            ),
            event(
                "leaf",
                "2",
                CANNOT_UPDATE_OBJECT,
                "Could not write from source namespace \"root\": it is full."
            ),
        ]
    );
    test.fail(true, FailureKind::Permanent, "no");
    assert_eq!(
        test.sent(),
        [
            event(
                "root",
                "1",
                CANNOT_PROPAGATE_OBJECT,
                "Could not remove to destination namespace \"leaf\": no."
            ),
            event("leaf", "2", CANNOT_UPDATE_OBJECT, "Could not remove from source namespace \"root\": no."),
        ]
    );
}

#[test]
fn a_source_that_is_gone_gets_no_event() {
    let mut test = TestRecorder::new();
    test.world = World::of(&[copy("2", "11", "old")]);
    test.recorder.forest = test.world.forest.clone();
    test.fail(true, FailureKind::Permanent, "no");
    assert_eq!(test.reasons(), [CANNOT_UPDATE_OBJECT]);
}

#[test]
fn failures_are_reported_once_until_they_change_or_return() {
    enum Step {
        Fails(FailureKind, &'static str),
        Succeeds,
        NotPlanned,
        SourceUnread,
        PlannedAgain,
    }
    use FailureKind::{Permanent, Transient};
    use Step::{Fails, NotPlanned, PlannedAgain, SourceUnread, Succeeds};
    // The steps in order, and whether each is reported.
    let table: &[(&[(Step, bool)], &str)] = &[
        (
            &[(Fails(Permanent, "a"), true), (Fails(Permanent, "a"), false), (Fails(Permanent, "b"), true)],
            "a new text",
        ),
        (&[(Fails(Permanent, "a"), true), (Succeeds, false), (Fails(Permanent, "a"), true)], "after success"),
        (
            &[(Fails(Permanent, "a"), true), (NotPlanned, false), (Fails(Permanent, "a"), true)],
            "not planned any more",
        ),
        (
            &[(Fails(Permanent, "a"), true), (SourceUnread, false), (Fails(Permanent, "a"), false)],
            "while a source is unread",
        ),
        (
            &[(Fails(Permanent, "a"), true), (PlannedAgain, false), (Fails(Permanent, "a"), false)],
            "planned again",
        ),
        (
            &[(Fails(Transient, "a"), false), (Succeeds, false), (Fails(Transient, "a"), false)],
            "one transient failure",
        ),
        (
            &[(Fails(Transient, "a"), false), (Fails(Transient, "b"), true), (Fails(Transient, "c"), false)],
            "several transient failures",
        ),
        (&[(Fails(Transient, "a"), false), (Fails(Permanent, "a"), true)], "from transient to permanent"),
        (
            &[(Fails(Permanent, "a"), true), (Fails(Transient, "x"), false), (Fails(Permanent, "a"), false)],
            "an outage in between",
        ),
    ];
    for (steps, what) in table {
        let mut test = TestRecorder::new();
        for (at, (step, is_reported)) in steps.iter().enumerate() {
            match step {
                Fails(kind, why) => test.fail(false, *kind, why),
                Succeeds => test.recorder.record_success(&"leaf".into(), &test.world.key),
                NotPlanned => {
                    let plan = Plan { scope: Scope::whole(), ..Plan::default() };
                    test.recorder.record_plan(&"leaf".into(), &plan);
                }
                SourceUnread => {
                    let unread = vec![("root".into(), test.world.key.clone())];
                    let plan = Plan { scope: Scope::whole(), unread, ..Plan::default() };
                    test.recorder.record_plan(&"leaf".into(), &plan);
                }
                PlannedAgain => test.recorder.record_plan(&"leaf".into(), &test.world.plan().2),
            }
            let reasons: &[&str] = if *is_reported { &BOTH } else { &[] };
            assert_eq!(test.reasons(), reasons, "{what}: step {at}");
        }
    }
}

#[test]
fn complaints_are_reported_once_until_they_change_or_return() {
    let mut test = TestRecorder::new();
    let rows = [
        ("1", Some("bad"), true),
        ("1", Some("bad"), false),
        ("1", Some("worse"), true),
        ("1", None, false),
        ("1", Some("worse"), true),
        ("2", Some("worse"), true),
    ];
    for (at, (uid, message, is_reported)) in rows.into_iter().enumerate() {
        test.complain(uid, message);
        let reasons: &[&str] = if is_reported { &[CANNOT_PARSE_SELECTOR] } else { &[] };
        assert_eq!(test.reasons(), reasons, "row {at}");
    }
}

#[test]
fn complaints_about_unplanned_objects_stay() {
    let mut test = TestRecorder::new();
    test.complain("1", Some("bad"));
    assert_eq!(test.reasons().len(), 1);
    test.recorder.record_complaints(&"root".into(), &ObjectScope::None, &[]);
    let other = ObjectKey { name: "other".into(), ..test.world.key.clone() };
    test.recorder.record_complaints(&"root".into(), &ObjectScope::Some([other].into()), &[]);
    test.complain("1", Some("bad"));
    assert_eq!(test.reasons().len(), 0);
}

#[test]
fn the_history_has_no_entry_for_deleted_namespaces_and_objects_without_problems() {
    let mut test = TestRecorder::new();
    test.fail(false, FailureKind::Permanent, "a");
    test.complain("1", Some("bad"));
    assert_eq!(test.reasons().len(), 3);
    test.recorder.record_success(&"leaf".into(), &test.world.key);
    test.complain("1", None);
    assert!(test.recorder.history.lock().is_empty());

    test.fail(false, FailureKind::Permanent, "a");
    let empty = Forest::new(test.world.forest.read(Forest::shared_settings), vec![]);
    test.recorder.forest = ForestWriter::new(empty, Box::new(|_| {})).1;
    test.recorder.record_plan(&"leaf".into(), &Plan::default());
    assert!(test.recorder.history.lock().is_empty());
}

#[test]
fn a_derived_quota_that_cannot_be_written_is_reported_on_each_quota_of_the_ancestry_once_for_each_change() {
    let mut test = TestRecorder::new();
    let quota = |namespace: &str, name: &str, uid: &str| {
        let version = Version { uid: uid.into(), resource_version: "1".into() };
        let quota = hnc::quota::QuotaFact { name: name.into(), version, ..hnc::quota::QuotaFact::default() };
        Fact::Hnc(hnc::Fact::Quota(namespace.into(), quota))
    };
    test.world.writer.tell([quota("root", "a", "1"), quota("leaf", "b", "2")]);
    let leaf = Name::from("leaf");
    for (at, (sources, why, kind, is_reported)) in [
        ("s", "no", FailureKind::Permanent, true),
        ("s", "no", FailureKind::Permanent, false),
        ("s", "timeout", FailureKind::Transient, false),
        ("other", "no", FailureKind::Permanent, true),
        ("other", "never", FailureKind::Permanent, true),
    ]
    .into_iter()
    .enumerate()
    {
        test.recorder.record_quota_failure(&leaf, sources, (why, kind));
        let message =
            format!("could not create/update lower-level ResourceQuota in namespace \"leaf\": {why}");
        let on = |namespace: &str, uid: &str| {
            (namespace.to_owned(), uid.to_owned(), CANNOT_WRITE_RESOURCE_QUOTA, message.clone())
        };
        let wanted = if is_reported { vec![on("root", "1"), on("leaf", "2")] } else { vec![] };
        assert_eq!(test.sent(), wanted, "row {at}");
    }
    // A plan that needs no write ends the failure; one for something else does not.
    let plan = |scope| Plan { scope, ..Plan::default() };
    test.recorder.record_plan(&leaf, &plan(Scope::structure()));
    test.recorder.record_quota_failure(&leaf, "other", ("never", FailureKind::Permanent));
    assert_eq!(test.reasons().len(), 0);
    test.recorder.record_plan(&leaf, &plan(Scope::quotas()));
    assert!(test.recorder.history.lock().is_empty());
    test.recorder.record_quota_failure(&leaf, "other", ("never", FailureKind::Permanent));
    assert_eq!(test.reasons().len(), 2);
}

#[test]
fn dropped_events_are_counted_and_reported_later() {
    let mut test = TestRecorder::new();
    for at in 0..=QUEUE_CAPACITY {
        test.complain("1", Some(&at.to_string()));
    }
    assert_eq!(test.dropped(), "hns_events_total{outcome=\"dropped\"} 1");
    test.fail(false, FailureKind::Permanent, "a");
    assert_eq!(test.dropped(), "hns_events_total{outcome=\"dropped\"} 3");
    assert_eq!(test.sent().len(), QUEUE_CAPACITY);
    test.complain("1", Some(&QUEUE_CAPACITY.to_string()));
    test.fail(false, FailureKind::Permanent, "a");
    assert_eq!(test.reasons(), [&[CANNOT_PARSE_SELECTOR][..], &BOTH].concat());
}
