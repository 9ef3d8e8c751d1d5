//! The chart and the plain manifests: what they render and refuse, what installing, upgrading and uninstalling leaves as it was,
//! and whether the installations of HNC and of Accurate are taken over, and handed back.
//!
//! Helm and the API server are real. There is no node, so one process stands for each Deployment (`hns_e2e::deployed`).

#[cfg(test)]
mod install {
    mod accurate_trees;
    mod from_accurate;
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
