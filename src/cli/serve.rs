//! `plantbridge serve`: one fake, made of a contract in a file, for as long as a person wants it.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::pending,
    path::{Path, PathBuf},
    pin::pin,
    str::FromStr,
};

use clap::Args;
use serde_json::{Value as Json, json};

use super::{
    contract_file,
    ending::Failure,
    errand::{Errand, ErrandArgs},
    mcp,
    member::Member,
};
use crate::{
    contract::Problem,
    fake::Over,
    plant::{ContractSource, FakeStarted, PlantError, StartFake},
    wire::{Map, PeerName, Value},
};

#[derive(Clone, Debug, Args)]
#[command(mut_arg("name", |arg| arg.help(NAME)))]
pub(super) struct ServeArgs {
    /// The file of the contract the fake serves.
    #[arg(long, value_name = "FILE")]
    contract: PathBuf,
    /// The file of a script: what the fake answers, how it fails, what it emits by itself, and what it holds at first.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Has a method fail with this code, whatever the script says of it; Timeout never answers. May be given for each method.
    #[arg(long, value_name = "NAMESPACE.METHOD=CODE")]
    fail: Vec<Fail>,
    /// Runs code that the script brings along: handlers in JavaScript, which are shut in, and a program in Python, which may do
    /// what this user may. Needs --development.
    #[arg(long, requires = "development")]
    allow_exec: bool,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

const NAME: &str = "The fake's name on the network; that of the contract's file if not given. A name that anybody answers to is \
                    refused";

/// How one method fails.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fail {
    target: String,
    code: String,
}

/// A fake somebody wants, with everything that was read for it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    name: PeerName,
    file: PathBuf,
    contract: Value,
    script: Option<Value>,
    fails: Vec<Fail>,
}

impl FromStr for Fail {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let parts = typed.rsplit_once('=').filter(|(_, code)| !code.is_empty());
        let (target, code) = parts.ok_or("expected a method and a code, such as oven.read=Timeout")?;
        target.parse::<Member>()?;
        Ok(Self { target: target.into(), code: code.into() })
    }
}

/// Reads what there is to read before anything is opened.
pub(super) fn read(args: ServeArgs) -> Result<(ErrandArgs, Wanted), Failure> {
    let ServeArgs { contract: file, script, fail: fails, allow_exec, mut errand } = args;
    errand.network.run_code(allow_exec);
    let name = errand.network.fake_name(|| stem(&file))?;
    let mut seen = HashSet::new();
    if let Some(twice) = fails.iter().find(|fail| !seen.insert(&fail.target)) {
        return Err(Failure::Usage(format!("--fail: {} is to fail in two ways", twice.target)));
    }
    let contract = contract_file::document(&file)?;
    let script = script.as_deref().map(contract_file::document).transpose().map_err(|error| match error {
        PlantError::InvalidContract { problems, .. } => PlantError::InvalidScript { problems },
        other => other,
    })?;
    let script = with_fails(script, &fails);
    Ok((errand, Wanted { name, file, contract, script, fails }))
}

/// What the contract is called by its file: `boiler` of `boiler.types.json`.
fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".json").unwrap_or(&name);
    name.strip_suffix(".types").unwrap_or(name).to_owned()
}

/// The script, with what the command line says of failing. A script that is none stays as it is, to be refused.
fn with_fails(script: Option<Value>, fails: &[Fail]) -> Option<Value> {
    if fails.is_empty() {
        return script;
    }
    let mut script = match script {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(script)) => script,
        other => return other,
    };
    let mut all = match script.remove("fails") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(all)) => all,
        Some(other) => {
            script.insert("fails", other);
            return Some(Value::Map(script));
        }
    };
    for Fail { target, code } in fails {
        all.insert(target.as_str(), code.as_str());
    }
    script.insert("fails", Value::Map(all));
    Some(Value::Map(script))
}

/// Serves until told to end, or until the fake withdraws. However that comes, it is gone before we leave.
pub(super) async fn run(errand: &Errand, wanted: Wanted) -> Result<(), Failure> {
    let outcome = serve(errand, wanted).await;
    mcp::take_fakes_down(&errand.plant).await;
    outcome
}

async fn serve(errand: &Errand, wanted: Wanted) -> Result<(), Failure> {
    let Wanted { name, file, contract, script, fails } = wanted;
    let request = StartFake { name: Some(name.to_string()), source: ContractSource::Inline(contract), script };
    let principal = errand.principal();
    let started = match errand.plant.start_fake(&principal, request, &errand.stop).await {
        Ok(started) => started,
        Err(PlantError::Unwanted) => return Err(Failure::interrupted()),
        Err(error) => return Err(typed(contract_file::named(error, &file), &fails).into()),
    };
    let mut over = pin!(errand.plant.fake_over(&name)?);
    let over = tokio::select! {
        biased; // one that withdrew was not interrupted
        over = &mut over => over,
        () = errand.stop.cancelled() => {
            // Over by itself meanwhile, there is none to stop.
            let _ = errand.plant.stop_fake(&principal, name.as_str()).await;
            over.await
        }
        failed = told(errand, &started) => return failed.map(|never| match never {}),
    };
    ended(errand, &over).await
}

/// Says that it is up, and from then on whether the network is.
async fn told(errand: &Errand, started: &FakeStarted) -> Result<Infallible, Failure> {
    let out = errand.out;
    let (name, namespaces) = (&started.fake.name, &started.fake.namespaces);
    out.note(&format!("{name} is on the network: a fake that serves {}", namespaces.join(", ")));
    for warning in &started.warnings {
        out.note(&format!("note: {warning}"));
    }
    out.note("what it answers says nothing about any device; Ctrl-C takes it off the network");
    if out.json {
        errand.write(&[up(started)], false).await?;
    }
    let mut network = errand.node.watch_network();
    let place = place(errand);
    while network.wait_for(|network| !network.is_up()).await.is_ok() {
        out.note(&format!("the {place} is away, and nobody reaches the fake"));
        if network.wait_for(|network| network.is_up()).await.is_ok() {
            out.note(&format!("the {place} is back, and the fake joins again if its name is still free"));
        }
    }
    pending().await
}

/// What the fake stands on, in a word.
fn place(errand: &Errand) -> &'static str {
    let links = &errand.plant.settings().link_names;
    match links.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["mqtt"] => "broker",
        ["hub"] => "hub",
        _ => "network",
    }
}

fn up(started: &FakeStarted) -> Json {
    let FakeStarted { fake, components, emits, collections, handlers, warnings } = started;
    json!({
        "up": fake.name.as_str(),
        "fake": true,
        "namespaces": fake.namespaces,
        "components": components,
        "emits": emits,
        "collections": collections,
        "handlers": handlers,
        "warnings": warnings,
    })
}

/// The last word.
async fn ended(errand: &Errand, over: &Over) -> Result<(), Failure> {
    let Over { last, withdrawn } = over;
    let why = match (withdrawn, errand.stop.is_cancelled()) {
        (true, _) => "withdrawn",
        (false, true) => "interrupted",
        (false, false) => "failed",
    };
    let (name, calls, events) = (&last.name, last.calls, last.events);
    if *withdrawn {
        errand.out.note(&format!("another peer goes by the name '{name}' now: the fake left it to that one"));
    }
    if errand.out.json {
        let line = json!({"ended": why, "peer": name.as_str(), "calls": calls, "events": events});
        errand.write(&[line], true).await?;
    } else {
        errand.out.note(&format!("ended ({why}): {calls} calls answered, {events} events emitted by itself"));
    }
    if why == "interrupted" { Ok(()) } else { Err(Failure::Finding) }
}

/// What is wrong with a script, told by the flag where a flag said it.
fn typed(error: PlantError, fails: &[Fail]) -> PlantError {
    let PlantError::InvalidScript { problems } = error else { return error };
    let told = |problem: Problem| {
        let pointer = |fail: &&Fail| format!("/fails/{}", fail.target.replace('~', "~0").replace('/', "~1"));
        match fails.iter().find(|fail| pointer(fail) == problem.pointer) {
            Some(Fail { target, code }) => Problem { pointer: format!("--fail {target}={code}"), ..problem },
            None => problem,
        }
    };
    PlantError::InvalidScript { problems: problems.into_iter().map(told).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(typed: &str) -> Fail {
        typed.parse().unwrap()
    }

    #[test]
    fn a_file_gives_its_fake_a_name() {
        for file in ["contracts/boiler.types.json", "boiler.json", "boiler"] {
            assert_eq!(stem(Path::new(file)), "boiler", "{file}");
        }
    }

    /// What was typed goes before what the script says; a script that cannot hold it is left to be refused whole.
    #[test]
    fn typed_failures_go_into_the_script() {
        let script = |text: &str| crate::wire::json::decode(text.as_bytes()).unwrap();
        let fails = [fail("a.b.read=Unauthorized")];
        let merged =
            with_fails(Some(script(r#"{"fails": {"a.b.read": "Forbidden", "a.b.set": "Exception"}}"#)), &fails);
        assert_eq!(merged, Some(script(r#"{"fails": {"a.b.read": "Unauthorized", "a.b.set": "Exception"}}"#)));
        assert_eq!(with_fails(None, &fails), Some(script(r#"{"fails": {"a.b.read": "Unauthorized"}}"#)));
        assert_eq!(with_fails(None, &[]), None);
        for odd in ["[]", r#"{"fails": 1}"#] {
            assert_eq!(with_fails(Some(script(odd)), &fails), Some(script(odd)));
        }
    }

    #[test]
    fn what_was_typed_wrongly_is_told_as_it_was_typed() {
        let problems = ["/fails/a.b~1c", "/fails/a.d"].map(|at| Problem { pointer: at.into(), what: "no".into() });
        let told = typed(PlantError::InvalidScript { problems: problems.into() }, &[fail("a.b/c=X")]);
        assert_eq!(told.to_string(), "the script cannot be played: --fail a.b/c=X: no (and 1 more)");
    }
}
