//! The question to the API server whether a service account has a right, and the reading of its answer. Sends no
//! request.

use forest::configuration::rights::Right;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};

/// The access review for a service account, given by its user name; `None` if the name is not that of a service
/// account.
pub fn review(user: &str, right: &Right) -> Option<SubjectAccessReview> {
    let (namespace, _) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let attributes = ResourceAttributes {
        verb: Some(right.verb.into()),
        group: Some(right.group.to_string()),
        resource: Some(right.resource.to_string()),
        ..ResourceAttributes::default()
    };
    Some(of_account(namespace, user.to_owned(), attributes))
}

/// The access review for the user of a service account in `namespace`.
pub(crate) fn of_account(
    namespace: &str,
    user: String,
    attributes: ResourceAttributes,
) -> SubjectAccessReview {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let spec = SubjectAccessReviewSpec {
        user: Some(user),
        groups: Some(groups.into()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// Whether the right is granted.
///
/// # Errors
/// The answer is unknown: an authorizer failed to evaluate the question and no other one allowed it.
pub fn allowed(status: Option<SubjectAccessReviewStatus>) -> Result<bool, String> {
    match status {
        None => Err("the API server answered an access review without a result".into()),
        Some(status) if status.allowed && status.denied != Some(true) => Ok(true),
        Some(SubjectAccessReviewStatus { evaluation_error: Some(error), denied, .. })
            if !error.is_empty() && denied != Some(true) =>
        {
            Err(error)
        }
        Some(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use forest::configuration::rights::Account;

    use super::*;

    #[test]
    fn a_review_names_the_groups_of_the_service_account() {
        let right = Right {
            account: Account::Controller,
            verb: "create",
            group: "".into(),
            resource: "secrets".into(),
        };
        let spec = review("system:serviceaccount:hnc-system:hns-controller", &right).unwrap().spec;
        assert_eq!(spec.user.as_deref(), Some("system:serviceaccount:hnc-system:hns-controller"));
        let groups = ["system:serviceaccounts", "system:serviceaccounts:hnc-system", "system:authenticated"];
        assert_eq!(spec.groups.unwrap(), groups);
        let asked = spec.resource_attributes.unwrap();
        let words = (asked.verb.as_deref(), asked.group.as_deref(), asked.resource.as_deref());
        assert_eq!(words, (Some("create"), Some(""), Some("secrets")));
        assert_eq!(asked.namespace, None, "in all of them");
        assert_eq!(review("jane", &right), None);
    }

    #[test]
    fn only_an_explicit_yes_allows() {
        let status = |allowed, denied, error: &str| {
            let evaluation_error = (!error.is_empty()).then(|| error.to_owned());
            Some(SubjectAccessReviewStatus { allowed, denied, evaluation_error, reason: None })
        };
        for (status, expected) in [
            (status(true, None, ""), Some(true)),
            (status(true, Some(false), "one rule is odd"), Some(true)),
            (status(true, Some(true), ""), Some(false)),
            (status(false, None, ""), Some(false)),
            (status(false, Some(true), "down"), Some(false)),
            (status(false, None, "down"), None),
            (None, None),
        ] {
            assert_eq!(allowed(status.clone()).ok(), expected, "{status:?}");
        }
    }
}
