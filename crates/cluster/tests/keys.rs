//! The forest does not import the API crate, so both name the same keys. They must not differ.

use forest::{accurate, keys};
use hns_api::{annotations, finalizers, labels, names};

#[test]
fn the_keys_of_hnc_are_those_of_its_api() {
    for (forest, api) in [
        (keys::GROUP, hns_api::GROUP),
        (keys::TREE_LABEL, labels::TREE_DEPTH_SUFFIX),
        (keys::INCLUDED, labels::INCLUDED_NAMESPACE),
        (keys::EXCLUDED, labels::EXCLUDED_NAMESPACE),
        (keys::HAS_CHILDREN, labels::HAS_CHILDREN),
        (keys::INHERITED_FROM, labels::INHERITED_FROM),
        (keys::HRQ, labels::HRQ),
        (keys::SUBNAMESPACE_OF, annotations::SUBNAMESPACE_OF),
        (keys::EXTERNALLY_MANAGED_BY, annotations::MANAGED_BY),
        (keys::INITIAL_ADMIN, annotations::INITIAL_ADMIN),
        (keys::ANCESTRY, annotations::ANCESTRY),
        (keys::SELECT, annotations::PROPAGATE_SELECT),
        (keys::TREE_SELECT, annotations::PROPAGATE_TREE_SELECT),
        (keys::NONE, annotations::PROPAGATE_NONE),
        (keys::ALL, annotations::PROPAGATE_ALL),
        (keys::HRQ_SOURCES, annotations::HRQ_SOURCES),
        (keys::HRQ_LIMITS, annotations::HRQ_LIMITS),
        (keys::OPENSHIFT_DESCRIPTION, annotations::OPENSHIFT_DESCRIPTION),
        (keys::DERIVED_QUOTA, names::DERIVED_QUOTA),
        (keys::ANCHOR_FINALIZER, finalizers::SUBNAMESPACE_ANCHOR),
        (keys::HIERARCHY_FINALIZER, finalizers::HAS_SUBNAMESPACE),
    ] {
        assert_eq!(forest, api);
    }
}

#[test]
fn the_keys_of_accurate_are_those_of_its_api() {
    use accurate::keys;
    use hns_api::accurate::{GROUP, annotations, labels, names};
    for (forest, api) in [
        (keys::GROUP, GROUP),
        (keys::TYPE, labels::TYPE),
        (keys::ROOT, labels::TYPE_ROOT),
        (keys::TEMPLATE_TYPE, labels::TYPE_TEMPLATE),
        (keys::TEMPLATE, labels::TEMPLATE),
        (keys::PARENT, labels::PARENT),
        (keys::CREATED_BY, labels::CREATED_BY),
        (keys::CREATOR, labels::CREATED_BY_ACCURATE),
        (keys::PROPAGATE, annotations::PROPAGATE),
        (keys::FROM, annotations::FROM),
        (keys::PROPAGATE_GENERATED, annotations::PROPAGATE_GENERATED),
        (keys::GENERATED, annotations::GENERATED),
        (keys::GENERATED_FALSE, annotations::GENERATED_FALSE),
        (keys::FINALIZER, names::FINALIZER),
    ] {
        assert_eq!(forest, api);
    }
}
