//! `cargo xtask bench`: measures the product on a real cluster, relative to a plain client.
//!
//! Absolute figures depend on the machine. So the limit is measured in the same run, and ratios, counts and processor
//! time are compared over time. `BENCHMARKS.md` describes the method.

mod api;
mod audit;
mod bare;
mod client;
mod limit;
mod measures;
mod registered;
mod report;
mod shape;
mod testbed;
mod usage;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail};
use hns_e2e::Cluster;
use hns_e2e::product::BINARIES;

use self::api::Api;
use self::bare::Bare;
use self::report::Outcome;
use self::testbed::Testbed;
use crate::cargo::{cargo, root, step};

/// The options of the command.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct Options {
    /// Use smaller numbers, and measure the limit once: under five minutes.
    #[arg(long)]
    quick: bool,
    /// Measure only a webhook with a tenth of a processor, 10,000 namespaces and 100,000 copies; needs root.
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    large: bool,
    /// Run only this measure (can be repeated): `tax`, `price`, `spread` (with touch and drop), `parents` (with move),
    /// `restart`, `reviews`, `quota`, `accurate`.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
    /// Measure the programs `hns-webhook` and `hns-controller` of this directory, instead of building them.
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Set for the optimised program, which is built already.
    #[arg(long, hide = true)]
    built: bool,
}

/// The size of the measurements.
pub(crate) struct Scale {
    /// The number of namespaces below the root of sources, and outside the tree.
    namespaces: usize,
    sources: usize,
    /// The depth of chains.
    depth: usize,
    /// The numbers of connections that the plain client tries.
    parallel: Vec<usize>,
    /// The number of rounds of writes, by the product and by the plain client. In a single round, periodic work of the
    /// API server would count too much.
    rounds: usize,
    /// The number of trees of each shape, for both.
    trees: usize,
    /// The number of namespaces for the restart.
    big_namespaces: usize,
    secrets: usize,
    /// The number of rounds of reviews, and of posts per round.
    review_rounds: usize,
    reviews: usize,
    /// The number of namespaces below the root of the reviews.
    below_root: usize,
    /// The number of rounds with and without hns, and of requests of each kind and verb per round.
    tax_rounds: usize,
    tax_requests: usize,
    /// The number of Services per round of quotas.
    services: usize,
}

impl Scale {
    fn full() -> Self {
        Self {
            namespaces: 500,
            sources: 10,
            depth: 100,
            parallel: vec![16, 32, 64],
            rounds: 12,
            trees: 6,
            big_namespaces: 2000,
            secrets: 20_000,
            review_rounds: 10,
            reviews: 8000,
            below_root: 10_000,
            tax_rounds: 12,
            tax_requests: 200,
            services: 1200,
        }
    }

    fn quick() -> Self {
        Self {
            namespaces: 200,
            parallel: vec![32],
            rounds: 1,
            trees: 1,
            big_namespaces: 500,
            secrets: 5000,
            review_rounds: 5,
            reviews: 4000,
            below_root: 1000,
            tax_rounds: 3,
            tax_requests: 100,
            services: 600,
            ..Self::full()
        }
    }

    fn large() -> Self {
        Self { big_namespaces: 10_000, secrets: 0, ..Self::full() }
    }

    fn copies(&self) -> usize {
        self.namespaces * self.sources
    }
}

const NAMES: [&str; 8] = ["tax", "price", "spread", "parents", "restart", "reviews", "quota", ACCURATE];
const ACCURATE: &str = "accurate";
const LARGE: &str = "large";

impl Options {
    fn measures(&self) -> Vec<&'static str> {
        if self.large {
            return vec![LARGE];
        }
        let wanted = |name: &&str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        NAMES.into_iter().filter(wanted).collect()
    }
}

static BEGAN: OnceLock<Instant> = OnceLock::new();

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(unknown) = options.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("there is no measure {unknown:?}; there are {}", NAMES.join(", "));
    }
    if !options.built {
        return build_and_run(options);
    }
    BEGAN.get_or_init(Instant::now);
    let outcomes = tokio::runtime::Runtime::new()?.block_on(measure(options))?;
    let directory = root().join("target/bench");
    fs::create_dir_all(&directory)?;
    let tables = report::tables(&outcomes);
    fs::write(directory.join("last.json"), serde_json::to_string_pretty(&outcomes)?)?;
    fs::write(directory.join("last.md"), &tables)?;
    print(&tables);
    let missed = outcomes.iter().flat_map(|outcome| &outcome.figures).any(|figure| figure.met == Some(false));
    Ok(if missed && options.check { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Continues as the optimised program: a slow client would measure itself.
fn build_and_run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut words = vec!["build", "--release", "--workspace", "--bin", "xtask"];
    if options.binaries.is_none() {
        words.extend(["--bin", "hns-webhook", "--bin", "hns-controller"]);
    }
    step("building with optimisations", || cargo(&words))?;
    let mut command = Command::new(root().join("target/release/xtask"));
    command.args(std::env::args_os().skip(1)).arg("--built");
    if let Some(directory) = &options.binaries {
        let directory = fs::canonicalize(directory).context("the directory of --binaries")?;
        command.env(BINARIES, directory);
    }
    Err(command.exec()).context("running the optimised program")
}

async fn measure(options: &Options) -> anyhow::Result<Vec<Outcome>> {
    let scale = match (options.large, options.quick) {
        (true, _) => Scale::large(),
        (_, true) => Scale::quick(),
        _ => Scale::full(),
    };
    let mut outcomes = Vec::new();
    for name in options.measures() {
        let new = Box::pin(measure_one(name, &scale)).await?;
        for outcome in &new {
            print(&outcome.text());
        }
        outcomes.extend(new);
    }
    Ok(outcomes)
}

/// Each measure has its own cluster, so that measures do not affect each other.
async fn measure_one(name: &str, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    say(&format!("{name}: starting a cluster"));
    match name {
        "tax" => return Box::pin(measures::tax::measure(scale)).await,
        "quota" => return Box::pin(measures::quota::measure(scale)).await,
        _ => {}
    }
    let cluster = Cluster::start_audited(&audit::policy()).await?;
    match name {
        "reviews" => return measures::reviews::measure(&cluster, scale).await,
        "price" => return Box::pin(measures::price::measure(&cluster, scale)).await,
        _ => {}
    }
    let api = if name == ACCURATE { Api::Accurate } else { Api::Hnc };
    let mut testbed = Testbed::set(&cluster, api).await?;
    match name {
        "spread" => {
            let bare = Cluster::start_audited(&audit::policy()).await?;
            measures::spread::measure(&mut testbed, &Bare::new(&bare).await?, scale).await
        }
        ACCURATE => {
            let bare = Cluster::start_audited(&audit::policy()).await?;
            measures::accurate::measure(&mut testbed, &bare, scale).await
        }
        "parents" => measures::parents::measure(&mut testbed, scale).await,
        LARGE => measures::large::measure(&mut testbed, scale).await,
        _ => measures::restart::measure(&mut testbed, scale).await,
    }
}

/// Prints the progress.
pub(crate) fn say(what: &str) {
    let began = BEGAN.get_or_init(Instant::now);
    eprintln!("[{:6.1} s] {what}", began.elapsed().as_secs_f32());
}

#[expect(clippy::print_stdout, reason = "its result")]
fn print(text: &str) {
    println!("{text}");
}
