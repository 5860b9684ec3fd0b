//! `--audit`, and `plantbridge audit`: what could change the plant, written down, checked and shown.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use tokio::time::timeout;

use super::{
    StartError,
    ending::Failure,
    out::{Out, shown, write_out},
};
use crate::{
    node::{Exposed, Service},
    plant::{
        Plant,
        audit::{self, Audit, Hash, Keep, Shown, Unusable, Unverified, show, verify},
    },
    wire::instant,
};

/// How long the last lines may take.
const LAST: Duration = Duration::from_millis(1_500);

/// Flags of what writes a trail.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct AuditArgs {
    /// A directory to write down in whatever could change the plant or was refused, each line bound to the one before by its hash.
    /// While it cannot be written, nothing that could change the plant is done. One process writes to it.
    #[arg(long, value_name = "DIR")]
    audit: Option<PathBuf>,
    /// For how many days after its own a file of the trail is kept.
    #[arg(long, value_name = "DAYS", requires = "audit", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    audit_days: u32,
    /// How many bytes the files of the trail may have together; the oldest go first.
    #[arg(long, value_name = "BYTES", requires = "audit", default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 44))]
    audit_bytes: u64,
    /// The trail, once it is opened.
    #[arg(skip)]
    pub(super) trail: Option<Audit>,
}

impl AuditArgs {
    /// Opens the trail, if there is to be one. Without it nothing starts.
    pub(super) fn open(&mut self) -> Result<(), StartError> {
        let Some(path) = &self.audit else { return Ok(()) };
        let keep = Keep { days: self.audit_days, bytes: self.audit_bytes };
        let opened = Audit::open(path, keep);
        self.trail = Some(opened.map_err(|why| StartError(format!("--audit {}: {why}", path.display())))?);
        Ok(())
    }
}

/// What is exposed to other peers, written down if there is a trail.
pub(super) fn served(
    trail: Option<&Audit>,
    (exposed, service): (Exposed, Arc<dyn Service>),
) -> (Exposed, Arc<dyn Service>) {
    let Some(trail) = trail else { return (exposed, service) };
    let service = audit::served(trail.clone(), &exposed, service);
    (exposed, service)
}

/// Writes the last lines, within a bound.
pub(super) async fn close(plant: &Plant) {
    let Some(audit) = plant.audit() else { return };
    if timeout(LAST, audit.close()).await.is_err() {
        tracing::error!("the last lines of the audit trail were not written in time");
    }
}

#[derive(Clone, Debug, Args)]
pub(super) struct TrailArgs {
    #[command(subcommand)]
    work: Work,
}

#[derive(Clone, Debug, Subcommand)]
enum Work {
    /// Makes the chain again, line by line, and names the first line that breaks it. Exit code 1 if one does. What was cut off at
    /// the end cannot be told, unless --head says which line was there.
    Verify(VerifyArgs),
    /// Prints a row for each call and for whatever else the trail tells, oldest first, with a tab between cells.
    Show(ShowArgs),
}

#[derive(Clone, Debug, Args)]
struct VerifyArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// A hash that an earlier check printed: its line must be there still.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    head: Option<Hash>,
}

#[derive(Clone, Debug, Args)]
struct ShowArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Only from this time on: 2026-08-07 or 2026-08-07T18:22:10Z.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<i64>,
    /// Only before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<i64>,
    /// Only of this client.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Only what addressed this peer.
    #[arg(long, value_name = "PEER")]
    peer: Option<String>,
    /// Only calls of this tool.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only what did not end well.
    #[arg(long)]
    refused: bool,
    /// Prints the lines as they are, each of a call by itself.
    #[arg(long)]
    json: bool,
}

fn hash(text: &str) -> Result<Hash, String> {
    Hash::parse(text).ok_or_else(|| "a hash has 64 hexadecimal digits, in small letters".into())
}

fn moment(text: &str) -> Result<i64, String> {
    let day = format!("{text}T00:00:00.000Z");
    let ms = instant::parse(text).or_else(|| instant::parse(&day));
    ms.ok_or_else(|| "write 2026-08-07, or 2026-08-07T18:22:10Z".into())
}

impl From<Unusable> for Failure {
    fn from(why: Unusable) -> Self {
        Self::Broken(why.to_string())
    }
}

/// Does what was asked for.
pub(super) fn run(args: TrailArgs) -> Result<(), Failure> {
    match args.work {
        Work::Verify(args) => check(&args),
        Work::Show(args) => list(&args),
    }
}

fn check(args: &VerifyArgs) -> Result<(), Failure> {
    let out = Out::new(false);
    let verified = match verify(&args.path, args.head) {
        Ok(verified) => verified,
        Err(Unverified::Unreadable(why)) => return Err(why.into()),
        Err(finding) => {
            out.say(&format!("broken\t{}", shown(&finding.to_string())))?;
            return Err(Failure::Finding);
        }
    };
    for note in &verified.notes {
        out.note(&format!("note: {note}"));
    }
    let end = |end: &Option<(u64, String)>| end.as_ref().map(|(seq, at)| format!("{seq} ({at})")).unwrap_or_default();
    let head = verified.head.map(|head| head.to_string()).unwrap_or_default();
    let (files, lines) = (verified.files, verified.lines);
    out.say(&format!("ok\t{lines} lines in {files} files, {} to {}", end(&verified.first), end(&verified.last)))?;
    out.say(&format!("head\t{head}"))?;
    out.note("nobody can tell from a trail alone whether its end was cut off: note the head elsewhere, and give it to --head later");
    Ok(())
}

fn list(args: &ShowArgs) -> Result<(), Failure> {
    let out = Out::new(args.json);
    let unread = show(&args.path, !args.json, |line| {
        if !args.wants(&line) {
            return Ok(());
        }
        if args.json { write_out(&format!("{}\n", line.line)) } else { out.say(&row(&line)) }
    })?;
    if unread > 0 {
        out.note(&format!("{unread} lines cannot be read; plantbridge audit verify says where the first is"));
    }
    Ok(())
}

impl ShowArgs {
    fn wants(&self, line: &Shown) -> bool {
        let at = instant::parse(line.text("at")).unwrap_or_default();
        let is = |wanted: &Option<String>, key: &str| wanted.as_ref().is_none_or(|wanted| line.text(key) == wanted);
        self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
            && is(&self.client, "client")
            && is(&self.peer, "peer")
            && is(&self.tool, "tool")
            && (!self.refused || ended_badly(line))
    }
}

fn ended_badly(line: &Shown) -> bool {
    match line.text("event") {
        "refused" | "turned_away" => true,
        "ended" => line.text("outcome") != "ok",
        _ => false,
    }
}

/// When, who, what of the plant, and how it ended. What is no call has its own words there.
fn row(line: &Shown) -> String {
    let what = ["peer", "namespace", "method", "name"].map(|key| line.text(key));
    let what: Vec<&str> = what.into_iter().filter(|part| !part.is_empty()).collect();
    let how = match line.text("event") {
        "ended" | "refused" => [line.text("outcome"), line.text("code")].join(" ").trim_end().to_owned(),
        "begun" => "no end".into(),
        event => [event, &others(line)].join(" "),
    };
    let took = line.fields.get("us").map(|us| format!("{us} us")).unwrap_or_default();
    let cells = [line.text("at"), line.text("client"), line.text("tool"), &what.join(" "), &how, &took];
    cells.map(shown).join("\t")
}

/// Everything else it says.
fn others(line: &Shown) -> String {
    let told = ["seq", "at", "prev", "event"];
    let rest = line.fields.iter().filter(|(key, _)| !told.contains(&key.as_str()));
    rest.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_or_instants() {
        assert_eq!(moment("1970-01-02"), Ok(86_400_000));
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(1_000));
        assert!(moment("yesterday").is_err() && moment("1970-13-01").is_err());
    }
}
