//! The shared installation of this suite, and the rights that its tests grant.
//!
//! Tests use different names. A test that stops the webhook holds the installation alone.

use anyhow::Result;
use hns_e2e::steps::{PATIENCE, binding};
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::request;

/// A namespace that the flags of both binaries exclude.
pub(crate) const EXCLUDED: &str = "excluded";

/// Every right on hierarchy configurations and nothing else, for bindings in single namespaces.
const ADMIN_ROLE: &str = "authority-suite-hierarchy";

/// Every right on namespaces and their subresources, cluster-wide.
const NAMESPACES_ROLE: &str = "authority-suite-namespaces";

struct Fixture {
    product: Product<'static>,
    controller: Replica,
    webhook: RwLock<Replica>,
}

async fn fixture() -> Result<&'static Fixture> {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    WORLD.get_or_try_init(install).await
}

async fn install() -> Result<Fixture> {
    let exclude = vec![format!("--excluded-namespace={EXCLUDED}")];
    // Every denial must come from the webhook; the policies have their own suite.
    let policies = false;
    let options =
        Options { webhook_args: exclude.clone(), controller_args: exclude, policies, ..Options::default() };
    let product = Product::install(Cluster::shared().await, options).await?;
    let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let admin = product.cluster().admin();
    Steps::of(admin.clone()).create_namespace(EXCLUDED).await?;
    cluster_role(&admin, ADMIN_ROLE, hns_api::GROUP, &["hierarchyconfigurations"]).await?;
    let namespaces = ["namespaces", "namespaces/status", "namespaces/finalize"];
    cluster_role(&admin, NAMESPACES_ROLE, "", &namespaces).await?;
    Ok(Fixture { product, controller, webhook: RwLock::new(webhook) })
}

/// A test's access to the installation. `H` holds the webhook: shared with other tests, or alone.
pub(crate) struct Scene<H = RwLockReadGuard<'static, Replica>> {
    fixture: &'static Fixture,
    pub(crate) webhook: H,
    /// Steps of the administrator (`system:masters`).
    pub(crate) steps: Steps,
}

/// The running installation, shared with other tests.
pub(crate) async fn scene() -> Result<Scene> {
    let fixture = fixture().await?;
    loop {
        let webhook = fixture.webhook.read().await;
        if webhook.process().exit().is_none() {
            return Ok(Scene { fixture, webhook, steps: Steps::of(client(fixture.product.cluster(), None)) });
        }
        drop(webhook);
        // A test that held it alone has failed.
        fixture.webhook.write().await.restart().await?;
    }
}

/// The installation alone, to stop its webhook. The test starts it again before it ends.
pub(crate) async fn alone() -> Result<Scene<RwLockWriteGuard<'static, Replica>>> {
    drop(scene().await?);
    let fixture = fixture().await?;
    let webhook = fixture.webhook.write().await;
    Ok(Scene { fixture, webhook, steps: Steps::of(client(fixture.product.cluster(), None)) })
}

impl<H> Scene<H> {
    /// The controller. A test that stops it holds the installation alone.
    pub(crate) fn controller(&self) -> &'static Replica {
        &self.fixture.controller
    }

    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.fixture.product.cluster()
    }

    pub(crate) fn admin(&self) -> Client {
        client(self.cluster(), None)
    }

    /// An ordinary user without groups.
    pub(crate) fn user(&self, name: &str) -> Client {
        self.user_of(name, &[])
    }

    /// A user of these groups.
    pub(crate) fn user_of(&self, name: &str, groups: &[&str]) -> Client {
        client(self.cluster(), Some((name, groups)))
    }

    /// A user who is admin of each of these namespaces, but not of those below: the bindings do not propagate.
    pub(crate) async fn local_admin(&self, name: &str, namespaces: &[&str]) -> Result<Client> {
        for namespace in namespaces {
            self.make_local_admin(name, namespace).await?;
        }
        Ok(self.user(name))
    }

    async fn make_local_admin(&self, user: &str, namespace: &str) -> Result<()> {
        let mut granted = binding(&grant_name(user), ("ClusterRole", ADMIN_ROLE), user);
        let stay = (hns_api::annotations::PROPAGATE_NONE.to_owned(), "true".to_owned());
        granted.metadata.annotations = Some([stay].into());
        self.steps.bindings(namespace).create(&PostParams::default(), &granted).await?;
        self.may(user, (hns_api::GROUP, "hierarchyconfigurations"), namespace).await
    }

    /// Grants a user all rights on namespaces, cluster-wide.
    pub(crate) async fn give_namespaces(&self, user: &str) -> Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin());
        let granted = binding(&grant_name(user), ("ClusterRole", NAMESPACES_ROLE), user);
        let RoleBinding { metadata, role_ref, subjects } = granted;
        let granted = ClusterRoleBinding { metadata, role_ref, subjects };
        bindings.create(&PostParams::default(), &granted).await?;
        self.may(user, ("", "namespaces"), "").await
    }

    /// Waits until the API server's authorizer knows a right of `user` to update `resource` in it.
    pub(crate) async fn may(
        &self,
        user: &str,
        (group, resource): (&str, &str),
        namespace: &str,
    ) -> Result<()> {
        let reviews: Api<SubjectAccessReview> = Api::all(self.admin());
        let mut review = SubjectAccessReview::default();
        review.spec.user = Some(user.into());
        review.spec.resource_attributes = Some(ResourceAttributes {
            verb: Some("update".into()),
            group: Some(group.into()),
            resource: Some(resource.into()),
            namespace: Some(namespace.into()),
            ..ResourceAttributes::default()
        });
        eventually(&format!("{user} may update {resource} in {namespace:?}"), PATIENCE, async || {
            let answer = reviews.create(&PostParams::default(), &review).await;
            let status = answer.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.allowed { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    /// Waits until the webhook knows every link of this path, which begins at the root: only then it sees that making the root a
    /// child of the last namespace is a cycle.
    pub(crate) async fn known(&self, path: &[&str]) -> Result<()> {
        let (top, bottom) = (path[0], path[path.len() - 1]);
        let chain = path.iter().rev().copied().collect::<Vec<_>>().join(" -> ");
        eventually(&format!("the webhook knows {chain}"), PATIENCE, async || {
            match request::place(&self.admin(), top, bottom).dry().send().await {
                Err(kube::Error::Api(status)) if status.code == 409 && status.message.contains(&chain) => {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// The configured parent as it is stored; empty for none.
    pub(crate) async fn parent(&self, namespace: &str) -> Result<String> {
        let stored = self.steps.hierarchies(namespace).get_opt(hns_e2e::steps::HIERARCHY).await?;
        Ok(stored.and_then(|stored| stored.spec.parent).unwrap_or_default())
    }
}

/// A client of the administrator, or of the impersonated user. It does not retry: a 503 is an answer here.
fn client(cluster: &Cluster, acts_as: Option<(&str, &[&str])>) -> Client {
    let mut config = cluster.config();
    config.default_retry = false;
    if let Some((user, groups)) = acts_as {
        config.auth_info.impersonate = Some(user.into());
        config.auth_info.impersonate_groups = Some(groups.iter().map(ToString::to_string).collect());
    }
    Client::try_from(config).expect("the cluster's own configuration makes a client")
}

/// The name of a binding for a user, valid for any user name.
fn grant_name(user: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("granted-{}", user.chars().map(plain).collect::<String>())
}

async fn cluster_role(client: &Client, name: &str, group: &str, resources: &[&str]) -> Result<()> {
    let everything = PolicyRule {
        verbs: vec!["*".into()],
        api_groups: Some(vec![group.into()]),
        resources: Some(resources.iter().map(|resource| (*resource).to_owned()).collect()),
        ..PolicyRule::default()
    };
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let role = ClusterRole { metadata, rules: Some(vec![everything]), ..ClusterRole::default() };
    Api::all(client.clone()).create(&PostParams::default(), &role).await?;
    Ok(())
}
