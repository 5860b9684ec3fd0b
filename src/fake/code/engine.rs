//! JavaScript handlers: compiled once, called one at a time, with a `state` they share.
//!
//! This runs in a process of its own, never in the bridge's. The engine knows its language and nothing else: no file, no
//! socket, no clock but `Date`, no way to load or to make code. What a handler may name is the list [`NAMES`]; everything
//! else a context is born with is taken away before the first source is read, and so are the constructors that make
//! functions of text.

use std::{collections::HashMap, fmt::Write as _};

use rquickjs::{
    Coerced, Context, Ctx, Error, Exception, Function, Promise, Runtime, Value as Held,
    context::{EvalOptions, intrinsic},
    function::Args,
    promise::PromiseState,
};
use serde_json::Value as Json;

use super::{
    convert::Converter,
    lines::{Answer, Ask, Hello},
};

/// Serves the handlers of one fake: the first line brings them, each further one is a call. Ends when nothing is heard, or
/// nobody hears it, any more.
pub(super) fn serve(
    mut heard: impl FnMut() -> Option<Vec<u8>>,
    mut say: impl FnMut(Answer) -> bool,
) -> Result<(), Error> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(MEMORY);
    runtime.set_max_stack_size(STACK);
    let context = Context::builder().with::<Language>().build(&runtime)?;
    context.with(|ctx| {
        let converter = Converter::new(&ctx)?;
        ctx.eval::<(), _>(closing())?;
        let Some(hello) = heard().and_then(|line| serde_json::from_slice::<Hello>(&line).ok()) else { return Ok(()) };
        let (mut room, faults) = Room::furnish(&ctx, converter, hello)?;
        let fit = faults.is_empty();
        if !say(Answer { faults, ..Answer::default() }) || !fit {
            return Ok(());
        }
        while let Some(ask) = heard().and_then(|line| serde_json::from_slice::<Ask>(&line).ok()) {
            if !say(room.call(ask)) {
                break;
            }
        }
        Ok(())
    })
}

/// What the engine is given of its language. `Eval` is its compiler.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::Promise,
);

/// What a handler may name, besides `state`: what the description of fakes promises, and what its examples throw, await and
/// keep things in.
const NAMES: [&str; 23] = [
    "Math",
    "JSON",
    "Date",
    "Number",
    "String",
    "Boolean",
    "Array",
    "Object",
    "isNaN",
    "parseFloat",
    "parseInt",
    // The rest of the language's own values.
    "isFinite",
    "undefined",
    "NaN",
    "Infinity",
    "Error",
    "TypeError",
    "RangeError",
    "Promise",
    "Map",
    "Set",
    "RegExp",
    "Symbol",
];

/// Takes away every other name, and what makes functions of text.
fn closing() -> String {
    let mut kept = String::new();
    for name in NAMES {
        let _ = write!(kept, "{name:?},");
    }
    format!(
        "(() => {{
            const kept = [{kept}], world = globalThis;
            for (const made of [function () {{}}, async function () {{}}, function* () {{}}, async function* () {{}}]) {{
                delete Object.getPrototypeOf(made).constructor;
            }}
            for (const name of Object.getOwnPropertyNames(world)) if (!kept.includes(name)) delete world[name];
        }})()"
    )
}

/// The handlers, and what they share.
struct Room<'js> {
    ctx: Ctx<'js>,
    converter: Converter<'js>,
    handlers: HashMap<String, Function<'js>>,
    /// What is in `state` as the bridge knows it.
    state: Json,
}

impl<'js> Room<'js> {
    /// Compiles all of them; with what is wrong with those that are none.
    fn furnish(
        ctx: &Ctx<'js>,
        converter: Converter<'js>,
        hello: Hello,
    ) -> Result<(Self, Vec<(String, String)>), Error> {
        let mut room = Self { ctx: ctx.clone(), converter, handlers: HashMap::new(), state: hello.state };
        room.put_state_back()?;
        let mut faults = Vec::new();
        for (target, source) in hello.handlers {
            match room.compile(&source) {
                Ok(handler) => drop(room.handlers.insert(target, handler)),
                Err(what) => faults.push((target, what)),
            }
        }
        Ok((room, faults))
    }

    /// A function from its source. Around it are parentheses, for a function alone would be a statement.
    fn compile(&self, source: &str) -> Result<Function<'js>, String> {
        let source = source.trim_end_matches(|last: char| last.is_whitespace() || last == ';');
        let mut options = EvalOptions::default();
        options.strict = false;
        let read = self.ctx.eval_with_options::<Held<'js>, _>(format!("({source}\n)"), options);
        match read {
            Ok(value) => value.into_function().ok_or_else(|| NO_FUNCTION.to_owned()),
            Err(error) => Err(format!("it does not compile: {}", self.with_place(&error))),
        }
    }

    /// Answers one call, and tells what became of the state.
    fn call(&mut self, ask: Ask) -> Answer {
        let id = ask.id;
        let mut done = self.run(ask);
        // What it began and nobody awaited is part of it: what comes after it finds everything at rest.
        while self.ctx.execute_pending_job() {}
        let state = match self.look_at_state() {
            Ok(state) => state,
            Err(what) => {
                done = done.and_then(|_| Err(what));
                // Out of memory once more: whoever reads this process kills it, and nothing is lost.
                let _ = self.put_state_back();
                None
            }
        };
        let (result, error) = match done {
            Ok(result) => (Some(result), None),
            Err(text) => (None, Some(clip(text))),
        };
        Answer { id, result, error, state, faults: Vec::new() }
    }

    fn run(&self, ask: Ask) -> Result<Json, String> {
        let Some(handler) = self.handlers.get(&ask.target) else {
            return Err(format!("no handler for {}", ask.target));
        };
        let mut args = Args::new(self.ctx.clone(), ask.params.len());
        for param in ask.params {
            let put = self.converter.put(&self.ctx, param).and_then(|value| args.push_arg(value));
            put.map_err(|error| self.told(&error))?;
        }
        let returned: Held<'js> = handler.call_arg(args).map_err(|error| self.told(&error))?;
        let returned = match returned.try_into_promise() {
            Ok(promise) => self.settled(&promise)?,
            Err(plain) => plain,
        };
        self.converter.take(&self.ctx, &returned)
    }

    /// What a promise comes to. Nothing but the engine's own jobs can settle one.
    fn settled(&self, promise: &Promise<'js>) -> Result<Held<'js>, String> {
        while promise.state() == PromiseState::Pending && self.ctx.execute_pending_job() {}
        match promise.result::<Held<'js>>() {
            None => Err("the promise it returned never settles".into()),
            Some(result) => result.map_err(|error| self.told(&error)),
        }
    }

    /// The state, if it is another one than before.
    fn look_at_state(&mut self) -> Result<Option<Json>, String> {
        let held: Held<'js> = self.ctx.globals().get("state").map_err(|error| self.told(&error))?;
        let state = self.converter.take(&self.ctx, &held);
        let state = state.map_err(|what| format!("what it left in `state` cannot be kept: {what}"))?;
        if !state.is_object() {
            return Err("what it left in `state` cannot be kept: it is no object any more".into());
        }
        if state == self.state {
            return Ok(None);
        }
        let size = state.to_string().len();
        if size > MAX_STATE {
            return Err(format!("what it left in `state` cannot be kept: {size} bytes, and {MAX_STATE} is the most"));
        }
        self.state = state.clone();
        Ok(Some(state))
    }

    fn put_state_back(&self) -> Result<(), Error> {
        let state = self.converter.put(&self.ctx, self.state.clone())?;
        self.ctx.globals().set("state", state)
    }

    /// What was thrown, as text.
    fn told(&self, error: &Error) -> String {
        if !error.is_exception() {
            return error.to_string();
        }
        let thrown = self.ctx.catch();
        let text = |value: &Held<'js>| value.get::<Coerced<String>>().map(|text| text.0);
        if thrown.is_object() && !thrown.is_error() {
            let json =
                self.converter.take(&self.ctx, &thrown).ok().filter(|json| *json != Json::Object(<_>::default()));
            if let Some(json) = json {
                return json.to_string();
            }
        }
        match text(&thrown) {
            Ok(text) => text,
            Err(_) => {
                // Whatever its own text threw is of no interest.
                drop(self.ctx.catch());
                format!("it threw a {} that has no text", thrown.type_name())
            }
        }
    }

    /// What was thrown while a source was read, with where in it.
    fn with_place(&self, error: &Error) -> String {
        if !error.is_exception() {
            return error.to_string();
        }
        let thrown = self.ctx.catch();
        let stack = thrown.as_object().cloned().and_then(Exception::from_object).and_then(|thrown| thrown.stack());
        let text = thrown.get::<Coerced<String>>().map_or_else(|_| "it cannot be read".to_owned(), |text| text.0);
        match stack.as_deref().and_then(place) {
            // The parenthesis stands before the first line.
            Some((1, column)) => format!("{text} (line 1, column {})", column.saturating_sub(1).max(1)),
            Some((line, column)) => format!("{text} (line {line}, column {column})"),
            None => text,
        }
    }
}

/// Line and column in the first line of a stack that has them, which ends in `…:line:column`.
fn place(stack: &str) -> Option<(u32, u32)> {
    stack.lines().find_map(|line| {
        let mut parts = line.trim().trim_end_matches(')').rsplit(':');
        let column = parts.next()?.parse().ok()?;
        Some((parts.next()?.parse().ok()?, column))
    })
}

fn clip(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(at);
        text.push('…');
    }
    text
}

const NO_FUNCTION: &str = "it is not a function: give it `(a, b) => …` or `function (a, b) { … }`";
/// Memory of the engine.
const MEMORY: usize = 32 << 20;
/// Stack of the engine; what recurses deeper is thrown at.
const STACK: usize = 512 << 10;
/// What handlers may keep in `state`, as JSON.
const MAX_STATE: usize = 256 << 10;
/// Characters of what was thrown.
const MAX_TEXT: usize = 500;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Runs handlers here: what the process of a fake does, without the process.
    fn talk(state: &Json, handlers: &[(&str, &str)], calls: &[(&str, Json)]) -> Vec<Answer> {
        let handlers: Vec<(String, String)> = handlers.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let hello = serde_json::to_vec(&json!({"state": state, "handlers": handlers})).unwrap();
        let asks =
            calls.iter().zip(1..).map(|((target, params), id)| json!({"id": id, "target": target, "params": params}));
        let mut lines = std::iter::once(hello).chain(asks.map(|ask| serde_json::to_vec(&ask).unwrap()));
        let mut said = Vec::new();
        serve(
            || lines.next(),
            |answer| {
                said.push(answer);
                true
            },
        )
        .unwrap();
        said
    }

    fn one(source: &str, params: Json) -> Result<Json, String> {
        let mut said = talk(&json!({}), &[("a.b", source)], &[("a.b", params)]);
        assert!(said[0].faults.is_empty(), "{:?}", said[0].faults);
        let answer = said.remove(1);
        assert_eq!(answer.id, 1);
        answer.error.map_or_else(|| Ok(answer.result.unwrap()), Err)
    }

    fn fault(source: &str) -> String {
        let mut said = talk(&json!({}), &[("a.b", source)], &[]);
        assert_eq!(said.len(), 1);
        let (target, what) = said.remove(0).faults.remove(0);
        assert_eq!(target, "a.b");
        what
    }

    #[test]
    fn handlers_compute_and_share_their_state() {
        let handlers = [
            ("a.count", "() => { state.n = (state.n ?? 0) + 1; return state.n }"),
            ("a.tell", "function (unit) { return { n: state.n, unit } };"),
        ];
        let said = talk(
            &json!({"n": 4}),
            &handlers,
            &[("a.count", json!([])), ("a.tell", json!(["bar"])), ("a.x", json!([]))],
        );
        assert_eq!((&said[1].result, &said[1].state), (&Some(json!(5)), &Some(json!({"n": 5}))));
        assert_eq!((&said[2].result, &said[2].state), (&Some(json!({"n": 5, "unit": "bar"})), &None));
        assert_eq!(said[3].error.as_deref(), Some("no handler for a.x"));
    }

    /// F-26: of the names of a context those that are listed are left, and nothing makes code of text or reaches a host.
    #[test]
    fn f26_there_is_nothing_to_reach() {
        let mut names = NAMES.map(str::to_owned).to_vec();
        names.push("state".into());
        names.sort();
        let seen = one("() => Object.getOwnPropertyNames((function () { return this })())", json!([])).unwrap();
        let mut seen: Vec<String> = serde_json::from_value(seen).unwrap();
        seen.sort();
        assert_eq!(seen, names);
        for reach in [
            "() => state.constructor.constructor('return this')()",
            "() => (() => 1).constructor('return this')()",
            "() => (async () => 1).constructor('return this')()",
            "() => (function* () {}).constructor('return this')().next().value",
            "() => Object.getPrototypeOf(async function* () {}).constructor('return this')()",
            "() => (class {}).constructor('return this')()",
            "() => Math.max.constructor('return this')()",
            "() => eval('1')",
            "() => Function('return 1')()",
            "() => process.env",
            "() => require('fs')",
            "() => globalThis.std",
            "() => import('fs')",
            "() => import('os').then((os) => os.exec(['id']))",
        ] {
            let refused = one(reach, json!([])).unwrap_err();
            assert!(!refused.is_empty(), "{reach}: {refused}");
        }
        assert_eq!(
            one("() => [typeof eval, typeof Function, typeof globalThis]", json!([])).unwrap(),
            json!(["undefined"; 3].map(|_: &str| "undefined"))
        );
    }

    #[test]
    fn what_does_not_compile_is_told_with_where() {
        let cases = [
            ("=>", "it does not compile: SyntaxError: ", " (line 1, column 1)"),
            ("(a) => {\n  return a +;\n}", "it does not compile: SyntaxError: ", " (line 2, column 13)"),
            ("(", "it does not compile: SyntaxError: ", ")"),
            ("", "it does not compile: SyntaxError: ", ")"),
            ("5", NO_FUNCTION, ""),
            ("'text'", NO_FUNCTION, ""),
            ("{ a: 1 }", NO_FUNCTION, ""),
            ("nothing.here", "it does not compile: ReferenceError: nothing is not defined", ")"),
            ("() => 1\0", "it does not compile: ", ""),
        ];
        for (source, begins, ends) in cases {
            let what = fault(source);
            assert!(what.starts_with(begins) && what.ends_with(ends), "{source:?}: {what}");
        }
    }

    #[test]
    fn what_is_thrown_is_told_whatever_it_is() {
        let cases = [
            ("() => { throw new Error('too hot') }", "Error: too hot"),
            ("() => { throw new RangeError('x') }", "RangeError: x"),
            ("() => { throw 'text' }", "text"),
            ("() => { throw 5 }", "5"),
            ("() => { throw undefined }", "undefined"),
            ("() => { throw null }", "null"),
            ("() => { throw {code: 7} }", r#"{"code":7}"#),
            ("() => { throw {toString() { throw 1 }} }", "it threw a object that has no text"),
            ("() => { throw Symbol('s') }", "it threw a symbol that has no text"),
            ("async () => { throw new Error('later') }", "Error: later"),
            ("() => Promise.reject('no')", "no"),
            ("() => { throw { get message() { throw 1 } } }", "[object Object]"),
        ];
        for (source, told) in cases {
            assert_eq!(one(source, json!([])).unwrap_err(), told, "{source}");
        }
        let long = one("() => { throw 'x'.repeat(5000) }", json!([])).unwrap_err();
        assert_eq!(long.chars().count(), MAX_TEXT + 1);
    }

    #[test]
    fn what_is_returned_is_a_value_or_refused() {
        let good = [
            ("() => undefined", json!(null)),
            ("() => null", json!(null)),
            ("() => ({a: undefined, b: [undefined, 1.5, -0, 1e21, true]})", json!({"b": [null, 1.5, 0, 1e21, true]})),
            ("() => NaN", json!({"$number": "NaN"})),
            ("() => [Infinity, -Infinity]", json!([{"$number": "Infinity"}, {"$number": "-Infinity"}])),
            ("() => new Date(0)", json!({"$date": "1970-01-01T00:00:00.000Z"})),
            ("async () => { await 1; return 2 }", json!(2)),
            ("() => new Promise((done) => done({x: 1}))", json!({"x": 1})),
            ("() => 9007199254740991", json!(9_007_199_254_740_991_i64)),
            ("() => JSON.parse('{\"__proto__\": 1}')", json!({"__proto__": 1})),
        ];
        for (source, expected) in good {
            assert_eq!(one(source, json!([])), Ok(expected), "{source}");
        }
        let bad = [
            ("() => 10n", "it gave a big integer, which is no value peers exchange"),
            ("() => () => 1", "it gave a function, which is no value peers exchange"),
            ("() => ({a: [Symbol()]})", "it gave a symbol, which is no value peers exchange"),
            ("() => new Error('x')", "it gave an error, which is no value peers exchange"),
            ("() => [Promise.resolve(1)]", "it gave a promise inside another value, where nothing awaits it"),
            (
                "() => { const a = {}; a.a = a; return a }",
                "it gave a value nested deeper than 64 levels, or one that holds itself",
            ),
            (
                "() => { const a = []; a.push(a); return a }",
                "it gave a value nested deeper than 64 levels, or one that holds itself",
            ),
            ("() => new Promise(() => {})", "the promise it returned never settles"),
            ("() => new Date(NaN)", "RangeError: "),
            ("() => '\\ud800'", "it gave text that is no Unicode"),
            ("() => new Array(70000).fill(1)", "it gave more than 65536 values"),
            ("() => 'x'.repeat(900000)", "it gave more than 524288 bytes"),
            ("() => ({get a() { throw new Error('no') }})", "Error: no"),
        ];
        for (source, expected) in bad {
            let told = one(source, json!([])).unwrap_err();
            assert!(told.starts_with(expected), "{source}: {told}");
        }
    }

    /// What a caller sends arrives as it is meant, also where it is named like the language's own.
    #[test]
    fn arguments_arrive() {
        let sent = json!([{"$date": "2026-08-07T18:22:10.114Z"}, {"$number": "NaN"}, {"$map": {"$date": 1}}, {"$bytes": "AA=="}]);
        let back =
            one("(...all) => all.map((one) => [one instanceof Date, typeof one, JSON.stringify(one)])", sent).unwrap();
        let expected = json!([
            [true, "object", "\"2026-08-07T18:22:10.114Z\""],
            [false, "number", "null"],
            [false, "object", "{\"$date\":1}"],
            [false, "object", "{\"$bytes\":\"AA==\"}"]
        ]);
        assert_eq!(back, expected);
        let odd = serde_json::from_str(r#"[{"__proto__": {"a": 1}, "constructor": 2, "a\u0000b": 3}]"#).unwrap();
        let back = one("(one) => [Object.keys(one), Object.getPrototypeOf(one) === Object.prototype, one.a ?? 0]", odd)
            .unwrap();
        assert_eq!(back, json!([["__proto__", "constructor", "a\u{0}b"], true, 0]));
        let many = Json::Array((0..100).map(Json::from).collect());
        assert_eq!(one("(...all) => all.length", many).unwrap(), json!(100));
    }

    /// Without end in memory or depth: thrown at, and the next call is answered.
    #[test]
    fn too_much_is_thrown_at_and_the_next_call_is_answered() {
        let handlers = [
            ("a.grow", "() => { const all = []; for (;;) all.push('x'.repeat(1e6) + all.length) }"),
            ("a.deep", "() => { const f = () => f() + 1; return f() }"),
            ("a.big", "() => 'a'.repeat(2 ** 29)"),
            ("a.array", "() => new Array(2 ** 31).fill(0)"),
            ("a.fine", "() => 'fine'"),
        ];
        let fine = ("a.fine", json!([]));
        for (bad, _) in &handlers[..3] {
            let said = talk(&json!({}), &handlers, &[(bad, json!([])), fine.clone()]);
            assert!(said[1].error.is_some(), "{bad}");
            assert_eq!((&said[2].error, &said[2].result), (&None, &Some(json!("fine"))), "{bad}");
        }
    }

    /// What cannot be kept is not kept: the state is as it was before.
    #[test]
    fn a_state_that_cannot_be_kept_is_put_back() {
        for ruin in [
            "state = 5",
            "state = undefined",
            "state.self = state",
            "state.f = () => 1",
            "delete globalThis.state, state = 1",
            "state.big = 'x'.repeat(300000)",
            "Object.defineProperty(state, 'x', {enumerable: true, get() { throw 1 }})",
        ] {
            let ruin = format!("() => {{ {ruin}; return 'done' }}");
            let handlers = [("a.ruin", ruin.as_str()), ("a.tell", "() => state")];
            let said = talk(&json!({"kept": 1}), &handlers, &[("a.ruin", json!([])), ("a.tell", json!([]))]);
            let told = said[1].error.as_deref().unwrap();
            assert!(
                told.starts_with("what it left in `state` cannot be kept: ") || told.contains("globalThis"),
                "{ruin}: {told}"
            );
            assert_eq!((&said[1].state, &said[2].result), (&None, &Some(json!({"kept": 1}))), "{ruin}");
        }
        // What a handler that throws wrote before is kept, as it is in the language.
        let handlers = [("a.half", "() => { state.half = true; throw 'no' }"), ("a.tell", "() => state")];
        let said = talk(&json!({}), &handlers, &[("a.half", json!([])), ("a.tell", json!([]))]);
        assert_eq!((said[1].error.as_deref(), &said[2].result), (Some("no"), &Some(json!({"half": true}))));
    }
}
