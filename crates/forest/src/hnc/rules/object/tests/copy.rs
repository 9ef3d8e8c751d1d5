//! Copies: read-only to everybody, and by no way round.

use super::*;

#[test]
fn only_restore_identities_create_copies() {
    let mut settings: Settings = crate::cluster::settings();
    settings.restore_identities = vec![Identity("velero".into()), Identity("restorers".into())];
    let mut forest = Cluster::draw(TREE).forest_with(settings);
    let refused = Denied(Forbidden, &["hnc.x-k8s.io/inherited-from", "leave the label out"]);
    for from in ["top", "kid", "nowhere", ""] {
        let attempt = Try::create(Object::copy(from)).within("kid");
        attempt.expect(from, &mut forest, &refused);
        attempt.clone().named("").expect("with a generated name", &mut forest, &refused);
        attempt.clone().by("root", &["system:masters"]).expect("an admin", &mut forest, &refused);
        attempt.clone().by("velero", &[]).expect("a user that restores", &mut forest, &Allowed);
        attempt.by("job", &["restorers"]).expect("a group that restores", &mut forest, &Allowed);
    }
    let restorer = |attempt: Try| attempt.by("velero", &[]).within("kid");
    let changed = restorer(Try::update(Object::copy("top"), Object::role()));
    changed.expect("an update is no restore", &mut forest, &Denied(Forbidden, &["removed"]));
    let gone = restorer(Try::delete(Object::copy("top")));
    let verdict = gone.judge(&mut forest, &[("live kid", Yes)]);
    check("a deletion is no restore", &verdict, &Denied(Forbidden, &["\"top\""]));
}

#[test]
fn a_copy_goes_with_its_source_or_its_namespace() {
    let refused = || Denied(Forbidden, &["copy from namespace \"top\"", "delete it there"]);
    // Where it is asked how the namespace is: what the answer is.
    let cases: [(&str, &str, Option<Answer>, Expected); 7] = [
        ("the namespace stays", TREE, Some(Yes), refused()),
        ("it goes, and that is known", "top, kid!:top", None, Allowed),
        ("it goes, which is not known yet", TREE, Some(Terminating), Allowed),
        ("it is gone, which is not known yet", TREE, Some(No), Allowed),
        ("it is not known at all", "top", Some(Yes), refused()),
        ("it is gone", "top", Some(No), Allowed),
        ("it cannot be found out", TREE, Some(failed()), Denied(Internal, &["\"kid\""])),
    ];
    for (what, tree, answer, expected) in cases {
        let attempt = Try::delete(Object::copy("top")).within("kid");
        let dialogue: Vec<_> = answer.map(|answer| ("live kid", answer)).into_iter().collect();
        let verdict = attempt.judge(&mut Cluster::draw(tree).forest(), &dialogue);
        check(what, &verdict, &expected);
    }
}

/// The other namespace's end is no excuse.
#[test]
fn a_copy_stays_when_the_namespace_of_its_source_goes() {
    let attempt = Try::delete(Object::copy("top")).within("kid");
    let verdict = attempt.judge(&mut Cluster::draw("top!, kid:top").forest(), &[("live kid", Yes)]);
    check("the source's namespace goes", &verdict, &Denied(Forbidden, &["\"top\""]));
}

#[test]
fn the_label_stays_as_it_is() {
    let bare = Object::role().label("app.kubernetes.io/managed-by", "hnc.x-k8s.io");
    let cases = [
        ("changed", Object::copy("top"), Object::copy("side"), "changed"),
        ("emptied", Object::copy("top"), Object::copy(""), "changed"),
        ("filled", Object::copy(""), Object::copy("top"), "changed"),
        ("removed", Object::copy("top"), bare.clone(), "removed"),
        ("an empty one removed", Object::copy(""), bare.clone(), "removed"),
        ("added", bare.clone(), Object::copy("top"), "added"),
        ("an empty one added", bare, Object::copy(""), "added"),
    ];
    for (what, old, new, says) in cases {
        let verdict = Try::update(old, new).within("kid").judge(&mut forest(""), &[]);
        check(what, &verdict, &Denied(Forbidden, &["hnc.x-k8s.io/inherited-from", "create one"]));
        let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
        assert!(denial.message.contains(says), "{what}: {}", denial.message);
    }
}

fn copy() -> Object {
    Object::copy("top")
        .field("status", json!({"ready": false}))
        .annotate("note", "x")
        .label("helm.sh/chart", "c")
}

/// Everything that a request can change about a copy of a Role in `kid`.
#[test]
fn what_may_be_changed_about_a_copy() {
    let without = |object: Object, key: &str| {
        let mut object = object;
        object.labels.remove(key);
        object.annotations.remove(key);
        object
    };
    let mut fewer_fields = copy();
    fewer_fields.body.remove("rules");
    let tracked = || copy().annotate("argocd.argoproj.io/tracking-id", "a");
    let refused = |names| Denied(Forbidden, names);
    let cases: Vec<(&str, Object, Object, Expected)> = vec![
        ("nothing", copy(), copy(), Allowed),
        ("status", copy(), copy().field("status", json!({"ready": true})), Allowed),
        ("the version it is written in", copy(), copy().field("apiVersion", json!("x/v2")), Allowed),
        (
            "content",
            copy(),
            copy().field("rules", json!([])),
            refused(&["its content", "\"top\"", "change that one"]),
        ),
        ("more content", copy(), copy().field("data", json!({})), refused(&["its content"])),
        ("less content", copy(), fewer_fields, refused(&["its content"])),
        ("a new label", copy(), copy().label("x", ""), refused(&["the label x"])),
        ("another label", copy().label("x", "1"), copy().label("x", "2"), refused(&["the label x"])),
        ("a label less", copy().label("x", ""), copy(), refused(&["the label x"])),
        (
            "who manages it",
            copy(),
            copy().label("app.kubernetes.io/managed-by", "me"),
            refused(&["managed-by"]),
        ),
        ("a new annotation", copy(), copy().annotate("x", ""), refused(&["the annotation x"])),
        ("another annotation", copy(), copy().annotate("note", "y"), refused(&["the annotation note"])),
        ("an annotation less", copy(), without(copy(), "note"), refused(&["the annotation note"])),
        ("an exception", copy(), copy().asks("none", "true"), refused(&["propagate.hnc.x-k8s.io/none"])),
        ("an exception away", copy().asks("none", "true"), copy(), refused(&["propagate.hnc.x-k8s.io/none"])),
        (
            "a nonsense key",
            copy(),
            copy().annotate("foo.hnc.x-k8s.io/x", ""),
            refused(&["foo.hnc.x-k8s.io/x"]),
        ),
        ("a key of a tool away", tracked(), copy(), Allowed),
        ("a label of a tool away", tracked(), without(tracked(), "helm.sh/chart"), Allowed),
        ("a key of a tool set", copy(), tracked(), refused(&["argocd.argoproj.io/tracking-id"])),
        (
            "a key of a tool changed",
            tracked(),
            tracked().label("helm.sh/chart", "d"),
            refused(&["helm.sh/chart"]),
        ),
        (
            "a tool's and another",
            tracked(),
            without(without(tracked(), "note"), "helm.sh/chart"),
            refused(&["note"]),
        ),
    ];
    for (what, old, new, expected) in cases {
        Try::update(old, new).within("kid").expect(what, &mut forest(""), &expected);
    }
}

#[test]
fn with_tracking_metadata_propagated_it_is_content_like_any_other() {
    let mut settings = crate::cluster::settings();
    settings.propagate_tracking_metadata = true;
    let mut forest = Cluster::draw(TREE).forest_with(settings);
    let attempt = Try::update(Object::copy("top").label("helm.sh/chart", "c"), Object::copy("top"));
    attempt.within("kid").expect("removed", &mut forest, &Denied(Forbidden, &["helm.sh/chart"]));
}

#[test]
fn no_user_adds_a_finalizer_to_a_copy_and_every_user_may_remove_one() {
    let owner = |name: &str, blocks: Option<bool>| {
        let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name});
        if let Some(blocks) = blocks {
            owner["blockOwnerDeletion"] = json!(blocks);
        }
        owner
    };
    let with = |finalizers: &[&str], owners: &[&Value]| {
        let object = finalizers.iter().fold(copy(), |object, finalizer| object.finalizer(finalizer));
        owners.iter().fold(object, |object, owner| object.owner((*owner).clone()))
    };
    let (a, b) = (owner("a", None), owner("b", None));
    let (blocking, yielding) = (owner("a", Some(true)), owner("a", Some(false)));
    let refused = |names| Denied(Forbidden, names);
    let cases = [
        ("a finalizer", with(&[], &[]), with(&["x/y"], &[]), refused(&["\"x/y\"", "removed"])),
        ("another", with(&["x/y"], &[]), with(&["x/y", "z"], &[]), refused(&["\"z\""])),
        ("one for another", with(&["x/y"], &[]), with(&["z"], &[]), refused(&["\"z\""])),
        ("in another order", with(&["x", "y"], &[]), with(&["y", "x"], &[]), Allowed),
        ("off", with(&["x", "y"], &[]), with(&["y"], &[]), Allowed),
        ("all off", with(&["x", "y"], &[&a]), with(&[], &[]), Allowed),
        ("an owner", with(&[], &[]), with(&[], &[&a]), refused(&["\"a\"", "cannot own it"])),
        ("another owner", with(&[], &[&a]), with(&[], &[&a, &b]), refused(&["\"b\""])),
        ("one owner for another", with(&[], &[&a]), with(&[], &[&b]), refused(&["\"b\""])),
        ("an owner off", with(&[], &[&a, &b]), with(&[], &[&b]), Allowed),
        ("blocks", with(&[], &[&a]), with(&[], &[&blocking]), refused(&["\"a\""])),
        ("blocks no more", with(&[], &[&blocking]), with(&[], &[&yielding]), Allowed),
        ("no word of it", with(&[], &[&blocking]), with(&[], &[&a]), Allowed),
    ];
    for (what, old, new, expected) in cases {
        Try::update(old, new).within("kid").expect(what, &mut forest(""), &expected);
    }
}

/// Neither the name of a kind nor a place in no tree opens a way.
#[test]
fn copies_are_guarded_in_every_namespace() {
    for namespace in ["top", "low", "lone", "unheard-of"] {
        let attempt = Try::create(Object::copy("top")).within(namespace);
        attempt.expect(namespace, &mut forest(""), &Denied(Forbidden, &["copy"]));
    }
    let mut forest = forest_where("", in_mode(Mode::AllowPropagate));
    let attempt = Try::update(copy(), copy().label("x", "y")).within("kid");
    attempt.expect("AllowPropagate", &mut forest, &Denied(Forbidden, &["the label x"]));
    assert_eq!(attempt.user.name, USER);
}
