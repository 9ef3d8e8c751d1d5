//! What is left after `helm uninstall`: definitions, hierarchies, namespaces and copies, and nothing that holds on to them.
//! Another installation finds everything.

use anyhow::{Context, Result, ensure};
use hns_e2e::eventually;
use hns_e2e::steps::{HIERARCHY, PATIENCE, Steps};
use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use super::load;
use super::world::{DEFINITIONS, NAMESPACE, WEBHOOK, World};

/// A subnamespace and those above it.
const PATH: [&str; 2] = ["acme-dev", "acme"];
const COPY: &str = "viewers";

/// The names of the Secret that a user brings a certificate in.
const BROUGHT: &str = "brought";
const SERVICE: &str = "hnc-webhook-service.hnc-system.svc";

/// What `helm uninstall` leaves, without a step before.
pub(crate) async fn everything_stays(world: &World<'_>) -> Result<String> {
    let steps = world.steps();
    held(&steps, true).await?;
    world.uninstall().await?;
    held(&steps, false).await?;
    for namespace in ["acme", "acme-prod", "acme-dev"] {
        let kept = steps.namespaces().get(namespace).await?;
        ensure!(kept.metadata.deletion_timestamp.is_none(), "{namespace} is being deleted");
        steps.bindings(namespace).get(COPY).await?;
    }
    let kinds = "deployments,jobs,pods,configmaps,secrets,services,serviceaccounts,roles,rolebindings,clusterroles,\
                 clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,\
                 mutatingadmissionpolicybindings";
    // Pods take their time to end.
    eventually("nothing is left behind", super::world::PATIENCE, async || {
        let left = world.kubectl(["get", kinds, "--namespace", NAMESPACE, "--output=name"]).ok().await;
        let left = left.map_err(|error| format!("{error:#}"))?;
        let left: Vec<&str> =
            left.lines().filter(|it| it.contains("/hns-") || it.contains("/hnc-")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await?;
    Ok("hierarchies, namespaces and copies stay, held by nobody; nothing else does".to_owned())
}

/// Another installation, with a certificate of the user's, takes over what it finds.
pub(crate) async fn another_installation(world: &World<'_>) -> Result<String> {
    let steps = world.steps();
    let copy = async || anyhow::Ok(steps.bindings(PATH[0]).get(COPY).await?.metadata.resource_version);
    let before = copy().await?;
    let authority = bring_certificate(world).await?;
    let mode = format!(
        "certificates.mode=provided,certificates.secretName={BROUGHT},certificates.caBundle={authority}"
    );
    let pods = world.install_with(&["--set", &mode]).await?;
    let mounted =
        ["get", WEBHOOK, "--namespace", NAMESPACE, "--output=jsonpath={.spec.template.spec.volumes}"];
    let mounted = world.kubectl(mounted).ok().await?;
    ensure!(mounted.contains(BROUGHT), "the webhook mounts {mounted}");
    let secrets = world.kubectl(["get", "secrets", "--namespace", NAMESPACE, "--output=name"]).ok().await?;
    ensure!(!secrets.contains("hnc-webhook-server-cert"), "a certificate of hns' own is there: {secrets}");
    // A verdict, by way of that certificate.
    load::refused(&steps.client, "default").await?;
    held(&steps, true).await?;
    steps.labelled(&PATH).await?;
    let after = copy().await?;
    ensure!(after == before, "the copy in {} was written again: {before:?}, {after:?}", PATH[0]);
    Ok(format!("{} pods, verdicts through the Secret {BROUGHT}, and the tree as it was", pods.len()))
}

/// Whoever was guarded goes at once when asked to, and so do the definitions.
pub(crate) async fn nothing_is_held(world: &World<'_>) -> Result<String> {
    let steps = world.steps();
    world.uninstall().await?;
    // Those above first: their anchors and hierarchies go with them.
    for namespace in ["acme", "acme-prod", "acme-dev"] {
        steps.delete_namespace(namespace).await?;
    }
    world.kubectl(["delete", "--timeout=60s", "-f", DEFINITIONS]).ok().await?;
    Ok("namespaces with anchors can be deleted, and the definitions".to_owned())
}

/// Whether finalizers of hns keep the anchor, and the hierarchy beside it, from going.
async fn held(steps: &Steps, wanted: bool) -> Result<()> {
    let [child, parent] = PATH;
    eventually(&format!("that finalizers hold {parent} is {wanted}"), PATIENCE, async || {
        let error = |error: kube::Error| error.to_string();
        let anchor = steps.anchors(parent).get(child).await.map_err(error)?.metadata;
        let hierarchy = steps.hierarchies(parent).get(HIERARCHY).await.map_err(error)?.metadata;
        let seen = [anchor, hierarchy].map(|it| it.finalizers.is_some_and(|all| !all.is_empty()));
        if seen == [wanted; 2] { Ok(()) } else { Err(format!("anchor and hierarchy: {seen:?}")) }
    })
    .await
}

/// Makes the Secret; gives the authority as the chart takes it.
async fn bring_certificate(world: &World<'_>) -> Result<String> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([SERVICE.to_owned()])?.signed_by(&key, &authority)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": BROUGHT, "namespace": NAMESPACE },
        "stringData": { "tls.crt": certificate.pem(), "tls.key": key.serialize_pem() },
    });
    world.kubectl(["create", "-f", "-"]).stdin(secret.to_string()).ok().await?;
    let bundle = serde_json::to_value(ByteString(authority.pem().into_bytes()))?;
    Ok(bundle.as_str().context("bytes are written as text")?.to_owned())
}
