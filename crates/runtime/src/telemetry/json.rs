//! An event as one flat JSON object with HNC's names: `level`, `ts`, `logger` and `msg`.
//!
//! Fields of the spans around an event are fields of the object. The innermost value of a name counts.

use std::fmt;

use forest::text::{QUOTE, limited};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_serde::fields::AsMap as _;
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    registry::{LookupSpan, Scope},
};

/// The most bytes of a text. Names of RBAC objects and messages of the API server have no limit of their own.
const LONGEST: usize = 4 * QUOTE;

/// Writes events as JSON lines. Format spans with [`JsonFields`](tracing_subscriber::fmt::format::JsonFields).
#[derive(Debug)]
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
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
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                line.extend(serde_json::from_str::<Map<_, _>>(fields).unwrap_or_default());
            }
        }
        if let Ok(Value::Object(fields)) = serde_json::to_value(event.field_map()) {
            line.extend(fields);
        }
        let message = line.remove("message").unwrap_or_default();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        line.extend([
            ("msg".into(), message),
            ("level".into(), metadata.level().as_str().to_ascii_lowercase().into()),
            ("ts".into(), time.into()),
            ("logger".into(), metadata.target().into()),
        ]);
        for value in line.values_mut() {
            if let Value::String(text) = value
                && text.len() > LONGEST
            {
                *text = limited(text, LONGEST).into_owned();
            }
        }
        writeln!(writer, "{}", Value::Object(line))
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

    /// The line that `body` logs.
    fn logged(body: impl FnOnce()) -> Value {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = Subscriber::builder()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLine)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, body);
        let line = buffer.0.lock().clone();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1), "one line");
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_line_has_hncs_fields_and_those_of_its_spans() {
        let line = logged(|| {
            let span = tracing::info_span!("review", rid = 7, namespace = "a");
            let _guard = span.enter();
            tracing::warn!(namespace = "b", allowed = false, ts = "forged", "a \"quoted\"\nmessage");
        });
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "a \"quoted\"\nmessage");
        assert_eq!(line["rid"], 7);
        assert_eq!(line["namespace"], "b");
        assert_eq!(line["allowed"], false);
        assert_eq!(line["logger"], module_path!());
        line["ts"].as_str().unwrap().parse::<k8s_openapi::jiff::Timestamp>().unwrap();
    }

    #[test]
    fn long_texts_are_limited() {
        let long = "x".repeat(100_000);
        let line = logged(|| tracing::warn!(name = long, shown = %long, "{long}"));
        for field in ["name", "shown", "msg"] {
            assert_eq!(line[field].as_str().map(str::len), Some(LONGEST), "{field}");
        }
    }
}
