//! What must hold of a cluster at rest: the contract on one page, without indexes, hops and plans.

use forest::accurate::keys;
use forest::{Name, ObjectKey};

use super::cluster::{Cluster, Namespace, Object, Pairs, kind_ids};

fn label<'a>(seen: &'a Namespace, key: &str) -> Option<&'a str> {
    seen.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// The namespace that this one names: its parent, or else its template. One that is excluded by name is in no hierarchy.
pub(super) fn named<'a>(cluster: &'a Cluster, name: &str) -> Option<(&'static str, &'a str)> {
    let seen = cluster.namespaces.get(name).filter(|_| name != "kube-system")?;
    let parent = label(seen, keys::PARENT).map(|parent| (keys::ROOT, parent));
    parent.or_else(|| label(seen, keys::TEMPLATE).map(|template| (keys::TEMPLATE_TYPE, template)))
}

/// Whether the namespace is its own upstream namespace, perhaps through others.
fn is_in_cycle(cluster: &Cluster, name: &str) -> bool {
    let mut current = name;
    for _ in 0..=cluster.namespaces.len() {
        match named(cluster, current) {
            Some((_, next)) if next == name => return true,
            Some((_, next)) => current = next,
            None => return false,
        }
    }
    false
}

/// The upstream namespace, in a cycle too; `Err` when the namespace names one that cannot be it.
pub(super) fn leader<'a>(cluster: &'a Cluster, name: &str) -> Result<Option<&'a str>, ()> {
    let Some((wanted, upstream)) = named(cluster, name) else { return Ok(None) };
    let seen = cluster.namespaces.get(upstream).filter(|_| upstream != "kube-system").ok_or(())?;
    let leads = label(seen, keys::TYPE) == Some(wanted) || label(seen, keys::PARENT).is_some();
    if leads { Ok(Some(upstream)) } else { Err(()) }
}

/// The upstream namespace in force; `Err` when the namespace is halted.
fn upstream<'a>(cluster: &'a Cluster, name: &str) -> Result<Option<&'a str>, ()> {
    if is_in_cycle(cluster, name) { Err(()) } else { leader(cluster, name) }
}

fn is_excluded(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with("kubernetes.io"))
        && key != keys::CREATED_BY
}

fn without_excluded(pairs: &Pairs) -> Pairs {
    pairs
        .iter()
        .filter(|(key, _)| !is_excluded(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Whether `copy` is a copy of `source`, which is in `upstream`: the same but for excluded keys and the two marks.
fn equals(copy: &Object, source: &Object, upstream: &str) -> bool {
    let mut labels = without_excluded(&source.labels);
    labels.insert(keys::CREATED_BY.into(), keys::CREATOR.into());
    let mut annotations = without_excluded(&source.annotations);
    annotations.insert(keys::FROM.into(), upstream.into());
    copy.body == source.body
        && without_excluded(&copy.labels) == labels
        && without_excluded(&copy.annotations) == annotations
}

/// A copy that is kept equal, and goes with its source.
pub(super) fn is_followed(object: &Object) -> bool {
    object.mode() == Some("update") && object.from().is_some()
}

/// Whether it is a user's own here: no source is its own, and none may overwrite it.
fn is_own(object: &Object, upstream: &str) -> bool {
    let is_tampered = object.mode() == Some("update")
        && object.labels.get(keys::CREATED_BY).is_some_and(|it| it == "accurate");
    !is_followed(object) && object.from() != Some(upstream) && !is_tampered
}

/// Holds for a cluster at rest, which came from `before` without other changes.
pub(super) fn check(before: &Cluster, after: &Cluster) {
    for (name, seen) in after.namespaces.iter().filter(|(_, seen)| !seen.terminating) {
        // A namespace that was deleted and created again begins empty.
        let is_new = before.namespaces.get(name).is_some_and(|old| old.version.uid != seen.version.uid);
        let here = Here { before: if is_new { &Cluster::default() } else { before }, after, name };
        match upstream(after, name) {
            _ if **name == *"kube-system" => here.is_untouched(|_, _| false),
            Err(()) => {
                let is_gone = |name: &str| !after.namespaces.contains_key(name);
                let names = named(after, name).map(|(_, upstream)| upstream);
                let is_forsaken = |key: &ObjectKey, object: &Object| {
                    let Some(from) = object.from().filter(|_| is_followed(object)) else { return false };
                    let is_former = names.is_some_and(|upstream| from != upstream);
                    let gives = key.kind != kind_ids()[3];
                    gives && names.is_some_and(is_gone) && is_gone(from) || binds(key) && is_former
                };
                assert!(!here.objects(after).any(|(key, object)| is_forsaken(key, object)), "{name}");
                if upstream(before, name).is_err() {
                    here.is_untouched(is_forsaken);
                }
            }
            Ok(None) => here.is_untouched(|_, object| is_followed(object)),
            Ok(Some(upstream)) => {
                here.has_its_metadata(upstream);
                here.has_its_copies(upstream);
            }
        }
    }
    forms(after);
}

fn binds(key: &ObjectKey) -> bool {
    key.kind == kind_ids()[1]
}

fn object_in<'a>(of: &'a Cluster, namespace: &str, key: &ObjectKey) -> Option<&'a Object> {
    of.objects.get(&(namespace.into(), key.clone()))
}

struct Here<'a> {
    before: &'a Cluster,
    after: &'a Cluster,
    name: &'a Name,
}

impl Here<'_> {
    fn objects<'a>(&'a self, of: &'a Cluster) -> impl Iterator<Item = (&'a ObjectKey, &'a Object)> {
        of.objects.iter().filter(|((name, _), _)| name == self.name).map(|((_, key), object)| (key, object))
    }

    /// Nothing has changed but that these objects are deleted. The labels that a namespace had from its former upstream namespace
    /// stay.
    fn is_untouched(&self, goes: impl Fn(&ObjectKey, &Object) -> bool) {
        for (key, object) in self.objects(self.before) {
            let wanted = Some(object).filter(|object| !goes(key, object));
            assert_eq!(object_in(self.after, self.name, key), wanted, "{key:?} in {}", self.name);
        }
        let is_old = |key| object_in(self.before, self.name, key).is_some();
        assert!(self.objects(self.after).all(|(key, _)| is_old(key)), "{}", self.name);
        if let Some(seen) = self.before.namespaces.get(self.name) {
            assert_eq!(*seen, self.after.namespaces[self.name], "{}", self.name);
        }
    }

    fn has_its_metadata(&self, upstream: &str) {
        let (seen, from) = (&self.after.namespaces[self.name], &self.after.namespaces[upstream]);
        let keep = |pairs: &Pairs, keys: &[&str]| -> Pairs {
            pairs
                .iter()
                .filter(|(key, _)| keys.contains(&&***key))
                .map(|(key, it)| (key.clone(), it.clone()))
                .collect()
        };
        let mut labels = keep(&from.labels, &["team", "zone"]);
        let mut annotations = keep(&from.annotations, &["note"]);
        if label(seen, keys::PARENT).is_some() {
            if let Some(form) = self.after.forms.get(&(upstream.into(), self.name.clone())) {
                let set = form.labels.iter().filter(|(key, _)| ["tier", "team"].contains(key));
                labels.extend(set.map(|(key, value)| (key.into(), value.into())));
                let set = form.annotations.iter().filter(|(key, _)| *key == "owner");
                annotations.extend(set.map(|(key, value)| (key.into(), value.into())));
            }
            labels.insert(keys::CREATED_BY.into(), keys::CREATOR.into());
            labels.insert(keys::PARENT.into(), upstream.into());
        }
        assert!(
            labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value)),
            "{}: {labels:?}",
            self.name
        );
        assert!(annotations.iter().all(|(key, value)| seen.annotations.get(key) == Some(value)));
        assert!(seen.applied.labels.iter().all(|key| labels.contains_key(&**key)), "{}: {seen:?}", self.name);
        assert!(seen.applied.annotations.iter().all(|key| annotations.contains_key(&**key)));
    }

    fn has_its_copies(&self, upstream: &str) {
        let theirs = self.after.objects.iter().filter(|((name, _), _)| **name == *upstream);
        for ((_, key), source) in theirs {
            let copy = object_in(self.after, self.name, key);
            let is_source = matches!(source.mode(), Some("create" | "update"));
            if !is_source || self.would_grant_otherwise(source, upstream) {
                assert!(copy.is_none_or(|copy| !is_followed(copy)), "{key:?} in {} has no source", self.name);
                continue;
            }
            let copy = copy.unwrap_or_else(|| panic!("{} has no {key:?}", self.name));
            let is_equal = equals(copy, source, upstream);
            let may_differ = if source.mode() == Some("create") {
                !is_followed(copy)
            } else {
                is_own(copy, upstream) && key.kind != kind_ids()[3]
            };
            assert!(is_equal || may_differ, "{key:?} in {}: {copy:?} of {source:?}", self.name);
        }
        for (key, object) in self.objects(self.after) {
            let has_source = object_in(self.after, upstream, key).is_some();
            assert!(has_source || !is_followed(object), "{key:?} in {} has no source", self.name);
        }
        // Bystanders: what is a user's own stays as it is.
        for (key, object) in self.objects(self.before) {
            let restricts = key.kind == kind_ids()[3];
            if is_own(object, upstream) && !restricts {
                assert_eq!(object_in(self.after, self.name, key), Some(object), "{key:?} in {}", self.name);
            }
        }
    }

    /// Whether a copy of a binding would refer to another Role than its source.
    fn would_grant_otherwise(&self, binding: &Object, upstream: &str) -> bool {
        let Some(name) = binding.role() else { return false };
        let role = ObjectKey { kind: kind_ids()[0], name: name.into() };
        let [here, there] = [&**self.name, upstream].map(|namespace| object_in(self.after, namespace, &role));
        let is_source = |role: &Object| matches!(role.mode(), Some("create" | "update"));
        match (here, there.filter(|role| is_source(role))) {
            (Some(here), Some(there)) => here.from() != Some(upstream) || here.body != there.body,
            _ => true,
        }
    }
}

/// Every `SubNamespace` has its namespace, or says why it has none.
fn forms(after: &Cluster) {
    for ((parent, child), form) in after.forms.iter().filter(|((parent, _), _)| **parent != *"kube-system") {
        let Some(seen) = after.namespaces.get(parent).filter(|seen| !seen.terminating) else { continue };
        let leads = label(seen, keys::TYPE) == Some(keys::ROOT) || label(seen, keys::PARENT).is_some();
        let child_seen = after.namespaces.get(child);
        let is_ours = named(after, child) == Some((keys::ROOT, parent));
        assert!(!form.terminating, "{parent}/{child} is still there");
        assert_eq!(form.status.observed_generation, form.generation, "{parent}/{child}");
        assert_eq!(form.status.stalled.is_none(), is_ours, "{parent}/{child}: {:?}", form.status);
        assert!(
            child_seen.is_some() || !leads || form.status.stalled.is_some(),
            "{parent}/{child} is missing"
        );
        assert!(!is_ours || form.finalizers.iter().any(|it| **it == *keys::FINALIZER), "{parent}/{child}");
    }
}
