//! The fenced blocks of a Markdown document, and what to do with each. Runs nothing.

use anyhow::{Context, Result, bail, ensure};

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The language after the opening fence; empty if there is none.
    pub(crate) language: String,
    /// The comment before the block: it is not run here, and why not.
    pub(crate) mark: Option<String>,
    pub(crate) text: String,
    /// The number of the line of the opening fence.
    pub(crate) line: usize,
    /// Nothing is between this block and the one before.
    pub(crate) follows: bool,
}

/// All blocks, in order.
pub(crate) fn blocks(document: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let (mut open, mut last): (Option<Block>, &str) = (None, "");
    for (number, line) in document.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let mark = last.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                open = Some(Block {
                    language: language.to_owned(),
                    mark: mark.map(str::to_owned),
                    text: String::new(),
                    line: number,
                    follows: last == "```",
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text += document.lines().nth(number - 1).unwrap_or_default();
                block.text.push('\n');
            }
            (None, None) => {}
        }
        if !line.is_empty() {
            last = line;
        }
    }
    ensure!(open.is_none(), "a block without an end");
    Ok(found)
}

/// The commands of a block: a command ends with its line, unless a backslash or a document follows.
pub(crate) fn commands(block: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let mut command = line.to_owned();
        let mut add = |command: &mut String| -> Result<String> {
            let next = lines.next().with_context(|| format!("{command} has no end"))?;
            *command = format!("{command}\n{next}");
            Ok(next.to_owned())
        };
        if let Some((_, word)) = line.split_once("<<") {
            let word = word.trim().trim_matches('\'').to_owned();
            while add(&mut command)? != word {}
        }
        while command.ends_with('\\') {
            add(&mut command)?;
        }
        if !command.trim().is_empty() {
            found.push(command);
        }
    }
    Ok(found)
}

/// Who applies a block of the recipe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum By {
    Administrator,
    /// A user and the user's group.
    User(String, String),
}

/// Who applies this block, from its first line.
pub(crate) fn by(block: &Block) -> Result<By> {
    let first = block.text.lines().next().unwrap_or_default();
    let name = first.strip_prefix("# By ").and_then(|rest| rest.strip_suffix('.'));
    match name.with_context(|| format!("the block that begins with {first:?} names no user"))? {
        "a cluster administrator" => Ok(By::Administrator),
        other => match other.split_once(", one of ") {
            Some((user, group)) => Ok(By::User(user.to_owned(), group.to_owned())),
            None => bail!("{other:?} is neither an administrator nor one of a group"),
        },
    }
}

/// Whether `shown` is what a document says, in which `…` stands for anything within a line.
pub(crate) fn is_as_written(shown: &str, written: &str) -> bool {
    let is_line = |shown: &str, written: &str| {
        let mut parts = written.split('…');
        let mut rest = shown.strip_prefix(parts.next().unwrap_or_default());
        for part in parts {
            rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
        }
        rest.is_some_and(|rest| rest.is_empty() || written.ends_with('…'))
    };
    let (shown, written): (Vec<_>, Vec<_>) = (shown.lines().collect(), written.lines().collect());
    shown.len() == written.len() && shown.iter().zip(written).all(|(shown, written)| is_line(shown, written))
}

#[test]
fn blocks_know_their_language_and_their_mark() {
    let text = "a\n```sh\nx\n```\n```text\ny\n```\n\n  <!-- not run: no -->\n  ```yaml\n  # By eve, one of team.\n  z: 1\n  ```\n";
    let found = blocks(text).unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|it| (it.language.as_str(), it.mark.as_deref(), it.text.as_str(), it.line, it.follows))
        .collect();
    let last = "  # By eve, one of team.\n  z: 1\n";
    assert_eq!(shown[0], ("sh", None, "x\n", 2, false));
    assert_eq!(shown[1], ("text", None, "y\n", 5, true));
    assert_eq!(shown[2], ("yaml", Some("not run: no"), last, 10, false));
    assert!(blocks("```sh\nx").is_err());
    assert_eq!(blocks("nothing").unwrap(), []);
}

#[test]
fn a_block_names_who_applies_it() {
    let of = |text: &str| by(&blocks(&format!("```yaml\n{text}\n```")).unwrap()[0]);
    assert_eq!(of("# By a cluster administrator.").unwrap(), By::Administrator);
    assert_eq!(of("# By eve, one of team.").unwrap(), By::User("eve".into(), "team".into()));
    assert!(of("x: 1").is_err());
}

#[test]
fn commands_end_with_their_lines() {
    let found = commands("a b\n\nc \\\n  d\ne - <<'EOF'\nf\nEOF\ng # <x>\n").unwrap();
    assert_eq!(found, ["a b", "c \\\n  d", "e - <<'EOF'\nf\nEOF", "g # <x>"]);
    assert!(commands("a <<EOF\nb").is_err());
}

#[test]
fn dots_stand_for_anything() {
    assert!(is_as_written("a 12 b\nc\n", "a … b\nc"));
    assert!(is_as_written("a 12 b", "a …"));
    for (shown, written) in [("a b c", "a b"), ("a\nb", "a"), ("b", "a…"), ("a x", "a … b")] {
        assert!(!is_as_written(shown, written), "{shown} as {written}");
    }
}
