//! An explanation as text.

use super::{Below, Explanation, Source};
use crate::lines::{Lines, printable};
use crate::object_states::{ObjectState, State};
use crate::terminal::{Ink, Paint};

/// The whole explanation.
pub(super) fn draw(explanation: &Explanation, paint: Paint) -> String {
    let Explanation { namespace, resource, name, mark, ancestors, above, below, annotations, .. } =
        explanation;
    let mut text = String::new();
    let (name, label) = (printable(name), paint.ink(mark.ink(), &mark.label()));
    text.line(format!("{resource} {name} in {namespace}: {label}"));
    if let Some(why) = &mark.why {
        // The condition says the rest.
        let said = explanation.condition.as_ref().map(|it| format!(": {}", it.message));
        text.line(format!("  Why: {}", said.and_then(|said| why.strip_suffix(&said)).unwrap_or(why)));
    }
    text.line(match (&ancestors[..], explanation.ancestors_unknown) {
        ([], true) => format!("  Above: unknown (you may not read the hierarchy of {namespace})"),
        ([], false) => "  Above: nothing".to_owned(),
        (ancestors @ [top, ..], true) => {
            format!("  Above: {} (what is above {top} is unknown)", ancestors.join(" > "))
        }
        (ancestors, false) => format!("  Above: {}", ancestors.join(" > ")),
    });
    let arrives =
        matches!(mark.state, State::Copy | State::Missing | State::Replaced) && mark.advice.is_none();
    let is_said = |line: &String| mark.why.as_ref().is_some_and(|why| why.contains(line));
    let is_followed = |it: &Source| mark.state == State::Copy && mark.from.as_deref() == Some(&*it.namespace);
    let line = |it: &Source| line(it, arrives, is_followed(it));
    for line in above.iter().map(line).filter(|it| !is_said(it)) {
        text.line(format!("  - {line}"));
    }
    if let Some(advice) = &mark.advice {
        text.line(format!("  To do: {advice}"));
    }
    for (namespace, annotations) in annotations {
        for (key, value) in annotations {
            text.line(format!("  Annotation in {namespace}: {key}={}", printable(value)));
        }
    }
    if let Some(condition) = &explanation.condition {
        text.line(format!("  Condition: {}", paint.ink(Ink::Bad, &condition.line())));
    }
    if explanation.is_source() {
        draw_below(namespace, below, paint, &mut text);
    }
    if !explanation.elsewhere.is_empty() {
        text.line("  Copies elsewhere:");
        draw_states(namespace, explanation.elsewhere.iter(), paint, &mut text);
    }
    text
}

/// `arrives` is whether a source that propagates here is copied, and `is_there` whether its copy is here.
fn line(source: &Source, arrives: bool, is_there: bool) -> String {
    let Source { namespace, comes, why } = source;
    let comes = match (comes, arrives) {
        (false, _) if is_there => "is not copied here any more",
        (false, _) => "is not copied here",
        (true, true) => "is copied here",
        (true, false) => "would be copied here",
    };
    format!("the one in {namespace} {comes}, because {why}")
}

/// The number of regular copies, and all exceptions; those with one reason are in one line.
fn draw_below(namespace: &str, below: &[Below], paint: Paint, text: &mut String) {
    if below.is_empty() {
        text.line("  Below: nothing");
        return;
    }
    let is_ours = |mark: &ObjectState| mark.state == State::Copy && mark.from.as_deref() == Some(namespace);
    let ours = below.iter().filter(|it| is_ours(&it.mark)).count();
    let namespaces = if below.len() == 1 { "namespace has" } else { "namespaces have" };
    text.line(format!("  Below: {ours} of {} {namespaces} a copy", below.len()));
    draw_states(namespace, below.iter().filter(|it| !is_ours(&it.mark)), paint, text);
}

/// Those with one state and one reason are in one line.
fn draw_states<'a>(
    namespace: &str,
    states: impl Iterator<Item = &'a Below>,
    paint: Paint,
    text: &mut String,
) {
    let mut others: Vec<(&ObjectState, Vec<&str>)> = Vec::new();
    for Below { namespace, mark } in states {
        match others.iter_mut().find(|(same, _)| *same == mark) {
            Some((_, namespaces)) => namespaces.push(namespace),
            None => others.push((mark, vec![namespace])),
        }
    }
    // The label says the same, and the reason is about the namespaces of the line.
    let same = format!("the one in {namespace} is not copied here, ");
    for (mark, namespaces) in others {
        let label = paint.ink(mark.ink(), &mark.label());
        let why = mark.why.as_ref().map(|why| why.strip_prefix(&same).unwrap_or(why));
        let why =
            why.map(|why| format!(", {}", why.replace("copied here", "copied there"))).unwrap_or_default();
        text.line(format!("  - {}: {label}{why}", namespaces.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::explanation;
    use super::*;
    use crate::object_states::tests::object_states;

    #[test]
    fn copies_that_are_not_below_their_source_are_shown() {
        let lines = ["acme", "dev < acme", "orphan < gone", "hnc-system", "low < orphan"];
        let copies = [("dev", "acme", ""), ("orphan", "acme", ""), ("hnc-system", "acme", "")];
        let here = ("acme", "", "");
        for (source, below) in [(Some(here), "  Below: 1 of 1 namespace has a copy\n"), (None, "")] {
            let all: Vec<_> = copies.into_iter().chain(source).collect();
            let mut all = object_states(&lines, &all);
            all.loaded.structure.is_whole = true;
            let found = explanation(&all, &"acme".into()).unwrap();
            let text = draw(&found, Paint::NONE);
            let dev = if source.is_none() { "  - dev: to be removed" } else { "" };
            let wanted = format!("{below}  Copies elsewhere:\n{dev}");
            assert!(text.contains(&wanted), "{text}");
            for elsewhere in ["  - hnc-system: copy of acme, ", "  - orphan: copy of acme, "] {
                assert!(text.contains(elsewhere), "{text}");
            }
            assert!(found.holders().contains(&"namespace/orphan".to_owned()), "{text}");
            assert_eq!(all.gone_source("orphan").is_some(), source.is_none());
        }
    }

    #[test]
    fn a_copy_a_source_and_a_blocked_copy() {
        let lines = ["acme", "dev < acme", "web < dev", "db < dev", "off < acme", "old < acme"];
        let mut all = object_states(
            &lines,
            &[("acme", "", "!old, !off"), ("dev", "", ""), ("web", "acme", ""), ("db", "acme", "")],
        );
        let say = |all: &_, name: &str| draw(&explanation(all, &name.into()).unwrap(), Paint::NONE);
        let copy = "\
roles.rbac.authorization.k8s.io r in web: copy of acme
  Why: the one in acme is copied here, because its kind is in mode Propagate and its annotation \
propagate.hnc.x-k8s.io/treeSelect lets it through
  Above: acme > dev
  - the one in dev is not copied here, because the one in acme takes precedence
";
        assert_eq!(say(&all, "web"), copy);
        let source = "\
roles.rbac.authorization.k8s.io r in acme: source
  Above: nothing
  Below: 2 of 5 namespaces have a copy
  - dev: conflict, it is not a copy, so it is kept and the one in acme is not copied
  - off, old: not copied, because its annotation propagate.hnc.x-k8s.io/treeSelect does not \
select the namespace
";
        assert_eq!(say(&all, "acme"), source);
        let mut annotated = explanation(&all, &"acme".into()).unwrap();
        let tree = (hns_api::annotations::PROPAGATE_TREE_SELECT.to_owned(), "!old".to_owned());
        annotated.annotations = [("acme".to_owned(), [tree].into())].into();
        annotated.ancestors_unknown = true;
        let unknown = "\n  Above: unknown (you may not read the hierarchy of acme)\n";
        assert!(draw(&annotated, Paint::NONE).contains(unknown));
        let line = "\n  Annotation in acme: propagate.hnc.x-k8s.io/treeSelect=!old\n";
        assert!(draw(&annotated, Paint::NONE).contains(line));
        let mut left = explanation(&all, &"web".into()).unwrap();
        left.above = vec![Source { namespace: "acme".into(), comes: false, why: "x".into() }];
        assert!(
            draw(&left, Paint::NONE)
                .ends_with("\n  - the one in acme is not copied here any more, because x\n")
        );
        all.loaded.forest.apply(forest::Fact::Kinds(Vec::new()));
        assert!(explanation(&all, &"acme".into()).is_none(), "a kind that is not in the forest");
    }
}
