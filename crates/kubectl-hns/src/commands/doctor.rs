//! `doctor`: checks the installation and the hierarchy, and suggests solutions. It changes nothing.
//!
//! Each check is a pure function of what was read. What the user may not read is noted.

mod absence;
mod account_rights;
pub(crate) mod accurate;
mod anchors;
mod configuration;
mod copies;
mod definitions;
mod installation;
mod labels;
mod leftovers;
mod namespace;
mod quotas;
mod remedies;
pub(super) mod settings;
mod trees;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::failure::Problem;
use crate::format::{DataFormat, render};
use crate::lines::{self, Lines};
use crate::program::Program;
use crate::session::Session;
use crate::terminal::{Ink, Paint};
use crate::{Failure, Terminal};

/// Check the installation and the hierarchy, and show problems with solutions.
///
/// The exit code is 1 if there is a problem, or if nothing could be checked. What you may not read is noted and is not a problem. Who may not list namespaces names one
/// with -n, and the tree around it is checked.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DataFormat>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    level: Level,
    /// The checked subject.
    subject: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Level {
    Ok,
    /// Information, or a check that was not possible.
    Note,
    Wrong,
}

impl Finding {
    fn ok(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, subject: subject.into(), text: text.into(), hint: None }
    }

    fn note(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(subject, text) }
    }

    fn wrong(subject: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Wrong, hint: Some(hint.into()), ..Self::ok(subject, text) }
    }

    /// A finding for objects whose definition is missing, which is a finding of its own.
    fn unserved(subject: &str) -> Self {
        Self::note(subject, "not checked, because a definition is missing")
    }

    /// A finding for something that could not be read: a note if the user lacks the right, otherwise an error.
    fn unread(subject: impl Into<String>, problem: &Problem) -> Self {
        if problem.is_forbidden() {
            return Self::note(subject, "you may not read this, so it was not checked");
        }
        let hint = problem.hint().unwrap_or_else(|| "Check the health of the API server.".into());
        Self::wrong(subject, format!("cannot be read: {problem}"), hint)
    }
}

pub(crate) async fn run(
    (arguments, program): (&Arguments, Program),
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut findings = check(session, program).await;
    for hint in findings.iter_mut().filter_map(|it| it.hint.as_mut()) {
        *hint = program.advice(hint);
    }
    match arguments.output {
        None => terminal.print(&text(&findings, terminal.paint)),
        Some(format) => {
            let data = serde_json::json!({ "findings": &findings });
            terminal.print(&render(format.into(), &data, [])?);
        }
    }
    match findings.iter().filter(|it| it.level == Level::Wrong).count() {
        0 if findings.iter().all(|it| it.level == Level::Note) => {
            Err(Failure::new("Error: nothing could be checked"))
        }
        0 => Ok(()),
        1 => Err(Failure::new("Error: 1 thing is wrong")),
        wrong => Err(Failure::new(format!("Error: {wrong} things are wrong"))),
    }
}

/// The results of all checks, or of the first one alone if no other can be made.
async fn check(session: &Session, program: Program) -> Vec<Finding> {
    if let Err(problem) = session.call(session.client.apiserver_version()).await
        && (problem.code() == 0 || problem.code() == 401)
    {
        let text = format!("nothing was checked: {problem}");
        return vec![Finding::wrong("API server", text, problem.hint().unwrap_or_default())];
    }
    if let Some(finding) = absence::check(session).await {
        return vec![finding];
    }
    let mut findings: Vec<Finding> = match namespace::check(session).await {
        Ok(finding) => finding.into_iter().collect(),
        Err(elsewhere) => return vec![elsewhere],
    };
    let settings = settings::or_default(session).await;
    findings.extend(definitions::check(session, &settings).await);
    findings.extend(installation::check(session, &settings, Timestamp::now()).await);
    findings.push(settings::check(session).await);
    findings.extend(settings::initial_admin(session).await);
    findings.extend(quotas::check(session).await);
    findings.extend(account_rights::check(session, &settings).await);
    findings.extend(leftovers::check(session).await);
    let is_served =
        !findings.iter().any(|it| it.level == Level::Wrong && it.subject.starts_with("definition "));
    let trees = if is_served { trees::check(session).await } else { vec![Finding::unserved("trees")] };
    findings = without_what_is_summed_up(findings, &trees);
    findings.extend(trees);
    findings.extend(accurate::check((session, program), &settings).await);
    findings
}

/// The trees show each condition with a solution, and the `HNCConfiguration` sums them up. Where only a part of the trees could be checked,
/// the sum is kept as a note: what is wrong there is counted already, or is about namespaces that the user may not read.
fn without_what_is_summed_up(mut findings: Vec<Finding>, trees: &[Finding]) -> Vec<Finding> {
    let is_summary = |it: &Finding| it.subject == configuration::NAMESPACES;
    if trees.iter().any(|it| it.subject == "trees" && it.level != Level::Ok) {
        findings.iter_mut().filter(|it| is_summary(it)).for_each(|it| it.level = Level::Note);
    } else {
        findings.retain(|it| !is_summary(it));
    }
    findings
}

fn text(findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let (word, ink) = match finding.level {
            Level::Ok => ("ok   ", Ink::Good),
            Level::Note => ("note ", Ink::Warning),
            Level::Wrong => ("WRONG", Ink::Bad),
        };
        text.line(format!("{}  {}: {}", paint.ink(ink, word), finding.subject, finding.text));
        for line in finding.hint.iter().flat_map(|it| it.lines()) {
            text.line(format!("       {line}"));
        }
    }
    text
}

/// The first names of a list.
fn some(names: &[String]) -> String {
    lines::first(names, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn texts(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|it| format!("{}: {}", it.subject, it.text)).collect()
    }

    #[test]
    fn findings_are_printed_with_their_solutions() {
        let findings = [
            Finding::ok("definitions", "all are served"),
            Finding::note("certificate", "not checked"),
            Finding::wrong("lease", "no leader", "Start it.\nThen check again."),
        ];
        let wanted = "\
ok     definitions: all are served
note   certificate: not checked
WRONG  lease: no leader
       Start it.
       Then check again.
";
        assert_eq!(text(&findings, Paint::NONE), wanted);
    }

    #[test]
    fn conditions_that_the_trees_show_are_counted_once() {
        let summary = Finding::wrong(configuration::NAMESPACES, "ParentMissing", "Describe them.");
        let other = Finding::ok("lease", "held");
        let orphan = Finding::wrong("missing parent", "gone", "Create it.");
        let noted = Finding { level: Level::Note, ..summary.clone() };
        for (trees, wanted) in [
            (vec![orphan.clone()], vec![other.clone()]),
            (vec![Finding::ok("trees", "checked")], vec![other.clone()]),
            (vec![orphan, Finding::note("trees", "some were not read")], vec![noted.clone(), other.clone()]),
            (vec![Finding::note("trees", "not checked")], vec![noted, other.clone()]),
        ] {
            assert_eq!(without_what_is_summed_up(vec![summary.clone(), other.clone()], &trees), wanted);
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (1..=7).map(|it| it.to_string()).collect();
        assert_eq!(some(&names), "1, 2, 3, 4, 5 and 2 more");
        assert_eq!(some(&names[..2]), "1, 2");
    }

    #[test]
    fn files_that_hints_name_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut named = 0;
        let sources = std::fs::read_dir(root.join("src/commands/doctor")).unwrap();
        for file in sources.map(|it| it.unwrap().path()).filter(|it| it.is_file()) {
            let source = std::fs::read_to_string(&file).unwrap();
            for hint in source.split("-f config/").skip(1) {
                let path = format!("config/{}", hint.split(['`', '"', ' ']).next().unwrap());
                assert!(root.join("../..").join(&path).is_file(), "{}: {path}", file.display());
                named += 1;
            }
        }
        assert!(named >= 2);
    }
}
