//! `plantbridge check`: whether a live peer still satisfies a contract. Exit code 1 if something breaks a caller.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

use super::{
    contract_file,
    ending::Failure,
    errand::{Errand, ErrandArgs},
};
use crate::{
    contract::compat::CompatibilityVerdict,
    mcp::{text, tools},
    plant::{Checked, ContractSource, said_of_a_fake},
};

#[derive(Clone, Debug, Args)]
pub(super) struct CheckArgs {
    /// Which peer.
    #[arg(long, value_name = "PEER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    peer: String,
    /// The file of the contract that callers were built against.
    #[arg(long, value_name = "FILE")]
    against: PathBuf,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// Asks the peer, afresh, and tells what was found. What it does not describe is told, and is no pass; it is no failure either.
pub(super) async fn run(errand: &Errand, args: CheckArgs) -> Result<(), Failure> {
    let file = args.against.display().to_string();
    let source = ContractSource::Inline(contract_file::document(&args.against)?);
    let checking = errand.plant.check_peer(&args.peer, source, errand.wait);
    let checked =
        errand.look(async { checking.await.map_err(|error| contract_file::named(error, &args.against)) }).await?;
    if let Some(unsaid) = checked.silent {
        return Err(unsaid.of(&checked.peer).into());
    }
    if errand.out.json {
        errand.out.say(&text::pretty(&answer(&checked, &file)))?;
    } else {
        errand.out.say(&written(&checked, &file))?;
    }
    if checked.report.breaking() > 0 { Err(Failure::Finding) } else { Ok(()) }
}

fn written(checked: &Checked, file: &str) -> String {
    let (report, peer) = (&checked.report, &checked.peer);
    let served = if report.checked.is_empty() { "nothing".into() } else { report.checked.join(", ") };
    let last = match report.verdict() {
        CompatibilityVerdict::Incompatible => {
            let breaking = report.breaking();
            format!("{breaking} breaking change{} between {file} and {peer}", if breaking == 1 { "" } else { "s" })
        }
        CompatibilityVerdict::Compatible => format!("{peer} serves {served} compatibly with {file}"),
        CompatibilityVerdict::Unchecked => {
            format!("nothing breaking was found between {file} and {peer}, but not everything could be checked")
        }
    };
    let fake = checked.fake.then(|| said_of_a_fake(peer));
    let found = report.lines().into_iter().chain(checked.unread.iter().cloned()).chain(fake);
    let lines = found.map(|line| format!("  {}", text::one_line(&line)));
    lines.chain([text::one_line(&last)]).collect::<Vec<_>>().join("\n")
}

fn answer(checked: &Checked, file: &str) -> Json {
    let report = &checked.report;
    let notes: Vec<&String> = report.notes.iter().chain(&checked.unread).collect();
    let problems: Vec<Json> = report.problems.iter().map(tools::breaking_shown).collect();
    let unchecked: Vec<String> = report.unchecked.iter().map(tools::unchecked_words).collect();
    json!({
        "peer": checked.peer.as_str(),
        "fake": checked.fake,
        "contract": file,
        "compatible": report.verdict() == CompatibilityVerdict::Compatible,
        "verdict": report.verdict().as_str(),
        "breaking": report.breaking(),
        "checked": report.checked,
        "undescribed": report.undescribed,
        "missing": report.missing,
        "problems": problems,
        "unchecked": unchecked,
        "notes": notes,
    })
}
