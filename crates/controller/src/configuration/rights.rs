//! Asks the API server what both service accounts may do with the configured kinds.

use std::collections::HashMap;

use forest::configuration::rights::{Account, Right};
use futures::stream::{self, StreamExt};
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

/// Whether each right is granted. A right whose review got no answer is left out.
pub(super) async fn answers(
    client: &Client,
    accounts: &Accounts,
    rights: Vec<Right>,
) -> HashMap<Right, bool> {
    let asked = stream::iter(rights).map(async |right| (ask(client, accounts, &right).await, right));
    let answered: Vec<_> = asked.buffer_unordered(AT_A_TIME).collect().await;
    if let Some(why) = answered.iter().find_map(|(answer, _)| answer.as_ref().err()) {
        tracing::warn!(why, "it cannot be found out what the service accounts may do; trying again");
    }
    answered.into_iter().filter_map(|(answer, right)| Some((right, answer.ok()?))).collect()
}

async fn ask(client: &Client, accounts: &Accounts, right: &Right) -> Result<bool, String> {
    let user = accounts.user(right.account);
    let review = review(user, right).ok_or_else(|| format!("{user:?} is no service account"))?;
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.map_err(|error| error_text(&error))?;
    allowed(answer.status)
}
