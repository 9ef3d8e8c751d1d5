//! The recipe of `docs/tenants.md`, applied block by block as it is written, and what it promises.

#[cfg(test)]
mod tenants {
    mod document;
    mod recipe;
}
