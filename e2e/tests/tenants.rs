//! The documentation: every block of every page runs as it is printed, and the recipe of `docs/tenants.md` keeps its promises.

#[cfg(test)]
mod tenants {
    mod document;
    mod pages;
    mod recipe;
}
