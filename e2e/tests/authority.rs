//! Who may do what: the rules of admission attacked by real users with real RBAC, on a real API server.
//!
//! Every refusal stands beside the same request being allowed where it should be. Never about what the controller makes
//! of a hierarchy.

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
