//! Being in control of a component (semantics.md 10.3): taken for a client, renewed while it is held, and given back when
//! the client gives it up or goes, and when we end. What is lost is never taken again by itself.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Plant, PlantError, Principal, Shared, Target,
    call::find_namespace,
    gate::Action,
    leases::{Authority, Component, GivenUp, Keeper, KnownAuthority, MOST, Unasked},
    read_state::Snapshot,
    while_wanted,
};
use crate::{
    contract::Effect,
    node::{Call, CallError},
    wire::{Map, PeerName, Value},
};

/// How long giving back may take when nobody waits for it.
const GIVE_BACK: Duration = Duration::from_secs(1);
/// How long a host is asked who is in control, where that is shown beside something else.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest pause between two attempts to renew.
const PAUSE: Duration = Duration::from_millis(250);

/// Control somebody wants.
#[derive(Clone, Debug)]
pub struct TakeControl {
    /// Of whom.
    pub peer: String,
    /// Of which component.
    pub namespace: String,
    /// How long it lasts when nobody renews it.
    pub life: Duration,
    /// Whether to take it from whoever has it.
    pub take: bool,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
    /// Cancelled when nobody wants it any more: then it is not asked for.
    pub stop: CancellationToken,
}

/// Control that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Of whom.
    pub peer: PeerName,
    /// What the host says of it.
    pub authority: Authority,
    /// Whether this client was in control already.
    pub renewed: bool,
}

/// What giving up came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// Of whom.
    pub peer: PeerName,
    /// Whether we were in control until now, in the host's own word.
    pub held: bool,
    /// How it had been lost before, if it had.
    pub lost: Option<String>,
}

impl Plant {
    /// Takes control of a component for a client, and keeps it.
    pub async fn take_control(&self, principal: &Principal, request: TakeControl) -> Result<Control, PlantError> {
        let found = self.authority_of(&request.peer, &request.namespace, "$acquire", request.wait);
        let (component, target) = while_wanted(&request.stop, found).await?;
        self.permit_control(principal, &target)?;
        let client = principal.client.as_str();
        self.shared.leases.ask(&component, client, request.take).map_err(|why| match why {
            Unasked::Other(holder) => self.other_client(&target, &holder),
            Unasked::Full => PlantError::LimitReached { what: "components under control", limit: MOST },
        })?;
        let sent = Instant::now();
        let acquired = self.acquire(&component, request.life, request.take, self.settings().call_timeout).await;
        let authority = match acquired {
            Ok(authority) => authority,
            Err(error) => {
                let denied = matches!(&error, CallError::Refused(error) if error.code == "NotInControl");
                self.shared.leases.refused(&component, client, denied.then(|| error.to_string()));
                return Err(self.call_failed(principal, target, (false, false), None, error));
            }
        };
        let keeper = |number| {
            let kept = keep(Arc::downgrade(&self.shared), component.clone(), number, request.life);
            Keeper(tokio::spawn(kept).abort_handle())
        };
        let until = sent + request.life;
        let renewed = self.shared.leases.granted(&component, client, authority.clone(), until, keeper);
        Ok(Control { peer: component.0, authority, renewed })
    }

    /// Gives control up.
    pub async fn release_control(
        &self,
        principal: &Principal,
        peer: &str,
        namespace: &str,
        wait: Duration,
    ) -> Result<Released, PlantError> {
        let (component, target) = self.authority_of(peer, namespace, "$release", wait).await?;
        self.permit_control(principal, &target)?;
        let given_up = self.shared.leases.give_up(&component, &principal.client);
        let given_up = given_up.map_err(|holder| self.other_client(&target, &holder))?;
        let call = authority_call(&component, "$release", Vec::new(), self.settings().call_timeout);
        let said = match self.node().call(call).await {
            Ok(answer) => answer.value,
            Err(error) => return Err(self.call_failed(principal, target, (false, false), None, error)),
        };
        let lost = if let GivenUp::Lost(why) = given_up { Some(why) } else { None };
        let held = said.as_ref().and_then(Value::as_str).is_some_and(|said| said == "ok");
        Ok(Released { peer: component.0, held, lost })
    }

    /// A client is gone: what it was in control of is given back, within a bound.
    pub async fn client_gone(&self, client: &str) {
        self.give_back(self.shared.leases.take_out(Some(client))).await;
    }

    /// Everything under control is given back, within a bound. To be done before the node leaves.
    pub async fn give_back_all(&self) {
        self.give_back(self.shared.leases.take_out(None)).await;
    }

    /// What is known here of who is in control of a component; nobody is asked.
    pub fn authority(&self, peer: &PeerName, namespace: &str) -> Option<KnownAuthority> {
        self.shared.leases.known(&(peer.clone(), namespace.to_owned()))
    }

    /// Who is in control of a component, by what its host says now; what was known before, if it stays silent.
    pub async fn authority_now(&self, peer: &PeerName, namespace: &str) -> Option<KnownAuthority> {
        let known = self.authority(peer, namespace);
        if known.as_ref().is_some_and(|known| known.client.is_some()) {
            return known;
        }
        // Why it does not say is no matter here: the look that fails says it to whoever takes it.
        let _ = self.look(peer, namespace, LOOK).await;
        self.authority(peer, namespace)
    }

    /// A snapshot came: it says who is in control.
    pub(super) fn saw(&self, namespace: &str, snapshot: &Snapshot) {
        if let Some(authority) = snapshot.authority.as_ref().and_then(Authority::parse) {
            self.shared.leases.saw(&(snapshot.peer.clone(), namespace.to_owned()), authority, self.name());
        }
    }

    /// Refuses what would act on the control of another client.
    pub(super) fn not_on_anothers_control(&self, principal: &Principal, target: &Target) -> Result<(), PlantError> {
        let component = (target.peer.clone(), target.namespace.clone());
        match self.shared.leases.other(&component, &principal.client) {
            Some(holder) => Err(self.other_client(target, &holder)),
            None => Ok(()),
        }
    }

    /// A call that ended badly. If it is because we are not in control, that is noticed, and who is in control is said as
    /// far as it is known.
    pub(super) fn call_failed(
        &self,
        principal: &Principal,
        target: Target,
        (checked, observes): (bool, bool),
        idempotency_key: Option<String>,
        error: CallError,
    ) -> PlantError {
        let refusal = match &error {
            CallError::Refused(refusal) if refusal.code == "NotInControl" => refusal.clone(),
            _ => return PlantError::Call { target, checked, observes, idempotency_key, error },
        };
        let component = (target.peer.clone(), target.namespace.clone());
        self.shared.leases.denied(&component, &refusal.message);
        let holder = self.shared.leases.holder(&component, self.name(), &refusal.message);
        let lost = self.shared.leases.how_lost(&component, &principal.client);
        PlantError::NotInControl { target, holder, other_client: None, lost, refusal: Some(refusal) }
    }

    fn other_client(&self, target: &Target, client: &str) -> PlantError {
        PlantError::NotInControl {
            target: target.clone(),
            holder: Some(self.name().to_string()),
            other_client: Some(client.into()),
            lost: None,
            refusal: None,
        }
    }

    /// The component, if the peer is there and does not describe it as something else.
    async fn authority_of(
        &self,
        peer: &str,
        namespace: &str,
        method: &str,
        wait: Duration,
    ) -> Result<(Component, Target), PlantError> {
        let (peer, _) = self.reach(peer, wait).await?;
        if let Some(description) = self.description_if_any(&peer).await?
            && find_namespace(&description, &peer, namespace)?.component.is_none()
        {
            return Err(self.not_a_component(peer, namespace.into()).await);
        }
        let target = Target { peer: peer.clone(), namespace: namespace.into(), method: method.into() };
        Ok(((peer, namespace.into()), target))
    }

    fn permit_control(&self, principal: &Principal, target: &Target) -> Result<(), PlantError> {
        self.permit(principal, &Action { target: target.clone(), semantics: None, effect: Effect::Operate })
    }

    /// Asks for the lease. An answer that does not name us is a refusal in other words.
    async fn acquire(
        &self,
        component: &Component,
        life: Duration,
        take: bool,
        timeout: Duration,
    ) -> Result<Authority, CallError> {
        let mut args = vec![Value::Int(i64::try_from(life.as_millis()).unwrap_or(i64::MAX))];
        if take {
            let mut options = Map::new();
            options.insert("take", true);
            args.push(options.into());
        }
        let answer = self.node().call(authority_call(component, "$acquire", args, timeout)).await?;
        let authority = answer.value.as_ref().and_then(Authority::parse);
        authority.filter(|authority| authority.holder.as_deref() == Some(self.name().as_str())).ok_or_else(|| {
            let message = "the answer to $acquire does not say that this bridge is in control".into();
            CallError::Refused(crate::wire::RemoteError { code: "NotInControl".into(), name: String::new(), message })
        })
    }

    async fn give_back(&self, components: Vec<Component>) {
        let mut giving = JoinSet::new();
        for component in components {
            let plant = self.clone();
            giving.spawn(async move {
                let (peer, namespace) = &component;
                let call = authority_call(&component, "$release", Vec::new(), GIVE_BACK);
                match plant.node().call(call).await {
                    Ok(_) => tracing::info!(%peer, namespace, "control is given back"),
                    Err(error) => {
                        tracing::warn!(%peer, namespace, %error, "control could not be given back; it lapses");
                    }
                }
            });
        }
        let given = async { while giving.join_next().await.is_some() {} };
        if timeout(GIVE_BACK, given).await.is_err() {
            tracing::warn!("control was not given back in time; it lapses");
        }
    }
}

fn authority_call((peer, namespace): &Component, method: &str, args: Vec<Value>, timeout: Duration) -> Call {
    Call {
        peer: peer.clone(),
        namespace: namespace.clone(),
        method: method.into(),
        args,
        timeout: Some(timeout),
        idempotency_key: None,
    }
}

/// Renews a lease at half its life, for as long as it is held. What cannot be renewed in time, or was in other hands, is
/// lost.
async fn keep(shared: Weak<Shared>, component: Component, number: u64, life: Duration) {
    let mut pause = life / 2;
    loop {
        sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let plant = Plant { shared };
        let leases = &plant.shared.leases;
        let Some(left) = leases.left(&component, number) else { return };
        if left.is_zero() {
            return leases.lost(&component, number, "it could not be renewed in time");
        }
        let sent = Instant::now();
        let patience = left.min(plant.settings().call_timeout);
        match plant.acquire(&component, life, false, patience).await {
            Ok(authority) if leases.renewed(&component, number, &authority, sent + life) => pause = life / 2,
            Ok(_) => {
                // By a task of its own: what is lost ends its keeper, which is this one.
                let (plant, given) = (plant.clone(), vec![component.clone()]);
                tokio::spawn(async move { plant.give_back(given).await });
                return leases.lost(&component, number, "it lapsed or was in other hands before it was renewed");
            }
            Err(CallError::Refused(error)) if error.code == "NotInControl" => {
                return leases.lost(&component, number, &error.message);
            }
            Err(error) => {
                tracing::warn!(peer = %component.0, namespace = component.1, %error, "control was not renewed yet");
                let left = leases.left(&component, number).unwrap_or_default();
                pause = (left / 4).max(PAUSE).min(left);
            }
        }
    }
}
