//! Previews changes: applies them to a forest of the current cluster with [`forest::preview`], checks the user's rights
//! and the admission rules, and writes nothing. The commands `plan`, `move`, `convert` and `config` use it, and `plan` of
//! `kubectl accurate`.

mod admission;
mod document;
mod dry_run;
mod text;

use std::collections::BTreeSet;

use forest::accurate::Fact as AccurateFact;
use forest::preview::{Intent, ObjectChange, Outcome, Preview};
use forest::rules::{DenialKind, User, Verdict};
use forest::{Fact, Forest, Kind, KindId, Name, ObjectFact, ObjectKey, Stream, Version};

pub(crate) use self::admission::PERMANENT;
pub(crate) use self::document::Document;
use k8s_openapi::api::core::v1::Namespace;

use crate::Failure;
use crate::accurate_trees::around;
use crate::configured_kinds::{self, ConfiguredKinds};
use crate::loader::{self, Selection, load};
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
    /// The known namespaces, which are read one by one if objects cannot be listed in the whole cluster.
    within: BTreeSet<Name>,
    /// Those of them that the user may not read.
    unreadable: BTreeSet<Name>,
    /// Whether the user may list the namespaces and hierarchies of the whole cluster, and read the configuration.
    is_whole: bool,
    /// Whether that is so, and the settings are known, so that what the controller has left to do is known, too.
    knows_the_present: bool,
    /// The namespaces whose hierarchy the user may not read.
    hidden_hierarchies: BTreeSet<Name>,
    /// The namespaces in which the user may not read all objects of propagated kinds.
    unread: BTreeSet<Name>,
    /// What is uncertain about the settings, which the decisions depend on, as a note for the user.
    settings_note: Option<String>,
    /// What else could not be read, as notes for the user.
    notes: Vec<String>,
    /// The other rights that the user lacks to know all effects, as clauses.
    lacking: Vec<String>,
    /// The kinds that the user may not list in all namespaces concerned.
    hidden: Vec<String>,
    /// The objects that were read again already.
    read: BTreeSet<(Name, KindId)>,
}

/// The result of admission for one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The change would be allowed, with these warnings.
    Allowed { warnings: Vec<String> },
    /// The change would be refused.
    Refused { code: u16, reason: String, message: String },
    /// The result cannot be determined.
    Unknown { why: String },
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
    /// Whether there may be more effects than are known.
    pub(crate) is_partial: bool,
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
    /// namespaces `concerned`. Objects of the kinds in `also` are read even if they are ignored.
    pub(crate) async fn open(
        session: &'a Session,
        concerned: &[&str],
        also: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        Self::read(session, concerned, also, false).await
    }

    /// The same with Accurate's trees, in an installation that serves that API.
    pub(crate) async fn open_accurate(session: &'a Session, concerned: &[&str]) -> Result<Self, Failure> {
        Self::read(session, concerned, &[], true).await
    }

    async fn read(
        session: &'a Session,
        concerned: &[&str],
        also: &[(&str, &str)],
        with_accurate: bool,
    ) -> Result<Self, Failure> {
        let user = user_rights::user(session).await;
        let user = user.map_err(|it| Failure::because("cannot read your identity", &it))?;
        let mut notes = Vec::new();
        let (structure, configured, (settings, settings_note)) = futures::join!(
            Box::pin(gather(session, concerned)),
            Box::pin(configured_kinds::read(session, &mut notes)),
            Box::pin(published::settings(session)),
        );
        let (mut structure, configured) = (structure?, configured?);
        let knows_settings = settings_note.is_none();
        let is_meant =
            |it: &&Kind| also.iter().any(|(group, resource)| it.group == *group && it.resource == *resource);
        let mut kinds: Vec<Kind> =
            configured.resolution.settings().map(|it| &it.kind).filter(is_meant).cloned().collect();
        let mut forest = published::forest(session, settings).await;
        let mut lacking = Vec::new();
        if with_accurate {
            let around = Box::pin(around::read(session, concerned, structure.is_whole)).await?;
            if !structure.is_whole {
                let found: Vec<&str> = around.namespaces.iter().map(|it| &**it).collect();
                structure = Box::pin(gather(session, &found)).await?;
            }
            let watched = forest.accurate_settings().into_iter().flat_map(|it| &it.watches);
            kinds.extend(configured.served_as(watched, &mut notes));
            forest.apply(AccurateFact::SubNamespaces(around.forms));
            lacking = around.lacking;
        }
        let within: BTreeSet<Name> =
            structure.namespaces.keys().chain(structure.hierarchies.keys()).cloned().collect();
        let is_unreadable = |name: &&Name| !structure.namespaces.contains_key(*name);
        let unreadable = within.iter().filter(is_unreadable).cloned().collect();
        let all = Selection::All(&kinds);
        let seen = (structure, forest);
        let loaded = Box::pin(load(session, seen, &configured, all, &within)).await?;
        // What cannot be listed is noted where the preview needs it.
        if loaded.structure.is_whole {
            notes.extend(loaded.structure.notes);
        }
        // Without the configuration, the limits of trees are not known.
        let is_whole = loaded.structure.is_whole && configured.is_known && lacking.is_empty();
        let hidden_hierarchies = loaded.structure.hidden;
        let unread = loaded.unread.into_values().flatten().collect();
        let preview = Preview::new(loaded.forest);
        let (hidden, read) = (Vec::new(), BTreeSet::new());
        Ok(Self {
            session,
            preview,
            user,
            configured,
            within,
            unreadable,
            is_whole,
            knows_the_present: is_whole && knows_settings,
            hidden_hierarchies,
            unread,
            settings_note,
            notes,
            lacking,
            hidden,
            read,
        })
    }

    /// The current forest of the preview.
    pub(crate) fn forest(&self) -> &Forest {
        self.preview.forest()
    }

    /// Whether the user may not read the namespace.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.contains(name)
    }

    /// Previews the changes in order, up to the first refused one.
    pub(crate) async fn try_all(mut self, intents: &[Intent]) -> Result<PreviewResult, Failure> {
        let mut decisions = Vec::new();
        // The first change is decided on the current state, as the webhook would decide it.
        let mut decision = match intents.first() {
            Some(intent) => Some(self.decide_first(intent).await?),
            None => None,
        };
        self.settle().await?;
        let present = self.preview.outcome();
        let (pending, missing) = (size(&present, &self.unreadable), missing(&present));
        let not_made = not_made(&present);
        let is_going = |name: &&Name| self.forest().is_terminating(name);
        let going: BTreeSet<Name> = self.forest().names().filter(is_going).cloned().collect();
        self.preview.mark();
        let moving: BTreeSet<&Name> = intents.iter().filter_map(moves).collect();
        let limited: Vec<_> = moving.into_iter().map(|it| (it, self.forest().quotas_over(it))).collect();
        for (at, intent) in intents.iter().enumerate() {
            let verdict = match decision.take() {
                Some(judged) => judged,
                None => self.decide_later(intent).await?,
            };
            let refused = matches!(verdict, Decision::Refused { .. });
            decisions.push(verdict);
            if refused {
                // If a later change is refused, the command starts none of them, so the effects of the earlier ones do
                // not count.
                self.preview.mark();
                break;
            }
            self.preview.change(intent, &self.user);
            self.settle().await?;
            if at + 1 < intents.len() {
                decision = Some(self.decide_later(&intents[at + 1]).await?);
            }
        }
        let is_restless = self.preview.is_restless();
        if is_restless {
            self.notes.push("not all effects could be determined".into());
        }
        let mut outcome = self.preview.outcome();
        outcome.objects.retain(|it| it.after.is_some() || !missing.contains(&place(it)));
        outcome.namespaces.retain(|it| it.after.is_some() || !not_made.contains(&it.name));
        self.notes.extend(without_going(&mut outcome, &going));
        let overridable = intents.iter().flat_map(|it| self.overridable(it)).collect();
        let unknown = unknown(&self.hidden, &self.hidden_hierarchies, &self.lacking);
        let pending = (self.knows_the_present && unknown.is_none()).then_some(pending);
        let is_partial = is_restless || unknown.is_some();
        let Self { preview, mut notes, hidden, settings_note, hidden_hierarchies, mut unread, .. } = self;
        unread.extend(hidden_hierarchies);
        notes.extend(unknown);
        let over = |(name, before): &(&Name, Vec<_>)| {
            uncounted(name, before, &preview.forest().quotas_over(name), &outcome)
        };
        notes.extend(limited.iter().filter_map(over));
        notes.extend(counted(preview.forest(), &outcome));
        // The API server gives its own reason.
        let asked = usize::from(!matches!(intents.first(), Some(Intent::Configure { .. })));
        // The other notes are about the effects.
        if decisions.iter().any(|it| matches!(it, Decision::Refused { .. })) {
            notes.clear();
        }
        notes.splice(..0, settings_note);
        for decision in decisions.iter_mut().skip(asked) {
            // The rules say what the webhook lacks.
            if let Decision::Unknown { why } = decision
                && !hidden.is_empty()
            {
                *why = format!("you may not list {} in all namespaces concerned", hidden.join(", "));
            }
        }
        notes.dedup();
        let forest = preview.into_forest();
        Ok(PreviewResult { decisions, outcome, pending, forest, overridable, unread, is_partial, notes })
    }

    /// The labels and annotations of an anchor that namespaces above may override, whose hierarchy the user may not read.
    fn overridable(&self, intent: &Intent) -> Vec<(Name, Box<str>)> {
        let Intent::CreateAnchor { parent, child, labels, annotations } = intent else { return Vec::new() };
        if !self.forest().ancestry(parent).iter().any(|it| self.hidden_hierarchies.contains(it)) {
            return Vec::new();
        }
        labels.iter().chain(annotations.iter()).map(|(key, _)| (child.clone(), key.into())).collect()
    }

    /// Decides about a change of the present state. If the user may not read all that the rules need, the API server decides.
    async fn decide_first(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        let decision = if self.is_whole {
            Some(self.decide(intent).await?)
        } else {
            admission::lacks_right(self.session, self.forest(), &self.user, intent).await?
        };
        if let Some(decision) = decision.filter(|it| !matches!(it, Decision::Unknown { .. })) {
            let answer = if is_plain(&decision) { dry_run::ask(self.session, intent).await } else { None };
            return Ok(unless_unanswered(decision, answer));
        }
        match dry_run::ask(self.session, intent).await {
            Some(decision) => Ok(decision),
            None => self.decide(intent).await,
        }
    }

    /// Decides about a change after others, which the API server cannot be asked about. Without a view of the whole cluster, a
    /// refusal can be wrong.
    async fn decide_later(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        Ok(match self.decide(intent).await? {
            Decision::Refused { message, .. } if !self.is_whole => {
                Decision::Unknown { why: format!("by what you may read, it would be refused: {message}") }
            }
            decision => decision,
        })
    }

    async fn decide(&mut self, intent: &Intent) -> Result<Decision, Failure> {
        if let Some(refusal) = admission::unfit(self.forest(), intent) {
            return Ok(refusal);
        }
        if let Some(decision) =
            admission::lacks_right(self.session, self.forest(), &self.user, intent).await?
        {
            return Ok(decision);
        }
        let verdict = admission::verdict(self.session, &self.preview, &self.user, intent).await;
        if matches!(verdict, Verdict::Allow { .. })
            && let Some(refusal) = admission::exceeds_quota(self.session, intent).await
        {
            return Ok(refusal);
        }
        Ok(match verdict {
            Verdict::Allow { warnings, .. } => Decision::Allowed { warnings },
            Verdict::Deny(denial) => match denial.kind {
                DenialKind::Internal | DenialKind::Unavailable => Decision::Unknown { why: denial.message },
                kind => {
                    let (code, reason) = kind.code_and_reason();
                    Decision::Refused { code, reason: reason.to_owned(), message: denial.message }
                }
            },
            Verdict::Ask(_) => {
                Decision::Unknown { why: "the questions of the rules could not be answered".into() }
            }
        })
    }

    /// Applies all effects, and reads missing objects.
    async fn settle(&mut self) -> Result<(), Failure> {
        loop {
            let wants = self.preview.settle();
            if wants.is_empty() {
                return Ok(());
            }
            for id in wants.kinds {
                self.list(id).await?;
            }
            let places: BTreeSet<(Name, KindId)> =
                wants.content.into_iter().map(|(namespace, key)| (namespace, key.kind)).collect();
            for (namespace, id) in places {
                self.list_again(namespace, id).await?;
            }
        }
    }

    /// Lists the objects of a kind in the whole cluster, or in each known namespace.
    async fn list(&mut self, id: KindId) -> Result<(), Failure> {
        let kind = self.forest().kind(id).clone();
        let resource = kind.group_resource();
        let failed = |problem| Failure::because(format!("{resource} cannot be listed"), &problem);
        let mut all = match loader::objects(self.session, self.forest(), &kind, None).await {
            Ok(all) => {
                self.preview.tell(Fact::Objects(id, all));
                return Ok(());
            }
            Err(problem) if problem.is_forbidden() => Vec::new(),
            Err(problem) => return Err(failed(problem)),
        };
        let mut unseen = Vec::new();
        for namespace in &self.within {
            match loader::objects(self.session, self.forest(), &kind, Some(namespace)).await {
                Ok(found) => all.extend(found),
                Err(problem) if problem.is_forbidden() => unseen.push(namespace.to_string()),
                Err(problem) => return Err(failed(problem)),
            }
        }
        all.extend(unseen_sources(&all, &unseen));
        if !unseen.is_empty() {
            self.hidden.push(resource);
        }
        self.preview.tell(Fact::Objects(id, all));
        Ok(())
    }

    /// Reads sources again whose content was not needed before.
    async fn list_again(&mut self, namespace: Name, id: KindId) -> Result<(), Failure> {
        let kind = self.forest().kind(id).clone();
        let resource = kind.group_resource();
        let found = loader::objects(self.session, self.forest(), &kind, Some(&namespace)).await;
        let again = !self.read.insert((namespace.clone(), id));
        match found {
            Ok(facts) if !again => {
                for fact in facts {
                    self.preview.tell(Fact::Object(id, fact));
                }
            }
            Ok(_) => {
                let why = format!("the {resource} in {namespace} are being changed");
                self.notes.push(format!("{why}; the effects on {resource} are not shown"));
                self.preview.tell(Fact::StreamLost(Stream::Kind(id), why.into()));
            }
            Err(problem) => {
                self.notes.push(format!("cannot read {resource} in {namespace}: {problem}"));
                self.preview.tell(Fact::StreamLost(Stream::Kind(id), problem.to_string().into()));
            }
        }
        Ok(())
    }
}

/// Whether the rules allow the change without a warning, which the API server's answer would repeat.
fn is_plain(decision: &Decision) -> bool {
    matches!(decision, Decision::Allowed { warnings } if warnings.is_empty())
}

/// The decision of the rules, unless the API server had no answer of the webhook, without which it refuses the change.
fn unless_unanswered(decision: Decision, answer: Option<Decision>) -> Decision {
    match answer {
        Some(unknown @ Decision::Unknown { .. }) => unknown,
        _ => decision,
    }
}

/// What the user may not read of what the effects depend on, as a note.
fn unknown(kinds: &[String], hierarchies: &BTreeSet<Name>, others: &[String]) -> Option<String> {
    let kinds = (!kinds.is_empty()).then(|| format!("list {} in all namespaces concerned", kinds.join(", ")));
    let names = hierarchies.iter().map(|it| &**it).collect::<Vec<_>>().join(", ");
    let hierarchies = (!hierarchies.is_empty())
        .then(|| format!("read the hierarchy of {names}, which may set labels and annotations"));
    let lacking: Vec<String> = others.iter().cloned().chain(kinds).chain(hierarchies).collect();
    (!lacking.is_empty())
        .then(|| format!("not all effects are known: you may not {}", lacking.join(", nor ")))
}

/// The namespace whose parent the change sets.
fn moves(intent: &Intent) -> Option<&Name> {
    match intent {
        Intent::SetHierarchy { namespace, .. } | Intent::Annotate { namespace, .. } => Some(namespace),
        _ => None,
    }
}

type Quotas = [(Name, Name, Version)];

/// A note about the quotas that come to limit the namespace, except those whose usage is known to change.
fn uncounted(namespace: &str, before: &Quotas, after: &Quotas, outcome: &Outcome) -> Option<String> {
    let is_new = |(at, name, _): &&(Name, Name, Version)| {
        let counts = outcome.quotas.iter().any(|it| (&it.namespace, &it.name) == (at, name));
        !counts && !before.iter().any(|it| (&it.0, &it.1) == (at, name))
    };
    let quotas: Vec<String> =
        after.iter().filter(is_new).map(|(at, name, _)| format!("{at}/{name}")).collect();
    (!quotas.is_empty()).then(|| {
        format!(
            "{namespace} would come under the hierarchical quotas {}; what it uses already is counted only then, and may exceed them",
            quotas.join(", ")
        )
    })
}

/// A note about the quotas that may refuse new objects. How much the API server will count is not known here.
fn counted(forest: &Forest, outcome: &Outcome) -> Option<String> {
    let mut resources = BTreeSet::new();
    let mut quotas = BTreeSet::new();
    for object in outcome.objects.iter().filter(|it| it.before.is_none()) {
        let resource = forest.kind(object.key.kind).group_resource();
        let counting = forest.quotas_that_count(&object.namespace, &resource);
        if !counting.is_empty() {
            resources.insert(resource);
            quotas.extend(counting);
        }
    }
    let (resources, quotas) = (Vec::from_iter(resources).join(", "), Vec::from_iter(quotas).join(", "));
    (!quotas.is_empty()).then(|| {
        format!("new {resources} count against the hierarchical quotas {quotas}, and are refused where one of them is full")
    })
}

/// The sources of these copies in namespaces that cannot be read: without them, the copies would seem to be left over.
fn unseen_sources(all: &[ObjectFact], unseen: &[String]) -> Vec<ObjectFact> {
    let mut sources: Vec<ObjectFact> = Vec::new();
    for copy in all {
        let from = copy.inherited_from.as_ref().or(copy.hop.as_ref().and_then(|it| it.from.as_ref()));
        let Some(source) = from.filter(|it| unseen.iter().any(|name| **name == ***it)) else { continue };
        if !sources.iter().any(|it| it.namespace == *source && it.name == copy.name) {
            let (namespace, mut hop) = (source.clone(), copy.hop.clone());
            if let Some(hop) = &mut hop {
                hop.from = None;
            }
            sources.push(ObjectFact { namespace, inherited_from: None, hop, ..copy.clone() });
        }
    }
    sources
}

/// The objects that the controller has still to create. It may never be able to, so that they go is no effect.
fn missing(present: &Outcome) -> BTreeSet<(Name, ObjectKey)> {
    present.objects.iter().filter(|it| it.before.is_none()).map(place).collect()
}

/// The namespaces that the controller has still to create.
fn not_made(present: &Outcome) -> BTreeSet<Name> {
    present.namespaces.iter().filter(|it| it.before.is_none()).map(|it| it.name.clone()).collect()
}

/// Leaves out what would happen to namespaces that are being deleted already, and names these as a note.
fn without_going(outcome: &mut Outcome, going: &BTreeSet<Name>) -> Option<String> {
    let mut concerned = BTreeSet::new();
    let mut stays = |name: &Name| {
        let is_going = going.get(name);
        concerned.extend(is_going.cloned());
        is_going.is_none()
    };
    outcome.namespaces.retain(|it| stays(&it.name));
    outcome.anchors.retain(|it| stays(&it.child));
    outcome.objects.retain(|it| stays(&it.namespace));
    let names: Vec<&str> = concerned.iter().map(|it| &**it).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("{} {are} being deleted already", names.join(", ")))
}

fn place(object: &ObjectChange) -> (Name, ObjectKey) {
    (object.namespace.clone(), object.key.clone())
}

/// The number of changes, except in namespaces that cannot be read, whose labels are unknown.
fn size(outcome: &Outcome, unreadable: &BTreeSet<Name>) -> usize {
    let namespaces = outcome.namespaces.iter().filter(|it| !unreadable.contains(&it.name));
    namespaces.count() + outcome.anchors.len() + outcome.sub_namespaces.len() + outcome.objects.len()
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
    use std::collections::BTreeMap;

    use forest::hnc::quota::QuotaFact;
    use forest::preview::{AnchorChange, NamespaceChange, NamespaceState, QuotaChange};
    use forest::{KindSettings, Mode, hnc};
    use hns_cluster::ingest::quotas::amounts;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn quotas_whose_usage_is_not_known_are_noted() {
        let quota = |at: &str| (Name::from(at), Name::from("q"), Version::default());
        let (before, after) = ([quota("r")], [quota("r"), quota("a"), quota("b")]);
        let known = QuotaChange {
            namespace: "b".into(),
            name: "q".into(),
            before: BTreeMap::default(),
            after: BTreeMap::default(),
            hard: BTreeMap::default(),
        };
        let outcome = Outcome { quotas: vec![known], ..Outcome::default() };
        let note = uncounted("n", &before, &after, &outcome).unwrap();
        assert!(note.starts_with("n would come under the hierarchical quotas a/q; what it uses"), "{note}");
        assert_eq!(uncounted("n", &after, &before, &outcome), None);
    }

    /// A copy in `b`, which is limited at `a` and by another quota that does not count it.
    #[test]
    fn quotas_that_may_refuse_new_objects_are_noted() {
        let mut forest = sketch(&["a", "b < a", "c"]).forest();
        let quota = |name: &str, resource: &str| {
            let hard = amounts(&serde_json::json!({ resource: "1" }));
            (Name::from("a"), QuotaFact { name: name.into(), hard, ..QuotaFact::default() })
        };
        forest.apply(Fact::Hnc(hnc::Fact::Quotas(vec![
            quota("full", "count/configmaps"),
            quota("cpu", "limits.cpu"),
        ])));
        let kind = Kind {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            resource: "configmaps".into(),
        };
        forest.apply(Fact::Kinds(vec![KindSettings::new(kind, Mode::Propagate)]));
        let key = ObjectKey { kind: forest.kind_named("", "ConfigMap").unwrap(), name: "one".into() };
        let created = |namespace: &str| ObjectChange {
            namespace: namespace.into(),
            key: key.clone(),
            before: None,
            after: None,
        };
        let outcome = |namespace: &str| Outcome { objects: vec![created(namespace)], ..Outcome::default() };
        assert_eq!(
            counted(&forest, &outcome("b")).as_deref(),
            Some(
                "new configmaps count against the hierarchical quotas a/full, and are refused where one of them is full"
            )
        );
        assert_eq!(counted(&forest, &outcome("c")), None);
    }

    #[test]
    fn a_namespace_that_is_not_made_yet_is_not_deleted() {
        let change = |name: &str, before| NamespaceChange {
            name: name.into(),
            before,
            after: Some(NamespaceState::default()),
        };
        let present = Outcome {
            namespaces: vec![change("new", None), change("old", Some(NamespaceState::default()))],
            ..Outcome::default()
        };
        assert_eq!(not_made(&present), BTreeSet::from(["new".into()]));
    }

    #[test]
    fn what_is_being_deleted_already_is_no_effect() {
        let change = |name: &str| NamespaceChange {
            name: name.into(),
            before: Some(NamespaceState::default()),
            after: Some(NamespaceState::default()),
        };
        let anchor = AnchorChange { parent: "top".into(), child: "going".into(), is_there: false };
        let mut outcome = Outcome {
            namespaces: vec![change("top"), change("going")],
            anchors: vec![anchor],
            ..Outcome::default()
        };
        let note = without_going(&mut outcome, &["going", "elsewhere"].map(Name::from).into());
        assert_eq!(note.as_deref(), Some("going is being deleted already"));
        assert_eq!((outcome.namespaces, outcome.anchors), (vec![change("top")], vec![]));
    }

    #[test]
    fn a_webhook_that_does_not_answer_leaves_the_decision_open() {
        let allowed = Decision::Allowed { warnings: Vec::new() };
        let silent = Decision::Unknown { why: "failed calling webhook".into() };
        let refused = Decision::Refused { code: 409, reason: "Conflict".into(), message: "x".into() };
        assert_eq!(unless_unanswered(allowed.clone(), Some(silent.clone())), silent);
        assert_eq!(
            unless_unanswered(allowed.clone(), Some(refused)),
            allowed,
            "the rules decided on what was read"
        );
        assert_eq!(unless_unanswered(allowed.clone(), None), allowed);
        assert!(is_plain(&allowed) && !is_plain(&silent));
        assert!(!is_plain(&Decision::Allowed { warnings: vec!["mind".into()] }));
    }

    #[test]
    fn a_warning_is_about_a_change_that_would_be_allowed() {
        let result = |decision| PreviewResult {
            decisions: vec![decision],
            outcome: Outcome::default(),
            pending: None,
            forest: sketch(&[]).forest(),
            overridable: BTreeSet::new(),
            unread: BTreeSet::new(),
            is_partial: false,
            notes: Vec::new(),
        };
        let mut allowed = result(Decision::Allowed { warnings: vec!["one".into()] });
        allowed.warn("two".into());
        assert_eq!(allowed.decisions, [Decision::Allowed { warnings: vec!["one".into(), "two".into()] }]);
        let unknown = Decision::Unknown { why: "no".into() };
        let mut kept = result(unknown.clone());
        kept.warn("two".into());
        assert_eq!(kept.decisions, [unknown]);
    }

    #[test]
    fn one_note_says_what_is_not_known() {
        let (none, kinds) = (BTreeSet::new(), ["roles".to_owned(), "secrets".to_owned()]);
        assert_eq!(unknown(&[], &none, &[]), None);
        let hidden = BTreeSet::from(["tenants".into()]);
        assert_eq!(
            unknown(&kinds, &hidden, &["list namespaces".into()]).as_deref(),
            Some(
                "not all effects are known: you may not list namespaces, nor list roles, secrets in all namespaces concerned, \
                 nor read the hierarchy of tenants, which may set labels and annotations"
            )
        );
    }

    #[test]
    fn copies_show_the_sources_that_cannot_be_read() {
        let fact = |namespace: &str, name: &str, from: Option<&str>| ObjectFact {
            inherited_from: from.map(Name::from),
            ..ObjectFact::new(namespace.into(), name.into(), Version::default())
        };
        let all = [
            fact("b", "r", Some("a")),
            fact("c", "r", Some("a")),
            fact("c", "s", Some("b")),
            fact("b", "own", None),
        ];
        let found = unseen_sources(&all, &["a".into()]);
        let found: Vec<_> = found.iter().map(|it| (&*it.namespace, &*it.name, &it.inherited_from)).collect();
        assert_eq!(found, [("a", "r", &None)]);
    }
}
