//! Which cluster, as whom, in which namespace: kubectl's flags and files, with a real API server's answers.

use serde_json::{Value, json};

use super::fixture::{Fixture, anchor, namespace, plugin, still};

/// A kubeconfig of two contexts, one with a namespace of its own and one without.
fn kubeconfig(still: &Fixture) -> (tempfile::NamedTempFile, Value) {
    let original = std::fs::read_to_string(still.cluster.kubeconfig()).unwrap();
    let mut content: Value = serde_json::from_str(&original).unwrap();
    let user = &content["contexts"][0]["context"]["user"];
    content["contexts"] = json!([
        { "name": "spaced", "context": { "cluster": "hns", "user": user, "namespace": "c-spaced" } },
        { "name": "plain", "context": { "cluster": "hns", "user": user } },
        { "name": "nobody", "context": { "cluster": "hns", "user": "nobody" } },
    ]);
    content["current-context"] = json!("spaced");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content.to_string()).unwrap();
    (file, content)
}

#[tokio::test]
async fn without_n_the_namespace_is_the_context_s() {
    let still = still().await;
    still.apply(&[namespace("c-spaced", ""), namespace("c-other", "")]).await;
    let (file, _) = kubeconfig(still);
    let path = file.path().to_str().unwrap();
    let variables = [("KUBECONFIG", path)];
    for (words, child, parent) in [
        ("create c-one", "c-one", "c-spaced"),
        ("--context plain create c-two", "c-two", "default"),
        ("create c-three --context=plain -n c-other", "c-three", "c-other"),
        ("--namespace c-other create c-four", "c-four", "c-other"),
    ] {
        let wanted = format!("Successfully created {child:?} subnamespace anchor in {parent:?} namespace\n");
        plugin(words, &variables).await.unwrap().says(&wanted);
        let kubectl = still.cluster.kubectl().args(["get", "subns", child, "-n", parent, "-o", "name"]);
        assert_eq!(kubectl.ok().await.unwrap(), format!("subnamespaceanchor.hnc.x-k8s.io/{child}\n"));
    }
    let twice = plugin("create c-one", &variables).await.unwrap();
    twice.fails(
        "\nCould not create subnamespace anchor.\nReason: subnamespaceanchors.hnc.x-k8s.io \"c-one\" already exists\n",
    );
    let labelled = "create c-five --label team=blue --annotation note=a=b";
    plugin(labelled, &variables).await.unwrap();
    let spec = ["get", "subns", "c-five", "-n", "c-spaced", "-o", "jsonpath={.spec}"];
    let spec: Value = serde_json::from_str(&still.cluster.kubectl().args(spec).ok().await.unwrap()).unwrap();
    let pair = |key: &str, value: &str| json!([{ "key": key, "value": value }]);
    assert_eq!(spec, json!({ "labels": pair("team", "blue"), "annotations": pair("note", "a=b") }));
    let anchors = tempfile::NamedTempFile::new().unwrap();
    let head = format!("apiVersion: {}\nkind: SubnamespaceAnchor\n", hns_api::API_VERSION);
    let documents = format!(
        "{head}metadata: {{name: c-six}}\n---\n{head}metadata: {{name: c-seven, namespace: c-other}}\n"
    );
    std::fs::write(anchors.path(), &documents).unwrap();
    plugin(&format!("create -f {}", anchors.path().display()), &variables).await.unwrap().says(
        "Successfully created \"c-six\" subnamespace anchor in \"c-spaced\" namespace\n\
         Successfully created \"c-seven\" subnamespace anchor in \"c-other\" namespace\n",
    );
    std::fs::write(anchors.path(), documents.replace("SubnamespaceAnchor", "Secret")).unwrap();
    let secret = plugin(&format!("create -f {}", anchors.path().display()), &variables).await.unwrap();
    secret.fails(&format!(
        "Error: {} is invalid: document 1 (apiVersion \"hnc.x-k8s.io/v1alpha2\", kind \"Secret\", name \"c-six\") must have",
        anchors.path().display()
    ));
    let written = async |text: &str| {
        std::fs::write(anchors.path(), text).unwrap();
        plugin(&format!("create -f {}", anchors.path().display()), &variables).await.unwrap()
    };
    written("").await.fails("Error: no SubnamespaceAnchor was given");
    let misspelt = written(&format!("{head}metadata: {{name: c-eight}}\nspec: {{lables: []}}\n")).await;
    misspelt.fails(&format!(
        "Error: {} is invalid: document 1 (SubnamespaceAnchor \"c-eight\"): unknown field spec.lables\n",
        anchors.path().display()
    ));
    // One with other content is not taken for the one in the file.
    let spec = "spec: {labels: [{key: team, value: blue}]}";
    let partly = written(&format!("{documents}{spec}\n---\n{head}metadata: {{name: c-eight}}\n")).await;
    let printed = "The \"c-six\" subnamespace anchor in \"c-spaced\" namespace is unchanged\n\
                   Successfully created \"c-eight\" subnamespace anchor in \"c-spaced\" namespace\n";
    assert_eq!((partly.code, &*partly.stdout), (Some(1), printed), "{partly:?}");
    let hint = format!(
        "\nIt exists with other labels or annotations; `kubectl apply -f {}` changes them.\n",
        anchors.path().display()
    );
    assert!(partly.stderr.contains(&hint), "{partly:?}");
    assert!(partly.stderr.ends_with("\nError: not created, 1 of 3: c-seven\n"), "{partly:?}");
    // A backup is restored.
    let list = ["get", "subns", "-n", "c-other", "-o", "yaml"];
    let list = still.cluster.kubectl().args(list).ok().await.unwrap();
    still.cluster.kubectl().args(["delete", "subns", "c-seven", "-n", "c-other"]).ok().await.unwrap();
    let restored = written(&list).await;
    let printed = "Successfully created \"c-seven\" subnamespace anchor in \"c-other\" namespace\n";
    assert!(restored.code == Some(0) && restored.stdout.contains(printed), "{restored:?}");
    plugin("create -f /nowhere", &variables).await.unwrap().fails("Error: /nowhere cannot be read: ");
    // As with kubectl, an empty namespace is none.
    plugin("delete c-one --yes -n=", &variables)
        .await
        .unwrap()
        .says("Successfully deleted \"c-one\" subnamespace anchor in \"c-spaced\" namespace\n");
    plugin("delete c-one --yes", &variables).await.unwrap().fails(
        "Could not delete subnamespace anchor.\nReason: subnamespaceanchors.hnc.x-k8s.io \"c-one\" not found\n",
    );
}

#[tokio::test]
async fn flags_name_server_user_and_credentials() {
    let still = still().await;
    let (file, content) = kubeconfig(still);
    let path = file.path().to_str().unwrap();
    let (server, ca) = (still.cluster.url(), still.cluster.ca_file());
    let ca = ca.display();
    let user = &content["users"][0]["user"];
    let (certificate, key) =
        (user["client-certificate"].as_str().unwrap(), user["client-key"].as_str().unwrap());
    let credentials = format!("--client-certificate {certificate} --client-key {key}");
    for words in [
        format!("--server {server} --certificate-authority {ca} {credentials} config describe"),
        format!("config describe -s {server} --insecure-skip-tls-verify {credentials}"),
        format!("config describe --kubeconfig {path} --context nobody {credentials}"),
        format!(
            "config describe --kubeconfig {path} --context nobody --user {}",
            content["users"][0]["name"].as_str().unwrap()
        ),
        format!(
            "config describe --kubeconfig {path} --tls-server-name localhost --request-timeout 30s --disable-compression"
        ),
    ] {
        // The object may be there or not; either way the API server has let this user ask.
        let output = plugin(&words, &[]).await.unwrap();
        let missing = "Error: there is no HNCConfiguration; the controller creates it when it starts\n";
        assert!(
            output.stdout.starts_with("Synchronized resources:") || output.stderr.starts_with(missing),
            "{words}: {output:?}"
        );
    }
    let impersonated = format!("--kubeconfig {path} --as eve --as-group x config describe");
    let output = plugin(&impersonated, &[]).await.unwrap();
    output.fails("Error: the HNCConfiguration cannot be read: hncconfigurations.hnc.x-k8s.io \"config\" is forbidden: User \"eve\" cannot get");
    assert!(output.stderr.contains("You lack this right"));
    let token = plugin(&format!("--kubeconfig {path} --context nobody --token wrong config describe"), &[])
        .await
        .unwrap();
    token.fails("Error: the HNCConfiguration cannot be read: Unauthorized\nThe API server does not accept your credentials.");
}

#[tokio::test]
async fn what_cannot_be_reached_is_said() {
    let nothing = plugin("tree -A", &[("HOME", "/nonexistent")]).await.unwrap();
    nothing.fails("Error: ");
    assert!(nothing.stderr.contains("Set --kubeconfig, --server"), "{nothing:?}");
    // No program listens at port 1.
    let closed = plugin("tree -A --server http://127.0.0.1:1", &[]).await.unwrap();
    closed.fails(
        "Error: namespaces cannot be listed: http://127.0.0.1:1 does not answer: Connection refused\n",
    );
    for (words, variables) in
        [("--kubeconfig /nope tree -A", &[][..]), ("tree -A", &[("KUBECONFIG", "/nope")])]
    {
        let missing = plugin(words, variables).await.unwrap();
        missing.fails("Error: the kubeconfig /nope cannot be read: ");
        assert!(
            missing.stderr.ends_with("\nName another file with --kubeconfig or KUBECONFIG.\n"),
            "{missing:?}"
        );
    }
    assert!(closed.stderr.contains("Check --server"), "{closed:?}");
    for flag in ["--certificate-authority", "--client-certificate", "--client-key"] {
        let missing = plugin(&format!("tree -A -s https://127.0.0.1:1 {flag} /nope"), &[]).await.unwrap();
        missing.fails(&format!("Error: {flag}: /nope cannot be read: No such file"));
    }
    let faulty = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(faulty.path(), "a: [").unwrap();
    let named = plugin("tree -A", &[("KUBECONFIG", faulty.path().to_str().unwrap())]).await.unwrap();
    named.fails(&format!("Error: the kubeconfig {} is invalid: ", faulty.path().display()));
    let still = still().await;
    let (file, _) = kubeconfig(still);
    let path = file.path().display();
    let context = plugin(&format!("--kubeconfig {path} --context no-such tree -A"), &[]).await.unwrap();
    context.fails("Error: the kubeconfig has no context \"no-such\"\n");
}

/// Every request would fail, each with another text.
#[tokio::test]
async fn a_refused_impersonation_is_said_once() {
    let still = still().await;
    let create = ["create", "token", "default", "-n", "default"];
    let token = still.cluster.kubectl().args(create).ok().await.unwrap();
    let (file, _) = kubeconfig(still);
    let path = file.path().display();
    for command in ["doctor", "tree -A", "explain cm/x -n default"] {
        let words =
            format!("--kubeconfig {path} --context nobody --token {} --as admin {command}", token.trim());
        let refused = plugin(&words, &[]).await.unwrap();
        refused.fails("Error: you may not act as another user: ");
    }
}

/// A cloud's login program, as kubeconfigs name them.
#[tokio::test]
async fn credentials_may_come_from_a_program() {
    let still = still().await;
    let token =
        still.cluster.kubectl().args(["create", "token", "default", "-n", "default"]).ok().await.unwrap();
    let answer = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": token.trim() },
    });
    let (file, mut content) = kubeconfig(still);
    content["users"] = json!([{ "name": "nobody", "user": { "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/echo", "args": [answer.to_string()],
        "interactiveMode": "Never",
    } } }]);
    std::fs::write(file.path(), content.to_string()).unwrap();
    let words = format!("--kubeconfig {} --context nobody config describe", file.path().display());
    let output = plugin(&words, &[]).await.unwrap();
    assert!(
        output.stderr.contains("User \"system:serviceaccount:default:default\" cannot get"),
        "{output:?}"
    );
}

#[tokio::test]
async fn requests_are_printed_at_level_six() {
    let still = still().await;
    still.apply(&[namespace("c-verbose", "")]).await;
    let loud = still.hns("tree c-verbose -v=6").await;
    assert_eq!((loud.code, &*loud.stdout), (Some(0), "c-verbose\n"), "{loud:?}");
    let is_request = |line: &&str| {
        line.contains("http.method=GET")
            && line.contains("/api/v1/namespaces?")
            && line.contains("http.status_code=200")
    };
    assert_eq!(loud.stderr.lines().filter(is_request).count(), 1, "{loud:?}");
    assert_eq!(still.hns("tree c-verbose -v=5").await.stderr, "");
    let before = still.hns("-v 6 tree c-verbose").await;
    assert!(before.stdout == "c-verbose\n" && before.stderr.contains("http.method=GET"), "{before:?}");
}

#[tokio::test]
async fn kubectl_completes_names_of_namespaces() {
    let still = still().await;
    still.apply(&[namespace("c-complete", "")]).await;
    let script = plugin("completion kubectl", &[]).await.unwrap();
    script.says("#!/bin/sh\nexec kubectl-hns __complete \"$@\"\n");
    let flag = format!("--kubeconfig {}", still.cluster.kubeconfig().display());
    let complete = async |words: &str| plugin(&format!("__complete {words}"), &[]).await.unwrap();
    complete(&format!("tree {flag} c-compl")).await.says("c-complete\n:4\n");
    still.apply(&[anchor("c-complete", "c-complete-sub", "Ok")]).await;
    complete(&format!("delete {flag} -n c-complete c-")).await.says("c-complete-sub\n:4\n");
    complete(&format!("config set-resource {flag} configm")).await.says("configmaps\n:4\n");
    complete(&format!("explain {flag} configm")).await.says("configmaps/\n:6\n");
    complete("tree --kubeconfig /nowhere c-compl").await.says(":4\n");
    let commands = complete("des").await;
    assert!(commands.stdout.starts_with("describe\tShow the parent, children"), "{commands:?}");
}
