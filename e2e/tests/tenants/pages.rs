//! Runs the blocks of all pages in order, as they are printed.
//!
//! A block that is not run has a comment before it, which says why, or which suite runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hns_e2e::{Cluster, Options, Product, Shell, eventually};

use super::document::{Block, blocks, commands, is_as_written};

/// Each block of these pages is run by the suite.
const ELSEWHERE: [(&str, &str); 2] = [("docs/repair.md", "install"), ("docs/tenants.md", "tenants")];

/// What a page presupposes.
const BEFORE: [(&str, &str); 1] = [(
    "docs/propagation.md",
    "kubectl create namespace corp
     for team in team-a team-b; do kubectl create namespace $team; kubectl hns set $team --parent corp; done
     kubectl hns create service-a -n team-a --wait",
)];

/// A command that reads the hierarchy is repeated for so long: hns needs a moment for what the commands before have asked for. A
/// page that reads objects with kubectl must wait for them itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// These commands write nothing.
const READS: [&str; 5] = [
    "kubectl hns tree ",
    "kubectl hns describe ",
    "kubectl hns explain ",
    "kubectl hns plan ",
    "kubectl hns version",
];

/// Runs the commands of a block. The last one shows what is written.
async fn run_block(shell: &Shell, block: &str, written: Option<&str>) -> Result<()> {
    let commands = commands(block)?;
    for (at, command) in commands.iter().enumerate() {
        let written = written.filter(|_| at + 1 == commands.len());
        let once = async || {
            let shown = shell.run(command).await?;
            match written {
                Some(written) if !is_as_written(&shown, written) => {
                    Err(format!("it shows\n{shown}instead of\n{written}"))
                }
                _ => Ok(()),
            }
        };
        if READS.iter().any(|read| command.starts_with(read)) {
            eventually(command, PATIENCE, once).await?;
        } else {
            once().await.map_err(|error| anyhow::anyhow!("{command}: {error}"))?;
        }
    }
    Ok(())
}

/// The pages, relative to the checkout.
fn pages(checkout: &Path) -> Result<Vec<String>> {
    let mut pages =
        vec!["README.md".to_owned(), "charts/hns/README.md".to_owned(), "e2e/README.md".to_owned()];
    for entry in fs::read_dir(checkout.join("docs"))? {
        let name = entry?.file_name().into_string().ok().context("a name that is no text")?;
        if Path::new(&name).extension().is_some_and(|it| it == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    Ok(pages)
}

async fn run_page(shell: &Shell, page: &str, blocks: &[Block]) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        let whole = || format!("{page}:{}", block.line);
        let done = match (block.language.as_str(), &block.mark) {
            ("" | "text", None) => continue,
            (_, Some(mark)) if mark.starts_with("not run: ") || mark.starts_with("tested: ") => mark.clone(),
            (_, Some(mark)) => bail!("{}: the mark {mark:?}", whole()),
            ("sh", None) => {
                let next = blocks.get(at + 1).filter(|next| next.follows && next.language == "text");
                let written = next.map(|next| next.text.as_str());
                run_block(shell, &block.text, written).await.with_context(whole)?;
                if written.is_some() { "run and compared".to_owned() } else { "run".to_owned() }
            }
            ("yaml", None) => {
                let apply =
                    format!("kubectl apply --server-side --force-conflicts -f - <<'EOF'\n{}EOF", block.text);
                run_block(shell, &apply, None).await.with_context(whole)?;
                "applied".to_owned()
            }
            (language, None) => bail!("{}: the language {language:?}", whole()),
        };
        *counts.entry(done).or_default() += 1;
    }
    Ok(counts)
}

#[tokio::test]
async fn every_block_runs_as_it_is_printed() -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    let product = Product::install(&cluster, Options::default()).await?;
    let replicas = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let shell = Shell::new(&cluster)?;
    let built = std::env::current_exe()?.with_file_name("../kubectl-hns");
    shell.add("bin/kubectl-hns", &built).context("kubectl-hns: build it first")?;
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut run = 0;
    for page in pages(&checkout)? {
        let blocks = blocks(&fs::read_to_string(checkout.join(&page))?).with_context(|| page.clone())?;
        if blocks.is_empty() {
            continue;
        }
        if let Some((_, suite)) = ELSEWHERE.iter().find(|(it, _)| *it == page) {
            println!("{:5.1} s: {page}: tested: {suite}", began.elapsed().as_secs_f32());
            continue;
        }
        if let Some((_, before)) = BEFORE.iter().find(|(it, _)| *it == page) {
            shell.run(before).await.map_err(|error| anyhow::anyhow!("before {page}: {error}"))?;
        }
        let counts = run_page(&shell, &page, &blocks).await?;
        println!("{:5.1} s: {page}: {counts:?}", began.elapsed().as_secs_f32());
        run += counts.iter().filter(|(done, _)| !done.contains(": ")).map(|(_, count)| count).sum::<usize>();
    }
    ensure!(run > 10, "only {run} blocks run");
    tokio::try_join!(replicas.0.terminate(), replicas.1.terminate())?;
    Ok(())
}
