//! The start of a script: its text, what runs it, what it is told, its process, its record.

use uuid::Uuid;

use super::{
    Input, Plan, ScriptFault, ScriptName, Scripts, beside, environment, host::Shared, record::Record,
    results::StartedScript, run::Run,
};
use crate::{
    link::now_ms,
    wire::{
        PeerName, instant,
        signing::{Claims, Secret},
    },
};

impl Scripts {
    /// Starts a script; gives it once its process runs. A caller that stops waiting before leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub async fn start(&self, name: &ScriptName) -> Result<StartedScript, ScriptFault> {
        let shared = &*self.shared;
        let reserved = shared.reserve(name)?;
        let now = now_ms();
        let id = run_id(now);
        let (store, wanted, named) = (shared.store.clone(), name.clone(), id.clone());
        let (text, language) = beside(move || store.pin(&wanted, &named)).await?;
        // Absolute, because a relative program would be looked for from there.
        let directory = std::path::absolute(shared.store.path()).unwrap_or_else(|_| shared.store.path().to_owned());
        let runner = shared.toolchain.runner(language, &directory).await?;
        let file = text.file.clone();
        let (wanted, named) = (name.clone(), id.clone());
        let record = beside(move || Record::begin(text, &wanted, &named)).await?;
        let peer = format!("{name}@{}", shared.config.bridge);
        let token = shared.token(&peer, &id, now);
        let mut arguments = runner.flags;
        arguments.push(file);
        let token_text = token.as_ref().map(Secret::expose);
        let environment = environment::of_script(&shared.config.inherited, &shared.config.place, &peer, token_text);
        let limits = shared.config.bounds.limits(runner.reserves);
        let (program, input) = (runner.program, Input::Closed);
        let plan = Plan { program, arguments, environment, directory, scratch: false, input, limits };
        let started = shared.config.supervisor.start(&plan).await;
        let process = started.map_err(|fault| ScriptFault::Start { name: name.to_string(), fault })?;
        let (run, reading) = Run::follow(id.clone(), process, record);
        let pid = run.pid;
        reserved.fill(run);
        tokio::spawn(reading);
        tracing::info!(script = %name, run = %id, pid, "a script runs");
        Ok(StartedScript { run: id, pid, by: runner.label, peer, credential: credential(token.is_some()).to_owned() })
    }
}

impl Shared {
    /// A credential for this run, if there is something to mint it with. The bridge's own never reaches a script.
    fn token(&self, peer: &str, id: &str, now: i64) -> Option<Secret> {
        let minter = self.config.minter.as_ref()?;
        let subject = PeerName::configured(peer).ok()?;
        let issued_ms = u64::try_from(now).ok()?;
        let id = format!("script-{id}");
        let claims = Claims {
            id: &id,
            subject: &subject,
            roles: &["ai-program"],
            generation: 2,
            issued_ms,
            expires_ms: issued_ms.saturating_add(GOOD_FOR_MS),
        };
        Some(minter.mint(&claims))
    }
}

/// Names a run: the moment, so that runs sort by it, and a little chance.
fn run_id(now: i64) -> String {
    let moment: String = instant::format(now).chars().filter(char::is_ascii_digit).take(17).collect();
    let chance: String = Uuid::new_v4().simple().to_string().chars().take(4).collect();
    format!("{moment:0<17}-{chance}")
}

const fn credential(minted: bool) -> &'static str {
    if minted {
        "a token of its own, good for four hours at hubs that take this bridge's word"
    } else {
        "none: the bridge's own account and token are never handed on, and its auth file has no `derive` secret"
    }
}

/// How long a credential is good, in milliseconds (wire.md 8.5).
const GOOD_FOR_MS: u64 = 4 * 60 * 60 * 1000;
