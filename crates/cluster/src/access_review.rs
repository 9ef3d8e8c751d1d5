//! How the API server is asked what a service account may do, and how its answer is read. Asks nothing itself.

use forest::configuration::rights::Right;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};

/// The question whether a service account has this right, by its user name; `None` when that is no service account's.
pub fn review(user: &str, right: &Right) -> Option<SubjectAccessReview> {
    let (namespace, _) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let attributes = ResourceAttributes {
        verb: Some(right.verb.into()),
        group: Some(right.group.to_string()),
        resource: Some(right.resource.to_string()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        groups: Some(groups.into()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    Some(SubjectAccessReview { spec, ..SubjectAccessReview::default() })
}

/// Whether it is allowed.
///
/// # Errors
/// Why it is not known: an authorizer that could not evaluate the question and did not allow it leaves the answer open.
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
    fn a_service_account_is_asked_about_with_its_groups() {
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
    fn only_a_plain_yes_is_one() {
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
