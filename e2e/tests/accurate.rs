//! What the controller makes of Accurate's API (`accurate.cybozu.com`) on a real API server: copies, labels of namespaces,
//! `SubNamespaces`, settings that change, and a definition that goes. The webhook is there and judges requests.
//!
//! All tests share one installation and use different names. Tests that change what others depend on run alone.

#[cfg(test)]
mod accurate {
    mod alone;
    mod attacks;
    mod copies;
    mod modes;
    mod namespaces;
    mod scene;
    mod sub_namespaces;
    mod switched;
    mod templates;
}
