//! The keys and certificates of one cluster, created in memory and written to its directory. Never reused for another cluster.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority with the lifetime of its cluster.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, both PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A serving certificate for these names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> anyhow::Result<Signed> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "server");
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate; the API server reads `user` and `group` from it.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> anyhow::Result<Signed> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> anyhow::Result<Signed> {
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Signed {
    /// Writes `NAME.crt` and `NAME.key`.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> anyhow::Result<()> {
        write(directory, &format!("{name}.crt"), &self.certificate)?;
        write(directory, &format!("{name}.key"), &self.key)
    }
}

pub(crate) fn write(directory: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
}

/// The Service of the API server, the first address of its range.
const KUBERNETES_SERVICE: &str = "10.0.0.1";

/// Writes everything that the control plane and a node need into `directory` and returns the CA's certificate: `ca.crt`, `server`
/// (also for `address`), `admin`, `controller-manager`, `front-proxy-ca.crt`, `front-proxy-client`, `service-accounts`;
/// `kubelet-client` and `webhooks` (the API server as a client of the kubelet and of webhooks), `kubelet`, `kube-proxy`,
/// `kube-scheduler`.
pub(crate) fn write_all(directory: &Path, address: Ipv4Addr) -> anyhow::Result<String> {
    let ca = Authority::new("hns-e2e")?;
    write(directory, "ca.crt", &ca.pem())?;
    let address = address.to_string();
    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let addresses = [address.as_str(), KUBERNETES_SERVICE];
    ca.server(&[&names[..], &addresses[..]].concat())?.write(directory, "server")?;
    for (file, user, group) in [
        ("admin", "admin", Some("system:masters")),
        ("controller-manager", "system:kube-controller-manager", None),
        ("kubelet-client", "kube-apiserver", Some("system:masters")),
        ("webhooks", "kube-apiserver-webhooks", None),
        ("kubelet", "system:node:node", Some("system:nodes")),
        ("kube-proxy", "system:kube-proxy", None),
        ("kube-scheduler", "system:kube-scheduler", None),
    ] {
        ca.client(user, group)?.write(directory, file)?;
    }

    // An authority of its own: a client with its certificate may claim to be any user.
    let front_proxy = Authority::new("hns-e2e-front-proxy")?;
    write(directory, "front-proxy-ca.crt", &front_proxy.pem())?;
    front_proxy.client("front-proxy-client", None)?.write(directory, "front-proxy-client")?;

    let service_accounts = KeyPair::generate()?;
    write(directory, "service-accounts.key", &service_accounts.serialize_pem())?;
    write(directory, "service-accounts.pub", &service_accounts.public_key_pem())?;
    Ok(ca.pem())
}
