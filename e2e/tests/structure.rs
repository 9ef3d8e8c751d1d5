//! The sections of docs/compatibility.md about structure, on a real API server: anchors and subnamespaces, conditions, orphans,
//! restores, deleted definitions, and a table of allowed and denied requests.
//!
//! Section 7.3 of docs/compatibility.md (who may set which parent) also has the suite `authority`. `structure/table` is data:
//! each line has a user, a request and the answer, and can be read without knowing Rust.

#[cfg(test)]
mod structure {
    mod anchors;
    mod cascade;
    mod conditions;
    mod definitions;
    mod directory;
    mod ending;
    mod flags;
    mod initial_admin;
    mod managed_keys;
    mod orphans;
    mod quota;
    mod restore;
    mod restrictions;
    mod scene;
    mod settings;
    mod slipped;
    mod speed;
    mod table;
    mod workshop;
}
