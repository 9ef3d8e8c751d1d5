//! Writes the settings in force to `hnc-settings` while this replica leads: the document of `hns-config`, changed by the flags. A
//! failure is logged and retried.

use std::sync::Arc;
use std::time::Duration;

use hns_api::names::{CONFIG_CONFIG_MAP, FIELD_MANAGER, SETTINGS_CONFIG_MAP};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use hns_cluster::api::Api;
use hns_cluster::configured_kinds::discover_groups;
use hns_cluster::error_text::error_text;
use hns_cluster::quota_rights::{self, REMEDY};
use hns_cluster::settings::{
    DELETED, DOCUMENT, Data, FLAGS, REFUSED, SOURCE, Seen, SharedSettings, VERSION, accurate, in_force,
    refusal_of_document,
};
use hns_runtime::args::SharedArgs;
use hns_runtime::shutdown::Shutdown;

use crate::owner;

/// The minimum time between two writes, also if another program writes the same object.
const PACE: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The delay between two checks with the API server while a right for quotas or a kind of Accurate's API is missing: nothing reports
/// that a right is granted, or that a kind is served.
const MISSING: Duration = Duration::from_secs(10);

/// The field manager of the owner.
const CREATOR: &str = "hns-controller-create";

/// The sources of the settings.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The data of `hns-config`.
    pub(crate) document: Receiver<Seen>,
    /// The flags of the controller.
    pub(crate) flags: SharedArgs,
    /// The version of the controller.
    pub(crate) version: &'static str,
}

/// Writes the settings to `hnc-settings` in `namespace`, whose data is `seen`, when they change and `may_write` returns true,
/// until the shutdown.
pub(crate) async fn publish(
    (client, namespace): (Client, String),
    Source { mut document, flags, version }: Source,
    mut seen: Receiver<Seen>,
    may_write: impl Fn() -> bool,
    shutdown: Shutdown,
) {
    let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    // While the document is wrong, the settings that this process wrote last count, or else those in the cluster.
    let mut last: Option<Data> = None;
    let mut delay = PACE;
    loop {
        let document_now = document.borrow_and_update().clone();
        let seen_now = seen.borrow_and_update().clone();
        let mut again = None;
        if let (Some(document), Some(now)) = (document_now, seen_now) {
            let exists = now.is_some();
            let now = now.map(Arc::unwrap_or_clone).unwrap_or_default();
            let before = last.as_ref().unwrap_or(&now);
            let mut data = wanted(document.as_deref(), &flags, before, version);
            if has_quotas(&data)
                && !has_quotas(before)
                && let Some(why) = lacks(&client, &namespace).await
            {
                without_quotas(&mut data, &why);
                again = Some(MISSING);
            }
            if accurate_of(&data).enabled
                && accurate_of(&data) != accurate_of(before)
                && let Err(why) = check_served(&client, &data).await
            {
                keep_accurate(&mut data, before, &why);
                again = Some(MISSING);
            }
            let is_due = data.iter().any(|(key, value)| now.get(key) != Some(value));
            if is_due && may_write() {
                match write(&client, &api, exists, &data).await {
                    Ok(()) => delay = PACE,
                    Err(error) => {
                        tracing::warn!(
                            error = error_text(&error),
                            "the settings cannot be written to the ConfigMap {SETTINGS_CONFIG_MAP}; trying again"
                        );
                        delay = (delay * 2).min(LONGEST_DELAY);
                        again = Some(delay);
                    }
                }
            }
            if may_write() && matches!(in_force(&data), Ok(Some(_))) {
                last = Some(data);
            }
            if is_due && again.is_none() {
                let _ = timeout(PACE, shutdown.begun()).await;
            }
        }
        tokio::select! {
            changed = document.changed() => if changed.is_err() { return },
            changed = seen.changed() => if changed.is_err() { return },
            () = sleep(again.unwrap_or_default()), if again.is_some() => {}
            () = shutdown.begun() => return,
        }
    }
}

fn has_quotas(data: &Data) -> bool {
    in_force(data).is_ok_and(|found| found.is_some_and(|it| it.hierarchical_quotas.enabled))
}

/// Which rights for quotas the service accounts lack, in words. With half of them, no object that a quota counts could be created.
async fn lacks(client: &Client, namespace: &str) -> Option<String> {
    match quota_rights::missing(client, namespace).await {
        Ok(lacks) => (!lacks.is_empty()).then(|| quota_rights::text(&lacks)),
        Err(error) => {
            Some(format!("the rights of the service accounts are not known: {}", error_text(&error)))
        }
    }
}

/// The same settings with quotas disabled, and the reason.
fn without_quotas(data: &mut Data, why: &str) {
    if let Ok(Some(mut settings)) = in_force(data) {
        settings.hierarchical_quotas.enabled = false;
        data.insert(DOCUMENT.to_owned(), settings.text());
        refuse_part(
            data,
            &format!("hierarchicalQuotas.enabled: quotas stay disabled, because {why}; {REMEDY}"),
        );
    }
}

/// The section about Accurate's API.
fn accurate_of(data: &Data) -> accurate::Settings {
    in_force(data).ok().flatten().unwrap_or_default().accurate
}

/// Whether the API server serves the kinds that Accurate's API watches.
async fn check_served(client: &Client, data: &Data) -> Result<(), String> {
    let served = discover_groups(client).await.map_err(|why| format!("accurate: discovery failed: {why}"))?;
    let settings = in_force(data).ok().flatten().unwrap_or_default();
    settings.check_served(&served).map_err(|invalid| invalid.to_string())
}

/// The same settings, with the earlier ones about Accurate's API, and the reason.
fn keep_accurate(data: &mut Data, before: &Data, why: &str) {
    if let Ok(Some(mut settings)) = in_force(data) {
        settings.accurate = accurate_of(before);
        data.insert(DOCUMENT.to_owned(), settings.text());
        refuse_part(data, &format!("{why}; the earlier settings of accurate stay in force"));
    }
}

/// A part of the document is not in force, and maybe another one, too.
fn refuse_part(data: &mut Data, reason: &str) {
    let refused = data.entry(REFUSED.to_owned()).or_default();
    if !refused.is_empty() {
        refused.push_str("; ");
    }
    refused.push_str(reason);
}

/// Writes the object, and creates it before if it does not exist.
async fn write(client: &Client, api: &Api<ConfigMap>, exists: bool, data: &Data) -> kube::Result<()> {
    let object = |metadata: Value, data: &Data| {
        Patch::Apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }))
    };
    if !exists {
        let owners = [owner::reference(client).await?];
        let created = object(json!({ "name": SETTINGS_CONFIG_MAP, "ownerReferences": owners }), &Data::new());
        // The other writes do not name the owner, and remove it if they have the same field manager.
        api.patch(SETTINGS_CONFIG_MAP, &PatchParams::apply(CREATOR), &created).await?;
    }
    // Forced: only the leader decides about these fields.
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let written = object(json!({ "name": SETTINGS_CONFIG_MAP }), data);
    api.patch(SETTINGS_CONFIG_MAP, &params, &written).await.map(drop)
}

/// The required data of `hnc-settings`, from `document`, the data of `hns-config` if it exists, and the flags of the controller.
/// `now` is the present data. An error leaves the settings as they are, and is reported.
fn wanted(document: Option<&Data>, flags: &SharedArgs, now: &Data, version: &str) -> Data {
    let source = if document.is_some() { CONFIG_CONFIG_MAP } else { FLAGS };
    let settings = match document {
        Some(data) => match data.get(DOCUMENT) {
            Some(text) => SharedSettings::parse(text).map_err(|invalid| format!("{DOCUMENT}: {invalid}")),
            None => Err(format!("{DOCUMENT}: the key is missing")),
        },
        // The document was deleted, probably by mistake.
        None if now.get(SOURCE).is_some_and(|source| source == CONFIG_CONFIG_MAP) => Err(DELETED.to_owned()),
        None => Ok(SharedSettings::default()),
    };
    match settings {
        Ok(settings) => {
            let text = flags.over(settings).text();
            let entries = [
                (DOCUMENT, text),
                (REFUSED, String::new()),
                (SOURCE, source.to_owned()),
                (VERSION, version.to_owned()),
            ];
            entries.map(|(key, value)| (key.to_owned(), value)).into()
        }
        Err(reason) => {
            let mut data = now.clone();
            data.insert(REFUSED.to_owned(), refusal_of_document(&reason));
            data
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use hns_cluster::settings::refused;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: SharedArgs,
    }

    fn flags(line: &str) -> SharedArgs {
        hns_runtime::args::parse_from::<Line>(std::iter::once("x").chain(line.split_whitespace()))
            .unwrap()
            .args
            .flags
    }

    fn document(text: &str) -> Data {
        Data::from([(DOCUMENT.to_owned(), text.to_owned())])
    }

    fn excluded(data: &Data) -> Vec<String> {
        in_force(data).unwrap().unwrap().excluded_namespaces.into_iter().collect()
    }

    #[test]
    fn flags_add_values_and_replace_others() {
        let document = document(
            "{version: v1, excludedNamespaces: [a], includedNamespaceRegex: x, initialAdmin: {enabled: true}, \
             externalManagers: {v: [p]}, refuseLabelConflicts: true}",
        );
        let line = "--excluded-namespace=b --included-namespace-regex=y --initial-admin-cluster-role=edit \
                    --external-manager=v=q --refuse-label-conflicts=false --rbac-on-conflict Report";
        let data = wanted(Some(&document), &flags(line), &Data::new(), "1");
        assert_eq!(excluded(&data), ["a", "b"]);
        let settings = in_force(&data).unwrap().unwrap();
        assert_eq!(settings.included_namespace_regex, "y");
        assert_eq!((settings.initial_admin.enabled, &*settings.initial_admin.cluster_role), (true, "edit"));
        assert_eq!(settings.external_managers["v"].len(), 2);
        assert!(!settings.refuse_label_conflicts);
        assert_eq!(settings.propagation.rbac_on_conflict, "Report");
    }

    #[test]
    fn without_a_document_the_flags_are_all_there_is() {
        let data = wanted(None, &flags("--excluded-namespace=a"), &Data::new(), "1");
        assert_eq!(excluded(&data), ["a"]);
        let later = wanted(None, &flags("--excluded-namespace=b"), &data, "1");
        assert_eq!(excluded(&later), ["b"]);
    }

    #[test]
    fn without_the_rights_for_quotas_all_other_settings_are_in_force() {
        let document =
            document("{version: v1, excludedNamespaces: [a], hierarchicalQuotas: {enabled: true}}");
        let mut data = wanted(Some(&document), &flags(""), &Data::new(), "1");
        assert!(has_quotas(&data) && !has_quotas(&Data::new()));
        without_quotas(&mut data, "x may not y");
        assert!(!has_quotas(&data));
        assert_eq!(excluded(&data), ["a"]);
        let why = refused(&data).unwrap();
        assert!(
            why.starts_with("hierarchicalQuotas.enabled: quotas stay disabled, because x may not y; grant"),
            "{why}"
        );
        assert!(has_quotas(&wanted(Some(&document), &flags(""), &data, "1")), "asked again");
    }

    #[test]
    fn a_section_about_accurate_that_the_api_server_does_not_support_leaves_the_earlier_one_in_force() {
        let text =
            |keys: &str, accurate: &str| document(&format!("{{version: v1, {keys}accurate: {accurate}}}"));
        let kinds = "{enabled: true, config: {watches: [{version: v1, kind: Thing}]}}";
        let before = wanted(Some(&text("", "{enabled: true}")), &flags(""), &Data::new(), "1");
        let mut data = wanted(
            Some(&text("excludedNamespaces: [a], hierarchicalQuotas: {enabled: true}, ", kinds)),
            &flags(""),
            &before,
            "1",
        );
        without_quotas(&mut data, "x may not y");
        keep_accurate(&mut data, &before, "accurate.config.watches[0]: not served");
        assert_eq!((excluded(&data), accurate_of(&data)), (vec!["a".to_owned()], accurate_of(&before)));
        let why = refused(&data).unwrap();
        let (quotas, accurate) = why.split_once("; accurate.config.watches[0]: not served; ").unwrap();
        assert!(quotas.starts_with("hierarchicalQuotas") && accurate.ends_with("stay in force"), "{why}");
        let first = &Data::new();
        let mut data = wanted(Some(&text("", kinds)), &flags(""), first, "1");
        keep_accurate(&mut data, first, "x");
        assert!(!accurate_of(&data).enabled);
    }

    #[test]
    fn what_is_wrong_is_named_and_changes_nothing() {
        let right =
            wanted(Some(&document("{version: v1, excludedNamespaces: [a]}")), &flags(""), &Data::new(), "1");
        assert_eq!(refused(&right), None);
        let wrong = document("{version: v1, excludedNamespaces: [B]}");
        let wrong_glob =
            document("{version: v1, excludedNamespaces: [c], accurate: {config: {labelKeys: ['[']}}}");
        for (document, reason) in [
            (Some(&wrong), "ConfigMap hns-config: settings.yaml: excludedNamespaces: \"B\": not the name"),
            (
                Some(&wrong_glob),
                "ConfigMap hns-config: settings.yaml: accurate.config.labelKeys[0]: \"[\": a class",
            ),
            (Some(&Data::new()), "ConfigMap hns-config: settings.yaml: the key is missing"),
            (None, "ConfigMap hns-config: it does not exist any more"),
        ] {
            let data = wanted(document, &flags("--excluded-namespace=b"), &right, "2");
            assert_eq!(excluded(&data), ["a"], "{reason}");
            assert!(refused(&data).unwrap().starts_with(reason), "{data:?}");
            assert_eq!(wanted(document, &flags(""), &data, "2"), data, "said once");
        }
        let first = wanted(Some(&wrong), &flags(""), &Data::new(), "1");
        assert_eq!(in_force(&first).unwrap(), None);
        assert!(refused(&first).is_some());
        let repaired = wanted(Some(&document("version: v1")), &flags(""), &first, "1");
        assert_eq!(refused(&repaired), None);
    }
}
