//! Authorization: attacks on the admission rules by users with real RBAC, on a real API server.
//!
//! Every denial is tested beside the same request that is allowed elsewhere. What the controller writes is tested elsewhere.

#[cfg(test)]
mod authority {
    mod awaited;
    mod deletion;
    mod fixture;
    mod identity;
    mod labels;
    mod outage;
    mod request;
    mod rows;
    mod table;
    mod theft;
    mod verdict;
    mod walk;
}
