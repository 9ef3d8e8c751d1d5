//! Why an object is in a namespace, or why not, by the same predicates that rules and plans use.
//!
//! An [`ObjectExplanation`] says what is there, what belongs there and why. It is no plan: it writes nothing, and it also answers when
//! information is missing, and says what is missing.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use crate::core::kind::{Kind, KindId, Mode, ObjectKey};
use crate::core::managed::Unmanaged;
use crate::core::name::Name;
use crate::core::object::{Copy, Object, Source};
use crate::core::text::shown;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::condition::{Condition, Reason};
use crate::hnc::configuration::{Entry, Resolution, Served};
use crate::hnc::exceptions::{Exceptions, Withheld};
use crate::hnc::exclusion::never;
use crate::hnc::plan::{Decision, Place, Reach, is_forsaken, reach};

/// A question about an object in any namespace.
#[derive(Debug, Clone)]
pub struct ObjectQuestion<'a> {
    /// The object. A kind that is not configured is in the forest as an ignored one.
    pub key: ObjectKey,
    /// What the configuration says about its kind.
    pub in_configuration: KindInConfiguration,
    /// Namespaces where it is not known whether such an object exists.
    pub unseen: &'a BTreeSet<Name>,
    /// Namespaces whose Roles are not known, limited to Roles that the bindings in question refer to.
    pub unseen_roles: &'a BTreeSet<Name>,
}

/// What the configuration says about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindInConfiguration {
    /// It is configured, or always propagated.
    Configured,
    /// No entry names it.
    Absent,
    /// Its objects are never propagated, for this reason.
    Never(&'static str),
    /// An entry names it, but is not in force; the text says why.
    Refused(Box<str>),
    /// The configuration cannot be read.
    Unknown,
}

impl KindInConfiguration {
    /// The result of these entries for a kind.
    pub fn of(
        kind: &Kind,
        entries: &[Result<Entry, String>],
        served: &Served,
        resolution: &Resolution,
    ) -> Self {
        if let Some(why) = never(kind) {
            return Self::Never(why);
        }
        if resolution.of_kind(kind).is_some() {
            return Self::Configured;
        }
        let is_meant = |at: usize| {
            let found = entries.get(at).and_then(|it| it.as_ref().ok()).map(|entry| served.named(entry));
            matches!(found, Some(Ok(found)) if found.kind.group == kind.group && found.kind.kind == kind.kind)
        };
        let mut findings = resolution.findings.iter().filter(|finding| finding.list == "resources");
        let finding = findings.find(|finding| is_meant(finding.entry));
        finding.map_or(Self::Absent, |finding| Self::Refused(finding.why.as_str().into()))
    }
}

/// The answer for an object in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectExplanation {
    /// What is there.
    pub there: There,
    /// What belongs there.
    pub expected: Expected,
    /// The sources of that name above, top-most first: the first that propagates here decides.
    pub above: Vec<Above>,
    /// For an object that is no copy: why it propagates nowhere at all, if so.
    pub stays: Option<Withheld>,
    /// The namespaces above where it is not known whether a source exists that would decide instead.
    pub unseen: Vec<Name>,
    /// The namespaces, itself or above, whose Roles are not known although they decide.
    pub unseen_roles: Vec<Name>,
    /// The condition of the namespace about failed writes, if it may be about this object.
    pub refused: Option<Refusal>,
}

/// A failed or delayed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The condition that reports it.
    pub condition: Condition,
    /// Whether it is about the object itself. Otherwise, the condition does not name all objects, or names restrictions, for which new
    /// bindings wait.
    pub is_certain: bool,
}

/// What is in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum There {
    /// It is not known.
    Unknown,
    /// No such object.
    Nothing,
    /// An object that is no copy.
    Own {
        /// It is being deleted.
        terminating: bool,
    },
    /// A copy.
    Copy {
        /// The namespace that it says it comes from.
        from: Name,
        /// It is being deleted.
        terminating: bool,
    },
}

/// What belongs in a namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// A copy of the object in this namespace.
    Copy(Name),
    /// The source in this namespace would belong here, but the user's own object here is kept.
    Conflict(Name),
    /// The object that is here: no source propagates here.
    Own,
    /// Nothing: no source propagates here.
    Nothing,
    /// No copy any more: its source in this namespace was deleted, and so was the parent that connects them.
    Forsaken(Name),
    /// The object as it is; nothing is written or removed.
    AsItIs(Untouched),
    /// Unknown, because the objects above or the configuration of the kind are not known.
    Unknown,
}

/// Why no write is made for an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Untouched {
    /// There is no such namespace.
    NoNamespace,
    /// The namespace is being deleted: nothing is created there, restrictions stay, and conflicts are not solved.
    NamespaceTerminating,
    /// The namespace is not managed.
    Unmanaged(Unmanaged),
    /// The namespace is frozen.
    Halted {
        /// The halted namespace: itself or an ancestor.
        at: Name,
        /// Its condition.
        condition: Option<Condition>,
        /// Whether the copy is deleted with its source nevertheless.
        follows_deletion: bool,
    },
    /// The configuration does not name the kind.
    NotConfigured,
    /// Such objects are never propagated, for this reason.
    Never(&'static str),
    /// The entry of the kind is not in force; the text says why.
    NotInForce(Box<str>),
    /// The kind is in mode Ignore.
    Ignored,
    /// The object is being deleted.
    Terminating,
}

/// A source above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Above {
    /// Its namespace.
    pub namespace: Name,
    /// Why it propagates here, or why not.
    pub comes: Result<Admitted, Withheld>,
}

/// Why a source propagates to a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The mode of its kind.
    pub mode: Mode,
    /// Its annotations that ask for it.
    pub by: Vec<&'static str>,
}

/// As a clause, it completes "it comes because".
impl fmt::Display for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its kind is in mode {}", self.mode)?;
        match &self.by[..] {
            [] => Ok(()),
            [one] => write!(f, " and its annotation {one} lets it through"),
            several => write!(f, " and its annotations {} let it through", several.join(" and ")),
        }
    }
}

/// As a clause, it completes "it is left as it is because".
impl fmt::Display for Untouched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNamespace => f.write_str("there is no such namespace"),
            Self::NamespaceTerminating => f.write_str("the namespace is being deleted"),
            Self::Unmanaged(why) => write!(f, "the namespace {why}"),
            Self::Halted { at, condition, follows_deletion } => {
                write!(f, "the namespace {at:?} is halted")?;
                if let Some(condition) = condition {
                    write!(f, " ({}: {})", condition.reason, condition.message)?;
                }
                if *follows_deletion {
                    f.write_str("; it is deleted with its source nevertheless")
                } else {
                    Ok(())
                }
            }
            Self::Never(why) => f.write_str(why),
            Self::NotConfigured => f.write_str("the HNCConfiguration does not name its kind"),
            Self::NotInForce(why) => {
                write!(f, "what the HNCConfiguration says of its kind is not in force: {why}")
            }
            Self::Ignored => f.write_str("its kind is in mode Ignore"),
            Self::Terminating => f.write_str("it is being deleted"),
        }
    }
}

/// Why the object is in `namespace`, or why not.
pub fn explain(forest: &Forest, question: &ObjectQuestion<'_>, namespace: &str) -> ObjectExplanation {
    let ObjectQuestion { key, unseen, unseen_roles, .. } = question;
    let Some(id) = forest.id(namespace) else { return nowhere(forest, question, namespace) };
    let object = forest.object(id, key);
    let place = Place::of(forest, id);
    let above: Vec<Above> = place.candidates(key).map(|it| candidate(forest, key, it)).collect();
    let winner = above.iter().find(|it| it.comes.is_ok()).map(|it| &it.namespace);
    // Sources below the deciding one change nothing.
    let ancestry = forest.ancestry(namespace);
    let deciding = ancestry.iter().skip(1).rev().take_while(|name| Some(*name) != winner);
    let unseen_above: Vec<Name> = deciding.filter(|name| unseen.contains(*name)).cloned().collect();
    let rests_on_roles = !unseen_roles.is_empty() && rests_on_roles(&place, key);
    let roles = ancestry.iter().filter(|name| rests_on_roles && unseen_roles.contains(*name));
    let unseen_roles: Vec<Name> = roles.cloned().collect();
    let there = match object {
        None if unseen.contains(namespace) => There::Unknown,
        None => There::Nothing,
        Some(Object::Source(source)) => There::Own { terminating: source.terminating },
        Some(Object::Copy(copy)) => {
            There::Copy { from: copy.inherited_from.clone(), terminating: copy.terminating }
        }
    };
    let expected = match expected(forest, question, (id, object), (winner, &unseen_above)) {
        Expected::Copy(_) | Expected::Nothing if !unseen_roles.is_empty() => Expected::Unknown,
        expected => expected,
    };
    let stays = object.and_then(Object::source).and_then(|source| stays(forest, key, source));
    // The mode of a kind that is not configured is made up.
    let is_configured = question.in_configuration == KindInConfiguration::Configured;
    let stays = stays.filter(|why| is_configured || !matches!(why, Withheld::Mode(_)));
    let refused = refused(forest, key, (namespace, &there, &expected));
    ObjectExplanation { there, expected, above, stays, unseen: unseen_above, unseen_roles, refused }
}

/// The same for all namespaces below `namespace`, in the order of a tree drawing.
pub fn below(
    forest: &Forest,
    question: &ObjectQuestion<'_>,
    namespace: &str,
) -> Vec<(Name, ObjectExplanation)> {
    let mut found: Vec<(Name, ObjectExplanation)> = Vec::new();
    let mut next: Vec<Name> = forest.children(namespace).into_iter().rev().collect();
    let mut seen = BTreeSet::from([Name::from(namespace)]);
    while let Some(name) = next.pop() {
        if seen.insert(name.clone()) {
            next.extend(forest.children(&name).into_iter().rev());
            let answer = explain(forest, question, &name);
            found.push((name, answer));
        }
    }
    found
}

fn nowhere(forest: &Forest, question: &ObjectQuestion<'_>, namespace: &str) -> ObjectExplanation {
    let unmanaged = forest.settings().unmanaged(namespace);
    let untouched = unmanaged.map_or(Untouched::NoNamespace, Untouched::Unmanaged);
    let there = if question.unseen.contains(namespace) { There::Unknown } else { There::Nothing };
    ObjectExplanation {
        there,
        expected: Expected::AsItIs(untouched),
        above: Vec::new(),
        stays: None,
        unseen: Vec::new(),
        unseen_roles: Vec::new(),
        refused: None,
    }
}

fn candidate(
    forest: &Forest,
    key: &ObjectKey,
    (namespace, source, goes): (&Name, &Source, Result<(), Withheld>),
) -> Above {
    let mode = forest.kind_settings(key.kind).map(|it| it.mode).unwrap_or_default();
    let by = || source.asks().into_iter().flat_map(Exceptions::asking).collect();
    Above { namespace: namespace.clone(), comes: goes.map(|()| Admitted { mode, by: by() }) }
}

/// Whether the deciding source, or one that would decide if it propagated, refers to a Role.
fn rests_on_roles(place: &Place<'_>, key: &ObjectKey) -> bool {
    let by_role = |withheld| matches!(withheld, Withheld::OtherRole { .. } | Withheld::RoleTerminating(_));
    let mut decided = place.candidates(key).filter_map(|(_, source, goes)| match goes {
        Ok(()) => Some(source.role.is_some()),
        Err(withheld) => by_role(withheld).then_some(true),
    });
    decided.next().unwrap_or_default()
}

fn stays(forest: &Forest, key: &ObjectKey, source: &Source) -> Option<Withheld> {
    source.stays(forest.kind_settings(key.kind)?, &key.name)
}

fn expected(
    forest: &Forest,
    question: &ObjectQuestion<'_>,
    (id, object): (Id, Option<&Object>),
    (winner, unseen): (Option<&Name>, &[Name]),
) -> Expected {
    if let Some(untouched) = untouched(forest, question, forest.name(id)) {
        return Expected::AsItIs(untouched);
    }
    let place = match reach(forest, id) {
        Reach::Full(place) => place,
        Reach::Frozen { root, forsakes } => return frozen(forest, question, (id, root), forsakes),
        Reach::None => return Expected::AsItIs(Untouched::NoNamespace),
    };
    if question.in_configuration == KindInConfiguration::Unknown && is_ignored(forest, question.key.kind) {
        return Expected::Unknown;
    }
    if object.is_some_and(Object::is_terminating) {
        return Expected::AsItIs(Untouched::Terminating);
    }
    let ends = forest.is_ending(id);
    if ends && object.is_none() {
        return Expected::AsItIs(Untouched::NamespaceTerminating);
    }
    if !unseen.is_empty() {
        // A copy names its source, which may no longer exist.
        return match object {
            Some(Object::Copy(Copy { inherited_from, .. })) if unseen.contains(inherited_from) => {
                Expected::Copy(inherited_from.clone())
            }
            _ => Expected::Unknown,
        };
    }
    match (place.decide(&question.key), winner, object) {
        (Decision::Report(from), ..) => Expected::Conflict(from.clone()),
        (Decision::Leave, Some(_), Some(Object::Source(_)))
        | (Decision::Leave, None, Some(Object::Copy(_)))
            if ends =>
        {
            Expected::AsItIs(Untouched::NamespaceTerminating)
        }
        (Decision::Write(from, _), ..) | (Decision::Leave, Some(from), _) => Expected::Copy(from.clone()),
        (Decision::Leave, None, Some(Object::Source(_))) => Expected::Own,
        (Decision::Leave | Decision::Delete(_), ..) => Expected::Nothing,
    }
}

/// Whether no write is made for the kind.
fn untouched(forest: &Forest, question: &ObjectQuestion<'_>, namespace: &str) -> Option<Untouched> {
    if let Some(why) = forest.settings().unmanaged(namespace) {
        return Some(Untouched::Unmanaged(why));
    }
    match &question.in_configuration {
        KindInConfiguration::Absent => Some(Untouched::NotConfigured),
        KindInConfiguration::Never(why) => Some(Untouched::Never(why)),
        KindInConfiguration::Refused(why) => Some(Untouched::NotInForce(why.clone())),
        KindInConfiguration::Configured if is_ignored(forest, question.key.kind) => Some(Untouched::Ignored),
        KindInConfiguration::Configured | KindInConfiguration::Unknown => None,
    }
}

fn is_ignored(forest: &Forest, kind: KindId) -> bool {
    forest.kind_settings(kind).is_none_or(|settings| settings.mode == Mode::Ignore)
}

fn frozen(
    forest: &Forest,
    ObjectQuestion { key, unseen, .. }: &ObjectQuestion<'_>,
    (id, root): (Id, Id),
    forsakes: bool,
) -> Expected {
    if let Some(Object::Copy(copy)) = forest.object(id, key)
        && forsakes
        && !unseen.contains(&copy.inherited_from)
        && is_forsaken(forest, id, key, copy)
    {
        return Expected::Forsaken(copy.inherited_from.clone());
    }
    let at = forest.name(root).clone();
    let condition = forest.own_halt(root).map(|halt| halt.condition(forest.settings()));
    let is_copy = matches!(forest.object(id, key), Some(Object::Copy(_)));
    let follows_deletion = forsakes && is_copy && forest.kind(key.kind).binds_subjects();
    Expected::AsItIs(Untouched::Halted { at, condition, follows_deletion })
}

/// The condition about failed writes, if the object differs from the desired one and the condition names it, does not name all, or names
/// what it may wait for; or the condition about waiting bindings.
fn refused(
    forest: &Forest,
    key: &ObjectKey,
    (namespace, there, expected): (&str, &There, &Expected),
) -> Option<Refusal> {
    let is_right = match (there, expected) {
        (There::Copy { from, .. }, Expected::Copy(source)) => from == source,
        (There::Copy { .. }, Expected::Nothing | Expected::Forsaken(_)) | (_, Expected::Copy(_)) => false,
        _ => true,
    };
    if is_right {
        return None;
    }
    let is_binding = forest.kind(key.kind).binds_subjects();
    let named = format!("{} {:?}: ", forest.kind(key.kind).group_resource(), shown(&key.name));
    let restrictions: Vec<String> = forest
        .kinds()
        .filter(|(_, it)| is_binding && it.kind.restricts())
        .map(|(_, it)| format!("{} \"", it.kind.group_resource()))
        .collect();
    let may_be_about = |it: &Condition| {
        it.message.ends_with(" more") || restrictions.iter().any(|kind| it.message.contains(kind))
    };
    let find = |reason: Reason, is_it: &dyn Fn(&Condition) -> bool| {
        let mut shown = forest.conditions_shown(namespace).iter();
        shown.find(|it| *it.reason == *reason.as_str() && is_it(it)).cloned()
    };
    let certain = |condition| Refusal { condition, is_certain: true };
    let waits = || if is_binding { find(Reason::QuotaNotInForce, &|_| true) } else { None };
    find(Reason::CannotPropagateObject, &|it| it.message.contains(&named))
        .map(certain)
        .or_else(|| waits().map(certain))
        .or_else(|| {
            let condition = find(Reason::CannotPropagateObject, &may_be_about)?;
            Some(Refusal { condition, is_certain: false })
        })
}
