//! Fakes: standing a peer up from a contract, taking it down, and which there are.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    ContractSource, Plant, PlantError, Principal, Purpose, Sourced, Target,
    fake_limits::{command, warning},
    gate::Action,
    nearest, while_wanted,
};
use crate::{
    contract::Effect,
    fake::{FakeLine, Over, Plan, PlanFault, StartFault, Taken, Withdrawn},
    link::now_ms,
    wire::{PeerName, Value},
};

/// A fake somebody wants.
#[derive(Clone, Debug)]
pub struct StartFake {
    /// Its name; one is made up otherwise.
    pub name: Option<String>,
    /// What it is made of.
    pub source: ContractSource,
    /// What it says in particular.
    pub script: Option<Value>,
}

/// A fake that was started.
#[derive(Clone, Debug)]
pub struct FakeStarted {
    /// It.
    pub fake: FakeLine,
    /// Which of its namespaces are components.
    pub components: Vec<String>,
    /// How many events it emits by itself.
    pub emits: usize,
    /// How many collections of rows it holds.
    pub collections: usize,
    /// How many methods code of its script answers.
    pub handlers: usize,
    /// What of it may surprise.
    pub warnings: Vec<String>,
}

/// The fakes of this bridge.
#[derive(Clone, Debug)]
pub struct FakeList {
    /// Those there are, by name.
    pub fakes: Vec<FakeLine>,
    /// Those that left their name to another peer, newest first.
    pub withdrawn: Vec<Withdrawn>,
}

impl Plant {
    /// Whether code that the scripts of fakes bring along is run here.
    pub fn runs_code(&self) -> bool {
        self.fakes().run_code()
    }

    /// Stands a fake up. Everything about it is checked before it joins; once `stop` is cancelled it is not there.
    pub async fn start_fake(
        &self,
        principal: &Principal,
        request: StartFake,
        stop: &CancellationToken,
    ) -> Result<FakeStarted, PlantError> {
        let StartFake { name, source, script } = request;
        let name = self.fake_name(name)?;
        self.permit(principal, &action(&name, "start"))?;
        while_wanted(stop, async {
            let sourced = self.contract(source, Purpose::Serve).await?;
            let (label, mut warnings) = (sourced.label, sourced.left_out);
            for what in &mut warnings {
                *what = format!("not served: {what}");
            }
            let described = sourced.description;
            let mut contract = sourced.contract;
            let commanded = described.as_ref().is_some_and(|said| command(&mut contract, said));
            warnings.extend(warning(&contract, described.is_some()));
            // The document does not say what requires authority: one that says more is not shared by what is written.
            let contract = if commanded { Arc::new(contract) } else { self.fakes().share(&sourced.document, contract) };
            let may_run = self.runs_code();
            let plan = Plan::new(contract, script.as_ref(), now_ms(), may_run);
            let plan = plan.map_err(|fault| unplayable(label, fault))?;
            warnings.extend(plan.warnings().iter().cloned());
            warnings.extend(self.fakes().terms(&name));
            let is_component = |namespace: &&crate::contract::Namespace| namespace.component.is_some();
            let components = plan.namespaces().filter(is_component).map(|namespace| namespace.name.clone()).collect();
            let (emits, collections, handlers) = (plan.emits(), plan.collections(), plan.handlers());
            let fake = self.fakes().start(name.clone(), plan).await.map_err(|fault| not_started(self, &name, fault))?;
            tracing::info!(client = principal.client, fake = %name, "a fake stands");
            Ok(FakeStarted { fake, components, emits, collections, handlers, warnings })
        })
        .await
    }

    /// Takes a fake off the network, and waits until it is gone.
    pub async fn stop_fake(&self, principal: &Principal, name: &str) -> Result<FakeLine, PlantError> {
        let unknown = |names: Vec<String>| PlantError::UnknownFake {
            fake: name.to_owned(),
            alternatives: nearest(name, names.iter().map(String::as_str)),
        };
        let Ok(peer) = PeerName::configured(name) else {
            let (lines, _) = self.fakes().list();
            return Err(unknown(lines.iter().map(|line| line.name.to_string()).collect()));
        };
        self.permit(principal, &action(&peer, "stop"))?;
        let stopped = self.fakes().stop(name).await.map_err(unknown)?;
        tracing::info!(client = principal.client, fake = %name, "the fake was stopped");
        Ok(stopped)
    }

    /// The contract a fake of this bridge serves, rebuilt from what it says of itself; nobody else is asked.
    pub async fn fake_contract(&self, name: &str) -> Result<Sourced, PlantError> {
        if self.fake(name).is_none() {
            let lines = self.list_fakes().fakes;
            let alternatives = nearest(name, lines.iter().map(|line| line.name.as_str()));
            return Err(PlantError::UnknownFake { fake: name.to_owned(), alternatives });
        }
        self.contract(ContractSource::Peer { peer: name.to_owned(), wait: Duration::ZERO }, Purpose::Compare).await
    }

    /// What comes when a fake that stands now is off the network, however that comes about.
    pub fn fake_over(&self, name: &PeerName) -> Result<impl Future<Output = Over> + Send + use<>, PlantError> {
        self.fakes()
            .over(name)
            .ok_or_else(|| PlantError::UnknownFake { fake: name.to_string(), alternatives: Vec::new() })
    }

    /// The fakes of this bridge.
    pub fn list_fakes(&self) -> FakeList {
        let (fakes, withdrawn) = self.fakes().list();
        FakeList { fakes, withdrawn }
    }

    /// Takes every fake off the network; none is started any more.
    pub async fn stop_all_fakes(&self) {
        self.fakes().stop_all().await;
    }

    fn fake_name(&self, given: Option<String>) -> Result<PeerName, PlantError> {
        let text = given.unwrap_or_else(|| self.fakes().fresh_name());
        PeerName::configured(&text).map_err(|error| unusable_name(error.to_string()))
    }
}

/// Standing a peer up, or taking it down, changes what the plant's peers meet.
fn action(name: &PeerName, method: &str) -> Action {
    let target = Target { peer: name.clone(), namespace: "fake".into(), method: method.into() };
    Action { target, semantics: None, effect: Effect::Operate }
}

fn unplayable(contract: String, fault: PlanFault) -> PlantError {
    match fault {
        PlanFault::NothingToServe => PlantError::InvalidContract {
            contract,
            problems: vec![crate::contract::Problem { pointer: "/namespaces".into(), what: fault.to_string() }],
        },
        PlanFault::Code(uses) => PlantError::ExecDisabled { uses },
        PlanFault::Script(problems) => PlantError::InvalidScript { problems },
    }
}

fn not_started(plant: &Plant, name: &PeerName, fault: StartFault) -> PlantError {
    match fault {
        StartFault::NameTaken(who) => PlantError::NameInUse { name: name.clone(), who },
        StartFault::Name(why) => unusable_name(why),
        StartFault::TooMany => PlantError::LimitReached { what: "fakes", limit: crate::fake::MOST },
        StartFault::Code(problems) => PlantError::InvalidScript { problems },
        StartFault::TooManyRunCode => {
            PlantError::LimitReached { what: "fakes that run code", limit: crate::fake::code::MOST_WITH_CODE }
        }
        StartFault::Offline(_) => plant.unavailable(&plant.node().network()),
        StartFault::Failed(why) => PlantError::FakeFailed { name: name.clone(), why, lasts: false },
        StartFault::Barred(why) => PlantError::FakeFailed { name: name.clone(), why, lasts: true },
        StartFault::Closing => PlantError::Unwanted,
    }
}

fn unusable_name(problem: String) -> PlantError {
    let expected = "1 to 128 units without spaces, control characters, #, + or /".into();
    PlantError::BadArgument { argument: "/name".into(), expected, problem }
}

/// Why the name is taken, in a sentence.
pub(super) fn taken(name: &PeerName, who: Taken) -> String {
    match who {
        Taken::Listed => format!(
            "the key file of this bridge lists '{name}' as a peer: the device of that name could not come while a fake has it"
        ),
        Taken::Bridge => format!("'{name}' is the name of this bridge itself"),
        Taken::Fake => format!("'{name}' is already being served here. Stop it first, or use another name."),
        Taken::Peer => format!(
            "'{name}' is already a peer on this network. Standing a fake up under that name would take its place; \
             choose another."
        ),
    }
}
