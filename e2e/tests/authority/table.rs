//! The consents for a change of parent: every row of the table of authorization, allowed and denied.
//!
//! In each case the user has every right on the child's own hierarchy configuration, so that RBAC denies nothing, and is admin of
//! exactly the namespaces that the case names: these rights are not propagated.

use anyhow::Result;

use super::fixture::{self, EXCLUDED, Scene};
use super::request::place;
use super::verdict::unauthorized;

const NEW: &str = "the new parent";
const ROOT: &str = "the root of the tree that it would leave";
const COMMON: &str = "the nearest common ancestor of its present and its new parent";

/// `(the present parent, the new one, the namespaces that the user is admin of, the missing consent)`
type Case = (&'static str, &'static str, &'static [&'static str], Option<(&'static str, &'static str)>);

/// Two trees: `one > middle > left, right` and `other > low`; `gone` and `lost`, which was below `one`, have been deleted, [`EXCLUDED`] is not managed.
const CASES: &[Case] = &[
    // A root joins a tree: only the new parent's admin decides.
    ("", "t-middle", &[], Some(("t-middle", NEW))),
    ("", "t-middle", &["t-one", "t-left", "t-low"], Some(("t-middle", NEW))),
    ("", "t-middle", &["t-middle"], None),
    // The same for a child of an unmanaged namespace, which may also become a root.
    (EXCLUDED, "t-middle", &[], Some(("t-middle", NEW))),
    (EXCLUDED, "t-middle", &["t-one", EXCLUDED], Some(("t-middle", NEW))),
    (EXCLUDED, "t-middle", &["t-middle"], None),
    (EXCLUDED, "", &[], None),
    // An orphan of which the whole tree is missing needs no consent of it, but still that of the new parent.
    ("t-gone", "t-middle", &[], Some(("t-middle", NEW))),
    ("t-gone", "t-middle", &["t-one"], Some(("t-middle", NEW))),
    ("t-gone", "t-middle", &["t-middle"], None),
    ("t-gone", "", &[], None),
    // An orphan belongs where its tree labels say: below its nearest ancestor that exists.
    ("t-lost", "", &[], Some(("t-one", ROOT))),
    ("t-lost", "", &["t-one"], None),
    ("t-lost", "t-low", &["t-low"], Some(("t-one", ROOT))),
    ("t-lost", "t-low", &["t-one", "t-low"], None),
    ("t-lost", "t-middle", &["t-middle"], Some(("t-one", COMMON))),
    ("t-lost", "t-one", &["t-one"], None),
    // Leaving a tree needs the root's admin; the admin of a nearer ancestor is not enough.
    ("t-left", "", &[], Some(("t-one", ROOT))),
    ("t-left", "", &["t-left", "t-middle"], Some(("t-one", ROOT))),
    ("t-left", "", &["t-one"], None),
    ("t-one", "", &["t-other"], Some(("t-one", ROOT))),
    ("t-one", "", &["t-one"], None),
    // A change of trees needs both consents; the old tree's is checked first.
    ("t-left", "t-low", &[], Some(("t-one", ROOT))),
    ("t-left", "t-low", &["t-low"], Some(("t-one", ROOT))),
    ("t-left", "t-low", &["t-left", "t-middle", "t-low"], Some(("t-one", ROOT))),
    ("t-left", "t-low", &["t-one"], Some(("t-low", NEW))),
    ("t-left", "t-low", &["t-one", "t-other"], Some(("t-low", NEW))),
    ("t-left", "t-low", &["t-one", "t-low"], None),
    // Within a tree, the nearest common ancestor's admin decides: not that of a higher ancestor, and not those of both parents.
    ("t-left", "t-right", &[], Some(("t-middle", COMMON))),
    ("t-left", "t-right", &["t-one"], Some(("t-middle", COMMON))),
    ("t-left", "t-right", &["t-left", "t-right"], Some(("t-middle", COMMON))),
    ("t-left", "t-right", &["t-middle"], None),
    // If the new parent is above or below the present one, the upper of the two is the common ancestor.
    ("t-left", "t-middle", &["t-left", "t-one"], Some(("t-middle", COMMON))),
    ("t-left", "t-middle", &["t-middle"], None),
    ("t-middle", "t-left", &["t-left", "t-one"], Some(("t-middle", COMMON))),
    ("t-middle", "t-left", &["t-middle"], None),
    ("t-left", "t-one", &["t-left", "t-middle"], Some(("t-one", COMMON))),
    ("t-left", "t-one", &["t-one"], None),
];

#[tokio::test]
async fn every_row_of_the_table_is_allowed_and_refused() -> Result<()> {
    let scene = fixture::scene().await?;
    let trees = [
        ("t-one", ""),
        ("t-middle", "t-one"),
        ("t-left", "t-middle"),
        ("t-right", "t-middle"),
        ("t-other", ""),
        ("t-low", "t-other"),
        ("t-gone", ""),
        ("t-lost", "t-one"),
    ];
    scene.steps.plant(&trees).await?;
    let children: Vec<String> = (0..CASES.len()).map(|number| format!("t-child-{number}")).collect();
    for (child, (present, ..)) in children.iter().zip(CASES) {
        scene.steps.create_namespace(child).await?;
        scene.put_below(child, present).await?;
    }
    for (child, _) in children.iter().zip(CASES).filter(|(_, (present, ..))| *present == "t-lost") {
        scene.steps.labelled(&[child, "t-lost", "t-one"]).await?;
    }
    scene.steps.delete_namespace("t-gone").await?;
    scene.steps.delete_namespace("t-lost").await?;
    for path in
        [["t-one", "t-middle", "t-left"].as_slice(), &["t-one", "t-middle", "t-right"], &["t-other", "t-low"]]
    {
        scene.known(path).await?;
    }
    for (child, case) in children.iter().zip(CASES) {
        scene.try_case(child, case).await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_is_admin_of_a_root_by_an_ordinary_binding_may_move_everything_below() -> Result<()> {
    let scene = fixture::scene().await?;
    scene
        .steps
        .plant(&[("o-root", ""), ("o-mid", "o-root"), ("o-leaf", "o-mid"), ("o-side", "o-root")])
        .await?;
    scene.steps.make_admin("o-root", "o-owner").await?;
    scene.steps.make_admin("o-mid", "o-manager").await?;
    for (user, namespace) in [("o-owner", "o-leaf"), ("o-owner", "o-side"), ("o-manager", "o-leaf")] {
        scene.may(user, (hns_api::GROUP, "hierarchyconfigurations"), namespace).await?;
    }
    scene.known(&["o-root", "o-mid", "o-leaf"]).await?;
    scene.known(&["o-root", "o-side"]).await?;

    let manager = scene.user("o-manager");
    unauthorized(
        "to a sibling tree",
        place(&manager, "o-leaf", "o-side").send().await,
        "o-manager",
        ("o-root", COMMON),
    );
    unauthorized(
        "out of the tree",
        place(&manager, "o-leaf", "").send().await,
        "o-manager",
        ("o-root", ROOT),
    );
    let owner = scene.user("o-owner");
    place(&owner, "o-leaf", "o-side").send().await?;
    scene.steps.labelled(&["o-leaf", "o-side", "o-root"]).await?;
    place(&owner, "o-leaf", "").send().await?;
    scene.steps.labelled(&["o-leaf"]).await
}

impl Scene {
    /// Sets the child's parent for the start of a case. The administrator may not set an unmanaged parent, so this uses the
    /// controller's account, which is not judged.
    async fn put_below(&self, child: &str, parent: &str) -> Result<()> {
        let client = match parent {
            EXCLUDED => self.user(hns_e2e::product::CONTROLLER_USER),
            _ => self.admin(),
        };
        if !parent.is_empty() {
            place(&client, child, parent).send().await?;
        }
        Ok(())
    }

    async fn try_case(&self, child: &str, (present, new, admin_of, missing): &Case) -> Result<()> {
        let user = format!("mover-of-{child}");
        let client = self.local_admin(&user, &[&[child], *admin_of].concat()).await?;
        let what = format!("{child}, {present:?} to {new:?} by the admin of {admin_of:?}");
        for attempt in [place(&client, child, new).dry(), place(&client, child, new)] {
            assert_eq!(self.parent(child).await?, *present, "{what}: moved too early");
            let result = attempt.send().await;
            match missing {
                Some(needed) => unauthorized(&what, result, &user, *needed),
                None => assert!(result.is_ok(), "{what}: {result:?}"),
            }
        }
        let stands = if missing.is_some() { present } else { new };
        assert_eq!(self.parent(child).await?, *stands, "{what}");
        println!("{what}: {}", if missing.is_some() { "stays" } else { "moved" });
        Ok(())
    }
}
