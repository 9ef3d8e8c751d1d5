//! The count of writes, and the decision which of them is the last. Pure: forwards nothing and closes nothing.

use http::Method;
use http::request::Parts;

type Hook = Box<dyn FnOnce() + Send>;

/// How many writes may still pass, and what happens then.
#[derive(Default)]
pub(super) struct Plan {
    admitted: usize,
    answered: usize,
    stop: Option<Stop>,
    refusing: bool,
}

struct Stop {
    after: usize,
    hook: Hook,
}

/// The decision about a write that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Forward it.
    Pass,
    /// Wait: not all writes before it are answered, and the plan may end.
    Wait,
    /// Refuse it: the plan is complete.
    Stop,
}

impl Plan {
    pub(super) fn stopping_after(after: usize, hook: Hook) -> Self {
        let stop = Some(Stop { after, hook });
        Self { stop, ..Self::default() }
    }

    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// Counts a write that arrives.
    pub(super) fn admit(&mut self) -> Admission {
        match &self.stop {
            _ if self.refusing => Admission::Stop,
            Some(stop) if self.answered == stop.after => Admission::Stop,
            Some(stop) if self.admitted == stop.after => Admission::Wait,
            _ => {
                self.admitted += 1;
                Admission::Pass
            }
        }
    }

    /// Counts a response; returns whether it was the last.
    pub(super) fn answer(&mut self) -> bool {
        self.answered += 1;
        matches!(&self.stop, Some(stop) if stop.after == self.answered)
    }

    /// Uncounts a write that ended without a response; another may pass in its place.
    pub(super) fn abandon(&mut self) {
        self.admitted = self.admitted.saturating_sub(1);
    }

    /// Begins to refuse; returns the hook the first time.
    pub(super) fn refuse(&mut self) -> Option<Hook> {
        self.refusing = true;
        self.stop.take().map(|stop| stop.hook)
    }
}

/// Whether a request counts as a write: it changes something other than a lease, which is renewed all the time. A dry run changes
/// nothing.
pub(super) fn is_write(parts: &Parts) -> bool {
    const UNCOUNTED: [&str; 3] =
        ["/apis/coordination.k8s.io/", "/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
    let method = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&parts.method);
    let is_dry = parts.uri.query().is_some_and(|query| query.contains("dryRun="));
    method && !is_dry && !UNCOUNTED.iter().any(|prefix| parts.uri.path().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(method: Method, path: &str) -> bool {
        let request = http::Request::builder().method(method).uri(path).body(()).unwrap();
        is_write(&request.into_parts().0)
    }

    #[test]
    fn leases_reviews_and_reads_are_no_writes() {
        assert!(write(Method::POST, "/api/v1/namespaces"));
        assert!(write(Method::DELETE, "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles/r"));
        assert!(!write(Method::GET, "/api/v1/namespaces"));
        assert!(!write(Method::POST, "/api/v1/namespaces?fieldManager=it&dryRun=All"));
        assert!(!write(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"));
        assert!(!write(Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"));
    }

    #[test]
    fn exactly_the_planned_number_passes() {
        let mut plan = Plan::stopping_after(2, Box::new(|| {}));
        assert_eq!([plan.admit(), plan.admit()], [Admission::Pass, Admission::Pass]);
        assert_eq!(plan.admit(), Admission::Wait);
        plan.abandon();
        assert_eq!(plan.admit(), Admission::Pass);
        assert!(!plan.answer());
        assert_eq!(plan.admit(), Admission::Wait);
        assert!(plan.answer());
        assert_eq!(plan.admit(), Admission::Stop);
        assert!(plan.refuse().is_some());
        assert!(plan.refuse().is_none());
        assert!(plan.is_refusing());
        assert_eq!((plan.admit(), plan.answered()), (Admission::Stop, 2));
    }

    #[test]
    fn without_a_plan_everything_passes_and_with_none_left_nothing() {
        let mut plan = Plan::default();
        assert_eq!(plan.admit(), Admission::Pass);
        assert!(!plan.answer());
        assert_eq!(Plan::stopping_after(0, Box::new(|| {})).admit(), Admission::Stop);
    }
}
