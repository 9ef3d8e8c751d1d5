//! Whether the files say what the code says, whether a difference is seen, and whether it is the only thing
//! touched.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;

use super::*;

fn contents(path: &str) -> String {
    let file = files().unwrap().into_iter().find(|file| file.path == Path::new(path));
    file.unwrap().contents
}

fn file(path: &str, contents: &str) -> Generated {
    Generated { path: path.into(), contents: contents.into() }
}

#[test]
fn the_checkout_is_up_to_date() {
    let differences = compare(&checkout().unwrap(), &files().unwrap()).unwrap();
    assert_eq!(differences, [], "run `cargo xtask gen`");
}

#[test]
fn every_file_is_generated_once_and_under_an_owned_folder() {
    let files = files().unwrap();
    for file in &files {
        let same = files.iter().filter(|other| other.path == file.path);
        assert_eq!(same.count(), 1, "{}", file.path.display());
        let folder = file.path.parent().unwrap();
        assert!(OWNED.iter().any(|owned| folder == Path::new(owned)));
        assert!(file.contents.starts_with(HEADER));
        assert!(file.contents.ends_with('\n'));
    }
}

/// What a reader of YAML gets is what the code made: no text became a number, no pattern lost a backslash.
#[test]
fn files_read_back_as_the_objects_they_were_made_from() {
    for definition in crd::all() {
        let plural = &definition.spec.names.plural;
        let text = contents(&format!("config/crd/hnc.x-k8s.io_{plural}.yaml"));
        let read: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, definition);
    }
    let all = registrations::admission(&RegistrationSettings::default());
    let read: ValidatingWebhookConfiguration = parsed(&contents("config/webhook/validating.yaml"));
    assert_eq!(read, all.validating);
    let read: MutatingWebhookConfiguration = parsed(&contents("config/webhook/mutating.yaml"));
    assert_eq!(read, all.mutating);
    for (policy, binding) in all.policies.iter().zip(&all.bindings) {
        let name = policy.metadata.name.as_deref().unwrap();
        let read: Vec<Value> =
            serde_saphyr::from_multiple(&contents(&format!("config/policies/{name}.yaml"))).unwrap();
        let [read_policy, read_binding] = read.try_into().unwrap();
        assert_eq!(serde_json::from_value::<ValidatingAdmissionPolicy>(read_policy).unwrap(), *policy);
        let read: ValidatingAdmissionPolicyBinding = serde_json::from_value(read_binding).unwrap();
        assert_eq!(read, *binding);
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

/// With the namespaces put in, the chart's registrations and policies are the plain ones.
#[test]
fn the_chart_has_the_same_registrations() {
    let rendered = |name: &str| {
        let text = contents(&format!("charts/hns/files/{name}"));
        let text = text.replace("{{.Release.Namespace}}", "hnc-system").replace(
            "{{include \"hns.excluded\" .}}",
            "'hnc-system', 'kube-node-lease', 'kube-public', 'kube-system'",
        );
        assert!(!text.contains("{{") && !text.contains(EXCLUDED), "{name}: something is left");
        text
    };
    let all = registrations::admission(&RegistrationSettings::default());
    let alone = RegistrationSettings { policies: false, ..RegistrationSettings::default() };
    let alone = registrations::admission(&alone);
    assert_eq!(parsed::<ValidatingWebhookConfiguration>(&rendered("validating.yaml")), all.validating);
    assert_eq!(
        parsed::<ValidatingWebhookConfiguration>(&rendered("validating-without-policies.yaml")),
        alone.validating
    );
    assert_eq!(parsed::<MutatingWebhookConfiguration>(&rendered("mutating.yaml")), all.mutating);
    assert_eq!(alone.mutating, all.mutating);
    let read: Vec<Value> = serde_saphyr::from_multiple(&rendered("policies.yaml")).unwrap();
    let wanted = all.policies.iter().zip(&all.bindings).flat_map(|(policy, binding)| {
        [serde_json::to_value(policy).unwrap(), serde_json::to_value(binding).unwrap()]
    });
    assert_eq!(read, wanted.collect::<Vec<_>>());
}

#[test]
fn whole_numbers_have_no_fraction() {
    let text = document(&serde_json::json!({ "b": 0.0, "a": [1.5, 32768.0, -2] })).unwrap();
    assert_eq!(text, "a:\n- 1.5\n- 32768\n- -2\nb: 0\n");
}

#[test]
fn each_kind_of_difference_is_seen_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let files = [
        file("config/crd/same.yaml", "same"),
        file("config/crd/stale.yaml", "new"),
        file("config/webhook/missing.yaml", "here"),
    ];
    write(&root.join("config/crd/same.yaml"), "same").unwrap();
    write(&root.join("config/crd/stale.yaml"), "old").unwrap();
    write(&root.join("config/crd/surplus.yaml"), "").unwrap();
    write(&root.join("config/crd/README.md"), "").unwrap();
    write(&root.join("config/rbac/ours.yaml"), "").unwrap();

    let differences = compare(root, &files).unwrap();
    assert_eq!(
        differences,
        [
            Difference::Missing("config/webhook/missing.yaml".into()),
            Difference::Stale("config/crd/stale.yaml".into()),
            Difference::Surplus("config/crd/surplus.yaml".into()),
        ]
    );
    assert_eq!(read(&root.join("config/crd/stale.yaml")).unwrap().unwrap(), "old");

    update(root, &files, &differences).unwrap();
    assert_eq!(compare(root, &files).unwrap(), []);
    assert_eq!(read(&root.join("config/crd/surplus.yaml")).unwrap(), None);
    for untouched in ["config/crd/README.md", "config/rbac/ours.yaml"] {
        assert!(root.join(untouched).exists(), "{untouched}");
    }
}
