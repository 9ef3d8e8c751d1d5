//! What is said, and what is not said again.

use forest::Scope;
use forest::plan::Plan;
use hns_cluster::handle::ForestWriter;
use prometheus::{Registry, TextEncoder};

use super::*;
use crate::fake::{World, copy, secret};

struct Listener {
    world: World,
    recorder: EventRecorder,
    inbox: mpsc::Receiver<Event>,
    registry: Registry,
}

impl Listener {
    fn new() -> Self {
        let world = World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "old")]);
        let registry = Registry::new();
        let metrics = EventMetrics::register(&registry).unwrap();
        let (recorder, inbox) = EventRecorder::new(world.forest.clone(), metrics);
        Self { world, recorder, inbox, registry }
    }

    /// What was said since last asked: the object's namespace and uid, the reason, the message.
    fn heard(&mut self) -> Vec<(String, String, &'static str, String)> {
        let mut heard = Vec::new();
        while let Ok(Event { about, reason, message }) = self.inbox.try_recv() {
            let uid = about.version.map(|version| version.uid.to_string()).unwrap_or_default();
            heard.push((about.namespace.to_string(), uid, reason, message));
        }
        heard
    }

    fn reasons(&mut self) -> Vec<&'static str> {
        self.heard().into_iter().map(|(_, _, reason, _)| reason).collect()
    }

    fn fail(&self, removal: bool, failure_kind: FailureKind, why: &str) {
        let namespace = Name::from("leaf");
        let source = Name::from("root");
        let key = &self.world.key;
        let source = (!removal).then_some(&source);
        self.recorder.failed(&Failure { namespace: &namespace, key, source, removal, why, failure_kind });
    }

    fn complain(&self, uid: &str, message: Option<&str>) {
        let complaint = message.map(|message| Complaint {
            key: self.world.key.clone(),
            version: Version { uid: uid.into(), resource_version: "1".into() },
            reason: ComplaintReason::CannotParseSelector,
            message: message.into(),
        });
        let complaints: Vec<Complaint> = complaint.into_iter().collect();
        self.recorder.complain(&"root".into(), &ObjectScope::All, &complaints);
    }

    fn dropped(&self) -> String {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().find(|line| line.contains("dropped\"")).unwrap().to_owned()
    }
}

const BOTH: [&str; 2] = [CANNOT_PROPAGATE_OBJECT, CANNOT_UPDATE_OBJECT];

#[test]
fn a_failed_write_is_told_at_both_ends() {
    let mut listener = Listener::new();
    let event = |namespace: &str, uid: &str, reason, message: &str| {
        (namespace.to_owned(), uid.to_owned(), reason, message.to_owned())
    };
    listener.fail(false, FailureKind::Permanent, "it is full.");
    assert_eq!(
        listener.heard(),
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
    listener.fail(true, FailureKind::Permanent, "no");
    assert_eq!(
        listener.heard(),
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
fn a_source_that_is_gone_is_told_nothing() {
    let mut listener = Listener::new();
    listener.world = World::of(&[copy("2", "11", "old")]);
    listener.recorder.forest = listener.world.forest.clone();
    listener.fail(true, FailureKind::Permanent, "no");
    assert_eq!(listener.reasons(), [CANNOT_UPDATE_OBJECT]);
}

#[test]
fn failures_are_told_once_until_they_change_or_come_back() {
    enum Step {
        Fails(FailureKind, &'static str),
        Succeeds,
        IsNotWritten,
        IsPutOff,
        IsPlanned,
    }
    use FailureKind::{Permanent, Transient};
    use Step::{Fails, IsNotWritten, IsPlanned, IsPutOff, Succeeds};
    // Steps one after the other, and how often something is told.
    let table: &[(&[(Step, bool)], &str)] = &[
        (
            &[(Fails(Permanent, "a"), true), (Fails(Permanent, "a"), false), (Fails(Permanent, "b"), true)],
            "a new text",
        ),
        (&[(Fails(Permanent, "a"), true), (Succeeds, false), (Fails(Permanent, "a"), true)], "after success"),
        (
            &[(Fails(Permanent, "a"), true), (IsNotWritten, false), (Fails(Permanent, "a"), true)],
            "after being needless",
        ),
        (
            &[(Fails(Permanent, "a"), true), (IsPutOff, false), (Fails(Permanent, "a"), false)],
            "behind a read",
        ),
        (
            &[(Fails(Permanent, "a"), true), (IsPlanned, false), (Fails(Permanent, "a"), false)],
            "planned again",
        ),
        (&[(Fails(Transient, "a"), false), (Succeeds, false), (Fails(Transient, "a"), false)], "a hiccup"),
        (
            &[(Fails(Transient, "a"), false), (Fails(Transient, "b"), true), (Fails(Transient, "c"), false)],
            "a passing row",
        ),
        (&[(Fails(Transient, "a"), false), (Fails(Permanent, "a"), true)], "from passing to lasting"),
        (
            &[(Fails(Permanent, "a"), true), (Fails(Transient, "x"), false), (Fails(Permanent, "a"), false)],
            "an outage in between",
        ),
    ];
    for (steps, what) in table {
        let mut listener = Listener::new();
        for (at, (step, is_told)) in steps.iter().enumerate() {
            match step {
                Fails(failure_kind, why) => listener.fail(false, *failure_kind, why),
                Succeeds => listener.recorder.succeeded(&"leaf".into(), &listener.world.key),
                IsNotWritten => {
                    let plan = Plan { scope: Scope::whole(), ..Plan::default() };
                    listener.recorder.planned(&"leaf".into(), &plan);
                }
                IsPutOff => {
                    let unread = vec![("root".into(), listener.world.key.clone())];
                    let plan = Plan { scope: Scope::whole(), unread, ..Plan::default() };
                    listener.recorder.planned(&"leaf".into(), &plan);
                }
                IsPlanned => listener.recorder.planned(&"leaf".into(), &listener.world.plan().2),
            }
            let told: &[&str] = if *is_told { &BOTH } else { &[] };
            assert_eq!(listener.reasons(), told, "{what}: step {at}");
        }
    }
}

#[test]
fn complaints_are_told_once_until_they_change_or_come_back() {
    let mut listener = Listener::new();
    let rows = [
        ("1", Some("bad"), true),
        ("1", Some("bad"), false),
        ("1", Some("worse"), true),
        ("1", None, false),
        ("1", Some("worse"), true),
        ("2", Some("worse"), true),
    ];
    for (at, (uid, message, is_told)) in rows.into_iter().enumerate() {
        listener.complain(uid, message);
        let told: &[&str] = if is_told { &[CANNOT_PARSE_SELECTOR] } else { &[] };
        assert_eq!(listener.reasons(), told, "row {at}");
    }
}

#[test]
fn what_was_not_looked_at_is_not_forgotten() {
    let mut listener = Listener::new();
    listener.complain("1", Some("bad"));
    assert_eq!(listener.reasons().len(), 1);
    listener.recorder.complain(&"root".into(), &ObjectScope::None, &[]);
    let other = ObjectKey { name: "other".into(), ..listener.world.key.clone() };
    listener.recorder.complain(&"root".into(), &ObjectScope::Some([other].into()), &[]);
    listener.complain("1", Some("bad"));
    assert_eq!(listener.reasons().len(), 0);
}

#[test]
fn nothing_is_remembered_of_namespaces_that_are_gone_and_of_what_is_well() {
    let mut listener = Listener::new();
    listener.fail(false, FailureKind::Permanent, "a");
    listener.complain("1", Some("bad"));
    assert_eq!(listener.reasons().len(), 3);
    listener.recorder.succeeded(&"leaf".into(), &listener.world.key);
    listener.complain("1", None);
    assert!(listener.recorder.memory.lock().is_empty());

    listener.fail(false, FailureKind::Permanent, "a");
    let empty = Forest::new(listener.world.forest.read(Forest::shared_settings), vec![]);
    listener.recorder.forest = ForestWriter::new(empty, Box::new(|_| {})).1;
    listener.recorder.planned(&"leaf".into(), &Plan::default());
    assert!(listener.recorder.memory.lock().is_empty());
}

#[test]
fn what_finds_no_room_is_counted_and_told_another_time() {
    let mut listener = Listener::new();
    for at in 0..=ROOM {
        listener.complain("1", Some(&at.to_string()));
    }
    assert_eq!(listener.dropped(), "hns_events_total{outcome=\"dropped\"} 1");
    listener.fail(false, FailureKind::Permanent, "a");
    assert_eq!(listener.dropped(), "hns_events_total{outcome=\"dropped\"} 3");
    assert_eq!(listener.heard().len(), ROOM);
    listener.complain("1", Some(&ROOM.to_string()));
    listener.fail(false, FailureKind::Permanent, "a");
    assert_eq!(listener.reasons(), [&[CANNOT_PARSE_SELECTOR][..], &BOTH].concat());
}
