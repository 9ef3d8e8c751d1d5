//! `tree`: draws the hierarchy.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forest::Name;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;

use crate::format::{self, render};
use crate::lines::{first, printable};
use crate::loader::Loaded;
use crate::object_argument::ObjectArgument;
use crate::object_states::ObjectStates;
use crate::picture::{self, Node, dot, mermaid, svg, text};
use crate::session::Session;
use crate::structure::{self, Extent, Structure};
use crate::{Failure, Terminal, accurate_trees, published};

/// How often `--watch` reads the trees.
const WATCH: Duration = Duration::from_secs(2);

/// How many namespaces a note names; it counts the rest.
const NAMED: usize = 20;

/// Draw the hierarchy below namespaces.
///
/// As in HNC, [s] marks subnamespaces, except those at the top of the drawing. A number in parentheses refers to a condition below the drawing; a number in brackets refers
/// to a reason. [excluded] marks namespaces that the settings of the installation exclude, [external] those
/// whose place another tool manages, [terminating] those that are being deleted. With -A, the trees start at
/// namespaces that have no parent, whose parent does not exist, or that are in a cycle. If you may not list namespaces and
/// hierarchyconfigurations, -A draws what you may see above and below your own namespace (-n).
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The roots of the trees.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    roots: Vec<String>,

    /// Draw all trees of the cluster.
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Draw at most this many levels below the roots.
    #[arg(long, value_name = "LEVELS", allow_negative_numbers = true, value_parser = levels)]
    depth: Option<usize>,

    /// Draw only namespaces whose labels match, and the namespaces above them. Supports =, ==, !=, in, notin,
    /// KEY, !KEY, KEY>N and KEY<N.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Draw the trees again whenever they change, until interrupted or until all named namespaces are
    /// deleted.
    #[arg(short, long)]
    watch: bool,

    /// Show for each namespace whether it has this object, such as secret/registry, as a source or a copy, and where
    /// and why copies are missing.
    #[arg(long, value_name = "KIND/NAME")]
    show_copies: Option<ObjectArgument>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Form>,
}

fn levels(text: &str) -> Result<usize, &'static str> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match text.parse::<i64>() {
        Ok(number) => usize::try_from(number).map_err(|_| "must be 0 or more"),
        Err(error) if *error.kind() == PosOverflow => Err("is too large"),
        Err(error) if *error.kind() == NegOverflow => Err("must be 0 or more"),
        Err(_) => Err("must be a number"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one per line, each with its resource.
    Name,
    /// A graph for Graphviz.
    Dot,
    /// A Mermaid flowchart.
    Mermaid,
    /// An SVG image.
    Svg,
}

pub(crate) async fn run(
    arguments: &Arguments,
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if arguments.roots.is_empty() && !arguments.is_all() {
        return Err(Failure::new(
            "Error: Must specify the root of the tree(s) to draw, or --all-namespaces (-A)",
        ));
    }
    if !arguments.roots.is_empty() && arguments.all_namespaces {
        return Err(Failure::new(
            "Error: --all-namespaces (-A) draws all trees, so no namespace can be named with it",
        ));
    }
    if arguments.show_copies.is_some() && arguments.output == Some(Form::Name) {
        return Err(Failure::new("Error: -o name prints the namespaces of the trees, so --show-copies cannot be used with it")
            .with_hint("`kubectl hns explain KIND/NAME -n NAMESPACE -o name` prints the namespaces that have the object."));
    }
    let (mut roots, mut last) = (arguments.roots.clone(), None);
    loop {
        let found = read(arguments, &roots, session).await;
        // What was drawn before did exist.
        if found.is_err() && last.is_some() && leave_out_deleted(&mut roots, session, terminal).await {
            if roots.is_empty() {
                return Ok(());
            }
            continue;
        }
        let (trees, notes) = found?;
        let drawing = drawn(&trees, arguments.output, terminal)?;
        if last.as_ref() != Some(&drawing) {
            let gap = if last.is_some() { "\n" } else { "" };
            terminal.print(&format!("{gap}{drawing}"));
            for note in &notes {
                terminal.note(note);
            }
            last = Some(drawing);
        }
        if !arguments.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH).await;
    }
}

impl Arguments {
    /// Whether all trees are requested.
    fn is_all(&self) -> bool {
        self.all_namespaces
    }
}

/// Removes the namespaces that were deleted, as far as the user may read that, with a note on each; returns whether there are any.
async fn leave_out_deleted(roots: &mut Vec<String>, session: &Session, terminal: &Terminal) -> bool {
    let namespaces = session.all::<Namespace>();
    let mut left = Vec::new();
    for name in &*roots {
        match session.call(namespaces.get_metadata_opt(name)).await {
            Ok(None) => terminal.note(&format!("the namespace {name} was deleted")),
            // The RoleBindings in it go first.
            Err(problem) if problem.is_forbidden() => {
                terminal.note(&format!("the namespace {name} was deleted, or you may not read it any more"));
            }
            _ => left.push(name.clone()),
        }
    }
    let is_shorter = left.len() < roots.len();
    *roots = left;
    is_shorter
}

/// The trees of the named namespaces or of all, and notes on what is missing.
async fn read(
    arguments: &Arguments,
    named: &[String],
    session: &Session,
) -> Result<(Vec<Node>, Vec<String>), Failure> {
    let extent = if arguments.is_all() { Extent::All } else { Extent::Below(named) };
    let roots = |structure: &Structure| {
        let named = named.iter().map(|it| Name::from(&**it));
        if arguments.is_all() { picture::roots(structure) } else { named.collect() }
    };
    let (mut trees, structure, mut notes) = match &arguments.show_copies {
        None => {
            let mut structure = structure::read(session, extent).await?;
            let notes = std::mem::take(&mut structure.notes);
            (picture::build(&structure, &roots(&structure)), structure, notes)
        }
        Some(subject) => with_object(subject, session, extent, roots).await?,
    };
    notes.extend(kinds_unread(&trees));
    let (settings, note) = published::settings(session).await;
    notes.extend(note.filter(|note| !notes.contains(note)));
    for tree in &mut trees {
        tree.exclude(&settings);
    }
    for root in named.iter().filter_map(|it| structure.namespaces.get(&**it)) {
        let shown_by = format!("accurate namespace describe {}", root.name);
        notes.extend(accurate_trees::note(session, root, &shown_by).await);
    }
    if let Some(selector) = &arguments.selector {
        let matching = matching(selector, session).await?;
        trees.retain_mut(|tree| tree.keep(&|name| matching.contains(name)));
        if trees.is_empty() {
            notes.push(format!("no namespace in these trees matches {selector}"));
        }
    }
    if let Some(depth) = arguments.depth {
        for tree in &mut trees {
            tree.cut(depth);
        }
    }
    if arguments.is_all() {
        let drawn = trees.iter().flat_map(Node::all).filter_map(|it| structure.namespaces.get(&*it.name));
        // The lists read all namespaces.
        let shown_by = if structure.is_whole {
            "`kubectl accurate list` and `kubectl accurate template list`"
        } else {
            "`kubectl accurate namespace describe NAMESPACE`"
        };
        notes.extend(accurate_trees::note_on_some(session, drawn, shown_by).await);
    }
    Ok((trees, notes))
}

/// A note if of some namespaces it is not known whether they are subnamespaces.
fn kinds_unread(trees: &[Node]) -> Option<String> {
    let unknown = trees.iter().flat_map(Node::all).filter(|it| it.subnamespace.is_none());
    let names: BTreeSet<&str> = unknown.map(|it| &*it.name).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    (!names.is_empty()).then(|| {
        format!(
            "it is unknown whether these are subnamespaces, because you may read neither the namespaces nor the anchors in their parents: {}",
            first(&names, NAMED)
        )
    })
}

async fn with_object(
    subject: &ObjectArgument,
    session: &Session,
    extent: Extent<'_>,
    roots: impl Fn(&Structure) -> Vec<Name>,
) -> Result<(Vec<Node>, Structure, Vec<String>), Failure> {
    // A copy may come from above the roots.
    let around = if let Extent::Below(roots) = extent { Extent::Around(roots) } else { extent };
    let structure = structure::read_with_anchors(session, around).await?;
    if let Extent::Below(roots) = extent
        && !roots.iter().all(|root| structure.namespaces.contains_key(&**root))
    {
        // Who may read nothing of a root gets the same answer as without an object.
        structure::read(session, extent).await?;
    }
    let roots = roots(&structure);
    let object_states = ObjectStates::read(session, subject, structure, &roots).await?;
    let trees = picture::build_with_object(&object_states, &roots);
    let elsewhere = copies_elsewhere(&trees, &object_states);
    let Loaded { structure, mut notes, .. } = object_states.loaded;
    notes.extend(elsewhere);
    if trees.iter().flat_map(Node::all).all(|it| it.object.is_none()) {
        let (resource, name) = (object_states.kind.group_resource(), printable(&object_states.name));
        notes.push(format!("{resource} {name} exists neither in these namespaces nor above them"));
    }
    Ok((trees, structure, notes))
}

/// A note on the namespaces with copies of objects in these trees that are not in the trees themselves.
fn copies_elsewhere(trees: &[Node], object_states: &ObjectStates) -> Option<String> {
    let drawn: BTreeSet<&str> = trees.iter().flat_map(Node::all).map(|it| &*it.name).collect();
    let names: Vec<String> =
        object_states.elsewhere(&drawn, &drawn).into_iter().map(|(name, _)| name.to_string()).collect();
    (!names.is_empty()).then(|| {
        format!("there are copies of it in namespaces outside of these trees, too: {}", first(&names, NAMED))
    })
}

/// The names of the namespaces whose labels match, as the API server evaluates the selector.
async fn matching(selector: &str, session: &Session) -> Result<BTreeSet<String>, Failure> {
    let params = ListParams::default().labels(selector);
    let found = session.list_metadata(&session.all::<Namespace>(), &params).await;
    let found =
        found.map_err(|problem| Failure::because("namespaces cannot be selected by label", &problem))?;
    Ok(found.into_iter().filter_map(|it| it.metadata.name).collect())
}

/// The trees in this form.
pub(super) fn drawn(trees: &[Node], form: Option<Form>, terminal: &Terminal) -> Result<String, Failure> {
    let (nodes, mut seen) = (trees.iter().flat_map(Node::all), BTreeSet::new());
    // Where a cycle closes, a namespace is drawn again.
    let names = nodes.filter(|it| seen.insert(&it.name)).map(|it| format!("namespace/{}", it.name));
    match form {
        None => Ok(text::draw(trees, terminal.paint)),
        Some(Form::Dot) => Ok(dot::draw(trees)),
        Some(Form::Mermaid) => Ok(mermaid::draw(trees)),
        Some(Form::Svg) => Ok(svg::draw(trees)),
        Some(Form::Json) => render(format::Format::Json, &serde_json::json!({ "trees": trees }), names),
        Some(Form::Yaml) => render(format::Format::Yaml, &serde_json::json!({ "trees": trees }), names),
        Some(Form::Name) => render(format::Format::Name, &(), names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn what_may_be_a_subnamespace_is_noted() {
        let mut structure = sketch(&["a", "b < a", "c < a"]);
        let note = |structure: &Structure| kinds_unread(&picture::build(structure, &["a".into()]));
        assert_eq!(note(&structure), None);
        structure.without_anchors.insert("a".into());
        assert_eq!(note(&structure), None, "the namespaces are read");
        structure.namespaces.remove("b");
        let found = note(&structure).unwrap();
        assert!(found.ends_with("anchors in their parents: b"), "{found}");
    }
}
