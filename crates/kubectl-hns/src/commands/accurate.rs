//! The commands of `kubectl accurate`: Accurate's verbs with Accurate's outputs (section 11 of its contract).

pub(crate) mod describe;
mod forms;
pub(crate) mod labels;
pub(crate) mod list;
mod place;
pub(crate) mod relocation;
pub(crate) mod sub;

use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE_ROOT, TYPE_TEMPLATE};

use crate::cli::accurate::{Command, Namespace, Sub, Template};
use crate::failure::{Done, Problem};
use crate::session::Session;
use crate::{Failure, Terminal};

const OF_ROOTS: list::Edges = list::Edges { label: PARENT, top: TYPE_ROOT };
const OF_TEMPLATES: list::Edges = list::Edges { label: TEMPLATE, top: TYPE_TEMPLATE };

pub(crate) async fn run(command: Command, session: &Session, terminal: &Terminal) -> Done {
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
        Command::Doctor(_) | Command::Completion(_) | Command::Options => Ok(()),
    }
}

/// The failure of a command that is for sub-namespaces.
fn no_sub_namespace(name: &str) -> Failure {
    Failure::new(format!("Error: {name} is not a sub-namespace"))
}

/// `Error: WHAT: reason`, with hints that fit Accurate's API.
fn failed(what: impl std::fmt::Display, problem: &Problem) -> Failure {
    let failure = Failure::because(what, problem);
    if problem.is_not_installed() {
        return failure.with_hint(
            "The cluster does not serve accurate.cybozu.com/v2: Accurate's API is not installed there. Check --context.",
        );
    }
    failure
}
