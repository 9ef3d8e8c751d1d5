//! Which kinds are propagated, and the state of each stream of facts.

use super::Store;
use crate::core::change::Change;
use crate::core::kind::{Kind, KindId, KindSettings};
use crate::core::stream::{Stream, StreamState};

#[derive(Debug)]
pub(super) struct KnownKind {
    pub(super) settings: KindSettings,
    /// Whether the present configuration includes it.
    pub(super) configured: bool,
}

impl Store {
    /// The configured kinds.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &KindSettings)> {
        let kinds = (0u16..).map(KindId).zip(&self.kinds);
        kinds.filter(|(_, known)| known.configured).map(|(id, known)| (id, &known.settings))
    }

    /// The kind with this id, which this forest assigned.
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[usize::from(id.0)].settings.kind
    }

    /// The configuration of a kind; `None` when it is no longer configured.
    pub fn kind_settings(&self, id: KindId) -> Option<&KindSettings> {
        self.kinds.get(usize::from(id.0)).filter(|known| known.configured).map(|known| &known.settings)
    }

    /// The configured kind of this group and this `kind`, in any version.
    pub fn kind_named(&self, group: &str, kind: &str) -> Option<KindId> {
        let is_meant = |it: &Kind| it.group == group && it.kind == kind;
        self.kinds().find(|(_, settings)| is_meant(&settings.kind)).map(|(id, _)| id)
    }

    /// Whether it is known which kinds are propagated.
    pub fn is_configured(&self) -> bool {
        self.stream(self.layout.configuration).is_synced()
    }

    /// The state of a stream.
    pub fn stream(&self, stream: Stream) -> StreamState {
        self.streams.get(&stream).cloned().unwrap_or_default()
    }

    /// The first stream of the structure that is not synced, if any.
    pub fn structure_gap(&self) -> Option<(Stream, StreamState)> {
        let structure = self.layout.structure.iter().copied();
        structure.map(|stream| (stream, self.stream(stream))).find(|(_, state)| !state.is_synced())
    }

    /// The first propagated kind whose stream is not synced, if any.
    pub fn kind_gap(&self) -> Option<(&Kind, StreamState)> {
        self.kinds()
            .filter(|(_, settings)| settings.mode.propagates())
            .map(|(id, settings)| (&settings.kind, self.stream(Stream::Kind(id))))
            .find(|(_, state)| !state.is_synced())
    }

    /// A number that changes whenever a stream's state, the configured kinds or the awaited names change, or a dialect stops or
    /// resumes planning.
    pub fn progress(&self) -> u64 {
        self.progress + self.tree.name_changes()
    }

    /// Counts a change as progress that only a dialect sees.
    pub(crate) fn progressed(&mut self) {
        self.progress += 1;
    }

    /// If the configuration can no longer be read, the last one that was read stays in force.
    pub(crate) fn stream_lost(&mut self, stream: Stream, why: Box<str>) {
        if stream != self.layout.configuration || !self.is_configured() {
            self.set_stream(stream, StreamState::Lost(why));
        }
    }

    /// Whether the state changed.
    fn set_stream(&mut self, stream: Stream, state: StreamState) -> bool {
        let is_news = self.streams.get(&stream) != Some(&state);
        if is_news {
            self.streams.insert(stream, state);
            self.progress += 1;
        }
        is_news
    }

    pub(crate) fn configure(&mut self, kinds: Vec<KindSettings>, change: &mut Change) {
        self.synced(self.layout.configuration, change);
        let unwanted = (0u16..).map(KindId).zip(&self.kinds).filter(|(_, known)| {
            known.configured && !kinds.iter().any(|wanted| wanted.kind == known.settings.kind)
        });
        let unwanted: Vec<KindId> = unwanted.map(|(id, _)| id).collect();
        let mut is_news = !unwanted.is_empty();
        for id in unwanted {
            self.forget_kind(id);
        }
        for wanted in kinds {
            is_news |= self.configure_kind(wanted);
        }
        self.progress += u64::from(is_news);
        change.everything |= is_news;
    }

    /// Whether the configuration changed.
    fn configure_kind(&mut self, wanted: KindSettings) -> bool {
        match self.kinds.iter_mut().find(|known| known.settings.kind == wanted.kind) {
            Some(known) if known.configured && known.settings == wanted => false,
            Some(known) => {
                *known = KnownKind { settings: wanted, configured: true };
                true
            }
            None => {
                self.kinds.push(KnownKind { settings: wanted, configured: true });
                true
            }
        }
    }

    /// Drops the objects of a kind: they would be out of date when the kind is configured again.
    fn forget_kind(&mut self, id: KindId) {
        self.kinds[usize::from(id.0)].configured = false;
        self.streams.remove(&Stream::Kind(id));
        self.forget_unverified(Stream::Kind(id));
        for (namespace, key) in self.objects.places(id) {
            self.objects.remove(namespace, &key);
            self.tree.unpin(namespace);
        }
        self.failures.retain(|_, failed| {
            failed.retain(|key, _| key.kind != id);
            !failed.is_empty()
        });
        let failures = &self.failures;
        self.conflicted.retain(|namespace| {
            failures.get(namespace).is_some_and(|failed| failed.values().any(|failure| failure.is_conflict))
        });
        self.tree.links_matter_above(!self.conflicted.is_empty());
    }

    pub(super) fn synced(&mut self, stream: Stream, change: &mut Change) {
        self.mark_unverified(stream);
        change.everything |= self.set_stream(stream, StreamState::Synced);
    }
}
