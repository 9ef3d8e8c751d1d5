//! The table of who may do what, run line by line: data in, requests out, answers compared. What the table says is in
//! `table/*.yaml`.
//!
//! Each request is a dry run, so every line finds the company as it was drawn. An answer "try again" is tried again for a
//! while, as any client would; no other answer gets a second chance.

mod company;
mod line;
mod request;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use self::line::Line;
use super::scene::scene;

const FILES: [&str; 8] =
    ["hierarchies", "anchors", "namespaces", "subnamespace-of", "external", "mutation", "rights", "restore"];

fn read<T: DeserializeOwned>(name: &str) -> Result<T> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/structure/table");
    let path = directory.join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("parsing {name}.yaml"))
}

#[tokio::test]
async fn every_line_is_answered_as_the_table_says() -> Result<()> {
    let scene = scene().await?;
    let company = company::found(&scene).await?;
    let before = company.drawn(&scene.steps).await?;
    let mut wrong = Vec::new();
    let mut answers: BTreeMap<(&str, String), (usize, usize)> = BTreeMap::new();
    for file in FILES {
        let lines: Vec<Line> = read(file)?;
        for line in lines {
            let (allowed, refused) = answers.entry((file, line.row.clone())).or_default();
            *(if line.is_allowed() { allowed } else { refused }) += 1;
            match line.run(scene.cluster()).await? {
                Ok(answer) => println!("{file} {line}: {answer}"),
                Err(answer) => wrong.push(format!("{file} {line}\n    but it is {answer}")),
            }
        }
    }
    for ((file, row), (allowed, refused)) in &answers {
        ensure!(
            *allowed > 0 && *refused > 0,
            "{file}, row {row:?}, shows only one side: {allowed} allowed, {refused} refused"
        );
    }
    let lines: usize = answers.values().map(|(allowed, refused)| allowed + refused).sum();
    println!("{lines} lines in {} rows", answers.len());
    assert!(wrong.is_empty(), "{} of {lines} lines are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(company.drawn(&scene.steps).await?, before, "a dry run has changed something");
    Ok(())
}
