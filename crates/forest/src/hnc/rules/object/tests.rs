//! The rows of section 7.5 of docs/compatibility.md, each allowed and refused, in their order, and the ways around them that
//! a user could try.

mod annotations;
mod conflict;
mod copy;
mod unknown;

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, json};

use super::*;
use crate::cluster::{Cluster, EXCLUDED, role_key, roles, rules};
use crate::core::kind::{Kind, Mode, OnConflict};
use crate::core::object::ObjectFact;
use crate::core::patterns::Patterns;
use crate::core::stream::Stream;
use crate::core::version::Version;
use crate::dialects::Fact;
use crate::hnc::rules::Answer::{self, No, Terminating, Yes};
use crate::hnc::rules::DenialKind::{BadRequest, Conflict, Forbidden, Internal, Unavailable};
use crate::hnc::rules::tests::Expected::{self, Allowed, Denied, Warned};
use crate::hnc::rules::tests::{USER, check, failed, jane, judge as converse};
use crate::hnc::settings::{Identity, Settings};

/// An object as a request carries it.
#[derive(Debug, Clone, Default)]
struct Object {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    owners: Vec<Value>,
    terminating: bool,
    body: Map<String, Value>,
}

impl Object {
    /// A Role without annotations.
    fn role() -> Self {
        let Value::Object(body) = rules("x") else { unreachable!("a body is an object") };
        Self { body, ..Self::default() }
    }

    fn copy(from: &str) -> Self {
        let managed = Self::role().label("app.kubernetes.io/managed-by", "hnc.x-k8s.io");
        managed.label(keys::INHERITED_FROM, from)
    }

    fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    fn annotate(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// One of the exceptions, by its short name.
    fn asks(self, key: &str, value: &str) -> Self {
        self.annotate(&format!("propagate.hnc.x-k8s.io/{key}"), value)
    }

    fn field(mut self, key: &str, value: Value) -> Self {
        self.body.insert(key.into(), value);
        self
    }

    fn finalizer(mut self, name: &str) -> Self {
        self.finalizers.push(name.into());
        self
    }

    fn owner(mut self, owner: Value) -> Self {
        self.owners.push(owner);
        self
    }

    fn terminating(mut self) -> Self {
        self.terminating = true;
        self
    }

    fn state(&self) -> State<'_> {
        State {
            labels: pairs(&self.labels),
            annotations: pairs(&self.annotations),
            finalizers: self.finalizers.iter().map(|it| it.as_str().into()).collect(),
            owner_references: self.owners.clone(),
            terminating: self.terminating,
            body: Fields::new(self.body.iter().map(field).collect()).unwrap(),
        }
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Pairs<'_> {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn field<'a>((name, value): (&'a String, &Value)) -> (Cow<'a, str>, Cow<'a, RawValue>) {
    (name.as_str().into(), Cow::Owned(to_raw_value(value).unwrap()))
}

/// What jane asks for: by default about the Role `top/r`.
#[derive(Debug, Clone)]
struct Try {
    namespace: &'static str,
    kind: (&'static str, &'static str),
    name: &'static str,
    user: User,
    old: Option<Object>,
    new: Option<Object>,
}

impl Try {
    fn new(old: Option<Object>, new: Option<Object>) -> Self {
        let kind = ("rbac.authorization.k8s.io", "Role");
        Self { namespace: "top", kind, name: "r", user: jane(), old, new }
    }

    fn create(new: Object) -> Self {
        Self::new(None, Some(new))
    }

    fn update(old: Object, new: Object) -> Self {
        Self::new(Some(old), Some(new))
    }

    fn delete(old: Object) -> Self {
        Self::new(Some(old), None)
    }

    fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn of(self, group: &'static str, kind: &'static str) -> Self {
        Self { kind: (group, kind), ..self }
    }

    fn by(self, name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { user: User { name: name.into(), groups }, ..self }
    }

    fn judge(&self, forest: &mut Forest, dialogue: &[(&str, Answer)]) -> Verdict {
        let operation = match (&self.old, &self.new) {
            (None, _) => Operation::Create,
            (_, None) => Operation::Delete,
            _ => Operation::Update,
        };
        let request = Request {
            operation,
            user: self.user.clone(),
            namespace: self.namespace.into(),
            group: self.kind.0.into(),
            kind: self.kind.1.into(),
            name: self.name.into(),
            old: self.old.as_ref().map(Object::state),
            new: self.new.as_ref().map(Object::state),
        };
        converse(forest, |forest, answers| review(forest, &request, answers), dialogue, |_| ())
    }

    fn expect(&self, what: &str, forest: &mut Forest, expected: &Expected) {
        check(what, &self.judge(forest, &[]), expected);
    }
}

const TREE: &str = "top, kid:top, low:kid, side:top, lone";

/// [`TREE`] with Roles that are sources, as `namespace/name`.
fn forest(sources: &str) -> Forest {
    cluster(sources).forest()
}

fn cluster(sources: &str) -> Cluster {
    let mut cluster = Cluster::draw(TREE);
    for place in sources.split_whitespace() {
        let (namespace, name) = place.split_once('/').unwrap();
        cluster.role(namespace, name, "x");
    }
    cluster
}

/// The same where Roles are treated so.
fn forest_where(sources: &str, edit: impl FnOnce(&mut KindSettings)) -> Forest {
    let mut forest = forest(sources);
    let mut role = KindSettings::new(Kind::role(), Mode::Propagate);
    edit(&mut role);
    forest.apply(Fact::Kinds(vec![role]));
    forest
}

fn in_mode(mode: Mode) -> impl FnOnce(&mut KindSettings) {
    move |role| role.mode = mode
}

/// What would be refused of a source, and of a copy.
fn mischief() -> [Try; 5] {
    [
        Try::create(Object::role().annotate("foo.hnc.x-k8s.io/x", "")),
        Try::create(Object::role()),
        Try::create(Object::copy("top")),
        Try::update(Object::copy("top"), Object::role()),
        Try::update(Object::copy("top"), Object::copy("top").finalizer("x/y")),
    ]
}

#[test]
fn what_is_not_propagated_is_none_of_its_business() {
    for attempt in mischief() {
        let refused = attempt.judge(&mut forest("kid/r"), &[]);
        assert!(matches!(refused, Verdict::Deny(_)), "{attempt:?}: {refused:?}");
        for (what, attempt, mut forest) in [
            ("an excluded namespace", attempt.clone().within(EXCLUDED), forest("kid/r")),
            ("our own namespace", attempt.clone().within("hnc-system"), forest("kid/r")),
            ("no namespace", attempt.clone().within(""), forest("kid/r")),
            ("another kind", attempt.clone().of("rbac.authorization.k8s.io", "Other"), forest("kid/r")),
            ("another group", attempt.clone().of("", "Role"), forest("kid/r")),
            ("mode Ignore", attempt.clone(), forest_where("kid/r", in_mode(Mode::Ignore))),
        ] {
            attempt.expect(&format!("{what}: {attempt:?}"), &mut forest, &Allowed);
        }
        let mut forest = forest("kid/r");
        forest.apply(Fact::Kinds(vec![KindSettings::new(Kind::role_binding(), Mode::Propagate)]));
        attempt.expect("a kind that is not configured any more", &mut forest, &Allowed);
    }
}

#[test]
fn copies_that_are_being_removed_are_protected_and_nothing_else_of_their_kind() {
    let [annotated, created, copies @ ..] = mischief();
    let removing = || forest_where("kid/r", in_mode(Mode::Remove));
    for source in [annotated, created] {
        source.expect("a source", &mut removing(), &Allowed);
    }
    for copy in copies {
        let refused = copy.judge(&mut removing(), &[]);
        assert!(matches!(refused, Verdict::Deny(_)), "{copy:?}: {refused:?}");
    }
}

#[test]
fn a_source_may_be_deleted_always() {
    let objects = [
        Object::role(),
        Object::role().annotate("foo.hnc.x-k8s.io/x", "").asks("select", "a,,"),
        Object::role().asks("none", "true").asks("all", "true"),
    ];
    for object in objects {
        Try::delete(object).expect("delete", &mut forest("top/r kid/r"), &Allowed);
    }
}

/// The earlier row is the one that is told.
#[test]
fn the_rows_come_in_order() {
    let wrong = [
        ("foo.hnc.x-k8s.io/x", "", "foo.hnc.x-k8s.io/x means nothing"),
        ("propagate.hnc.x-k8s.io/select", "a,,b", "propagate.hnc.x-k8s.io/select cannot be understood"),
        (
            "propagate.hnc.x-k8s.io/treeSelect",
            "a,,b",
            "propagate.hnc.x-k8s.io/treeSelect cannot be understood",
        ),
        ("propagate.hnc.x-k8s.io/none", "maybe", "propagate.hnc.x-k8s.io/none cannot be understood"),
        ("propagate.hnc.x-k8s.io/all", "maybe", "propagate.hnc.x-k8s.io/all cannot be understood"),
    ];
    for (first, (.., says)) in wrong.iter().enumerate() {
        let mut object = Object::role();
        for (key, value, _) in &wrong[first..] {
            object = object.annotate(key, value);
        }
        let expected = Denied(BadRequest, &[]);
        let verdict = Try::create(object).judge(&mut forest("kid/r"), &[]);
        check(says, &verdict, &expected);
        let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
        assert!(denial.message.contains(says), "{says}: {}", denial.message);
    }
    let both = Object::role().asks("all", "true").asks("select", "team=red");
    let first =
        Denied(BadRequest, &["propagate.hnc.x-k8s.io/select, propagate.hnc.x-k8s.io/all", "all but one"]);
    Try::create(both).expect("row 6 before row 7", &mut forest("kid/r"), &first);
}
