//! Row 2: which objects a new configuration of a kind would overwrite. Only namespaces count to which the source did not
//! propagate before. Objects that nothing would overwrite are left out.

use crate::core::kind::{Kind, KindId, KindSettings, ObjectKey};
use crate::core::name::Name;
use crate::core::text::shown;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::rules::{Denial, Verdict};
use crate::hnc::words::way_out;

/// How many conflicts a message names; it counts the rest.
const NAMED: usize = 20;

/// A source that would be overwritten.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conflict {
    /// Its namespace.
    below: Name,
    /// Its name.
    name: Name,
    /// The namespace of the source that would replace it.
    above: Name,
    /// The kind of both.
    kind: Kind,
}

/// The sources that others above would overwrite with this configuration, but not with `before`, in a stable order. The cost
/// grows with the number of names that several namespaces have.
pub(super) fn conflicts(
    forest: &Forest,
    id: KindId,
    kind: &KindSettings,
    before: Option<&KindSettings>,
) -> Vec<Conflict> {
    let before = before.filter(|before| !replaces_newly(forest, kind, before));
    let mut found: Vec<Conflict> = forest
        .shared_names(id)
        .flat_map(|(key, holders)| holders.iter().map(move |below| (key, *below)))
        .filter_map(|(key, below)| {
            let above = overwriting(forest, kind, key, below)?;
            if before.is_some_and(|before| overwriting(forest, before, key, below).is_some()) {
                return None;
            }
            let [below, above] = [below, above].map(|id| forest.name(id).clone());
            Some(Conflict { below, name: key.name.clone(), above, kind: kind.kind.clone() })
        })
        .collect();
    found.sort_unstable();
    found
}

/// Whether objects are replaced that were kept before.
pub(super) fn replaces_newly(forest: &Forest, kind: &KindSettings, before: &KindSettings) -> bool {
    let [now, before] = [kind, before].map(|kind| forest.settings().on_conflict(kind).replaces());
    now && !before
}

/// The top-most namespace whose source of this name would propagate to `below`, also where nothing is written until a halted
/// namespace is repaired: no review of the repair compares the objects in its own tree.
fn overwriting(forest: &Forest, kind: &KindSettings, key: &ObjectKey, below: Id) -> Option<Id> {
    if !forest.is_existing(below) {
        return None;
    }
    let label = crate::hnc::plan::wanted_labels(forest, below);
    let mut from_the_top = forest.path(below).into_iter().skip(1).rev();
    from_the_top.find(|above| {
        let source = forest.source(*above, key);
        source.is_some_and(|source| source.goes_to(kind, &key.name, &label).is_ok())
    })
}

/// 409 with the conflicts.
pub(super) fn denial(found: &[Conflict]) -> Verdict {
    let line = |Conflict { below, name, above, kind }: &Conflict| {
        let (name, resource) = (shown(name), kind.group_resource());
        format!("object {name:?} in namespace {below:?} is in the way of the one in {above:?} ({resource})")
    };
    let mut lines: Vec<String> = found.iter().take(NAMED).map(line).collect();
    let more = found.len().saturating_sub(NAMED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let way_out = way_out(found.iter().map(|it| &it.kind));
    Denial::conflict(format!("objects of the same name are in the way; {way_out}: {}", lines.join("; ")))
        .into()
}
