//! `explain`: shows why a namespace has an object, or not: the namespaces above, and what they have.

use std::collections::BTreeSet;

use clap::Args;
use forest::accurate::Fact as AccurateFact;
use forest::accurate::why::{Next, There, frozen, next, there};
use forest::exclusion::never;
use forest::{
    EdgeKind, Fact, Forest, HopMode, Kind, KindSettings, Mode, Name, NamespaceFact, ObjectKey, hnc,
};
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::accurate::labels::{TYPE, TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_cluster::api::Api;
use hns_cluster::api_object::ApiObject;
use hns_cluster::feed::api_resource;
use hns_cluster::ingest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::{describe, place};
use crate::commands::doctor::accurate::reason;
use crate::commands::hierarchy;
use crate::configured_kinds;
use crate::failure::{Done, Problem};
use crate::format::{Format, render};
use crate::lines::{Lines, printable};
use crate::object_argument::ObjectArgument;
use crate::session::Session;
use crate::terminal::{Ink, Paint};
use crate::{Failure, Terminal, accurate_trees};

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
    let mut chain = Chain { session, forest, path: Vec::new(), hidden: BTreeSet::new() };
    chain.read(&session.namespace).await?;
    chain.read_objects(&kind, &arguments.subject.name).await?;
    let explanation =
        explanation(&chain.forest, (&chain.path, &chain.hidden), &kind, &arguments.subject.name);
    match arguments.output {
        None => terminal.print(&text(&explanation, terminal.paint)),
        Some(format) => {
            let names = holders(&chain.forest, &chain.path, &kind, &arguments.subject.name);
            terminal.print(&render(format, &explanation, names)?);
        }
    }
    Ok(())
}

/// A namespace and those above it.
struct Chain<'a> {
    session: &'a Session,
    forest: Forest,
    /// The namespace first.
    path: Vec<Name>,
    /// Those above in which the user may not read the object, or that the user may not read at all.
    hidden: BTreeSet<Name>,
}

impl Chain<'_> {
    /// Reads the namespace and those above it, one by one.
    async fn read(&mut self, start: &str) -> Result<(), Failure> {
        let namespaces = self.session.all::<Namespace>();
        let (mut facts, mut hierarchies) = (Vec::<NamespaceFact>::new(), Vec::new());
        let mut following = Some(Name::from(start));
        while let Some(name) = following.take().filter(|name| !self.path.contains(name)) {
            let found = self.session.call(namespaces.get_metadata(&name)).await;
            let fact = match found {
                Ok(found) => ingest::namespace(&found.metadata),
                Err(problem) if problem.is_not_found() && !self.path.is_empty() => break,
                Err(problem) if problem.is_forbidden() && !self.path.is_empty() => self.unread(&name),
                Err(problem) => return Err(place::unreadable(&name, &problem)),
            };
            // A namespace can be in a hierarchy of the other API, too. Who may not read that sees the rest.
            let api = hierarchy::api(self.session, &name);
            let other = self.session.call(api.get_opt(HIERARCHY_CONFIGURATION)).await;
            hierarchies.extend(other.ok().flatten().map(ingest::hierarchy));
            facts.push(fact);
            self.path.push(name.clone());
            self.forest.apply(Fact::Namespaces(facts.clone()));
            following = self.forest.accurate_upstream(&name).cloned();
        }
        self.forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(hierarchies)));
        self.forest.apply(AccurateFact::SubNamespaces(Vec::new()));
        Ok(())
    }

    /// A namespace that the user may not read: that the labels of the one below name it is all that is known.
    fn unread(&mut self, name: &Name) -> NamespaceFact {
        self.hidden.insert(name.clone());
        let edge = self.path.last().and_then(|below| self.forest.accurate_edge(below));
        let kind = if edge == Some(EdgeKind::Template) { TYPE_TEMPLATE } else { TYPE_ROOT };
        ingest::namespace(&ObjectMeta {
            name: Some(name.to_string()),
            labels: Some([(TYPE.to_owned(), kind.to_owned())].into()),
            ..ObjectMeta::default()
        })
    }

    /// Reads the object in all of them; with a binding, the Roles that it refers to.
    async fn read_objects(&mut self, kind: &Kind, name: &str) -> Result<(), Failure> {
        let role = Kind::role();
        let kinds = [kind.clone()].into_iter().chain((kind.is_rbac() && *kind != role).then_some(role));
        let kinds: Vec<_> = kinds.map(|kind| KindSettings::new(kind, Mode::Ignore)).collect();
        self.forest.apply(Fact::Kinds(kinds));
        let mut roles = BTreeSet::new();
        for fact in self.get(kind, name).await? {
            roles.extend(fact.role.clone());
            self.tell(kind, fact);
        }
        for role in roles {
            for fact in self.get(&Kind::role(), &role).await? {
                self.tell(&Kind::role(), fact);
            }
        }
        Ok(())
    }

    fn tell(&mut self, kind: &Kind, fact: forest::ObjectFact) {
        if let Some(id) = self.forest.kind_named(&kind.group, &kind.kind) {
            self.forest.apply(Fact::Object(id, fact));
        }
    }

    async fn get(&mut self, kind: &Kind, name: &str) -> Result<Vec<forest::ObjectFact>, Failure> {
        let (settings, accurate) = (self.forest.shared_settings(), self.forest.accurate_settings().cloned());
        let mut facts = Vec::new();
        for namespace in self.path.iter().filter(|it| !self.hidden.contains(*it)).cloned().collect::<Vec<_>>()
        {
            let api = Api::<ApiObject>::namespaced_with(
                self.session.client.clone(),
                &namespace,
                &api_resource(kind),
            );
            let found = match self.session.call(api.get_opt(name)).await {
                Err(problem) if problem.is_forbidden() && self.path.first() != Some(&namespace) => {
                    self.hidden.insert(namespace);
                    continue;
                }
                found => found.map_err(|problem| unreadable(kind, name, &namespace, &problem))?,
            };
            facts.extend(found.map(|it| ingest::api_object(kind, (&settings, accurate.as_deref()), it)));
        }
        Ok(facts)
    }
}

fn unreadable(kind: &Kind, name: &str, namespace: &str, problem: &Problem) -> Failure {
    let what = format!("{} {} in {namespace} cannot be read", kind.group_resource(), printable(name));
    Failure::because(what, problem)
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
    (path, hidden): (&[Name], &BTreeSet<Name>),
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
        is: word(edge.unwrap_or(EdgeKind::Parent)),
        object: if hidden.contains(name) { UNREAD.to_owned() } else { described(found(name)) },
    });
    let first = above.first().filter(|it| hidden.contains(*it));
    let (state, mut why, advice) = match first {
        Some(above) => {
            let what = word(forest.accurate_edge(&namespace).unwrap_or(EdgeKind::Parent));
            let why = format!("whether {above}, its {what}, has it is {UNREAD}");
            (described(found(&namespace)), why, None)
        }
        None => judged(forest, (&namespace, above.first()), key.as_ref(), (kind, name)),
    };
    if is_misspelled(found(&namespace)) {
        why = format!("{why}; {}", misspelled(&namespace));
    }
    Explanation {
        namespace: namespace.to_string(),
        resource: kind.group_resource(),
        name: name.to_owned(),
        state,
        why,
        advice,
        upstream: upstream.collect(),
    }
}

fn word(edge: EdgeKind) -> &'static str {
    match edge {
        EdgeKind::Parent => "parent",
        EdgeKind::Template => "template",
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
        (Some(from), None) => format!("copy of {from}"),
        (None, Some(UNKNOWN)) => format!("not propagated (mode {UNKNOWN})"),
        (None, Some(mode)) => format!("source (mode {mode})"),
        (None, None) => "not propagated".to_owned(),
    }
}

/// The state, the reason, and what can be done.
type Verdict = (String, String, Option<String>);

fn judged(
    forest: &Forest,
    (namespace, above): (&Name, Option<&Name>),
    key: Option<&ObjectKey>,
    (kind, name): (&Kind, &str),
) -> Verdict {
    let here = key.map_or(There::Nothing, |key| there(forest, namespace, key));
    let state = described(here);
    if let Some(why) = forest.shared_settings().unmanaged(namespace) {
        return (state, format!("{namespace} {why}, so nothing is copied to it"), None);
    }
    if let Some(why) = frozen(forest, namespace) {
        let (why, hint) = reason(&why, (namespace, forest.accurate_edge(namespace)));
        return (state, format!("nothing is copied to {namespace}, because {why}"), Some(hint));
    }
    if let Some(why) = never(kind) {
        return (state, format!("it is never propagated, because {why}"), None);
    }
    if !forest.accurate_settings().is_some_and(|settings| settings.watches(kind)) {
        let resource = kind.group_resource();
        let why = format!("{resource} are not propagated: `watches` in the settings does not name them");
        let advice = "add the kind to accurate.config.watches, and give the controller its rights";
        return (state, why, Some(advice.to_owned()));
    }
    let (Some(key), Some(above)) = (key, above) else {
        let why = format!("{namespace} has no parent and no template, so nothing is copied to it");
        if let Some(parent) = forest.parent(namespace) {
            let why =
                format!("{why} in Accurate's hierarchy; it is a child of {parent} in that of hnc.x-k8s.io");
            let (resource, name) = (kind.group_resource(), printable(name));
            let advice = format!("`kubectl hns explain {resource}/{name} -n {namespace}` explains it there");
            return (state, why, Some(advice));
        }
        let is_own = here.is_something() && here.from().is_none();
        let own = is_own.then(|| own(here, &format!("{namespace} has no parent and no template")));
        return (state, once(here).or(own).unwrap_or(why), None);
    };
    let what = forest.accurate_edge(namespace).map_or("upstream namespace", word);
    let next = next(forest, namespace, key).unwrap_or(Next::Stays);
    below((above, &format!("{above}, its {what},")), (here, there(forest, above, key)), next)
}

/// The verdict in a namespace below `above`, which is `named`.
fn below((above, named): (&Name, &str), (here, source): (There<'_>, There<'_>), next: Next) -> Verdict {
    let state = described(here);
    let asks = source.mode().is_some() && !is_misspelled(source);
    let (is_here, is_above) = (here.is_something(), source.is_something());
    let (state, why) = match next {
        Next::Conflict => {
            let why = match once(here) {
                Some(once) => format!("{once}; the one in {above} is not copied"),
                None => format!("it is not a copy, so it is kept, and the one in {above} is not copied"),
            };
            let advice = format!(
                "rename or delete one of the two, or set the annotation {FROM}={above} of the one that is kept to have it replaced"
            );
            return ("conflict".to_owned(), why, Some(advice));
        }
        Next::Written if !is_here => {
            ("not there yet".to_owned(), format!("{named} has it, and asks for copies"))
        }
        Next::Written if here.from() == Some(above) => {
            (format!("{state}; to be replaced"), format!("it differs from the one in {named}"))
        }
        Next::Written => (format!("{state}; to be replaced"), format!("{named} has another one")),
        Next::Removed if is_misspelled(source) => (format!("{state}; to be removed"), misspelled(named)),
        Next::Removed => (format!("{state}; to be removed"), format!("{named} does not have it as a source")),
        Next::Stays if is_misspelled(source) => (state, misspelled(named)),
        Next::Stays if is_here && asks && here.from() != Some(above) => {
            (state, format!("{named} has one too, which is copied only where there is none"))
        }
        Next::Stays if let Some(once) = once(here) => (state, once),
        Next::Stays if is_here && asks => (state, format!("{named} has it, and asks for copies")),
        Next::Stays if is_here && is_above => (state, format!("{named} asks for no copies of it")),
        Next::Stays if !is_above && is_here && here.from().is_none() => {
            (state, own(here, &format!("{named} does not have one")))
        }
        Next::Stays if !is_above => (state, format!("{named} does not have it")),
        Next::Stays if !asks => (state, format!("the one in {named} has no annotation {PROPAGATE}")),
        Next::Stays => (state, format!("the one in {named} refers to a Role that is not the same here")),
    };
    (state, why, None)
}

/// Why a copy is there that is not kept equal to its source.
fn once(here: There<'_>) -> Option<String> {
    let from = here.from().filter(|_| here.mode() == Some(HopMode::Create))?;
    Some(format!("it was copied once from {from} and stays as it is: it follows nothing"))
}

/// Why an object that is no copy is there, if there is none `above`, as this says.
fn own(here: There<'_>, above: &str) -> String {
    let silent = format!(", and has no annotation {PROPAGATE}, so it is not copied further");
    let silent = if here.mode().is_none() { &*silent } else { "" };
    format!("it is the namespace's own object{silent}; {above}")
}

fn text(explanation: &Explanation, paint: Paint) -> String {
    let Explanation { namespace, resource, name, state, why, advice, upstream } = explanation;
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
mod tests {
    use std::sync::Arc;

    use forest::accurate::Settings;
    use serde_json::json;

    use super::*;
    use crate::structure;
    use crate::structure::tests::sketch;

    fn secret() -> Kind {
        Kind { group: String::new(), version: "v1".into(), kind: "Secret".into(), resource: "secrets".into() }
    }

    fn empty() -> (Forest, Arc<Settings>) {
        let accurate = Arc::new(Settings { watches: vec![secret()], ..Settings::default() });
        (Forest::unconfigured(Arc::new(structure::settings())).with_accurate(accurate.clone()), accurate)
    }

    #[test]
    fn in_the_other_hierarchy_another_command_explains_the_object() {
        let forest = sketch(&["p", "n < p"]).put_into(empty().0);
        let advice = judged(&forest, (&"n".into(), None), None, (&secret(), "x")).2.unwrap();
        assert!(advice.starts_with("`kubectl hns explain secrets/x -n n`"), "{advice}");
    }

    /// A Secret `x` in `root` and in `sub`, each with these annotations.
    fn why(namespace: &str, objects: [(&str, &[(&str, &str)]); 2]) -> String {
        let (mut forest, accurate) = empty();
        let named = |name: &str, (key, value): (&str, &str)| {
            let metadata = json!({ "name": name, "labels": { key: value } });
            ingest::namespace(&serde_json::from_value(metadata).unwrap())
        };
        let sub = named("sub", (hns_api::accurate::labels::PARENT, "root"));
        forest.apply(Fact::Namespaces(vec![named("root", (TYPE, TYPE_ROOT)), sub]));
        forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(Vec::new())));
        forest.apply(AccurateFact::SubNamespaces(Vec::new()));
        forest.apply(Fact::Kinds(vec![KindSettings::new(secret(), Mode::Ignore)]));
        let id = forest.kind_named("", "Secret").unwrap();
        for (namespace, annotations) in objects.into_iter().filter(|(_, it)| !it.is_empty()) {
            let annotations: serde_json::Map<_, _> =
                annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
            let object =
                json!({ "metadata": { "name": "x", "namespace": namespace, "annotations": annotations } });
            let object = serde_json::from_str(&object.to_string()).unwrap();
            let settings = forest.shared_settings();
            let fact = ingest::api_object(&secret(), (&settings, Some(&*accurate)), object);
            forest.apply(Fact::Object(id, fact));
        }
        let path: &[Name] =
            if namespace == "sub" { &["sub".into(), "root".into()] } else { &["root".into()] };
        explanation(&forest, (path, &BTreeSet::new()), &secret(), "x").why
    }

    #[test]
    fn the_annotation_of_an_object_without_one_above_is_named() {
        let none = "root, its parent, does not have one";
        let (source, other) = ([(PROPAGATE, "update")], [("a", "b")]);
        for (sub, wanted) in [
            (&[][..], "root, its parent, does not have it".to_owned()),
            (&source, format!("it is the namespace's own object; {none}")),
            (
                &other,
                format!(
                    "it is the namespace's own object, and has no annotation {PROPAGATE}, so it is not copied further; {none}"
                ),
            ),
        ] {
            assert_eq!(why("sub", [("root", &[]), ("sub", sub)]), wanted, "{sub:?}");
        }
    }

    #[test]
    fn a_copy_that_was_made_once_follows_nothing() {
        let made = |from| [(PROPAGATE, "create"), (FROM, from)];
        let once = |from| format!("it was copied once from {from} and stays as it is: it follows nothing");
        let (other, create, update) = ([("a", "b")], [(PROPAGATE, "create")], [(PROPAGATE, "update")]);
        let has_one = "root, its parent, has one too, which is copied only where there is none";
        for (namespace, root, sub, wanted) in [
            ("sub", &[][..], &made("root")[..], once("root")),
            ("sub", &[], &made("web"), once("web")),
            ("sub", &other, &made("root"), once("root")),
            ("sub", &create, &made("root"), once("root")),
            ("sub", &create, &made("web"), has_one.to_owned()),
            ("sub", &update, &made("web"), format!("{}; the one in root is not copied", once("web"))),
            ("sub", &update, &made("root"), "it differs from the one in root, its parent,".to_owned()),
            ("root", &made("web"), &[], once("web")),
        ] {
            assert_eq!(why(namespace, [("root", root), ("sub", sub)]), wanted, "{root:?} {sub:?}");
        }
    }

    #[test]
    fn a_misspelled_annotation_is_named_wherever_it_is() {
        let (wrong, other, copy) = ([(PROPAGATE, "updte")], [("a", "b")], [(FROM, "root")]);
        let wrong_of =
            |place| format!("the annotation {PROPAGATE} of the one in {place} is neither create nor update");
        let (above, own) = (wrong_of("root, its parent,"), wrong_of("sub"));
        let none = "it is the namespace's own object; root, its parent, does not have one";
        for (namespace, root, sub, wanted) in [
            ("sub", &wrong[..], &[][..], above.clone()),
            ("sub", &wrong, &other, above.clone()),
            ("sub", &wrong, &copy, above.clone()),
            ("sub", &wrong, &wrong, format!("{above}; {own}")),
            ("sub", &[], &wrong, format!("{none}; {own}")),
            (
                "root",
                &wrong,
                &[],
                format!(
                    "it is the namespace's own object; root has no parent and no template; {}",
                    wrong_of("root")
                ),
            ),
        ] {
            assert_eq!(why(namespace, [("root", root), ("sub", sub)]), wanted, "{root:?} {sub:?}");
        }
    }
}
