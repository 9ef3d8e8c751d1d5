//! The commands of `kubectl accurate`: Accurate's verbs with Accurate's outputs (section 11 of its contract).

pub(crate) mod describe;
pub(crate) mod explain;
pub(super) mod forms;
pub(crate) mod labels;
pub(crate) mod list;
pub(super) mod place;
pub(crate) mod plan;
pub(super) mod refusals;
pub(crate) mod relocation;
pub(crate) mod sub;

use forest::Settings;
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE};

use self::place::Place;
use crate::cli::accurate::{Command, Namespace, Sub, Template};
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::{Failure, Terminal};

const OF_ROOTS: list::Edges = list::Edges { label: PARENT, top: TYPE_ROOT };
const OF_TEMPLATES: list::Edges = list::Edges { label: TEMPLATE, top: TYPE_TEMPLATE };

pub(crate) async fn run(command: Command, session: &Session, terminal: &Terminal) -> Done {
    let writes = writes(&command);
    perform(command, session, terminal).await?;
    if writes && describe::is_unserved(session).await {
        terminal.note(&format!("{UNSERVED}: the change is stored, but nothing checks it or acts on it"));
    }
    Ok(())
}

async fn perform(command: Command, session: &Session, terminal: &Terminal) -> Done {
    match command {
        Command::List(it) | Command::Sub(Sub::List(it)) => list::run(&it, OF_ROOTS, session, terminal).await,
        Command::Template(Template::List(it)) => list::run(&it, OF_TEMPLATES, session, terminal).await,
        Command::Namespace(Namespace::Describe(it)) => describe::run(&it, session, terminal).await,
        Command::Namespace(Namespace::SetType(it)) => labels::set_type(&it, session, terminal).await,
        Command::Template(Template::Set(it)) => labels::set_template(&it, session, terminal).await,
        Command::Template(Template::Unset(it)) => labels::unset_template(&it, session, terminal).await,
        Command::Sub(Sub::Create(it)) => sub::create(&it, session, terminal).await,
        Command::Sub(Sub::Delete(it)) => sub::delete(&it, session, terminal).await,
        Command::Sub(Sub::Move(it)) => relocation::move_to(&it, session, terminal).await,
        Command::Sub(Sub::Graft(it)) => relocation::graft(&it, session, terminal).await,
        Command::Sub(Sub::Cut(it)) => relocation::cut(&it, session, terminal).await,
        Command::Explain(it) => explain::run(&it, session, terminal).await,
        Command::Plan(it) => plan::run(&it, session, terminal).await,
        Command::Doctor(_) | Command::Completion(_) | Command::Options => Ok(()),
    }
}

fn writes(command: &Command) -> bool {
    match command {
        Command::Namespace(Namespace::SetType(_))
        | Command::Template(Template::Set(_) | Template::Unset(_))
        | Command::Sub(Sub::Create(_) | Sub::Delete(_) | Sub::Move(_) | Sub::Graft(_) | Sub::Cut(_)) => true,
        Command::List(_)
        | Command::Sub(Sub::List(_))
        | Command::Template(Template::List(_))
        | Command::Namespace(Namespace::Describe(_))
        | Command::Explain(_)
        | Command::Plan(_)
        | Command::Doctor(_)
        | Command::Completion(_)
        | Command::Options => false,
    }
}

/// What is said where, as far as is known, nothing serves the API.
const UNSERVED: &str = "the settings of hns do not enable Accurate's API (accurate.enabled), and Accurate does not run in namespace accurate";

/// How to enable Accurate's API where hns is installed.
pub(crate) const ENABLE: &str = "To enable Accurate's API, set the chart's value accurate.enabled, or apply config/accurate.yaml, which has \
                                 the definition, the rights and the settings.";

/// The failure of a command that is for sub-namespaces; `hint` is for a namespace that is not in HNC's hierarchy.
fn no_sub_namespace(name: &str, place: &Place, hint: Option<&str>) -> Failure {
    let elsewhere = || format!("It is in HNC's hierarchy: see `kubectl hns describe {name}`.");
    Failure {
        text: format!("Error: {name} is not a sub-namespace"),
        hint: if place.is_in_hnc { Some(elsewhere()) } else { hint.map(str::to_owned) },
    }
}

/// A note that the namespace is in no hierarchy, or in HNC's; `settings` are those that exclude namespaces.
fn note_on_place(name: &str, place: &Place, settings: Option<&Settings>) -> Option<String> {
    if let Some(why) = settings.and_then(|it| it.unmanaged(name)) {
        return Some(labels::in_no_hierarchy(name, &why));
    }
    let shown =
        format!("{name} is in HNC's hierarchy, which is not shown here: see `kubectl hns describe {name}`");
    place.is_in_hnc.then_some(shown)
}

/// That a sub-namespace has a template, which has no effect.
pub(crate) fn without_effect(name: &str, template: &str, has_type: bool) -> String {
    let way = if has_type {
        format!("{} removes it and the type, which a sub-namespace cannot have", untyped(name, true))
    } else {
        format!("`kubectl accurate template unset {name}` removes it")
    };
    format!("{template}, the template of {name}, has no effect, because {name} is a sub-namespace; {way}")
}

/// The command that removes the type of a sub-namespace. With a template too, neither can be removed alone.
fn untyped(name: &str, has_template: bool) -> String {
    if has_template {
        format!("`kubectl label namespace {name} {TYPE}- {TEMPLATE}-`")
    } else {
        format!("`kubectl accurate namespace set-type {name} none`")
    }
}

/// `Error: WHAT: reason`, with hints that fit Accurate's API.
fn failed(what: impl std::fmt::Display, problem: &Problem) -> Failure {
    let failure = Failure::because(what, problem);
    if problem.is_not_installed() {
        return failure.with_hint(format!(
            "The cluster does not serve accurate.cybozu.com/v2. Check --context. {ENABLE}"
        ));
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excluded_namespace_is_in_no_hierarchy() {
        const EXCLUDED: &str = "namespace out is excluded by excludedNamespaces in the settings of hns, so it is in no hierarchy";
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        for (name, settings, is_in_hnc, wanted) in [
            ("n", Some(&settings), false, ""),
            ("n", Some(&settings), true, "n is in HNC's hierarchy, "),
            ("out", Some(&settings), false, EXCLUDED),
            ("out", Some(&settings), true, EXCLUDED),
            ("out", None, true, "out is in HNC's hierarchy, "),
            ("out", None, false, ""),
        ] {
            let note = note_on_place(name, &Place { is_in_hnc, ..Place::default() }, settings);
            let note = note.unwrap_or_default();
            assert!(note.is_empty() == wanted.is_empty() && note.starts_with(wanted), "{name}: {note}");
        }
    }
}
