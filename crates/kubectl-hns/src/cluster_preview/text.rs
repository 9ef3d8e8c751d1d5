//! The preview as text.

use super::document::{Document, Namespace, Object, Pair, Quota, SubNamespace, Totals};
use crate::lines::{Lines, printable};
use crate::terminal::{Ink, Paint};

impl Document {
    /// The whole plan.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in &self.change {
            text.line(line);
        }
        if self.is_unchanged {
            text.line("Nothing would change.");
            return text;
        }
        text.line(self.sentence(paint));
        for warning in &self.warnings {
            text.line(paint.ink(Ink::Warning, &format!("Warning: {warning}")));
        }
        if self.verdict.outcome != "refused" {
            text.push_str(&self.effects(paint));
        }
        text
    }

    /// The effects, with totals.
    pub(crate) fn effects(&self, paint: Paint) -> String {
        let mut text = String::new();
        if self.is_void() {
            text.line(if self.totals_at_least {
                "No other effects are known."
            } else {
                "Nothing else would change."
            });
            return text;
        }
        if !self.namespaces.is_empty() {
            text.line("\nNamespaces:");
            self.namespaces.iter().for_each(|it| self.namespace(&mut text, it, paint));
        }
        if !self.anchors.is_empty() {
            text.line("\nSubnamespace anchors:");
            for anchor in &self.anchors {
                text.line(format!("  {} in {} would be {}d", anchor.name, anchor.namespace, anchor.action));
            }
        }
        if !self.sub_namespaces.is_empty() {
            text.line("\nSubNamespaces:");
            self.sub_namespaces.iter().for_each(|it| text.line(sub_namespace(it, paint)));
        }
        let objects =
            || self.objects.iter().filter(|it| it.action != "delete" || !self.deletes(&it.namespace));
        if objects().next().is_some() {
            text.line("\nObjects:");
            objects().for_each(|it| text.line(object(it, paint)));
        }
        if !self.kept.is_empty() {
            text.line("\nObjects that would be kept although they conflict:");
            for it in &self.kept {
                let (resource, name) = (&it.resource, printable(&it.name));
                let (namespace, source) = (&it.namespace, &it.source);
                let line = format!(
                    "  {resource} {name} in {namespace} would be kept; the one of {source} would not be copied"
                );
                text.line(paint.ink(Ink::Warning, &line));
            }
        }
        if !self.quotas.is_empty() {
            text.line("\nHierarchical quotas:");
            self.quotas.iter().for_each(|it| text.line(quota(it, paint)));
        }
        let at_least = if self.totals_at_least { " (at least)" } else { "" };
        text.line(format!("\nTotals{at_least}: {}", totals(&self.totals)));
        if let Some(pending) = self.pending.filter(|it| *it > 0) {
            let [writes, them, created] =
                if pending == 1 { ["write", "it", "it creates"] } else { ["writes", "them", "they create"] };
            let pending = format!(
                "Without this change, the controller has {pending} {writes} left to do; the plan begins after {them}, and does not show \
                 the deletion of what {created}."
            );
            text.line(paint.ink(Ink::Faint, &pending));
        }
        text
    }

    fn sentence(&self, paint: Paint) -> String {
        let verdict = &self.verdict;
        let message = verdict.message.as_deref().unwrap_or_default();
        match verdict.outcome {
            "allowed" if self.needs_force => paint.ink(Ink::Warning, "With --force, this would be allowed."),
            "allowed" => paint.ink(Ink::Good, "This would be allowed."),
            "refused" => {
                let (code, reason) =
                    (verdict.code.unwrap_or_default(), verdict.reason.as_deref().unwrap_or_default());
                paint.ink(Ink::Bad, &format!("This would be refused ({code} {reason}): {message}"))
            }
            _ => paint.ink(Ink::Warning, &format!("It is unknown whether this would be allowed: {message}")),
        }
    }

    fn namespace(&self, text: &mut String, it: &Namespace, paint: Paint) {
        let name = &it.name;
        match it.action {
            "create" if self.deletes(name) => {
                let form = it.form.as_ref().map(|form| format!(" by {form}")).unwrap_or_default();
                text.line(format!("  {name} would be created again{form}"));
            }
            "create" => text.line(format!("  {name} would be created")),
            "delete" => {
                let goes = |object: &&Object| object.namespace == *name && object.action == "delete";
                let within = self.objects.iter().filter(goes).count();
                let count = match (it.is_unread, within) {
                    (true, 0) => "unknown".to_owned(),
                    (true, _) => format!("at least {within}"),
                    (false, _) => within.to_string(),
                };
                let line = format!(
                    "  {name} would be deleted, with everything in it (objects of propagated kinds: {count})"
                );
                text.line(paint.ink(Ink::Bad, &line));
            }
            _ => {}
        }
        if let Some(parent) = it.parent.as_ref().filter(|_| it.action == "create") {
            text.line(format!("  {name}: the parent would be {}", parent.after.as_deref().unwrap_or("none")));
        } else if let Some(parent) = &it.parent {
            let named = |parent: &Option<String>| parent.clone().unwrap_or_else(|| "none".to_owned());
            let (before, after) = (named(&parent.before), named(&parent.after));
            text.line(format!("  {name}: the parent would change from {before} to {after}"));
        }
        it.labels.iter().for_each(|it| text.line(pair(name, "label", it)));
        it.annotations.iter().for_each(|it| text.line(pair(name, "annotation", it)));
        for condition in &it.conditions {
            let (action, type_, reason) = (condition.action, &condition.type_, &condition.reason);
            let (verb, ink) = if action == "comes" { ("appear", Ink::Warning) } else { ("go", Ink::Faint) };
            let line = format!("  {name}: condition {type_} ({reason}) would {verb}: {}", condition.message);
            text.line(paint.ink(ink, &line));
        }
    }
}

fn pair(name: &str, what: &str, pair: &Pair) -> String {
    let key = &pair.key;
    match (&pair.values.before, &pair.values.after) {
        (Some(before), Some(after)) if before.is_empty() => {
            format!("  {name}: {what} {key} would be set to {}", printable(after))
        }
        (Some(before), Some(after)) => {
            let after = if after.is_empty() { "\"\"".into() } else { printable(after) };
            format!("  {name}: {what} {key} would change from {} to {after}", printable(before))
        }
        (None, Some(after)) => {
            let unless =
                if pair.may_be_overridden { ", unless a namespace above sets another value" } else { "" };
            format!("  {name}: {what} {key}={} would be added{unless}", printable(after))
        }
        (before, None) => {
            format!(
                "  {name}: {what} {key}={} would be removed",
                printable(before.as_deref().unwrap_or_default())
            )
        }
    }
}

fn sub_namespace(form: &SubNamespace, paint: Paint) -> String {
    let SubNamespace { namespace, name, action, stalled } = form;
    let participle = match *action {
        "change" if stalled.is_some() => "get a condition".to_owned(),
        "change" => "lose its condition".to_owned(),
        action => format!("be {action}d"),
    };
    let line = format!("  {name} in {namespace} would {participle}");
    match stalled {
        Some(why) => paint.ink(Ink::Warning, &format!("{line} (Stalled: {})", printable(why))),
        None => line,
    }
}

fn object(object: &Object, paint: Paint) -> String {
    let Object { namespace, resource, name, action, source, may_exist } = object;
    let from = source.as_ref().map(|source| format!(", from {source}")).unwrap_or_default();
    let participle = if *action == "overwrite" { "overwritten".to_owned() } else { format!("{action}d") };
    let line = format!("  {resource} {} in {namespace} would be {participle}{from}", printable(name));
    match *action {
        _ if *may_exist => {
            let unless = format!(
                "{line}, unless one of this name is there (you may not list {resource} in {namespace})"
            );
            paint.ink(Ink::Warning, &unless)
        }
        "overwrite" => paint.ink(Ink::Bad, &format!("{line} (it is not a copy: its content would be lost)")),
        "delete" => paint.ink(Ink::Warning, &line),
        _ => line,
    }
}

fn quota(quota: &Quota, paint: Paint) -> String {
    let Quota { namespace, name, resource, values, limit, exceeded } = quota;
    let amount = |value: &Option<String>| value.clone().unwrap_or_default();
    let (before, after) = (amount(&values.before), amount(&values.after));
    let line = format!("  {namespace}/{name}: {resource} would change from {before} to {after} of {limit}");
    if *exceeded {
        return paint.ink(Ink::Bad, &format!("{line} (exceeded: no more would be allowed)"));
    }
    line
}

fn totals(totals: &Totals) -> String {
    let Totals { objects_created, objects_updated, objects_overwritten, objects_deleted, .. } = totals;
    let objects = format!(
        "{objects_created} created, {objects_updated} updated, {objects_overwritten} overwritten, {objects_deleted} deleted"
    );
    let annotations = match totals.annotations_changed {
        0 => String::new(),
        count => format!("; annotations: {count} changed"),
    };
    format!(
        "objects: {objects}; namespaces: {} created, {} deleted, {} changed; labels: {} changed{annotations}.",
        totals.namespaces_created,
        totals.namespaces_deleted,
        totals.namespaces_changed,
        totals.labels_changed,
    )
}

#[cfg(test)]
mod tests {
    use super::super::document::{Anchor, Condition, Kept, SubNamespace, Values, Verdict};
    use super::*;

    fn namespace(name: &str, action: &'static str) -> Namespace {
        let (labels, annotations, conditions) = (Vec::new(), Vec::new(), Vec::new());
        let (parent, is_unread, form) = (None, false, None);
        Namespace { name: name.into(), action, parent, labels, annotations, conditions, is_unread, form }
    }

    fn object(namespace: &str, action: &'static str, source: Option<&str>) -> Object {
        let (resource, name, source) = ("secrets".into(), "s".into(), source.map(str::to_owned));
        Object { namespace: namespace.into(), resource, name, action, source, may_exist: false }
    }

    fn values(before: Option<&str>, after: Option<&str>) -> Values {
        Values { before: before.map(str::to_owned), after: after.map(str::to_owned) }
    }

    #[test]
    fn every_effect_has_a_line() {
        let pair = |key: &str, before, after| {
            let (key, values) = (key.into(), values(before, after));
            Pair { key, values, may_be_overridden: false }
        };
        let mut moved = namespace("n", "change");
        moved.parent = Some(values(Some("a"), None));
        moved.labels = vec![
            pair("x", Some("1"), Some("2")),
            pair("y", None, Some("2")),
            pair("z", Some("1"), None),
            pair("e", Some(""), Some("1")),
            pair("f", Some("1"), Some("")),
            Pair { may_be_overridden: true, ..pair("u", None, Some("2")) },
        ];
        let mut new = namespace("new", "create");
        new.parent = Some(values(None, Some("n")));
        let (type_, reason, message) = ("T".into(), "R".into(), "why".into());
        moved.conditions = vec![Condition { action: "comes", type_, reason, message }];
        let document = Document {
            change: vec!["It would be done".into()],
            verdict: Verdict { outcome: "allowed", ..Verdict::default() },
            warnings: vec!["mind".into()],
            namespaces: vec![moved, namespace("gone", "delete"), new],
            anchors: vec![Anchor { namespace: "a".into(), name: "gone".into(), action: "delete" }],
            sub_namespaces: [("create", None), ("change", Some("no")), ("change", None)]
                .map(|(action, why)| {
                    let (namespace, name, stalled) = ("a".into(), "f".into(), why.map(str::to_owned));
                    SubNamespace { namespace, name, action, stalled }
                })
                .into(),
            objects: vec![
                object("gone", "delete", None),
                object("n", "overwrite", Some("a")),
                object("n", "create", Some("a")),
                Object { may_exist: true, ..object("hidden", "create", Some("a")) },
            ],
            kept: vec![Kept {
                namespace: "n".into(),
                resource: "secrets".into(),
                name: "k".into(),
                source: "a".into(),
            }],
            pending: Some(2),
            totals: Totals { annotations_changed: 3, ..Totals::default() },
            ..Document::default()
        };
        let wanted = "\
It would be done
This would be allowed.
Warning: mind

Namespaces:
  n: the parent would change from a to none
  n: label x would change from 1 to 2
  n: label y=2 would be added
  n: label z=1 would be removed
  n: label e would be set to 1
  n: label f would change from 1 to \"\"
  n: label u=2 would be added, unless a namespace above sets another value
  n: condition T (R) would appear: why
  gone would be deleted, with everything in it (objects of propagated kinds: 1)
  new would be created
  new: the parent would be n

Subnamespace anchors:
  gone in a would be deleted

SubNamespaces:
  f in a would be created
  f in a would get a condition (Stalled: no)
  f in a would lose its condition

Objects:
  secrets s in n would be overwritten, from a (it is not a copy: its content would be lost)
  secrets s in n would be created, from a
  secrets s in hidden would be created, from a, unless one of this name is there (you may not list secrets in hidden)

Objects that would be kept although they conflict:
  secrets k in n would be kept; the one of a would not be copied

Totals: objects: 0 created, 0 updated, 0 overwritten, 0 deleted; namespaces: 0 created, 0 deleted, 0 changed; labels: 0 changed; annotations: 3 changed.
Without this change, the controller has 2 writes left to do; the plan begins after them, and does not show the deletion of what they create.
";
        assert_eq!(document.text(Paint::NONE), wanted);
        assert_eq!(
            document.conflicts(),
            [
                "secrets s in n would be overwritten",
                "secrets k in n is not a copy, so the one of a would not be copied"
            ]
        );
    }

    #[test]
    fn a_namespace_that_comes_again_is_deleted_and_created() {
        let again = Namespace { form: Some("SubNamespace a/n".into()), ..namespace("n", "create") };
        let deleted = ["delete", "delete"].map(|action| object("n", action, None));
        let document = Document {
            namespaces: vec![namespace("n", "delete"), again],
            objects: deleted.into_iter().chain([object("n", "create", Some("a"))]).collect(),
            ..Document::default()
        };
        let wanted = "
Namespaces:
  n would be deleted, with everything in it (objects of propagated kinds: 2)
  n would be created again by SubNamespace a/n

Objects:
  secrets s in n would be created, from a

Totals: ";
        let text = document.effects(Paint::NONE);
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn what_is_not_read_may_be_more() {
        let mut gone = namespace("gone", "delete");
        gone.is_unread = true;
        let mut hidden = namespace("hidden", "delete");
        hidden.is_unread = true;
        let document = Document {
            namespaces: vec![gone, hidden, namespace("seen", "delete")],
            objects: vec![object("gone", "delete", None)],
            totals_at_least: true,
            ..Document::default()
        };
        let text = document.effects(Paint::NONE);
        for line in [
            "  gone would be deleted, with everything in it (objects of propagated kinds: at least 1)\n",
            "  hidden would be deleted, with everything in it (objects of propagated kinds: unknown)\n",
            "  seen would be deleted, with everything in it (objects of propagated kinds: 0)\n",
            "\nTotals (at least): objects: 0 created, 0 updated, 0 overwritten, 0 deleted; namespaces: 0 created",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_change_that_needs_force_is_allowed_with_it() {
        let verdict = Verdict { outcome: "allowed", ..Verdict::default() };
        let document = Document { verdict, needs_force: true, ..Document::default() };
        assert!(document.text(Paint::NONE).starts_with("With --force, this would be allowed.\n"));
    }

    #[test]
    fn a_refused_change_has_no_effects() {
        let verdict = Verdict {
            outcome: "refused",
            code: Some(409),
            reason: Some("Conflict".into()),
            message: Some("no".into()),
        };
        let refused = Document { verdict, ..Document::default() };
        assert_eq!(refused.text(Paint::NONE), "This would be refused (409 Conflict): no\n");
        assert!(refused.is_possible().unwrap_err().text.contains("(409): no"));
        let verdict = Verdict { outcome: "unknown", message: Some("why".into()), ..Verdict::default() };
        let unknown = Document { verdict, ..Document::default() };
        let wanted = "It is unknown whether this would be allowed: why\nNothing else would change.\n";
        assert_eq!(unknown.text(Paint::NONE), wanted);
        assert!(unknown.is_possible().is_ok());
        let partial = Document { totals_at_least: true, ..unknown };
        let wanted = "It is unknown whether this would be allowed: why\nNo other effects are known.\n";
        assert_eq!(partial.text(Paint::NONE), wanted);
        let unchanged = Document {
            change: vec!["a has no parent; unchanged".into()],
            is_unchanged: true,
            ..Document::default()
        };
        assert_eq!(unchanged.text(Paint::NONE), "a has no parent; unchanged\nNothing would change.\n");
    }
}
