//! Writes of copies against an API server of a few answers: what cannot be made to happen on a real one when wanted.

use forest::Forest;
use forest::plan::Action;

use super::*;
use crate::apply::Applier;
use crate::fake::{Server, World, copy, deleted, failure, secret};

/// The only write that `leaf` needs.
fn action(world: &World) -> Action {
    let (_, _, plan) = world.plan();
    let actions: Vec<Action> = plan.actions().cloned().collect();
    let [action] = <[Action; 1]>::try_from(actions).expect("one write");
    action
}

async fn apply(world: &World, server: &Server) -> WriteResult {
    let kind = |id| world.forest.read(|forest| forest.kind(id).clone());
    let settings = world.forest.read(Forest::shared_settings);
    let namespace = Name::from("leaf");
    let client = server.client();
    let applier = Applier { client: &client, namespace: &namespace, kind: &kind, settings: &settings };
    let answer = applier.apply(&action(world)).await;
    assert!(server.is_exhausted(), "{:?}", server.methods());
    answer
}

fn to_be_created() -> World {
    World::of(&[secret("root", "1", "10", "new")])
}

fn to_be_replaced() -> World {
    World::of(&[secret("root", "1", "10", "new"), copy("2", "11", "old")])
}

fn immutable() -> Value {
    failure(422, "Invalid", "Secret \"s\" is invalid: data: Forbidden: field is immutable")
}

fn refused(answer: &WriteResult) -> &str {
    match &answer.outcome {
        Outcome::Refused(why) => why,
        other => unreachable!("{other:?}"),
    }
}

/// The facts, each in a word or two.
fn facts(answer: &WriteResult) -> Vec<String> {
    let word = |fact: &Fact| match fact {
        Fact::Object(_, seen) => format!("object {} {}", seen.version.uid, seen.version.resource_version),
        Fact::ObjectGone(_, _, _, uid) => format!("gone {uid}"),
        Fact::Accepted(..) => "accepted".into(),
        other => format!("{other:?}"),
    };
    answer.facts.iter().map(word).collect()
}

#[tokio::test]
async fn what_is_changed_gives_up_the_list_of_who_owns_its_fields() {
    let world = to_be_replaced();
    let server = Server::answering([copy("2", "12", "new")]);
    assert_eq!(apply(&world, &server).await.outcome, Outcome::Done);
    let (method, _, body) = &server.asked()[0];
    assert_eq!((&**method, &body["metadata"]["managedFields"]), ("PUT", &json!([{}])));
}

#[tokio::test]
async fn what_cannot_be_changed_is_rehearsed_deleted_and_created_anew() {
    let world = to_be_replaced();
    let server = Server::answering([immutable(), copy("x", "", "new"), deleted(), copy("3", "13", "new")]);
    let answer = apply(&world, &server).await;
    assert_eq!(answer.outcome, Outcome::Done);
    assert_eq!(facts(&answer), ["gone 2", "object 3 13"]);
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE", "POST"]);
    let asked = server.asked();
    let (_, path, rehearsed) = &asked[1];
    assert!(path.starts_with("/api/v1/namespaces/leaf/secrets?"), "{path}");
    assert_eq!(rehearsed["metadata"]["generateName"], "hns-rehearsal-");
    assert!(rehearsed["metadata"].get("name").is_none(), "{rehearsed}");
    assert_eq!(rehearsed["data"], json!({ "value": "new" }));
    let precondition = json!({ "uid": "2", "resourceVersion": "11" });
    assert_eq!(asked[2].2["preconditions"], precondition);
    assert_eq!(asked[3].2["metadata"]["name"], "s");
    assert!(asked[3].2["metadata"].get("resourceVersion").is_none());
}

#[tokio::test]
async fn a_refused_rehearsal_deletes_nothing_and_gives_both_reasons_in_the_same_words_each_time() {
    let mut texts = Vec::new();
    for random in ["b7x2k", "zzzzz"] {
        let text = format!("Secret \"hns-rehearsal-{random}\" is invalid: type: Required value");
        let server = Server::answering([immutable(), failure(422, "Invalid", &text)]);
        let answer = apply(&to_be_replaced(), &server).await;
        assert_eq!(server.methods(), ["PUT", "POST dry"]);
        texts.push(refused(&answer).to_owned());
    }
    assert_eq!(texts[0], texts[1]);
    for part in ["stays as it is", "field is immutable", "Secret \"s\" is invalid: type: Required value"] {
        assert!(texts[0].contains(part), "{}", texts[0]);
    }
}

#[tokio::test]
async fn one_reason_for_both_is_given_once() {
    let invalid =
        |name: &str| failure(422, "Invalid", &format!("Secret \"{name}\" is invalid: type: Required value"));
    let server = Server::answering([invalid("s"), invalid("hns-rehearsal-b7x2k")]);
    let answer = apply(&to_be_replaced(), &server).await;
    assert_eq!(
        refused(&answer),
        "it stays as it is, because it can neither be changed nor created anew (Secret \"s\" is invalid: type: Required \
         value)"
    );
}

#[tokio::test]
async fn nothing_is_deleted_unless_the_rehearsal_was_accepted() {
    let quota = "secrets \"hns-rehearsal-abcde\" is forbidden: exceeded quota: q";
    let table = [
        (failure(500, "InternalError", "failed calling webhook"), "transient"),
        (failure(429, "TooManyRequests", "slow down"), "transient"),
        (failure(409, "AlreadyExists", "the server was not able to generate a unique name"), "conflict"),
        (failure(403, "Forbidden", quota), "refused"),
        (failure(400, "BadRequest", "a webhook does not support dry run"), "refused"),
        (failure(404, "NotFound", "the namespace is gone"), "not_found"),
    ];
    for (rehearsed, outcome) in table {
        let server = Server::answering([immutable(), rehearsed.clone()]);
        let answer = apply(&to_be_replaced(), &server).await;
        assert_eq!(answer.outcome.label(), outcome, "{rehearsed}");
        assert_eq!(server.methods(), ["PUT", "POST dry"], "{rehearsed}");
    }
}

#[tokio::test]
async fn only_invalid_is_a_reason_to_create_anew() {
    for code in [400, 401, 403, 404, 409, 413, 429, 500, 503] {
        let server = Server::answering([failure(code, "Whatever", "no")]);
        apply(&to_be_replaced(), &server).await;
        assert_eq!(server.methods(), ["PUT"], "{code}");
    }
}

#[tokio::test]
async fn what_somebody_holds_is_not_created_before_it_is_gone() {
    let mut held = copy("2", "14", "old");
    held["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    held["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let server = Server::answering([immutable(), copy("x", "", "new"), held]);
    let world = to_be_replaced();
    let answer = apply(&world, &server).await;
    assert!(
        matches!(&answer.outcome, Outcome::Blocked(why) if why.contains("example.com/mine")),
        "{answer:?}"
    );
    assert_eq!(facts(&answer), ["object 2 14"]);
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE"]);
    world.writer.tell(answer.facts);
    assert_eq!(world.plan().2.actions().count(), 0, "no busy loop: there is nothing to do until it is gone");
}

#[tokio::test]
async fn an_object_in_the_answer_to_its_deletion_is_gone_unless_something_holds_it() {
    let world = World::of(&[copy("2", "11", "old")]);
    let server = Server::answering([copy("2", "11", "old")]);
    let answer = apply(&world, &server).await;
    assert_eq!((answer.outcome.label(), facts(&answer)), ("done", vec!["gone 2".to_owned()]));
}

#[tokio::test]
async fn a_deletion_of_another_state_ends_the_creation_anew() {
    let server = Server::answering([
        immutable(),
        copy("x", "", "new"),
        failure(409, "Conflict", "precondition failed"),
    ]);
    let answer = apply(&to_be_replaced(), &server).await;
    assert_eq!(answer.outcome, Outcome::Conflict);
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE"]);
}

#[tokio::test]
async fn what_is_refused_after_all_is_known_to_be_gone() {
    let no = failure(403, "Forbidden", "denied by policy");
    let server = Server::answering([immutable(), copy("x", "", "new"), deleted(), no]);
    let answer = apply(&to_be_replaced(), &server).await;
    assert_eq!((refused(&answer), facts(&answer)), ("denied by policy", vec!["gone 2".to_owned()]));
}

#[tokio::test]
async fn a_name_that_is_taken_by_what_the_watch_will_show_is_planned_again() {
    let taken = || failure(409, "AlreadyExists", "secrets \"s\" already exists");
    let world = to_be_created().overwriting();
    let server = Server::answering([taken(), secret("leaf", "9", "12", "own")]);
    let answer = apply(&world, &server).await;
    assert_eq!((answer.outcome.label(), facts(&answer)), ("conflict", vec!["object 9 12".to_owned()]));
    world.writer.tell(answer.facts);
    assert!(matches!(action(&world), Action::Replace { version, .. } if *version.uid == *"9"));

    let server = Server::answering([taken(), failure(404, "NotFound", "gone again")]);
    let answer = apply(&to_be_created(), &server).await;
    assert_eq!((answer.outcome.label(), facts(&answer)), ("conflict", vec![]));
}

#[tokio::test]
async fn a_name_that_is_taken_by_what_no_watch_shows_is_reported_and_left_alone() {
    for type_ in ["kubernetes.io/service-account-token", "helm.sh/release.v1"] {
        let mut own = secret("leaf", "9", "12", "own");
        own["type"] = json!(type_);
        let taken = failure(409, "AlreadyExists", "secrets \"s\" already exists");
        let server = Server::answering([taken, own]);
        let answer = apply(&to_be_created(), &server).await;
        assert!(refused(&answer).contains(type_) && answer.facts.is_empty(), "{answer:?}");
        assert_eq!(server.methods(), ["POST", "GET"]);
    }
}

#[tokio::test]
async fn a_missing_right_names_the_verb_that_was_tried() {
    let denied = |verb: &str| {
        let text = format!(
            "User \"hns\" cannot {verb} resource \"secrets\" in API group \"\" in the namespace \"leaf\""
        );
        failure(403, "Forbidden", &text)
    };
    let named = |verb: &str| format!("the controller has no right to {verb} secrets in namespace \"leaf\"");
    let table = [
        (to_be_created(), vec![denied("create")], named("create")),
        (to_be_replaced(), vec![denied("update")], named("update")),
        (World::of(&[copy("2", "11", "old")]), vec![denied("delete")], named("delete")),
        (to_be_replaced(), vec![immutable(), copy("x", "", "new"), denied("delete")], named("delete")),
        (to_be_replaced(), vec![immutable(), denied("create")], named("create")),
    ];
    for (world, answers, text) in table {
        let answer = apply(&world, &Server::answering(answers)).await;
        assert!(refused(&answer).contains(&text), "{answer:?}");
    }
}

#[tokio::test]
async fn what_the_api_server_completes_is_accepted_as_it_is() {
    for (completed, told) in [(false, vec!["object 3 12"]), (true, vec!["object 3 12", "accepted"])] {
        let mut stored = copy("3", "12", "new");
        if completed {
            stored["immutable"] = json!(false);
        }
        let world = to_be_created();
        let answer = apply(&world, &Server::answering([stored])).await;
        assert_eq!(facts(&answer), told);
        world.writer.tell(answer.facts);
        assert_eq!(world.plan().2.actions().count(), 0, "it is not written again");
    }
}

#[test]
fn names_of_rehearsals_are_taken_out() {
    let table = [
        ("no such name", "no such name"),
        ("\"hns-rehearsal-ab12c\" is bad", "\"s\" is bad"),
        ("hns-rehearsal-ab12c and hns-rehearsal-xy34z", "s and s"),
        ("hns-rehearsal-", "s"),
        ("hns-rehearsal-é", "sé"),
        ("hns-rehearsal-ab", "s"),
    ];
    for (text, clean) in table {
        assert_eq!(without_rehearsal(text, "s"), clean, "{text}");
    }
}
