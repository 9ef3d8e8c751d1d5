//! `sub create` and `sub delete`: create and delete sub-namespaces by their `SubNamespaces`.

use std::collections::BTreeMap;

use clap::Args;
use forest::accurate::Settings;
use forest::accurate::glob::Keys;
use forest::core::name::PERMANENT;
use hns_api::accurate::labels::{TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::accurate::{GROUP, SubNamespace, SubNamespaceSpec};
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};

use super::place::{self, Mode, Place};
use super::{failed, forms, labels, refusals, relocation};
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::{Failure, Terminal, published};

/// Create a sub-namespace.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The name of the new namespace.
    #[arg(value_name = "NAME", value_parser = crate::flags::namespace)]
    pub(super) name: String,

    /// The parent, a root or a sub-namespace.
    #[arg(value_name = "PARENT", value_parser = crate::flags::namespace)]
    pub(super) parent: String,

    /// Labels of the new namespace, separated by commas; can be repeated. Only keys in the setting
    /// accurate.config.subNamespaceLabelKeys have an effect.
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = pairs)]
    labels: Vec<Pairs>,

    /// Annotations of the new namespace; can be repeated. A value may contain commas if it is the only one, or if its pair is in
    /// double quotes. Only keys in the setting accurate.config.subNamespaceAnnotationKeys have an effect.
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = pairs)]
    annotations: Vec<Pairs>,
}

/// Delete a sub-namespace.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The sub-namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) name: String,
}

/// The value of one flag.
type Pairs = Vec<(String, String)>;

/// Pairs of keys and values, separated by commas, as Go's plugins read them: a value may contain commas if it is the only one, or if
/// its pair is in double quotes. Quotes that are not around the only pair belong to its value; Go takes the last one away.
fn pairs(text: &str) -> Result<Pairs, String> {
    let unquoted = || text.strip_prefix('"')?.strip_suffix('"');
    let parts = if text.matches('=').count() == 1 {
        vec![unquoted().unwrap_or(text).to_owned()]
    } else {
        parts(text)
    };
    let pair = |part: String| {
        let (key, value) = part.split_once('=').filter(|(key, _)| !key.is_empty())?;
        Some((key.to_owned(), value.to_owned()))
    };
    parts.into_iter().map(pair).collect::<Option<_>>().ok_or_else(|| "must be KEY=VALUE,…".to_owned())
}

/// The text between the commas that are not in double quotes.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for it in text.chars() {
        match it {
            '"' => quoted = !quoted,
            ',' if !quoted => parts.push(String::new()),
            _ => parts.iter_mut().last().into_iter().for_each(|part| part.push(it)),
        }
    }
    parts
}

impl Create {
    /// Of a key that is given twice, the last value counts, as in Accurate.
    pub(super) fn spec(&self) -> SubNamespaceSpec {
        let map = |given: &[Pairs]| {
            let map: BTreeMap<_, _> = given.iter().flatten().cloned().collect();
            (!map.is_empty()).then_some(map)
        };
        SubNamespaceSpec { labels: map(&self.labels), annotations: map(&self.annotations) }
    }

    /// Notes on the keys that the settings do not allow, if the settings can be read.
    pub(super) async fn without_effect(&self, session: &Session) -> Vec<String> {
        match published::accurate(session).await {
            Ok(Some(settings)) => without_effect(&self.spec(), &settings),
            _ => Vec::new(),
        }
    }

    /// The failure of the creation, with what to do.
    async fn refused(&self, session: &Session, problem: &Problem) -> Failure {
        let Self { name, parent, .. } = self;
        let failure = failed(format_args!("SubNamespace {parent}/{name} cannot be created"), problem);
        if problem.code() == 409 {
            let status = self.shows_status();
            failure.with_hint(format!("If it has no namespace, its status says why: {status}."))
        } else if problem.is_not_found() {
            failure.with_hint(place::ALL)
        } else {
            let request = refusals::Request::Create(name, parent);
            refusals::with_way(failure, session, request, &problem.to_string()).await
        }
    }

    /// The command that shows the status of the `SubNamespace`.
    fn shows_status(&self) -> String {
        format!("`kubectl get subnamespaces {} -n {} -o yaml`", self.name, self.parent)
    }

    /// Fails if there is a namespace of this name. A note if that is not known.
    pub(super) async fn is_new(&self, session: &Session) -> Result<Option<String>, Failure> {
        let Self { name, parent, .. } = self;
        match session.call(session.all::<Namespace>().get_metadata_opt(name)).await {
            Ok(None) => Ok(None),
            Ok(Some(found)) => {
                place::stays(name, &found.metadata)?;
                let failure = Failure::new(format!("Error: namespace {name} already exists"));
                // Another name does not help where the parent is refused.
                let wanted = SubNamespace::new(name, self.spec());
                if let Err(problem) = forms::dry_run(session, parent, &wanted).await {
                    let also = Box::pin(self.refused(session, &problem)).await;
                    let failure = failure.with_hint(format!("Choose another name. Also, {}.", also.clause()));
                    return Err(also.hint.into_iter().fold(failure, |failure, hint| failure.and_hint(&hint)));
                }
                let way = relocation::way_below(session, &Place::of(&found.metadata), (name, parent)).await;
                Err(failure.with_hint(format!("Choose another name. {way}")))
            }
            // An administrator of the parent need not have this right.
            Err(problem) if problem.is_forbidden() => Ok(Some(format!(
                "you may not read namespace {name}: if it exists already, the SubNamespace shows a conflict, and no namespace is created"
            ))),
            Err(problem) => Err(failed(format_args!("namespace {name} cannot be read"), &problem)),
        }
    }
}

/// Notes on the labels and annotations that the namespace does not get.
fn without_effect(spec: &SubNamespaceSpec, settings: &Settings) -> Vec<String> {
    let Settings { sub_namespace_label_keys, sub_namespace_annotation_keys, .. } = settings;
    let note = |what, given: &Option<BTreeMap<String, String>>, allowed: &Keys, setting| {
        let keys = given.iter().flat_map(BTreeMap::keys).filter(|key| !allowed.matches(key));
        let keys: Vec<&str> = keys.map(String::as_str).collect();
        let (have, these) = match keys[..] {
            [] => return None,
            [key] => (format!("{what} {key} has"), "this key"),
            _ => (format!("{what}s {} have", keys.join(", ")), "these keys"),
        };
        Some(format!("the {have} no effect: the setting accurate.config.{setting} does not allow {these}"))
    };
    [
        note("label", &spec.labels, sub_namespace_label_keys, "subNamespaceLabelKeys"),
        note("annotation", &spec.annotations, sub_namespace_annotation_keys, "subNamespaceAnnotationKeys"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Delete {
    /// The parent of the sub-namespace. `mode` is that of the commands in hints.
    pub(super) async fn parent(&self, session: &Session, mode: Mode) -> Result<String, Failure> {
        let name = &self.name;
        let found = match session.call(session.all::<Namespace>().get_metadata(name)).await {
            Ok(found) => found,
            Err(problem) => {
                let failure = place::unreadable(name, &problem);
                if !problem.is_forbidden() {
                    return Err(Box::pin(with_forms(failure, session, name, false)).await);
                }
                let only = if mode == Mode::DryRun { " --dry-run=server" } else { "" };
                // Who created it may lack this right, for example where no RoleBinding is copied.
                let parent = if session.names_namespace { &session.namespace } else { "PARENT" };
                return Err(failure.and_hint(&format!(
                    "This command reads the namespace to find its parent. If you know the parent, you need not read it: \
                     `kubectl delete subnamespaces.{GROUP} {name} -n {parent}{only}`."
                )));
            }
        };
        let place = Place::of(&found.metadata);
        if let Some(parent) = &place.parent {
            return Ok(parent.clone());
        }
        labels::refuse_excluded(session, name).await?;
        if let Err(failure) = place::stays(name, &found.metadata) {
            return Err(Box::pin(with_forms(failure, session, name, true)).await);
        }
        let hint = match place.kind.as_deref() {
            Some(TYPE_ROOT) => way_to_delete(session, "It is a root namespace", name).await,
            Some(TYPE_TEMPLATE) => way_to_delete(session, "It is a template", name).await,
            _ => way_to_delete(session, "It has no parent", name).await,
        };
        let failure = super::no_sub_namespace(name, &place, Some(&hint));
        Err(Box::pin(with_forms(failure, session, name, true)).await)
    }

    /// A note if the namespace stays without its `SubNamespace`.
    pub(super) async fn keeps(&self, session: &Session, parent: &str) -> Option<String> {
        let (settings, name) = (published::settings(session).await.0, &self.name);
        let is = stays(&settings, (parent, name))?;
        Some(if settings.is_managed(name) { way_to_delete(session, &is, name).await } else { is })
    }
}

/// A note if the settings exclude the namespace or its parent: the controller deletes no namespace with its `SubNamespace` then.
fn stays(settings: &forest::Settings, (parent, name): (&str, &str)) -> Option<String> {
    if let Some(why) = settings.unmanaged(name) {
        return Some(format!("namespace {name} stays: it {why}, so the SubNamespace does not own it"));
    }
    let why = settings.unmanaged(parent)?;
    Some(format!("namespace {name} stays, because its parent {parent} {why}"))
}

/// The failure with the other `SubNamespaces` of that name, to which no namespace belongs: those of the cluster or, for a user who may not
/// list them, that in the namespace of -n. If there `is` such a namespace, they create it again.
async fn with_forms(failure: Failure, session: &Session, name: &str, is: bool) -> Failure {
    let of_that_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = async |forms: Api<SubNamespace>| session.list_metadata(&forms, &of_that_name).await;
    let mut found = list(session.all()).await;
    if found.is_err() {
        found = list(session.within(&session.namespace)).await;
    }
    let parents = found.unwrap_or_default().into_iter().filter_map(|it| it.metadata.namespace);
    parents.fold(failure, |failure, parent| {
        if is {
            return failure.but_first(&format!(
                "First delete SubNamespace {parent}/{name}, which can create the namespace again: \
                 `kubectl delete subnamespaces.{GROUP} {name} -n {parent}`."
            ));
        }
        failure.and_hint(&format!(
            "SubNamespace {parent}/{name} owns no namespace: {}.",
            to_delete_form(&parent, name)
        ))
    })
}

/// The command that deletes a `SubNamespace` to which no namespace belongs, as a clause.
pub(in crate::commands) fn to_delete_form(parent: &str, name: &str) -> String {
    format!("`kubectl delete subnamespaces.{GROUP} {name} -n {parent}` deletes it")
}

/// How to delete a namespace without a `SubNamespace`; `is` says what it is.
pub(in crate::commands) async fn way_to_delete(session: &Session, is: &str, name: &str) -> String {
    let cascades = refusals::cascades(session).await;
    let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
    // What is further down can be an obstacle. Another user may have the right.
    if cascades
        && let Err(problem) = session.call(session.all::<Namespace>().delete(name, &params)).await
        && problem.code() == 403
        && !problem.is_forbidden()
    {
        return format!("{is}, which cannot be deleted now: {problem}");
    }
    without_form(is, name, &Box::pin(refusals::before_deletion(session, name, cascades)).await, cascades)
}

/// The same; `others` says what becomes of the namespaces below it, if there are any, or what to do about them first.
fn without_form(is: &str, name: &str, others: &str, cascades: bool) -> String {
    let command = format!("`kubectl delete namespace {name}` deletes it.");
    match others {
        _ if PERMANENT.contains(&name) => format!("{is}. Kubernetes never deletes namespace {name}."),
        "" => format!("{is}: {command}"),
        _ if cascades => format!("{is}: {command}\n{others}"),
        _ => format!("{is}.\n{others}\nThen {command}"),
    }
}

/// What is said if the `SubNamespace` is being deleted.
pub(super) fn has_begun(parent: &str, form: &ObjectMeta) -> Option<String> {
    form.deletion_timestamp.as_ref()?;
    let name = form.name.as_deref().unwrap_or_default();
    Some(format!("SubNamespace {parent}/{name} is being deleted already"))
}

/// The failure of a deletion where there is no `SubNamespace`.
pub(super) async fn by_label_only(session: &Session, name: &str) -> Failure {
    let way = match published::settings(session).await.0.unmanaged(name) {
        // No webhook judges the deletion, and the controller deletes nothing with it.
        Some(why) => format!(
            "{name} {why}: `kubectl delete namespace {name}` deletes it, and nothing below it. Namespaces that name it as their parent or \
             template would stay without it; to prevent that, first include {name} again in the settings of hns."
        ),
        None => way_to_delete(session, &format!("{name} is a sub-namespace by its label only"), name).await,
    };
    let failure =
        Failure::new(format!("Error: there is no SubNamespace of {name} in its parent")).with_hint(way);
    Box::pin(with_forms(failure, session, name, true)).await
}

pub(crate) async fn create(arguments: &Create, session: &Session, terminal: &Terminal) -> Done {
    let Create { name, parent, .. } = arguments;
    let unknown = arguments.is_new(session).await?;
    let form = SubNamespace::new(name, arguments.spec());
    let forms = session.within::<SubNamespace>(parent);
    if let Err(problem) = session.call(forms.create(&PostParams::default(), &form)).await {
        return Err(arguments.refused(session, &problem).await);
    }
    terminal.line(&format!("SubNamespace {name} is created in {parent}"));
    let unknown = unknown.map(|note| format!("{note}. See its status: {}", arguments.shows_status()));
    for note in arguments.without_effect(session).await.into_iter().chain(unknown) {
        terminal.note(&note);
    }
    Ok(())
}

pub(crate) async fn delete(arguments: &Delete, session: &Session, terminal: &Terminal) -> Done {
    let name = &arguments.name;
    let parent = arguments.parent(session, Mode::Store).await?;
    let forms = session.within::<SubNamespace>(&parent);
    // Who may not read it may delete it.
    if let Ok(form) = session.call(forms.get_metadata(name)).await
        && let Some(line) = has_begun(&parent, &form.metadata)
    {
        terminal.line(&line);
        return Ok(());
    }
    let deleted = session.call(forms.delete(name, &DeleteParams::default())).await;
    let Err(problem) = deleted else {
        terminal.line(&format!("deleted SubNamespace {parent}/{name}"));
        if let Some(note) = arguments.keeps(session, &parent).await {
            terminal.note(&note);
        }
        return Ok(());
    };
    let failure = failed(format_args!("SubNamespace {parent}/{name} cannot be deleted"), &problem);
    if !problem.is_not_found() {
        let request = refusals::Request::Delete(name);
        return Err(refusals::with_way(failure, session, request, &problem.to_string()).await);
    }
    place::to_move(session, name).await?;
    Err(Failure { hint: by_label_only(session, name).await.hint, ..failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_the_settings_do_not_allow_are_named() {
        let keys = |all: &[&str]| Keys::new(all).unwrap();
        let settings = Settings {
            sub_namespace_label_keys: keys(&["team"]),
            sub_namespace_annotation_keys: keys(&["*/note"]),
            ..Settings::default()
        };
        let map = |all: &[&str]| Some(all.iter().map(|it| ((*it).to_owned(), String::new())).collect());
        let spec = |labels: &[&str], annotations: &[&str]| SubNamespaceSpec {
            labels: map(labels),
            annotations: map(annotations),
        };
        for (spec, wanted) in [
            (SubNamespaceSpec::default(), &[][..]),
            (spec(&["team"], &["x/note"]), &[]),
            (spec(&["team", "foo", "bar"], &[]), &["labels bar, foo have no effect"]),
            (spec(&["foo"], &[]), &["the label foo has no effect"]),
            (
                spec(&["foo"], &["note"]),
                &["accurate.config.subNamespaceLabelKeys", "subNamespaceAnnotationKeys"],
            ),
        ] {
            let found = without_effect(&spec, &settings);
            assert_eq!(found.len(), wanted.len(), "{found:?}");
            assert!(found.iter().zip(wanted).all(|(note, part)| note.contains(part)), "{found:?}");
        }
    }

    #[test]
    fn a_root_is_deleted_after_its_sub_namespaces() {
        for (name, others, cascades, wanted) in [
            ("r", "", false, "It is a root namespace: `kubectl delete namespace r` deletes it."),
            ("r", "", true, "It is a root namespace: `kubectl delete namespace r` deletes it."),
            ("default", "", true, "It is a root namespace. Kubernetes never deletes namespace default."),
            (
                "r",
                "Sub-namespaces of r: s. If r is deleted, they are deleted as well, with those below them.",
                true,
                "It is a root namespace: `kubectl delete namespace r` deletes it.\nSub-namespaces of r: s. If r is deleted, they are deleted as well, with those below them.",
            ),
            (
                "r",
                "Sub-namespaces of r: s. Delete them first.",
                false,
                "It is a root namespace.\nSub-namespaces of r: s. Delete them first.\nThen `kubectl delete namespace r` deletes it.",
            ),
        ] {
            assert_eq!(without_form("It is a root namespace", name, others, cascades), wanted);
        }
    }

    #[test]
    fn a_namespace_stays_if_it_or_its_parent_is_excluded() {
        let settings = forest::Settings::new("home", ["out"], ".*").unwrap();
        for (parent, name, wanted) in [
            ("p", "n", None),
            ("p", "out", Some("namespace out stays: it is excluded by excludedNamespaces")),
            ("out", "n", Some("namespace n stays, because its parent out is excluded by excludedNamespaces")),
        ] {
            let note = stays(&settings, (parent, name));
            assert_eq!(note.is_some(), wanted.is_some(), "{note:?}");
            assert!(note.unwrap_or_default().starts_with(wanted.unwrap_or_default()), "{parent}/{name}");
        }
    }

    #[test]
    fn flags_hold_pairs_as_in_go() {
        let read = |text: &str| {
            let pairs = pairs(text)?;
            Ok(pairs.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>())
        };
        for (text, wanted) in [
            ("a=b", &["a:b"][..]),
            ("a=", &["a:"]),
            ("a=b,c", &["a:b,c"]),
            ("a=b,c=d", &["a:b", "c:d"]),
            ("\"a=b,x\",c=d=e", &["a:b,x", "c:d=e"]),
            ("\"a=b\"", &["a:b"]),
            ("a=\"b\"", &["a:\"b\""]),
            ("a=say \"b\"", &["a:say \"b\""]),
        ] {
            assert_eq!(read(text), Ok(wanted.iter().map(|it| (*it).to_owned()).collect()), "{text}");
        }
        for wrong in ["", "a", "=b", "a=b,c,d=e"] {
            assert_eq!(read(wrong), Err("must be KEY=VALUE,…".to_owned()), "{wrong}");
        }
    }
}
