//! Previews of drawn clusters: what follows, what is wanted, and what would be refused. That they come true is shown on random
//! clusters in `tests/preview.rs`.

use super::{Effect, Intent, NamespaceChange, ObjectChange, Outcome, Preview};
use crate::cluster::{Cluster, role_key, rules};
use crate::core::content::Canonical;
use crate::core::kind::{Kind, Mode};
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::object::{KnownContent, ObjectFact};
use crate::core::stream::Stream;
use crate::core::version::Version;
use crate::dialects::Fact;
use crate::hnc;
use crate::hnc::configuration::{Entry, Served, ServedKind};
use crate::hnc::quota::QuotaFact;
use crate::hnc::rules::{Answer, Answers, DenialKind, Question, User, Verdict};

fn drawn(text: &str, roles: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::draw(text);
    for (namespace, name) in roles {
        cluster.put(namespace, &role_key(name), None, rules("x"));
    }
    cluster
}

/// A preview that has done what is under way anyhow.
fn at_rest(cluster: &Cluster) -> Preview {
    let mut preview = Preview::new(cluster.forest());
    assert!(preview.settle().is_empty(), "{cluster:?}");
    preview.mark();
    preview
}

fn user() -> User {
    User { name: "jane".into(), groups: Vec::new() }
}

fn set(namespace: &str, parent: &str) -> Intent {
    let parent = (!parent.is_empty()).then(|| Name::from(parent));
    Intent::SetHierarchy { namespace: namespace.into(), parent, allow_cascading_deletion: false }
}

fn anchor(parent: &str, child: &str) -> Intent {
    let none = Labels::default();
    let (parent, child) = (parent.into(), child.into());
    Intent::CreateAnchor { parent, child, labels: none.clone(), annotations: none }
}

fn tried(cluster: &Cluster, intent: &Intent) -> Outcome {
    let mut preview = at_rest(cluster);
    preview.change(intent, &user());
    assert!(preview.settle().is_empty() && !preview.is_restless(), "{intent:?}");
    preview.outcome()
}

fn objects(outcome: &Outcome) -> Vec<String> {
    let mark = |effect| match effect {
        Effect::Create => '+',
        Effect::Update => '~',
        Effect::Overwrite => '!',
        Effect::Delete => '-',
    };
    let line = |it: &ObjectChange| format!("{}{}/{}", mark(it.effect()), it.namespace, it.key.name);
    let kept = outcome.kept.iter().map(|it| format!("={}/{}", it.namespace, it.key.name));
    outcome.objects.iter().map(line).chain(kept).collect()
}

/// Which come, which go, and which reasons of conditions come.
fn namespaces(outcome: &Outcome) -> Vec<String> {
    let line = |it: &NamespaceChange| match (&it.before, &it.after) {
        (None, _) => vec![format!("+{}", it.name)],
        (_, None) => vec![format!("-{}", it.name)],
        _ => it.new_conditions().map(|new| format!("{} {}", it.name, new.reason)).collect(),
    };
    outcome.namespaces.iter().flat_map(line).collect()
}

#[test]
fn a_move_brings_and_takes_copies_and_labels() {
    let roles = [("a", "ra"), ("b", "rb"), ("n", "rn"), ("b", "rn")];
    let outcome = tried(&drawn("a, b, n:a, low:n, other:b", &roles), &set("n", "b"));
    assert_eq!(objects(&outcome), ["-low/ra", "+low/rb", "~low/rn", "-n/ra", "+n/rb", "=n/rn"]);
    let change = |name: &str| outcome.namespaces.iter().find(|it| *it.name == *name).unwrap();
    assert_eq!(
        change("low").labels(),
        [("a.tree.hnc.x-k8s.io/depth", Some("2"), None), ("b.tree.hnc.x-k8s.io/depth", None, Some("2"))]
    );
    assert_eq!(change("a").labels(), [("hnc.x-k8s.io/has-children", Some("true"), None)]);
    assert!(change("n").moves() && !change("low").moves());
}

#[test]
fn what_comes_and_goes_follows_to_the_end() {
    let delete = |name: &str| Intent::DeleteNamespace { name: name.into() };
    let release =
        |parent: &str, child: &str| Intent::DeleteAnchor { parent: parent.into(), child: child.into() };
    let cases: [(&str, Intent, &[&str], &[&str]); 7] = [
        ("a, n:a", delete("a"), &["-a", "n ParentMissing"], &["-a/r", "-n/r"]),
        ("a, s<a", release("a", "s"), &["-s"], &["-s/r"]),
        ("a, s<a, n:a", delete("s"), &["-s", "+s"], &["-s/r", "+s/r"]),
        ("a, s<a, low+<s", release("a", "s"), &["s SubnamespaceAnchorMissing"], &[]),
        ("a, s+<a, low<s", release("a", "s"), &["-low", "-s"], &["-low/r", "-s/r"]),
        ("a, n:a", anchor("n", "new"), &["+new"], &["+new/r"]),
        ("a, n:a, x", set("a", "gone"), &["a ParentMissing", "n AncestorHaltActivities"], &[]),
    ];
    for (text, intent, wanted, copies) in cases {
        let outcome = tried(&drawn(text, &[("a", "r")]), &intent);
        assert_eq!(
            (namespaces(&outcome), objects(&outcome)),
            (words(wanted), words(copies)),
            "{text}: {intent:?}"
        );
    }
}

/// It stays in conflict, and leaves the name to others.
#[test]
fn an_anchor_in_conflict_does_not_create_the_namespace_again() {
    let mut cluster = drawn("a, b, s<a", &[]);
    cluster.anchor("b", "s");
    let outcome = tried(&cluster, &Intent::DeleteAnchor { parent: "a".into(), child: "s".into() });
    assert_eq!(namespaces(&outcome), ["-s"]);
    let anchors: Vec<_> = outcome.anchors.iter().map(|it| (&*it.parent, it.is_there)).collect();
    assert_eq!(anchors, [("a", false)]);
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Also if another namespace of that name comes.
#[test]
fn a_quota_goes_with_its_namespace() {
    let mut preview = at_rest(&drawn("a, s<a", &[]));
    let version = Version { uid: "q".into(), resource_version: "1".into() };
    let quota = QuotaFact { name: "q".into(), version, ..QuotaFact::default() };
    preview.tell(hnc::Fact::Quota("s".into(), quota));
    assert_eq!(preview.forest().quotas_over("s").len(), 1);
    preview.change(&Intent::DeleteNamespace { name: "s".into() }, &user());
    assert!(preview.settle().is_empty());
    assert_eq!(namespaces(&preview.outcome()), ["-s", "+s"]);
    assert_eq!(preview.forest().quotas_over("s"), []);
}

#[test]
fn what_is_under_way_anyhow_and_what_is_stuck_is_not_the_change_s() {
    let cluster = drawn("a, n:a, stuck!:a, x", &[("a", "r")]);
    let mut preview = Preview::new(cluster.forest());
    assert!(preview.settle().is_empty());
    assert_eq!(objects(&preview.outcome()), ["+n/r"]);
    preview.mark();
    assert!(preview.settle().is_empty() && preview.outcome().is_empty());
    preview.change(&set("x", "a"), &user());
    assert!(preview.settle().is_empty());
    assert_eq!(objects(&preview.outcome()), ["+x/r"]);
    assert!(preview.forest().namespace_version("stuck").is_some());
}

#[test]
fn the_content_of_what_nothing_took_copies_of_is_wanted() {
    let cluster = drawn("leaf, n", &[("leaf", "r")]);
    let mut preview = at_rest(&cluster);
    preview.change(&set("n", "leaf"), &user());
    let wanted = preview.settle().content;
    assert_eq!(wanted.into_iter().collect::<Vec<_>>(), [("leaf".into(), role_key("r"))]);
    assert_eq!(objects(&preview.outcome()), [""; 0]);
    preview.tell(cluster.object_fact(&"leaf".into(), &role_key("r")));
    assert!(preview.settle().is_empty());
    assert_eq!(objects(&preview.outcome()), ["+n/r"]);
}

fn configure(mode: Mode) -> (Intent, Kind) {
    let kind = Kind {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
    };
    let verbs = ["list", "watch", "create", "update", "delete"].map(str::to_owned).into();
    let served = ServedKind {
        kind: kind.clone(),
        singular: "configmap".into(),
        short_names: Vec::new(),
        namespaced: true,
        verbs,
    };
    let role = |kind: Kind| ServedKind { kind, ..served.clone() };
    let kinds = vec![role(Kind::role()), role(Kind::role_binding()), served.clone()];
    let entry = Entry { resource: "configmaps".into(), mode, ..Entry::default() };
    let served = Served { kinds, ..Served::default() };
    (Intent::Configure { old: Vec::new(), new: vec![Ok(entry)], served }, kind)
}

fn map(namespace: &str, value: &str) -> ObjectFact {
    let body = serde_json::json!({ "data": { "k": value } }).as_object().cloned().unwrap_or_default();
    let content = Canonical::new(std::collections::BTreeMap::new(), std::collections::BTreeMap::new(), body);
    let version = Version { uid: namespace.into(), resource_version: "1".into() };
    ObjectFact {
        content: Some(KnownContent::whole(content.as_copy())),
        ..ObjectFact::new(namespace.into(), "m".into(), version)
    }
}

#[test]
fn the_objects_of_a_kind_that_comes_to_be_propagated_are_wanted() {
    let cluster = drawn("a, n:a", &[]);
    let (intent, kind) = configure(Mode::Propagate);
    let mut preview = at_rest(&cluster);
    preview.change(&intent, &user());
    let wants = preview.settle();
    let id = preview.forest().kind_named(&kind.group, &kind.kind).unwrap();
    assert_eq!(wants.kinds.into_iter().collect::<Vec<_>>(), [id]);
    preview.tell(Fact::Objects(id, vec![map("a", "1"), map("n", "2")]));
    assert!(preview.settle().is_empty());
    assert_eq!(objects(&preview.outcome()), ["=n/m"]);
    assert_eq!(*preview.outcome().kept[0].source, *"a");

    let mut blind = at_rest(&cluster);
    blind.change(&intent, &user());
    assert!(!blind.settle().is_empty());
    blind.tell(Fact::StreamLost(Stream::Kind(id), "you may not".into()));
    assert!(blind.settle().is_empty() && blind.outcome().objects.is_empty());

    let mut ignored = at_rest(&cluster);
    ignored.change(&configure(Mode::Ignore).0, &user());
    assert!(ignored.settle().is_empty(), "nothing is done with these");
}

#[test]
fn each_intent_is_judged_by_its_rule() {
    let preview = at_rest(&drawn("a+, s<a, low<s, b, t<b, n:b", &[]));
    let admin = |name: &str| (Question::IsAdmin(name.into()), Answer::Yes);
    let stranger = |name: &str| (Question::IsAdmin(name.into()), Answer::No);
    let absent = |name: &str| (Question::Namespace(name.into()), Answer::No);
    let annotate = |namespace: &str, of: Option<&str>| Intent::Annotate {
        namespace: namespace.into(),
        subnamespace_of: of.map(Name::from),
    };
    let release =
        |parent: &str, child: &str| Intent::DeleteAnchor { parent: parent.into(), child: child.into() };
    let delete = |name: &str| Intent::DeleteNamespace { name: name.into() };
    let cases = [
        (set("a", "low"), vec![], Some(DenialKind::Conflict)),
        (set("n", "a"), vec![admin("b"), admin("a"), admin("n")], None),
        (set("n", "a"), vec![admin("b"), stranger("a"), admin("n")], Some(DenialKind::Unauthorized)),
        (set("s", "b"), vec![], Some(DenialKind::Conflict)),
        (delete("b"), vec![], Some(DenialKind::Forbidden)),
        (delete("a"), vec![], None),
        (delete("t"), vec![], Some(DenialKind::Forbidden)),
        (delete("n"), vec![], None),
        (annotate("t", None), vec![stranger("b")], Some(DenialKind::Unauthorized)),
        (annotate("t", Some("a")), vec![admin("t"), admin("b"), admin("a")], None),
        (
            annotate("t", Some("a")),
            vec![stranger("t"), admin("b"), admin("a")],
            Some(DenialKind::Unauthorized),
        ),
        (anchor("b", "n"), vec![], Some(DenialKind::Conflict)),
        (anchor("b", "new"), vec![absent("new")], None),
        (anchor("b", "NEW"), vec![], Some(DenialKind::Invalid)),
        (release("b", "t"), vec![], None),
        (release("a", "s"), vec![], None),
    ];
    for (intent, answers, wanted) in cases {
        let answers: Answers = answers.into_iter().collect();
        let kind = match preview.judge(&intent, &user(), &answers) {
            Verdict::Allow { .. } => None,
            Verdict::Deny(denial) => Some(denial.kind),
            Verdict::Ask(questions) => panic!("{intent:?}: {questions:?}"),
        };
        assert_eq!(kind, wanted, "{intent:?}");
    }
    let (intent, _) = configure(Mode::Propagate);
    assert!(
        matches!(preview.judge(&intent, &user(), &Answers::new()), Verdict::Ask(_)),
        "for the accounts' rights"
    );
}

/// Previews judge by the same rules as the webhook: an orphan belongs where its tree labels say.
#[test]
fn an_orphan_leaves_its_tree_in_a_preview_only_with_consent_too() {
    let mut cluster = Cluster::draw("org, team:org, x:gone");
    cluster.label_place("x", &["gone", "team", "org"]);
    // Planning leaves these labels as they are.
    let preview = at_rest(&cluster);
    let answers = |root: Answer| -> Answers {
        let given = [
            (Question::Namespace("gone".into()), Answer::No),
            (Question::IsAdmin("x".into()), Answer::Yes),
            (Question::IsAdmin("org".into()), root),
        ];
        given.into_iter().collect()
    };
    let judged = |root: Answer| preview.judge(&set("x", ""), &user(), &answers(root));
    assert!(matches!(judged(Answer::Yes), Verdict::Allow { .. }));
    assert!(matches!(judged(Answer::No), Verdict::Deny(denial) if denial.kind == DenialKind::Unauthorized));
}
