//! The commands, one per file. Each reads what it needs, computes a result with a pure function, and prints it.

use crate::cli::{self, Cli, Command};
use crate::program::Program;
use crate::session::Session;
use crate::terminal::Paint;
use crate::{Failure, Terminal, request_log};

pub(crate) mod accurate;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod hierarchy;
pub(crate) mod hrq;
pub(crate) mod kinds;
pub(crate) mod move_;
pub(crate) mod plan;
mod relocation;
pub(crate) mod set;
pub(crate) mod tree;
pub(crate) mod version;

/// Runs a command.
///
/// # Errors
/// The command failed; the failure says why.
pub fn run(cli: Cli, terminal: &Terminal) -> Result<(), Failure> {
    request_log::start(cli.common.verbosity.unwrap_or_default());
    let program = cli.program;
    let Some(command) = cli.command else {
        terminal.print(&cli::command(program).render_help().to_string());
        return Ok(());
    };
    match command {
        Command::Completion(arguments) => completion::run(&arguments, program, terminal),
        Command::Get(arguments) => get::run(&arguments),
        Command::Options => {
            let mut all = cli::command(program);
            all.build();
            if let Some(options) = all.find_subcommand_mut("options") {
                terminal.print(&options.render_long_help().to_string());
            }
            Ok(())
        }
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Failure::new(format!("Error: {error}")))?;
            let result = runtime.block_on(async {
                let session = Session::open(&cli.common.connection, terminal.stderr).await;
                match command {
                    Command::Version(arguments) => version::run(&arguments, session, terminal).await,
                    command => run_on_cluster((command, program), &session?, terminal).await,
                }
            });
            result.map_err(|failure| Failure { hint: failure.hint.map(|it| program.advice(&it)), ..failure })
        }
    }
}

/// The output of `plan -o json`, for callers that run an async runtime already.
///
/// # Errors
/// The command is not `plan`, or the plan could not be made.
pub async fn plan_json(cli: Cli) -> Result<serde_json::Value, Failure> {
    let Some(Command::Plan(arguments)) = &cli.command else {
        return Err(Failure::new("Error: the command is not plan"));
    };
    let session = Session::open(&cli.common.connection, Paint::NONE).await?;
    let document = plan::document(arguments, &session).await?;
    serde_json::to_value(document)
        .map_err(|error| Failure::new(format!("Error: cannot print the plan: {error}")))
}

async fn run_on_cluster(
    (command, program): (Command, Program),
    session: &Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    match command {
        Command::Tree(arguments) => tree::run(&arguments, session, terminal).await,
        Command::Describe(arguments) => describe::run(&arguments, session, terminal).await,
        Command::Create(arguments) => create::run(&arguments, session, terminal).await,
        Command::Delete(arguments) => delete::run(&arguments, session, terminal).await,
        Command::Set(arguments) => set::run(&arguments, session, terminal).await,
        Command::Move(arguments) => move_::run(&arguments, session, terminal).await,
        Command::Convert(arguments) => convert::run(&arguments, session, terminal).await,
        Command::Plan(arguments) => plan::run(&arguments, session, terminal).await,
        Command::Config(arguments) => config::run(&arguments, session, terminal).await,
        Command::Hrq(arguments) => hrq::run(&arguments, session, terminal).await,
        Command::Doctor(arguments) => doctor::run((&arguments, program), session, terminal).await,
        Command::Explain(arguments) => explain::run(&arguments, session, terminal).await,
        Command::Accurate(command) => accurate::run(command, session, terminal).await,
        Command::Version(_) | Command::Completion(_) | Command::Get(_) | Command::Options => Ok(()),
    }
}
