//! `namespace set-type`, `template set` and `template unset`: set and remove a label of a namespace.

use clap::Args;
use forest::{EdgeKind, Settings, Unmanaged};
use hns_api::accurate::labels::{TYPE_ROOT, TYPE_TEMPLATE};

use super::place::{self, Mode, Place};
use super::refusals::{self, Request};
use super::relocation;
use crate::failure::Done;
use crate::session::Session;
use crate::{Failure, Terminal, published};

/// Set the type of a namespace.
#[derive(Debug, Args)]
pub(crate) struct SetType {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,

    /// root: it may have sub-namespaces. template: other namespaces may name it as their template. none: neither.
    #[arg(value_name = "TYPE")]
    pub(super) kind: String,
}

/// Set the template of a namespace.
#[derive(Debug, Args)]
pub(crate) struct SetTemplate {
    /// The namespace, which gets copies of the objects in the template.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,

    /// The template.
    #[arg(value_name = "TEMPLATE", value_parser = crate::flags::namespace)]
    pub(super) template: String,
}

/// Remove the template of a namespace.
#[derive(Debug, Args)]
pub(crate) struct UnsetTemplate {
    /// The namespace.
    #[arg(value_name = "NAMESPACE", value_parser = crate::flags::namespace)]
    pub(super) namespace: String,
}

pub(crate) async fn set_type(arguments: &SetType, session: &Session, terminal: &Terminal) -> Done {
    let SetType { namespace, kind } = arguments;
    let kind = label_of(kind)?;
    if kind.is_some() {
        refuse_excluded(session, namespace).await?;
    }
    let done = set(session, namespace, |place| Place { kind: kind.map(str::to_owned), ..place }).await;
    let (changes, _) = refusals::explained(done, session, Request::Own(namespace)).await?;
    terminal.line(if changes { "success" } else { "nothing to do" });
    Ok(())
}

pub(crate) async fn set_template(arguments: &SetTemplate, session: &Session, terminal: &Terminal) -> Done {
    let SetTemplate { namespace, template } = arguments;
    refuse_excluded(session, namespace).await?;
    let done = set(session, namespace, |place| Place { template: Some(template.clone()), ..place }).await;
    let request = Request::Below(EdgeKind::Template, namespace, template);
    let (_, lost) = refusals::explained(done, session, request).await?;
    terminal.line(&format!("set {template} as a template of {namespace}"));
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    Ok(())
}

pub(crate) async fn unset_template(
    arguments: &UnsetTemplate,
    session: &Session,
    terminal: &Terminal,
) -> Done {
    let namespace = &arguments.namespace;
    let done = set(session, namespace, |place| Place { template: None, ..place }).await;
    let (changes, lost) = refusals::explained(done, session, Request::Own(namespace)).await?;
    if changes {
        terminal.line(&format!("unset template for {namespace}"));
    }
    if let Some(warning) = lost {
        terminal.warn(&warning);
    }
    Ok(())
}

/// Why the settings exclude a namespace, if they do.
pub(super) async fn excluded(session: &Session, namespace: &str) -> Option<Unmanaged> {
    published::settings(session).await.0.unmanaged(namespace)
}

pub(super) fn in_no_hierarchy(namespace: &str, why: &Unmanaged) -> String {
    format!("namespace {namespace} {why}, so it is in no hierarchy")
}

/// No webhook judges requests about excluded namespaces, and the label would have no effect.
pub(super) async fn refuse_excluded(session: &Session, namespace: &str) -> Done {
    refuse_unmanaged(&published::settings(session).await.0, namespace)
}

/// The same with these settings.
pub(super) fn refuse_unmanaged(settings: &Settings, namespace: &str) -> Done {
    match settings.unmanaged(namespace) {
        Some(why) => Err(Failure::new(format!("Error: {}", in_no_hierarchy(namespace, &why)))),
        None => Ok(()),
    }
}

/// Returns whether this changed anything, and a warning of the rights that the user loses.
async fn set(
    session: &Session,
    namespace: &str,
    next: impl Fn(Place) -> Place,
) -> Result<(bool, Option<String>), Failure> {
    let lost = match place::read(session, namespace).await {
        Ok(place) => relocation::lost(session, namespace, (&place, &next(place.clone()))).await,
        // The change says why.
        Err(_) => None,
    };
    Ok((place::change(session, namespace, Mode::Store, |place| Ok(next(place))).await?, lost))
}

/// The value of the label for a type; `None` for no label.
pub(super) fn label_of(kind: &str) -> Result<Option<&str>, Failure> {
    match kind {
        TYPE_ROOT | TYPE_TEMPLATE => Ok(Some(kind)),
        "none" => Ok(None),
        _ => Err(Failure::new(format!("Error: invalid type: {kind}"))
            .with_hint("The type is root, template or none.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_types() {
        assert_eq!(label_of("root"), Ok(Some("root")));
        assert_eq!(label_of("none"), Ok(None));
        assert_eq!(label_of("Root").unwrap_err().text, "Error: invalid type: Root");
    }
}
