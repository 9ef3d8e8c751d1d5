//! What docs/compatibility.md says about structure, on a real API server: anchors and subnamespaces, conditions, orphans,
//! restores, definitions that go, and a table of who may do what.
//!
//! Who may set which parent (section 7.3 of docs/compatibility.md) has a suite of its own beside the table. `structure/table` is
//! data: each line names a user, a request and the answer, and can be read without knowing Rust.

#[cfg(test)]
mod structure {
    mod anchors;
    mod cascade;
    mod conditions;
    mod definitions;
    mod directory;
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
    mod table;
    mod workshop;
}
