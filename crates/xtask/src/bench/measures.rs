//! All measures, in their order. Each one is a module with a function.

pub(crate) mod accurate;
pub(crate) mod large;
pub(crate) mod parents;
pub(crate) mod price;
pub(crate) mod quota;
pub(crate) mod restart;
pub(crate) mod reviews;
pub(crate) mod spread;
pub(crate) mod tax;
