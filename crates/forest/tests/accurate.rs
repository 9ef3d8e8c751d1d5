//! Accurate's plans against a cluster on paper: carried out until nothing is left to do, they lead to what a specification of one page
//! says, from any state and after any change; and no request gives anybody rights in a namespace without consent.

#[cfg(test)] // Which it is anyhow; Clippy has to be told.
mod accurate {
    mod cluster;
    mod consent;
    mod convergence;
    mod draw;
    mod specification;
}
