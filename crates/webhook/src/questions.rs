//! Asking what a rule wants to know: access reviews, live reads, and a little patience.
//!
//! Each question is asked once, and an answer that could not be had is an answer too. Concludes nothing.

use std::time::Duration;

use forest::rules::{Answer, Awaited, Question};
use hns_api::{GROUP, HierarchyConfiguration};
use hns_runtime::handle::ForestHandle;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use tokio::time::{Instant, timeout_at};

use crate::metrics::AdmissionMetrics;

/// How long a request waits for the forest to come to know something that has already happened.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who asks what, and until when.
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a Client,
    pub(crate) forest: &'a ForestHandle,
    pub(crate) user: &'a UserInfo,
    pub(crate) deadline: Instant,
    pub(crate) metrics: &'a AdmissionMetrics,
}

impl Asker<'_> {
    /// The answer; at the deadline, that there is none.
    pub(crate) async fn ask(&self, question: &Question) -> Answer {
        let (name, answering) = match question {
            Question::IsAdmin(namespace) => {
                ("is-admin", futures::future::Either::Left(self.is_admin(namespace)))
            }
            Question::Namespace(name) => (
                "namespace",
                futures::future::Either::Right(futures::future::Either::Left(self.namespace(name))),
            ),
            Question::Await(awaited) => {
                ("await", futures::future::Either::Right(futures::future::Either::Right(self.wait(awaited))))
            }
        };
        let answer = timeout_at(self.deadline, answering)
            .await
            .unwrap_or_else(|_| Answer::Failed("the API server did not answer in time".into()));
        self.metrics.asked(name, label(&answer));
        answer
    }

    async fn is_admin(&self, namespace: &str) -> Answer {
        let review = access_review(self.user, namespace);
        match Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await
        {
            Ok(reviewed) => conclude(reviewed.status),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    async fn namespace(&self, name: &str) -> Answer {
        if !is_possible(name) {
            return Answer::No;
        }
        let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
        match namespaces.get_opt(name).await {
            Ok(None) => Answer::No,
            Ok(Some(found)) if found.meta().deletion_timestamp.is_some() => Answer::Terminating,
            Ok(Some(_)) => Answer::Yes,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    async fn wait(&self, awaited: &Awaited) -> Answer {
        let deadline = self.deadline.min(Instant::now() + PATIENCE);
        if self.forest.until(awaited, deadline).await { Answer::Yes } else { Answer::No }
    }
}

/// Whether a namespace can have this name (a DNS-1123 label). Users write any text as a parent; in the path of a request
/// it would ask for something else.
fn is_possible(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn label(answer: &Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Terminating => "terminating",
        Answer::Failed(_) => "failed",
    }
}

/// May the user `update` `hierarchyconfigurations` in `namespace`? Everything that is known of the user is passed on,
/// because authorizers may look at any of it.
fn access_review(user: &UserInfo, namespace: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("update".into()),
                group: Some(GROUP.into()),
                version: Some("*".into()),
                resource: Some(HierarchyConfiguration::plural(&()).into_owned()),
                namespace: Some(namespace.into()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// An authorizer that could not evaluate the question and did not allow it leaves the answer open.
fn conclude(status: Option<SubjectAccessReviewStatus>) -> Answer {
    match status {
        None => Answer::Failed("the API server answered an access review without a result".into()),
        Some(status) if status.allowed && status.denied != Some(true) => Answer::Yes,
        Some(SubjectAccessReviewStatus { evaluation_error: Some(error), denied, .. })
            if !error.is_empty() && denied != Some(true) =>
        {
            Answer::Failed(error)
        }
        Some(_) => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_namespace_is_looked_up() {
        let longest = "a".repeat(63);
        for name in ["a", "team-1", "0", &longest] {
            assert!(is_possible(name), "{name:?}");
        }
        let longer = "a".repeat(64);
        for name in [
            "",
            "-a",
            "a-",
            "Team",
            "a.b",
            "a b",
            "a/status",
            "../a",
            "a?watch=1",
            "a#",
            "a%2fb",
            "\u{e4}",
            &longer,
        ] {
            assert!(!is_possible(name), "{name:?}");
        }
    }
}
