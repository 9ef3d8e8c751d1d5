//! The chart and the plain manifests: what they render and refuse, what installing, upgrading and uninstalling leaves as it was,
//! and whether HNC's installation is taken over, and handed back.
//!
//! Helm and the API server are real. There is no node, so one process stands for each Deployment (`hns_e2e::deployed`).

#[cfg(test)]
mod install {
    mod helm;
    mod lifecycle;
    mod narrow;
    mod owned;
    mod repair;
    mod rights;
    mod takeover;
    mod templates;
    mod works;
}
