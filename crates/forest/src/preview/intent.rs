//! The changes that a user may make: the verdict of admission, and the direct effect.
//!
//! Every intent is one request to the API server, and the rule for that request judges it. Whether the object exists, and whether
//! RBAC allows the request, is not judged here.

use super::Preview;
use crate::accurate::keys::FINALIZER;
use crate::accurate::rules::{namespace as accurate_namespace, sub_namespace};
use crate::core::kind::KindSettings;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::dialects::{Fact, Forest};
use crate::hnc::configuration::{Entry, Served, resolve};
use crate::hnc::keys::SUBNAMESPACE_OF;
use crate::hnc::rules::{
    Answers, Operation, Pairs, User, Verdict, anchor, configuration, hierarchy, namespace,
};

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Write a `HierarchyConfiguration`, or create it.
    SetHierarchy {
        /// The namespace that it configures.
        namespace: Name,
        /// Its `spec.parent` afterwards.
        parent: Option<Name>,
        /// Its `spec.allowCascadingDeletion` afterwards.
        allow_cascading_deletion: bool,
    },
    /// Delete a namespace.
    DeleteNamespace {
        /// Its name.
        name: Name,
    },
    /// Write or remove the annotation that names the parent of a subnamespace.
    Annotate {
        /// Its name.
        namespace: Name,
        /// The parent afterwards.
        subnamespace_of: Option<Name>,
    },
    /// Create an anchor.
    CreateAnchor {
        /// The namespace that it is in.
        parent: Name,
        /// Its name.
        child: Name,
        /// Its `spec.labels`.
        labels: Labels,
        /// Its `spec.annotations`.
        annotations: Labels,
    },
    /// Delete an anchor.
    DeleteAnchor {
        /// The namespace that it is in.
        parent: Name,
        /// Its name.
        child: Name,
    },
    /// Set and remove labels of a namespace.
    Label {
        /// Its name.
        namespace: Name,
        /// The labels by key, with their values afterwards.
        labels: Vec<(Box<str>, Option<Box<str>>)>,
    },
    /// Create a `SubNamespace`.
    CreateSubNamespace {
        /// The namespace that it is in.
        parent: Name,
        /// Its name.
        child: Name,
        /// Its `spec.labels`.
        labels: Labels,
        /// Its `spec.annotations`.
        annotations: Labels,
    },
    /// Delete a `SubNamespace`.
    DeleteSubNamespace {
        /// The namespace that it is in.
        parent: Name,
        /// Its name.
        child: Name,
    },
    /// Write the `HNCConfiguration`.
    Configure {
        /// `spec.resources` before; an entry that cannot be read is given as the reason.
        old: Vec<Result<Entry, String>>,
        /// The same afterwards.
        new: Vec<Result<Entry, String>>,
        /// What the API server serves.
        served: Served,
    },
}

impl Preview {
    /// The verdict of admission if `user` makes this change now, with these `answers`.
    pub fn judge(&self, intent: &Intent, user: &User, answers: &Answers) -> Verdict {
        let forest = &self.forest;
        match intent {
            Intent::SetHierarchy { namespace, parent, allow_cascading_deletion } => hierarchy::review(
                forest,
                &hierarchy_request(forest, namespace, (parent.clone(), *allow_cascading_deletion), user),
                answers,
            ),
            Intent::DeleteNamespace { name } => {
                let new = namespace::Marks::default();
                review_namespace(forest, (Operation::Delete, name, user), new, answers)
            }
            Intent::Annotate { namespace, subnamespace_of } => {
                let old = marks(forest, namespace);
                let annotations = shown(annotated(old.annotations.iter(), subnamespace_of.as_deref()));
                let new = namespace::Marks { annotations, ..old };
                review_namespace(forest, (Operation::Update, namespace, user), new, answers)
            }
            Intent::Label { namespace, labels } => {
                let old = marks(forest, namespace);
                let new = namespace::Marks { labels: shown(labelled(old.labels.iter(), labels)), ..old };
                review_namespace(forest, (Operation::Update, namespace, user), new, answers)
            }
            Intent::CreateSubNamespace { parent, child, labels, annotations } => {
                let request = sub_namespace::Request {
                    labels: listed(labels),
                    annotations: listed(annotations),
                    ..sub_namespace_request(Operation::Create, parent, child, user)
                };
                sub_namespace::review(forest, &request, answers)
            }
            Intent::DeleteSubNamespace { parent, child } => {
                let request = sub_namespace_request(Operation::Delete, parent, child, user);
                sub_namespace::review(forest, &request, answers)
            }
            Intent::CreateAnchor { parent, child, labels, annotations } => {
                let request = anchor::Request {
                    labels: listed(labels),
                    annotations: listed(annotations),
                    ..anchor_request(Operation::Create, parent, child, user)
                };
                anchor::review(forest, &request, answers)
            }
            Intent::DeleteAnchor { parent, child } => {
                anchor::review(forest, &anchor_request(Operation::Delete, parent, child, user), answers)
            }
            Intent::Configure { old, new, served } => {
                let request = configuration::Request {
                    operation: Operation::Update,
                    name: configuration::CONFIG.into(),
                    old: old.clone(),
                    new: new.clone(),
                    trees: Default::default(),
                    served: Ok(served.clone()),
                };
                configuration::review(forest, &request, answers)
            }
        }
    }

    /// Makes the change as `user`, without judging it. [`Preview::settle`] computes what follows.
    pub fn change(&mut self, intent: &Intent, user: &User) {
        match intent {
            Intent::SetHierarchy { namespace, parent, allow_cascading_deletion } => {
                self.edit_hierarchy(namespace, |seen| {
                    seen.parent.clone_from(parent);
                    seen.allow_cascading_deletion = *allow_cascading_deletion;
                });
            }
            Intent::DeleteNamespace { name } => self.terminate(name),
            Intent::Annotate { namespace, subnamespace_of } => self.edit_namespace(namespace, |seen| {
                seen.annotations = annotated(seen.annotations.iter(), subnamespace_of.as_deref()).collect();
            }),
            Intent::CreateAnchor { parent, child, labels, annotations } => {
                let recorded = self.forest.settings().initial_admin.is_some();
                let initial_admin = recorded.then(|| user.name.as_str().into());
                self.edit_anchor(parent, child, |seen| {
                    (seen.labels, seen.annotations) = (labels.clone(), annotations.clone());
                    seen.initial_admin = initial_admin;
                });
            }
            Intent::DeleteAnchor { parent, child } => {
                if self.forest.has_anchor(parent, child) {
                    self.edit_anchor(parent, child, |seen| seen.terminating = true);
                }
            }
            // The writer of a label owns it, and not who has applied it.
            Intent::Label { namespace, labels } => self.edit_namespace(namespace, |seen| {
                let is_new =
                    |(key, value): &&(Box<str>, Option<Box<str>>)| seen.labels.get(key) != value.as_deref();
                for (key, _) in labels.iter().filter(is_new) {
                    seen.applied.labels.remove(key);
                    seen.applied.shared_labels.remove(key);
                    seen.foreign.labels.insert(key.clone());
                }
                seen.labels = labelled(seen.labels.iter(), labels).collect();
            }),
            Intent::CreateSubNamespace { parent, child, labels, annotations } => {
                self.edit_sub_namespace(parent, child, |seen| {
                    (seen.labels, seen.annotations) = (labels.clone(), annotations.clone());
                    (seen.finalizers, seen.generation) = (vec![FINALIZER.into()], 1);
                });
            }
            Intent::DeleteSubNamespace { parent, child } => {
                let all = self.forest.id(parent).map(|id| self.forest.accurate().sub_namespaces(id));
                if all.is_some_and(|all| all.contains_key(child)) {
                    self.edit_sub_namespace(parent, child, |seen| seen.terminating = true);
                }
            }
            Intent::Configure { new, served, .. } => {
                let kinds: Vec<KindSettings> = resolve(new, served).settings().cloned().collect();
                self.tell(Fact::Kinds(kinds));
            }
        }
    }
}

/// Both APIs judge a request for a namespace, as in the webhook.
fn review_namespace(
    forest: &Forest,
    (operation, name, user): (Operation, &Name, &User),
    new: namespace::Marks<'static>,
    answers: &Answers,
) -> Verdict {
    let (name, user, old) = (name.clone(), user.clone(), marks(forest, name));
    let of_accurate = accurate_namespace::Request {
        operation,
        name: name.clone(),
        user: user.clone(),
        old: old.labels.clone(),
        new: new.labels.clone(),
        terminating: forest.is_terminating(&name),
        is_subnamespace: new.annotations.get(SUBNAMESPACE_OF).is_some_and(|it| !it.is_empty()),
    };
    namespace::review(forest, &namespace::Request { operation, name, user, old, new }, answers)
        .and(|| accurate_namespace::review(forest, &of_accurate, answers))
}

fn sub_namespace_request(
    operation: Operation,
    parent: &Name,
    child: &Name,
    user: &User,
) -> sub_namespace::Request {
    sub_namespace::Request {
        operation,
        namespace: parent.clone(),
        name: child.clone(),
        user: user.clone(),
        labels: Vec::new(),
        annotations: Vec::new(),
        adds_owner: false,
        removes_finalizer: false,
    }
}

/// The labels of a namespace after a change.
fn labelled<'a>(
    present: impl Iterator<Item = (&'a str, &'a str)>,
    change: &'a [(Box<str>, Option<Box<str>>)],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let others = present.filter(|(key, _)| !change.iter().any(|(changed, _)| **changed == **key));
    others.chain(change.iter().filter_map(|(key, value)| Some((&**key, value.as_deref()?))))
}

fn hierarchy_request(
    forest: &Forest,
    namespace: &Name,
    (parent, allow_cascading_deletion): (Option<Name>, bool),
    user: &User,
) -> hierarchy::Request {
    let seen = forest.hierarchy_fact(namespace);
    let old = seen.as_ref().map_or_else(hierarchy::Spec::default, |seen| hierarchy::Spec {
        parent: seen.parent.clone(),
        labels: listed(&seen.labels),
        annotations: listed(&seen.annotations),
        allow_cascading_deletion: seen.allow_cascading_deletion,
    });
    hierarchy::Request {
        operation: if seen.is_some() { Operation::Update } else { Operation::Create },
        namespace: namespace.clone(),
        user: user.clone(),
        new: hierarchy::Spec { parent, allow_cascading_deletion, ..old.clone() },
        old,
        terminating: seen.is_some_and(|seen| seen.terminating),
    }
}

fn anchor_request(operation: Operation, parent: &Name, child: &Name, user: &User) -> anchor::Request {
    anchor::Request {
        operation,
        parent: parent.clone(),
        child: child.clone(),
        user: user.clone(),
        labels: Vec::new(),
        annotations: Vec::new(),
        old: Default::default(),
        initial_admin: (None, None),
        state: (None, None),
        adds_owner: false,
        removes_finalizer: false,
    }
}

/// The annotations that the rules read.
fn marks(forest: &Forest, name: &str) -> namespace::Marks<'static> {
    let marks = |id| {
        let seen = forest.namespace(id)?;
        let labels = forest.labels(id)?.iter().map(|(key, value)| (key.into_owned(), value.to_owned()));
        Some(namespace::Marks { labels: labels.collect(), annotations: shown(seen.annotations.iter()) })
    };
    forest.id(name).and_then(marks).unwrap_or_default()
}

/// The pairs as a request would show them.
fn shown<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Pairs<'static> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn annotated<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
    subnamespace_of: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let others = annotations.filter(|(key, _)| *key != SUBNAMESPACE_OF);
    others.chain(subnamespace_of.map(|parent| (SUBNAMESPACE_OF, parent)))
}

fn listed(pairs: &Labels) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
