//! Does the controller have the rights that the kinds of `accurate.config.watches` need? What is missing is named in the log and in
//! the readiness. Everything else goes on.

use std::time::Duration;

use forest::{Forest, Kind};
use futures::future::try_join_all;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::ForestHandle;
use hns_cluster::readiness::{Condition, Readiness};
use hns_cluster::settings::accurate::{VERBS, missing_rights, self_review};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::timeout;

/// The delay between two questions while a right is missing: nothing reports that it is granted.
const MISSING: Duration = Duration::from_secs(10);

/// Asks whenever the watched kinds change, until the process ends.
pub(crate) async fn report(client: Client, mut forest: ForestHandle, readiness: Readiness) {
    let mut asked = Vec::new();
    let mut known = Vec::new();
    let mut shown: Option<Condition> = None;
    loop {
        let kinds = forest.read(watched);
        if kinds != asked || !known.is_empty() {
            let missing = missing(&client, &kinds).await;
            if missing != known && !missing.is_empty() {
                tracing::warn!(
                    ?missing,
                    "the controller lacks rights for kinds of accurate.config.watches; grant them to its service account"
                );
            }
            show(&readiness, &mut shown, &missing);
            (asked, known) = (kinds, missing);
        }
        let waits = async { while forest.read(watched) == asked && forest.progressed().await {} };
        if known.is_empty() {
            waits.await;
        } else {
            // After the timeout, the rights may have been granted.
            let _ = timeout(MISSING, waits).await;
        }
    }
}

pub(crate) fn watched(forest: &Forest) -> Vec<Kind> {
    let Some(settings) = forest.accurate_settings() else { return Vec::new() };
    let kinds = forest.kinds().map(|(_, known)| &known.kind);
    kinds.filter(|kind| settings.watches(kind)).cloned().collect()
}

/// The missing rights, or why they are not known.
async fn missing(client: &Client, kinds: &[Kind]) -> Vec<String> {
    let questions = kinds.iter().flat_map(|kind| VERBS.map(|verb| (kind, verb)));
    let answers = questions.map(async |(kind, verb)| {
        let api = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = api.create(&PostParams::default(), &self_review(kind, verb)).await?;
        let may = answer.status.is_some_and(|status| status.allowed);
        Ok::<_, kube::Error>((kind.clone(), verb, may))
    });
    match try_join_all(answers).await {
        Ok(all) => {
            let has =
                |kind: &Kind, verb: &str| all.iter().any(|(of, it, may)| of == kind && *it == verb && *may);
            missing_rights(kinds, has)
        }
        Err(error) => vec![format!("its rights are not known: {}", error_text(&error))],
    }
}

fn show(readiness: &Readiness, shown: &mut Option<Condition>, missing: &[String]) {
    if missing.is_empty() {
        return shown.take().into_iter().for_each(Condition::withdraw);
    }
    let condition = shown.get_or_insert_with(|| readiness.information("accurate.rights", ""));
    condition.not_ready(missing.join("; "));
}
