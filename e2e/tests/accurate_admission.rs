//! Admission for Accurate's API (`accurate.cybozu.com`), by users with real RBAC, on a real API server: its webhooks, what is stricter
//! here, the border to HNC's hierarchy, a dead webhook, and the conversion of `SubNamespaces`.
//!
//! No controller runs: the tables in `accurate_admission/` are tried as dry runs on the namespaces of `world.yaml`. Which requests reach
//! the webhook at all is in the suite `registrations`.

#[cfg(test)]
mod accurate_admission {
    mod conversion;
    mod judged;
    mod scene;
    mod table;
}
