//! The stream of Accurate's own objects.

use crate::core::stream::Stream;

impl Stream {
    /// All `SubNamespaces`.
    pub const SUB_NAMESPACES: Self = Self::Resource("subnamespaces.accurate.cybozu.com");
    /// The streams without which nothing of Accurate's API can be judged or planned.
    pub const ACCURATE_STRUCTURE: [Self; 2] = [Self::NAMESPACES, Self::SUB_NAMESPACES];
}
