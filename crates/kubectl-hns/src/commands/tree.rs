//! `tree`: draws the hierarchy.

use clap::{Args, ValueEnum};
use forest::Name;

use crate::flags::Switch;
use crate::format::{self, render};
use crate::object_argument::ObjectArgument;
use crate::object_states::ObjectStates;
use crate::picture::{self, Node, dot, mermaid, svg, text};
use crate::session::Session;
use crate::structure;
use crate::{Failure, Terminal};

/// Draw the hierarchy below namespaces.
///
/// [s] marks subnamespaces; numbers in brackets refer to conditions, which are listed below the drawing. With -A, the
/// trees start at namespaces that have no parent, whose parent does not exist, or that are in a cycle.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The roots of the trees.
    #[arg(value_name = "NAMESPACE")]
    roots: Vec<String>,

    /// Draw all trees of the cluster.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    all_namespaces: Option<Switch>,

    /// Show for each namespace whether it has this object, such as secret/registry, as a source or a copy, and where
    /// and why copies are missing.
    #[arg(long, value_name = "KIND/NAME")]
    show_copies: Option<ObjectArgument>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one per line.
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
    let all = Switch::is_on(arguments.all_namespaces);
    if arguments.roots.is_empty() && !all {
        return Err(Failure::new(
            "Error: Must specify the root of the tree(s) to draw, or --all-namespaces (-A)",
        ));
    }
    // If all are requested but cannot be listed, draw the user's own namespace.
    let own = [session.namespace.clone()];
    let asked = &arguments.roots;
    let read = async |starts: &[String]| match arguments.show_copies {
        Some(_) => structure::surroundings(session, starts).await,
        None => structure::read(session, starts).await,
    };
    let structure = match (asked.is_empty(), read(asked).await?) {
        (true, seen) if !seen.is_whole => read(&own).await?,
        (_, seen) => seen,
    };
    let everything = asked.is_empty() && structure.is_whole;
    let roots: Vec<Name> = match (everything, asked.is_empty()) {
        (true, _) => picture::roots(&structure),
        (false, true) => own.iter().map(|it| Name::from(&**it)).collect(),
        (false, false) => asked.iter().map(|it| Name::from(&**it)).collect(),
    };
    let (trees, notes) = match &arguments.show_copies {
        None => (picture::build(&structure, &roots), structure.notes),
        Some(subject) => {
            let object_states = ObjectStates::read(session, subject, structure, &roots).await?;
            (picture::build_with_object(&object_states, &roots), object_states.loaded.notes)
        }
    };
    terminal.print(&drawn(&trees, arguments.output, terminal)?);
    for note in &notes {
        terminal.note(note);
    }
    Ok(())
}

fn drawn(trees: &[Node], form: Option<Form>, terminal: &Terminal) -> Result<String, Failure> {
    let names = || trees.iter().flat_map(Node::all).map(|it| format!("namespace/{}", it.name));
    match form {
        None => Ok(text::draw(trees, terminal.paint)),
        Some(Form::Dot) => Ok(dot::draw(trees)),
        Some(Form::Mermaid) => Ok(mermaid::draw(trees)),
        Some(Form::Svg) => Ok(svg::draw(trees)),
        Some(Form::Json) => render(format::Format::Json, &serde_json::json!({ "trees": trees }), names()),
        Some(Form::Yaml) => render(format::Format::Yaml, &serde_json::json!({ "trees": trees }), names()),
        Some(Form::Name) => render(format::Format::Name, &(), names()),
    }
}
