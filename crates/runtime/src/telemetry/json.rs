//! One event as one JSON object, with the field names of HNC's log: `level`, `ts`, `logger`, `msg`.
//!
//! Fields of the spans around an event stand beside its own; the innermost one wins.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    registry::{LookupSpan, Scope},
};

/// Writes events as JSON lines. Spans must be formatted with
/// [`JsonFields`](tracing_subscriber::fmt::format::JsonFields).
#[derive(Debug)]
pub(super) struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        line.insert("level".to_owned(), level(*event.metadata().level()).into());
        line.insert("ts".to_owned(), now()?.into());
        line.insert("logger".to_owned(), event.metadata().target().into());
        let mut fields = Fields(Map::new());
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(formatted) = span.extensions().get::<FormattedFields<N>>()
                && let Ok(Value::Object(object)) = serde_json::from_str(formatted)
            {
                fields.0.extend(object);
            }
        }
        event.record(&mut fields);
        let message = fields.0.remove(MESSAGE).unwrap_or_default();
        line.insert("msg".to_owned(), message);
        for (name, value) in fields.0 {
            // What a line is about must not be able to change who speaks, and when.
            line.entry(name).or_insert(value);
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn now() -> Result<String, fmt::Error> {
    let mut text = String::new();
    SystemTime.format_time(&mut Writer::new(&mut text))?;
    Ok(text)
}

/// How tracing calls the sentence of an event.
const MESSAGE: &str = "message";

struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        // The sentence is recorded first; a field that happens to have its name must not take its place.
        let taken = name == MESSAGE && self.0.contains_key(MESSAGE);
        self.0.insert(if taken { "detail" } else { name }.to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        // With its causes: the outermost sentence alone seldom says what happened.
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.insert(field, text.into());
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::{Subscriber, format::JsonFields};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(body: impl FnOnce()) -> Vec<Value> {
        let buffer = Buffer::default();
        let subscriber = Subscriber::builder()
            .fmt_fields(JsonFields::new())
            .event_format(Line)
            .with_writer({
                let buffer = buffer.clone();
                move || buffer.clone()
            })
            .finish();
        tracing::subscriber::with_default(subscriber, body);
        let bytes = buffer.0.lock().clone();
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_hncs_fields_and_those_of_its_spans() {
        let lines = logged(|| {
            let span = tracing::info_span!("review", rid = 7, namespace = "a");
            let _guard = span.enter();
            tracing::warn!(namespace = "b", allowed = false, "a \"quoted\"\nmessage");
        });
        let [line] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "a \"quoted\"\nmessage");
        assert_eq!(line["rid"], 7);
        assert_eq!(line["namespace"], "b");
        assert_eq!(line["allowed"], false);
        assert_eq!(line["logger"], module_path!());
        let ts = line["ts"].as_str().unwrap();
        ts.parse::<k8s_openapi::jiff::Timestamp>().unwrap();
    }

    #[test]
    fn fields_cannot_take_the_place_of_the_lines_own() {
        let lines = logged(|| tracing::info!(ts = "forged", level = "error", "hello"));
        assert_eq!(lines[0]["level"], "info");
        assert_ne!(lines[0]["ts"], "forged");
        let lines = logged(|| tracing::info!(message = "another", "hello"));
        assert_eq!((&lines[0]["msg"], &lines[0]["detail"]), (&"hello".into(), &"another".into()));
    }

    #[test]
    fn errors_come_with_their_causes() {
        let error = io::Error::other(io::Error::other("inner"));
        let error: &(dyn std::error::Error + 'static) = &error;
        let lines = logged(|| tracing::error!(error, "failed"));
        assert_eq!(lines[0]["error"], "inner");
    }
}
