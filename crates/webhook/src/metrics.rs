//! The metrics of `hns-webhook`. Label values come from fixed sets only.

use std::time::Duration;

use forest::hnc::quota::ledger::{Decision, Pending};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

/// Reviews by webhook and verdict, and questions to the API server.
#[derive(Clone, Debug)]
pub struct AdmissionMetrics {
    reviews: HistogramVec,
    questions: IntCounterVec,
    unreadable: IntCounterVec,
}

impl AdmissionMetrics {
    /// Registers them in `registry`.
    ///
    /// # Errors
    /// They are already registered.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let buckets = vec![0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];
        let metrics = Self {
            reviews: HistogramVec::new(
                HistogramOpts::new(
                    "hns_admission_review_duration_seconds",
                    "Time to answer an admission review, by webhook and verdict.",
                )
                .buckets(buckets),
                &["webhook", "verdict"],
            )?,
            questions: IntCounterVec::new(
                Opts::new(
                    "hns_admission_questions_total",
                    "Questions asked while judging, by kind and answer.",
                ),
                &["question", "answer"],
            )?,
            unreadable: IntCounterVec::new(
                Opts::new(
                    "hns_admission_unreadable_requests_total",
                    "Requests that were no review, by HTTP status.",
                ),
                &["status"],
            )?,
        };
        registry.register(Box::new(metrics.reviews.clone()))?;
        registry.register(Box::new(metrics.questions.clone()))?;
        registry.register(Box::new(metrics.unreadable.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn reviewed(&self, webhook: &str, verdict: &str, took: Duration) {
        self.reviews.with_label_values(&[webhook, verdict]).observe(took.as_secs_f64());
    }

    pub(crate) fn asked(&self, question: &str, answer: &str) {
        self.questions.with_label_values(&[question, answer]).inc();
    }

    pub(crate) fn unreadable(&self, status: u16) {
        self.unreadable.with_label_values(&[&status.to_string()]).inc();
    }
}

/// Decisions on increases of usage under hierarchical quotas.
#[derive(Clone, Debug)]
pub(crate) struct UsageMetrics {
    decisions: IntCounterVec,
    conflicts: IntCounter,
    waits: IntCounter,
}

impl UsageMetrics {
    /// Registers them in `registry`.
    ///
    /// # Errors
    /// They are already registered.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            decisions: IntCounterVec::new(
                Opts::new(
                    "hns_quota_decisions_total",
                    "Decisions on increases of usage under hierarchical quotas, by decision.",
                ),
                &["decision"],
            )?,
            conflicts: IntCounter::new(
                "hns_quota_ledger_conflicts_total",
                "Writes of the quota ledger that another replica, or the controller, had preceded.",
            )?,
            waits: IntCounter::new(
                "hns_quota_retries_total",
                "Increases of usage that could not be decided at once and were decided again.",
            )?,
        };
        registry.register(Box::new(metrics.decisions.clone()))?;
        registry.register(Box::new(metrics.conflicts.clone()))?;
        registry.register(Box::new(metrics.waits.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn decided(&self, decision: &Result<Decision, String>) {
        let word = match decision {
            Ok(Decision::Allow) => "allowed",
            Ok(Decision::Deny(_)) => "denied",
            Ok(Decision::Outdated) => "outdated",
            Ok(Decision::Wait(Pending::StatesUnknown)) => "states-unknown",
            Ok(Decision::Wait(Pending::LimitsUnknown)) => "limits-unknown",
            Ok(Decision::Wait(Pending::OthersPending)) => "others-pending",
            Ok(Decision::Wait(Pending::Full)) => "ledger-full",
            Err(_) => "ledger-unusable",
        };
        self.decisions.with_label_values(&[word]).inc();
    }

    pub(crate) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(crate) fn waited(&self) {
        self.waits.inc();
    }
}
