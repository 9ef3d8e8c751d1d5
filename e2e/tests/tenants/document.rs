//! The YAML blocks of a document, each with who applies it. Applies nothing.

use anyhow::{Context, Result, bail, ensure};

/// Who applies a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum By {
    Administrator,
    /// A user and the user's group.
    User(String, String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) by: By,
    pub(crate) yaml: String,
}

/// Every block between "```yaml" and "```", in order. A block whose first line names no user is an error.
pub(crate) fn blocks(document: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut parts = document.split("```yaml\n");
    parts.next();
    for part in parts {
        let (yaml, _) = part.split_once("\n```").context("a block without an end")?;
        let first = yaml.lines().next().unwrap_or_default();
        let by = by(first).with_context(|| format!("the block that begins with {first:?}"))?;
        found.push(Block { by, yaml: yaml.to_owned() });
    }
    ensure!(!found.is_empty(), "there are no blocks");
    Ok(found)
}

fn by(line: &str) -> Result<By> {
    let name = line.strip_prefix("# By ").and_then(|rest| rest.strip_suffix('.'));
    match name.context("no user is named")? {
        "a cluster administrator" => Ok(By::Administrator),
        other => match other.split_once(", one of ") {
            Some((user, group)) => Ok(By::User(user.to_owned(), group.to_owned())),
            None => bail!("{other:?} is neither an administrator nor one of a group"),
        },
    }
}

#[test]
fn blocks_name_who_applies_them() {
    let text = "a\n```yaml\n# By a cluster administrator.\nx: 1\n```\nb\n```yaml\n# By eve, one of team.\ny: 2\n```\n";
    let found = blocks(text).unwrap();
    assert_eq!(found[0], Block { by: By::Administrator, yaml: "# By a cluster administrator.\nx: 1".into() });
    assert_eq!(found[1].by, By::User("eve".into(), "team".into()));
    assert!(blocks("```yaml\nx: 1\n```\n").is_err());
    assert!(blocks("nothing").is_err());
}
