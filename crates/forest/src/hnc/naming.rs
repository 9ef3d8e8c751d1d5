//! Namespaces that are about to name a missing parent, while an anchor of its name may be created at the same moment.
//!
//! The anchor's namespace passes its `RoleBindings` on to the namespaces below the one that the anchor creates. So the second of
//! the two requests needs a consent: an anchor needs that of the namespaces that name it, and a namespace needs that of the anchor's namespace.
//! Two replicas of the webhook that review both at the same moment do not know of the other request. So all namings of missing parents
//! are in one stored object, the list, and three programs look:
//!
//! 1. The webhook adds a naming to the list before it allows it. Only then it looks for anchors of that name, live.
//! 2. The webhook reads the list before it allows an anchor, and notes there which namings have consented to it.
//! 3. The controller reads the list before it creates the namespace of an anchor, and creates none without consent.
//!
//! A `SubNamespace` of Accurate's API can have no consent: its namespace would be in both hierarchies. So 1 looks for `SubNamespaces`, too,
//! and the request is denied if there is one. And while there is a naming, 3 creates no namespace of a `SubNamespace`: afterwards its
//! conflict is known.
//!
//! A naming is in the list for longer than a request can take. If an anchor was reviewed before that, 1 finds it, or it was stored
//! later, and then 3 finds the naming. If it was reviewed after that, 2 finds the naming or the webhook knows it by then. Each of the
//! three is needed: `tests/naming_model.rs` explores all orders.

use crate::core::name::Name;

/// Stands for the namespaces of all anchors in [`Naming::holders`].
pub const ALL: &str = "*";

/// The most names in the list. Each has at most 63 bytes, and an object of 1 MiB can be stored.
const MOST: usize = 4_000;

/// The list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Namings(pub Vec<Naming>);

/// A request by which a namespace names a missing parent. It may not be stored yet, or never.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Naming {
    /// The missing parent.
    pub parent: Name,
    /// The namespace that names it.
    pub child: Name,
    /// The namespaces whose anchors of the name `parent` may create it above `child`: an admin has consented.
    pub holders: Vec<Name>,
    /// The review that allowed it.
    pub review: Box<str>,
    /// When that was.
    pub since: Box<str>,
}

/// Why an anchor cannot be allowed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// These namespaces are about to name it as their parent. The rule must judge it again when the forest shows that.
    Unknown(Vec<Name>),
    /// The list is full.
    Full,
}

impl Namings {
    /// Adds a naming, in the place of an earlier one of the same review. False if the list is full.
    pub fn add(&mut self, naming: Naming) -> bool {
        self.remove(&naming);
        self.0.push(naming);
        !self.is_full()
    }

    /// Removes a naming that is not allowed after all, or is over. Those of other reviews stay: they may be of the same namespaces.
    pub fn remove(&mut self, naming: &Naming) {
        let identity = |it: &Naming| (it.review.clone(), it.parent.clone(), it.child.clone());
        self.0.retain(|it| identity(it) != identity(naming));
    }

    /// Notes that the namespaces `consenting`, which are known to name `parent`, consent to an anchor of that name in `holder`.
    ///
    /// # Errors
    /// The anchor must wait.
    pub fn consent(&mut self, parent: &Name, holder: &Name, consenting: &[Name]) -> Result<(), Pending> {
        let (mut unknown, mut is_changed) = (Vec::new(), false);
        for naming in self.0.iter_mut().filter(|it| it.parent == *parent && it.lacks_consent(ALL)) {
            if !consenting.contains(&naming.child) {
                unknown.push(naming.child.clone());
            } else if !naming.holders.contains(holder) {
                naming.holders.push(holder.clone());
                is_changed = true;
            }
        }
        match unknown {
            unknown if !unknown.is_empty() => Err(Pending::Unknown(unknown)),
            _ if is_changed && self.is_full() => Err(Pending::Full),
            _ => Ok(()),
        }
    }

    /// A naming of `parent` that has not consented to an anchor in `holder`.
    pub fn without_consent(&self, parent: &str, holder: &str) -> Option<&Naming> {
        self.0.iter().find(|it| *it.parent == *parent && it.lacks_consent(holder))
    }

    /// A naming of `parent`, with or without consent.
    pub fn of(&self, parent: &str) -> Option<&Naming> {
        self.0.iter().find(|it| *it.parent == *parent)
    }

    fn is_full(&self) -> bool {
        self.0.iter().map(|it| 2 + it.holders.len()).sum::<usize>() > MOST
    }
}

impl Naming {
    /// Whether an anchor in this namespace may not create the parent.
    pub fn lacks_consent(&self, holder: &str) -> bool {
        self.holders.iter().all(|it| **it != *holder && **it != *ALL)
    }

    /// Whether the list needs it no longer once it is older than any request. These namespaces have anchors of the name that may still
    /// create the parent.
    pub fn may_end(&self, waiting: &[Name]) -> bool {
        waiting.iter().all(|holder| !self.lacks_consent(holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(child: &str, review: &str) -> Naming {
        let (parent, review, since) = ("p".into(), review.into(), "now".into());
        Naming { parent, child: child.into(), holders: Vec::new(), review, since }
    }

    #[test]
    fn an_anchor_waits_until_the_namings_are_known_and_then_needs_no_more() {
        let mut list = Namings::default();
        assert_eq!(list.consent(&"p".into(), &"x".into(), &[]), Ok(()));
        assert!(list.add(naming("y", "1")) && list.add(naming("z", "2")));
        let unknown = |names: &[&str]| Err(Pending::Unknown(names.iter().map(|it| (*it).into()).collect()));
        assert_eq!(list.consent(&"p".into(), &"x".into(), &[]), unknown(&["y", "z"]));
        assert_eq!(list.consent(&"p".into(), &"x".into(), &["z".into()]), unknown(&["y"]));
        assert!(list.without_consent("p", "x").is_some());
        assert_eq!(list.consent(&"p".into(), &"x".into(), &["y".into(), "z".into()]), Ok(()));
        assert!(list.without_consent("p", "x").is_none() && list.without_consent("q", "x").is_none());
        assert!(list.without_consent("p", "other").is_some());
        assert_eq!(list.consent(&"q".into(), &"other".into(), &[]), Ok(()), "another name");
    }

    #[test]
    fn a_review_replaces_and_removes_only_its_own_naming() {
        let mut list = Namings::default();
        let (first, second) = (naming("y", "1"), naming("y", "2"));
        assert!(list.add(first.clone()) && list.add(second.clone()));
        let again = Naming { holders: vec!["x".into()], ..first };
        assert!(list.add(again.clone()));
        assert_eq!(list.0, [second.clone(), again.clone()]);
        list.remove(&again);
        assert_eq!(list.0, [second]);
    }

    #[test]
    fn the_list_has_an_end() {
        let mut list = Namings::default();
        let added = (0..=MOST).take_while(|at| list.add(naming("y", &at.to_string()))).count();
        assert_eq!(added, MOST / 2);
        let _ = list.0.pop();
        assert_eq!(list.consent(&"p".into(), &"x".into(), &["y".into()]), Err(Pending::Full));
    }

    #[test]
    fn a_naming_stays_while_an_anchor_without_consent_waits() {
        let consenting = Naming { holders: vec!["x".into()], ..naming("y", "1") };
        assert!(consenting.may_end(&[]) && consenting.may_end(&["x".into()]));
        assert!(!consenting.may_end(&["x".into(), "other".into()]));
        let all = Naming { holders: vec![ALL.into()], ..naming("y", "1") };
        assert!(all.may_end(&["x".into(), "other".into()]));
    }
}
