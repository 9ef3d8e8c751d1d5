//! What is done to Secrets and registrations, and how soon it is put right. Certificates for that are made here, with the key
//! of the present authority where they have to look right.

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
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::scene::{AUTHORITY, SERVING, Scene, Settled, certificates, registered};

/// What a deleted or damaged thing may take to be put right.
const PUT_RIGHT: Duration = Duration::from_secs(2);

/// Keys of a Secret, and the texts that are put there.
pub(crate) type Texts = Vec<(&'static str, String)>;

/// A certificate with its key, PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority that nobody here has made.
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
        sign(&self.0, &names::webhook_host(NAMESPACE), 2100)
    }
}

fn sign(issuer: &Issuer<'_, KeyPair>, name: &str, last_year: i32) -> Result<Signed> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.not_after = date_time_ymd(last_year, 1, 1);
    let key = KeyPair::generate()?;
    Ok(Signed { certificate: params.signed_by(&key, issuer)?.pem(), key: key.serialize_pem() })
}

/// Everything that can be wrong with the webhook's certificate, and whether it has to be made anew.
pub(crate) async fn of_serving(scene: &Scene<'_>) -> Result<Vec<(&'static str, Texts, bool)>> {
    let authority = scene.secrets().get(AUTHORITY).await?.data.unwrap_or_default();
    let text = |name| String::from_utf8(authority.get(name).cloned().unwrap_or_default().0);
    let issuer = Issuer::from_ca_cert_pem(&text("tls.crt")?, KeyPair::from_pem(&text("tls.key")?)?)?;
    let pair = |it: Signed| vec![("tls.crt", it.certificate), ("tls.key", it.key)];
    let host = names::webhook_host(NAMESPACE);
    let foreign = Foreign::new()?;
    Ok(vec![
        ("no PEM", vec![("tls.crt", "nonsense".into())], true),
        ("an empty certificate", vec![("tls.crt", String::new())], true),
        ("an empty key", vec![("tls.key", String::new())], true),
        ("another's key", vec![("tls.key", foreign.key())], true),
        ("other names", pair(sign(&issuer, "example.org", 2100)?), true),
        ("an expired one", pair(sign(&issuer, &host, 2001)?), true),
        ("one that another authority has signed", pair(foreign.sign()?), true),
        ("an authority's key beside it", vec![("ca.key", foreign.key())], false),
        ("other authorities beside it", vec![("ca.crt", foreign.pem())], false),
    ])
}

/// What can be wrong with the authority.
pub(crate) fn of_authority() -> Result<Vec<(&'static str, Texts)>> {
    let foreign = Foreign::new()?;
    let server = foreign.sign()?;
    Ok(vec![
        ("another's key", vec![("tls.key", foreign.key())]),
        ("no PEM", vec![("tls.crt", "nonsense".into()), ("tls.key", "nonsense".into())]),
        ("a server's certificate", vec![("tls.crt", server.certificate), ("tls.key", server.key)]),
    ])
}

pub(crate) async fn patch(scene: &Scene<'_>, secret: &str, texts: &Texts) -> Result<()> {
    let texts = texts.iter().map(|(key, text)| ((*key).to_owned(), text.clone().into()));
    let patch = json!({ "stringData": texts.collect::<serde_json::Map<String, Value>>() });
    scene.secrets().patch(secret, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Creates the Secret of the webhook's certificate as HNC's manifests do, with this in it.
pub(crate) async fn create(scene: &Scene<'_>, texts: Texts) -> Result<()> {
    let data = texts.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let metadata = ObjectMeta { name: Some(SERVING.to_owned()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data.collect()), ..Secret::default() };
    scene.secrets().create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Waits until everything agrees again, with another certificate if `anew`.
pub(crate) async fn put_right(
    scene: &Scene<'_>,
    before: &Settled,
    anew: bool,
    what: &str,
) -> Result<Settled> {
    let began = Instant::now();
    let now = scene.settled(anew.then_some(before)).await?;
    ensure!(now.authority == before.authority, "{what}: the authority was changed");
    ensure!(anew || now.serving == before.serving, "{what}: the certificate was made anew");
    in_time(began, what)?;
    Ok(now)
}

fn in_time(began: Instant, what: &str) -> Result<()> {
    let took = began.elapsed();
    println!("  {what}: put right after {} ms", took.as_millis());
    ensure!(took < PUT_RIGHT, "{what}: it took {took:?}");
    Ok(())
}

/// Waits until there is another authority, beside which the one before is still trusted; returns it.
pub(crate) async fn replaced(scene: &Scene<'_>, before: &[u8], what: &str) -> Result<Vec<u8>> {
    let began = Instant::now();
    let now = eventually(&format!("{what}: there is another authority"), PATIENCE, async || {
        let secret = scene.secrets().get_opt(AUTHORITY).await.map_err(|error| error.to_string())?;
        let data = secret.and_then(|it| it.data).unwrap_or_default();
        let listed = certificates(&data.get("ca.crt").cloned().unwrap_or_default().0);
        let own = certificates(&data.get("tls.crt").cloned().unwrap_or_default().0);
        match (own.first(), listed.first()) {
            (Some(own), Some(first)) if own == first && own.as_ref() != before => {
                if listed.iter().any(|it| it.as_ref() == before) {
                    Ok(own.to_vec())
                } else {
                    Err("the former one is not trusted any more".to_owned())
                }
            }
            _ => Err("not yet".to_owned()),
        }
    })
    .await?;
    in_time(began, what)?;
    Ok(now)
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

    /// Its entries.
    pub(crate) async fn entries(&self) -> Result<Value> {
        Ok(self.api.get(self.name).await?.data["webhooks"].clone())
    }

    /// How its entries are called.
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

    /// Damages the authorities, and waits until each entry is called as before, under the same address, too.
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
