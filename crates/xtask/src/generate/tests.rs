//! Whether the files say what the code says, whether a difference is seen, and whether it is the only thing
//! touched.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

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
    let read: ValidatingWebhookConfiguration =
        serde_saphyr::from_str(&contents("config/webhook/validating.yaml")).unwrap();
    assert_eq!(read, registrations::validating(&RegistrationSettings::default()));
}

/// With the namespace put in, the chart's registrations are the plain ones.
#[test]
fn the_chart_has_the_same_registrations() {
    let text = contents("charts/hns/files/validating.yaml");
    let rendered = text.replace("{{.Release.Namespace}}", "hnc-system");
    let read: ValidatingWebhookConfiguration = serde_saphyr::from_str(&rendered).unwrap();
    assert_eq!(read, registrations::validating(&RegistrationSettings::default()));
    assert!(!rendered.contains("{{"), "something else is a template");
}

#[test]
fn whole_numbers_have_no_fraction() {
    let text = yaml(&serde_json::json!({ "b": 0.0, "a": [1.5, 32768.0, -2] })).unwrap();
    assert_eq!(text.strip_prefix(HEADER), Some("a:\n- 1.5\n- 32768\n- -2\nb: 0\n"));
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
