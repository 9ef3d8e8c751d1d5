//! The images of a node: the product's two from its Dockerfiles, and the pause image. Built from sources by cargo and buildah,
//! without a registry.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::process::package_variables;

/// The pause image.
pub(super) const PAUSE: &str = "hns.invalid/pause:1";

/// As in the Dockerfiles: static, and with packed relocations.
const RUSTFLAGS: &str = "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs";
const PROGRAMS: [&str; 2] = ["hns-webhook", "hns-controller"];
/// The most bytes of an image.
const LIMIT: u64 = 15 << 20;
const PAUSE_PROGRAM: &str = "pause";
const PAUSE_SOURCE: &str = include_str!("pause.rs");
const PAUSE_DOCKERFILE: &str = "FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT [\"/pause\"]\n";

/// Archives of images.
#[derive(Debug)]
pub struct Images {
    /// One archive for each image, including the pause image.
    pub archives: Vec<PathBuf>,
}

impl Images {
    /// Builds the images into `directory`. The product's are called `NAME:TAG` for each of its two binaries, with the repository
    /// that `reference` returns for a binary's name. Blocks for minutes while the binaries are compiled.
    pub fn build(directory: &Path, reference: impl Fn(&str) -> String) -> anyhow::Result<Self> {
        let (checkout, target, triple) = (checkout(), compile()?, triple());
        let context = directory.join("context");
        let release = Path::new("target").join(&triple).join("release");
        fs::create_dir_all(context.join(&release))?;
        fs::copy(checkout.join(".dockerignore"), context.join(".dockerignore"))?;
        let mut images = Self { archives: Vec::new() };
        for name in PROGRAMS {
            let binary = release.join(name);
            fs::copy(target.join(&triple).join("release").join(name), context.join(&binary))?;
            let dockerfile = format!("Dockerfile.{}", name.trim_start_matches("hns-"));
            let dockerfile = checkout.join(dockerfile);
            let argument = format!("BINARY={}", binary.display());
            images.add(directory, &context, &dockerfile, &argument, &canonical(&reference(name)))?;
        }
        images.add_pause(directory, &triple)?;
        Ok(images)
    }

    /// Fails if an image has more than 15 MiB, and names it.
    pub fn check_sizes(&self) -> anyhow::Result<()> {
        for archive in &self.archives {
            let size = fs::metadata(archive)?.len();
            eprintln!("hns: image {} has {} KiB", archive.display(), size >> 10);
            anyhow::ensure!(size < LIMIT, "{} has {size} bytes, more than {LIMIT}", archive.display());
        }
        Ok(())
    }

    /// The archives that [`Images::build`] has written to `directory`.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
        let mut archives = entries.collect::<std::io::Result<Vec<_>>>()?;
        archives.retain(|path| path.extension().is_some_and(|extension| extension == "tar"));
        Ok(Self { archives })
    }

    fn add_pause(&mut self, directory: &Path, triple: &str) -> anyhow::Result<()> {
        let context = directory.join("pause");
        fs::create_dir(&context)?;
        fs::write(context.join("pause.rs"), PAUSE_SOURCE)?;
        let dockerfile = context.join("Dockerfile");
        fs::write(&dockerfile, PAUSE_DOCKERFILE)?;
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols"]);
        rustc.args(["-Ctarget-feature=+crt-static", "--target", triple, "pause.rs", "-o", PAUSE_PROGRAM]);
        run(rustc.current_dir(&context))?;
        self.add(directory, &context, &dockerfile, "NONE=", PAUSE)
    }

    fn add(
        &mut self,
        directory: &Path,
        context: &Path,
        dockerfile: &Path,
        argument: &str,
        reference: &str,
    ) -> anyhow::Result<()> {
        let buildah = || {
            let mut buildah = Command::new("buildah");
            buildah.args(["--storage-driver=vfs", "--root"]).arg(directory.join("storage"));
            buildah.arg("--runroot").arg(directory.join("storage-run"));
            // Files that remain when it is killed are removed with the directory.
            buildah.env("TMPDIR", directory);
            buildah
        };
        let file = [OsStr::new("--file"), dockerfile.as_ref()];
        let arguments = ["--isolation=chroot", "--build-arg", argument, "--tag", reference];
        run(buildah().arg("build").args(arguments).args(file).arg(context))?;
        let archive = directory.join(format!("{}.tar", self.archives.len()));
        let target = format!("docker-archive:{}:{reference}", archive.display());
        run(buildah().args(["push", "--quiet", reference, &target]))?;
        self.archives.push(archive);
        Ok(())
    }
}

/// The name of an image in containerd: with a registry and a tag.
pub fn canonical(reference: &str) -> String {
    let first = reference.split('/').next().unwrap_or_default();
    let registry = reference.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let tagged = reference.rsplit('/').next().is_some_and(|name| name.contains(':'));
    let prefix = match (registry, reference.contains('/')) {
        (true, _) => "",
        (false, true) => "docker.io/",
        (false, false) => "docker.io/library/",
    };
    format!("{prefix}{reference}{}", if tagged { "" } else { ":latest" })
}

/// Compiles the product's binaries as in its Dockerfiles, and returns their target directory. Blocks for minutes the first time.
pub fn compile() -> anyhow::Result<PathBuf> {
    let target = target_directory()?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--target", &triple()]).arg("--target-dir").arg(&target);
    cargo.args(PROGRAMS.iter().flat_map(|name| ["--package", *name]));
    for name in package_variables() {
        cargo.env_remove(name);
    }
    run(cargo.env("RUSTFLAGS", RUSTFLAGS).current_dir(checkout()))?;
    Ok(target)
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo's, which the running executable is in: `debug/xtask`, or `debug/deps/node-…`.
fn target_directory() -> anyhow::Result<PathBuf> {
    let current = env::current_exe().context("finding the running executable")?;
    let mut directories = current.ancestors().skip(1).skip_while(|directory| directory.ends_with("deps"));
    let target = directories.nth(1).context("the running executable is in no target directory")?;
    Ok(target.to_owned())
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("running {shown}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{shown}: {}\n{said}", output.status);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_as_containerd_has_them() {
        for (given, expected) in [
            ("hns-webhook:0.1.0", "docker.io/library/hns-webhook:0.1.0"),
            ("team/hns-webhook", "docker.io/team/hns-webhook:latest"),
            ("registry.example/hns/webhook:1", "registry.example/hns/webhook:1"),
            ("localhost:5000/webhook", "localhost:5000/webhook:latest"),
        ] {
            assert_eq!(canonical(given), expected);
        }
    }
}
