//! The preview as data: the output of `-o json`, from which the text is made as well.

use forest::Forest;
use forest::hnc::quota::Resources;
use forest::preview::{
    AnchorChange, Effect, KeptObject, NamespaceChange, ObjectChange, PairChange, QuotaChange,
    SubNamespaceChange,
};
use serde::Serialize;

use super::{Decision, PreviewResult};
use crate::Failure;
use crate::failure::{CONVERT, is_in_accurate};
use crate::lines::printable;

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    /// The planned changes, as sentences.
    pub(crate) change: Vec<String>,
    /// Whether there is nothing to change.
    #[serde(skip)]
    pub(crate) is_unchanged: bool,
    /// Whether the command makes the change only with --force.
    #[serde(skip)]
    pub(crate) needs_force: bool,
    pub(crate) verdict: Verdict,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) anchors: Vec<Anchor>,
    /// The `SubNamespaces` of Accurate's API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sub_namespaces: Vec<SubNamespace>,
    pub(crate) objects: Vec<Object>,
    /// Objects that are not copies and are kept, although an object of the same name is propagated to their namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept: Vec<Kept>,
    /// The hierarchical quotas of which more or less would be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) quotas: Vec<Quota>,
    pub(crate) totals: Totals,
    /// Whether there may be more effects than are known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) totals_at_least: bool,
    /// The number of writes that the controller has to make already without the changes; omitted if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// Whether the change would be allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    /// `allowed`, `refused` or `unknown`.
    pub(crate) outcome: &'static str,
    /// The HTTP code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Values>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) labels: Vec<Pair>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) annotations: Vec<Pair>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    /// Whether there may be more in it or below it than the user may read.
    #[serde(skip)]
    pub(crate) is_unread: bool,
    /// The `SubNamespace` for which it is created, if it is.
    #[serde(skip)]
    pub(crate) form: Option<String>,
}

/// The values before and after; null if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Values {
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pair {
    pub(crate) key: String,
    #[serde(flatten)]
    pub(crate) values: Values,
    /// Whether a namespace above, which the user may not read, may set another value.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) may_be_overridden: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Condition {
    /// `comes` or `goes`.
    pub(crate) action: &'static str,
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Anchor {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SubNamespace {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) action: &'static str,
    /// Why it would have no namespace, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stalled: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) namespace: String,
    /// `rolebindings.rbac.authorization.k8s.io`.
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) action: &'static str,
    /// The namespace of the source that is copied here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// Of an object that would be created: whether there may be one of this name, because the user may not list the objects there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) may_exist: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    /// The namespace of the source that is not copied here.
    pub(crate) source: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    pub(crate) objects_created: usize,
    pub(crate) objects_updated: usize,
    pub(crate) objects_overwritten: usize,
    pub(crate) objects_deleted: usize,
    pub(crate) namespaces_created: usize,
    pub(crate) namespaces_deleted: usize,
    pub(crate) namespaces_changed: usize,
    /// In namespaces that are kept or created.
    pub(crate) labels_changed: usize,
    /// In the same namespaces.
    pub(crate) annotations_changed: usize,
}

/// What would be used of a hierarchical quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Quota {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) resource: String,
    #[serde(flatten)]
    pub(crate) values: Values,
    pub(crate) limit: String,
    /// Whether more would be used than allowed.
    pub(crate) exceeded: bool,
}

const CREATE: &str = "create";
const CHANGE: &str = "change";
const UPDATE: &str = "update";
const OVERWRITE: &str = "overwrite";
const DELETE: &str = "delete";

impl Document {
    pub(crate) fn new(change: Vec<String>, result: &PreviewResult) -> Self {
        let outcome = &result.outcome;
        let warnings = result.decisions.iter().flat_map(|it| match it {
            Decision::Allowed { warnings } => warnings.clone(),
            _ => Vec::new(),
        });
        let mut document = Self {
            change,
            is_unchanged: result.decisions.is_empty(),
            needs_force: result.needs_force,
            verdict: verdict(&result.decisions),
            warnings: warnings.collect(),
            namespaces: outcome.namespaces.iter().map(|it| namespace(it, result)).collect(),
            anchors: outcome.anchors.iter().map(anchor).collect(),
            sub_namespaces: outcome.sub_namespaces.iter().map(sub_namespace).collect(),
            objects: outcome.objects.iter().map(|it| object(it, result)).collect(),
            kept: outcome.kept.iter().map(|it| kept(&result.forest, it)).collect(),
            quotas: outcome.quotas.iter().flat_map(quotas).collect(),
            totals: Totals::default(),
            totals_at_least: false,
            pending: result.pending,
            notes: result.notes.clone(),
        };
        document.totals = document.count();
        document.totals_at_least = document.may_have_more(result.is_partial);
        document
    }

    /// Fails if the change would be refused.
    pub(crate) fn is_possible(&self) -> Result<(), Failure> {
        let Verdict { outcome, code, message, .. } = &self.verdict;
        if *outcome != "refused" {
            return Ok(());
        }
        let message = message.as_deref().unwrap_or_default();
        let code = code.unwrap_or_default();
        let convert = if is_in_accurate(message) { format!("\n{CONVERT}") } else { String::new() };
        Err(Failure::new(format!("Error: this would be refused ({code}): {message}"))
            .with_hint(format!("Nothing was changed.{convert}")))
    }

    /// Whether there may be more effects than these. A refused change has none.
    fn may_have_more(&self, is_partial: bool) -> bool {
        let may_delete_more = self.namespaces.iter().any(|it| it.action == DELETE && it.is_unread);
        self.verdict.outcome != "refused" && (is_partial || may_delete_more)
    }

    fn count(&self) -> Totals {
        let objects = |action| self.objects.iter().filter(|it| it.action == action && !it.may_exist).count();
        let namespaces = |action| self.namespaces.iter().filter(|it| it.action == action).count();
        Totals {
            objects_created: objects(CREATE),
            objects_updated: objects("update"),
            objects_overwritten: objects(OVERWRITE),
            objects_deleted: objects(DELETE),
            namespaces_created: namespaces(CREATE),
            namespaces_deleted: namespaces(DELETE),
            namespaces_changed: namespaces(CHANGE),
            labels_changed: self.namespaces.iter().map(|it| it.labels.len()).sum(),
            annotations_changed: self.namespaces.iter().map(|it| it.annotations.len()).sum(),
        }
    }

    /// Whether the namespace would be deleted.
    pub(super) fn deletes(&self, name: &str) -> bool {
        self.namespaces.iter().any(|it| it.name == name && it.action == DELETE)
    }

    /// Whether a copy would be changed or deleted.
    pub(crate) fn changes_copies(&self) -> bool {
        self.objects.iter().any(|it| [UPDATE, DELETE].contains(&it.action))
    }

    fn of_objects(&self, action: &str, participle: &str) -> impl Iterator<Item = String> {
        self.objects.iter().filter(move |it| it.action == action).map(move |it| {
            format!("{} {} in {} would be {participle}", it.resource, printable(&it.name), it.namespace)
        })
    }

    /// All objects that would be overwritten, and all objects that would prevent a copy.
    pub(crate) fn conflicts(&self) -> Vec<String> {
        let kept = self.kept.iter().map(|it| {
            let Kept { namespace, resource, name, source } = it;
            let name = printable(name);
            format!(
                "{resource} {name} in {namespace} is not a copy, so the one of {source} would not be copied"
            )
        });
        self.of_objects(OVERWRITE, "overwritten").chain(kept).collect()
    }

    /// Whether there are no effects.
    pub(super) fn is_void(&self) -> bool {
        self.namespaces.is_empty()
            && self.anchors.is_empty()
            && self.sub_namespaces.is_empty()
            && self.objects.is_empty()
            && self.kept.is_empty()
            && self.quotas.is_empty()
    }
}

/// The resources of which more or less would be used.
fn quotas(change: &QuotaChange) -> Vec<Quota> {
    let QuotaChange { namespace, name, before, after, hard } = change;
    let changed = hard.iter().filter_map(|(resource, limit)| {
        let used = |of: &Resources| of.get(resource).copied().unwrap_or_default();
        let (before, after) = (used(before), used(after));
        let values = Values { before: Some(before.to_string()), after: Some(after.to_string()) };
        (before != after).then(|| Quota {
            namespace: namespace.to_string(),
            name: name.to_string(),
            resource: resource.to_string(),
            values,
            limit: limit.to_string(),
            exceeded: after > *limit,
        })
    });
    changed.collect()
}

/// The worst decision.
fn verdict(decisions: &[Decision]) -> Verdict {
    let refusal = decisions.iter().find_map(|it| match it {
        Decision::Refused { code, reason, message } => Some(Verdict {
            outcome: "refused",
            code: Some(*code),
            reason: Some(reason.clone()),
            message: Some(message.clone()),
        }),
        _ => None,
    });
    let unknown = decisions.iter().find_map(|it| match it {
        Decision::Unknown { why } => {
            Some(Verdict { outcome: "unknown", message: Some(why.clone()), ..Verdict::default() })
        }
        _ => None,
    });
    refusal.or(unknown).unwrap_or(Verdict { outcome: "allowed", ..Verdict::default() })
}

fn namespace(change: &NamespaceChange, result: &PreviewResult) -> Namespace {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let action = match (before, after) {
        (None, _) => CREATE,
        (_, None) => DELETE,
        _ => CHANGE,
    };
    let mut shown = Namespace {
        name: change.name.to_string(),
        action,
        parent: None,
        labels: Vec::new(),
        annotations: Vec::new(),
        conditions: Vec::new(),
        is_unread: result.unread.contains(&change.name),
        form: None,
    };
    if action == DELETE {
        return shown;
    }
    let above = result.forest.accurate_upstream(&change.name).filter(|_| action == CREATE);
    shown.form = above.map(|above| format!("SubNamespace {above}/{}", change.name));
    let parent = |it: Option<&forest::preview::NamespaceState>| {
        it.and_then(|it| Some(it.parent.as_ref()?.to_string()))
    };
    shown.parent = change.moves().then(|| Values { before: parent(before), after: parent(after) });
    let pair = |it: PairChange<'_>| {
        let may_be_overridden = result.overridable.contains(&(change.name.clone(), it.0.into()));
        Pair { may_be_overridden, ..pair(it) }
    };
    shown.labels = change.labels().into_iter().map(pair).collect();
    shown.annotations = change.annotations().into_iter().map(pair).collect();
    let coming = change.new_conditions().map(|it| condition("comes", it));
    shown.conditions = coming.chain(change.old_conditions().map(|it| condition("goes", it))).collect();
    shown
}

fn pair((key, before, after): PairChange<'_>) -> Pair {
    Pair {
        key: key.to_owned(),
        values: Values { before: before.map(str::to_owned), after: after.map(str::to_owned) },
        may_be_overridden: false,
    }
}

fn condition(action: &'static str, condition: &forest::Condition) -> Condition {
    Condition {
        action,
        type_: condition.type_.to_string(),
        reason: condition.reason.to_string(),
        message: condition.message.to_string(),
    }
}

fn anchor(change: &AnchorChange) -> Anchor {
    Anchor {
        namespace: change.parent.to_string(),
        name: change.child.to_string(),
        action: if change.is_there { CREATE } else { DELETE },
    }
}

fn sub_namespace(change: &SubNamespaceChange) -> SubNamespace {
    SubNamespace {
        namespace: change.parent.to_string(),
        name: change.child.to_string(),
        action: match (&change.before, &change.after) {
            (None, _) => CREATE,
            (_, None) => DELETE,
            _ => CHANGE,
        },
        stalled: change.after.as_ref().and_then(|it| it.stalled.as_deref()).map(str::to_owned),
    }
}

fn kept(forest: &Forest, object: &KeptObject) -> Kept {
    Kept {
        namespace: object.namespace.to_string(),
        resource: forest.kind(object.key.kind).group_resource(),
        name: object.key.name.to_string(),
        source: object.source.to_string(),
    }
}

fn object(change: &ObjectChange, result: &PreviewResult) -> Object {
    let action = match change.effect() {
        Effect::Create => CREATE,
        Effect::Update => UPDATE,
        Effect::Overwrite => OVERWRITE,
        Effect::Delete => DELETE,
    };
    let source = change.after.as_ref().and_then(|it| it.inherited_from.as_ref());
    let place = (change.key.kind, change.namespace.clone());
    Object {
        namespace: change.namespace.to_string(),
        resource: result.forest.kind(change.key.kind).group_resource(),
        name: change.key.name.to_string(),
        action,
        source: source.map(ToString::to_string),
        may_exist: action == CREATE && result.unlisted.contains(&place),
    }
}
