//! One event as one JSON object, with the field names of HNC's log: `level`, `ts`, `logger`, `msg`.
//!
//! Fields of the spans around an event stand beside its own; the innermost one wins.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use forest::text::{QUOTE, limited};
use serde::Serialize;
use serde_json::value::RawValue;
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
        let mut fields = Fields::default();
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(formatted) = span.extensions().get::<FormattedFields<N>>()
                && let Ok(object) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(formatted)
            {
                for (name, text) in object {
                    fields.set(name.into(), &text);
                }
            }
        }
        event.record(&mut fields);
        fields.name_message();
        // What a line is about must not be able to change who speaks, and when.
        fields.set("level".into(), level(*event.metadata().level()));
        fields.set("ts".into(), &now()?);
        fields.set("logger".into(), event.metadata().target());
        fields.write(&mut writer)
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

/// The most bytes of a field's text: names and what an API server says of them have no limit of their own.
const LONGEST: usize = 4 * QUOTE;

/// How tracing calls the sentence of an event.
const MESSAGE: &str = "message";

/// By name, the texts of all values one after the other. A line is written for every refusal, so this is no tree of maps.
#[derive(Default)]
struct Fields {
    json: Vec<u8>,
    places: Vec<(Cow<'static, str>, Range<usize>)>,
}

impl Fields {
    fn find(&mut self, name: &str) -> Option<&mut (Cow<'static, str>, Range<usize>)> {
        self.places.iter_mut().find(|(known, _)| known == name)
    }

    fn set(&mut self, name: Cow<'static, str>, value: &(impl Serialize + ?Sized)) {
        let place = self.append(value);
        self.put(name, place);
    }

    fn append(&mut self, value: &(impl Serialize + ?Sized)) -> Range<usize> {
        let start = self.json.len();
        // Memory takes everything; what cannot say what it is, is nothing.
        if serde_json::to_writer(&mut self.json, value).is_err() {
            self.json.truncate(start);
            self.json.extend_from_slice(b"null");
        }
        start..self.json.len()
    }

    fn put(&mut self, name: Cow<'static, str>, place: Range<usize>) {
        match self.find(&name) {
            Some((_, known)) => *known = place,
            None => self.places.push((name, place)),
        }
    }

    fn insert(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        // The sentence is recorded first; a field that happens to have its name must not take its place.
        let taken = name == MESSAGE && self.find(MESSAGE).is_some();
        self.set(if taken { "detail" } else { name }.into(), value);
    }

    /// The sentence has another name in a line, which no field can take from it.
    fn name_message(&mut self) {
        let at = self.places.iter().position(|(name, _)| name == MESSAGE);
        let place = at.map(|at| self.places.swap_remove(at).1);
        let place = place.unwrap_or_else(|| self.append(&()));
        self.put("msg".into(), place);
    }

    fn write(mut self, writer: &mut Writer<'_>) -> fmt::Result {
        self.places.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut separator = '{';
        for (name, place) in std::mem::take(&mut self.places) {
            let name = self.append(&name);
            writer.write_char(separator)?;
            writer.write_str(self.text(name)?)?;
            writer.write_char(':')?;
            writer.write_str(self.text(place)?)?;
            separator = ',';
        }
        writer.write_str("}\n")
    }

    fn text(&self, place: Range<usize>) -> Result<&str, fmt::Error> {
        std::str::from_utf8(&self.json[place]).map_err(|_| fmt::Error)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, &*limited(&format!("{value:?}"), LONGEST));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, &*limited(value, LONGEST));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, &value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        // With its causes: the outermost sentence alone seldom says what happened.
        let mut said = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            said.push_str(": ");
            said.push_str(&error.to_string());
            cause = error.source();
        }
        self.insert(field, &*limited(&said, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use serde_json::Value;
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
    fn no_text_makes_a_line_of_any_length() {
        let long = "x".repeat(100_000);
        let error = io::Error::other(long.clone());
        let error: &(dyn std::error::Error + 'static) = &error;
        for line in logged(|| tracing::warn!(name = long, shown = %long, error, "{long}")) {
            let longest = line.as_object().unwrap().values().filter_map(Value::as_str).map(str::len).max();
            assert_eq!(longest, Some(LONGEST), "{:?}", line.as_object().unwrap().keys());
        }
    }

    #[test]
    fn errors_come_with_their_causes() {
        let error = io::Error::other(io::Error::other("inner"));
        let error: &(dyn std::error::Error + 'static) = &error;
        let lines = logged(|| tracing::error!(error, "failed"));
        assert_eq!(lines[0]["error"], "inner");
    }
}
