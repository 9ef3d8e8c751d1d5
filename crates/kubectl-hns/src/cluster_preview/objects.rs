//! Which objects do the effects of a change depend on? They are read as far as the user may read them.

use std::collections::BTreeSet;

use forest::exceptions::Exceptions;
use forest::{Fact, KindId, Name, ObjectFact, Stream};

use super::ClusterPreview;
use crate::Failure;
use crate::loader;

impl ClusterPreview<'_> {
    /// Applies all effects, and reads missing objects.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
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
    pub(super) async fn list(&mut self, id: KindId) -> Result<(), Failure> {
        let kind = self.forest().kind(id).clone();
        // Nothing was done about the kind until now, so its copies can differ from their sources.
        self.whole.insert(id);
        let resource = kind.group_resource();
        let failed = |problem| Failure::because(format!("{resource} cannot be listed"), &problem);
        let mut all = match loader::objects(self.session, self.forest(), (&kind, true), None).await {
            Ok(all) => {
                self.preview.tell(Fact::Objects(id, all));
                return Ok(());
            }
            Err(problem) if problem.is_forbidden() => Vec::new(),
            Err(problem) => return Err(failed(problem)),
        };
        let mut unseen: Vec<String> = Vec::new();
        for namespace in &self.within {
            match loader::objects(self.session, self.forest(), (&kind, true), Some(namespace)).await {
                Ok(found) => all.extend(found),
                Err(problem) if problem.is_forbidden() => unseen.push(namespace.to_string()),
                Err(problem) => return Err(failed(problem)),
            }
        }
        all.extend(unseen_sources(&all, &unseen));
        self.unlisted.extend(unseen.iter().map(|namespace| (id, namespace.as_str().into())));
        if !unseen.is_empty() {
            self.hidden.push(resource);
        }
        self.preview.tell(Fact::Objects(id, all));
        Ok(())
    }

    /// Reads sources again whose content was not needed before.
    pub(super) async fn list_again(&mut self, namespace: Name, id: KindId) -> Result<(), Failure> {
        let kind = self.forest().kind(id).clone();
        let resource = kind.group_resource();
        let is_whole = self.whole.contains(&id);
        let found = loader::objects(self.session, self.forest(), (&kind, is_whole), Some(&namespace)).await;
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
            // What the source says of its propagation is not known. It has this copy.
            let exceptions = Some(Box::new(Ok(Exceptions::everywhere())));
            sources.push(ObjectFact { namespace, inherited_from: None, exceptions, hop, ..copy.clone() });
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use forest::Version;

    use super::*;

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
        let [source] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*source.namespace, &*source.name, &source.inherited_from), ("a", "r", &None));
        let asks = source.exceptions.as_deref().unwrap().as_ref().unwrap();
        assert_eq!(asks.admit_somewhere(forest::Mode::AllowPropagate), Ok(()));
    }
}
