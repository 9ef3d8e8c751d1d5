//! Each form of `plan`, as people see it.
