//! The writes of objects, by their effect on access.

use super::Action;
use crate::core::kind::Kind;

/// The writes of objects in one namespace, by their effect on access.
#[derive(Debug)]
pub(crate) struct Writes<D> {
    pub(crate) lost_bindings: Vec<Action<D>>,
    pub(crate) lost: Vec<Action<D>>,
    pub(crate) restrictions: Vec<Action<D>>,
    pub(crate) gained: Vec<Action<D>>,
    pub(crate) gained_roles: Vec<Action<D>>,
    pub(crate) gained_bindings: Vec<Action<D>>,
}

impl<D> Default for Writes<D> {
    fn default() -> Self {
        Self {
            lost_bindings: Vec::new(),
            lost: Vec::new(),
            restrictions: Vec::new(),
            gained: Vec::new(),
            gained_roles: Vec::new(),
            gained_bindings: Vec::new(),
        }
    }
}

impl<D: Clone> Writes<D> {
    /// Adds a write of an object of this kind.
    pub(crate) fn file(&mut self, kind: &Kind, action: Action<D>) {
        let list = match &action {
            Action::DeleteCopy { .. } if kind.binds_subjects() => &mut self.lost_bindings,
            Action::DeleteCopy { .. } => &mut self.lost,
            _ if kind.binds_subjects() => &mut self.gained_bindings,
            _ if kind.holds_rules() => &mut self.gained_roles,
            _ if kind.restricts() => &mut self.restrictions,
            _ => &mut self.gained,
        };
        list.push(action);
    }

    /// New rights are written together and in order, so they wait until the missing content is read.
    pub(crate) fn give_nothing_yet(&mut self) {
        for list in [&mut self.gained, &mut self.gained_roles, &mut self.gained_bindings] {
            list.clear();
        }
    }

    /// In a namespace that is being deleted, an object that should be deleted and created again is only deleted.
    pub(crate) fn create_nothing(&mut self) {
        self.gained_bindings.retain(|action| !matches!(action, Action::CreateCopy { .. }));
    }

    /// If a binding changes while its Role is created, changed or deleted, then in any order its old subjects would for a moment
    /// have the new rules, or its new subjects the old ones. Such a binding is deleted first and created last.
    pub(crate) fn separate_changed_bindings(
        &mut self,
        is_role: impl Fn(&Action<D>) -> bool,
        changes_access: impl Fn(&Action<D>) -> bool,
    ) {
        if !self.gained_roles.iter().any(&changes_access) && !self.lost.iter().any(is_role) {
            return;
        }
        for action in &mut self.gained_bindings {
            if changes_access(action)
                && let Action::ReplaceCopy { key, version, source, content } = action.clone()
            {
                self.lost_bindings.push(Action::DeleteCopy { key: key.clone(), version });
                *action = Action::CreateCopy { key, source, content };
            }
        }
    }
}
