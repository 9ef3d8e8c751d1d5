//! What is foretold, for people.

use super::document::{Document, Namespace, Object, Pair, Totals};
use crate::lines::Lines;
use crate::terminal::{Ink, Paint};

impl Document {
    /// The whole plan.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in &self.change {
            text.line(line);
        }
        text.line(self.sentence(paint));
        for warning in &self.warnings {
            text.line(paint.ink(Ink::Warm, &format!("Warning: {warning}")));
        }
        if self.verdict.outcome != "refused" {
            text.push_str(&self.effects(paint));
        }
        text
    }

    /// What would follow, with totals.
    pub(crate) fn effects(&self, paint: Paint) -> String {
        let mut text = String::new();
        if self.is_void() {
            text.line("Nothing else would change.");
            return text;
        }
        if !self.namespaces.is_empty() {
            text.line("\nNamespaces:");
            self.namespaces.iter().for_each(|it| self.namespace(&mut text, it, paint));
        }
        if !self.anchors.is_empty() {
            text.line("\nSubnamespace anchors:");
            for anchor in &self.anchors {
                text.line(format!("  {} {} in {}", anchor.action, anchor.name, anchor.namespace));
            }
        }
        let objects = || self.objects.iter().filter(|it| !self.deletes(&it.namespace));
        if objects().next().is_some() {
            text.line("\nObjects:");
            objects().for_each(|it| text.line(object(it, paint)));
        }
        text.line(format!("\n{}", totals(&self.totals)));
        if self.pending > 0 {
            let pending = format!("Beside that, the controller has {} changes yet to make.", self.pending);
            text.line(paint.ink(Ink::Faint, &pending));
        }
        text
    }

    fn sentence(&self, paint: Paint) -> String {
        let verdict = &self.verdict;
        let message = verdict.message.as_deref().unwrap_or_default();
        match verdict.outcome {
            "allowed" => paint.ink(Ink::Good, "This would be let through."),
            "refused" => {
                let (code, reason) =
                    (verdict.code.unwrap_or_default(), verdict.reason.as_deref().unwrap_or_default());
                paint.ink(Ink::Bad, &format!("This would be refused ({code} {reason}): {message}"))
            }
            _ => {
                paint.ink(Ink::Warm, &format!("It is not known whether this would be let through: {message}"))
            }
        }
    }

    fn namespace(&self, text: &mut String, it: &Namespace, paint: Paint) {
        let name = &it.name;
        match it.action {
            "create" => text.line(format!("  {name} is created")),
            "delete" => {
                let within = self.objects.iter().filter(|object| object.namespace == *name).count();
                let line = format!(
                    "  {name} is deleted, with everything in it ({within} objects of propagated kinds among it)"
                );
                text.line(paint.ink(Ink::Bad, &line));
            }
            _ => {}
        }
        if let Some(parent) = &it.parent {
            let named = |parent: &Option<String>| parent.clone().unwrap_or_else(|| "none".to_owned());
            text.line(format!("  {name}: parent {} -> {}", named(&parent.before), named(&parent.after)));
        }
        it.labels.iter().for_each(|it| text.line(pair(name, "label", it)));
        it.annotations.iter().for_each(|it| text.line(pair(name, "annotation", it)));
        for condition in &it.conditions {
            let (action, type_, reason) = (condition.action, &condition.type_, &condition.reason);
            let line = format!("  {name}: condition {type_} ({reason}) {action}: {}", condition.message);
            text.line(paint.ink(if action == "comes" { Ink::Warm } else { Ink::Faint }, &line));
        }
    }
}

fn pair(name: &str, what: &str, pair: &Pair) -> String {
    let key = &pair.key;
    match (&pair.values.before, &pair.values.after) {
        (Some(before), Some(after)) => format!("  {name}: {what} {key}={after} (was {before})"),
        (None, Some(after)) => format!("  {name}: {what} {key}={after} comes"),
        (before, None) => {
            format!("  {name}: {what} {key}={} goes", before.as_deref().unwrap_or_default())
        }
    }
}

fn object(object: &Object, paint: Paint) -> String {
    let Object { namespace, resource, name, action, source } = object;
    let from = source.as_ref().map(|source| format!(", from {source}")).unwrap_or_default();
    let line = format!("  {action} {resource} {name} in {namespace}{from}");
    match *action {
        "overwrite" => paint.ink(Ink::Bad, &format!("{line} (it is not a copy: what it holds is lost)")),
        "delete" => paint.ink(Ink::Warm, &line),
        _ => line,
    }
}

fn totals(totals: &Totals) -> String {
    format!(
        "Totals: objects: {} created, {} updated, {} overwritten, {} deleted; namespaces: {} created, {} deleted, {} changed; \
         labels: {} changed.",
        totals.objects_created,
        totals.objects_updated,
        totals.objects_overwritten,
        totals.objects_deleted,
        totals.namespaces_created,
        totals.namespaces_deleted,
        totals.namespaces_changed,
        totals.labels_changed,
    )
}
