//! `plantbridge node`: a node that named peers may script, without MCP.

use clap::Args;

use super::{
    StartError,
    audit::{self, AuditArgs},
    config::OperatorArgs,
    environment::Environment,
    log::LogArgs,
    mcp,
    network::{Behaviour, Network, NetworkArgs},
    operator::Operator,
    scripts::ScriptArgs,
};

#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    scripts: ScriptArgs,
    #[command(flatten)]
    pub(super) operator: OperatorArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

const NOWHERE: &str =
    "give it --broker <url> of a plant's MQTT 5 broker: only frames that are signed on one say for sure who scripts";

/// Checks what was typed.
pub(super) fn read(mut args: NodeArgs, environment: Environment) -> Result<Network, StartError> {
    if args.scripts.scripts.is_none() || args.scripts.scriptable_by.is_empty() {
        let text = "node needs --scripts <dir> and at least one --scriptable-by <peer>: it is there to be scripted";
        return Err(StartError(text.into()));
    }
    if !args.network.is_placed(&environment) {
        return Err(StartError(NOWHERE.into()));
    }
    let (read_only, secrets) = (environment.read_only, environment.secrets);
    let behaviour =
        Behaviour { role: "node", read_only, secrets, contracts: None, scripts: args.scripts, audit: args.audit };
    Network::new(args.network, behaviour)
}

/// Serves until the system asks it to end.
pub(super) async fn serve(mut network: Network, mut operator: Operator) -> Result<(), StartError> {
    network.audit.open()?;
    network.tell().await;
    let places = network.places().to_owned();
    let (plant, node, running) = network.join();
    tracing::info!("plantbridge node: {} on {places}", plant.name());
    operator.attends(&plant, &node, None);
    operator.until_asked().await;
    tracing::info!("asked to end");
    operator.is_over();
    mcp::end_scripts(&plant).await;
    mcp::leave(&node, running).await;
    audit::close(&plant).await;
    Ok(())
}
