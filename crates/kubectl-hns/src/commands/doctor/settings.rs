//! Whether both binaries run with the same settings, by what they have published.

use std::collections::BTreeMap;

use hns_api::names::SETTINGS_CONFIG_MAP;
use hns_runtime::settings::{Component, Document, difference};

use super::Finding;
use crate::published;
use crate::session::Session;

const SUBJECT: &str = "settings";

pub(super) async fn check(session: &Session) -> Finding {
    let namespace = session.installation().await;
    match published::read(session).await {
        Ok(data) => finding(&data.unwrap_or_default(), namespace),
        Err(problem) => Finding::unread(SUBJECT, &problem),
    }
}

fn finding(data: &BTreeMap<String, String>, namespace: &str) -> Finding {
    let all = [Component::Controller, Component::Webhook].map(|it| (it, Document::read(data, it)));
    let silent: Vec<String> =
        all.iter().filter(|(_, document)| document.is_none()).map(|(it, _)| it.to_string()).collect();
    if !silent.is_empty() {
        let text = format!(
            "{} said nothing in the ConfigMap {SETTINGS_CONFIG_MAP} in namespace {namespace}",
            if silent.len() == 2 { "both binaries have".to_owned() } else { format!("{} has", silent[0]) }
        );
        return Finding::wrong(
            SUBJECT,
            text,
            "It does so when it is ready, if it may: apply the manifests' roles (`kubectl apply -f config/rbac`) and look at \
             its log.",
        );
    }
    let [(_, controller), (_, webhook)] = all;
    match difference(controller.as_ref(), webhook.as_ref()) {
        None => Finding::ok(SUBJECT, "the controller and the webhook have the same"),
        Some(clauses) => Finding::wrong(
            SUBJECT,
            format!("the controller and the webhook do not have the same: {clauses}"),
            "Give both binaries the same flags: what is judged is not what is done.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Level;
    use super::*;
    use crate::published::tests::entries;

    #[test]
    fn both_must_have_spoken_and_said_the_same() {
        let (one, other) = (json!({ "initial-admin": "true" }), json!({ "initial-admin": "false" }));
        let of = |controller: Option<_>, webhook: Option<_>| {
            let mut data = controller.map(|it| entries(Component::Controller, it)).unwrap_or_default();
            data.extend(webhook.map(|it| entries(Component::Webhook, it)).unwrap_or_default());
            finding(&data, "home")
        };
        for (finding, level, text) in [
            (of(Some(&one), Some(&one)), Level::Ok, "have the same"),
            (of(Some(&one), Some(&other)), Level::Wrong, "only hns-webhook has --initial-admin=false"),
            (of(None, Some(&one)), Level::Wrong, "hns-controller has said nothing"),
            (of(Some(&one), None), Level::Wrong, "hns-webhook has said nothing"),
            (of(None, None), Level::Wrong, "both binaries have said nothing"),
        ] {
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.text.contains(text), "{finding:?}");
        }
    }
}
