//! Asks the API server whether it would allow a change: by a dry run of the user's own request, which admission judges as well.

use std::collections::BTreeMap;

use forest::Labels;
use forest::preview::Intent;
use hns_api::accurate::{SubNamespace, SubNamespaceSpec};
use hns_api::{KeyValue, SubnamespaceAnchor, SubnamespaceAnchorSpec, annotations};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};

use super::{Configuration, Decision};
use crate::commands::hierarchy::{self, Edit, NewParent};
use crate::commands::kinds;
use crate::failure::Problem;
use crate::session::Session;

/// The decision; `None` if the change cannot be asked about. Of a change of the configuration, `configuration` is the request.
pub(super) async fn ask(
    session: &Session,
    intent: &Intent,
    configuration: Option<&Configuration>,
) -> Option<Decision> {
    let post = PostParams { dry_run: true, ..PostParams::default() };
    let delete = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let namespaces = session.all::<Namespace>();
    let answer = match intent {
        Intent::SetHierarchy { namespace, parent, allow_cascading_deletion } => {
            let object = hierarchy::read(session, namespace).await.ok()?;
            let parent = parent.as_ref().map_or(NewParent::Root, |it| NewParent::Namespace(it.to_string()));
            let edit =
                Edit { parent: Some(parent), allow_cascading_deletion: Some(*allow_cascading_deletion) };
            hierarchy::write(session, namespace, object, &edit, true).await
        }
        Intent::CreateAnchor { parent, child, labels, annotations } => {
            let spec = SubnamespaceAnchorSpec { labels: pairs(labels), annotations: pairs(annotations) };
            let anchor = SubnamespaceAnchor::new(child, spec);
            session.call(session.within(parent).create(&post, &anchor)).await.map(drop)
        }
        Intent::DeleteAnchor { parent, child } => {
            let anchors = session.within::<SubnamespaceAnchor>(parent);
            session.call(anchors.delete(child, &delete)).await.map(drop)
        }
        Intent::DeleteNamespace { name } => session.call(namespaces.delete(name, &delete)).await.map(drop),
        Intent::Annotate { namespace, subnamespace_of } => {
            let mut object = session.call(namespaces.get(namespace)).await.ok()?;
            let present = object.metadata.annotations.get_or_insert_default();
            match subnamespace_of {
                Some(of) => drop(present.insert(annotations::SUBNAMESPACE_OF.to_owned(), of.to_string())),
                None => drop(present.remove(annotations::SUBNAMESPACE_OF)),
            }
            session.call(namespaces.replace(namespace, &post, &object)).await.map(drop)
        }
        Intent::Label { namespace, labels } => {
            let mut object = session.call(namespaces.get(namespace)).await.ok()?;
            let present = object.metadata.labels.get_or_insert_default();
            for (key, value) in labels {
                match value {
                    Some(value) => drop(present.insert(key.to_string(), value.to_string())),
                    None => drop(present.remove(&**key)),
                }
            }
            session.call(namespaces.replace(namespace, &post, &object)).await.map(drop)
        }
        Intent::CreateSubNamespace { parent, child, labels, annotations } => {
            let spec = SubNamespaceSpec { labels: map(labels), annotations: map(annotations) };
            let form = SubNamespace::new(child, spec);
            session.call(session.within(parent).create(&post, &form)).await.map(drop)
        }
        Intent::DeleteSubNamespace { parent, child } => {
            let forms = session.within::<SubNamespace>(parent);
            session.call(forms.delete(child, &delete)).await.map(drop)
        }
        Intent::Configure { .. } => {
            let Configuration { object, entries } = configuration?;
            kinds::write(session, &post, object.clone(), entries).await
        }
    };
    Some(decision(answer))
}

fn map(labels: &Labels) -> Option<BTreeMap<String, String>> {
    let map: BTreeMap<_, _> = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Some(map).filter(|it| !it.is_empty())
}

fn pairs(labels: &Labels) -> Option<Vec<KeyValue>> {
    let pairs: Vec<KeyValue> =
        labels.iter().map(|(key, value)| KeyValue { key: key.into(), value: value.into() }).collect();
    Some(pairs).filter(|it| !it.is_empty())
}

/// Warnings are in the headers of the answer, and are printed with it.
fn decision(answer: Result<(), Problem>) -> Decision {
    match answer {
        Ok(()) => Decision::Allowed { warnings: Vec::new() },
        Err(Problem::Refused(status)) if !Problem::Refused(status.clone()).is_temporary() => {
            let (reason, message) = (status.reason.clone(), rule(&status.message).to_owned());
            Decision::Refused { code: status.code, reason, message }
        }
        Err(problem) => Decision::Unknown { why: problem.to_string() },
    }
}

/// The message of the rule alone, as where the rules decide here. A webhook's refusal names itself, and the object.
fn rule(message: &str) -> &str {
    let Some((_, denied)) = message.split_once("denied the request: ") else { return message };
    if let Some(rule) = denied.strip_prefix("forbidden: ") {
        return rule;
    }
    let conflict = denied.strip_prefix("Operation cannot be fulfilled on ");
    let object = conflict.unwrap_or(denied).split_once(" \"").filter(|(resource, _)| !resource.contains(' '));
    let after = object.and_then(|(_, name)| name.split_once('"')).map(|(_, after)| after);
    let ends: &[&str] = if conflict.is_some() { &[": "] } else { &[" is forbidden: ", " is invalid: "] };
    after.and_then(|it| ends.iter().find_map(|end| it.strip_prefix(end))).unwrap_or(denied)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_answer_is_a_decision() {
        let refused = |code: u16, reason: &str, message: &str| {
            Err(Problem::Refused(Box::new(Status::failure(message, reason).with_code(code))))
        };
        assert_eq!(decision(Ok(())), Decision::Allowed { warnings: Vec::new() });
        let denied = "admission webhook \"x\" denied the request: forbidden: no";
        for (answer, code, message) in [
            (refused(401, "Unauthorized", denied), 401, "no"),
            (refused(409, "AlreadyExists", "\"x\" already exists"), 409, "\"x\" already exists"),
        ] {
            let Decision::Refused { code: found, message: said, .. } = decision(answer) else { panic!() };
            assert_eq!((found, &*said), (code, message));
        }
        for (denied, wanted) in [
            (
                "Operation cannot be fulfilled on x.hnc.x-k8s.io \"o\": illegal parent \"a\": no",
                "illegal parent \"a\": no",
            ),
            ("x.hnc.x-k8s.io \"o\" is forbidden: namespace \"o\" is excluded", "namespace \"o\" is excluded"),
            ("X.hnc.x-k8s.io \"o\" is invalid: spec: no", "spec: no"),
            ("namespace \"o\" exists: no", "namespace \"o\" exists: no"),
            ("it is not \"o\" is forbidden: no", "it is not \"o\" is forbidden: no"),
        ] {
            assert_eq!(rule(&format!("admission webhook \"x\" denied the request: {denied}")), wanted);
        }
        let core = "namespaces \"default\" is forbidden: this namespace may not be deleted";
        assert_eq!(rule(core), core);
        let unknown = decision(refused(500, "InternalError", "failed calling webhook"));
        assert_eq!(unknown, Decision::Unknown { why: "failed calling webhook".into() });
    }
}
