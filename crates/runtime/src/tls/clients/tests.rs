use std::io;

use prometheus::Registry;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::{
    ClientConfig,
    pki_types::{PrivateKeyDer, ServerName},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::tls::{
    ServingCertificate,
    tests::{Pair, eventually},
};
use hns_cluster::readiness::Readiness;

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate with this common name and these DNS names, for this use.
fn certificate(issuer: &Issuer, common: &str, dns: &[&str], usage: ExtendedKeyUsagePurpose) -> Identity {
    let dns: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(dns).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn client(issuer: &Issuer, common: &str, dns: &[&str]) -> Identity {
    certificate(issuer, common, dns, ExtendedKeyUsagePurpose::ClientAuth)
}

/// A server that sends back what it gets, for clients of the authority in a file that is followed every few milliseconds.
struct Echo {
    authority: Arc<ClientAuthority>,
    readiness: Readiness,
    serving: Pair,
    port: u16,
    directory: TempDir,
}

impl Echo {
    async fn new(names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let serving = Pair::new();
        serving.write(directory.path());
        let readiness = Readiness::new();
        let certificate = ServingCertificate::new(&Registry::new()).unwrap();
        let following =
            (certificate.clone(), directory.path().to_owned(), readiness.condition("certificate", ""));
        tokio::spawn(async move { following.0.follow_directory(&following.1, following.2).await });
        certificate.loaded().await;
        let authority = ClientAuthority::new(names.iter().map(|name| (*name).to_owned()));
        let following =
            (authority.clone(), directory.path().join("clients.crt"), readiness.condition("clients", ""));
        tokio::spawn(async move {
            following.0.follow_every(Duration::from_millis(10), &following.1, following.2).await
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(certificate.server_config(Some(&authority)).unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let (mut reader, mut writer) = tokio::io::split(acceptor.accept(stream).await?);
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        Self { authority, readiness, serving, port, directory }
    }

    fn trust(&self, pem: &str) {
        std::fs::write(self.directory.path().join("clients.crt"), pem).unwrap();
    }

    /// Whether a client with this certificate is served; one connection after the other with the same settings, so that a session
    /// would be resumed if it could be.
    async fn serves(&self, identity: Option<&Identity>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(self.serving.der.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match identity {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        self.answers(&TlsConnector::from(Arc::new(config))).await.is_ok()
    }

    async fn answers(&self, connector: &TlsConnector) -> io::Result<()> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await?;
        stream.write_all(b"x").await?;
        stream.read_u8().await.map(drop)
    }
}

#[tokio::test]
async fn only_certificates_of_the_authority_with_an_allowed_name_are_accepted() {
    let (ours, other) = (authority(), authority());
    let echo = Echo::new(&["api-server", "api.example.com"]).await;
    assert!(!echo.serves(Some(&client(&ours, "api-server", &[]))).await, "there is no authority yet");
    assert!(!echo.readiness.is_ready());
    echo.trust(&ours.pem());
    echo.authority.loaded().await;
    eventually("readiness", || async { echo.readiness.is_ready() }).await;
    let cases = [
        ("the common name", Some(client(&ours, "api-server", &[])), true),
        ("a DNS name", Some(client(&ours, "x", &["y", "api.example.com"])), true),
        ("no certificate", None, false),
        ("another name", Some(client(&ours, "api-server.", &["api"])), false),
        ("another authority", Some(client(&other, "api-server", &[])), false),
        (
            "a server's certificate",
            Some(certificate(&ours, "api-server", &[], ExtendedKeyUsagePurpose::ServerAuth)),
            false,
        ),
    ];
    for (what, identity, expected) in cases {
        assert_eq!(echo.serves(identity.as_ref()).await, expected, "{what}");
    }
}

#[tokio::test]
async fn the_file_is_followed_and_a_damaged_one_changes_nothing() {
    let (first, second) = (authority(), authority());
    let (of_first, of_second) = (client(&first, "api", &[]), client(&second, "api", &[]));
    let echo = Echo::new(&["api"]).await;
    echo.trust(&first.pem());
    echo.authority.loaded().await;
    assert!(echo.serves(Some(&of_first)).await && !echo.serves(Some(&of_second)).await);

    echo.trust(&(first.pem() + &second.pem()));
    eventually("both", || echo.serves(Some(&of_second))).await;
    assert!(echo.serves(Some(&of_first)).await);

    echo.trust(&second.pem());
    eventually("the first is gone", || async { !echo.serves(Some(&of_first)).await }).await;

    for damaged in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        echo.trust(damaged);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(echo.serves(Some(&of_second)).await, "{damaged:?}");
        assert!(echo.readiness.is_ready(), "{damaged:?}");
    }
}

/// A resumed session is not verified again, so an authority that is gone would still be believed.
#[tokio::test]
async fn a_session_is_not_resumed() {
    let (first, second) = (authority(), authority());
    let echo = Echo::new(&["api"]).await;
    echo.trust(&first.pem());
    echo.authority.loaded().await;
    let (certificate, key) = client(&first, "api", &[]);
    let mut roots = RootCertStore::empty();
    roots.add(echo.serving.der.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
        .unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    for _ in 0..3 {
        echo.answers(&connector).await.unwrap();
    }
    echo.trust(&second.pem());
    let identity = (certificate, key);
    eventually("the first is gone", || async { !echo.serves(Some(&identity)).await }).await;
    echo.answers(&connector).await.expect_err("it was believed");
}
