//! What sources ask for in their annotations, and what that means, each said twice: in the words of the annotation, and as
//! what a destination must be like.

use std::collections::BTreeMap;

use forest::keys;

type Pairs = BTreeMap<String, String>;

pub(crate) struct Ask {
    pub(crate) annotations: &'static [(&'static str, &'static str)],
    /// Whether it goes to a namespace with these labels; `None` when it is not asked for and goes where its kind goes.
    pub(crate) goes: fn(&Pairs) -> Option<bool>,
}

fn is(labels: &Pairs, key: &str, value: &str) -> bool {
    labels.get(key).is_some_and(|it| it == value)
}

/// The first asks for nothing.
pub(crate) const ASKS: [Ask; 12] = [
    Ask { annotations: &[], goes: |_| None },
    Ask { annotations: &[(keys::SELECT, "team=blue")], goes: |to| Some(is(to, "team", "blue")) },
    Ask {
        annotations: &[(keys::SELECT, "tier, tier!=gold")],
        goes: |to| Some(to.get("tier").is_some_and(|it| it != "gold")),
    },
    Ask {
        annotations: &[(keys::SELECT, "!hnc.x-k8s.io/has-children")],
        goes: |to| Some(!to.contains_key(keys::HAS_CHILDREN)),
    },
    Ask {
        annotations: &[(keys::SELECT, "a.tree.hnc.x-k8s.io/depth in (1, 2)")],
        goes: |to| Some(is(to, "a.tree.hnc.x-k8s.io/depth", "1") || is(to, "a.tree.hnc.x-k8s.io/depth", "2")),
    },
    Ask {
        annotations: &[(keys::TREE_SELECT, "b")],
        goes: |to| Some(to.contains_key("b.tree.hnc.x-k8s.io/depth")),
    },
    Ask {
        annotations: &[(keys::TREE_SELECT, "!b, !c")],
        goes: |to| {
            Some(["b", "c"].iter().all(|it| !to.contains_key(&format!("{it}.tree.hnc.x-k8s.io/depth"))))
        },
    },
    Ask { annotations: &[(keys::NONE, "true")], goes: |_| Some(false) },
    Ask { annotations: &[(keys::ALL, "true")], goes: |_| Some(true) },
    Ask { annotations: &[(keys::ALL, "false")], goes: |_| None },
    Ask { annotations: &[(keys::ALL, "true"), (keys::NONE, "perhaps")], goes: |_| Some(false) },
    Ask { annotations: &[("propagate.hnc.x-k8s.io/non", "true")], goes: |_| Some(false) },
];
