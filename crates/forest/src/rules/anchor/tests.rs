//! Rows of section 7.4.
