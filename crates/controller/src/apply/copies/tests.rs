//! Writes copies to a fake API server with prepared responses, for cases that are hard to produce on a real one.

use forest::plan::Action;
use hns_cluster::stored::Store;
use serde_json::Value;

use super::*;
use crate::apply::Applier;
use crate::fake::{Server, World, copy, deleted, failure, secret, secrets_kind};

/// The only write that `leaf` needs.
fn action(world: &World) -> Action {
    let (_, _, plan) = world.plan();
    let actions: Vec<Action> = plan.actions().cloned().collect();
    let [action] = <[Action; 1]>::try_from(actions).expect("one write");
    action
}

async fn apply(world: &World, server: &Server) -> WriteResult {
    let namespace = Name::from("leaf");
    let client = server.client();
    let store = Store::new(client.clone(), "hnc-system");
    let applier = Applier { client: &client, namespace: &namespace, forest: &world.forest, store: &store };
    let result = applier.apply(&action(world)).await;
    assert!(server.is_exhausted(), "{:?}", server.methods());
    result
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

fn refused(result: &WriteResult) -> &str {
    match &result.outcome {
        Outcome::Refused(why) => why,
        other => unreachable!("{other:?}"),
    }
}

/// A short text for each fact.
fn facts(result: &WriteResult) -> Vec<String> {
    let word = |fact: &Fact| match fact {
        Fact::Object(_, seen) => format!("object {} {}", seen.version.uid, seen.version.resource_version),
        Fact::ObjectGone(_, _, _, uid) => format!("gone {uid}"),
        Fact::Accepted(..) => "accepted".into(),
        other => format!("{other:?}"),
    };
    result.facts.iter().map(word).collect()
}

#[tokio::test]
async fn an_update_clears_managed_fields() {
    let world = to_be_replaced();
    let server = Server::answering([copy("2", "12", "new")]);
    assert_eq!(apply(&world, &server).await.outcome, Outcome::Done);
    let (method, _, body) = &server.asked()[0];
    assert_eq!((&**method, &body["metadata"]["managedFields"]), ("PUT", &json!([{}])));
}

#[tokio::test]
async fn a_copy_that_cannot_be_updated_is_tried_deleted_and_created_again() {
    let world = to_be_replaced();
    let server = Server::answering([immutable(), copy("x", "", "new"), deleted(), copy("3", "13", "new")]);
    let result = apply(&world, &server).await;
    assert_eq!(result.outcome, Outcome::Done);
    assert_eq!(facts(&result), ["gone 2", "object 3 13"]);
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE", "POST"]);
    let asked = server.asked();
    let (_, path, tried) = &asked[1];
    assert!(path.starts_with("/api/v1/namespaces/leaf/secrets?"), "{path}");
    assert_eq!(tried["metadata"]["generateName"], "hns-dry-run-");
    assert!(tried["metadata"].get("name").is_none(), "{tried}");
    assert_eq!(tried["data"], json!({ "value": "new" }));
    let precondition = json!({ "uid": "2", "resourceVersion": "11" });
    assert_eq!(asked[2].2["preconditions"], precondition);
    assert_eq!(asked[3].2["metadata"]["name"], "s");
    assert!(asked[3].2["metadata"].get("resourceVersion").is_none());
}

#[tokio::test]
async fn in_a_namespace_that_is_being_deleted_a_copy_that_cannot_be_updated_is_deleted() {
    let mut ending = failure(403, "Forbidden", "the namespace is being terminated");
    ending["details"] =
        json!({ "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "" }] });
    let server = Server::answering([immutable(), ending, deleted()]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!((&result.outcome, facts(&result)), (&Outcome::Done, vec!["gone 2".into()]));
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE"]);
}

/// A `ResourceQuota` with other scopes must be created again. Otherwise one from another namespace would keep out that from above.
#[tokio::test]
async fn a_restriction_is_deleted_only_if_it_can_be_created_again() {
    let mut ending = failure(403, "Forbidden", "the namespace is being terminated");
    ending["details"] =
        json!({ "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "" }] });
    let refusal = failure(403, "Forbidden", "exceeded quota: q");
    let written = vec![copy("x", "", "new"), deleted(), copy("3", "13", "new")];
    for (answers, methods, is_written) in [
        (vec![refusal], &["PUT", "POST dry"][..], false),
        (vec![ending], &["PUT", "POST dry"], false),
        (written, &["PUT", "POST dry", "DELETE", "POST"], true),
    ] {
        let world = to_be_replaced();
        let action = action(&world);
        let Action::ReplaceCopy { key, version, source, content } = &action else {
            unreachable!("{action:?}")
        };
        let server = Server::answering([immutable()].into_iter().chain(answers));
        let (client, namespace) = (server.client(), Name::from("leaf"));
        let store = Store::new(client.clone(), "hnc-system");
        let applier =
            Applier { client: &client, namespace: &namespace, forest: &world.forest, store: &store };
        let quota =
            Kind { kind: "ResourceQuota".into(), resource: "resourcequotas".into(), ..secrets_kind() };
        let writer = CopyWriter { kind: quota, ..applier.copy(Form::Hnc, key) };
        let result = writer.replace(version, source, content).await;
        assert_eq!(server.methods(), methods);
        assert_eq!(result.outcome == Outcome::Done, is_written, "{result:?}");
        assert!(is_written || refused(&result).contains("field is immutable"), "{result:?}");
    }
}

/// Kubernetes would not count again what an update of the same limits keeps.
#[tokio::test]
async fn a_quota_of_a_user_is_not_taken_over_with_the_usage_that_it_records() {
    let world = to_be_replaced();
    let action = action(&world);
    let Action::ReplaceCopy { key, version, source, content } = &action else { unreachable!("{action:?}") };
    let tried = [copy("x", "", "new"), failure(403, "Forbidden", "exceeded quota: q")];
    let written = [vec![deleted(), copy("3", "13", "new")], vec![copy("2", "12", "new")]];
    let methods = [&["POST dry", "DELETE", "POST"][..], &["POST dry", "PUT"]];
    for ((tried, written), methods) in tried.into_iter().zip(written).zip(methods) {
        let server = Server::answering([tried].into_iter().chain(written));
        let (client, namespace) = (server.client(), Name::from("leaf"));
        let store = Store::new(client.clone(), "hnc-system");
        let applier =
            Applier { client: &client, namespace: &namespace, forest: &world.forest, store: &store };
        let writer = CopyWriter { claims_usage: true, ..applier.copy(Form::Hnc, key) };
        let result = writer.replace(version, source, content).await;
        assert_eq!(result.outcome, Outcome::Done);
        assert_eq!(server.methods(), methods);
    }
}

#[tokio::test]
async fn a_refused_dry_run_deletes_nothing_and_both_reasons_have_the_same_text_each_time() {
    let mut texts = Vec::new();
    for random in ["b7x2k", "zzzzz"] {
        let text = format!("Secret \"hns-dry-run-{random}\" is invalid: type: Required value");
        let server = Server::answering([immutable(), failure(422, "Invalid", &text)]);
        let result = apply(&to_be_replaced(), &server).await;
        assert_eq!(server.methods(), ["PUT", "POST dry"]);
        texts.push(refused(&result).to_owned());
    }
    assert_eq!(texts[0], texts[1]);
    for part in ["stays unchanged", "field is immutable", "Secret \"s\" is invalid: type: Required value"] {
        assert!(texts[0].contains(part), "{}", texts[0]);
    }
}

#[tokio::test]
async fn the_same_reason_appears_once() {
    let invalid =
        |name: &str| failure(422, "Invalid", &format!("Secret \"{name}\" is invalid: type: Required value"));
    let server = Server::answering([invalid("s"), invalid("hns-dry-run-b7x2k")]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!(
        refused(&result),
        "it stays unchanged, because the API server refuses both its update and its creation (Secret \"s\" is invalid: \
         type: Required value)"
    );
}

#[tokio::test]
async fn nothing_is_deleted_unless_the_dry_run_succeeds() {
    let quota = "secrets \"hns-dry-run-abcde\" is forbidden: exceeded quota: q";
    let table = [
        (failure(500, "InternalError", "failed calling webhook"), "transient"),
        (failure(429, "TooManyRequests", "slow down"), "transient"),
        (failure(409, "AlreadyExists", "the server was not able to generate a unique name"), "conflict"),
        (failure(403, "Forbidden", quota), "refused"),
        (failure(400, "BadRequest", "a webhook does not support dry run"), "refused"),
        (failure(404, "NotFound", "the namespace is gone"), "not_found"),
    ];
    for (response, outcome) in table {
        let server = Server::answering([immutable(), response.clone()]);
        let result = apply(&to_be_replaced(), &server).await;
        assert_eq!(result.outcome.label(), outcome, "{response}");
        assert_eq!(server.methods(), ["PUT", "POST dry"], "{response}");
    }
}

#[tokio::test]
async fn only_an_invalid_update_leads_to_deletion_and_creation() {
    for code in [400, 401, 403, 404, 413, 429, 500, 503] {
        let server = Server::answering([failure(code, "Whatever", "no")]);
        apply(&to_be_replaced(), &server).await;
        assert_eq!(server.methods(), ["PUT"], "{code}");
    }
}

/// The watch may have lost the change that the precondition reports.
#[tokio::test]
async fn after_a_conflict_the_object_is_read() {
    let conflict = || failure(409, "Conflict", "the object has been modified");
    let server = Server::answering([conflict(), copy("2", "12", "newer")]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!((&result.outcome, result.facts.len()), (&Outcome::Conflict, 1), "{result:?}");
    assert_eq!(server.methods(), ["PUT", "GET"]);
    let server = Server::answering([conflict(), copy("2", "12", "newer")]);
    let result = apply(&World::of(&[copy("2", "11", "old")]), &server).await;
    assert_eq!((&result.outcome, result.facts.len()), (&Outcome::Conflict, 1), "{result:?}");
    assert_eq!(server.methods(), ["DELETE", "GET"]);
}

/// Somebody may change the managers of a copy all the time.
#[tokio::test]
async fn a_write_does_not_wait_for_who_changes_only_managers() {
    let conflict = || failure(409, "Conflict", "the object has been modified");
    let server = Server::answering([conflict(), copy("2", "12", "old"), copy("2", "14", "new")]);
    assert_eq!(apply(&to_be_replaced(), &server).await.outcome, Outcome::Done);
    let asked = server.asked();
    assert_eq!(server.methods(), ["PUT", "GET", "PUT"]);
    let metadata = &asked[2].2["metadata"];
    assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("2"), &json!("")));

    let server = Server::answering([conflict(), copy("2", "12", "old"), deleted()]);
    assert_eq!(apply(&World::of(&[copy("2", "11", "old")]), &server).await.outcome, Outcome::Done);
    assert_eq!(server.methods(), ["DELETE", "GET", "DELETE"]);
    assert_eq!(server.asked()[2].2["preconditions"], json!({ "uid": "2" }));

    for other in [copy("3", "12", "old"), secret("leaf", "2", "12", "old")] {
        let server = Server::answering([conflict(), other]);
        assert_eq!(apply(&to_be_replaced(), &server).await.outcome, Outcome::Conflict);
        assert_eq!(server.methods(), ["PUT", "GET"]);
    }
}

/// A user cannot keep an object that must be replaced by a finalizer on it.
#[tokio::test]
async fn an_object_that_must_be_created_again_loses_its_finalizers() {
    let mut held = copy("2", "14", "old");
    held["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    held["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let mut released = held.clone();
    released["metadata"]["finalizers"] = json!([]);
    let server =
        Server::answering([immutable(), copy("x", "", "new"), held, released, copy("3", "20", "new")]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!(result.outcome.label(), "done", "{result:?}");
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE", "PUT", "POST"]);
    assert_eq!(facts(&result)[0], "gone 2");
}

#[tokio::test]
async fn an_object_in_the_response_to_its_deletion_is_gone_unless_it_has_finalizers() {
    let world = World::of(&[copy("2", "11", "old")]);
    let server = Server::answering([copy("2", "11", "old")]);
    let result = apply(&world, &server).await;
    assert_eq!((result.outcome.label(), facts(&result)), ("done", vec!["gone 2".to_owned()]));
}

#[tokio::test]
async fn a_failed_precondition_of_the_deletion_stops_the_write() {
    let server = Server::answering([
        immutable(),
        copy("x", "", "new"),
        failure(409, "Conflict", "precondition failed"),
        copy("2", "12", "newer"),
    ]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!(result.outcome, Outcome::Conflict);
    assert_eq!(server.methods(), ["PUT", "POST dry", "DELETE", "GET"]);
}

#[tokio::test]
async fn when_the_creation_is_refused_the_deletion_is_still_recorded() {
    let no = failure(403, "Forbidden", "denied by policy");
    let server = Server::answering([immutable(), copy("x", "", "new"), deleted(), no]);
    let result = apply(&to_be_replaced(), &server).await;
    assert_eq!((refused(&result), facts(&result)), ("denied by policy", vec!["gone 2".to_owned()]));
}

#[tokio::test]
async fn an_existing_object_that_is_watched_leads_to_a_new_plan() {
    let taken = || failure(409, "AlreadyExists", "secrets \"s\" already exists");
    let world = to_be_created().overwriting();
    let server = Server::answering([taken(), secret("leaf", "9", "12", "own")]);
    let result = apply(&world, &server).await;
    assert_eq!((result.outcome.label(), facts(&result)), ("conflict", vec!["object 9 12".to_owned()]));
    world.writer.tell(result.facts);
    assert!(matches!(action(&world), Action::ReplaceCopy { version, .. } if *version.uid == *"9"));

    let server = Server::answering([taken(), failure(404, "NotFound", "gone again")]);
    let result = apply(&to_be_created(), &server).await;
    assert_eq!((result.outcome.label(), facts(&result)), ("conflict", vec![]));
}

#[tokio::test]
async fn an_existing_object_that_is_not_watched_is_reported_and_stays() {
    for type_ in ["kubernetes.io/service-account-token", "helm.sh/release.v1"] {
        let mut own = secret("leaf", "9", "12", "own");
        own["type"] = json!(type_);
        let taken = failure(409, "AlreadyExists", "secrets \"s\" already exists");
        let server = Server::answering([taken, own]);
        let result = apply(&to_be_created(), &server).await;
        assert!(refused(&result).contains(type_) && result.facts.is_empty(), "{result:?}");
        assert_eq!(server.methods(), ["POST", "GET"]);
    }
}

#[tokio::test]
async fn a_missing_right_names_the_verb() {
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
    for (world, responses, text) in table {
        let result = apply(&world, &Server::answering(responses)).await;
        assert!(refused(&result).contains(&text), "{result:?}");
    }
}

#[tokio::test]
async fn content_with_defaults_of_the_api_server_is_not_written_again() {
    for (completed, told) in [(false, vec!["object 3 12"]), (true, vec!["object 3 12", "accepted"])] {
        let mut stored = copy("3", "12", "new");
        if completed {
            stored["immutable"] = json!(false);
        }
        let world = to_be_created();
        let result = apply(&world, &Server::answering([stored])).await;
        assert_eq!(facts(&result), told);
        world.writer.tell(result.facts);
        assert_eq!(world.plan().2.actions().count(), 0, "it is not written again");
    }
}

#[test]
fn generated_names_are_replaced() {
    let table = [
        ("no such name", "no such name"),
        ("\"hns-dry-run-ab12c\" is bad", "\"s\" is bad"),
        ("hns-dry-run-ab12c and hns-dry-run-xy34z", "s and s"),
        ("hns-dry-run-", "s"),
        ("hns-dry-run-é", "sé"),
        ("hns-dry-run-ab", "s"),
    ];
    for (text, clean) in table {
        assert_eq!(with_name(text, "s"), clean, "{text}");
    }
}

#[test]
fn no_text_of_a_user_is_taken_for_the_refusal_of_a_probe() {
    let object = "secrets \"hns-dry-run-ab12c\" is forbidden: ";
    let policy = "ValidatingAdmissionPolicy 'hns-copies' with binding 'hns-copies' denied request: no";
    let webhook = names::webhooks::COPIES;
    for (message, is_refused) in [
        (format!("{object}{policy}"), true),
        (format!("admission webhook \"{webhook}\" denied the request: no"), true),
        (format!("Internal error occurred: failed calling webhook \"{webhook}\": timeout"), true),
        (format!("{object}exceeded quota: {policy}"), false),
        (format!("{object}a plugin says: \"x\" is forbidden: {policy}"), false),
        (format!("admission webhook \"other\" denied the request: admission webhook \"{webhook}\""), false),
        (policy.to_owned(), false),
        (format!("roles \"a name \\\" is forbidden: {policy}\" is forbidden: exceeded quota"), false),
        (format!("roles \"a\\\\\" is forbidden: {policy}"), true),
    ] {
        assert_eq!(is_guard_refusal(&message), is_refused, "{message}");
    }
}
