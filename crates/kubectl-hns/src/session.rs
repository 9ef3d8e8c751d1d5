//! The requests of a command: each has a timeout, and lists are read in pages.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION;
use hns_cluster::api::Api;
use http::Response;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{ListParams, ObjectList};
use kube::client::ClientBuilder;
use kube::core::PartialObjectMeta;
use kube::{Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tower::util::MapResponseLayer;

use crate::connection::{self, ConnectionArgs};
use crate::failure::Problem;
use crate::terminal::Paint;
use crate::warnings::Warnings;
use crate::{Failure, installation};

/// The timeout of a request: longer than the API server waits for a webhook, so that it says which one does not answer.
const CALL: Duration = Duration::from_secs(10);
/// The timeout for a page of a list, which takes the API server longer.
const PAGE: Duration = Duration::from_secs(30);
/// The page size: small enough for an answer of a few megabytes, large enough for 2,000 namespaces in a few pages.
const PAGE_SIZE: u32 = 1000;

/// The number of namespaces that are read at once if they are read one by one.
pub(crate) const AT_ONCE: usize = 8;

/// A client and the default namespace.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether the user named it with `-n`.
    pub(crate) names_namespace: bool,
    /// The address of the API server.
    pub(crate) server: String,
    /// The warnings of the API server, which are printed when they arrive.
    pub(crate) warnings: Arc<Warnings>,
    /// Whether the user named the namespace of the installation.
    pub(crate) names_installation: bool,
    /// The namespace of the installation, after it was read.
    installation: OnceCell<String>,
    call: Option<Duration>,
    page: Option<Duration>,
}

impl Session {
    /// Reads the configuration; the first request connects. Warnings of the API server are printed in this colour.
    pub(crate) async fn open(args: &ConnectionArgs, warnings: Paint) -> Result<Self, Failure> {
        hns_cluster::install_tls_provider();
        let mut config = connection::configuration(args).await?;
        let agent = concat!("kubectl-hns/", env!("CARGO_PKG_VERSION"));
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
        let namespace = args.namespace().unwrap_or(&config.default_namespace).to_owned();
        let impersonates = config.auth_info.impersonate.is_some()
            || config.auth_info.impersonate_uid.is_some()
            || config.auth_info.impersonate_groups.as_ref().is_some_and(|it| !it.is_empty());
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let warnings = Arc::new(Warnings::new(warnings));
        let client = client(config, Arc::clone(&warnings))
            .map_err(|error| Failure::because("cannot use the kubeconfig", &Problem::of(error, &server)))?;
        let limit = |usual| args.request_timeout.map_or(Some(usual), |limit| limit.0);
        let named = args.installation.clone().filter(|it| !it.is_empty());
        let names_installation = named.is_some();
        let installation = OnceCell::new_with(named);
        let session = Self {
            client,
            namespace,
            names_namespace: args.namespace().is_some(),
            server,
            warnings,
            names_installation,
            installation,
            call: limit(CALL),
            page: limit(PAGE),
        };
        if impersonates && let Err(problem) = session.call(session.client.apiserver_version()).await {
            problem.refuses_impersonation()?;
        }
        Ok(session)
    }

    /// The namespace of the installation.
    pub(crate) async fn installation(&self) -> &str {
        let read = async || {
            let api = self.all::<ValidatingWebhookConfiguration>();
            installation::namespace(self.call(api.get(VALIDATING_WEBHOOK_CONFIGURATION)).await.ok())
        };
        self.installation.get_or_init(read).await
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The objects of a kind in all namespaces.
    pub(crate) fn all<K: Resource>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// Sends one request, with the timeout.
    pub(crate) async fn call<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Problem> {
        self.limited(self.call, request).await
    }

    async fn limited<T>(
        &self,
        limit: Option<Duration>,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Problem> {
        let answer = match limit {
            None => request.await,
            Some(limit) => {
                tokio::time::timeout(limit, request).await.map_err(|_| Problem::TimedOut(limit))?
            }
        };
        answer.map_err(|error| Problem::of(error, &self.server))
    }

    /// Lists all objects in pages.
    pub(crate) async fn list<K>(&self, api: &Api<K>, params: &ListParams) -> Result<Vec<K>, Problem>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        self.pages(params, async |params| api.list(&params).await).await
    }

    /// Lists the metadata of all objects in pages.
    pub(crate) async fn list_metadata<K>(
        &self,
        api: &Api<K>,
        params: &ListParams,
    ) -> Result<Vec<PartialObjectMeta<K>>, Problem>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        PartialObjectMeta<K>: Clone,
    {
        self.pages(params, async |params| api.list_metadata(&params).await).await
    }

    async fn pages<T: Clone>(
        &self,
        params: &ListParams,
        ask: impl AsyncFn(ListParams) -> Result<ObjectList<T>, kube::Error>,
    ) -> Result<Vec<T>, Problem> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut params = params.clone().limit(PAGE_SIZE);
            params.continue_token = token.take();
            let resumed = params.continue_token.is_some();
            match self.limited(self.page, ask(params)).await {
                Ok(page) => {
                    all.extend(page.items);
                    token = page.metadata.continue_.filter(|it| !it.is_empty());
                    if token.is_none() {
                        return Ok(all);
                    }
                }
                // The continuation has expired: start again.
                Err(problem) if resumed && problem.code() == 410 => all.clear(),
                Err(problem) => return Err(problem),
            }
        }
    }
}

/// A client that prints the warnings of all answers.
fn client(config: Config, warnings: Arc<Warnings>) -> Result<Client, kube::Error> {
    let report = MapResponseLayer::new(move |answer: Response<_>| {
        warnings.report(answer.headers());
        answer
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&report).build())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Request;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A session whose requests get these answers in turn, and the queries of the requests.
    fn session(answers: Vec<(u16, Value)>) -> (Session, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (queries, answers) = (Arc::clone(&asked), Mutex::new(VecDeque::from(answers)));
        let service = tower::service_fn(move |request: Request<Body>| {
            queries.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
            let next = answers.lock().unwrap().pop_front();
            async move {
                let Some((code, body)) = next else { return std::future::pending().await };
                let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let limit = Some(Duration::from_millis(50));
        let client = Client::new(service, "default");
        (
            Session {
                client,
                namespace: "default".into(),
                names_namespace: false,
                warnings: Arc::new(Warnings::new(Paint::NONE)),
                server: String::new(),
                names_installation: false,
                installation: OnceCell::new(),
                call: limit,
                page: limit,
            },
            asked,
        )
    }

    fn page(names: &[&str], next: &str) -> (u16, Value) {
        let items: Vec<Value> = names.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
        (
            200,
            json!({ "kind": "NamespaceList", "apiVersion": "v1", "metadata": { "continue": next }, "items": items }),
        )
    }

    async fn names(session: &Session) -> Result<Vec<String>, Problem> {
        let all = session.list(&session.all::<Namespace>(), &ListParams::default()).await?;
        Ok(all.into_iter().filter_map(|it| it.metadata.name).collect())
    }

    #[tokio::test]
    async fn a_list_is_read_page_by_page() {
        let (session, asked) = session(vec![page(&["a", "b"], "x"), page(&["c"], "")]);
        assert_eq!(names(&session).await.unwrap(), ["a", "b", "c"]);
        assert_eq!(*asked.lock().unwrap(), ["&limit=1000", "&limit=1000&continue=x"]);
    }

    #[tokio::test]
    async fn an_expired_list_starts_again() {
        let gone = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "status": "Failure" });
        let answers = vec![page(&["a"], "x"), (410, gone.clone()), page(&["b"], "y"), page(&["c"], "")];
        let (again, _) = session(answers);
        assert_eq!(names(&again).await.unwrap(), ["b", "c"]);
        let (refused, _) = session(vec![(410, gone)]);
        assert_eq!(names(&refused).await.unwrap_err().code(), 410, "only once");
    }

    #[tokio::test]
    async fn requests_time_out() {
        let (session, _) = session(Vec::new());
        assert_eq!(names(&session).await.unwrap_err(), Problem::TimedOut(Duration::from_millis(50)));
    }
}
