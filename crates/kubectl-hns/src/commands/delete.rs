//! `delete`: deletes a subnamespace by deleting its anchor.

mod consequences;
mod messages;

use std::time::Duration;

use clap::{Args, ValueEnum};
use hns_api::SubnamespaceAnchor;
use hns_api::accurate::SubNamespace;
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DeleteParams;

use tokio::time::{Instant, sleep};

use self::consequences::Consequences;
pub(super) use self::consequences::{stays, unread};
use self::messages::{
    above_in_accurate, allowed_above, could_not, elsewhere, held, is_about_children, is_going,
    nothing_deleted, top_in_accurate, with_children, with_state, without_namespace, without_parent,
};
pub(super) use self::messages::{
    despite_children, names_permission, not_at_present, of_accurate, of_another,
};
use super::accurate::sub::way_to_delete;
use super::hierarchy::{self, AllowingAncestor, Edit};
use super::{describe, set};
use crate::failure::{Done, Problem};
use crate::installation::{are_defined, is_definition_deleted};
use crate::session::Session;
use crate::structure::subnamespace_of;
use crate::wait::{Progress, WaitArgs, until};
use crate::{Failure, Terminal, published};

/// How long the webhook's cache may lag behind the permission for cascading deletion.
const WEBHOOK_DELAY: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);
/// What is said to a user who may not read the anchor, but may be allowed to delete it.
const UNREAD: &str = "The command reads the anchor to show what is deleted. With --yes it deletes without that, if you have the right.";

/// Delete a subnamespace of the namespace given with -n.
///
/// Lists the namespaces that are deleted, and asks for confirmation. If stdin is not a terminal, --yes is required,
/// unless it is known that only the named namespace is deleted, or -a is set.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The subnamespace.
    #[arg(value_name = "CHILD", value_parser = crate::flags::namespace)]
    child: String,

    /// Delete the subnamespaces below as well. Full namespaces below stay with all below them.
    #[arg(short, long = "allowCascadingDeletion")]
    allow: bool,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Do not change anything: with `client` list what would be deleted, if the API server would accept it; with
    /// `server` also let the API server check the permission that -a gives.
    #[arg(long, value_name = "WHERE", default_value = "none", hide_default_value = true)]
    dry_run: DryRun,

    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DryRun {
    None,
    Server,
    Client,
}

impl DryRun {
    /// The suffix that kubectl adds to its output in a dry run.
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Server => " (server dry run)",
            Self::Client => " (dry run)",
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, session: &Session, terminal: &Terminal) -> Done {
    let deletion = Deletion {
        session,
        terminal,
        child: &arguments.child,
        parent: &session.namespace,
        anchors: session.within(&session.namespace),
        dry_run: arguments.dry_run,
    };
    let allows = arguments.allow;
    let waits = arguments.dry_run == DryRun::None && arguments.wait.is_wanted();
    if deletion.has_begun().await {
        deletion.takes_the_namespace().await?;
        terminal.line(&format!("The subnamespace {} is being deleted already", arguments.child));
        return if waits {
            deletion.finished(&arguments.wait, &deletion.foreseen(allows).await).await
        } else {
            Ok(())
        };
    }
    are_defined(session, &format!("the subnamespace {} cannot be deleted now", arguments.child)).await?;
    if arguments.dry_run != DryRun::None {
        return deletion.tried(allows).await;
    }
    let foreseen =
        if arguments.yes { deletion.foreseen(allows).await } else { deletion.confirm(allows).await? };
    // Where the namespace stays, those below it stay, too.
    let allowed = if allows && foreseen.stays.is_none() {
        let is_accepted = deletion.is_possible().await?;
        deletion.allow().await.map_err(|failure| failure.and_hint(nothing_deleted(is_accepted)))?
    } else {
        false
    };
    if let Err(problem) = deletion.delete(allows).await {
        let failure = deletion.could_not(&problem).await;
        return Err(if allowed { deletion.forbid(failure, &problem).await } else { failure });
    }
    deletion.done();
    if waits {
        return deletion.finished(&arguments.wait, &foreseen).await;
    }
    deletion.note(&foreseen);
    Ok(())
}

/// What is to be said once the deletion is accepted.
#[derive(Debug, Default)]
struct Foreseen {
    /// Which other namespaces are deleted or lose their parent, unless the user has seen that already.
    others: Vec<String>,
    /// Why the namespace of the anchor stays, if it does.
    stays: Option<String>,
}

impl Foreseen {
    fn seen(stays: Option<String>) -> Self {
        Self { stays, ..Self::default() }
    }
}

/// The deletion of an anchor.
struct Deletion<'a> {
    session: &'a Session,
    terminal: &'a Terminal,
    child: &'a str,
    parent: &'a str,
    anchors: Api<SubnamespaceAnchor>,
    dry_run: DryRun,
}

impl Deletion<'_> {
    /// Whether the anchor is being deleted, which it is until its namespace is gone, or the subnamespace without it.
    async fn has_begun(&self) -> bool {
        match self.session.call(self.anchors.get_metadata(self.child)).await {
            Ok(anchor) => anchor.metadata.deletion_timestamp.is_some(),
            // If the parent is deleted as well, the anchor may be gone first.
            Err(problem) if problem.is_not_found() => {
                let namespaces = self.session.all::<Namespace>();
                let found = self.session.call(namespaces.get_metadata(self.child)).await;
                found.is_ok_and(|it| is_going(self.parent, &it.metadata))
            }
            Err(_) => false,
        }
    }

    /// Fails if only the anchor goes, because all objects of its kind do.
    async fn takes_the_namespace(&self) -> Done {
        if !is_definition_deleted::<SubnamespaceAnchor>(self.session).await {
            return Ok(());
        }
        let found = self.session.call(self.session.all::<Namespace>().get_metadata_opt(self.child)).await;
        match found {
            Ok(Some(namespace)) if namespace.metadata.deletion_timestamp.is_none() => {
                Err(without_namespace(self.child, self.parent))
            }
            _ => Ok(()),
        }
    }

    /// Shows what would be deleted, unless it would be refused.
    async fn tried(&self, allows: bool) -> Done {
        let consequences = self.consequences(allows).await?;
        match consequences.refusal {
            // The API server says it itself.
            Some(_) if self.dry_run == DryRun::Server => {}
            Some(why) => {
                let failure = Failure::new(format!("Error: this would be refused: {why}"));
                return Err(self.unless_refused(failure.with_hint(with_children(self.child))).await);
            }
            None => self.terminal.print(&consequences.text()),
        }
        let changes = allows && consequences.stays.is_none() && self.allow().await?;
        if self.dry_run == DryRun::Server {
            match self.request().await {
                // The permission was not stored in the dry run, so the deletion is refused.
                Err(problem) if changes && is_about_children(&problem) => self.terminal.note(
                    "the API server can check the deletion itself only after cascading deletion is allowed",
                ),
                Err(problem) => return Err(self.could_not(&problem).await),
                Ok(()) => {}
            }
        }
        self.done();
        self.note(&Foreseen::seen(consequences.stays));
        Ok(())
    }

    /// Asks for confirmation. Without a terminal, the command continues if only the named namespace is deleted, as
    /// HNC's scripts expect.
    async fn confirm(&self, allows: bool) -> Result<Foreseen, Failure> {
        let is_terminal = self.terminal.can_ask();
        if !is_terminal && allows {
            return Ok(self.foreseen(allows).await);
        }
        let consequences = self.consequences(allows).await?;
        // The API server says why it refuses.
        if consequences.refusal.is_some() || (!is_terminal && consequences.is_only(self.child)) {
            return Ok(Foreseen::seen(consequences.stays));
        }
        self.terminal.print(&consequences.text());
        if self.terminal.confirm("Delete?")? {
            return Ok(Foreseen::seen(consequences.stays));
        }
        Err(Failure::new("Nothing was changed"))
    }

    /// What is said where the user is not asked. If it cannot be read, the deletion goes on.
    async fn foreseen(&self, allows: bool) -> Foreseen {
        let anchor = (self.parent, self.child);
        let mut found = consequences::read(self.session, anchor, allows).await;
        // It is said after the API server has accepted it.
        if found.as_ref().is_ok_and(|it| it.refusal.is_some() && it.may_cascade) {
            found = consequences::read(self.session, anchor, true).await;
        }
        found.map(|it| Foreseen { others: it.others(), stays: it.stays }).unwrap_or_default()
    }

    /// The consequences of the deletion, if the anchor exists and the user may delete it.
    async fn consequences(&self, allows: bool) -> Result<Consequences, Failure> {
        if let Err(problem) = self.session.call(self.anchors.get_metadata(self.child)).await {
            return Err(self.could_not(&problem).await);
        }
        let is_possible = self.is_possible().await?;
        let anchor = (self.parent, self.child);
        let mut found = consequences::read(self.session, anchor, allows).await?;
        // If the API server accepts it although there are namespaces below, cascading deletion is allowed.
        if found.refusal.is_some() && found.may_cascade && is_possible {
            found = consequences::read(self.session, anchor, true).await?;
        }
        for note in &found.notes {
            self.terminal.note(note);
        }
        Ok(found)
    }

    async fn could_not(&self, problem: &Problem) -> Failure {
        let failure = could_not(self.child, problem);
        let namespaces = self.session.all::<Namespace>();
        if problem.is_forbidden() {
            let found = self.session.call(namespaces.get_metadata(self.child)).await.ok();
            let holder = found.as_ref().and_then(|it| subnamespace_of(&it.metadata));
            return match holder.filter(|holder| *holder != self.parent) {
                Some(holder) => failure.with_hint(of_another(self.child, holder)),
                None if self.dry_run == DryRun::None && problem.to_string().contains(" cannot get ") => {
                    failure.and_hint(UNREAD)
                }
                None => failure,
            };
        }
        if is_about_children(problem) {
            return self.unless_refused(failure).await;
        }
        if !problem.is_not_found() {
            return failure;
        }
        let (parent, child) = futures::join!(
            self.session.call(namespaces.get_metadata_opt(self.parent)),
            self.session.call(namespaces.get_metadata_opt(self.child))
        );
        failure.with_hint(match (parent, child) {
            (Ok(None), Ok(Some(child))) if subnamespace_of(&child.metadata) == Some(self.parent) => {
                without_parent(self.parent, self.child)
            }
            (Ok(None), _) => format!("There is no namespace {}: name the parent with -n.", self.parent),
            (_, Ok(found)) => self.elsewhere(found.as_ref().map(|it| &it.metadata)).await,
            _ => format!("`kubectl get subns -n {0}` shows the subnamespaces of {0}.", self.parent),
        })
    }

    /// The failure, whose hint is to allow cascading deletion, with the reason why that is refused at present, if it is.
    async fn unless_refused(&self, failure: Failure) -> Failure {
        match hierarchy::refusal_to_allow(self.session, self.child).await {
            Some(why) => failure.and_hint(&not_at_present(&why)),
            None => failure,
        }
    }

    /// Where the child is instead, if the parent has no anchor for it; `found` is its namespace, if it exists.
    async fn elsewhere(&self, found: Option<&ObjectMeta>) -> String {
        let Self { session, child, .. } = self;
        if found.is_some_and(|it| it.deletion_timestamp.is_some()) {
            return format!("Namespace {child} is being deleted already.");
        }
        let (settings, accurate, _) = published::both_settings(session).await;
        let in_accurate = found.filter(|_| accurate.is_some());
        if let Some(above) = in_accurate.and_then(above_in_accurate)
            && let Ok(None) =
                session.call(session.within::<SubNamespace>(above).get_metadata_opt(child)).await
        {
            let is =
                format!("{child} is a sub-namespace of {above} in Accurate's hierarchy, by its label only");
            return way_to_delete(session, &is, child).await;
        }
        if let Some(is) = in_accurate.and_then(|it| top_in_accurate(child, it, &settings)) {
            return way_to_delete(session, &is, child).await;
        }
        elsewhere((self.parent, child), found, (&settings, accurate.is_some()))
    }

    /// Fails if the anchor cannot be deleted once cascading deletion is allowed, before anything is written. Returns whether it can be
    /// deleted as it is.
    async fn is_possible(&self) -> Result<bool, Failure> {
        let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
        match self.session.call(self.anchors.delete(self.child, &params)).await {
            Ok(_) => Ok(true),
            Err(problem) if is_about_children(&problem) => Ok(false),
            Err(problem) => Err(self.could_not(&problem).await),
        }
    }

    /// Forbids cascading deletion again after the deletion failed. Without an answer it may go on, so then the permission stays.
    async fn forbid(&self, failure: Failure, problem: &Problem) -> Failure {
        let undone = if problem.code() == 0 || problem.is_temporary() {
            false
        } else {
            let edit = Edit { allow_cascading_deletion: Some(false), ..Edit::default() };
            match hierarchy::read(self.session, self.child).await {
                Ok(object) => hierarchy::write(self.session, self.child, object, &edit, false).await.is_ok(),
                Err(_) => false,
            }
        };
        with_state(failure, self.child, undone)
    }

    /// Allows cascading deletion, if this is no dry run; returns whether it changes anything.
    async fn allow(&self) -> Result<bool, Failure> {
        let object = hierarchy::read(self.session, self.child).await?;
        let present = hierarchy::spec(&object);
        // Who may delete the anchor may lack the right to change the child.
        if !present.allows_cascading_deletion
            && let AllowingAncestor::AllowedBy(ancestor) =
                hierarchy::allowing_ancestor(self.session, self.child, present.parent.clone()).await
        {
            let line = allowed_above(self.child, &ancestor);
            self.terminal.line(&format!("{line}{}", self.dry_run.suffix()));
            return Ok(false);
        }
        let request = set::SpecRequest { allow: true, ..set::SpecRequest::default() };
        let outcome = set::outcome(self.child, &present, &request);
        for line in &outcome.lines {
            self.terminal.line(&format!("{line}{}", self.dry_run.suffix()));
        }
        if self.dry_run == DryRun::Client {
            return Ok(outcome.changes > 0);
        }
        let is_tried = self.dry_run == DryRun::Server;
        let written = hierarchy::write(self.session, self.child, object, &outcome.edit, is_tried).await;
        written.map_err(|problem| set::could_not(self.child, &problem))?;
        Ok(outcome.changes > 0)
    }

    async fn request(&self) -> Result<(), Problem> {
        let params = DeleteParams { dry_run: self.dry_run == DryRun::Server, ..DeleteParams::default() };
        self.session.call(self.anchors.delete(self.child, &params)).await.map(drop)
    }

    /// Deletes the anchor; retries until the webhook knows that cascading deletion is allowed.
    async fn delete(&self, allows: bool) -> Result<(), Problem> {
        let deadline = Instant::now() + WEBHOOK_DELAY;
        loop {
            match self.request().await {
                Err(problem) if allows && is_about_children(&problem) && Instant::now() < deadline => {}
                other => return other,
            }
            sleep(POLL).await;
        }
    }

    fn done(&self) {
        let Self { child, parent, .. } = self;
        let suffix = self.dry_run.suffix();
        self.terminal.line(&format!(
            "Successfully deleted {child:?} subnamespace anchor in {parent:?} namespace{suffix}"
        ));
    }

    fn note(&self, Foreseen { others, stays }: &Foreseen) {
        for note in others.iter().chain(stays) {
            self.terminal.note(note);
        }
    }

    /// The namespace, as far as the user may read it.
    async fn namespace(&self) -> Result<Option<Namespace>, Failure> {
        match self.session.call(self.session.all::<Namespace>().get_opt(self.child)).await {
            Err(problem) if problem.is_forbidden() => Ok(None),
            other => other.map_err(|problem| Failure::because("the namespace cannot be read", &problem)),
        }
    }

    /// Waits until the anchor is gone and, unless it `stays`, the namespace.
    async fn finished(&self, wait: &WaitArgs, foreseen: &Foreseen) -> Done {
        self.note(foreseen);
        let stays = foreseen.stays.is_some();
        let what = if stays { "anchor" } else { "namespace" };
        // Who may not read the namespace any more is told of its anchor in the parent.
        let shown_by = format!("describe {} -n {}", self.child, self.parent);
        let what = format!("the deletion of {what} {}", self.child);
        let mut is_held = false;
        let outcome = until(self.terminal, (&what, &shown_by), wait.deadline(), async || {
            is_held = false;
            let anchor = self.session.call(self.anchors.get_metadata_opt(self.child)).await;
            let anchor = anchor.map_err(|problem| Failure::because("the anchor cannot be read", &problem))?;
            let namespace = if stays { None } else { self.namespace().await? };
            Ok(match (anchor, namespace) {
                (None, None) => Progress::Done,
                (_, Some(namespace)) => {
                    let still = std::iter::once("the namespace is still there".to_owned());
                    let obstacles = describe::obstacles(&namespace);
                    is_held = !obstacles.is_empty();
                    let missing: Vec<String> = still.chain(obstacles).collect();
                    Progress::Part(0, 2, missing.join("; "))
                }
                (Some(_), None) => Progress::Part(1, 2, "the anchor is still there".into()),
            })
        })
        .await;
        outcome.map_err(|failure| if is_held { failure.with_hint(held(self.child)) } else { failure })
    }
}
