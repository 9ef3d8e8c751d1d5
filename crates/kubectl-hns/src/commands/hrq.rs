//! `hrq`: lists hierarchical quotas with their usage.

mod tree;

use std::collections::BTreeMap;

use clap::Args;
use forest::hnc::quota::names_of_sources;
use hns_api::HierarchicalResourceQuota;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::CustomResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::failure::Problem;
use crate::flags::named;
use crate::format::{Format, render};
use crate::lines::printable;
use crate::session::Session;
use crate::structure::unreadable;
use crate::table::aligned;
use crate::{Failure, Terminal, age, published, quotas};

/// What a user without rights in the whole cluster can do.
const NAME_ONE: &str = "Name a namespace of yours with -n.";

/// List hierarchical resource quotas.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The names of the quotas; the default is all.
    #[arg(value_name = "NAME", value_parser = |it: &str| named(it, "quota"))]
    names: Vec<String>,

    /// List the quotas of all namespaces, whatever their names.
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Show a column with the labels.
    #[arg(long)]
    show_labels: bool,

    /// Draw each quota: how much of it is used, and by which namespaces below.
    #[arg(long, conflicts_with_all = ["output", "show_labels"])]
    tree: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let namespace = &*session.namespace;
    let (mut quotas, everywhere) = list(arguments.all_namespaces, session, terminal).await?;
    if !everywhere && quotas.is_empty() {
        exists(session, namespace).await?;
    }
    // As with kubectl.
    for quota in &mut quotas {
        quota.metadata.managed_fields = None;
    }
    let names = if arguments.all_namespaces { &[][..] } else { &arguments.names };
    let mut missing = None;
    if !names.is_empty() {
        missing = not_found(&quotas, names, namespace);
        quotas.retain(|it| it.metadata.name.as_ref().is_some_and(|name| names.contains(name)));
    }
    let mut notes = Vec::new();
    if !everywhere && names.is_empty() && arguments.output.is_none() {
        notes.extend(from_above(session, namespace).await);
    }
    if let (settings, None) = published::settings(session).await
        && !settings.hierarchical_quotas
    {
        notes.push(quotas::DISABLED.to_owned());
    }
    // As with kubectl, data is an empty list, and that there are none is no error.
    let is_data = arguments.output.is_some() && missing.is_none();
    if quotas.is_empty() && !is_data {
        for note in &notes {
            terminal.note(note);
        }
        let Some(missing) = missing else {
            let is_unnamed = arguments.all_namespaces && !session.names_namespace;
            terminal.fail(&none_found((!everywhere).then_some((namespace, is_unnamed))));
            return Ok(());
        };
        return Err(missing);
    }
    show(&quotas, arguments, session, terminal).await?;
    for note in &notes {
        terminal.note(note);
    }
    missing.map_or(Ok(()), Err)
}

/// The quotas of the namespace of the request, or those of the `whole` cluster, and whether they are the latter. Who may not list all gets
/// those of the namespace, with a note.
async fn list(
    whole: bool,
    session: &Session,
    terminal: &Terminal,
) -> Result<(Vec<HierarchicalResourceQuota>, bool), Failure> {
    let failed = |problem| Failure::because("hierarchicalresourcequotas cannot be listed", &problem);
    let params = ListParams::default();
    if whole {
        match session.list(&session.all(), &params).await {
            Err(problem) if problem.is_forbidden() => {}
            all => return Ok((all.map_err(failed)?, true)),
        }
    }
    let namespace = &*session.namespace;
    match session.list(&session.within(namespace), &params).await {
        Err(problem) if whole && problem.is_forbidden() => {
            Err(nothing_of_own((namespace, session.names_namespace), &problem))
        }
        own => {
            let own = own.map_err(failed)?;
            if whole {
                terminal.note(&format!(
                    "you may not list quotas in the whole cluster; only those of {namespace} are shown"
                ));
            }
            Ok((own, false))
        }
    }
}

/// Fails if the namespace does not exist: the API server lists nothing there, as in one without quotas.
async fn exists(session: &Session, namespace: &str) -> Result<(), Failure> {
    match session.call(session.all::<Namespace>().get_metadata(namespace)).await {
        Err(problem) if problem.is_not_found() => Err(unreadable(namespace, &problem)),
        _ => Ok(()),
    }
}

/// What is printed if there are no quotas in the cluster, or in this namespace; `is_unnamed` means that the user asked for all, and did not
/// name it.
fn none_found(namespace: Option<(&str, bool)>) -> Failure {
    let Some((namespace, is_unnamed)) = namespace else { return Failure::new("No resources found") };
    let none = Failure::new(format!("No resources found in {namespace} namespace."));
    if is_unnamed { none.with_hint(NAME_ONE) } else { none }
}

/// The failure if all quotas were requested, and not even those of this namespace can be listed because of `problem`.
fn nothing_of_own((namespace, is_named): (&str, bool), problem: &Problem) -> Failure {
    let text = format!(
        "Error: you may not list hierarchicalresourcequotas in the whole cluster, so only those of one namespace could be shown; \
         it is {namespace}, and you may not list them there either"
    );
    let hint = if is_named { problem.hint() } else { Some(NAME_ONE.to_owned()) };
    Failure { text, hint }
}

/// Prints the quotas in the requested form.
async fn show(
    quotas: &[HierarchicalResourceQuota],
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let everywhere = arguments.all_namespaces;
    if arguments.tree {
        return tree::show(quotas, session, terminal).await;
    }
    let columns = Columns { namespace: everywhere, labels: arguments.show_labels };
    match arguments.output {
        None => terminal.print(&text(quotas, columns, Timestamp::now())),
        Some(format) => {
            let names = quotas.iter().map(|it| {
                let name = it.metadata.name.as_deref().unwrap_or_default();
                format!("hierarchicalresourcequota.hnc.x-k8s.io/{name}")
            });
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": quotas });
            terminal.print(&render(format, &list, names)?);
        }
    }
    Ok(())
}

/// The failure that names the quotas that do not exist.
fn not_found(quotas: &[HierarchicalResourceQuota], names: &[String], namespace: &str) -> Option<Failure> {
    let exists = |name: &&String| quotas.iter().any(|it| it.metadata.name.as_ref() == Some(*name));
    let missing: Vec<String> =
        names.iter().filter(|name| !exists(name)).map(|it| format!("{it:?}")).collect();
    let resource = HierarchicalResourceQuota::crd_name();
    let text = format!("Error: {resource} {} not found in namespace {namespace}", missing.join(", "));
    (!missing.is_empty()).then(|| Failure::new(text))
}

/// The quotas above that limit this namespace, as its derived quota names them.
async fn from_above(session: &Session, namespace: &str) -> Option<String> {
    let derived = quotas::derived_in(session, namespace).await.ok()??;
    above(namespace, &derived.sources, &derived.limits)
}

fn above(namespace: &str, sources: &str, limits: &str) -> Option<String> {
    let is_elsewhere = |name: &&str| name.split_once('/').is_some_and(|(holder, _)| holder != namespace);
    let (above, own): (Vec<&str>, Vec<&str>) = names_of_sources(sources).partition(is_elsewhere);
    let is_above = |limit: &&str| above.iter().any(|name| limit.contains(&format!(": {name}, ")));
    let limits: Vec<&str> = limits.split("; ").filter(is_above).collect();
    let decisive = if limits.is_empty() {
        String::new()
    } else {
        format!(
            ". The least that is left of each resource (all of it at first; a change of less than 10 percentage points may not be \
             shown, and others only after 30 s): {}",
            limits.join("; ")
        )
    };
    let too = if own.is_empty() { "" } else { ", too" };
    let text = format!("namespaces above {namespace} have quotas{too}: {}{decisive}", above.join(", "));
    (!above.is_empty()).then(|| printable(&text).into_owned())
}

/// The optional columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    namespace: bool,
    labels: bool,
}

fn text(quotas: &[HierarchicalResourceQuota], columns: Columns, now: Timestamp) -> String {
    let mut heading = vec!["NAME", "AGE", "REQUEST", "LIMIT"];
    if columns.namespace {
        heading.insert(0, "NAMESPACE");
    }
    if columns.labels {
        heading.push("LABELS");
    }
    let mut rows: Vec<Vec<String>> = vec![heading.into_iter().map(str::to_owned).collect()];
    rows.extend(quotas.iter().map(|quota| cells(quota, columns, now)));
    aligned(&rows, 3)
}

fn cells(quota: &HierarchicalResourceQuota, columns: Columns, now: Timestamp) -> Vec<String> {
    let metadata = &quota.metadata;
    let created = metadata.creation_timestamp.as_ref();
    let age = created
        .map_or_else(|| "<unknown>".into(), |created| age::short(now.as_second() - created.0.as_second()));
    let (requests, limits) = summaries(quota);
    let mut cells = vec![metadata.name.clone().unwrap_or_default(), age, requests, limits];
    if columns.namespace {
        cells.insert(0, metadata.namespace.clone().unwrap_or_default());
    }
    if columns.labels {
        let labels = metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        cells.push(if labels.is_empty() { "<none>".into() } else { labels });
    }
    cells
}

/// The usage of requests, and of limits.
fn summaries(quota: &HierarchicalResourceQuota) -> (String, String) {
    let none = BTreeMap::new();
    let status = quota.status.as_ref();
    let hard = status.and_then(|it| it.hard.as_ref()).unwrap_or(&none);
    let used = status.and_then(|it| it.used.as_ref()).unwrap_or(&none);
    let line = |(name, hard): (&String, &Quantity)| {
        let used = used.get(name).map_or("0", |it| &it.0);
        (name.starts_with("limits."), format!("{name}: {used}/{}", hard.0))
    };
    let (limits, requests): (Vec<_>, Vec<_>) = hard.iter().map(line).partition(|(is_limit, _)| *is_limit);
    let joined = |lines: Vec<(bool, String)>| lines.into_iter().map(|it| it.1).collect::<Vec<_>>().join(", ");
    (joined(requests), joined(limits))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn who_may_not_list_all_quotas_is_told_to_name_a_namespace() {
        for (namespace, text, hint) in [
            (None, "No resources found", None),
            (Some(("default", true)), "No resources found in default namespace.", Some(NAME_ONE)),
            (Some(("n", false)), "No resources found in n namespace.", None),
        ] {
            let none = none_found(namespace);
            assert_eq!((&*none.text, none.hint.as_deref()), (text, hint));
        }
        let message =
            "quotas is forbidden: User \"u\" cannot list resource \"quotas\" in the namespace \"n\"";
        let problem = Problem::Refused(Box::new(Status::failure(message, "Forbidden").with_code(403)));
        for (is_named, hint) in [(false, NAME_ONE), (true, "You lack this right; ")] {
            let none = nothing_of_own(("n", is_named), &problem);
            assert!(none.text.contains("in the whole cluster") && none.text.contains("it is n,"), "{none}");
            assert!(none.hint.as_ref().is_some_and(|it| it.starts_with(hint)), "{none:?}");
        }
    }

    fn quota(namespace: &str, name: &str, hard: &serde_json::Value) -> HierarchicalResourceQuota {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": if name == "plain" { json!({}) } else { json!({ "b": "2", "a": "1" }) },
            },
            "status": { "hard": hard, "used": { "services": "1", "limits.cpu": "500m" } },
        }))
        .unwrap()
    }

    #[test]
    fn quotas_above_are_named() {
        let limits = "pods: team/own, 5% of 2 left; services: acme/all, 25% of 4 left";
        assert_eq!(
            above("team", "acme/all@1f,team/own@2e", limits).as_deref(),
            Some(
                "namespaces above team have quotas, too: acme/all. The least that is left of each resource (all of it at first; a \
                 change of less than 10 percentage points may not be shown, and others only after 30 s): services: acme/all, 25% of 4 left"
            )
        );
        assert_eq!(
            above("team", "acme/all@1f", "").as_deref(),
            Some("namespaces above team have quotas: acme/all")
        );
        assert_eq!(above("team", "team/own@2e", limits), None);
        assert_eq!(above("team", "", ""), None);
    }

    #[test]
    fn names_that_do_not_exist_are_an_error() {
        let quotas = [quota("acme", "team", &json!({}))];
        let names = |all: &[&str]| -> Vec<String> { all.iter().map(|it| (*it).to_owned()).collect() };
        assert_eq!(not_found(&quotas, &names(&["team"]), "acme"), None);
        assert_eq!(
            not_found(&quotas, &names(&["team", "nope"]), "acme").unwrap().text,
            "Error: hierarchicalresourcequotas.hnc.x-k8s.io \"nope\" not found in namespace acme"
        );
    }

    #[test]
    fn the_table_equals_that_of_hnc() {
        let now: Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
        let hard = json!({ "services": 1, "pods": "4", "limits.cpu": "1500m" });
        let quotas = [quota("acme-org", "acme-org-hrq", &hard)];
        let plain = Columns { namespace: false, labels: false };
        let wanted = "\
NAME           AGE   REQUEST                    LIMIT
acme-org-hrq   90s   pods: 0/4, services: 1/1   limits.cpu: 500m/1500m
";
        assert_eq!(text(&quotas, plain, now), wanted);
        let both = Columns { namespace: true, labels: true };
        let quotas = [quota("n", "plain", &json!({ "pods": "1" })), quota("n", "x", &json!({ "pods": "1" }))];
        let wanted = "\
NAMESPACE   NAME    AGE   REQUEST     LIMIT   LABELS
n           plain   90s   pods: 0/1           <none>
n           x       90s   pods: 0/1           a=1,b=2
";
        assert_eq!(text(&quotas, both, now), wanted);
    }
}
