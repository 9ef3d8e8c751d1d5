//! `explain`: shows why a namespace has an object, or not: the namespaces above, and what they have.

mod chain;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use forest::accurate::why::{Next, There, frozen, has_type, idle_template, lacking_role, next, there};
use forest::exclusion::never;
use forest::{EdgeKind, Forest, HopMode, Kind, Name, ObjectKey};
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::accurate::labels::{CREATED_BY, CREATED_BY_ACCURATE};
use hns_api::events;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde::Serialize;

use self::chain::Chain;
use super::{describe, without_effect};

use crate::commands::doctor::accurate::reason_in;
use crate::configured_kinds;
use crate::failure::{Done, Problem};
use crate::format::{Format, render};
use crate::lines::{Lines, printable};
use crate::object_argument::ObjectArgument;
use crate::session::Session;
use crate::terminal::{Ink, Paint};
use crate::{Terminal, accurate_trees};

/// Explain why the namespace has an object, or not.
///
/// Shows from which namespace a copy comes and in which mode, or what prevents a copy: a missing annotation, an object of the
/// same name, a kind that is not propagated, or a label that leads nowhere.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The object, such as secret/registry or roles.rbac.authorization.k8s.io/viewer. It need not exist.
    #[arg(value_name = "KIND/NAME")]
    subject: ObjectArgument,

    /// Output format. With name, the namespaces on the way that have the object.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// The explanation as data.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    namespace: String,
    resource: String,
    name: String,
    /// What it is.
    state: String,
    /// The reason, as a sentence without its end.
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// Whether the controller still has to write or remove it.
    #[serde(skip)]
    is_pending: bool,
    /// The namespaces above, the nearest first.
    upstream: Vec<Step>,
}

/// A namespace above.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    namespace: String,
    /// `parent` or `template` of the namespace before.
    is: &'static str,
    object: String,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let shared = describe::served(session).await?;
    let forest = accurate_trees::forest(session, &shared).await?;
    let kind = arguments.subject.kind(&configured_kinds::read(session, &mut Vec::new()).await?.served)?;
    let (hidden, bound) = (BTreeSet::new(), BTreeMap::new());
    let mut chain = Chain { session, forest, path: Vec::new(), is_in_hnc: false, hidden, bound };
    chain.read(&session.namespace).await?;
    chain.read_objects(&kind, &arguments.subject.name).await?;
    let Chain { forest, path, hidden, bound, is_in_hnc, .. } = &chain;
    let mut explanation = explanation(forest, (path, hidden, bound), &kind, &arguments.subject.name);
    if explanation.is_pending {
        match refusal(session, &kind, &arguments.subject.name).await {
            Ok(message) => explanation.why.extend(message.map(|it| format!("; the last event says: {it}"))),
            Err(problem) => terminal.note(&format!(
                "the events in {}, which say whether a write was refused, cannot be read: {problem}",
                session.namespace
            )),
        }
    }
    match arguments.output {
        None => terminal.print(&text(&explanation, terminal.paint)),
        Some(format) => {
            let names = holders(forest, path, &kind, &arguments.subject.name);
            terminal.print(&render(format, &explanation, names)?);
        }
    }
    let Explanation { namespace, resource, name, advice, .. } = &explanation;
    if *is_in_hnc && !advice.as_ref().is_some_and(|it| it.contains("`kubectl hns explain ")) {
        terminal.note(&format!(
            "{namespace} is in HNC's hierarchy: `kubectl hns explain {resource}/{} -n {namespace}` explains it there",
            printable(name)
        ));
    }
    Ok(())
}

/// The last event that says that the object could not be written or removed.
async fn refusal(session: &Session, kind: &Kind, name: &str) -> Result<Option<String>, Problem> {
    let about = format!(
        "reason={},source={},involvedObject.kind={}",
        events::CANNOT_UPDATE_OBJECT,
        events::COMPONENT,
        kind.kind
    );
    let found = session
        .list(&session.within::<Event>(&session.namespace), &ListParams::default().fields(&about))
        .await?;
    Ok(last_message(&found, name))
}

/// The message of the last of these events that is about the object of this name, without the full stop.
fn last_message(events: &[Event], name: &str) -> Option<String> {
    let of_it = events.iter().filter(|it| it.involved_object.name.as_deref() == Some(name));
    let last = of_it.max_by_key(|it| it.last_timestamp.as_ref().map(|it| it.0))?;
    Some(printable(last.message.as_deref()?.trim_end_matches('.')).into_owned())
}

fn key(forest: &Forest, kind: &Kind, name: &str) -> Option<ObjectKey> {
    Some(ObjectKey { kind: forest.kind_named(&kind.group, &kind.kind)?, name: name.into() })
}

fn holders(forest: &Forest, path: &[Name], kind: &Kind, name: &str) -> Vec<String> {
    let Some(key) = key(forest, kind, name) else { return Vec::new() };
    let all = path.iter().filter(|it| there(forest, it, &key).is_something());
    all.map(|name| format!("namespace/{name}")).collect()
}

fn explanation(
    forest: &Forest,
    (path, hidden, bound): (&[Name], &BTreeSet<Name>, &BTreeMap<Name, String>),
    kind: &Kind,
    name: &str,
) -> Explanation {
    let key = key(forest, kind, name);
    let found = |namespace: &Name| key.as_ref().map_or(There::Nothing, |key| there(forest, namespace, key));
    let (namespace, above) =
        path.split_first().map_or((Name::from(""), path), |(it, rest)| (it.clone(), rest));
    let edges = path.iter().map(|name| forest.accurate_edge(name));
    let upstream = above.iter().zip(edges).map(|(name, edge)| Step {
        namespace: name.to_string(),
        is: edge.unwrap_or(EdgeKind::Parent).as_str(),
        object: if hidden.contains(name) { UNREAD.to_owned() } else { described(found(name)) },
    });
    let first = above.first().filter(|it| hidden.contains(*it));
    let is_next = |key| matches!(next(forest, &namespace, key), Some(Next::Written | Next::Removed));
    let is_pending = first.is_none() && key.as_ref().is_some_and(is_next);
    let (state, mut why, advice) = match first {
        Some(above) => {
            let what = forest.accurate_edge(&namespace).unwrap_or(EdgeKind::Parent).as_str();
            let why = format!("whether {above}, its {what}, has it is {UNREAD}");
            (described(found(&namespace)), why, None)
        }
        None => judged(forest, path, bound, key.as_ref(), (kind, name)),
    };
    if is_misspelled(found(&namespace)) {
        why = format!(
            "its annotation {PROPAGATE} is neither create nor update, so it is not copied further; {why}"
        );
    }
    if let Some(template) = idle_template(forest, &namespace).filter(|_| frozen(forest, &namespace).is_none())
    {
        why = format!("{why}; {}", without_effect(&namespace, &template, has_type(forest, &namespace)));
    }
    Explanation {
        namespace: namespace.to_string(),
        resource: kind.group_resource(),
        name: name.to_owned(),
        state,
        why,
        advice,
        is_pending,
        upstream: upstream.collect(),
    }
}

/// What is said of an object above that the user may not read.
const UNREAD: &str = "unknown (you may not read it)";

/// The mode of an object whose annotation has another value.
const UNKNOWN: &str = "unknown";

fn is_misspelled(found: There<'_>) -> bool {
    found.mode() == Some(HopMode::Unknown)
}

fn misspelled(place: &str) -> String {
    format!("the annotation {PROPAGATE} of the one in {place} is neither create nor update")
}

/// What an object is, from its annotations.
fn described(found: There<'_>) -> String {
    if !found.is_something() {
        return "not there".to_owned();
    }
    let mode = found.mode().map(|mode| match mode {
        HopMode::Create => "create",
        HopMode::Update => "update",
        HopMode::Unknown => UNKNOWN,
    });
    match (found.from(), mode) {
        (Some(from), Some(mode)) => format!("copy of {from} (mode {mode})"),
        (Some(from), None) => format!("marked as a copy of {from}"),
        (None, Some(UNKNOWN)) => format!("not propagated (mode {UNKNOWN})"),
        (None, Some(mode)) => format!("source (mode {mode})"),
        (None, None) => "not propagated".to_owned(),
    }
}

/// The state, the reason, and what can be done.
type Verdict = (String, String, Option<String>);

fn judged(
    forest: &Forest,
    path: &[Name],
    bound: &BTreeMap<Name, String>,
    key: Option<&ObjectKey>,
    (kind, name): (&Kind, &str),
) -> Verdict {
    let Some((namespace, above)) = path.split_first() else { return Verdict::default() };
    let here = key.map_or(There::Nothing, |key| there(forest, namespace, key));
    let state = described(here);
    if let Some(why) = forest.shared_settings().unmanaged(namespace) {
        return (state, format!("{namespace} {why}, so nothing is copied to it"), None);
    }
    if let Some(frozen) = frozen(forest, namespace) {
        let (why, hint) = reason_in(forest, namespace, &frozen);
        let cycle = forest.accurate_cycle(namespace);
        let place = cycle.map_or_else(|| namespace.to_string(), |members| members.join(", "));
        return (
            state,
            after_once(here, &format!("nothing is copied to {place}, because {why}")),
            (!forest.is_terminating(namespace)).then_some(hint),
        );
    }
    let watches = |kind: &Kind| forest.accurate_settings().is_some_and(|settings| settings.watches(kind));
    if !watches(kind) {
        if let Some(why) = never(kind) {
            return (state, format!("it is never propagated, because {why}"), None);
        }
        let resource = kind.group_resource();
        let why = format!("{resource} are not propagated: `watches` in the settings does not name them");
        let advice = "Add the kind to accurate.config.watches, and give the controller its rights.";
        return (state, why, Some(advice.to_owned()));
    }
    let (Some(key), Some(above)) = (key, above.first()) else {
        if let Some(why) = bound.get(namespace) {
            return (state, format!("it is never propagated, because {why}"), None);
        }
        return alone(forest, (namespace, here), (kind, name));
    };
    let what = forest.accurate_edge(namespace).map_or("upstream namespace", EdgeKind::as_str);
    let named = format!("{above}, its {what},");
    let next = next(forest, namespace, key).unwrap_or(Next::Stays);
    let (state, why, advice) = below((above, &named), (here, there(forest, above, key)), next);
    if let Some(bound) = bound.get(namespace) {
        if next == Next::Conflict {
            return (state, why, Some("Rename or delete one of the two.".to_owned()));
        }
        return (state, format!("it is never propagated, because {bound}"), None);
    }
    if let Some(bound) = bound.get(above) {
        return (state, format!("the one in {named} is never propagated, because {bound}"), None);
    }
    if next != Next::Stays {
        return (state, why, advice);
    }
    if forest.is_terminating(namespace) && !here.is_something() {
        return (state, format!("{namespace} is being deleted, so nothing is copied to it"), None);
    }
    if let Some(why) = kept(forest, (namespace, above, &named), key) {
        return (state, why, None);
    }
    match lacking_role(forest, namespace, key) {
        Some(role) if !here.is_something() => {
            let pair = (there(forest, namespace, &role), there(forest, above, &role));
            let (why, advice) = roleless((namespace, above, &named), &role.name, pair);
            (state, why, Some(advice))
        }
        None if kind.binds_subjects() && why.ends_with(OTHER_ROLE) && !watches(&Kind::role()) => {
            let why = format!(
                "the one in {named} refers to a Role, and Roles are not propagated: `watches` in the settings does not name them"
            );
            (state, why, None)
        }
        _ => (state, why, advice),
    }
}

/// The verdict in a namespace that is below none.
fn alone(forest: &Forest, (namespace, here): (&Name, There<'_>), (kind, name): (&Kind, &str)) -> Verdict {
    let mut state = described(here);
    let place = format!("{namespace} has no parent and no template");
    let why = format!("{place}, so nothing is copied to it");
    if let Some(parent) = forest.parent(namespace) {
        let why = format!("{why} in Accurate's hierarchy; it is a child of {parent} in that of hnc.x-k8s.io");
        let (resource, name) = (kind.group_resource(), printable(name));
        let advice = format!(
            "`kubectl hns explain {resource}/{name} -n {namespace}` explains it there; `kubectl accurate namespace describe {namespace}` \
             says whether it is halted, because it is in both."
        );
        return (state, after_once(here, &why), Some(advice));
    }
    let is_own = here.is_something() && here.from().is_none();
    let own = is_own.then(|| own(here, &place));
    let stray = here.from().filter(|_| here.mode().is_none()).map(|from| stray(from, &place));
    if stray.is_some() {
        NO_COPY.clone_into(&mut state);
    }
    (state, once(here).or(own).or(stray).unwrap_or(why), None)
}

/// Why a binding is not copied whose Role is not copied, and what to do. Of the Role, the one here and the one above are given.
fn roleless(
    (namespace, above, named): (&str, &Name, &str),
    name: &str,
    (here, role): (There<'_>, There<'_>),
) -> (String, String) {
    let name = printable(name);
    let why = format!("the one in {named} refers to Role {name}");
    if !role.is_something() {
        return (
            format!("{why}, which is not there"),
            format!("Create Role {name} in {above}, with the annotation {PROPAGATE}=update."),
        );
    }
    if role.mode().is_none() {
        let advice =
            format!("`kubectl annotate role {name} -n {above} {PROPAGATE}=update` has the Role copied, too.");
        return (format!("{why}, which has no annotation {PROPAGATE}"), advice);
    }
    let why = format!("{why}, of which there is no copy with the same rules here");
    if role.mode() == Some(HopMode::Create) && here.from() == Some(above) {
        let advice = format!(
            "Its copy was made once and stays as it is. `kubectl annotate role {name} -n {above} {PROPAGATE}=update --overwrite` makes the \
             copies of the Role follow it."
        );
        return (why, advice);
    }
    (why, format!("`kubectl accurate explain roles/{name} -n {namespace}` says why."))
}

/// Why a binding is not copied, as the end of a sentence.
const OTHER_ROLE: &str = "of which there is no copy with the same rules here";

/// The verdict in a namespace below `above`, which is `named`.
fn below((above, named): (&Name, &str), (here, source): (There<'_>, There<'_>), next: Next) -> Verdict {
    let state = described(here);
    let asks = source.mode().is_some() && !is_misspelled(source);
    let (is_here, is_above) = (here.is_something(), source.is_something());
    let is_silent = source.mode() == Some(HopMode::Create) && here.mode().is_none();
    let is_its_copy = here.from() == Some(above) && !is_silent;
    let (state, why) = match next {
        Next::Conflict => {
            let why = match once(here) {
                Some(once) => format!("{once}; the one in {above} is not copied"),
                None => format!("it is not a copy, so it is kept, and the one in {above} is not copied"),
            };
            let also = format!(
                "; the annotation {PROPAGATE}=update would have it replaced, too, unless you remove its label \
                 {CREATED_BY}={CREATED_BY_ACCURATE}"
            );
            let also = if here.is_only_labelled() { &*also } else { "" };
            let other = match source.from() {
                Some(from) => format!("the source of the one in {above}, which is copied from {from}"),
                None => format!("the one in {above}"),
            };
            let advice = format!(
                "Rename or delete this one or {other}; or set the annotation {FROM}={above} of this one to have it replaced{also}."
            );
            return ("conflict".to_owned(), why, Some(advice));
        }
        Next::Written if !is_here => {
            ("not there yet".to_owned(), format!("{named} has it, and asks for copies"))
        }
        Next::Written if here.from() == Some(above) => (
            format!("{state}; to be replaced"),
            format!("it differs from the one in {}", named.trim_end_matches(',')),
        ),
        Next::Written => (format!("{state}; to be replaced"), format!("{named} has another one")),
        Next::Removed if is_misspelled(source) => (format!("{state}; to be removed"), misspelled(named)),
        Next::Removed => (format!("{state}; to be removed"), format!("{named} does not have it as a source")),
        Next::Stays if is_misspelled(source) => (state, misspelled(named)),
        Next::Stays if is_here && asks && !is_its_copy => {
            (state, format!("{named} has one too, which is copied only where there is none"))
        }
        Next::Stays if let Some(once) = once(here) => (state, once),
        Next::Stays if is_here && asks => (state, format!("{named} has it, and asks for copies")),
        Next::Stays
            if let Some(from) = here.from().filter(|from| *from != above && here.mode().is_none()) =>
        {
            (NO_COPY.to_owned(), stray(from, &format!("{above} is above it")))
        }
        Next::Stays if is_here && is_above => (state, format!("{named} asks for no copies of it")),
        Next::Stays if !is_above && here.is_only_labelled() && here.mode() == Some(HopMode::Update) => {
            (state, tampered(named))
        }
        Next::Stays if !is_above && is_here && here.from().is_none() => {
            (state, own(here, &format!("{named} does not have one")))
        }
        Next::Stays if !is_above => (state, format!("{named} does not have it")),
        Next::Stays if !asks => (state, format!("the one in {named} has no annotation {PROPAGATE}")),
        Next::Stays => (state, format!("the one in {named} refers to a Role {OTHER_ROLE}")),
    };
    (state, why, None)
}

/// Why a copy that restricts stays without its source.
fn kept(forest: &Forest, (namespace, above, named): (&str, &str, &str), key: &ObjectKey) -> Option<String> {
    let has_source = there(forest, above, key).mode().is_some();
    let is_copy = forest.kind(key.kind).restricts() && forest.is_followed(namespace, key);
    let stays = is_copy && !has_source && forest.is_terminating(above);
    stays.then(|| {
        format!("{named} does not have it as a source, but is being deleted: copies that restrict stay")
    })
}

/// Why a copy is there that is not kept equal to its source.
fn once(here: There<'_>) -> Option<String> {
    let from = here.from().filter(|_| here.mode() == Some(HopMode::Create))?;
    Some(format!("it was copied once from {from} and stays as it is: it follows nothing"))
}

/// What holds for the namespace, after why the object is there.
fn after_once(here: There<'_>, why: &str) -> String {
    once(here).map_or_else(|| why.to_owned(), |once| format!("{once}; {why}"))
}

/// The state of an object that names another source than the one above, and is no source.
pub(super) const NO_COPY: &str = "not a copy";

/// Why an object stays that counts as a copy which no longer names its source.
fn tampered(named: &str) -> String {
    format!(
        "with the label {CREATED_BY}={CREATED_BY_ACCURATE} and mode update, it counts as a copy that has lost its annotation {FROM}; \
         {named} does not have one, so it stays"
    )
}

/// Why an object stays that names another source than the one above, which `place` states.
fn stray(from: &str, place: &str) -> String {
    format!("its annotation {FROM} names {from}, but {place}: it is no copy, and follows nothing")
}

/// Why an object that is no copy is there, if there is none `above`, as this says.
fn own(here: There<'_>, above: &str) -> String {
    let silent = format!(", and has no annotation {PROPAGATE}, so it is not copied further");
    let silent = if here.mode().is_none() { &*silent } else { "" };
    format!("it is the namespace's own object{silent}; {above}")
}

fn text(explanation: &Explanation, paint: Paint) -> String {
    let Explanation { namespace, resource, name, state, why, advice, upstream, is_pending: _ } = explanation;
    let ink = if advice.is_some() { Ink::Warning } else { Ink::Good };
    let mut text = String::new();
    text.line(format!("{resource} {} in {namespace}: {}", printable(name), paint.ink(ink, state)));
    text.line(format!("  Why: {why}"));
    if let Some(advice) = advice {
        text.line(format!("  To do: {advice}"));
    }
    for Step { namespace, is, object } in upstream {
        text.line(format!("  {is} {namespace}: {object}"));
    }
    text
}

#[cfg(test)]
mod tests;
