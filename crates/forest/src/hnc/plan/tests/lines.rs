//! Plans as lines to compare.

use crate::core::labels::Labels;
use crate::hnc::fact::HierarchyStatus;
use crate::hnc::plan::{Action, Edit, HncAction, Plan, SubnamespaceSpec};

pub(super) fn lines(plan: &Plan) -> Vec<String> {
    let report = plan.report.iter().map(line);
    let steps = plan.steps.iter().map(|step| {
        let actions: Vec<String> = step.actions.iter().map(line).collect();
        let word = match (step.guards, step.gives) {
            (true, false) => "off",
            (false, true) => "on",
            (true, true) => "both",
            (false, false) => "idle",
        };
        format!("{word} {}", actions.join(", "))
    });
    report.chain(steps).collect()
}

pub(super) fn line(action: &Action) -> String {
    match action {
        Action::PatchNamespace { labels, annotations, .. } => {
            let annotated = if annotations.is_empty() { "" } else { " annotate" };
            format!("label{}{annotated}{}", edit(labels), edit(annotations))
        }
        Action::Dialect(HncAction::CreateHierarchy { spec, with_finalizer, status }) => {
            let held = if *with_finalizer { " held" } else { "" };
            format!("hierarchy with{}{held} {}", of_subnamespace(spec.as_ref()), shown(status))
        }
        Action::Dialect(HncAction::UpdateHierarchy { spec, finalizers, status, .. }) => {
            let status = status.as_ref().map(|status| format!(" {}", shown(status))).unwrap_or_default();
            let spec = of_subnamespace(spec.as_ref());
            format!("report{spec}{}{status}", held_by(finalizers.as_ref()))
        }
        Action::Dialect(HncAction::UpdateAnchor { child, finalizers, state, .. }) => {
            let state = state.map(|state| format!(" {}", state.as_str())).unwrap_or_default();
            format!("anchor {child}{}{state}", held_by(finalizers.as_ref()))
        }
        Action::Dialect(HncAction::CreateSubnamespace { child, initial_admin: None }) => {
            format!("create subnamespace {child}")
        }
        Action::Dialect(HncAction::CreateSubnamespace { child, initial_admin: Some(user) }) => {
            format!("create subnamespace {child} for {user}")
        }
        Action::Dialect(HncAction::BindInitialAdmin { user, cluster_role }) => {
            format!("bind {user} to {cluster_role}")
        }
        Action::Dialect(HncAction::DeleteSubnamespace { child, .. }) => {
            format!("delete subnamespace {child}")
        }
        Action::Dialect(HncAction::WriteDerivedQuota { version, hard, .. }) => {
            let verb = if version.is_some() { "change" } else { "create" };
            let limits: Vec<String> = hard.iter().map(|(name, limit)| format!("{name}={limit}")).collect();
            format!("{verb} derived quota {}", limits.join(" "))
        }
        Action::Dialect(HncAction::DeleteDerivedQuota { .. }) => "delete derived quota".into(),
        Action::Dialect(HncAction::FreeDerivedQuota { .. }) => "free derived quota".into(),
        Action::Dialect(HncAction::UpdateQuotaStatus { name, .. }) => format!("show status of {name}"),
        Action::CreateCopy { key, source, .. } => format!("create {} from {source}", key.name),
        Action::ReplaceCopy { key, source, .. } => format!("replace {} from {source}", key.name),
        Action::DeleteCopy { key, .. } => format!("delete {}", key.name),
    }
}

fn edit(edit: &Edit) -> String {
    let short = |key: &str| key.replace(".tree.hnc.x-k8s.io/depth", "").replace("hnc.x-k8s.io/", "");
    let set = edit.set.iter().map(|(key, value)| format!(" +{}={value}", short(key)));
    let remove = edit.remove.iter().map(|key| format!(" -{}", short(key)));
    set.chain(remove).collect()
}

/// ` of PARENT`, and what the anchor says.
fn of_subnamespace(spec: Option<&SubnamespaceSpec>) -> String {
    let Some(SubnamespaceSpec { parent, from_anchor }) = spec else { return String::new() };
    let pairs = |labels: &Labels| -> String {
        labels.iter().flat_map(|(key, value)| [" ", key, "=", value]).collect()
    };
    match from_anchor {
        None => format!(" of {parent} unanchored"),
        Some((labels, annotations)) => format!(" of {parent}{}{}", pairs(labels), pairs(annotations)),
    }
}

fn held_by(finalizers: Option<&Vec<Box<str>>>) -> String {
    finalizers.map(|all| format!(" held by [{}]", all.join(" "))).unwrap_or_default()
}

fn shown(status: &HierarchyStatus) -> String {
    let reasons: Vec<&str> = status.conditions.iter().map(|condition| &*condition.reason).collect();
    format!("[{}] [{}]", status.children.join(" "), reasons.join(" "))
}
