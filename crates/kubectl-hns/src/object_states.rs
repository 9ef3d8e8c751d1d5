//! The state of one object in each namespace, and the reason, from [`forest::why`]. `explain` and `tree --show-copies`
//! use it.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;

use forest::exceptions::Withheld;
use forest::why::{
    Above, Expected, KindInConfiguration, ObjectExplanation, ObjectQuestion, There, Untouched, below, explain,
};
use forest::{Kind, Name, ObjectKey, Reason};
use serde::Serialize;

use crate::Failure;
use crate::configured_kinds::{self, ConfiguredKinds};
use crate::loader::{Loaded, Selection, load};
use crate::object_argument::ObjectArgument;
use crate::published;
use crate::session::Session;
use crate::structure::Structure;
use crate::terminal::Ink;

/// One object, and what is known of it in the namespaces that were read.
pub(crate) struct ObjectStates {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) loaded: Loaded,
    in_configuration: KindInConfiguration,
    unseen: BTreeSet<Name>,
    unseen_roles: BTreeSet<Name>,
}

impl ObjectStates {
    /// Reads the object in the namespaces of `structure`, or only around `starts` if it cannot be listed in the whole
    /// cluster.
    ///
    /// # Errors
    /// There is no such kind, or a request failed for a reason other than missing rights.
    pub(crate) async fn read(
        session: &Session,
        subject: &ObjectArgument,
        structure: Structure,
        starts: &[Name],
    ) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let (configured, (settings, accurate, doubt)) =
            futures::join!(configured_kinds::read(session, &mut notes), published::both_settings(session));
        let configured = configured?;
        notes.extend(doubt);
        let kind = subject.kind(&configured.served)?;
        let within = around(&structure, starts);
        let selection = Selection::Named(&kind, &subject.name);
        let mut loaded =
            load(session, (structure, published::empty(settings, accurate)), &configured, selection, &within)
                .await?;
        loaded.notes.extend(notes);
        Ok(Self::new(kind, subject.name.clone(), loaded, &configured))
    }

    fn new(kind: Kind, name: String, loaded: Loaded, configured: &ConfiguredKinds) -> Self {
        let ConfiguredKinds { entries, served, resolution, is_known } = configured;
        let in_configuration = match KindInConfiguration::of(&kind, entries, served, resolution) {
            KindInConfiguration::Absent if !is_known => KindInConfiguration::Unknown,
            in_configuration => in_configuration,
        };
        let unseen = |kind: &Kind| {
            let id = loaded.forest.kind_named(&kind.group, &kind.kind);
            id.and_then(|id| loaded.unread.get(&id)).cloned().unwrap_or_default()
        };
        let (mut unseen, unseen_roles) = (unseen(&kind), unseen(&Kind::role()));
        unseen.extend(unread_sources(&loaded, &kind, &name));
        Self { kind, name, loaded, in_configuration, unseen, unseen_roles }
    }

    /// The answer for a namespace.
    pub(crate) fn answer(&self, namespace: &str) -> Option<ObjectExplanation> {
        Some(explain(&self.loaded.forest, &self.question()?, namespace))
    }

    /// The answers for everything below a namespace.
    pub(crate) fn below(&self, namespace: &str) -> Vec<(Name, ObjectExplanation)> {
        let question = self.question();
        question.map_or_else(Vec::new, |question| below(&self.loaded.forest, &question, namespace))
    }

    /// The answers for the namespaces that have a copy of the object in one of `sources`, without those that are `shown` already. Such a
    /// copy stays where the parent was deleted, and in an excluded namespace.
    pub(crate) fn elsewhere(
        &self,
        sources: &BTreeSet<&str>,
        shown: &BTreeSet<&str>,
    ) -> Vec<(Name, ObjectExplanation)> {
        let Some(question) = self.question() else { return Vec::new() };
        let forest = &self.loaded.forest;
        let is_copy = |name: &Name| {
            let from = forest.inherited_from(name, &question.key);
            from.is_some_and(|from| sources.contains(&**from))
        };
        let mut names: Vec<&Name> =
            forest.names().filter(|name| !shown.contains(&***name) && is_copy(name)).collect();
        names.sort();
        names.into_iter().map(|name| (name.clone(), explain(forest, &question, name))).collect()
    }

    /// The namespace of the source of the copy in `namespace`, if the object is not there any more.
    pub(crate) fn gone_source(&self, namespace: &str) -> Option<&Name> {
        let key = self.question()?.key;
        let Loaded { forest, structure, unread, .. } = &self.loaded;
        let from = forest.inherited_from(namespace, &key)?;
        let is_read = structure.is_whole && !unread.contains_key(&key.kind);
        (is_read && forest.object_version(from, &key).is_none()).then_some(from)
    }

    fn question(&self) -> Option<ObjectQuestion<'_>> {
        let kind = self.loaded.forest.kind_named(&self.kind.group, &self.kind.kind)?;
        let key = ObjectKey { kind, name: self.name.as_str().into() };
        let Self { unseen, unseen_roles, .. } = self;
        Some(ObjectQuestion { key, in_configuration: self.in_configuration.clone(), unseen, unseen_roles })
    }
}

/// The sources of copies of the object that may exist, although their namespaces were not read: those above a missing parent.
fn unread_sources(loaded: &Loaded, kind: &Kind, name: &str) -> BTreeSet<Name> {
    let Loaded { forest, structure, .. } = loaded;
    let Some(kind) = forest.kind_named(&kind.group, &kind.kind) else { return BTreeSet::new() };
    let key = ObjectKey { kind, name: name.into() };
    let sources = structure.hierarchies.keys().filter_map(|it| forest.inherited_from(it, &key));
    sources.filter(|source| structure.may_exist(forest, source)).cloned().collect()
}

/// These namespaces and all namespaces above and below them, but for those that do not exist.
fn around(structure: &Structure, starts: &[Name]) -> BTreeSet<Name> {
    let forest = structure.forest();
    let mut around = BTreeSet::new();
    let mut next: Vec<Name> = starts.to_vec();
    while let Some(name) = next.pop() {
        next.extend(forest.children(&name).into_iter().filter(|child| !around.contains(child)));
        around.insert(name);
    }
    around.extend(starts.iter().flat_map(|start| forest.ancestry(start)));
    around.retain(|name| structure.has(&forest, name));
    around
}

/// The state of an object in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// It is not a copy.
    Source,
    /// It is a copy and will be kept.
    Copy,
    /// It does not exist and will be created.
    Missing,
    /// It exists and will be replaced.
    Replaced,
    /// It is a copy and will be deleted.
    Surplus,
    /// It is not a copy, and it prevents a copy.
    Conflict,
    /// It does not exist, although a namespace above has it.
    Stopped,
    /// It does not exist here, nor above as far as is known.
    Absent,
    /// The state is unknown.
    Unknown,
}

/// The state of an object in one namespace, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectState {
    pub(crate) state: State,
    /// The source of the copy, or of the copy that should exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// The reason, as a clause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// What the user can do, as an imperative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
    /// Whether it is a copy without any exception.
    #[serde(skip)]
    is_plain: bool,
    /// Whether it is a copy, or not there, for a reason that depends on something that could not be read.
    #[serde(skip)]
    pub(crate) is_doubtful: bool,
    /// Whether it is not copied because somebody decided so, not because something failed.
    #[serde(skip)]
    is_intended: bool,
}

impl ObjectState {
    /// Whether there is a conflict, a failure, or work left for the controller.
    pub(crate) fn needs_attention(&self) -> bool {
        use State::{Conflict, Missing, Replaced, Stopped, Surplus};
        !self.is_intended && matches!(self.state, Missing | Replaced | Surplus | Conflict | Stopped)
    }

    /// The colour of the state.
    pub(crate) fn ink(&self) -> Ink {
        match self.state {
            State::Source | State::Copy => Ink::Good,
            _ if self.needs_attention() => Ink::Warning,
            _ => Ink::Faint,
        }
    }

    /// A short label.
    pub(crate) fn label(&self) -> String {
        let word = match self.state {
            State::Source => "source",
            State::Copy => {
                let by = if self.is_doubtful { " (by its label)" } else { "" };
                return format!("copy of {}{by}", self.from.as_deref().unwrap_or("?"));
            }
            State::Missing => "not there yet",
            State::Replaced => "to be replaced",
            State::Surplus => "to be removed",
            State::Conflict => "conflict",
            State::Stopped => "not copied",
            State::Absent => "not there",
            State::Unknown => "unknown",
        };
        word.to_owned()
    }

    /// Whether a drawing shows the reason.
    pub(crate) fn needs_a_reason(&self) -> bool {
        !(self.state == State::Copy && self.is_plain)
    }

    /// Whether the object exists.
    pub(crate) fn is_there(&self) -> bool {
        use State::{Conflict, Copy, Replaced, Source, Surplus};
        matches!(self.state, Source | Copy | Replaced | Surplus | Conflict)
    }
}

impl From<&ObjectExplanation> for ObjectState {
    fn from(answer: &ObjectExplanation) -> Self {
        let (state, from, why) = judged(answer);
        let from = from.map(ToString::to_string);
        let refused = answer.refused.as_ref().map(|it| {
            let what = if !it.is_certain {
                "the API server refused writes in this namespace: perhaps this one, or one that must come first"
            } else if *it.condition.reason == *Reason::QuotaNotInForce.as_str() {
                "it waits"
            } else {
                "the API server refused it"
            };
            format!("{what}: {}", it.condition.message)
        });
        let why = [why, refused].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let sees_all = answer.unseen.is_empty() && answer.unseen_roles.is_empty();
        let is_plain = sees_all && matches!(answer.expected, Expected::Copy(_));
        let is_doubtful = match state {
            State::Copy => answer.unseen.iter().any(|name| from.as_deref() == Some(&**name)),
            State::Absent => !answer.unseen.is_empty() || !answer.above.is_empty(),
            _ => false,
        };
        let advice = advice(answer);
        let is_intended = state == State::Stopped && is_intended(answer);
        let why = Some(why).filter(|it| !it.is_empty());
        Self { state, from, why, advice, is_plain, is_doubtful, is_intended }
    }
}

fn judged(answer: &ObjectExplanation) -> (State, Option<&Name>, Option<String>) {
    let doubt = || match (&answer.unseen[..], &answer.unseen_roles[..]) {
        ([], []) => "the mode of its kind is unknown".to_owned(),
        ([], names) => {
            format!("it refers to a Role, and the Roles in {} are unknown", names.join(", "))
        }
        (names, _) => unseen(names),
    };
    match (&answer.there, &answer.expected) {
        (There::Unknown, Expected::AsItIs(why)) => {
            (State::Unknown, None, Some(format!("it cannot be read there; also, {why}")))
        }
        (There::Unknown, _) => (State::Unknown, None, Some("you may not read it there".into())),
        (There::Copy { from, .. }, Expected::Copy(source)) if from == source => {
            let why = answer.unseen.is_empty().then(|| comes(answer)).flatten();
            (State::Copy, Some(from), why.or_else(|| Some(doubt())))
        }
        (There::Nothing, Expected::Copy(source)) => (State::Missing, Some(source), comes(answer)),
        (_, Expected::Copy(source)) => {
            let why = format!("the one in {source} should replace it");
            (State::Replaced, Some(source), Some(why))
        }
        (There::Copy { from, .. }, Expected::Nothing) => (State::Surplus, Some(from), Some(stops(answer))),
        (There::Copy { .. }, Expected::Forsaken(from)) => {
            (State::Surplus, Some(from), Some(format!("its source in namespace {from} was deleted")))
        }
        (
            There::Copy { from, .. },
            Expected::AsItIs(
                why @ (Untouched::NotConfigured | Untouched::NotInForce(_) | Untouched::Ignored),
            ),
        ) => {
            let why = format!("it stays as it was copied, and follows no source any more, because {why}");
            (State::Copy, Some(from), Some(why))
        }
        (There::Copy { from, .. }, Expected::AsItIs(why)) => {
            (State::Copy, Some(from), Some(format!("it is not changed, because {why}")))
        }
        (There::Copy { from, .. }, _) => (State::Copy, Some(from), Some(doubt())),
        (There::Own { .. }, Expected::Conflict(from)) => {
            let why = format!("it is not a copy, so it is kept and the one in {from} is not copied");
            (State::Conflict, Some(from), Some(why))
        }
        (There::Own { .. }, Expected::Unknown) => (State::Source, None, Some(doubt())),
        (
            There::Own { .. },
            Expected::AsItIs(
                why @ (Untouched::NotConfigured | Untouched::NotInForce(_) | Untouched::Ignored),
            ),
        ) if answer.stays.is_none() => {
            (State::Source, None, Some(format!("it is not propagated, because {why}")))
        }
        (There::Own { .. }, Expected::AsItIs(why)) if answer.stays.is_none() => {
            // One above would replace it.
            let waits = answer.above.iter().any(|it| it.comes.is_ok());
            let what = if waits { "it is not changed" } else { "nothing is copied from it" };
            (State::Source, None, Some(format!("{what}, because {why}")))
        }
        // Without the finalizer, for example, the kind would still not be propagated.
        (
            There::Own { .. },
            Expected::AsItIs(kind @ (Untouched::NotConfigured | Untouched::NotInForce(_))),
        ) => (
            State::Source,
            None,
            answer.stays.as_ref().map(|why| format!("it is not propagated, because {why}; also, {kind}")),
        ),
        (There::Own { .. }, _) => (
            State::Source,
            None,
            answer.stays.as_ref().map(|why| format!("it is not propagated, because {why}")),
        ),
        (There::Nothing, Expected::AsItIs(why)) => blocked(answer, why),
        (There::Nothing, _) if answer.above.is_empty() && !answer.unseen.is_empty() => {
            (State::Absent, None, Some(unseen(&answer.unseen)))
        }
        (There::Nothing, _) if answer.above.is_empty() => {
            (State::Absent, None, Some("no namespace above has it".into()))
        }
        (There::Nothing, Expected::Unknown) => (State::Absent, None, Some(doubt())),
        (There::Nothing, _) => (State::Stopped, None, Some(stops(answer))),
    }
}

/// Whether what keeps the object from being copied is a decision: exceptions, the configuration or the settings.
fn is_intended(answer: &ObjectExplanation) -> bool {
    let is_decision = |why: &Withheld| {
        !matches!(why, Withheld::Unparsable(_) | Withheld::OtherRole { .. } | Withheld::RoleTerminating(_))
    };
    match &answer.expected {
        Expected::AsItIs(why) => !matches!(why, Untouched::Halted { .. } | Untouched::NotInForce(_)),
        _ => answer.above.iter().all(|it| it.comes.as_ref().is_err_and(is_decision)),
    }
}

fn advice(answer: &ObjectExplanation) -> Option<String> {
    match &answer.expected {
        Expected::Conflict(_) => Some("rename or delete one of the two objects".to_owned()),
        // What no namespace above has does not come when the problem is solved.
        Expected::AsItIs(Untouched::Halted { .. })
            if matches!(answer.there, There::Nothing)
                && answer.above.is_empty()
                && answer.unseen.is_empty() =>
        {
            None
        }
        Expected::AsItIs(Untouched::Halted { at, .. }) => {
            Some(format!("see `kubectl hns describe {at}`, and solve the problem there"))
        }
        _ => None,
    }
}

/// The namespaces above whose objects could not be read.
fn unseen(names: &[Name]) -> String {
    format!("whether {} has one is unknown: you may not read it there", names.join(" or "))
}

/// The first source that propagates here determines the copy.
fn comes(answer: &ObjectExplanation) -> Option<String> {
    let (source, admitted) =
        answer.above.iter().find_map(|it| Some((&it.namespace, it.comes.as_ref().ok()?)))?;
    Some(format!("the one in {source} is copied here, because {admitted}"))
}

fn stops(answer: &ObjectExplanation) -> String {
    let line = |it: &Above| {
        Some(format!("the one in {} is not copied here, because {}", it.namespace, it.comes.as_ref().err()?))
    };
    let lines: Vec<String> = answer.above.iter().filter_map(line).collect();
    if lines.is_empty() { "no namespace above has it any more".into() } else { lines.join("; ") }
}

/// The state where nothing is propagated. If the object would not be copied anyway, the reason says so as well.
fn blocked(answer: &ObjectExplanation, why: &Untouched) -> (State, Option<&'static Name>, Option<String>) {
    let kind_decides = matches!(
        why,
        Untouched::Ignored | Untouched::NotConfigured | Untouched::NotInForce(_) | Untouched::Never(_)
    );
    if answer.above.is_empty() {
        let why = match &answer.unseen[..] {
            [] => format!("no namespace above has it; also, {why}"),
            _ if kind_decides => why.to_string(),
            names => format!("{}; also, {why}", unseen(names)),
        };
        return (State::Absent, None, Some(why));
    }
    let would_come = answer.above.iter().any(|it| it.comes.is_ok());
    // What never propagates does not depend on the configuration.
    let never =
        answer.above.iter().all(|it| matches!(it.comes, Err(Withheld::Excluded(_) | Withheld::CopiedByHop)));
    let why = if never && kind_decides {
        stops(answer)
    } else if would_come || kind_decides {
        why.to_string()
    } else {
        format!("{why}; also, {}", stops(answer))
    };
    (State::Stopped, None, Some(why))
}
