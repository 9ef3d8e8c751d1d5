//! `namespace describe`: shows the place of a namespace, and the objects that are copied from and to it.

use std::collections::BTreeSet;

use clap::Args;
use forest::exclusion::field_selector;
use forest::{EdgeKind, Kind};
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE_ROOT, TYPE_TEMPLATE};
use hns_api::labels::INHERITED_FROM;
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::discover_groups;
use hns_cluster::feed::api_resource;
use hns_cluster::settings::accurate::{Settings, Watch};
use hns_cluster::settings::{Data, SharedSettings, in_force};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};

use super::explain::NO_COPY;
use super::place::{self, Place};
use super::{ENABLE, failed, note_on_place, without_effect};
use crate::failure::{Done, Problem};
use crate::lines::{Lines, printable};
use crate::session::Session;
use crate::table::{aligned, row};
use crate::{Failure, Terminal, published};

/// The volume in the Deployment of Accurate that holds the configuration.
const VOLUME: &str = "config";
/// The namespace of Accurate.
const NAMESPACE: &str = "accurate";
const DEPLOYMENT: &str = "accurate-controller-manager";

/// Show the type, parent, template, children and propagated objects of a namespace.
///
/// As in Accurate, the number of children is shown for roots only, and that of instances for templates only.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    namespace: String,

    /// Namespace of an installation of Accurate, whose configuration says which kinds are propagated. Without it, the configuration is that
    /// of the installation of hns, or else that of Accurate in the namespace "accurate".
    #[arg(long, value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    accurate_namespace: Option<String>,

    /// Name of the Deployment of Accurate. The default is accurate-controller-manager. Accurate's chart names it after the release,
    /// unless the release is "accurate".
    #[arg(long, value_name = "NAME", value_parser = deployment)]
    accurate_deployment: Option<String>,
}

fn deployment(text: &str) -> Result<String, String> {
    crate::flags::named(text, "Deployment")
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let name = &*arguments.namespace;
    let mut place = place::read(session, name).await?;
    place.look_into_hnc(session, name).await;
    let below = match edge_below(&place) {
        Some((label, what)) => Some((what, count(session, label, name).await)),
        None => None,
    };
    let count = below.as_ref().map(|(what, count)| (*what, count.as_ref().ok().copied()));
    terminal.print(&head(name, &place, count));
    if let Some((what, Err(problem))) = &below {
        terminal.note(&format!("the number of {what} is unknown: namespaces cannot be listed: {problem}"));
    }
    let above = Above::read(session, (name, &place)).await;
    let is_above = count.is_some_and(|(_, count)| count.is_some_and(|it| it > 0));
    for note in
        notes(name, &place, published::settings_beside_accurate(session).await.as_ref(), (above, is_above))
    {
        terminal.note(&note);
    }
    let (watches, is_hns) = watches((session, terminal), arguments).await?;
    if watches.is_empty() {
        return Ok(());
    }
    terminal.print("\nResources:\n");
    let groups = discover_groups(&session.client).await;
    let groups = groups.map_err(|why| Failure::new(format!("Error: the kinds cannot be read: {why}")))?;
    let mut rows = vec![row(["Kind", "Name", "From", "Mode"]), row(["--------"; 4])];
    for watch in &watches {
        let found = match watch.resolve(&groups) {
            Ok(kind) => {
                let api =
                    Api::<DynamicObject>::namespaced_with(session.client.clone(), name, &api_resource(&kind));
                let listed = session.list_metadata(&api, &selected(&kind, is_hns)).await;
                listed.map_err(|problem| format!("{} cannot be listed: {problem}", kind.group_resource()))
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(all) => rows.extend(
                all.iter()
                    .filter_map(|it| object(&watch.kind, &it.metadata, place.upstream().map(|it| it.0))),
            ),
            Err(why) => terminal.note(&why),
        }
    }
    terminal.print(&aligned(&rows, 2));
    Ok(())
}

/// The state of the parent or the template, as far as the user may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    Missing,
    /// It is in HNC's hierarchy, too.
    InBoth,
    /// It is neither of this type, as it has to be, nor a sub-namespace.
    Unfit(&'static str),
    /// It is below the namespace.
    Below,
    /// Nothing is known to be wrong.
    Fine,
}

impl Above {
    async fn read(session: &Session, (below, place): (&str, &Place)) -> Self {
        let Some((name, edge)) = place.upstream() else { return Self::Fine };
        match session.call(session.all::<Namespace>().get_metadata_opt(name)).await {
            Ok(None) => Self::Missing,
            Ok(Some(found)) => {
                let mut above = Place::of(&found.metadata);
                if !above.leads(edge) {
                    return Self::Unfit(if edge == EdgeKind::Parent { TYPE_ROOT } else { TYPE_TEMPLATE });
                }
                above.look_into_hnc(session, name).await;
                match () {
                    () if above.is_in_hnc => Self::InBoth,
                    () if is_below(session, above, below).await => Self::Below,
                    () => Self::Fine,
                }
            }
            Err(_) => Self::Fine,
        }
    }
}

/// Whether a namespace in this place is below this one, as far as the user may read that.
async fn is_below(session: &Session, mut place: Place, above: &str) -> bool {
    let mut seen = BTreeSet::new();
    while let Some((next, _)) = place.upstream().filter(|(next, _)| seen.insert((*next).to_owned())) {
        if next == above {
            return true;
        }
        place = place::read(session, next).await.unwrap_or_default();
    }
    false
}

/// What is unusual about the place; `is_above` means that other namespaces name it as their parent or template.
fn notes(
    name: &str,
    place: &Place,
    settings: Option<&forest::Settings>,
    (state, is_above): (Above, bool),
) -> Vec<String> {
    let unmanaged = |name: &str| settings.and_then(|it| it.unmanaged(name));
    let above = place.upstream().map(|(above, edge)| (above, edge.as_str()));
    let excluded = above.and_then(|(above, what)| Some((above, what, unmanaged(above)?)));
    let cut_off = above.and_then(|(above, what)| {
        let why = match state {
            Above::Missing => "does not exist".to_owned(),
            Above::InBoth => "is in a hierarchy of hnc.x-k8s.io, too".to_owned(),
            Above::Unfit(kind) => format!("is neither a {kind} nor a sub-namespace"),
            Above::Below => format!("is below {name}, too"),
            Above::Fine => return None,
        };
        Some(format!(
            "{above}, the {what} of {name}, {why}, so nothing is copied to {name}; `kubectl accurate doctor` says what to do"
        ))
    });
    let has_edges = place.parent.is_some() || place.template.is_some() || is_above;
    let ending = place.is_ending.then(|| format!("{name} is being deleted"));
    let on_edges = match (&place.parent, &place.template) {
        _ if place.is_in_hnc && has_edges => Some(format!(
            "{name} is in Accurate's hierarchy, too, so it is halted: nothing is copied to it or from it; `kubectl accurate doctor` says what to do"
        )),
        _ if state != Above::Missing
            && let Some((above, what, why)) = excluded =>
        {
            Some(format!("{above}, the {what} of {name}, {why}, so nothing is copied to {name}"))
        }
        _ if cut_off.is_some() => cut_off,
        (Some(_), Some(template)) => Some(without_effect(name, template, place.kind.is_some())),
        _ => None,
    };
    // One that is being deleted cannot be given another place.
    let on_edges = on_edges.filter(|_| unmanaged(name).is_none() && !place.is_ending);
    [note_on_place(name, place, settings), on_edges, ending].into_iter().flatten().collect()
}

/// The objects of a kind that can be propagated. hns leaves out Secrets of some types.
fn selected(kind: &Kind, is_hns: bool) -> ListParams {
    match field_selector(kind).filter(|_| is_hns) {
        Some(selector) => ListParams::default().fields(&selector),
        None => ListParams::default(),
    }
}

/// The label by which the next namespaces name this one, and what they are.
fn edge_below(place: &Place) -> Option<(&'static str, &'static str)> {
    match place.kind.as_deref()? {
        TYPE_ROOT => Some((PARENT, "children")),
        TYPE_TEMPLATE => Some((TEMPLATE, "instances")),
        _ => None,
    }
}

async fn count(session: &Session, label: &str, name: &str) -> Result<usize, Problem> {
    let below = ListParams::default().labels(&format!("{label}={name}"));
    session.list_metadata(&session.all::<Namespace>(), &below).await.map(|it| it.len())
}

fn head(name: &str, place: &Place, count: Option<(&str, Option<usize>)>) -> String {
    let kind = if count.is_some() { place.kind.as_deref() } else { None };
    let mut text = format!("Name: {name}\nType: {}\n", kind.unwrap_or("none"));
    if let Some((what, count)) = count {
        let count = count.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
        text.line(format!("# of {what}: {count}"));
    }
    for (what, value) in [("Parent", &place.parent), ("Template", &place.template)] {
        if let Some(value) = value {
            text.line(format!("{what}: {value}"));
        }
    }
    text
}

/// The line of an object that is a source or a copy, or that names another namespace than the upstream one as its source. A copy of HNC's
/// has none, whatever its annotations say.
fn object(kind: &str, metadata: &ObjectMeta, upstream: Option<&str>) -> Option<Vec<String>> {
    let value = |key| metadata.annotations.as_ref().and_then(|it| it.get(key)).filter(|it| !it.is_empty());
    let (from, mode) = (value(FROM), value(PROPAGATE));
    from.or(mode).filter(|_| !metadata.labels.iter().flatten().any(|(key, _)| key == INHERITED_FROM))?;
    let is_stray = mode.is_none() && from.map(String::as_str) != upstream;
    let is_known = mode.is_none_or(|it| ["create", "update"].contains(&it.as_str()));
    let mode = mode.map(|it| if is_known { it.clone() } else { format!("{it} (unknown)") });
    let cell = |value: Option<&String>| printable(value.map_or("", |it| it)).into_owned();
    let from = if is_stray { format!("{} ({NO_COPY})", cell(from)) } else { cell(from) };
    Some(vec![kind.to_owned(), cell(metadata.name.as_ref()), from, cell(mode.as_ref())])
}

/// The kinds that are propagated, and whether hns propagates them.
async fn watches(
    (session, terminal): (&Session, &Terminal),
    arguments: &Arguments,
) -> Result<(Vec<Watch>, bool), Failure> {
    let Arguments { accurate_namespace: namespace, accurate_deployment: deployment, .. } = arguments;
    let is_named = namespace.is_some() || deployment.is_some();
    let [namespace, deployment] = [(namespace, NAMESPACE), (deployment, DEPLOYMENT)]
        .map(|(given, usual)| given.as_deref().unwrap_or(usual));
    let of_hns = match published::read(session).await {
        Ok(None) if session.names_installation && !is_named => return Err(not_installed(session).await),
        Ok(data) => shared(data.as_ref()).map(|it| it.map(|it| it.accurate)),
        Err(problem) => Err(unread(&problem)),
    };
    let settings = match of_hns {
        Ok(Some(found)) if !is_named => Some((found, true)),
        of_hns => match of_accurate(session, namespace, deployment).await? {
            None => of_hns?.map(|found| (found, true)).inspect(|_| {
                terminal.note(&format!(
                    "Deployment {namespace}/{deployment} does not exist; the configuration is that of hns"
                ));
            }),
            Some(found) => Some((found, false)),
        },
    };
    match settings {
        Some((settings, is_hns)) => Ok((settings.config.watches, is_hns)),
        None => Err(unconfigured(session, (namespace, deployment)).await),
    }
}

async fn unconfigured(session: &Session, (namespace, deployment): (&str, &str)) -> Failure {
    let home = session.installation().await;
    let why = match published::read(session).await {
        Ok(None) => format!("hns is not installed in namespace {home}"),
        _ => "hns' settings do not enable Accurate's API".to_owned(),
    };
    Failure::new(format!(
        "Error: no configuration was found: {why}, and Deployment {namespace}/{deployment} does not exist"
    ))
    .with_hint(
        "Name it with --accurate-namespace and --accurate-deployment, or the namespace of hns with --installation.",
    )
}

fn unread(problem: &Problem) -> Failure {
    failed("the settings of hns cannot be read", problem)
}

/// The settings in this data, the one that hns publishes, if it serves Accurate's API.
fn shared(data: Option<&Data>) -> Result<Option<SharedSettings>, Failure> {
    let found = data.map(in_force).transpose();
    let found = found.map_err(|invalid| {
        Failure::new(format!("Error: the settings of hns are not understood: {invalid}"))
    })?;
    Ok(found.flatten().filter(|it| it.accurate.enabled))
}

/// What hns publishes. It fails where hns is not installed.
pub(super) async fn installed(session: &Session) -> Result<Data, Failure> {
    let data = published::read(session).await.map_err(|problem| unread(&problem))?;
    match data {
        Some(data) => Ok(data),
        None => Err(not_installed(session).await),
    }
}

async fn not_installed(session: &Session) -> Failure {
    let home = session.installation().await;
    Failure::new(format!("Error: namespace {home}: hns is not installed in it"))
        .with_hint("Name the namespace of hns with --installation, or check --context.")
}

/// The settings that hns runs with. It fails where hns does not serve the API.
pub(super) async fn served(session: &Session) -> Result<SharedSettings, Failure> {
    shared(Some(&installed(session).await?))?.ok_or_else(|| {
        Failure::new("Error: hns does not serve Accurate's API here, so it copies nothing in these trees")
            .with_hint(format!("{ENABLE} Or name another installation with --installation."))
    })
}

/// Whether neither hns nor Accurate serves the API, as far as the user may see that.
pub(crate) async fn is_unserved(session: &Session) -> bool {
    let Ok(Some(data)) = published::read(session).await else { return false };
    let is_off = in_force(&data).is_ok_and(|found| found.is_some_and(|it| !it.accurate.enabled));
    is_off && !may_run(session).await
}

/// Whether Accurate runs in its usual namespace, or the user may not see whether it does.
async fn may_run(session: &Session) -> bool {
    let found = session.call(session.within::<Deployment>(NAMESPACE).get_metadata_opt(DEPLOYMENT)).await;
    !matches!(found, Ok(None))
}

/// The configuration of Accurate's Deployment in this namespace; `None` if there is no such Deployment.
async fn of_accurate(session: &Session, namespace: &str, name: &str) -> Result<Option<Settings>, Failure> {
    let what = format!("Deployment {namespace}/{name}");
    let found = session.call(session.within::<Deployment>(namespace).get_opt(name)).await;
    let found = found.map_err(|problem| failed(format_args!("{what} cannot be read"), &problem))?;
    let Some(deployment) = found else { return Ok(None) };
    let name = config_map(&deployment).ok_or_else(|| {
        Failure::new(format!("Error: {what} has no volume {VOLUME:?} with a ConfigMap"))
            .with_hint("Name the namespace of Accurate with --accurate-namespace.")
    })?;
    let map = session.call(session.within::<ConfigMap>(namespace).get(&name)).await;
    let what = format!("ConfigMap {namespace}/{name}");
    let map = map.map_err(|problem| failed(format_args!("{what} cannot be read"), &problem))?;
    let settings = Settings::of_accurate(&map.data.unwrap_or_default());
    settings.map(Some).map_err(|why| Failure::new(format!("Error: {what}: {why}")))
}

fn config_map(deployment: &Deployment) -> Option<String> {
    let volumes = deployment.spec.as_ref()?.template.spec.as_ref()?.volumes.as_ref()?;
    let volume = volumes.iter().find(|it| it.name == VOLUME)?;
    Some(volume.config_map.as_ref()?.name.clone()).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_head_has_what_the_labels_say() {
        let place = |kind: &str, parent: &str, template: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
            Place { kind: some(kind), parent: some(parent), template: some(template), ..Place::default() }
        };
        for (place, count, wanted) in [
            (place("root", "", ""), None, "Type: root\n# of children: unknown\n"),
            (place("root", "", "t"), Some(2), "Type: root\n# of children: 2\nTemplate: t\n"),
            (place("template", "", ""), Some(0), "Type: template\n# of instances: 0\n"),
            (place("", "p", ""), None, "Type: none\nParent: p\n"),
            (place("other", "", ""), None, "Type: none\n"),
        ] {
            let count = edge_below(&place).map(|(_, what)| (what, count));
            assert_eq!(head("n", &place, count), format!("Name: n\n{wanted}"));
        }
    }

    #[test]
    fn what_is_unusual_about_a_place_is_noted() {
        use Above::{Below, Fine, InBoth, Missing, Unfit};
        let settings = forest::Settings::new("home", ["out"], ".*").unwrap();
        let (missing, idle) = ("p, the parent of n, does not exist", "t, the template of n, has no effect");
        let crossed = Place { is_in_hnc: true, parent: Some("p".into()), ..Place::default() };
        for (place, is_above, is_halted) in [
            (crossed.clone(), false, true),
            (Place { parent: None, template: Some("t".into()), ..crossed.clone() }, false, true),
            (Place { parent: None, kind: Some("root".into()), ..crossed.clone() }, true, true),
            (Place { parent: None, kind: Some("root".into()), ..crossed.clone() }, false, false),
            (Place { is_in_hnc: false, ..crossed }, false, false),
        ] {
            let notes = notes("n", &place, Some(&settings), (Fine, is_above)).join("\n");
            assert_eq!(notes.contains("so it is halted"), is_halted, "{place:?}: {notes}");
        }
        for (name, parent, template, above, is_ending, wanted) in [
            ("n", "p", "", Fine, false, &[][..]),
            ("n", "", "t", Fine, false, &[]),
            ("n", "", "t", Missing, false, &["t, the template of n, does not exist"]),
            ("n", "p", "", Missing, true, &["n is being deleted"]),
            ("n", "p", "t", Missing, false, &[missing]),
            ("n", "p", "t", Fine, false, &[idle]),
            (
                "n",
                "p",
                "t",
                Below,
                false,
                &["p, the parent of n, is below n, too, so nothing is copied to n;"],
            ),
            (
                "n",
                "p",
                "t",
                InBoth,
                false,
                &["p, the parent of n, is in a hierarchy of hnc.x-k8s.io, too, so"],
            ),
            ("n", "", "t", InBoth, false, &["t, the template of n, is in a hierarchy of hnc.x-k8s.io, too"]),
            (
                "n",
                "p",
                "t",
                Unfit("root"),
                false,
                &[
                    "p, the parent of n, is neither a root nor a sub-namespace, so nothing is copied to n; `kubectl accurate doctor`",
                ],
            ),
            (
                "n",
                "",
                "t",
                Unfit("template"),
                false,
                &["t, the template of n, is neither a template nor a sub-namespace, so"],
            ),
            ("n", "out", "", Unfit("root"), false, &["out, the parent of n, is excluded by"]),
            ("out", "p", "t", Fine, false, &["namespace out is excluded"]),
            ("n", "out", "t", Fine, false, &["out, the parent of n, is excluded by"]),
            ("n", "out", "", InBoth, false, &["out, the parent of n, is excluded by"]),
            ("n", "out", "", Missing, false, &["out, the parent of n, does not exist"]),
            ("n", "", "out", Fine, false, &["out, the template of n, is excluded by"]),
            ("n", "p", "out", Fine, false, &["out, the template of n, has no effect"]),
        ] {
            let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
            let place =
                Place { parent: some(parent), template: some(template), is_ending, ..Place::default() };
            let notes = notes(name, &place, Some(&settings), (above, false));
            let is_so = |(note, wanted): (&String, &&str)| note.starts_with(wanted);
            assert!(notes.len() == wanted.len() && notes.iter().zip(wanted).all(is_so), "{notes:?}");
        }
    }

    #[test]
    fn only_sources_and_copies_are_shown() {
        let shown = |annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let metadata = ObjectMeta {
                name: Some("x".into()),
                annotations: Some(annotations.collect()),
                ..ObjectMeta::default()
            };
            object("Secret", &metadata, Some("p")).map(|it| it.join(" "))
        };
        assert_eq!(shown(&[("a", "b"), (PROPAGATE, "")]), None);
        assert_eq!(shown(&[(PROPAGATE, "update")]).as_deref(), Some("Secret x  update"));
        assert_eq!(shown(&[(PROPAGATE, "create"), (FROM, "p")]).as_deref(), Some("Secret x p create"));
        assert_eq!(shown(&[(PROPAGATE, "always")]).as_deref(), Some("Secret x  always (unknown)"));
        assert_eq!(shown(&[(FROM, "p")]).as_deref(), Some("Secret x p "));
        assert_eq!(shown(&[(FROM, "q")]).as_deref(), Some("Secret x q (not a copy) "));
        let labels = Some([(INHERITED_FROM.to_owned(), "a".to_owned())].into());
        let annotations = Some([(PROPAGATE.to_owned(), "update".to_owned())].into());
        let of_hnc = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
        assert_eq!(object("Secret", &of_hnc, Some("p")), None);
    }

    #[test]
    fn the_configuration_is_in_the_volume_of_the_deployment() {
        let deployment = |volume: serde_json::Value| {
            let spec = json!({ "template": { "spec": { "containers": [], "volumes": [{ "name": "cert" }, volume] } }, "selector": {} });
            serde_json::from_value::<Deployment>(json!({ "spec": spec })).unwrap()
        };
        let found = |volume| config_map(&deployment(volume));
        assert_eq!(found(json!({ "name": "config", "configMap": { "name": "c" } })).as_deref(), Some("c"));
        assert_eq!(found(json!({ "name": "config", "secret": {} })), None);
        assert_eq!(found(json!({ "name": "other", "configMap": { "name": "c" } })), None);
    }
}
