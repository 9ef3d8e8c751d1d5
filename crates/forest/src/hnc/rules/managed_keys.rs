//! Row 3 of section 7.3 and row 2 of section 7.4 of docs/compatibility.md: which labels and annotations a user may request.

use super::{Cause, Check, Denial};
use crate::core::key_syntax::label_value_fault;
pub(in crate::hnc) use crate::core::key_syntax::qualified_name_fault;
use crate::core::labels::Labels;
use crate::hnc::settings::{Settings, group_in};

/// The most labels, or annotations, of one object, and the most bytes of all of them. They are set on every namespace below, and
/// a namespace that has become too large cannot be labelled.
const MOST: usize = 64;
const MOST_BYTES: usize = 16 << 10;

type Pairs<'a> = &'a [(String, String)];

/// Every key must be managed and valid, and so must the values of labels, except of those `before`; all faults are reported at once.
pub(super) fn check(
    settings: &Settings,
    [labels, annotations]: [Pairs<'_>; 2],
    [labels_before, annotations_before]: [Pairs<'_>; 2],
) -> Check {
    let of_label = |(key, value): &(String, String)| {
        let fault = qualified_name_fault(key).or_else(|| {
            let unmanaged = "not one of the managed labels of this cluster (setting managedNamespaceLabels)";
            (!settings.is_managed_label(key)).then(|| never_managed(key).unwrap_or(unmanaged))
        });
        let value_fault = label_value_fault(key, value);
        let of_key = fault.map(|fault| Cause::invalid("spec.labels", key, fault));
        let of_value = value_fault.map(|it| Cause::invalid(format!("spec.labels[{key}]"), value, it));
        of_key.into_iter().chain(of_value)
    };
    let of_annotation = |(key, _): &(String, String)| {
        let fault = qualified_name_fault(&key.to_lowercase()).or_else(|| {
            let unmanaged =
                "not one of the managed annotations of this cluster (setting managedNamespaceAnnotations)";
            (!settings.is_managed_annotation(key)).then(|| never_managed(key).unwrap_or(unmanaged))
        });
        fault.map(|fault| Cause::invalid("spec.annotations", key, fault))
    };
    let too_many =
        [("spec.labels", labels), ("spec.annotations", annotations)].into_iter().filter_map(too_many);
    let causes: Vec<Cause> = too_many
        .chain(labels.iter().filter(|it| !labels_before.contains(it)).flat_map(of_label))
        .chain(annotations.iter().filter(|it| !annotations_before.contains(it)).filter_map(of_annotation))
        .collect();
    if causes.is_empty() { Ok(()) } else { Err(Denial::invalid(causes).into()) }
}

/// Why no setting can make this key a managed one.
fn never_managed(key: &str) -> Option<&'static str> {
    group_in(key).map(|_| "keys that contain hnc.x-k8s.io or accurate.cybozu.com are never managed")
}

/// A warning if a key is there more than once, with different values: one of them counts.
pub(super) fn repeated(pairs: &[(String, String)], field: &str) -> Option<String> {
    let counting: Labels = pairs.iter().map(|(key, value)| (key, value)).collect();
    let (key, _) = pairs.iter().find(|(key, value)| counting.get(key) != Some(value))?;
    let value = counting.get(key).unwrap_or_default();
    Some(format!("{field} has the key {key:?} more than once; only the value {value:?} counts"))
}

fn too_many((field, pairs): (&str, &[(String, String)])) -> Option<Cause> {
    let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let fault = format!("there may be at most {MOST} of them, of at most {MOST_BYTES} bytes");
    let found = format!("{} of {bytes} bytes", pairs.len());
    (pairs.len() > MOST || bytes > MOST_BYTES).then(|| Cause::invalid(field, &found, &fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hnc::rules::{DenialKind, Verdict};

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    const NONE: [Pairs<'_>; 2] = [&[], &[]];

    #[test]
    fn there_are_limits() {
        let settings = crate::cluster::settings();
        let many = |count: usize, value: &str| -> Vec<(String, String)> {
            (0..count).map(|number| (format!("k{number}"), value.to_owned())).collect()
        };
        let refused = |labels: Pairs<'_>, annotations: Pairs<'_>| {
            // Also where they were there before.
            let both = [labels, annotations];
            [[&[][..], &[]], both].into_iter().all(|before| match check(&settings, both, before) {
                Err(Verdict::Deny(denial)) => {
                    denial.message.contains("at most 64 of them, of at most 16384 bytes")
                }
                _ => false,
            })
        };
        assert!(!refused(&many(MOST, "v"), &many(MOST, "v")));
        assert!(refused(&many(MOST + 1, "v"), &[]) && refused(&[], &many(MOST + 1, "v")));
        assert!(refused(&[], &many(2, &"v".repeat(MOST_BYTES / 2))));
    }

    #[test]
    fn faults_are_told_all_at_once_and_name_the_field() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let settings = settings.managing(&["team", "cost/.*|x y"], &["note"]).unwrap();
        assert_eq!(
            check(
                &settings,
                [&pairs(&[("team", "red"), ("cost/center", "")]), &pairs(&[("note", "a b")])],
                NONE
            ),
            Ok(())
        );
        let labels = pairs(&[("teams", "red"), ("team", "-red"), ("x y", "z")]);
        let Err(Verdict::Deny(denial)) = check(&settings, [&labels, &pairs(&[("other", "")])], NONE) else {
            panic!("allowed");
        };
        assert_eq!(denial.kind, DenialKind::Invalid);
        let fields: Vec<&str> = denial.causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.labels", "spec.labels[team]", "spec.labels", "spec.annotations"],
            "HNC's: a key is at fault in the whole field, a value at its key"
        );
    }

    #[test]
    fn own_keys_are_never_managed() {
        let settings =
            Settings::new("hnc-system", [""; 0], ".*").unwrap().managing(&[".*"], &[".*"]).unwrap();
        for key in
            ["hnc.x-k8s.io/included-namespace", "a.tree.hnc.x-k8s.io/depth", "accurate.cybozu.com/parent"]
        {
            assert!(check(&settings, [&pairs(&[(key, "true")]), &[]], NONE).is_err(), "{key}");
            assert!(check(&settings, [&[], &pairs(&[(key, "true")])], NONE).is_err(), "{key}");
        }
    }
}
