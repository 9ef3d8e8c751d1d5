//! Row 12: whose consent is needed, and whose is not.

use super::*;

/// The forest, the move of "child", and whose consent is asked in which role.
type Consents = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const ROOT: &str = "the root of the tree";
const NEW: &str = "the new parent";
const COMMON: &str = "the nearest common ancestor";

const CONSENTS: [Consents; 20] = [
    // From nothing.
    ("child, p", "> p", &[("p", NEW)]),
    ("child, top, p:top", "> p", &[("p", NEW)]),
    ("child, p:gone", "> p", &[("p", NEW)]),
    // From an unmanaged parent.
    ("child:kube-system, kube-system, p", "kube-system > p", &[("p", NEW)]),
    ("child:kube-system, kube-system, p", "kube-system >", &[]),
    // To nothing.
    ("c, child:c", "c >", &[("c", ROOT)]),
    ("top, mid:top, c:mid, child:c", "c >", &[("top", ROOT)]),
    // To another tree.
    ("c, child:c, p", "c > p", &[("c", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, other, p:other", "c > p", &[("top", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, p:gone", "c > p", &[("top", ROOT), ("p", NEW)]),
    ("top, c:top, child:c, p:q, q:p", "c > p", &[("top", ROOT), ("p", NEW)]),
    // Within the tree.
    ("top, c:top, child:c, p:top", "c > p", &[("top", COMMON)]),
    ("top, m:top, c:m, child:c, p:m", "c > p", &[("m", COMMON)]),
    ("top, p:top, c:p, child:c", "c > p", &[("p", COMMON)]),
    ("c, child:c, p:c", "c > p", &[("c", COMMON)]),
    ("top, c:top, child:c, l:c, p:l", "c > p", &[("c", COMMON)]),
    // Out of a cycle: where the way up from the present parent comes round.
    ("child:b, b:child", "b >", &[("b", ROOT)]),
    ("child:b, b:c, c:child", "b >", &[("b", ROOT)]),
    ("child:b, b:child, p", "b > p", &[("b", ROOT), ("p", NEW)]),
    ("child:child, p", "child >", &[("child", ROOT)]),
];

/// Two rows each: everybody whose consent is needed has given it, or the one named has not.
#[test]
fn row_12_consent_comes_from_above() {
    for (text, parents, consents) in CONSENTS {
        let request = update("child", parents);
        let forest = || Cluster::draw(text).forest();
        let what = format!("{parents}, in {text:?}");
        let questions: Vec<String> = consents.iter().map(|(name, _)| format!("admin {name}")).collect();
        let dialogue = |answer: &dyn Fn(usize) -> Answer| -> Vec<(&str, Answer)> {
            questions.iter().enumerate().map(|(at, it)| (&**it, answer(at))).collect()
        };
        let given = dialogue(&|_| Yes);
        check(&what, &judge(&mut forest(), &request, &given, |_| ()), &Allowed);
        for (missing, (name, role)) in consents.iter().enumerate() {
            let refused = dialogue(&|at| if at == missing { No } else { Yes });
            let verdict = judge(&mut forest(), &request, &refused, |_| ());
            let quoted = format!("{name:?}");
            check(&what, &verdict, &Denied(Unauthorized, &[USER, "\"child\"", "hierarchyconfigurations"]));
            let Verdict::Deny(denial) = verdict else { panic!("{what}: {verdict:?}") };
            for named in [&*quoted, role] {
                assert!(denial.message.contains(named), "{what}: {named:?} is not in {:?}", denial.message);
            }
            let unclear = dialogue(&|at| if at == missing { failed() } else { Yes });
            let verdict = judge(&mut forest(), &request, &unclear, |_| ());
            check(&what, &verdict, &Denied(Internal, &["connection refused"]));
        }
        // The first in the table's order is the one to hear of.
        let verdict = judge(&mut forest(), &request, &dialogue(&|_| No), |_| ());
        if let (Some((name, role)), Verdict::Deny(denial)) = (consents.first(), &verdict) {
            assert!(denial.message.contains(&format!("{name:?}, which is {role}")), "{what}: {denial:?}");
        } else {
            check(&what, &verdict, &Allowed);
        }
    }
}

/// A user may have the right to create or patch `HierarchyConfigurations` everywhere, and is admin only where they may update them.
#[test]
fn the_admin_of_the_namespace_consents_too() {
    const ITSELF: Expected =
        Denied(Unauthorized, &["\"child\", which is the namespace whose parent would change"]);
    check_all([
        ("joins", "child, p", create("child", "p"), vec![("admin p", Yes), ("admin child", No)], ITSELF),
        ("leaves", "p, child:p", update("child", "p >"), vec![("admin p", Yes), ("admin child", No)], ITSELF),
        (
            "leaves",
            "p, child:p",
            update("child", "p >"),
            vec![("admin p", Yes), ("admin child", Yes)],
            Allowed,
        ),
        (
            "names a missing parent",
            "child",
            create("child", "p"),
            vec![("live p", No), ("create p", Yes), ("hierarchy p", Yes), ("admin child", No)],
            ITSELF,
        ),
        ("stays", "p, child:p", update("child", "p > p"), vec![], Allowed),
    ]);
}

#[test]
fn row_12_a_missing_parent_needs_no_consent_of_its_tree() {
    check_all([
        (
            "an orphan joins with the consent of its new parent",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", No), ("admin p", Yes)],
            Allowed,
        ),
        (
            "and not without",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", No), ("admin p", No)],
            Denied(Unauthorized, &[USER, "\"p\"", "the new parent"]),
        ),
        (
            "an orphan becomes a root",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", No)],
            Allowed,
        ),
        (
            "the parent is there after all",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", Yes), ("await gone", No)],
            Denied(Unavailable, &["\"gone\""]),
        ),
        (
            "the parent is going, not gone",
            "child:gone, p",
            update("child", "gone > p"),
            vec![("live gone", Terminating), ("await gone", No)],
            Denied(Unavailable, &["\"gone\""]),
        ),
        (
            "the parent cannot be read",
            "child:gone",
            update("child", "gone >"),
            vec![("live gone", failed())],
            Denied(Internal, &["\"gone\"", "connection refused"]),
        ),
    ]);
    let mut cluster = Cluster::draw("top, child:gone");
    let mut forest = cluster.forest();
    let dialogue = [("live gone", Yes), ("await gone", Yes), ("admin gone", No)];
    let verdict = judge(&mut forest, &update("child", "gone >"), &dialogue, |it| {
        it.apply(cluster.namespace("gone"));
    });
    check("it arrives, and its admin is asked", &verdict, &Denied(Unauthorized, &["\"gone\"", "the root"]));
}
