//! Asks the API server what both service accounts may do with the configured kinds.

use std::collections::HashMap;

use forest::KindSettings;
use forest::configuration::rights::{Account, Lack, Right, lacks, needed};
use futures::future::join_all;
use hns_cluster::access_review::{allowed, review};
use hns_cluster::error_text::error_text;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};

/// The number of concurrent access reviews.
const AT_A_TIME: usize = 8;

/// The user names of the two service accounts.
#[derive(Debug, Clone)]
pub(super) struct Accounts {
    pub(super) webhook: String,
    pub(super) controller: String,
}

impl Accounts {
    fn user(&self, account: Account) -> &str {
        match account {
            Account::Webhook => &self.webhook,
            Account::Controller => &self.controller,
        }
    }
}

/// The missing rights, and whether all reviews were answered.
pub(super) async fn missing(
    client: &Client,
    accounts: &Accounts,
    kinds: &[KindSettings],
) -> (Vec<Lack>, bool) {
    let rights: Vec<Right> = kinds.iter().flat_map(needed).collect();
    let mut answers: HashMap<&Right, Result<bool, String>> = HashMap::new();
    for some in rights.chunks(AT_A_TIME) {
        let asked = join_all(some.iter().map(|right| ask(client, accounts, right))).await;
        answers.extend(some.iter().zip(asked));
    }
    let unknown = answers.values().find_map(|answer| answer.as_ref().err());
    if let Some(why) = unknown {
        tracing::warn!(why, "it cannot be found out what the service accounts may do; trying again");
    }
    (lacks(kinds, |right| answers.get(right)?.as_ref().ok().copied()), unknown.is_none())
}

async fn ask(client: &Client, accounts: &Accounts, right: &Right) -> Result<bool, String> {
    let user = accounts.user(right.account);
    let review = review(user, right).ok_or_else(|| format!("{user:?} is no service account"))?;
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.map_err(|error| error_text(&error))?;
    allowed(answer.status)
}
