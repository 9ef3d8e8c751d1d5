//! `explain`: why an object is in a namespace, or why it is not.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use forest::exceptions::{Withheld, is_reserved};
use forest::why::{Expected, ObjectExplanation, There, Untouched};
use forest::{Forest, Name};
use futures::future::join_all;
use hns_api::annotations::PROPAGATE_TREE_SELECT;
use hns_cluster::api::Api;
use hns_cluster::feed::api_resource;
use kube::api::DynamicObject;
use serde::Serialize;

use crate::format::{Format, render};
use crate::installation::are_defined;
use crate::lines::printable;
use crate::object_argument::ObjectArgument;
use crate::object_states::{ObjectState, ObjectStates, State};
use crate::picture::ConditionView;
use crate::session::Session;
use crate::structure::{self, Extent};
use crate::{Failure, Terminal, accurate_trees};

/// Explain why an object is in a namespace, or why it is not.
///
/// Shows the source and the rule that created the copy, or what prevents a copy: an annotation, an exclusion, the mode
/// of the kind, a halted ancestor, or a conflicting object. For a source, shows where its copies are, also those that stayed in
/// namespaces that are not below it any more. What you may not read is named.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The object, such as secret/registry, cm/settings or roles.rbac.authorization.k8s.io/viewer. It need not exist.
    #[arg(value_name = "KIND/NAME")]
    subject: ObjectArgument,

    /// Output format. With name, the namespaces that have the object: this one, those below, and those with a copy of it elsewhere.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// The explanation as data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    namespace: String,
    /// `secrets`, `roles.rbac.authorization.k8s.io`.
    resource: String,
    name: String,
    #[serde(flatten)]
    mark: ObjectState,
    /// The ancestors, from the root.
    ancestors: Vec<String>,
    /// Whether there may be more ancestors, which the user may not read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ancestors_unknown: bool,
    /// The objects of the same name in namespaces above, from the root.
    above: Vec<Source>,
    /// The namespaces above whose objects are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_above: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<ConditionView>,
    /// The propagation annotations of the object here, if it is a source, and of those above, by namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, BTreeMap<String, String>>,
    /// All namespaces below, if this object is a source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    below: Vec<Below>,
    /// The other namespaces that have a copy of the object here, also if the object is not here any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Below>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    namespace: String,
    comes: bool,
    /// The reason, as a clause.
    why: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Below {
    namespace: String,
    #[serde(flatten)]
    mark: ObjectState,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let Arguments { subject, output } = arguments;
    let namespace = Name::from(&*session.namespace);
    let around = Extent::Around(std::slice::from_ref(&session.namespace));
    let (defined, structure) = futures::join!(
        are_defined(session, "what becomes of the object is not known now"),
        structure::read_with_anchors(session, around),
    );
    defined?;
    let structure = structure?;
    let object_states =
        ObjectStates::read(session, subject, structure, std::slice::from_ref(&namespace)).await?;
    let mut explanation = explanation(&object_states, &namespace);
    let mut notes = object_states.loaded.notes.clone();
    if let Some(fact) = object_states.loaded.structure.namespaces.get(&namespace) {
        let command = format!(
            "accurate explain {}/{} -n {namespace}",
            object_states.kind.group_resource(),
            subject.name
        );
        // It is printed first: what follows is about HNC's hierarchy only.
        if let Some(note) = accurate_trees::note(session, fact, &command).await {
            terminal.note(&note);
        }
    }
    if let Some(explanation) = &mut explanation {
        explanation.annotations = annotations(session, &object_states, explanation).await;
        let structure = &object_states.loaded.structure;
        if let Some(top) = explanation.ancestors.first()
            && !structure.has(&object_states.loaded.forest, top)
        {
            notes.push(format!("namespace {top}, which is above {namespace}, does not exist"));
        }
        if explanation.mark.state == State::Copy
            && let Some(source) = object_states.gone_source(&namespace)
        {
            let resource = &explanation.resource;
            notes.push(format!("{source} has no {resource} {} any more", printable(&explanation.name)));
        }
        if structure.hidden.is_empty() {
            notes.extend(misplaced(&explanation.annotations, &object_states.loaded.forest));
        }
    }
    match (output, explanation) {
        (_, None) => {}
        (None, Some(explanation)) => terminal.print(&text::draw(&explanation, terminal.paint)),
        (Some(format), Some(explanation)) => {
            terminal.print(&render(*format, &explanation, explanation.holders())?);
        }
    }
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

/// The names in tree selectors that are not below their source, for example because they are misspelled.
fn misplaced(annotations: &BTreeMap<String, BTreeMap<String, String>>, forest: &Forest) -> Vec<String> {
    let mut notes = Vec::new();
    for (source, annotations) in annotations {
        let names = annotations.get(PROPAGATE_TREE_SELECT).into_iter().flat_map(|value| value.split(','));
        let names = names.map(|it| it.trim().trim_start_matches('!').trim_start());
        for name in names.filter(|name| !name.is_empty()) {
            let is_in = |this: &str, that: &str| forest.ancestry(this).iter().any(|it| **it == *that);
            let what = match (is_in(name, source), is_in(source, name)) {
                (_, true) => "stands for all namespaces",
                (false, false) => "is not",
                (true, false) => continue,
            };
            notes.push(format!(
                "the annotation {PROPAGATE_TREE_SELECT} in {source} names {name}, which {what} below {source}"
            ));
        }
    }
    notes
}

/// The propagation annotations, also unknown ones, which keep an object from being propagated. Where they cannot be read, the reasons stand alone.
async fn annotations(
    session: &Session,
    object_states: &ObjectStates,
    explanation: &Explanation,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let own = explanation.is_source().then_some(&explanation.namespace);
    let sources = explanation.above.iter().map(|it| &it.namespace).chain(own);
    let read = sources.map(async |namespace| {
        let resource = api_resource(&object_states.kind);
        let api = Api::<DynamicObject>::namespaced_with(session.client.clone(), namespace, &resource);
        let mut found =
            session.call(api.get_metadata(&object_states.name)).await.ok()?.metadata.annotations?;
        found.retain(|key, _| is_reserved(key));
        (!found.is_empty()).then(|| (namespace.clone(), found))
    });
    join_all(read).await.into_iter().flatten().collect()
}

fn explanation(object_states: &ObjectStates, namespace: &Name) -> Option<Explanation> {
    let answer = object_states.answer(namespace)?;
    let mut ancestors = object_states.loaded.forest.ancestry(namespace);
    let ancestors_unknown = object_states.loaded.structure.ends_unread(&ancestors);
    ancestors.reverse();
    ancestors.pop();
    let is_source = matches!(answer.there, There::Own { .. });
    let below = if is_source { object_states.below(namespace) } else { Vec::new() };
    let place = |(name, answer): &(Name, ObjectExplanation)| Below {
        namespace: name.to_string(),
        mark: ObjectState::from(answer),
    };
    let shown: BTreeSet<&str> = below.iter().map(|(name, _)| &**name).collect();
    let elsewhere = object_states.elsewhere(&BTreeSet::from([&**namespace]), &shown);
    let mut mark = ObjectState::from(&answer);
    if ancestors_unknown && mark.state == State::Absent && answer.unseen.is_empty() {
        let top = ancestors.first().unwrap_or(namespace);
        mark.why = Some(format!("what is above {top} is unknown"));
    }
    Some(Explanation {
        namespace: namespace.to_string(),
        resource: object_states.kind.group_resource(),
        name: object_states.name.clone(),
        mark,
        ancestors: ancestors.iter().map(ToString::to_string).collect(),
        ancestors_unknown,
        above: sources(&answer),
        unknown_above: answer.unseen.iter().map(ToString::to_string).collect(),
        condition: answer.refused.as_ref().map(|it| ConditionView::from(&it.condition)),
        annotations: BTreeMap::new(),
        below: below.iter().map(place).collect(),
        elsewhere: elsewhere.iter().map(place).collect(),
    })
}

fn sources(answer: &ObjectExplanation) -> Vec<Source> {
    let mut decided = None;
    let mut sources = Vec::new();
    for it in &answer.above {
        let (comes, why) = match (&it.comes, &decided) {
            // A kind that is not configured has no mode.
            (Err(Withheld::Mode(_)), _)
                if let Expected::AsItIs(why @ (Untouched::NotConfigured | Untouched::NotInForce(_))) =
                    &answer.expected =>
            {
                (false, why.to_string())
            }
            (Err(why), _) => (false, why.to_string()),
            (Ok(admitted), None) => (true, admitted.to_string()),
            (Ok(_), Some(above)) => (false, format!("the one in {above} takes precedence")),
        };
        if comes {
            decided = Some(it.namespace.clone());
        }
        sources.push(Source { namespace: it.namespace.to_string(), comes, why });
    }
    sources
}

impl Explanation {
    fn is_source(&self) -> bool {
        matches!(self.mark.state, State::Source)
    }

    /// The namespaces that have the object.
    fn holders(&self) -> Vec<String> {
        let others = self.below.iter().chain(&self.elsewhere).map(|it| (&it.namespace, &it.mark));
        let all = std::iter::once((&self.namespace, &self.mark)).chain(others);
        all.filter(|(_, mark)| mark.is_there()).map(|(name, _)| format!("namespace/{name}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn names_that_are_not_below_the_source_are_noted() {
        let forest = sketch(&["a", "b < a", "c < b", "other"]).forest();
        let selector = |value: &str| {
            let pair = (PROPAGATE_TREE_SELECT.to_owned(), value.to_owned());
            BTreeMap::from([("b".to_owned(), BTreeMap::from([pair]))])
        };
        let found = misplaced(&selector("!cc, ! other, c, !b, a"), &forest);
        for (note, (name, what)) in found.iter().zip([
            ("cc", "is not"),
            ("other", "is not"),
            ("b", "stands for all namespaces"),
            ("a", "stands for all namespaces"),
        ]) {
            assert!(note.ends_with(&format!("in b names {name}, which {what} below b")), "{note}");
        }
        assert_eq!(found.len(), 4);
    }
}
