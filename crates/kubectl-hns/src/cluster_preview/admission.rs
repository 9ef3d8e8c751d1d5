//! Whether a change would be allowed: checks of the API server, the user's rights, and the admission rules with their
//! questions.

use forest::Forest;
use forest::configuration::rights::Right as AccountRight;
use forest::core::name::PERMANENT;
use forest::preview::{Intent, Preview};
use forest::rules::{Answer, Answers, NamespacedRight, Question, User, Verdict};
use futures::future::join_all;
use hns_api::accurate::SubNamespace;
use hns_api::{SubnamespaceAnchor, names};
use hns_cluster::access_review::{allowed, review};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;

use super::Decision;
use crate::Failure;
use crate::failure::Problem;
use crate::quotas;
use crate::session::Session;
use crate::user_rights::{Right, is_allowed};

/// The limit of rounds; no rule asks as many questions in sequence.
const ROUNDS: usize = 24;

/// The refusal of the API server before admission, if there is one.
pub(super) fn unfit(forest: &Forest, intent: &Intent) -> Option<Decision> {
    let refused = |code, reason: &str, message: String| {
        Some(Decision::Refused { code, reason: reason.to_owned(), message })
    };
    let absent = |name: &str| {
        let known = forest.namespace_version(name).is_some() || forest.hierarchy_version(name).is_some();
        (!known).then(|| format!("namespaces {name:?} not found"))
    };
    let of_accurate = matches!(intent, Intent::CreateSubNamespace { .. } | Intent::DeleteSubNamespace { .. });
    let resource = if of_accurate {
        format!("subnamespaces.{}", hns_api::accurate::GROUP)
    } else {
        format!("subnamespaceanchors.{}", hns_api::GROUP)
    };
    let exists = |parent: &str, child: &str| {
        if of_accurate { forest.has_sub_namespace(parent, child) } else { forest.has_anchor(parent, child) }
    };
    match intent {
        Intent::DeleteNamespace { name } if PERMANENT.contains(&&**name) => {
            let message = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
            refused(403, "Forbidden", message)
        }
        Intent::SetHierarchy { namespace: name, .. }
        | Intent::DeleteNamespace { name }
        | Intent::Label { namespace: name, .. }
        | Intent::Annotate { namespace: name, .. } => {
            absent(name).and_then(|message| refused(404, "NotFound", message))
        }
        Intent::CreateAnchor { parent, child, .. } | Intent::CreateSubNamespace { parent, child, .. } => {
            match absent(parent) {
                Some(message) => refused(404, "NotFound", message),
                None if forest.is_terminating(parent) => refused(
                    403,
                    "Forbidden",
                    format!(
                        "{resource} {child:?} is forbidden: unable to create new content in namespace {parent} because it is being \
                         terminated"
                    ),
                ),
                None if exists(parent, child) => {
                    refused(409, "AlreadyExists", format!("{resource} {child:?} already exists"))
                }
                None => None,
            }
        }
        Intent::DeleteAnchor { parent, child } | Intent::DeleteSubNamespace { parent, child }
            if !exists(parent, child) =>
        {
            refused(404, "NotFound", format!("{resource} {child:?} not found"))
        }
        Intent::DeleteAnchor { .. } | Intent::DeleteSubNamespace { .. } | Intent::Configure { .. } => None,
    }
}

/// The right that the request needs.
fn right(forest: &Forest, intent: &Intent) -> Right {
    let write = |exists: bool| if exists { "update" } else { "create" };
    match intent {
        Intent::SetHierarchy { namespace, .. } => {
            let verb = write(forest.hierarchy_version(namespace).is_some());
            Right::ours(verb, "hierarchyconfigurations", namespace, "")
        }
        Intent::DeleteNamespace { name } => Right::namespace("delete", name),
        Intent::Annotate { namespace, .. } | Intent::Label { namespace, .. } => {
            Right::namespace("update", namespace)
        }
        Intent::CreateSubNamespace { parent, .. } => Right::of_form("create", parent, ""),
        Intent::DeleteSubNamespace { parent, child } => Right::of_form("delete", parent, child),
        Intent::CreateAnchor { parent, .. } => Right::ours("create", "subnamespaceanchors", parent, ""),
        Intent::DeleteAnchor { parent, child } => Right::ours("delete", "subnamespaceanchors", parent, child),
        Intent::Configure { .. } => Right::ours("update", "hncconfigurations", "", ""),
    }
}

/// The refusal of RBAC, or an unknown result.
pub(super) async fn lacks_right(
    session: &Session,
    forest: &Forest,
    user: &User,
    intent: &Intent,
) -> Result<Option<Decision>, Failure> {
    let right = right(forest, intent);
    let answer = is_allowed(session, &right).await;
    let answer = answer.map_err(|it| Failure::because("cannot check your rights", &it))?;
    Ok(match answer {
        Ok(true) => None,
        Ok(false) => Some(Decision::Refused {
            code: 403,
            reason: "Forbidden".into(),
            message: format!("user {:?} may not {right}", user.name),
        }),
        Err(why) => Some(Decision::Unknown { why: format!("cannot check whether you may {right}: {why}") }),
    })
}

/// The refusal by a `ResourceQuota`, about which the API server decides last.
pub(super) async fn exceeds_quota(session: &Session, intent: &Intent) -> Option<Decision> {
    let message = match intent {
        Intent::CreateAnchor { parent, child, .. } => {
            quotas::exceeded_by::<SubnamespaceAnchor>(session, parent, std::slice::from_ref(child)).await?
        }
        Intent::CreateSubNamespace { parent, child, .. } => {
            quotas::exceeded_by::<SubNamespace>(session, parent, std::slice::from_ref(child)).await?
        }
        _ => return None,
    };
    Some(Decision::Refused { code: 403, reason: "Forbidden".into(), message })
}

/// The verdict of admission; its questions are answered with the user's rights.
pub(super) async fn verdict(session: &Session, preview: &Preview, user: &User, intent: &Intent) -> Verdict {
    let mut answers = Answers::new();
    for _ in 0..ROUNDS {
        let questions = match preview.judge(intent, user, &answers) {
            Verdict::Ask(questions) => questions,
            verdict => return verdict,
        };
        let replies = join_all(questions.iter().map(|question| answer(session, question))).await;
        answers.extend(questions.into_iter().zip(replies));
    }
    preview.judge(intent, user, &answers)
}

async fn answer(session: &Session, question: &Question) -> Answer {
    let right = match question {
        Question::IsAdmin(name) => Right::ours("update", "hierarchyconfigurations", name, ""),
        Question::MayConfigure(name) => Right::ours("create", "hierarchyconfigurations", name, ""),
        Question::MayCreateNamespace(name) => Right::namespace("create", name),
        Question::Has(NamespacedRight { namespace, verb, group, resource }) => {
            Right { verb, group, resource, namespace: namespace.to_string(), name: String::new() }
        }
        Question::Namespace(name) => return presence(session, name).await,
        Question::Account(right) => return account(session, right).await,
        // The lists were read just now, so there is nothing to wait for.
        Question::Await(_) => return Answer::No,
    };
    match is_allowed(session, &right).await {
        Ok(Ok(true)) => Answer::Yes,
        Ok(Ok(false)) => Answer::No,
        Ok(Err(why)) => Answer::Failed(why),
        Err(problem) => Answer::Failed(problem.to_string()),
    }
}

async fn presence(session: &Session, name: &str) -> Answer {
    match session.call(session.all::<Namespace>().get_metadata_opt(name)).await {
        Ok(None) => Answer::No,
        Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => Answer::Terminating,
        Ok(Some(_)) => Answer::Yes,
        Err(problem) => Answer::Failed(problem.to_string()),
    }
}

/// Only administrators may check the rights of other accounts; for other users the answer is unknown.
async fn account(session: &Session, right: &AccountRight) -> Answer {
    let user = names::service_account_user(session.installation().await, right.account.name());
    let Some(review) = review(&user, right) else {
        return Answer::Failed(format!("{user:?} is not a service account"));
    };
    let reviews = session.all::<SubjectAccessReview>();
    match session.call(reviews.create(&PostParams::default(), &review)).await {
        Ok(reviewed) => match allowed(reviewed.status) {
            Ok(true) => Answer::Yes,
            Ok(false) => Answer::No,
            Err(why) => Answer::Failed(why),
        },
        Err(problem) if problem.is_forbidden() => Answer::Failed("you may not ask that".into()),
        Err(problem) => Answer::Failed(Problem::to_string(&problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn nothing_is_created_in_a_namespace_that_is_being_deleted() {
        let mut structure = sketch(&["a"]);
        structure.namespaces.get_mut("a").unwrap().terminating = true;
        let intent = Intent::CreateAnchor {
            parent: "a".into(),
            child: "b".into(),
            labels: forest::Labels::default(),
            annotations: forest::Labels::default(),
        };
        let found = unfit(&structure.forest(), &intent);
        assert!(
            matches!(&found, Some(Decision::Refused { code: 403, message, .. }) if message.contains("terminated")),
            "{found:?}"
        );
    }

    #[test]
    fn some_namespaces_are_never_deleted() {
        let forest = sketch(&["default", "kube-system", "a"]).forest();
        for (name, refused) in [("default", true), ("kube-system", true), ("a", false)] {
            let found = unfit(&forest, &Intent::DeleteNamespace { name: name.into() });
            assert_eq!(
                matches!(found, Some(Decision::Refused { code: 403, .. })),
                refused,
                "{name}: {found:?}"
            );
        }
    }
}
