//! The programs of control plane and node: built from the pinned Go modules of this package, once, into a per-user cache keyed by
//! version. Never downloads a binary and never rebuilds an existing one. A demonstration can use programs of the machine instead.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

mod installed;
mod kubernetes;
mod prometheus;

pub use self::kubernetes::Kubernetes;
pub use self::prometheus::Prometheus;

const ETCD_GO_MOD: &str = include_str!("../binaries/etcd/go.mod");
const CONTAINERD_GO_MOD: &str = include_str!("../binaries/containerd/go.mod");
const HELM_GO_MOD: &str = include_str!("../binaries/helm/go.mod");
/// Kubernetes needs 3.5 or newer.
const ETCD_VERSIONS: RangeInclusive<(u32, u32)> = (3, 5)..=(3, 6);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The executables a cluster needs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The pinned version that the API server behaves like.
    pub kubernetes: Kubernetes,
    /// etcd.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
}

impl Programs {
    /// Finds the programs in the cache and builds missing ones, which takes minutes and is reported on standard error. Blocks.
    /// Concurrent processes build once.
    ///
    /// The cache is `$HNS_CACHE_DIR`, else `$XDG_CACHE_HOME/hns`, else `~/.cache/hns`. [`Kubernetes::wanted`] chooses the
    /// version.
    pub fn find_or_build() -> anyhow::Result<Self> {
        Self::of(Kubernetes::wanted()?)
    }

    /// As [`Programs::find_or_build`], for this version.
    pub fn of(kubernetes: Kubernetes) -> anyhow::Result<Self> {
        Self::with(kubernetes, [None, None, None])
    }

    /// As [`Programs::find_or_build`], but etcd, kube-apiserver and kubectl may be those of the machine, in any version that is
    /// supported. kube-controller-manager, which envtest does not have, is not newer than the API server.
    pub fn find_installed_or_build() -> anyhow::Result<Self> {
        let etcd = installed::find("etcd", &["--version"], &ETCD_VERSIONS);
        let supported = Kubernetes::Oldest.number()..=Kubernetes::Newest.number();
        let api_server = installed::find("kube-apiserver", &["--version"], &supported);
        let kubernetes = match &api_server {
            Some((_, version)) if *version == Kubernetes::Newest.number() => Kubernetes::Newest,
            Some(_) => Kubernetes::Oldest,
            None => Kubernetes::wanted()?,
        };
        let (major, minor) = api_server.as_ref().map_or_else(|| kubernetes.number(), |(_, version)| *version);
        // Kubernetes supports one minor version of difference.
        let kubectl = (major, minor - 1)..=(major, minor + 1);
        let kubectl = installed::find("kubectl", &["version", "--client"], &kubectl);
        Self::with(kubernetes, [etcd, api_server, kubectl].map(|found| found.map(|(path, _)| path)))
    }

    /// With these programs etcd, kube-apiserver and kubectl instead of built ones.
    fn with(
        kubernetes: Kubernetes,
        [etcd, kube_apiserver, kubectl]: [Option<PathBuf>; 3],
    ) -> anyhow::Result<Self> {
        let cache = cache_directory()?;
        let module = Module::kubernetes(&cache, kubernetes)?;
        let or_built = |found: Option<PathBuf>, name| found.map_or_else(|| module.command(name), Ok);
        Ok(Self {
            kubernetes,
            etcd: match etcd {
                Some(path) => path,
                None => Module::etcd(&cache)?.program("etcd", "go.etcd.io/etcd/server/v3")?,
            },
            kube_apiserver: or_built(kube_apiserver, "kube-apiserver")?,
            kube_controller_manager: or_built(None, "kube-controller-manager")?,
            kubectl: or_built(kubectl, "kubectl")?,
        })
    }
}

impl Programs {
    /// The path of Helm: found in the cache, or built like the others.
    pub fn helm() -> anyhow::Result<PathBuf> {
        Module::helm(&cache_directory()?)?.program("helm", "helm.sh/helm/v4/cmd/helm")
    }
}

/// The executables that a node needs besides those of its system.
#[derive(Debug, Clone)]
pub struct NodePrograms {
    /// kubelet.
    pub kubelet: PathBuf,
    /// kube-proxy.
    pub kube_proxy: PathBuf,
    /// kube-scheduler.
    pub kube_scheduler: PathBuf,
    /// containerd. Its shim is beside it.
    pub containerd: PathBuf,
    /// containerd's client, which loads images.
    pub ctr: PathBuf,
}

impl NodePrograms {
    /// As [`Programs::find_or_build`], for the newest Kubernetes: no test runs a node of the oldest.
    pub fn find_or_build() -> anyhow::Result<Self> {
        let cache = cache_directory()?;
        let kubernetes = Module::kubernetes(&cache, Kubernetes::Newest)?;
        let containerd = Module::containerd(&cache)?;
        let command = "github.com/containerd/containerd/v2/cmd";
        let of_containerd = |name: &str| containerd.program(name, &format!("{command}/{name}"));
        of_containerd("containerd-shim-runc-v2")?;
        Ok(Self {
            kubelet: kubernetes.command("kubelet")?,
            kube_proxy: kubernetes.command("kube-proxy")?,
            kube_scheduler: kubernetes.command("kube-scheduler")?,
            containerd: of_containerd("containerd")?,
            ctr: of_containerd("ctr")?,
        })
    }
}

fn cache_directory() -> anyhow::Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HNS_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hns")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hns")))
        .context("none of HNS_CACHE_DIR, XDG_CACHE_HOME and HOME is set: no place to keep the built programs")
}

/// One Go module of this package and the output directory of its programs.
struct Module {
    source: PathBuf,
    output: PathBuf,
    linker_flags: String,
    /// Build tags, separated by commas.
    tags: &'static str,
}

impl Module {
    fn kubernetes(cache: &Path, kubernetes: Kubernetes) -> anyhow::Result<Self> {
        let version = kubernetes.version()?;
        let (major, minor) = kubernetes.minor().split_once('.').unwrap_or_default();
        // Without these the API server reports v0.0.0-master, and clients choose features by the version.
        let base = "k8s.io/component-base/version";
        let linker_flags = format!(
            "-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} \
             -X k8s.io/client-go/pkg/version.gitVersion={version}"
        );
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("binaries").join(kubernetes.module());
        Ok(Self { source, ..Self::new(cache, "kubernetes", version, linker_flags) })
    }

    fn etcd(cache: &Path) -> anyhow::Result<Self> {
        let version = required_version(ETCD_GO_MOD, "go.etcd.io/etcd/server/v3")?;
        Ok(Self::new(cache, "etcd", version, "-s -w".to_owned()))
    }

    fn containerd(cache: &Path) -> anyhow::Result<Self> {
        let version = required_version(CONTAINERD_GO_MOD, "github.com/containerd/containerd/v2")?;
        let linker_flags = format!("-s -w -X github.com/containerd/containerd/v2/version.Version={version}");
        // Excludes snapshotters that need libraries or programs of the system.
        let tags = "no_btrfs,no_zfs,no_devmapper";
        Ok(Self { tags, ..Self::new(cache, "containerd", version, linker_flags) })
    }

    fn helm(cache: &Path) -> anyhow::Result<Self> {
        let version = required_version(HELM_GO_MOD, "helm.sh/helm/v4")?;
        let linker_flags = format!("-s -w -X helm.sh/helm/v4/internal/version.version={version}");
        Ok(Self::new(cache, "helm", version, linker_flags))
    }

    fn new(cache: &Path, name: &str, version: &str, linker_flags: String) -> Self {
        Self {
            source: Path::new(env!("CARGO_MANIFEST_DIR")).join("binaries").join(name),
            output: cache.join(format!("{name}-{version}")),
            linker_flags,
            tags: "",
        }
    }

    /// The go command for this module, with the flags by which it knows what is built already.
    fn go(&self, verb: &str) -> Command {
        let mut command = Command::new("go");
        command.args([verb, "-trimpath", "-tags", self.tags, "-ldflags", &self.linker_flags]);
        command.env("CGO_ENABLED", "0").current_dir(&self.source);
        command
    }

    fn command(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.program(name, &format!("k8s.io/kubernetes/cmd/{name}"))
    }

    /// The path of a program, which is built if it does not exist.
    fn program(&self, name: &str, package: &str) -> anyhow::Result<PathBuf> {
        let path = self.output.join(name);
        if path.is_file() {
            return Ok(path);
        }
        fs::create_dir_all(&self.output).with_context(|| format!("creating {}", self.output.display()))?;
        let lock = self.lock(name)?;
        // Another process may have built it while this one waited for the lock.
        if !path.is_file() {
            self.build(name, package, &path)?;
        }
        drop(lock);
        Ok(path)
    }

    fn lock(&self, name: &str) -> anyhow::Result<File> {
        let file = File::create(self.output.join(".lock")).context("creating the build lock")?;
        if file.try_lock().is_err() {
            say(&format!(
                "waiting for another process that builds in {}, to have {name}",
                self.output.display()
            ));
            file.lock().context("waiting for the build lock")?;
        }
        Ok(file)
    }

    fn build(&self, name: &str, package: &str, path: &Path) -> anyhow::Result<()> {
        say(&format!("building {name} into {} (once)", self.output.display()));
        let began = Instant::now();
        // A killed build leaves only this name behind, and the next build overwrites it.
        let unfinished = self.output.join(format!(".{name}.unfinished"));
        let stale = "{{if .Stale}}{{.ImportPath}}{{end}}";
        let stale = self.go("list").args(["-deps", "-f", stale, package]).stderr(Stdio::inherit()).output();
        let stale = match stale {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "{name} is missing from {} and the `go` command to build it with is not installed \
                 (see https://go.dev/doc/install)",
                self.output.display()
            ),
            other => other.context("running go")?,
        };
        let total = stale.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let mut build = self.go("build");
        build.args(["-v", "-o"]).arg(&unfinished).arg(package).stderr(Stdio::piped());
        let child = build.spawn().context("running go")?;
        let status = wait_with_progress(child, name, total)?;
        anyhow::ensure!(status.success(), "go build {package} failed ({status}); its output is above");
        fs::rename(&unfinished, path).with_context(|| format!("putting {} in place", path.display()))?;
        say(&format!("built {name} in {} s", began.elapsed().as_secs()));
        Ok(())
    }
}

/// Passes on what go says, except for the names of packages, of which `total` are to be built.
fn wait_with_progress(mut child: Child, name: &str, total: usize) -> anyhow::Result<ExitStatus> {
    let (sender, ended) = mpsc::channel();
    let (began, built) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&built);
    let said = BufReader::new(child.stderr.take().context("go's standard error")?);
    thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            if line.contains(char::is_whitespace) {
                eprintln!("{line}");
            } else {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        sender.send(child.wait())
    });
    loop {
        match ended.recv_timeout(PROGRESS_INTERVAL) {
            Ok(status) => return status.context("waiting for go"),
            Err(RecvTimeoutError::Timeout) => {
                say(&progress(name, built.load(Ordering::Relaxed), total, began.elapsed()));
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the wait for go ended without a result"),
        }
    }
}

fn progress(name: &str, built: usize, total: usize, elapsed: Duration) -> String {
    let begun = format!("building {name}: {built} of {total} packages after {} s", elapsed.as_secs());
    match (u32::try_from(total.saturating_sub(built)), u32::try_from(built)) {
        (Ok(left), Ok(built)) if built > 0 => {
            format!("{begun}, about {} s left", (elapsed * left / built).as_secs())
        }
        _ => begun,
    }
}

fn say(line: &str) {
    eprintln!("hns: {line}");
}

/// The version of a directly required module in its go.mod.
fn required_version<'a>(go_mod: &'a str, module: &str) -> anyhow::Result<&'a str> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("go.mod does not require {module}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_build_is_estimated() {
        let after = |built| progress("etcd", built, 400, Duration::from_secs(30));
        assert_eq!(after(0), "building etcd: 0 of 400 packages after 30 s");
        assert_eq!(after(100), "building etcd: 100 of 400 packages after 30 s, about 90 s left");
        assert_eq!(after(401), "building etcd: 401 of 400 packages after 30 s, about 0 s left");
    }

    #[test]
    fn versions_are_those_of_the_go_modules() {
        let of = |go_mod, module| required_version(go_mod, module).unwrap();
        assert_eq!(of("module m\nrequire a/b v1.2.3\n", "a/b"), "v1.2.3");
        assert_eq!(of("require (\n\ta/b/c v9.9.9\n\ta/b v1.2.3 // indirect\n)", "a/b"), "v1.2.3");
        assert!(required_version("require a/bc v1.0.0", "a/b").is_err());
        for (go_mod, module) in [
            (ETCD_GO_MOD, "go.etcd.io/etcd/server/v3"),
            (HELM_GO_MOD, "helm.sh/helm/v4"),
            (CONTAINERD_GO_MOD, "github.com/containerd/containerd/v2"),
        ] {
            assert!(of(go_mod, module).starts_with('v'), "{module}");
        }
    }
}
