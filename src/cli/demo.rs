//! `plantbridge demo`: the bakery, a tour of it, and how to attach to it. Standard output is for people here.

use std::{io::Write, time::Duration};

use super::{
    StartError,
    args::DemoArgs,
    mcp,
    network::{Behaviour, Network, NetworkArgs},
    stop,
};
use crate::{
    demo::{Demo, snippet, tour},
    node,
};

/// How long our own peer may take to come to the demo's network.
const JOIN_WAIT: Duration = Duration::from_secs(10);

/// Starts the bakery and walks through it; then stays until asked to end, unless once is enough.
pub(super) async fn run(args: DemoArgs) -> Result<(), StartError> {
    let demo = Demo::start().await.map_err(StartError::new)?;
    let outcome = tokio::select! {
        outcome = open(&demo, args.once) => outcome,
        () = stop::asked() => Ok(()),
    };
    demo.stop().await;
    outcome
}

async fn open(demo: &Demo, once: bool) -> Result<(), StartError> {
    say(&format!("The bakery is open at {}. A client walks through it over MCP:", demo.url()))?;
    walk(demo).await?;
    if once {
        return Ok(());
    }
    // Where we are is only not known on systems that do not say; then the name has to be found by the shell.
    let binary = std::env::current_exe().map_or_else(|_| "plantbridge".into(), |path| path.display().to_string());
    say(&format!("\nTo attach a client of your own:\n\n{}\nCtrl-C ends it.", snippet(&binary, demo.url())))?;
    std::future::pending().await
}

/// The tour, by a bridge of its own that leaves again.
async fn walk(demo: &Demo) -> Result<(), StartError> {
    let behaviour = Behaviour { role: "mcp", ..Behaviour::default() };
    let network = Network::new(NetworkArgs::of_broker(demo.url()), behaviour)?;
    let (plant, node, running) = network.join();
    node.network_when(JOIN_WAIT, node::Network::is_settled).await;
    let toured = tour::run(&mcp::front(plant, false), &mut std::io::stdout()).await;
    mcp::leave(&node, running).await;
    toured.map_err(StartError::new)
}

fn say(text: &str) -> Result<(), StartError> {
    let mut out = std::io::stdout();
    let said = writeln!(out, "{text}").and_then(|()| out.flush());
    said.map_err(|error| StartError(format!("standard output: {error}")))
}
