//! Previews changes: applies them to a forest of the current cluster with [`forest::preview`], checks the user's rights
//! and the admission rules, and writes nothing. The commands `plan`, `move`, `convert` and `config` use it, and `plan` of
//! `kubectl accurate`.

mod admission;
mod anchors;
mod awaited;
mod decisions;
mod document;
mod dry_run;
mod halted;
mod notes;
mod objects;
mod present;
mod text;

use std::collections::BTreeSet;

use forest::accurate::Fact as AccurateFact;
use forest::preview::{Intent, Outcome, Preview};
use forest::rules::User;
use forest::{Forest, Kind, KindId, KindSettings, Mode, Name};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use serde_json::Value;

pub(crate) use self::anchors::add_unlisted;
pub(crate) use self::decisions::Decision;
use self::decisions::on_current_state;
pub(crate) use self::document::Document;
use self::halted::{halt, halted_unread};
use self::notes::{below_deleted, counted, limited, limited_below, released, uncounted, unknown};
use self::present::Present;
pub(crate) use self::present::is_deletion;

use crate::Failure;
use crate::accurate_trees::around;
use crate::configured_kinds::{self, ConfiguredKinds};
use crate::installation::are_defined;
use crate::loader::{Selection, load};
use crate::published;
use crate::session::Session;
use crate::structure::{self, Extent, Structure};
use crate::user_rights;

/// The current cluster, on which changes are tried.
pub(crate) struct ClusterPreview<'a> {
    session: &'a Session,
    preview: Preview,
    user: User,
    pub(crate) configured: ConfiguredKinds,
    /// The request that a change of the configuration would be.
    configuration: Option<Box<Configuration>>,
    /// The known namespaces, which are read one by one if objects cannot be listed in the whole cluster.
    within: BTreeSet<Name>,
    /// Those of them that the user may not read.
    unreadable: BTreeSet<Name>,
    /// Whether the user may list the namespaces and hierarchies of the whole cluster, and read the configuration.
    is_whole: bool,
    /// Whether that is so, and the settings are known, so that what the controller has left to do is known, too.
    knows_the_present: bool,
    /// The namespaces and hierarchies as they were read.
    structure: Structure,
    /// The namespaces in which the user may not read all objects of propagated kinds, or all `SubNamespaces` that are needed.
    unread: BTreeSet<Name>,
    /// The kinds and the namespaces in which the user may not list them.
    unlisted: BTreeSet<(KindId, Name)>,
    /// What is uncertain about the settings, which the decisions depend on, as a note for the user.
    settings_note: Option<String>,
    /// What else could not be read, as notes for the user.
    notes: Vec<String>,
    /// The other rights that the user lacks to know all effects, as clauses.
    lacking: Vec<String>,
    /// The kinds that the user may not list in all namespaces concerned.
    hidden: Vec<String>,
    /// The kinds whose objects are read with their content.
    whole: BTreeSet<KindId>,
    /// The objects that were read again already.
    read: BTreeSet<(Name, KindId)>,
}

/// The `HNCConfiguration` as it was read, and the entries that would be written.
struct Configuration {
    object: DynamicObject,
    entries: Vec<Value>,
}

/// The previewed result of changes.
pub(crate) struct PreviewResult {
    /// One decision per change, up to the first refused one.
    pub(crate) decisions: Vec<Decision>,
    /// The effects; a refused change has none.
    pub(crate) outcome: Outcome,
    /// The number of writes that the controller has to make already without the changes, if everything could be read.
    pub(crate) pending: Option<usize>,
    /// The forest after the changes, which also has the names of kinds.
    pub(crate) forest: Forest,
    /// The labels and annotations of namespaces that others above may override, whose hierarchy the user may not read.
    pub(crate) overridable: BTreeSet<(Name, Box<str>)>,
    /// The namespaces in which, or below which, there may be more than the user may read.
    pub(crate) unread: BTreeSet<Name>,
    /// The kinds and the namespaces in which the user may not list them.
    pub(crate) unlisted: BTreeSet<(KindId, Name)>,
    /// Whether there may be more effects than are known.
    pub(crate) is_partial: bool,
    /// Whether the command makes the change only with --force.
    pub(crate) needs_force: bool,
    pub(crate) notes: Vec<String>,
}

impl PreviewResult {
    /// Adds a warning about the first change, if it would be allowed.
    pub(crate) fn warn(&mut self, warning: String) {
        if let Some(Decision::Allowed { warnings }) = self.decisions.first_mut() {
            warnings.push(warning);
        }
    }
}

impl<'a> ClusterPreview<'a> {
    /// Reads the cluster. For a user who may not list the whole cluster, reads what their rights allow around the
    /// namespaces `concerned`. Objects of the kinds in `also` are read even if they are ignored. Copies of these kinds and, if a
    /// tree is halted, of all kinds can differ from their sources, so they are compared.
    pub(crate) async fn open(
        session: &'a Session,
        concerned: &[&str],
        also: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        Self::read(session, concerned, also, None, None).await
    }

    /// The same to delete a namespace, with Accurate's trees if it is in one of them, or its anchor in `parent`.
    pub(crate) async fn open_to_delete(
        session: &'a Session,
        parent: Option<&str>,
        name: &str,
    ) -> Result<Self, Failure> {
        let concerned: Vec<&str> = parent.into_iter().chain([name]).collect();
        Self::read(session, &concerned, &[], Some((parent, name)), None).await
    }

    /// The same for changes in Accurate's trees, in an installation that serves that API.
    pub(crate) async fn open_accurate(
        session: &'a Session,
        concerned: &[&str],
        intents: &[Intent],
    ) -> Result<Self, Failure> {
        Self::read(session, concerned, &[], None, Some(around::changed(intents))).await
    }

    async fn read(
        session: &'a Session,
        concerned: &[&str],
        also: &[(&str, &str)],
        deleted: Option<(Option<&str>, &str)>,
        changed_in_accurate: Option<Vec<&str>>,
    ) -> Result<Self, Failure> {
        let user = user_rights::user(session).await;
        let user = user.map_err(|it| Failure::because("cannot read your identity", &it))?;
        let mut notes = Vec::new();
        let (defined, structure, configured, (settings, settings_note)) = futures::join!(
            are_defined(session, "what a change would do is not known now"),
            Box::pin(gather(session, concerned)),
            Box::pin(configured_kinds::read(session, &mut notes)),
            Box::pin(published::settings(session)),
        );
        defined?;
        let (mut structure, configured) = (structure?, configured?);
        let knows_settings = settings_note.is_none();
        let is_halted = structure.has_halted_tree() || !halted_unread(&structure).is_empty();
        let is_meant = |it: &&KindSettings| {
            let is_it =
                |(group, resource): &(&str, &str)| it.kind.group == *group && it.kind.resource == *resource;
            is_halted && it.mode != Mode::Ignore || also.iter().any(is_it)
        };
        let meant = configured.resolution.settings().filter(is_meant);
        let mut kinds: Vec<Kind> = meant.map(|it| it.kind.clone()).collect();
        let mut forest = published::forest(session, settings).await;
        let watched = forest.accurate_settings().into_iter().flat_map(|it| &it.watches);
        let mut unserved = Vec::new();
        let watched = configured.served_as(watched, &mut unserved);
        let (mut lacking, mut without_forms) = (Vec::new(), Vec::new());
        let deleted_in_accurate = || {
            let (_, name) = deleted.filter(|(_, name)| around::is_in_tree(&structure, name))?;
            forest.accurate_settings().map(|_| vec![name])
        };
        if let Some(changed) = changed_in_accurate.or_else(deleted_in_accurate) {
            let around = Box::pin(around::read(session, concerned, &changed, structure.is_whole)).await?;
            if !structure.is_whole {
                let found: Vec<&str> = around.namespaces.iter().map(|it| &**it).collect();
                structure = Box::pin(gather(session, &found)).await?;
            }
            kinds.extend(watched);
            notes.extend(unserved);
            forest.apply(AccurateFact::SubNamespaces(around.forms));
            (lacking, without_forms) = (around.lacking, around.hidden);
        } else {
            // The webhook knows their objects before they are configured.
            kinds.extend(watched.into_iter().filter(|it| also.contains(&(&*it.group, &*it.resource))));
        }
        if let Some(anchor) = deleted {
            Box::pin(add_unlisted(session, &mut structure, anchor)).await;
        }
        let within: BTreeSet<Name> =
            structure.namespaces.keys().chain(structure.hierarchies.keys()).cloned().collect();
        let is_unreadable = |name: &&Name| !structure.namespaces.contains_key(*name);
        let unreadable = within.iter().filter(is_unreadable).cloned().collect();
        let all = Selection::All(&kinds);
        let halted = halted_unread(&structure);
        let seen = (structure, forest);
        let mut loaded = Box::pin(load(session, seen, &configured, all, &within)).await?;
        for name in &halted {
            for fact in halt(&loaded.forest, &loaded.structure, name) {
                loaded.forest.apply(fact);
            }
        }
        // What cannot be listed is noted where the preview needs it.
        if loaded.structure.is_whole {
            notes.extend(loaded.structure.notes.iter().cloned());
        }
        // Without the configuration, the limits of trees are not known.
        let is_whole = loaded.structure.is_whole && configured.is_known && lacking.is_empty();
        let unlisted: BTreeSet<(KindId, Name)> = loaded
            .unread
            .into_iter()
            .flat_map(|(id, names)| names.into_iter().map(move |name| (id, name)))
            .collect();
        let unread = unlisted.iter().map(|(_, name)| name.clone()).chain(without_forms).collect();
        let id_of = |kind: &Kind| loaded.forest.kind_named(&kind.group, &kind.kind);
        let whole = kinds.iter().filter_map(id_of).collect();
        let preview = Preview::new(loaded.forest);
        if loaded.lacks_quotas {
            lacking.push("list hierarchicalresourcequotas and resourcequotas in all namespaces".into());
        }
        let (hidden, read) = (Vec::new(), BTreeSet::new());
        Ok(Self {
            session,
            preview,
            user,
            configured,
            configuration: None,
            within,
            unreadable,
            is_whole,
            knows_the_present: is_whole && knows_settings,
            structure: loaded.structure,
            unread,
            unlisted,
            settings_note,
            notes,
            lacking,
            hidden,
            whole,
            read,
        })
    }

    /// With the request of a change of the configuration, about which the API server can then be asked.
    pub(crate) fn configuring(self, object: DynamicObject, entries: Vec<Value>) -> Self {
        Self { configuration: Some(Box::new(Configuration { object, entries })), ..self }
    }

    /// The current forest of the preview.
    pub(crate) fn forest(&self) -> &Forest {
        self.preview.forest()
    }

    /// The namespaces and hierarchies as they were read.
    pub(crate) fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Whether the user may not read the namespace.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.contains(name)
    }

    /// Previews the changes in order, up to the first refused one.
    pub(crate) async fn try_all(mut self, intents: &[Intent]) -> Result<PreviewResult, Failure> {
        // These are decided on the current state, as the webhook would decide them.
        let mut first = Vec::new();
        for intent in on_current_state(intents) {
            first.push(self.decide_first(intent).await?);
            if first.last().is_some_and(Decision::is_refusal) {
                break;
            }
        }
        let asked = first.len();
        if let (Some(intent), Some(Decision::Allowed { .. })) = (intents.first(), first.first()) {
            self.presume_permission(intent);
            self.presume_hierarchy(intents);
        }
        let below = below_deleted(self.forest(), intents);
        // A pending deletion of a namespace that is taken out of its place may be refused.
        let placed = intents.iter().filter_map(|it| match it {
            Intent::Label { namespace, .. } => Some(namespace),
            other => moves(other),
        });
        self.preview.keep(placed.cloned().collect());
        self.settle().await?;
        self.preview.keep(BTreeSet::new());
        let present = Present::of(&self.preview, &self.unreadable, &below);
        self.preview.mark();
        let moving: BTreeSet<&Name> = intents.iter().filter_map(moves).collect();
        let moved: Vec<_> = moving.into_iter().map(|it| (it, self.forest().quotas_over(it))).collect();
        let below = limited_below(self.forest(), intents);
        let mut decisions = self.change_until_refused(intents, first).await?;
        self.name_what_is_hidden(decisions.iter_mut().skip(asked));
        if !self.structure.is_whole && !decisions.iter().any(Decision::is_refusal) {
            self.lacking.extend(awaited::lacking(self.session, intents).await);
        }
        let is_restless = self.preview.is_restless();
        if is_restless {
            self.notes.push("not all effects could be determined".into());
        }
        let mut outcome = self.preview.outcome();
        self.notes.extend(present.leave_out_of(&mut outcome));
        present::keep_label_of_parents(&mut outcome, &self.structure);
        let overridable = intents.iter().flat_map(|it| self.overridable(it)).collect();
        let unknown = unknown(&self.hidden, &self.structure.hidden, &self.lacking);
        let pending = (self.knows_the_present && unknown.is_none()).then_some(present.pending);
        let is_partial = !intents.is_empty() && (is_restless || unknown.is_some());
        let Self { preview, mut notes, settings_note, structure, mut unread, unlisted, .. } = self;
        let Structure { namespaces: existing, hidden, .. } = structure;
        unread.extend(hidden);
        notes.extend(unknown);
        let over = |(name, before): &(&Name, Vec<_>)| {
            uncounted(name, before, &preview.forest().quotas_over(name), &outcome)
        };
        notes.extend(moved.iter().filter_map(over));
        let created = |intent: &Intent| match intent {
            // One that exists has its quotas, or is one of those that moved.
            Intent::CreateAnchor { child, .. }
                if !existing.contains_key(child) && !moved.iter().any(|(name, _)| *name == child) =>
            {
                limited(child, &preview.forest().quotas_over(child))
            }
            _ => None,
        };
        notes.extend(intents.iter().filter_map(created));
        notes.extend(released(&below, preview.forest(), &outcome));
        notes.extend(counted(preview.forest(), &outcome));
        // These notes are about the effects, and without a change there are none.
        if intents.is_empty() || decisions.iter().any(Decision::is_refusal) {
            notes.clear();
        }
        notes.splice(..0, settings_note);
        notes.dedup();
        let forest = preview.into_forest();
        let needs_force = false;
        Ok(PreviewResult {
            decisions,
            outcome,
            pending,
            forest,
            overridable,
            unread,
            unlisted,
            is_partial,
            needs_force,
            notes,
        })
    }

    /// Makes the changes with all their effects, and decides about each before it is made; `first` are the decisions about the
    /// first ones. If one is refused, the command starts none, so none has an effect.
    async fn change_until_refused(
        &mut self,
        intents: &[Intent],
        first: Vec<Decision>,
    ) -> Result<Vec<Decision>, Failure> {
        let (mut decisions, mut first) = (Vec::new(), first.into_iter());
        for intent in intents {
            let decision = match first.next() {
                Some(decision) => decision,
                None => self.decide_later(intent).await?,
            };
            let is_refused = decision.is_refusal();
            decisions.push(decision);
            if is_refused {
                self.preview.mark();
                break;
            }
            self.preview.change(intent, &self.user);
            self.settle().await?;
        }
        Ok(decisions)
    }

    /// Gives the kinds that the user may not list as the reason for a decision that is unknown: the rules say what the webhook
    /// lacks. About the first changes the API server is asked, which gives its own reason.
    fn name_what_is_hidden<'d>(&self, later: impl Iterator<Item = &'d mut Decision>) {
        if self.hidden.is_empty() {
            return;
        }
        for decision in later {
            if let Decision::Unknown { why } = decision {
                *why = format!("you may not list {} in all namespaces concerned", self.hidden.join(", "));
            }
        }
    }

    /// The labels and annotations of an anchor that namespaces above may override, whose hierarchy the user may not read.
    fn overridable(&self, intent: &Intent) -> Vec<(Name, Box<str>)> {
        let Intent::CreateAnchor { parent, child, labels, annotations } = intent else { return Vec::new() };
        if !self.forest().ancestry(parent).iter().any(|it| self.structure.hidden.contains(it)) {
            return Vec::new();
        }
        labels.iter().chain(annotations.iter()).map(|(key, _)| (child.clone(), key.into())).collect()
    }
}

/// The namespace whose parent the change sets.
fn moves(intent: &Intent) -> Option<&Name> {
    match intent {
        Intent::SetHierarchy { namespace, .. } | Intent::Annotate { namespace, .. } => Some(namespace),
        _ => None,
    }
}

/// The structure of the whole cluster, or what is above and below those of the namespaces that exist; the first one
/// must exist.
pub(crate) async fn gather(session: &Session, concerned: &[&str]) -> Result<Structure, Failure> {
    let mut starts: Vec<String> = Vec::new();
    for name in concerned {
        let api = session.all::<Namespace>();
        let is_there =
            starts.is_empty() || !matches!(session.call(api.get_metadata_opt(name)).await, Ok(None));
        if is_there && !starts.iter().any(|it| it == name) {
            starts.push((*name).to_owned());
        }
    }
    structure::read_with_anchors(session, Extent::Around(&starts)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::Version;
    use forest::accurate::SubNamespaceFact;
    use hns_api::accurate::labels::{PARENT, TYPE, TYPE_ROOT};

    use super::*;
    use crate::structure::tests::sketch;

    fn result(decision: Decision, outcome: Outcome, forest: Forest) -> PreviewResult {
        PreviewResult {
            decisions: vec![decision],
            outcome,
            pending: None,
            forest,
            overridable: BTreeSet::new(),
            unread: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            is_partial: false,
            needs_force: false,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_warning_is_about_a_change_that_would_be_allowed() {
        let result = |decision| result(decision, Outcome::default(), sketch(&[]).forest());
        let mut allowed = result(Decision::Allowed { warnings: vec!["one".into()] });
        allowed.warn("two".into());
        assert_eq!(allowed.decisions, [Decision::Allowed { warnings: vec!["one".into(), "two".into()] }]);
        let unknown = Decision::Unknown { why: "no".into() };
        let mut kept = result(unknown.clone());
        kept.warn("two".into());
        assert_eq!(kept.decisions, [unknown]);
    }

    #[test]
    fn a_namespace_that_another_form_creates_again_is_deleted_and_created() {
        let mut structure = sketch(&["la", "lb", "lx"]);
        for (name, label) in [("la", (TYPE, TYPE_ROOT)), ("lb", (TYPE, TYPE_ROOT)), ("lx", (PARENT, "lb"))] {
            structure.namespaces.get_mut(name).unwrap().labels = [label].into_iter().collect();
        }
        let empty = Forest::unconfigured(Arc::new(structure::settings())).with_accurate(Arc::default());
        let mut forest = structure.put_into(empty);
        let form = |parent: &str| {
            let version = Version { uid: parent.into(), ..Version::default() };
            (parent.into(), SubNamespaceFact { name: "lx".into(), version, ..SubNamespaceFact::default() })
        };
        forest.apply(AccurateFact::SubNamespaces(["la", "lb"].map(form).into()));
        let mut preview = Preview::new(forest);
        preview.settle();
        preview.mark();
        let delete = Intent::DeleteSubNamespace { parent: "lb".into(), child: "lx".into() };
        preview.change(&delete, &User::default());
        preview.settle();
        let allowed = Decision::Allowed { warnings: Vec::new() };
        let result = result(allowed, preview.outcome(), preview.into_forest());
        let document = Document::new(Vec::new(), &result);
        let actions: Vec<_> = document.namespaces.iter().map(|it| (&*it.name, it.action)).collect();
        assert_eq!(actions, [("lx", "delete"), ("lx", "create")]);
        let text = document.text(crate::terminal::Paint::NONE);
        for line in [
            "\n  lx would be created again by SubNamespace la/lx\n",
            "\n  lx: label accurate.cybozu.com/parent=la would be added\n",
            "; namespaces: 1 created, 1 deleted, 0 changed; ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
