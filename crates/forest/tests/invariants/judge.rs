//! The admission rules, asked as the webhook asks them, with answers by the RBAC of the world.

use std::borrow::Cow;
use std::collections::BTreeMap;

use forest::configuration::Entry;
use forest::rules::{Answer, Answers, Fields, Operation, Pairs, Question, User, Verdict};
use forest::rules::{anchor, configuration, hierarchy, namespace, object};
use forest::{HierarchyFact, Labels, Name, keys};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::access::{CREATE_NAMESPACE, HIERARCHY, USERS};
use super::ask::{AnchorWrite, Ask, NamespaceWrite, ObjectWrite, What, edited};
use super::world::{World, served};
use crate::cluster::{Object, asks::ASKS};

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn shown(labels: &Labels) -> Vec<(String, String)> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn operation(before: bool, after: bool) -> Operation {
    match (before, after) {
        (_, false) => Operation::Delete,
        (false, true) => Operation::Create,
        (true, true) => Operation::Update,
    }
}

impl World {
    /// Why the rules refuse the request, if they do.
    pub(crate) fn refusal(&self, user: usize, ask: &Ask) -> Option<String> {
        match ask {
            Ask::Hierarchy(..) => self.hierarchy(user, ask),
            Ask::Anchor(parent, child, write) => self.anchor(user, (parent, child), write.as_ref()),
            Ask::Namespace(name, write) => self.namespace(user, name, write.as_ref()),
            Ask::Object(namespace, what, name, write) => {
                self.object(user, (namespace, *what, name), write.as_ref())
            }
            Ask::Hold(..) | Ask::Stop(_) => None,
            Ask::Configuration(entries) => self.configuration(user, entries),
        }
    }

    fn dialogue(&self, user: usize, review: impl Fn(&Answers) -> Verdict) -> Option<String> {
        let mut answers = Answers::new();
        loop {
            match review(&answers) {
                Verdict::Allow { .. } => return None,
                Verdict::Deny(denial) => return Some(denial.message),
                Verdict::Ask(questions) => {
                    let is_open = |question: &Question| !answers.contains_key(question);
                    assert!(questions.iter().all(is_open), "{questions:?} are asked again");
                    for question in questions {
                        let answer = self.answer(user, &question);
                        answers.insert(question, answer);
                    }
                }
            }
        }
    }

    fn answer(&self, user: usize, question: &Question) -> Answer {
        let yes = |yes: bool| if yes { Answer::Yes } else { Answer::No };
        match question {
            Question::IsAdmin(name) | Question::MayConfigure(name) => {
                yes(self.rights(user, name).has(HIERARCHY))
            }
            Question::MayCreateNamespace(_) => yes(self.cluster_wide[user].has(CREATE_NAMESPACE)),
            Question::Namespace(name) => match self.cluster.namespaces.get(name) {
                None => Answer::No,
                Some(seen) if seen.terminating => Answer::Terminating,
                Some(_) => Answer::Yes,
            },
            Question::Account(_) => Answer::Yes,
            // The forest knows everything by now; there is nothing to wait for.
            Question::Has(_) | Question::Await(_) => Answer::No,
        }
    }

    fn hierarchy(&self, user: usize, ask: &Ask) -> Option<String> {
        let Ask::Hierarchy(name, write) = ask else { return None };
        let seen = self.cluster.hierarchies.get(*name);
        let before = |seen: &HierarchyFact| hierarchy::Spec {
            parent: seen.parent.clone(),
            labels: shown(&seen.labels),
            annotations: shown(&seen.annotations),
            allow_cascading_deletion: seen.allow_cascading_deletion,
        };
        let after = write.as_ref().map(|write| hierarchy::Spec {
            parent: write.parent.map(Name::from),
            labels: owned(&write.labels),
            annotations: vec![],
            allow_cascading_deletion: write.cascading,
        });
        let request = hierarchy::Request {
            operation: operation(seen.is_some(), after.is_some()),
            namespace: (*name).into(),
            user: named(user),
            old: seen.map(before).unwrap_or_default(),
            new: after.unwrap_or_default(),
            terminating: seen.is_some_and(|seen| seen.terminating),
        };
        self.dialogue(user, |answers| hierarchy::review(&self.forest, &request, answers))
    }

    fn anchor(
        &self,
        user: usize,
        (parent, child): (&str, &str),
        write: Option<&AnchorWrite>,
    ) -> Option<String> {
        let seen = self.cluster.anchors.get(&(Name::from(parent), Name::from(child)));
        let admin = seen.and_then(|seen| seen.initial_admin.as_deref().map(str::to_owned));
        let creator = self.initial_admin.then(|| USERS[user].to_owned());
        let before = seen.and_then(|seen| seen.state.as_deref().map(str::to_owned));
        let after = write.and_then(|write| write.state.map(str::to_owned)).or_else(|| before.clone());
        let spec =
            seen.filter(|_| write.is_some()).map(|seen| (seen.labels.clone(), seen.annotations.clone()));
        let request = anchor::Request {
            old: spec.unwrap_or_default(),
            state: (before, after),
            adds_owner: false,
            removes_finalizer: false,
            operation: operation(seen.is_some(), write.is_some()),
            parent: parent.into(),
            child: child.into(),
            user: named(user),
            labels: write.map(|write| owned(&write.labels)).unwrap_or_default(),
            annotations: vec![],
            initial_admin: if seen.is_some() { (admin.clone(), admin) } else { (None, creator) },
        };
        self.dialogue(user, |answers| anchor::review(&self.forest, &request, answers))
    }

    fn namespace(&self, user: usize, name: &str, write: Option<&NamespaceWrite>) -> Option<String> {
        let seen = self.cluster.namespaces.get(name);
        let before = |labels: fn(&forest::NamespaceFact) -> &Labels| -> Vec<(String, String)> {
            seen.map(|seen| shown(labels(seen))).unwrap_or_default()
        };
        let (labels, annotations) = (before(|seen| &seen.labels), before(|seen| &seen.annotations));
        let borrow = |pairs: &[(String, String)]| -> Vec<(String, String)> { pairs.to_vec() };
        let marks = |labels: Vec<(String, String)>, annotations: Vec<(String, String)>| namespace::Marks {
            labels: pairs(labels),
            annotations: pairs(annotations),
        };
        let after = |present: &[(String, String)], edits: &[_]| -> Vec<(String, String)> {
            let present = present.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            edited(present, edits).into_iter().collect()
        };
        let mut new =
            write.map(|write| (after(&labels, &write.labels), after(&annotations, &write.annotations)));
        if let Some((_, annotations)) = new.as_mut().filter(|_| self.initial_admin && seen.is_none())
            && annotations.iter().any(|(key, _)| key == keys::SUBNAMESPACE_OF)
        {
            annotations.push((keys::INITIAL_ADMIN.to_owned(), USERS[user].to_owned()));
        }
        let request = namespace::Request {
            operation: operation(seen.is_some(), write.is_some()),
            name: name.into(),
            user: named(user),
            old: marks(borrow(&labels), borrow(&annotations)),
            new: new.map(|(labels, annotations)| marks(labels, annotations)).unwrap_or_default(),
        };
        self.dialogue(user, |answers| namespace::review(&self.forest, &request, answers))
    }

    fn object(
        &self,
        user: usize,
        (namespace, what, name): (&str, What, &str),
        write: Option<&ObjectWrite>,
    ) -> Option<String> {
        let seen = self.cluster.objects.get(&(Name::from(namespace), what.key(name)));
        let labels = seen.map(|seen| seen.labels.clone()).unwrap_or_default();
        let after = |write: &ObjectWrite| {
            let Value::Object(body) = write.says.body() else { unreachable!("a body is an object") };
            state(labels.clone(), write.copy_of, write.asks, &body)
        };
        let request = object::Request {
            operation: operation(seen.is_some(), write.is_some()),
            user: named(user),
            namespace: namespace.into(),
            group: what.kind().group.clone(),
            kind: what.kind().kind.clone(),
            name: name.into(),
            old: seen.map(before),
            new: write.map(after),
        };
        self.dialogue(user, |answers| object::review(&self.forest, &request, answers))
    }

    fn configuration(&self, user: usize, entries: &[Entry]) -> Option<String> {
        let listed = |entries: &[Entry]| entries.iter().cloned().map(Ok).collect();
        let request = configuration::Request {
            operation: Operation::Update,
            name: "config".into(),
            old: listed(&self.entries),
            new: listed(entries),
            trees: Default::default(),
            served: Ok(served()),
        };
        self.dialogue(user, |answers| configuration::review(&self.forest, &request, answers))
    }
}

fn named(user: usize) -> User {
    User { name: USERS[user].into(), groups: vec![] }
}

fn pairs(pairs: Vec<(String, String)>) -> Pairs<'static> {
    pairs.into_iter().collect()
}

fn before(seen: &Object) -> object::State<'static> {
    state(seen.labels.clone(), seen.inherited_from.as_deref(), seen.asks, &seen.body)
}

fn state(
    labels: BTreeMap<String, String>,
    copy_of: Option<&str>,
    asks: usize,
    body: &serde_json::Map<String, Value>,
) -> object::State<'static> {
    let copy = copy_of.map(|source| (keys::INHERITED_FROM.to_owned(), source.to_owned()));
    let fields = body.iter().map(|(key, value)| {
        let text = to_raw_value(value).expect("a value is JSON");
        (Cow::Owned(key.clone()), Cow::Owned(text))
    });
    object::State {
        labels: labels.into_iter().chain(copy).collect(),
        annotations: ASKS[asks].annotations.iter().copied().collect(),
        finalizers: vec![],
        owner_references: vec![],
        terminating: false,
        body: Fields::new(fields.collect()).expect("each name once"),
    }
}
