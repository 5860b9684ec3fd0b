//! `plantbridge demo`: a broker, a bakery and a tour, for whoever has no plant to look at. Here standard output is for
//! people; the protocol runs in memory.

use std::{
    io::{self, Write},
    time::Duration,
};

use super::{
    StartError,
    args::DemoArgs,
    mcp,
    network::{Behaviour, Network, TlsArgs},
    stop,
};
use crate::demo::{Demo, snippet, tour};

/// Tours the bakery, and stays up to be attached to unless it is to be done once.
pub(super) async fn run(args: DemoArgs) -> Result<(), StartError> {
    let demo = Demo::start().await.map_err(StartError::new)?;
    let url = demo.url().to_owned();
    let toured = visit(&url).await;
    if toured.is_ok() && !args.once {
        invite(&url)?;
        stop::asked().await;
    }
    demo.stop().await;
    toured
}

/// One bridge, for the length of the tour.
async fn visit(url: &str) -> Result<(), StartError> {
    let behaviour = Behaviour { read_only: false, timeout: Duration::from_secs(10) };
    let network = Network::new(url, None, "msgrpc/v2", None, TlsArgs::default(), &behaviour)?;
    let (plant, node, running) = network.join();
    let toured = tour::run(&mcp::front(plant), &mut io::stdout()).await.map_err(StartError::new);
    mcp::leave(&node, running).await;
    toured
}

/// Says how a client of one's own is attached.
fn invite(url: &str) -> Result<(), StartError> {
    let binary = std::env::current_exe().map_or_else(|_| "plantbridge".into(), |path| path.display().to_string());
    let mut out = io::stdout();
    writeln!(out, "\nThe bakery stays open at {url} until Ctrl-C. To attach a client of your own:\n")
        .and_then(|()| writeln!(out, "{}", snippet(&binary, url)))
        .map_err(|error| StartError(format!("the invitation cannot be printed: {error}")))
}
