//! Previews in drawn trees of Accurate. That they come true is shown on a cluster, in the suite `plugin`.

use serde_json::json;

use super::{Effect, Intent, NamespaceChange, ObjectChange, Outcome, Preview, SubNamespaceChange};
use crate::accurate::fact::{Fact as AccurateFact, SubNamespaceFact};
use crate::accurate::keys::{CREATED_BY, CREATOR, PARENT, TEMPLATE, TYPE};
use crate::accurate::world::{binds, draw, form, key, object, settings, version};
use crate::core::labels::Labels;
use crate::core::namespace::{Applied, NamespaceFact};
use crate::core::version::Version;
use crate::hnc::rules::{Answer, Answers, NamespacedRight, Question, User, Verdict};
use crate::{Fact, Forest};

/// A drawn cluster, with `SubNamespaces` `"parent/child"` and objects `"namespace/Kind/name=mode<source"`.
struct Cluster {
    preview: Preview,
    objects: Vec<Fact>,
}

impl Cluster {
    fn draw(text: &str, forms: &str, objects: &str) -> Self {
        let mut forest = draw(text);
        for item in forms.split_whitespace() {
            let (parent, child) = item.split_once('/').unwrap();
            let form = SubNamespaceFact { version: version(item), ..form(child) };
            forest.apply(AccurateFact::SubNamespace(parent.into(), form));
        }
        let drawn = |item: &str| {
            let (place, said) = item.split_once('=').unwrap();
            let [namespace, kind, name] = place.split('/').collect::<Vec<_>>().try_into().unwrap();
            let (mode, from) = said.split_once('<').unwrap_or((said, ""));
            let body = if kind == "RoleBinding" { binds("a", "jane") } else { json!({}) };
            object(&settings(), namespace, &key(kind, name), [mode, from], &body, "1")
        };
        let objects: Vec<Fact> = objects.split_whitespace().map(drawn).collect();
        objects.iter().cloned().for_each(|fact| drop(forest.apply(fact)));
        Self::of(forest, objects)
    }

    /// What is under way anyhow is done.
    fn of(forest: Forest, objects: Vec<Fact>) -> Self {
        let mut cluster = Self { preview: Preview::new(forest), objects };
        cluster.settle();
        cluster.preview.mark();
        cluster
    }

    /// Reads the sources that are wanted.
    fn settle(&mut self) {
        for _ in 0..3 {
            let wants = self.preview.settle();
            assert!(wants.kinds.is_empty() && !self.preview.is_restless(), "{:?}", self.preview.outcome());
            if wants.is_empty() {
                return;
            }
            for (namespace, key) in wants.content {
                let is_it = |fact: &&Fact| {
                    matches!(fact, Fact::Object(kind, it)
                        if (kind, &it.namespace, &it.name) == (&key.kind, &namespace, &key.name))
                };
                let fact = self.objects.iter().find(is_it).expect("it is an object of the drawing");
                self.preview.tell(fact.clone());
            }
        }
        panic!("the same is wanted again and again");
    }

    fn tried(mut self, intents: &[Intent]) -> Outcome {
        for intent in intents {
            self.preview.change(intent, &User::default());
            self.settle();
        }
        self.preview.outcome()
    }
}

fn place(namespace: &str, labels: &[(&str, &str)]) -> Intent {
    let value = |value: &str| (!value.is_empty()).then(|| value.into());
    let labels = labels.iter().map(|(key, it)| ((*key).into(), value(it))).collect();
    Intent::Label { namespace: namespace.into(), labels }
}

fn create(parent: &str, child: &str) -> Intent {
    let labels: Labels = [("tier", "1"), ("other", "x")].into_iter().collect();
    Intent::CreateSubNamespace {
        parent: parent.into(),
        child: child.into(),
        labels,
        annotations: Labels::default(),
    }
}

fn delete(parent: &str, child: &str) -> Intent {
    Intent::DeleteSubNamespace { parent: parent.into(), child: child.into() }
}

/// The outcome in words: namespaces, changes of labels that are not HNC's, `SubNamespaces`, objects, kept objects.
fn words(outcome: &Outcome) -> Vec<String> {
    let namespace = |it: &NamespaceChange| {
        let existence = match (&it.before, &it.after) {
            (None, _) => Some(format!("+{}", it.name)),
            (_, None) => return vec![format!("-{}", it.name)],
            _ => None,
        };
        let labels = it.labels().into_iter().filter(|(key, ..)| !key.contains("hnc.x-k8s.io"));
        let label = |(key, before, after): (&str, Option<&str>, Option<&str>)| {
            let key = key.rsplit('/').next().unwrap_or_default();
            format!("{} {key}:{}>{}", it.name, before.unwrap_or_default(), after.unwrap_or_default())
        };
        existence.into_iter().chain(labels.map(label)).collect()
    };
    let sub_namespace = |it: &SubNamespaceChange| {
        let mark = match (&it.before, &it.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        format!("{mark}form {}/{}", it.parent, it.child)
    };
    let object = |it: &ObjectChange| {
        let mark = match it.effect() {
            Effect::Create => '+',
            Effect::Update => '~',
            Effect::Overwrite => '!',
            Effect::Delete => '-',
        };
        format!("{mark}{}/{}", it.namespace, it.key.name)
    };
    let kept = outcome.kept.iter().map(|it| format!("={}/{}<{}", it.namespace, it.key.name, it.source));
    let namespaces = outcome.namespaces.iter().flat_map(namespace);
    let forms = outcome.sub_namespaces.iter().map(sub_namespace);
    namespaces.chain(forms).chain(outcome.objects.iter().map(object)).chain(kept).collect()
}

#[test]
fn what_follows_goes_on_hop_by_hop() {
    let trees = "r root, q root, s ^r, x ^s, t template, n";
    let moved = [place("s", &[(PARENT, "q")]), create("q", "s"), delete("r", "s")];
    let grafted = [place("n", &[(PARENT, "q")]), create("q", "n")];
    let cut = [place("s", &[(PARENT, ""), (TYPE, "root")]), delete("r", "s")];
    let copies = "r/Secret/a=update s/Secret/a=update<r x/Secret/a=update<s q/Secret/b=update";
    for (intents, objects, wanted) in [
        (
            &moved[..],
            copies,
            &["s parent:r>q", "s tier:>1", "+form q/s", "-form r/s", "-s/a", "+s/b", "-x/a", "+x/b"][..],
        ),
        // A copy that is made once stays, and is replaced by a source of another namespace only if that is kept equal.
        (
            &moved,
            "s/Secret/a=create<r x/Secret/a=create<s q/Secret/b=create s/Secret/b=create<r",
            &["s parent:r>q", "s tier:>1", "+form q/s", "-form r/s"],
        ),
        (
            &moved,
            "s/Secret/own= q/Secret/own=update",
            &["s parent:r>q", "s tier:>1", "+form q/s", "-form r/s", "=s/own<q"],
        ),
        (&grafted, copies, &["n parent:>q", "n created-by:>accurate", "n tier:>1", "+form q/n", "+n/b"]),
        (&cut, copies, &["s parent:r>", "s type:>root", "-form r/s", "-s/a", "-x/a"]),
        (
            &[create("s", "new")],
            copies,
            &[
                "+new",
                "new parent:>s",
                "new created-by:>accurate",
                "new metadata.name:>new",
                "new tier:>1",
                "+form s/new",
                "+new/a",
            ],
        ),
        (&[delete("s", "x")], copies, &["-x", "-form s/x", "-x/a"]),
        (&[place("n", &[(TEMPLATE, "t")])], "t/Secret/c=update", &["n template:>t", "+n/c"]),
        // A binding without its Role is not copied; with it, both are.
        (&[place("n", &[(TEMPLATE, "t")])], "t/RoleBinding/b=update", &["n template:>t"]),
        (
            &[place("n", &[(TEMPLATE, "t")])],
            "t/RoleBinding/b=update t/Role/a=update",
            &["n template:>t", "+n/a", "+n/b"],
        ),
    ] {
        let outcome = Cluster::draw(trees, "r/s s/x", objects).tried(intents);
        assert_eq!(words(&outcome), wanted, "{intents:?} with {objects}");
    }
}

/// All that was in it is lost, also what another of the same name then has.
#[test]
fn a_namespace_that_goes_and_comes_again_is_deleted_and_created() {
    let objects = "p/Secret/a=update p/Secret/p=update q/Secret/a=update s/Secret/a=update<q s/Secret/own=";
    let gone = Intent::DeleteNamespace { name: "s".into() };
    for (forms, intent, parent, wanted) in [
        // As after a move that leaves the original one.
        (
            "p/s q/s",
            delete("q", "s"),
            "s parent:>p",
            &["~form p/s", "-form q/s", "-s/a", "+s/a", "-s/own", "+s/p"][..],
        ),
        ("q/s", gone, "s parent:>q", &["-s/a", "+s/a", "-s/own"]),
    ] {
        let namespace = ["-s", "+s", parent, "s created-by:>accurate", "s metadata.name:>s"];
        let wanted = [&namespace[..], wanted].concat();
        let outcome = Cluster::draw("p root, q root, s ^q", forms, objects).tried(&[intent]);
        assert_eq!(words(&outcome), wanted, "{forms}");
    }
}

/// The API server may refuse that deletion, and then a user takes the namespace out of its tree.
#[test]
fn a_pending_deletion_of_a_namespace_can_be_left_out() {
    let cut = ["s parent:r>", "s type:>root", "-form r/s"];
    for (kept, wanted) in [("", &[][..]), ("s", &cut[..])] {
        let mut forest = draw("r root, s ^r");
        let form = SubNamespaceFact { terminating: true, ..form("s") };
        forest.apply(AccurateFact::SubNamespace("r".into(), form));
        let mut cluster = Cluster { preview: Preview::new(forest), objects: Vec::new() };
        cluster.preview.keep([kept.into()].into());
        cluster.settle();
        cluster.preview.mark();
        cluster.preview.keep([].into());
        let outcome = cluster.tried(&[place("s", &[(PARENT, ""), (TYPE, "root")])]);
        assert_eq!(words(&outcome), wanted, "{kept}");
    }
}

#[test]
fn a_template_that_is_unset_takes_its_copies_with_it() {
    let objects = "t/Secret/a=update i/Secret/a=update<t t/Secret/b=create i/Secret/b=create<t";
    let cluster = Cluster::draw("t template, i ~t", "", objects);
    assert_eq!(words(&cluster.tried(&[place("i", &[(TEMPLATE, "")])])), ["i template:t>", "-i/a"]);
}

/// What Accurate's field manager has applied and does not apply again goes; what others have set stays.
#[test]
fn labels_come_and_go_with_the_upstream_namespace() {
    let tried = |shared: &[&str], intents: &[Intent]| {
        let mut forest = draw("r root team=red, q root example.com/type=x, t template");
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.into()).collect();
        forest.apply(Fact::Namespace(NamespaceFact {
            name: "s".into(),
            version: Version { uid: "s".into(), resource_version: "1".into() },
            labels: [(PARENT, "r"), (CREATED_BY, CREATOR), ("team", "red"), ("mine", "y")]
                .into_iter()
                .collect(),
            applied: Applied {
                labels: keys(&[PARENT, CREATED_BY, "team"]),
                shared_labels: keys(shared),
                ..Applied::default()
            },
            ..NamespaceFact::default()
        }));
        forest.apply(AccurateFact::SubNamespace("r".into(), form("s")));
        Cluster::of(forest, Vec::new()).tried(intents)
    };
    let moved = [place("s", &[(PARENT, "q")])];
    let outcome = tried(&[], &moved);
    assert_eq!(words(&outcome), ["s parent:r>q", "s type:>x", "s team:red>", "~form r/s"]);
    let stalled = outcome.sub_namespaces[0].after.as_ref().and_then(|it| it.stalled.as_deref());
    assert_eq!(stalled, Some("Conflicting namespace already exists"));
    assert_eq!(words(&tried(&["team"], &moved)), ["s parent:r>q", "s type:>x", "~form r/s"]);
    // A namespace that was made for a `SubNamespace` has the label from its creation, and one that was grafted does not.
    let cut_and_instance =
        [place("s", &[(PARENT, ""), (TYPE, "root")]), place("s", &[(TYPE, ""), (TEMPLATE, "t")])];
    let wanted = ["s parent:r>", "s template:>t", "s created-by:accurate>", "s team:red>", "~form r/s"];
    assert_eq!(words(&tried(&[], &cut_and_instance)), wanted);
    let wanted = ["s parent:r>", "s template:>t", "s team:red>", "~form r/s"];
    assert_eq!(words(&tried(&[CREATED_BY], &cut_and_instance)), wanted);
}

#[test]
fn each_intent_is_judged_by_the_rules_of_accurate() {
    let Cluster { preview, .. } =
        Cluster::draw("r root, s ^r, x ^s, q root, n, t template, i ~t", "r/s s/x", "");
    let allowed: Answers = ["r", "s", "q", "n", "t", "i"]
        .into_iter()
        .flat_map(|namespace| {
            let right = |verb, group, resource| {
                Question::Has(NamespacedRight { namespace: namespace.into(), verb, group, resource })
            };
            let group = crate::accurate::keys::GROUP;
            [
                right("create", group, "subnamespaces"),
                right("delete", group, "subnamespaces"),
                right("update", "hnc.x-k8s.io", "hierarchyconfigurations"),
            ]
        })
        .map(|question| (question, Answer::Yes))
        .chain([(Question::Namespace("gone".into()), Answer::No)])
        .collect();
    for (intent, wanted) in [
        (place("s", &[(PARENT, "q")]), None),
        (place("s", &[(PARENT, "x")]), Some("circular reference is not permitted")),
        (place("s", &[(PARENT, "gone")]), Some("parent namespace does not exist: gone")),
        (place("n", &[(TEMPLATE, "q")]), Some("q is not a valid template namespace")),
        (place("r", &[(TYPE, "")]), Some("there are sub-namespaces under r")),
        (place("t", &[(TYPE, "")]), Some("there are namespaces referencing t")),
        (create("q", "new"), None),
        (create("n", "new"), Some("namespace n is neither a root nor a sub namespace")),
        (delete("r", "s"), Some("child namespaces exist")),
        (delete("s", "x"), None),
        (Intent::DeleteNamespace { name: "t".into() }, Some("child namespaces exist")),
        (Intent::DeleteNamespace { name: "n".into() }, None),
    ] {
        let denial = match preview.judge(&intent, &User::default(), &allowed) {
            Verdict::Allow { .. } => None,
            Verdict::Deny(denial) => Some(denial.message),
            Verdict::Ask(questions) => panic!("{intent:?}: {questions:?}"),
        };
        assert_eq!(denial.as_deref(), wanted, "{intent:?}");
    }
    let asked = preview.judge(&place("s", &[(PARENT, "q")]), &User::default(), &Answers::new());
    assert!(matches!(asked, Verdict::Ask(_)), "the rights in the namespaces are asked for");
}

/// As long as the `SubNamespaces` are not known, nothing of Accurate's is foretold, and no kind of it is read.
#[test]
fn without_the_sub_namespaces_a_preview_has_the_other_hierarchy_only() {
    let mut forest = draw("r root, s ^r");
    assert!(forest.known_accurate().is_some());
    let why = "you may not";
    forest.apply(Fact::StreamLost(crate::Stream::SUB_NAMESPACES, why.into()));
    assert!(forest.known_accurate().is_none());
    let outcome = Cluster::of(forest, Vec::new()).tried(&[place("s", &[(PARENT, "")])]);
    assert_eq!(words(&outcome), ["s parent:r>"]);
}
