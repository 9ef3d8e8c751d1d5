//! Decisions on increases, and on limits.
