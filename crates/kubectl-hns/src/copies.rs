//! Finds missing, wrong and surplus copies, by the plans of a [`Forest`](forest::Forest) built from lists.
//!
//! Only metadata is read, so contents are not compared: a copy counts as right if it exists and has the right source.

use std::collections::BTreeSet;

use forest::plan::{Action, plan};
use forest::why::{KindInConfiguration, ObjectQuestion, explain};
use forest::{Name, ObjectKey, ObjectScope, Scope};

use crate::Failure;
use crate::lines::printable;
use crate::loader::{Loaded, load_all};
use crate::published;
use crate::session::Session;
use crate::structure::Structure;
use crate::wait::Progress;

/// A forest with the objects of all propagated kinds that the user may list.
pub(crate) struct Objects(Loaded);

/// A missing, wrong or surplus copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wrong {
    pub(crate) namespace: Name,
    /// `rolebindings.rbac.authorization.k8s.io`.
    pub(crate) resource: String,
    pub(crate) name: Name,
    /// The namespace of the right source; `None` if the copy should not exist.
    pub(crate) source: Option<Name>,
    /// Why it should not exist, if a namespace above has an object of the same name.
    pub(crate) why: Option<String>,
}

impl Objects {
    /// Reads the objects of every propagated kind, with the settings of the installation. Kinds that the user may not list in the whole
    /// cluster are read in each namespace of a structure that is not whole.
    ///
    /// # Errors
    /// A list failed for a reason other than missing rights.
    pub(crate) async fn read(session: &Session, structure: Structure) -> Result<Self, Failure> {
        let (mut settings, accurate, note) = Box::pin(published::both_settings(session)).await;
        let names = structure.namespaces.keys().chain(structure.hierarchies.keys());
        let within = if structure.is_whole { BTreeSet::new() } else { names.cloned().collect() };
        // Without the quotas, no binding would be planned for.
        settings.hierarchical_quotas &= structure.is_whole;
        let empty = published::empty(settings, accurate);
        let mut loaded = Box::pin(load_all(session, (structure, empty), &within)).await?;
        loaded.notes.extend(note);
        Ok(Self(loaded))
    }

    /// What could not be read, as notes for the user.
    pub(crate) fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// The same without notes about the structure.
    pub(crate) fn notes_on_objects(&self) -> Vec<String> {
        let of_structure = &self.0.structure.notes;
        self.notes().iter().filter(|note| !of_structure.contains(note)).cloned().collect()
    }

    /// A namespace of these whose objects of some kind the user may not read, although they may in `parent`, whose rights it inherits.
    pub(crate) fn awaiting_rights<'a>(
        &self,
        namespaces: &'a BTreeSet<Name>,
        parent: &str,
    ) -> Option<&'a Name> {
        let mut arriving = self.0.unread.values().filter(|unread| !unread.contains(parent));
        arriving.find_map(|unread| namespaces.iter().find(|name| unread.contains(*name)))
    }

    /// The number of copies in these namespaces.
    pub(crate) fn copies(&self, namespaces: &BTreeSet<Name>) -> usize {
        let forest = &self.0.forest;
        let within = |name: &Name| {
            forest.objects_in(name).filter(|key| forest.inherited_from(name, key).is_some()).count()
        };
        namespaces.iter().map(within).sum()
    }

    /// The copies in namespaces that are excluded, where nothing updates or removes them.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let settings = self.0.forest.settings();
        self.lines(|namespace| settings.unmanaged(namespace).is_some(), |_, _| true)
    }

    /// The copies in namespaces where activities are halted, whose sources are gone. Nothing removes them there.
    pub(crate) fn without_source(&self) -> Vec<String> {
        let Loaded { forest, unread, .. } = &self.0;
        self.lines(
            |namespace| self.is_halted(namespace),
            |key, source| !unread.contains_key(&key.kind) && forest.object_version(source, key).is_none(),
        )
    }

    /// The copies in such namespaces, by their kind and name and the namespace of their source, sorted.
    fn lines(
        &self,
        within: impl Fn(&Name) -> bool,
        counts: impl Fn(&ObjectKey, &Name) -> bool,
    ) -> Vec<String> {
        let forest = &self.0.forest;
        let counts = &counts;
        let found = forest.names().filter(|namespace| within(namespace)).flat_map(|namespace| {
            let counts = move |key: &&ObjectKey| {
                forest.inherited_from(namespace, key).is_some_and(|source| counts(key, source))
            };
            forest.objects_in(namespace).filter(counts).map(move |key| {
                let resource = forest.kind(key.kind).group_resource();
                format!("{resource} {} in {namespace}", printable(&key.name))
            })
        });
        let mut found: Vec<String> = found.collect();
        found.sort();
        found
    }

    /// Whether the namespace is managed, and nothing is done in it.
    pub(crate) fn is_halted(&self, namespace: &Name) -> bool {
        let forest = &self.0.forest;
        forest.settings().unmanaged(namespace).is_none() && forest.halted_root(namespace).is_some()
    }

    /// The progress of the copies in these namespaces; `resource` limits it to one kind, such as `jobs.batch`.
    pub(crate) fn progress(&self, namespaces: &BTreeSet<Name>, resource: Option<&str>) -> Progress {
        let mut wrong = self.wrong(namespaces);
        wrong.retain(|it| resource.is_none_or(|resource| it.resource == resource));
        let Some(first) = wrong.first() else { return Progress::Done };
        let missing = format!("{} {} in {}", first.resource, printable(&first.name), first.namespace);
        let total = self.copies(namespaces) + wrong.iter().filter(|it| it.source.is_some()).count();
        let to_u64 = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Progress::Part(to_u64(total.saturating_sub(wrong.len())), to_u64(total), missing)
    }

    /// The number of objects in these namespaces that are kept in the way of copies; `resource` limits it to one kind, such as `jobs.batch`.
    pub(crate) fn kept(&self, namespaces: &BTreeSet<Name>, resource: Option<&str>) -> usize {
        let scope = Scope { objects: ObjectScope::All, ..Scope::default() };
        let is_it =
            |key: &ObjectKey| resource.is_none_or(|it| self.0.forest.kind(key.kind).group_resource() == it);
        let within = |namespace: &Name| {
            plan(&self.0.forest, namespace, &scope).conflicts.iter().filter(|(key, _)| is_it(key)).count()
        };
        namespaces.iter().map(within).sum()
    }

    /// The missing, wrong and surplus copies in these namespaces.
    pub(crate) fn wrong(&self, namespaces: &BTreeSet<Name>) -> Vec<Wrong> {
        let scope = Scope { objects: ObjectScope::All, ..Scope::default() };
        let mut wrong: Vec<Wrong> = Vec::new();
        for namespace in namespaces {
            for action in plan(&self.0.forest, namespace, &scope).actions() {
                wrong.extend(self.judge(namespace, action));
            }
        }
        wrong.sort();
        wrong.dedup();
        wrong
    }

    fn judge(&self, namespace: &Name, action: &Action) -> Option<Wrong> {
        let (key, forest) = (action.key()?, &self.0.forest);
        let why =
            matches!(action, Action::DeleteCopy { .. }).then(|| self.withheld(namespace, key)).flatten();
        let source = match action {
            Action::DeleteCopy { .. } => None,
            // The source is right; other differences may come from flags.
            Action::ReplaceCopy { source, .. } if forest.inherited_from(namespace, key) == Some(source) => {
                return None;
            }
            Action::CreateCopy { source, .. } | Action::ReplaceCopy { source, .. } => Some(source.clone()),
            _ => return None,
        };
        let resource = forest.kind(key.kind).group_resource();
        Some(Wrong { namespace: namespace.clone(), resource, name: key.name.clone(), source, why })
    }

    /// Why the top-most source of this name is not propagated to the namespace.
    fn withheld(&self, namespace: &Name, key: &ObjectKey) -> Option<String> {
        let all_is_seen = BTreeSet::new();
        let (in_configuration, unseen) = (KindInConfiguration::Configured, &all_is_seen);
        let question = ObjectQuestion { key: key.clone(), in_configuration, unseen, unseen_roles: unseen };
        let answer = explain(&self.0.forest, &question, namespace);
        answer.above.into_iter().find_map(|above| above.comes.err()).map(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forest::{Fact, Kind, KindSettings, Mode, ObjectFact, accurate};
    use hns_api::accurate::annotations::FROM;
    use hns_cluster::ingest;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::Map;

    use super::*;
    use crate::structure;
    use crate::structure::tests::sketch;

    fn objects(lines: &[&str], roles: &[(&str, &str, Option<&str>)]) -> Objects {
        let mut forest = sketch(lines).forest();
        let kind = Kind::role();
        forest.apply(Fact::Kinds(vec![KindSettings::new(kind.clone(), Mode::Propagate)]));
        let id = forest.kind_named(&kind.group, &kind.kind).unwrap();
        let accurate = accurate::Settings { watches: vec![kind.clone()], ..accurate::Settings::default() };
        let fact = |(namespace, name, from): &(&str, &str, Option<&str>)| {
            let mark = |key: &str, from: &str| BTreeMap::from([(key.to_owned(), from.to_owned())]);
            let of_accurate = from.and_then(|from| from.strip_prefix("Accurate's "));
            let label = from.filter(|_| of_accurate.is_none());
            let metadata = ObjectMeta {
                namespace: Some((*namespace).to_owned()),
                name: Some((*name).to_owned()),
                labels: label.map(|from| mark(hns_api::labels::INHERITED_FROM, from)),
                annotations: of_accurate.map(|from| mark(FROM, from)),
                ..ObjectMeta::default()
            };
            ingest::parts(&kind, (&structure::settings(), Some(&accurate)), metadata, Some(Map::new()))
        };
        let facts: Vec<ObjectFact> = roles.iter().map(fact).collect();
        forest.apply(Fact::Objects(id, facts));
        Objects(Loaded {
            forest,
            structure: sketch(lines),
            unread: BTreeMap::new(),
            lacks_quotas: false,
            notes: Vec::new(),
        })
    }

    fn wrong(objects: &Objects, namespaces: &[&str]) -> Vec<(String, Option<String>)> {
        let namespaces = namespaces.iter().map(|it| Name::from(*it)).collect();
        let shown = |it: Wrong| (format!("{}/{}", it.namespace, it.name), it.source.map(|it| it.to_string()));
        objects.wrong(&namespaces).into_iter().map(shown).collect()
    }

    #[test]
    fn missing_and_surplus_copies_are_wrong() {
        let objects = objects(
            &["a", "b < a", "c < a", "x"],
            &[
                ("a", "r", None),
                ("b", "r", Some("a")),
                ("b", "stale", Some("a")),
                ("b", "foreign", Some("x")),
            ],
        );
        assert_eq!(
            wrong(&objects, &["a", "b", "c"]),
            [
                ("b/foreign".to_owned(), None),
                ("b/stale".to_owned(), None),
                ("c/r".to_owned(), Some("a".to_owned())),
            ]
        );
        assert_eq!(wrong(&objects, &["a"]), []);
        let b = BTreeSet::from(["b".into()]);
        assert_eq!(objects.copies(&b), 3);
        let resource = "roles.rbac.authorization.k8s.io";
        let missing = Progress::Part(1, 3, format!("{resource} foreign in b"));
        assert_eq!(objects.progress(&b, None), missing);
        assert_eq!(objects.progress(&b, Some(resource)), missing);
        assert_eq!(objects.progress(&b, Some("secrets")), Progress::Done);
    }

    #[test]
    fn a_copy_of_accurates_api_is_no_source() {
        let objects =
            objects(&["a", "b < a", "c < b"], &[("a", "r", None), ("b", "once", Some("Accurate's a"))]);
        let missing = |name: &str| (format!("{name}/r"), Some("a".to_owned()));
        assert_eq!(wrong(&objects, &["b", "c"]), [missing("b"), missing("c")]);
    }

    #[test]
    fn copies_in_halted_namespaces_whose_source_is_gone_are_found() {
        let copy = |namespace: &'static str, name: &'static str| (namespace, name, Some("a"));
        let objects = objects(
            &["a", "b < a", "orphan < gone", "low < orphan"],
            &[
                ("a", "r", None),
                copy("b", "stale"),
                copy("orphan", "r"),
                copy("orphan", "x"),
                copy("low", "x"),
            ],
        );
        let of = |namespace: &str| format!("roles.rbac.authorization.k8s.io x in {namespace}");
        assert_eq!(objects.without_source(), [of("low"), of("orphan")]);
        for (name, is_halted) in [("a", false), ("b", false), ("orphan", true), ("low", true)] {
            assert_eq!(objects.is_halted(&name.into()), is_halted, "{name}");
        }
    }

    #[test]
    fn copies_in_excluded_namespaces_are_left_over() {
        let copy = |namespace: &'static str| (namespace, "r", Some("a"));
        let objects = objects(
            &["a", "b < a", "hnc-system"],
            &[copy("b"), copy("hnc-system"), ("hnc-system", "own", None)],
        );
        assert_eq!(objects.left_over(), ["roles.rbac.authorization.k8s.io r in hnc-system"]);
    }

    #[test]
    fn rights_arrive_from_the_parent() {
        let mut objects = objects(&["a", "b < a"], &[]);
        let kind = objects.0.forest.kind_named(&Kind::role().group, "Role").unwrap();
        let b = BTreeSet::from(["b".into()]);
        assert_eq!(objects.awaiting_rights(&b, "a"), None);
        objects.0.unread.insert(kind, b.clone());
        assert_eq!(objects.awaiting_rights(&b, "a"), Some(&"b".into()));
        objects.0.unread.insert(kind, ["a", "b"].map(Name::from).into());
        assert_eq!(objects.awaiting_rights(&b, "a"), None, "they have no such right there");
    }

    #[test]
    fn notes_on_objects_leave_the_structure_out() {
        let mut objects = objects(&["a"], &[]);
        objects.0.structure.notes = vec!["of the structure".into()];
        objects.0.notes = vec!["of the structure".into(), "of objects".into()];
        assert_eq!(objects.notes_on_objects(), ["of objects"]);
    }

    #[test]
    fn objects_that_are_kept_are_counted() {
        let objects =
            objects(&["a", "b < a", "c < a"], &[("a", "r", None), ("b", "r", None), ("c", "r", Some("a"))]);
        let all = ["a", "b", "c"].map(Name::from).into();
        assert_eq!(objects.kept(&all, Some("roles.rbac.authorization.k8s.io")), 1);
        assert_eq!((objects.kept(&all, None), objects.kept(&all, Some("secrets"))), (1, 0));
    }

    #[test]
    fn a_copy_from_another_ancestor_is_wrong() {
        let objects = objects(
            &["a", "b < a", "c < b"],
            &[("a", "r", None), ("b", "r", Some("a")), ("c", "r", Some("b"))],
        );
        assert_eq!(wrong(&objects, &["c"]), [("c/r".to_owned(), Some("a".to_owned()))]);
        assert_eq!(objects.wrong(&BTreeSet::from(["c".into()]))[0].why, None);
    }
}
