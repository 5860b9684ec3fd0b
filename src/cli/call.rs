//! `plantbridge call`: one call of one method, made once.

use std::{str::FromStr, time::Duration};

use clap::Args;
use serde_json::{Map, Value as Json, json};
use tokio::time::timeout;

use super::{
    ending::Failure,
    errand::{Errand, ErrandArgs},
    later,
    member::Member,
};
use crate::{
    contract::Semantics,
    mcp::{Source, tagged, text, tools},
    plant::{Arguments, CallRequest, Called, PlantError},
    wire::Value,
};

#[derive(Clone, Debug, Args)]
pub(super) struct CallArgs {
    /// Whom.
    #[arg(value_name = "PEER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    peer: String,
    /// Which method of which namespace, such as oven.setSetpoint; the last dot divides.
    #[arg(value_name = "NAMESPACE.METHOD")]
    method: Member,
    /// The arguments, read by the peer's contract: text as it is, numbers, true or false, dates such as
    /// 2026-08-07T18:22:10Z, bytes as hex, everything else as JSON. After -- a word may begin with a dash.
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    pub(super) words: Vec<String>,
    /// The arguments as one JSON array instead.
    #[arg(long, value_name = "JSON", conflicts_with = "words")]
    args: Option<List>,
    /// Names the command, so that the same intent, sent again, runs once where the peer keeps a record.
    #[arg(long, value_name = "KEY", value_parser = key)]
    idempotency_key: Option<String>,
    /// Of a method that answers later, gives the ticket and does not wait for its end. Nobody else can collect it.
    #[arg(long)]
    no_wait: bool,
    /// Sends only what the peer declares to be an observation. PLANTBRIDGE_READ_ONLY=1 says the same.
    #[arg(long)]
    pub(super) read_only: bool,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// A JSON array of values a plant can hold.
#[derive(Clone, Debug, PartialEq)]
struct List(Vec<Value>);

/// How long a call that was given up may take to say what is known of it.
const SETTLE: Duration = Duration::from_millis(500);
const ACQUIRE: &str = "$acquire";
/// Taken under a name nobody has again, control would be in nobody's hands until it lapses.
const NOBODY: &str = "control belongs to a name, and ours is made up and gone when this command ends: nobody could use it, and nobody else \
                      could have it; give --name ME, here and with the calls that need control";
/// The longest idempotency key, in bytes.
const LONGEST_KEY: usize = 256;

impl FromStr for List {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let expected = |problem: String| format!("expected a JSON array such as [1, \"a\"]: {problem}");
        let json: Json = serde_json::from_str(typed).map_err(|error| expected(error.to_string()))?;
        match tagged::from_json(json).map_err(|error| error.to_string())? {
            Value::Array(values) => Ok(Self(values)),
            _ => Err(expected("it is none".into())),
        }
    }
}

fn key(typed: &str) -> Result<String, String> {
    let fits = !typed.is_empty() && typed.len() <= LONGEST_KEY;
    if fits { Ok(typed.into()) } else { Err(format!("expected 1 to {LONGEST_KEY} bytes")) }
}

/// Calls, and says what came of it: the result on standard output, everything about it on standard error.
pub(super) async fn run(errand: &Errand, args: CallArgs) -> Result<(), Failure> {
    if args.method.name == ACQUIRE && !errand.named {
        return Err(Failure::Usage(NOBODY.into()));
    }
    let arguments = args.args.map_or(Arguments::Words(args.words), |List(values)| Arguments::Positional(values));
    let request = CallRequest {
        peer: args.peer,
        namespace: args.method.namespace,
        method: args.method.name,
        arguments,
        timeout: None,
        wait: errand.wait,
        idempotency_key: args.idempotency_key,
    };
    let mut called = once(errand, request).await?;
    let view = match called.ticket.take() {
        Some(ticket) if args.no_wait => Some(later::now(&ticket).await),
        Some(ticket) => Some(later::end(errand, &ticket).await?),
        None => None,
    };
    tell(errand, called, view)
}

/// Makes the call. Interrupted, it leaves the network, which settles what can be known: sent or not.
async fn once(errand: &Errand, request: CallRequest) -> Result<Called, Failure> {
    let principal = errand.principal();
    let target = (request.peer.clone(), request.namespace.clone(), request.method.clone());
    let call = errand.plant.call(&principal, request, &errand.stop);
    tokio::pin!(call);
    tokio::select! {
        biased; // an answer that is there is told, whoever has given up
        called = &mut call => return Ok(called?),
        () = errand.stop.cancelled() => {}
    }
    errand.node.leave();
    match timeout(SETTLE, call).await {
        Ok(Ok(called)) => Ok(called),
        Ok(Err(PlantError::Unwanted)) => Err(Failure::interrupted()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => {
            let (peer, namespace, method) = &target;
            let why = "it was interrupted, and whether it had left is not known";
            Err(later::in_doubt((peer, namespace, method), why))
        }
    }
}

fn tell(errand: &Errand, called: Called, view: Option<later::View>) -> Result<(), Failure> {
    let target = &called.target;
    let mut about = vec![format!("{:.3} ms", tools::milliseconds(called.took))];
    about.extend(called.semantics.map(|semantics| semantics.as_str().to_owned()));
    about.extend((!called.checked).then(|| "not checked: the peer does not describe it".to_owned()));
    about.extend(called.idempotency_key.as_ref().map(|key| format!("idempotency key {key}")));
    about.extend(called.fake.then(|| "answered by a fake".to_owned()));
    let told = later::told(target, view, called.value.clone())?;
    about.extend(told.notes.iter().cloned());
    if !errand.out.json {
        errand.out.note(&format!("{target}: {}", about.join(", ")));
        return told.result.map_or(Ok(()), |result| errand.out.say(&text::pretty(&result)));
    }
    errand.out.say(&text::pretty(&answer(called, told)))
}

fn answer(called: Called, told: later::Told) -> Json {
    let mut answer = Map::new();
    answer.insert("result".into(), told.result.unwrap_or_default());
    answer.insert("ms".into(), json!(tools::milliseconds(called.took)));
    answer.extend(called.semantics.map(Semantics::as_str).map(|semantics| ("semantics".into(), semantics.into())));
    answer.insert("effect".into(), called.effect.as_str().into());
    answer.insert("checked".into(), called.checked.into());
    answer.extend(called.idempotency_key.map(|key| ("idempotency_key".into(), key.into())));
    answer.extend(told.ticket.map(|ticket| ("ticket".into(), ticket)));
    let peer = called.target.peer.as_str();
    answer.insert("source".into(), json!(if called.fake { Source::fake(peer) } else { Source::live(peer) }));
    answer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_list_is_a_json_array_of_what_a_plant_can_hold() {
        let list: List = r#"[1, {"$date": "1970-01-01T00:00:00.001Z"}]"#.parse().unwrap();
        assert_eq!(list, List(vec![Value::Int(1), Value::Date(1)]));
        for typed in ["", "1", "{}", "[1,]", "[9007199254740993]", r#"[{"$date":"x"}]"#] {
            assert!(typed.parse::<List>().is_err(), "{typed}");
        }
    }
}
