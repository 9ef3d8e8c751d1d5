use std::{
    fs,
    future::Future,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use super::*;
use hns_cluster::readiness::Readiness;

/// A certificate for `localhost` that is its own authority.
pub(crate) struct Pair {
    pub(crate) der: CertificateDer<'static>,
    certificate: String,
    key: String,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::signed_by(None)
    }

    fn signed_by(issuer: Option<&rcgen::Issuer<'_, &rcgen::KeyPair>>) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = match issuer {
            Some(issuer) => params.signed_by(&key, issuer).unwrap(),
            None => params.self_signed(&key).unwrap(),
        };
        Self { der: certificate.der().clone(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn write(&self, directory: &Path) {
        fs::write(directory.join("tls.crt"), &self.certificate).unwrap();
        fs::write(directory.join("tls.key"), &self.key).unwrap();
    }

    /// A client that trusts this certificate and offers these protocols.
    pub(crate) fn connector(&self, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

/// Waits until a condition holds, for ten seconds at most.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(10), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A directory that changes as the kubelet changes a mounted Secret.
struct Mount {
    directory: TempDir,
    versions: AtomicU32,
}

impl Mount {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), directory.path().join(name)).unwrap();
        }
        Self { directory, versions: AtomicU32::new(0) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// A new directory, a new link to it, and the former directory removed.
    fn switch(&self, pair: &Pair) {
        let version = self.versions.fetch_add(1, Ordering::SeqCst);
        let former = fs::read_link(self.path().join("..data")).ok();
        let name = format!("..version_{version}");
        let fresh = self.path().join(&name);
        fs::create_dir(&fresh).unwrap();
        pair.write(&fresh);
        symlink(&name, self.path().join("..data_tmp")).unwrap();
        fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
        if let Some(former) = former {
            fs::remove_dir_all(self.path().join(former)).unwrap();
        }
    }
}

/// A server that sends back what it gets, with a certificate followed every few milliseconds.
struct Echo {
    certificate: Arc<ServingCertificate>,
    readiness: Readiness,
    port: u16,
}

impl Echo {
    async fn new(directory: PathBuf) -> Self {
        let certificate = ServingCertificate::new(&Registry::new()).unwrap();
        let readiness = Readiness::new();
        let condition = readiness.condition("certificate", "not read yet");
        let following = certificate.clone();
        tokio::spawn(async move {
            let period = Duration::from_millis(10);
            following.follow_every(period, &directory, condition).await
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(certificate.server_config(None).unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await?;
                    let (mut reader, mut writer) = tokio::io::split(stream);
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        Self { certificate, readiness, port }
    }

    async fn connect(&self, trusted: &Pair) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        trusted.connector(&[]).connect(name, stream).await
    }

    /// Whether new connections get this certificate, and no other one.
    async fn serves(&self, pair: &Pair) -> bool {
        self.connect(pair).await.is_ok()
    }
}

async fn answers(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"still here").await.unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"still here");
}

#[tokio::test]
async fn follows_two_switches_of_a_mounted_secret_and_old_connections_live() {
    let mount = Mount::new();
    let (first, second, third) = (Pair::new(), Pair::new(), Pair::new());
    mount.switch(&first);
    let echo = Echo::new(mount.path()).await;
    echo.certificate.loaded().await;
    let mut from_first = echo.connect(&first).await.unwrap();
    assert!(!echo.serves(&second).await);

    mount.switch(&second);
    eventually("the second certificate", || echo.serves(&second)).await;
    assert!(!echo.serves(&first).await);
    let mut from_second = echo.connect(&second).await.unwrap();

    mount.switch(&third);
    eventually("the third certificate", || echo.serves(&third)).await;
    answers(&mut from_first).await;
    answers(&mut from_second).await;
}

#[tokio::test]
async fn is_not_ready_until_a_pair_is_there() {
    let mount = Mount::new();
    let echo = Echo::new(mount.path()).await;
    eventually("the reason", || async { echo.readiness.report().text.contains("tls.crt") }).await;
    let pair = Pair::new();
    assert!(!echo.serves(&pair).await);
    mount.switch(&pair);
    echo.certificate.loaded().await;
    eventually("readiness", || async { echo.readiness.is_ready() }).await;
    assert!(echo.serves(&pair).await);
}

#[tokio::test]
async fn a_damaged_pair_leaves_the_former_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (good, other) = (Pair::new(), Pair::new());
    good.write(path);
    let echo = Echo::new(path.to_owned()).await;
    echo.certificate.loaded().await;
    let key = path.join("tls.key");
    for (damage, content) in [
        ("the key of another", Some(other.key.as_str())),
        ("no key", Some("")),
        ("half a key", Some(&good.key[..good.key.len() / 2])),
        ("key removed", None),
    ] {
        match content {
            Some(content) => fs::write(&key, content).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        // Long enough for many looks.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(echo.serves(&good).await, "{damage}");
        assert!(echo.readiness.is_ready(), "{damage}");
    }
    other.write(path);
    eventually("the repaired pair", || echo.serves(&other)).await;
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let (good, other) = (Pair::new(), Pair::new());
    let table = [
        (good.certificate.as_str(), good.key.as_str(), None),
        (&good.certificate, &other.key, Some("tls.crt and tls.key")),
        (&good.certificate, &good.certificate, Some("tls.key")),
        (&good.certificate, "", Some("tls.key")),
        ("", &good.key, Some("tls.crt: no certificate")),
        ("nonsense", &good.key, Some("tls.crt: no certificate")),
    ];
    for (certificate, key, expected) in table {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let reason = parse(&files).err().map(|error| error.to_string());
        match (reason, expected) {
            (None, None) => {}
            (Some(reason), Some(expected)) => assert!(reason.contains(expected), "{reason}"),
            (reason, expected) => panic!("{reason:?}, expected {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_chain_is_served_whole() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let authority_pair =
        Pair { der: authority.der().clone(), certificate: authority.pem(), key: key.serialize_pem() };
    let middle_key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::from_params(&params, &key);
    let middle = params.signed_by(&middle_key, &issuer).unwrap();
    let issuer = rcgen::Issuer::from_params(&params, &middle_key);
    let mut leaf = Pair::signed_by(Some(&issuer));
    leaf.certificate.push_str(&middle.pem());
    let directory = tempfile::tempdir().unwrap();
    leaf.write(directory.path());
    let echo = Echo::new(directory.path().to_owned()).await;
    echo.certificate.loaded().await;
    let stream = echo.connect(&authority_pair).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap().len();
    assert_eq!(shown, 2);
}

#[tokio::test]
async fn http1_is_the_only_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let pair = Pair::new();
    pair.write(directory.path());
    let echo = Echo::new(directory.path().to_owned()).await;
    echo.certificate.loaded().await;
    let connect = async |offered: &[&[u8]]| {
        let stream = TcpStream::connect(("127.0.0.1", echo.port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = pair.connector(offered).connect(name, stream).await?;
        io::Result::Ok(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    };
    let http1: &[u8] = b"http/1.1";
    for offered in [&[b"h2".as_slice(), http1][..], &[http1]] {
        assert_eq!(connect(offered).await.unwrap().as_deref(), Some(http1));
    }
    assert_eq!(connect(&[]).await.unwrap(), None);
    connect(&[b"h2"]).await.expect_err("HTTP/2 is not spoken");
}

#[tokio::test]
async fn the_expiry_is_a_metric() {
    let directory = tempfile::tempdir().unwrap();
    let pair = Pair::new();
    pair.write(directory.path());
    let echo = Echo::new(directory.path().to_owned()).await;
    echo.certificate.loaded().await;
    assert_eq!(Some(echo.certificate.not_after.get()), expiry::not_after(&pair.der));
}
