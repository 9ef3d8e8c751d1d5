//! Damage to Secrets and registrations, and how soon it is repaired. Creates the certificates for that.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_api::names;
use hns_e2e::eventually;
use hns_e2e::product::NAMESPACE;
use hns_e2e::steps::PATIENCE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::scene::{Scene, Settled, registered};

/// The time for the repair of a deleted or damaged object.
const PUT_RIGHT: Duration = Duration::from_secs(2);

/// Keys of a Secret, and their values.
pub(crate) type Texts = Vec<(&'static str, String)>;

/// A certificate with its key, PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority that hns does not know.
pub(crate) struct Foreign(CertifiedIssuer<'static, KeyPair>);

impl Foreign {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A certificate for the webhook's Service.
    pub(crate) fn sign(&self) -> Result<Signed> {
        let mut params = CertificateParams::new(vec![names::webhook_host(NAMESPACE)])?;
        params.not_after = date_time_ymd(2100, 1, 1);
        let key = KeyPair::generate()?;
        Ok(Signed { certificate: params.signed_by(&key, &self.0)?.pem(), key: key.serialize_pem() })
    }
}

/// Damaged contents of the Secret; the unit tests have more.
pub(crate) fn of_serving() -> Result<Vec<(&'static str, Texts)>> {
    let foreign = Foreign::new()?;
    let signed = foreign.sign()?;
    Ok(vec![
        ("no PEM", vec![("tls.crt", "nonsense".into())]),
        ("an empty key", vec![("tls.key", String::new())]),
        ("another's key", vec![("tls.key", foreign.key())]),
        ("another's certificate", vec![("tls.crt", signed.certificate), ("tls.key", signed.key)]),
        ("an authority's key beside it", vec![("ca.key", foreign.key())]),
        ("other certificates beside it", vec![("ca.crt", foreign.pem())]),
    ])
}

pub(crate) async fn patch(scene: &Scene<'_>, secret: &str, texts: &Texts) -> Result<()> {
    let texts = texts.iter().map(|(key, text)| ((*key).to_owned(), text.clone().into()));
    let patch = json!({ "stringData": texts.collect::<serde_json::Map<String, Value>>() });
    scene.secrets().patch(secret, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Creates a Secret with this content, as the manifests of HNC and of earlier versions do.
pub(crate) async fn create(scene: &Scene<'_>, name: &str, texts: Texts) -> Result<()> {
    let data = texts.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data.collect()), ..Secret::default() };
    scene.secrets().create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Waits until everything is as before.
pub(crate) async fn restored(scene: &Scene<'_>, before: &Settled, what: &str) -> Result<()> {
    let began = Instant::now();
    let now = scene.settled(None).await?;
    ensure!(now == *before, "{what}: there is another certificate");
    in_time(began, what)
}

fn in_time(began: Instant, what: &str) -> Result<()> {
    let took = began.elapsed();
    println!("  {what}: put right after {} ms", took.as_millis());
    ensure!(took < PUT_RIGHT, "{what}: it took {took:?}");
    Ok(())
}

/// A registration, as it can be changed.
pub(crate) struct Registration<'a> {
    scene: &'a Scene<'a>,
    api: Api<DynamicObject>,
    name: &'static str,
}

impl<'a> Registration<'a> {
    pub(crate) fn all(scene: &'a Scene<'a>) -> [Self; 2] {
        let of = |kind, name| {
            let resource =
                ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
            Self { scene, api: Api::all_with(scene.product.cluster().admin(), &resource), name }
        };
        [
            of("ValidatingWebhookConfiguration", names::VALIDATING_WEBHOOK_CONFIGURATION),
            of("MutatingWebhookConfiguration", names::MUTATING_WEBHOOK_CONFIGURATION),
        ]
    }

    /// Its entries. On Kubernetes 1.36 and later the mutating one has none, because a policy does its work.
    pub(crate) async fn entries(&self) -> Result<Value> {
        let entries = &self.api.get(self.name).await?.data["webhooks"];
        Ok(if entries.is_null() { json!([]) } else { entries.clone() })
    }

    /// The addresses of its entries.
    async fn called(&self) -> Result<Vec<Value>> {
        let entries = self.entries().await?;
        let entries = entries.as_array().context("no entries")?;
        Ok(entries.iter().map(|entry| entry["clientConfig"].clone()).collect())
    }

    /// Changes its entries.
    pub(crate) async fn change(&self, change: impl Fn(&mut Vec<Value>)) -> Result<()> {
        let mut entries = self.entries().await?;
        change(entries.as_array_mut().context("no entries")?);
        let patch = Patch::Merge(json!({ "webhooks": entries }));
        self.api.patch(self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Damages the authorities, and waits until each entry is as before, with the same address.
    pub(crate) async fn damage(&self, what: &str, change: impl Fn(&mut Vec<Value>)) -> Result<()> {
        let before = self.called().await?;
        let trusted = registered(&self.scene.product.cluster().admin()).await?;
        ensure!(trusted.len() == 1, "the registrations differ before any damage");
        self.change(change).await?;
        let began = Instant::now();
        let what = format!("{what} in {}", self.name);
        eventually(&what, PATIENCE, async || {
            let now = self.called().await.map_err(|error| format!("{error:#}"))?;
            if now == before { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await?;
        in_time(began, &what)
    }
}
