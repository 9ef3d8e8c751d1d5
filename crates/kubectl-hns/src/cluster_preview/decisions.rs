//! Would a change be allowed? The rights of the user, the rules, and the API server decide.

use forest::preview::Intent;
use forest::rules::{DenialKind, Verdict};
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE};

use super::{ClusterPreview, admission, dry_run};
use crate::Failure;

/// The result of admission for one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The change would be allowed, with these warnings.
    Allowed { warnings: Vec<String> },
    /// The change would be refused.
    Refused { code: u16, reason: String, message: String },
    /// The result cannot be determined.
    Unknown { why: String },
}

impl Decision {
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl ClusterPreview<'_> {
    /// Decides about a change of the present state. If the user may not read all that the rules need, the API server decides.
    pub(super) async fn decide_first(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        let decision = if self.is_whole {
            Some(self.decide(intent).await?)
        } else {
            admission::lacks_right(self.session, self.forest(), &self.user, intent).await?
        };
        if let Some(decision) = decision.filter(|it| !matches!(it, Decision::Unknown { .. })) {
            return Ok(self.unless_refused_otherwise(decision, intent).await);
        }
        match self.ask(intent).await {
            Some(decision) => Ok(decision),
            None => self.decide(intent).await,
        }
    }

    async fn ask(&self, intent: &Intent) -> Option<Decision> {
        Box::pin(dry_run::ask(self.session, intent, self.configuration.as_deref())).await
    }

    /// The decision of the rules, unless they allow a change that the API server refuses because the webhook does not answer, or because of
    /// a policy.
    async fn unless_refused_otherwise(&self, decision: Decision, intent: &Intent) -> Decision {
        let Decision::Allowed { warnings } = &decision else { return decision };
        // The answer would repeat the warnings.
        let _muted = (!warnings.is_empty()).then(|| self.session.warnings.mute());
        let answer = self.ask(intent).await;
        unless_refused_otherwise(decision, answer)
    }

    /// Decides about a change after others, which the API server cannot be asked about. Without a view of the whole cluster, a
    /// refusal can be wrong, unless RBAC refuses.
    pub(super) async fn decide_later(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        let lacks_right = admission::lacks_right(self.session, self.forest(), &self.user, intent).await?;
        if let Some(refusal) = lacks_right.filter(Decision::is_refusal) {
            return Ok(refusal);
        }
        Ok(match self.decide(intent).await? {
            Decision::Refused { message, .. } if !self.is_whole => {
                Decision::Unknown { why: format!("by what you may read, it would be refused: {message}") }
            }
            decision => decision,
        })
    }

    /// Adds the permission for cascading deletion to the preview of a deletion that the API server would accept, if the user may not read
    /// whether it is given: without it, the API server would refuse the deletion.
    pub(super) fn presume_permission(&mut self, deletion: &Intent) {
        let (Intent::DeleteAnchor { child: name, .. } | Intent::DeleteNamespace { name }) = deletion else {
            return;
        };
        if !self.forest().ancestry(name).iter().any(|it| self.structure.hidden.contains(it)) {
            return;
        }
        let allow = Intent::SetHierarchy {
            namespace: name.clone(),
            parent: self.forest().parent(name).cloned(),
            allow_cascading_deletion: true,
        };
        self.preview.change(&allow, &self.user);
    }

    /// Adds what the user may not read and the API server would not accept the changes in Accurate's hierarchy without: a parent or template has
    /// such a type, and a `SubNamespace` that is deleted exists.
    pub(super) fn presume_hierarchy(&mut self, intents: &[Intent]) {
        for (name, of) in intents.iter().flat_map(upstream) {
            if self.is_unreadable(name) {
                let labels = vec![(TYPE.into(), Some(of.into()))];
                self.preview.change(&Intent::Label { namespace: name.into(), labels }, &self.user);
            }
        }
        for intent in intents {
            if let Intent::DeleteSubNamespace { parent, child } = intent
                && self.unread.contains(parent)
                && !self.forest().has_sub_namespace(parent, child)
            {
                let (parent, child) = (parent.clone(), child.clone());
                let [labels, annotations] = Default::default();
                let create = Intent::CreateSubNamespace { parent, child, labels, annotations };
                self.preview.change(&create, &self.user);
            }
        }
    }

    pub(super) async fn decide(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        if let Some(refusal) = admission::unfit(self.forest(), intent) {
            return Ok(refusal);
        }
        if let Some(decision) =
            admission::lacks_right(self.session, self.forest(), &self.user, intent).await?
        {
            return Ok(decision);
        }
        let verdict = admission::verdict(self.session, &self.preview, &self.user, intent).await;
        if matches!(verdict, Verdict::Allow { .. })
            && let Some(refusal) = admission::exceeds_quota(self.session, intent).await
        {
            return Ok(refusal);
        }
        Ok(match verdict {
            Verdict::Allow { warnings, .. } => Decision::Allowed { warnings },
            Verdict::Deny(denial) => match denial.kind {
                DenialKind::Internal | DenialKind::Unavailable => Decision::Unknown { why: denial.message },
                kind => {
                    let (code, reason) = kind.code_and_reason();
                    Decision::Refused { code, reason: reason.to_owned(), message: denial.message }
                }
            },
            Verdict::Ask(_) => {
                Decision::Unknown { why: "the questions of the rules could not be answered".into() }
            }
        })
    }
}

/// The namespaces that the change names as parents or templates in Accurate's hierarchy, with the type that makes them fit.
fn upstream(intent: &Intent) -> Vec<(&str, &'static str)> {
    match intent {
        Intent::CreateSubNamespace { parent, .. } => vec![(parent, TYPE_ROOT)],
        Intent::Label { labels, .. } => {
            let of = |key: &str| match key {
                PARENT => Some(TYPE_ROOT),
                TEMPLATE => Some(TYPE_TEMPLATE),
                _ => None,
            };
            labels.iter().filter_map(|(key, value)| Some((value.as_deref()?, of(key)?))).collect()
        }
        _ => Vec::new(),
    }
}

/// The changes about which the API server decides before any has an effect: the first one, and after a change of labels also the creation of
/// a `SubNamespace`. A command that gives a namespace another parent first tries the labels, and writes them after the `SubNamespace`.
pub(super) fn on_current_state(intents: &[Intent]) -> impl Iterator<Item = &Intent> {
    let is_labelled = matches!(intents.first(), Some(Intent::Label { .. }));
    let forms = intents.iter().skip(1).filter(|it| matches!(it, Intent::CreateSubNamespace { .. }));
    intents.iter().take(1).chain(forms.take(usize::from(is_labelled)))
}

/// The decision of the rules, unless the API server had no answer of the webhook, without which it refuses the change, or what is none of
/// the rules refuses it: a policy, or a `ResourceQuota` that the user may not read.
fn unless_refused_otherwise(decision: Decision, answer: Option<Decision>) -> Decision {
    let counts = |answer: &Decision| match answer {
        Decision::Unknown { .. } => true,
        Decision::Refused { message, .. } => {
            ["ValidatingAdmissionPolicy ", "exceeded quota: "].iter().any(|it| message.contains(it))
        }
        Decision::Allowed { .. } => false,
    };
    answer.filter(counts).unwrap_or(decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_namespace_is_created_before_the_labels_are_written() {
        let label = Intent::Label { namespace: "n".into(), labels: vec![] };
        let (parent, child) = ("p".into(), "n".into());
        let [labels, annotations] = [forest::Labels::default(), forest::Labels::default()];
        let create = Intent::CreateSubNamespace { parent, child, labels, annotations };
        let delete = Intent::DeleteSubNamespace { parent: "q".into(), child: "n".into() };
        for (intents, decided) in [
            (&[label.clone(), create.clone(), delete.clone()][..], &[&label, &create][..]),
            (&[label.clone(), delete.clone()], &[&label]),
            (&[delete.clone(), create.clone()], &[&delete]),
            (&[], &[]),
        ] {
            let found: Vec<String> = on_current_state(intents).map(|it| format!("{it:?}")).collect();
            let wanted: Vec<String> = decided.iter().map(|it| format!("{it:?}")).collect();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_webhook_that_does_not_answer_leaves_the_decision_open() {
        let allowed = Decision::Allowed { warnings: Vec::new() };
        let silent = Decision::Unknown { why: "failed calling webhook".into() };
        let refused =
            |code, message: &str| Decision::Refused { code, reason: "x".into(), message: message.into() };
        let by_policy = refused(
            403,
            "namespaces \"n\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no",
        );
        assert_eq!(unless_refused_otherwise(allowed.clone(), Some(by_policy.clone())), by_policy);
        assert_eq!(unless_refused_otherwise(allowed.clone(), Some(silent.clone())), silent);
        assert_eq!(
            unless_refused_otherwise(allowed.clone(), Some(refused(409, "x"))),
            allowed,
            "the rules decided on what was read"
        );
        assert_eq!(unless_refused_otherwise(allowed.clone(), None), allowed);
    }
}
