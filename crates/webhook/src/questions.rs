//! Answering the questions of a rule: access reviews, live reads, and short waits.
//!
//! Each question is asked once; a failure is an answer too.

use std::sync::Arc;
use std::time::Duration;

use forest::configuration::rights::{Account, Right};
use forest::rules::{Answer, Denial, DenialKind, Link, NamespacedRight, Question, WaitFor};
use forest::{Forest, Name, Stream, is_namespace_name};
use futures::future::join_all;
use hns_api::names::HIERARCHY_CONFIGURATION;
use hns_api::{GROUP, HierarchyConfiguration, annotations};
use hns_cluster::access_review;
use hns_cluster::api::Api;
use hns_cluster::error_text::error_text;
use hns_cluster::handle::ForestHandle;
use hns_cluster::stored::Store;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use crate::metrics::AdmissionMetrics;
use crate::single_flight::SingleFlight;

/// How long a request waits until the forest learns something that has already happened.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls that several requests may need at the same time.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The parent of a namespace, or why it could not be read.
    parents: SingleFlight<(Name, Stream), Result<Option<Name>, Arc<str>>>,
    /// Whether a user may do something, by the whole text of the access review.
    rights: SingleFlight<String, Answer>,
}

/// Asks the questions of one request, until its deadline.
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a Client,
    pub(crate) forest: &'a ForestHandle,
    pub(crate) calls: &'a Calls,
    pub(crate) user: &'a UserInfo,
    /// The user names of the webhook's and of the controller's service accounts.
    pub(crate) accounts: [&'a str; 2],
    pub(crate) deadline: Instant,
    /// The name of the webhook, for the log.
    pub(crate) webhook: &'static str,
    pub(crate) uid: &'a str,
    pub(crate) metrics: &'a AdmissionMetrics,
    /// Where the namings of missing parents are.
    pub(crate) store: &'a Store,
}

impl Asker<'_> {
    /// The span of everything that waits: each log line names the review.
    pub(crate) fn span(&self) -> Span {
        tracing::info_span!("review", webhook = self.webhook, uid = self.uid)
    }

    /// The answer, or at the deadline a failure.
    pub(crate) async fn ask(&self, question: &Question) -> Answer {
        let answer = timeout_at(self.deadline, self.find_out(question)).await;
        let answer =
            answer.unwrap_or_else(|_| Answer::Failed("the API server did not answer in time".into()));
        self.metrics.asked(question_label(question), label(&answer));
        answer
    }

    async fn find_out(&self, question: &Question) -> Answer {
        match question {
            Question::IsAdmin(namespace) => self.may(hierarchy("update", namespace)).await,
            Question::MayConfigure(namespace) => self.may(hierarchy("create", namespace)).await,
            Question::MayCreateNamespace(name) => self.may(new_namespace(name)).await,
            Question::Has(right) => self.may(within_namespace(right)).await,
            Question::Account(right) => self.account_may(right).await,
            Question::Namespace(name) => self.namespace(name).await,
            Question::Await(awaited) => self.wait(awaited).await,
        }
    }

    async fn may(&self, right: ResourceAttributes) -> Answer {
        self.review(access_review(self.user, right)).await
    }

    async fn account_may(&self, right: &Right) -> Answer {
        let [webhook, controller] = self.accounts;
        let user = match right.account {
            Account::Webhook => webhook,
            Account::Controller => controller,
        };
        match access_review::review(user, right) {
            Some(review) => self.review(review).await,
            None => Answer::Failed(format!("{user:?} is no service account")),
        }
    }

    /// Concurrent requests that set parents in one tree need the same right.
    async fn review(&self, review: SubjectAccessReview) -> Answer {
        let question = match serde_json::to_string(&review.spec) {
            Ok(question) => question,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let call = move || async move {
            match reviews
                .create(&PostParams::default(), &review)
                .await
                .map(|it| access_review::allowed(it.status))
            {
                Ok(Ok(true)) => Answer::Yes,
                Ok(Ok(false)) => Answer::No,
                Ok(Err(why)) => Answer::Failed(why),
                Err(error) => Answer::Failed(error_text(&error)),
            }
        };
        self.calls.rights.run(question, call).await
    }

    /// Verifies links with live reads that begin after the call. If the forest is behind, waits for it; a link that cannot be
    /// read, or stays different, is denied. A namespace that is being deleted loses its `HierarchyConfiguration` first, and keeps its
    /// parent.
    pub(crate) async fn verify(&self, links: &[Link]) -> Result<(), Denial> {
        let parents = join_all(links.iter().map(|link| timeout_at(self.deadline, self.parent(link)))).await;
        for (link, read) in links.iter().zip(parents) {
            let name = &link.namespace;
            let parent = match read {
                Ok(Ok(parent)) => parent,
                Ok(Err(error)) => return Err(unsure(name, &error)),
                Err(_) => return Err(unsure(name, "the API server did not answer in time")),
            };
            if parent != link.parent {
                self.metrics.asked("link", "different");
                let (parent, deleted) = self.last_parent(link, parent).await?;
                let is_settled =
                    |forest: &Forest| link.is_settled(forest, parent.as_ref(), deleted.as_deref());
                if !self.forest.until_that(is_settled, self.patience()).await {
                    return Err(unsure(name, "it is being changed by another request"));
                }
            }
        }
        Ok(())
    }

    /// The parent, and the uid of the namespace if it is being deleted. Then the parent is read again: after this moment, nothing is
    /// created in the namespace any more.
    async fn last_parent(
        &self,
        link: &Link,
        parent: Option<Name>,
    ) -> Result<(Option<Name>, Option<String>), Denial> {
        let read = async {
            let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
            let found = namespaces.get_opt(&link.namespace).await.map_err(|error| error_text(&error))?;
            let deleted = found.map(|it| it.metadata).filter(|it| it.deletion_timestamp.is_some());
            let Some(deleted) = deleted else { return Ok((parent, None)) };
            Ok((self.parent(link).await?, deleted.uid))
        };
        let late = |_| unsure(&link.namespace, "the API server did not answer in time");
        let read: Result<_, Arc<str>> = timeout_at(self.deadline, read).await.map_err(late)?;
        read.map_err(|error| unsure(&link.namespace, &error))
    }

    fn patience(&self) -> Instant {
        self.deadline.min(Instant::now() + PATIENCE)
    }

    /// The present parent of a namespace, from the object that names it. Concurrent requests that set parents in one tree read
    /// the same links.
    async fn parent(&self, link: &Link) -> Result<Option<Name>, Arc<str>> {
        let (client, namespace, parent_is_in) =
            (self.client.clone(), link.namespace.clone(), link.parent_is_in);
        let call = move || async move {
            read_parent(client, &namespace, parent_is_in).await.map_err(|error| error_text(&error).into())
        };
        self.calls.parents.run((link.namespace.clone(), link.parent_is_in), call).await
    }

    async fn namespace(&self, name: &str) -> Answer {
        if !is_namespace_name(name) {
            return Answer::No;
        }
        let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
        match namespaces.get_opt(name).await {
            Ok(None) => Answer::No,
            Ok(Some(found)) if found.meta().deletion_timestamp.is_some() => Answer::Terminating,
            Ok(Some(_)) => Answer::Yes,
            Err(error) => Answer::Failed(error_text(&error)),
        }
    }

    async fn wait(&self, awaited: &WaitFor) -> Answer {
        if self.forest.until(awaited, self.patience()).await { Answer::Yes } else { Answer::No }
    }
}

async fn read_parent(
    client: Client,
    namespace: &Name,
    parent_is_in: Stream,
) -> Result<Option<Name>, kube::Error> {
    let parent = if parent_is_in == Stream::NAMESPACES {
        let api = Api::<PartialObjectMeta<Namespace>>::all(client);
        let annotations = api.get_opt(namespace).await?.and_then(|it| it.metadata.annotations);
        annotations.and_then(|mut it| it.remove(annotations::SUBNAMESPACE_OF))
    } else {
        let api = Api::<HierarchyConfiguration>::namespaced(client, namespace);
        api.get_opt(HIERARCHY_CONFIGURATION).await?.and_then(|it| it.spec.parent)
    };
    Ok(parent.filter(|parent| !parent.is_empty()).map(Name::from))
}

fn label(answer: &Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Terminating => "terminating",
        Answer::Failed(_) => "failed",
    }
}

fn unsure(namespace: &str, why: &str) -> Denial {
    Denial::new(
        DenialKind::Unavailable,
        format!(
            "could not verify the parent of namespace {namespace:?}, on which this rests: {why}; try again"
        ),
    )
}

fn question_label(question: &Question) -> &'static str {
    match question {
        Question::IsAdmin(_) => "is-admin",
        Question::MayConfigure(_) => "may-create-hierarchy",
        Question::MayCreateNamespace(_) => "may-create-namespace",
        Question::Has(_) => "has-right",
        Question::Account(_) => "account",
        Question::Namespace(_) => "namespace",
        Question::Await(_) => "await",
    }
}

/// A right on the `HierarchyConfiguration` of a namespace, in any version and under any name.
fn hierarchy(verb: &str, namespace: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(verb.into()),
        group: Some(GROUP.into()),
        version: Some("*".into()),
        resource: Some(HierarchyConfiguration::plural(&()).into_owned()),
        namespace: Some(namespace.into()),
        ..ResourceAttributes::default()
    }
}

/// A right on all objects of a resource in one namespace, in any version.
fn within_namespace(right: &NamespacedRight) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(right.verb.into()),
        group: Some(right.group.into()),
        version: Some("*".into()),
        resource: Some(right.resource.into()),
        namespace: Some(right.namespace.to_string()),
        ..ResourceAttributes::default()
    }
}

/// The API server checks the right to create a namespace as a right within that namespace.
fn new_namespace(name: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some("create".into()),
        group: Some(String::new()),
        version: Some("v1".into()),
        resource: Some("namespaces".into()),
        name: Some(name.into()),
        ..ResourceAttributes::default()
    }
}

/// Passes on everything that is known of the user, because authorizers may read any of it.
fn access_review(user: &UserInfo, right: ResourceAttributes) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(right),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Response};
    use forest::{Fact, HierarchyFact, NamespaceFact, Settings, Version, hnc};
    use hns_cluster::handle::ForestWriter;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    /// The `HierarchyConfiguration` of `t1` is gone, and this is the namespace.
    fn server(namespace: Value) -> Client {
        let gone = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
        let service = service_fn(move |request: Request<Body>| {
            let is_namespace = request.uri().path().ends_with("/namespaces/t1");
            let (code, body) = if is_namespace { (200, namespace.clone()) } else { (404, gone.clone()) };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, BoxError>(Response::builder().status::<u16>(code).body(body)?) }
        });
        Client::new(service, "default")
    }

    /// Whether the parent of `t1` is verified, where the forest knows these facts too.
    async fn verifies(namespace: Value, then: Vec<Fact>) -> bool {
        let client = server(namespace);
        let settings = Arc::new(Settings::new("hnc-system", [""; 0], ".*").unwrap());
        let (writer, forest) = ForestWriter::new(Forest::new(settings, vec![]), Box::new(|_| {}));
        let parent =
            HierarchyFact { version: version("h"), parent: Some("rival".into()), ..HierarchyFact::default() };
        writer.tell([Fact::Namespace(t1(false)), Fact::Hnc(hnc::Fact::Hierarchy("t1".into(), parent))]);
        writer.tell(then);
        let asker = Asker {
            client: &client,
            forest: &forest,
            calls: &Calls::default(),
            user: &UserInfo::default(),
            accounts: ["", ""],
            deadline: Instant::now() + 8 * PATIENCE,
            webhook: "",
            uid: "",
            metrics: &AdmissionMetrics::register(&prometheus::Registry::new()).unwrap(),
            store: &Store::new(client.clone(), "hnc-system"),
        };
        let parent_is_in = Stream::HIERARCHIES;
        let link = Link { namespace: "t1".into(), parent: Some("rival".into()), parent_is_in };
        asker.verify(&[link]).await.is_ok()
    }

    fn version(uid: &str) -> Version {
        Version { uid: uid.into(), resource_version: "1".into() }
    }

    fn t1(terminating: bool) -> NamespaceFact {
        let resource_version = if terminating { "2" } else { "1" }.into();
        NamespaceFact {
            name: "t1".into(),
            version: Version { resource_version, ..version("n") },
            labels: [("rival.tree.hnc.x-k8s.io/depth", "1")].into_iter().collect(),
            terminating,
            ..NamespaceFact::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_being_deleted_keeps_its_parent() {
        let live = |uid: &str| json!({ "metadata": { "name": "t1", "uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let ends = || Fact::Namespace(t1(true));
        let gone = || Fact::Hnc(hnc::Fact::HierarchyGone("t1".into(), "h".into()));
        assert!(verifies(live("n"), vec![ends(), gone()]).await);
        assert!(!verifies(live("n"), vec![]).await, "the forest has not seen it");
        assert!(!verifies(live("n"), vec![ends()]).await, "nor the end of its object");
        assert!(!verifies(live("new"), vec![ends(), gone()]).await, "another namespace");
        let stays = json!({ "metadata": { "name": "t1", "uid": "n" } });
        assert!(!verifies(stays, vec![ends(), gone()]).await, "live, it stays");
    }
}
