//! Templates and their instances (section 8.1 of Accurate's contract).

use serde_json::{Value, json};

use super::scene::{
    CREATED_BY, FROM, PROPAGATE, SECRETS, TEMPLATE, TYPE, annotation, at, label, namespace, path, scene,
};

#[tokio::test]
async fn an_instance_follows_its_template_and_another_one_after_that() {
    let scene = scene().await;
    for (name, team) in [("te-one", "one"), ("te-two", "two")] {
        scene.create_namespace(name, json!({ TYPE: "template", "team": team })).await;
        for mode in ["create", "update"] {
            let metadata = json!({ "labels": { "kept": "1", "app.kubernetes.io/name": "x" },
                "annotations": { "kept": "2", "kubectl.kubernetes.io/x": "y" } });
            scene
                .create(SECRETS, name, &format!("{mode}-{name}"), mode, json!({ "metadata": metadata }))
                .await;
        }
    }
    scene
        .patch(
            &namespace("te-one"),
            json!({ "metadata": { "labels": { "zone": "z" }, "annotations": { "note": "n" } } }),
        )
        .await;
    scene.create_namespace("te-instance", json!({ "team": "own" })).await;
    scene.create(SECRETS, "te-instance", "own", "update", json!({})).await;
    let follow = async |template: Value| {
        let patch = json!({ "metadata": { "labels": { TEMPLATE: template } } });
        scene.send_until_allowed("PATCH", &namespace("te-instance"), patch).await;
    };
    follow("te-one".into()).await;
    for mode in ["create", "update"] {
        let copy = scene.copied(SECRETS, "te-one", "te-instance", &format!("{mode}-te-one")).await;
        assert_eq!(copy["metadata"]["labels"], json!({ "kept": "1", CREATED_BY: "accurate" }));
        let annotations = json!({ "kept": "2", PROPAGATE: mode, FROM: "te-one" });
        assert_eq!(copy["metadata"]["annotations"], annotations, "excluded keys are not copied");
    }
    let is_of_one =
        |it: &Value| label(it, "team") == "one" && label(it, "zone") == "z" && annotation(it, "note") == "n";
    scene.until(&namespace("te-instance"), "has the labels of its template", is_of_one).await;
    follow("te-two".into()).await;
    scene.copied(SECRETS, "te-two", "te-instance", "update-te-two").await;
    scene.gone(&path(SECRETS, "te-instance", "update-te-one")).await;
    scene.copied(SECRETS, "te-one", "te-instance", "create-te-one").await;
    let is_of_two = |it: &Value| {
        label(it, "team") == "two" && label(it, "zone").is_null() && annotation(it, "note").is_null()
    };
    scene.until(&namespace("te-instance"), "has the labels of the other", is_of_two).await;
    follow(Value::Null).await;
    scene.gone(&path(SECRETS, "te-instance", "update-te-two")).await;
    let own = scene.get(&path(SECRETS, "te-instance", "own")).await.unwrap();
    assert!(own.is_some(), "an original is never deleted");
    let kept = scene.get(&namespace("te-instance")).await.unwrap().unwrap();
    assert_eq!(label(&kept, "team"), "two", "labels stay");
}

#[tokio::test]
async fn templates_form_chains_and_a_sub_namespace_can_be_one() {
    let scene = scene().await;
    scene.create_namespace("ch-top", json!({ TYPE: "template", "team": "top" })).await;
    scene.create_namespace("ch-mid", json!({ TYPE: "template", TEMPLATE: "ch-top", "team": "local" })).await;
    scene.create_namespace("ch-root", json!({ TYPE: "root", TEMPLATE: "ch-mid" })).await;
    scene.create_sub("ch-root", "ch-sub", json!({})).await;
    scene.create_namespace("ch-instance", json!({ TEMPLATE: "ch-sub" })).await;
    scene.create(SECRETS, "ch-top", "s", "update", json!({ "data": { "k": "dg==" } })).await;
    for (from, to) in
        [("ch-top", "ch-mid"), ("ch-mid", "ch-root"), ("ch-root", "ch-sub"), ("ch-sub", "ch-instance")]
    {
        scene.copied(SECRETS, from, to, "s").await;
        scene.until(&namespace(to), "is in the team of the top", |it| label(it, "team") == "top").await;
    }
    scene.patch(&path(SECRETS, "ch-top", "s"), json!({ "data": { "k": "eA==" } })).await;
    scene
        .until(&path(SECRETS, "ch-instance", "s"), "has the new value", |it| at(it, "/data/k") == "eA==")
        .await;
    scene.delete(&path(SECRETS, "ch-top", "s")).await;
    scene.gone(&path(SECRETS, "ch-instance", "s")).await;
}
