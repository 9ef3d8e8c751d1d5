//! A missing parent that one request names, and another request creates by an anchor at the same moment: both look into one stored list
//! ([`forest::hnc::naming`]).
//!
//! The rule has allowed the request with what it knew of the other side. If the list or the live anchors show more, the request waits
//! until the forest shows it too, and the rule judges again.

use std::fmt::Display;

use forest::hnc::naming::{ALL, Naming, Namings, Pending};
use forest::rules::{Answer, Denial, DenialKind, ParentChange, Question};
use forest::{Forest, Name};
use hns_api::SubnamespaceAnchor;
use hns_api::accurate::SubNamespace;
use hns_api::names::MISSING_PARENTS;
use hns_cluster::error_text::error_text;
use hns_cluster::namings;
use k8s_openapi::jiff::Timestamp;
use kube::CustomResourceExt;
use tokio::time::timeout_at;

use crate::questions::Asker;

/// The list has no room.
const FULL: &str = "too many requests name missing parents at this moment; create the parent first, or try again in two minutes";

/// The other side of an allowed change.
#[derive(Debug)]
pub(crate) enum OtherSide {
    /// It is known, and has consented. The list says so.
    Known,
    /// These have not been judged: the namespaces of anchors, or those that name the anchor's name.
    Unknown(Vec<Name>),
}

/// Whether there may be another side.
pub(crate) fn has_other_side(change: &ParentChange) -> bool {
    change.missing_parent.is_some() || change.is_new_anchor()
}

impl Asker<'_> {
    /// Notes in the list what an allowed change means to the other side, and looks for it. `own` is the naming of this review, if it
    /// is in the list already.
    pub(crate) async fn meet(
        &self,
        change: &ParentChange,
        own: &mut Option<Naming>,
    ) -> Result<OtherSide, Denial> {
        let met = async {
            match (&change.missing_parent, &change.anchor_in) {
                (Some(parent), _) => self.name(change, parent, own).await,
                (None, Some(holder)) => self.consent(change, holder).await,
                (None, None) => Ok(OtherSide::Known),
            }
        };
        let late = |_| unusable("the API server did not answer in time");
        timeout_at(self.deadline, met).await.map_err(late)?
    }

    /// Who is admin of all namespaces is admin of that of any anchor, so an anchor that is created at the same moment has consent. A
    /// `SubNamespace` never has.
    async fn name(
        &self,
        change: &ParentChange,
        parent: &Name,
        own: &mut Option<Naming>,
    ) -> Result<OtherSide, Denial> {
        let is_admin_everywhere = self.ask(&Question::IsAdmin(Name::default())).await == Answer::Yes;
        let has_sub_namespaces = self.forest.read(|forest| forest.accurate_settings().is_some());
        if is_admin_everywhere && !has_sub_namespaces {
            return Ok(OtherSide::Known);
        }
        let naming = Naming {
            parent: parent.clone(),
            child: change.child.clone(),
            holders: if is_admin_everywhere { vec![ALL.into()] } else { change.consenting.clone() },
            review: self.uid.into(),
            since: Timestamp::now().to_string().into(),
        };
        *own = Some(naming.clone());
        let add = |list: &mut Namings| list.add(naming.clone());
        // What tenants have in the list must not keep an administrator from restoring a cluster.
        if !self.update(add, |added| *added).await? && !is_admin_everywhere {
            return Err(Denial::new(DenialKind::Unavailable, FULL));
        }
        let waiting = async {
            let anchors = namings::holders_of_waiting(self.client, parent).await;
            let mut waiting =
                anchors.map_err(|error| unlisted(parent, SubnamespaceAnchor::crd_name(), &error))?;
            waiting.retain(|holder| naming.lacks_consent(holder));
            if has_sub_namespaces {
                let holders = namings::holders_of_sub_namespaces(self.client, parent).await;
                let holders = holders.map_err(|error| unlisted(parent, SubNamespace::crd_name(), &error))?;
                // The rule judges those that are known.
                let is_known =
                    |holder: &Name| self.forest.read(|forest| forest.has_sub_namespace(holder, parent));
                waiting.extend(holders.into_iter().filter(|holder| !is_known(holder)));
            }
            Ok(waiting)
        };
        waiting.await.map(OtherSide::of)
    }

    async fn consent(&self, change: &ParentChange, holder: &Name) -> Result<OtherSide, Denial> {
        let consent = |list: &mut Namings| list.consent(&change.child, holder, &change.consenting);
        match self.update(consent, Result::is_ok).await? {
            Ok(()) => Ok(OtherSide::Known),
            Err(Pending::Unknown(unknown)) => Ok(OtherSide::of(unknown)),
            Err(Pending::Full) => Err(Denial::new(DenialKind::Unavailable, FULL)),
        }
    }

    /// Removes a naming that was not allowed after all. One that stays ends later by itself.
    pub(crate) async fn retract(&self, naming: &Naming) {
        let removed = timeout_at(self.deadline, self.update(|list| list.remove(naming), |()| true)).await;
        if !matches!(removed, Ok(Ok(()))) {
            tracing::info!(parent = %naming.parent, child = %naming.child, "a naming that was denied stays in the ConfigMap {MISSING_PARENTS}");
        }
    }

    /// Changes the list, if `is_wanted` for the result.
    async fn update<T>(
        &self,
        change: impl Fn(&mut Namings) -> T,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T, Denial> {
        loop {
            let stored = namings::read(self.store).await.map_err(|error| unusable(error_text(&error)))?;
            let mut list = stored.content.clone();
            let result = change(&mut list);
            if list == stored.content || !is_wanted(&result) {
                return Ok(result);
            }
            let replaced = self.store.replace(&stored, &list).await;
            if replaced.map_err(|error| unusable(error_text(&error)))?.is_some() {
                return Ok(result);
            }
        }
    }
}

impl OtherSide {
    fn of(unknown: Vec<Name>) -> Self {
        if unknown.is_empty() { Self::Known } else { Self::Unknown(unknown) }
    }
}

/// Whether the forest shows the other side.
pub(crate) fn is_known(forest: &Forest, change: &ParentChange, unknown: &[Name]) -> bool {
    if let Some(parent) = &change.missing_parent {
        let is_known =
            |holder: &Name| forest.has_anchor(holder, parent) || forest.has_sub_namespace(holder, parent);
        return unknown.iter().all(is_known);
    }
    let children = forest.children(&change.child);
    unknown.iter().all(|child| children.contains(child))
}

/// Why a request is denied whose other side the forest does not show.
pub(crate) fn still_unknown(change: &ParentChange, unknown: &[Name]) -> Denial {
    let why = if let Some(parent) = &change.missing_parent {
        format!("an anchor or a SubNamespace is just being created for {parent:?}, which does not exist yet")
    } else {
        let names: Vec<String> = unknown.iter().map(|it| format!("{it:?}")).collect();
        format!("a request to make {:?} the parent of {} is under way", change.child, names.join(", "))
    };
    Denial::new(DenialKind::Unavailable, format!("{why}; try again in a moment"))
}

/// Why a request is denied that names `parent`, while the objects that may create it cannot be listed.
fn unlisted(parent: &Name, resource: &str, error: &kube::Error) -> Denial {
    let why = error_text(error);
    Denial::new(
        DenialKind::Unavailable,
        format!(
            "it cannot be checked whether {parent:?}, which does not exist, is just being created, because {resource} cannot be listed: \
             {why}; try again in a moment; if this lasts, `kubectl hns doctor` says what to do"
        ),
    )
}

fn unusable(why: impl Display) -> Denial {
    Denial::new(
        DenialKind::Unavailable,
        format!(
            "it cannot be checked whether namespaces name a missing parent that is created at the same moment, because of the ConfigMap \
             {MISSING_PARENTS}: {why}; try again in a moment, or apply the manifests of this version of hns"
        ),
    )
}
