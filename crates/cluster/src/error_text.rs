//! Errors of requests and of YAML in the words that users and operators read. `kube` adds the Rust structure of the API server's answer
//! to the text of an error; people need only its message.

use std::error::Error;
use std::iter::successors;

use serde_saphyr::{SnippetMode, UserMessageFormatter};

/// The text of an error and of its causes, without repetitions: some libraries include the cause in the message of an error. Without
/// the structure of the API server's answer, also where the error contains that of a request.
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    let causes = || successors(Some(error), |&error| error.source());
    let mut text = without_structures(error.to_string(), causes());
    // The message of the API server is the end.
    for cause in causes().take_while(|it| !matches!(it.downcast_ref(), Some(kube::Error::Api(_)))).skip(1) {
        let said = without_structures(cause.to_string(), successors(Some(cause), |&error| error.source()));
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    text
}

/// A text about `errors`, without the structures of the API server's answers among them.
pub fn without_structures<'a>(
    text: String,
    errors: impl IntoIterator<Item = &'a (dyn Error + 'static)>,
) -> String {
    errors.into_iter().fold(text, |text, error| match error.downcast_ref() {
        Some(error @ kube::Error::Api(status)) => {
            let message = if status.message.is_empty() {
                format!("the API server answered {} {}", status.code, status.reason)
            } else {
                status.message.clone()
            };
            text.replace(&error.to_string(), &message)
        }
        _ => text,
    })
}

/// What is wrong with a text that is not YAML, in one line: without the lines of the text, and the parser's advice to programmers.
pub fn not_yaml(error: &serde_saphyr::Error) -> String {
    let shown =
        serde_saphyr::render_options! { formatter: &UserMessageFormatter, snippets: SnippetMode::Off };
    format!("not YAML: {}", error.render_with_options(shown))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher;

    use super::*;

    #[test]
    fn the_causes_are_said_once() {
        let refused = std::io::Error::other(std::io::Error::from_raw_os_error(111));
        let watch = watcher::Error::WatchFailed(kube::Error::Service(Box::new(refused)));
        let text = error_text(&watch);
        assert_eq!(text.matches("Connection refused (os error 111)").count(), 1, "{text}");
        assert!(text.contains("ServiceError"), "{text}");
    }

    #[test]
    fn the_message_of_the_api_server_is_enough() {
        let api =
            |message: &str| kube::Error::Api(Box::new(Status::failure(message, "Forbidden").with_code(403)));
        let other = kube::Error::Service("connection refused".into());
        assert_eq!(error_text(&api("configmaps is forbidden")), "configmaps is forbidden");
        assert_eq!(error_text(&api("")), "the API server answered 403 Forbidden");
        assert_eq!(error_text(&other), other.to_string());
        let watch = watcher::Error::InitialListFailed(api("pods is forbidden"));
        assert_eq!(error_text(&watch), "failed to perform initial object list: pods is forbidden");
    }
}
