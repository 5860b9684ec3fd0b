//! With the feature `otel`: a span for each tool call, as a child of the client's own where it names one (`_meta.traceparent`). What
//! becomes of spans is not known here: they go into a bounded queue and fall off when it is full, so that no call waits for them.

use std::{borrow::Cow, sync::OnceLock, time::SystemTime};

use opentelemetry::{
    Context, KeyValue, Value,
    propagation::{Extractor, TextMapPropagator},
    trace::{Span, SpanKind, Status, Tracer},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
/// What makes spans.
pub use opentelemetry_sdk::trace::SdkTracer as SpanMaker;
use serde_json::{Map, Value as Json};

use super::{error::ToolError, meter::ToolEnd, text};

/// What makes spans, once there is something.
#[derive(Debug, Default)]
pub(super) struct Spans(OnceLock<SpanMaker>);

/// A call that has begun.
pub(super) struct Begun<'a> {
    tracer: &'a SpanMaker,
    parent: Context,
    tool: &'static str,
    at: SystemTime,
    about: Vec<KeyValue>,
}

/// Bytes of a name in a span.
const LONGEST: usize = 128;
/// Bytes of what says whose child a call is, and of what goes along with it.
const LONGEST_PARENT: usize = 512;

impl Spans {
    /// From now on by this. The first one counts.
    pub(super) fn make_with(&self, tracer: SpanMaker) {
        let _ = self.0.set(tracer);
    }

    /// A call begins, if anybody wants to know.
    pub(super) fn begin(
        &self,
        tool: &'static str,
        arguments: Option<&Map<String, Json>>,
        meta: &Map<String, Json>,
    ) -> Option<Begun<'_>> {
        let tracer = self.0.get()?;
        let named = |name: &'static str, key: &'static str| {
            let text = arguments?.get(name)?.as_str()?;
            Some(KeyValue::new(key, text::printable(text, LONGEST)))
        };
        let about = [
            Some(KeyValue::new("mcp.method.name", "tools/call")),
            Some(KeyValue::new("gen_ai.tool.name", tool)),
            named("peer", "plantbridge.peer"),
            named("namespace", "plantbridge.namespace"),
            named("method", "plantbridge.method"),
        ];
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(meta));
        Some(Begun { tracer, parent, tool, at: SystemTime::now(), about: about.into_iter().flatten().collect() })
    }
}

impl Begun<'_> {
    /// It has ended.
    pub(super) fn end(mut self, outcome: &Result<Json, ToolError>) {
        let end = ToolEnd::from(outcome);
        self.about.push(KeyValue::new("plantbridge.outcome", end.as_str()));
        let status = match outcome {
            Ok(_) => Status::Unset,
            Err(error) => {
                let code = error.code().as_str();
                self.about.push(KeyValue::new("error.type", Value::from(code)));
                Status::Error { description: Cow::Borrowed(code) }
            }
        };
        let builder = self.tracer.span_builder(format!("tools/call {}", self.tool));
        let builder = builder.with_kind(SpanKind::Server).with_start_time(self.at).with_attributes(self.about);
        let mut span = self.tracer.build_with_context(builder, &self.parent);
        span.set_status(status);
        span.end();
    }
}

/// What a request says of whose child it is.
struct Parent<'a>(&'a Map<String, Json>);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str().filter(|text| text.len() <= LONGEST_PARENT)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
