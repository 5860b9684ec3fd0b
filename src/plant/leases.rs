//! The components this bridge is in control of, and for which client; and who was last seen to be in control elsewhere.
//! The peers know only the bridge: that a client does not act on the control of another is kept here.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};

use crate::wire::{PeerName, Value};

/// How many components may be under control at once.
pub(super) const MOST: usize = 64;
/// Of how many components it is remembered who was last seen in control.
const SEEN: usize = 256;
/// How long a holder that was seen is named in a refusal: as long as a lease lasts that names no time.
const FRESH: Duration = Duration::from_mins(1);

/// A component of a peer.
pub(super) type Component = (PeerName, String);

/// Who is in control of a component, in the words of its host (semantics.md 10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The peer in control, if any is.
    pub holder: Option<String>,
    /// When that ends, in milliseconds since the Unix epoch, by the clock of the host.
    pub expires_ms: Option<i64>,
    /// Rises whenever it changes hands.
    pub generation: i64,
}

/// What is known here of who is in control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAuthority {
    /// What the host said last.
    pub authority: Authority,
    /// How long ago it said so.
    pub age: Duration,
    /// The client of this bridge that is in control, if one is.
    pub client: Option<String>,
}

/// The leases, and what was seen of others.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    leases: BTreeMap<Component, Lease>,
    seen: BTreeMap<Component, (Authority, Instant)>,
    next: u64,
}

#[derive(Debug)]
struct Lease {
    client: String,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    /// The peer was asked. With it, how control was lost before, if it was.
    Asking(Option<String>),
    Held(Held),
    /// It was held, and is not any more: why.
    Lost(String),
}

#[derive(Debug)]
struct Held {
    number: u64,
    authority: Authority,
    said: Instant,
    /// By our clock, counted from before the request left: it is not over earlier.
    until: Instant,
    _keeper: Keeper,
}

/// The task that renews a lease; it ends with the lease.
#[derive(Debug)]
pub(super) struct Keeper(pub(super) AbortHandle);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a client may not ask for control.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// Another client of this bridge is in control.
    Other(String),
    /// Too many components are under control.
    Full,
}

/// What a client had when it gave up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    Held,
    Lost(String),
    Nothing,
}

impl Authority {
    /// Reads what a host says of who is in control.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let generation = value.get("generation")?.as_i64()?;
        let holder = value.get("holder").and_then(Value::as_str).map(str::to_owned);
        let expires_ms = value.get("expiresAt").and_then(Value::as_i64);
        Some(Self { holder, expires_ms, generation })
    }
}

impl Leases {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is about to ask for control.
    pub(super) fn ask(&self, component: &Component, client: &str, take: bool) -> Result<(), Unasked> {
        let mut table = self.table();
        if let Some(lease) = table.leases.get(component)
            && !matches!(lease.standing, Standing::Lost(_))
        {
            let free = lease.client == client || take;
            return if free { Ok(()) } else { Err(Unasked::Other(lease.client.clone())) };
        }
        if table.leases.len() >= MOST && !table.leases.contains_key(component) {
            let lost = table.leases.iter().find(|(_, lease)| matches!(lease.standing, Standing::Lost(_)));
            let lost = lost.map(|(component, _)| component.clone()).ok_or(Unasked::Full)?;
            table.leases.remove(&lost);
        }
        // How its own control was lost is still to be told if it gets none now.
        let before = table.leases.remove(component).filter(|lease| lease.client == client);
        let lost = before.and_then(|lease| if let Standing::Lost(why) = lease.standing { Some(why) } else { None });
        table.leases.insert(component.clone(), Lease { client: client.into(), standing: Standing::Asking(lost) });
        Ok(())
    }

    /// It was not granted.
    pub(super) fn refused(&self, component: &Component, client: &str, why: Option<String>) {
        let mut table = self.table();
        let Some(lease) = table.leases.get_mut(component).filter(|lease| lease.client == client) else { return };
        match (&mut lease.standing, why) {
            (Standing::Asking(lost), _) => match lost.take() {
                Some(why) => lease.standing = Standing::Lost(why),
                None => drop(table.leases.remove(component)),
            },
            (Standing::Held(_), Some(why)) => lease.standing = Standing::Lost(why),
            _ => {}
        }
    }

    /// It was granted; `keeper` begins to keep it. True when this client had it already.
    pub(super) fn granted(
        &self,
        component: &Component,
        client: &str,
        authority: Authority,
        until: Instant,
        keeper: impl FnOnce(u64) -> Keeper,
    ) -> bool {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        let held = Held { number, authority, said: Instant::now(), until, _keeper: keeper(number) };
        let lease = Lease { client: client.into(), standing: Standing::Held(held) };
        let before = table.leases.insert(component.clone(), lease);
        before.is_some_and(|before| before.client == client && matches!(before.standing, Standing::Held(_)))
    }

    /// It was granted again. False when somebody else was in control meanwhile, or the lease is over.
    pub(super) fn renewed(&self, component: &Component, number: u64, authority: &Authority, until: Instant) -> bool {
        let mut table = self.table();
        let Some(held) = table.held(component, number) else { return false };
        if held.authority.generation != authority.generation || held.authority.holder != authority.holder {
            return false;
        }
        (held.authority, held.until, held.said) = (authority.clone(), until, Instant::now());
        true
    }

    /// How long it lasts if it is not renewed; `None` when it is over.
    pub(super) fn left(&self, component: &Component, number: u64) -> Option<Duration> {
        let now = Instant::now();
        self.table().held(component, number).map(|held| held.until.saturating_duration_since(now))
    }

    /// A lease is lost.
    pub(super) fn lost(&self, component: &Component, number: u64, why: &str) {
        let mut table = self.table();
        if table.held(component, number).is_some()
            && let Some(lease) = table.leases.get_mut(component)
        {
            lease.standing = Standing::Lost(why.into());
            tell_lost(component, &lease.client, why);
        }
    }

    /// The host says that we are not in control.
    pub(super) fn denied(&self, component: &Component, why: &str) {
        let number = match self.table().leases.get(component) {
            Some(Lease { standing: Standing::Held(held), .. }) => held.number,
            _ => return,
        };
        self.lost(component, number, why);
    }

    /// A client gives it up.
    ///
    /// # Errors
    ///
    /// The client that has it, if that is another.
    pub(super) fn give_up(&self, component: &Component, client: &str) -> Result<GivenUp, String> {
        let mut table = self.table();
        let Some(lease) = table.leases.get(component) else { return Ok(GivenUp::Nothing) };
        match &lease.standing {
            Standing::Lost(_) if lease.client != client => return Ok(GivenUp::Nothing),
            _ if lease.client != client => return Err(lease.client.clone()),
            _ => {}
        }
        Ok(match table.leases.remove(component).map(|lease| lease.standing) {
            Some(Standing::Held(_)) => GivenUp::Held,
            Some(Standing::Lost(why) | Standing::Asking(Some(why))) => GivenUp::Lost(why),
            Some(Standing::Asking(None)) | None => GivenUp::Nothing,
        })
    }

    /// Takes out what this client has, or everybody: what is to be given back to its host.
    pub(super) fn take_out(&self, client: Option<&str>) -> Vec<Component> {
        let mut table = self.table();
        let mut held = Vec::new();
        table.leases.retain(|component, lease| {
            let goes = client.is_none_or(|client| lease.client == client);
            if goes && matches!(lease.standing, Standing::Held(_)) {
                held.push(component.clone());
            }
            // What was asked for is given back by whoever asked, when the answer comes.
            !goes || matches!(lease.standing, Standing::Asking(_))
        });
        held
    }

    /// The other client of this bridge that is in control.
    pub(super) fn other(&self, component: &Component, client: &str) -> Option<String> {
        let table = self.table();
        let lease = table.leases.get(component).filter(|lease| lease.client != client)?;
        (!matches!(lease.standing, Standing::Lost(_))).then(|| lease.client.clone())
    }

    /// How this client lost control, if it did.
    pub(super) fn how_lost(&self, component: &Component, client: &str) -> Option<String> {
        match self.table().leases.get(component) {
            Some(Lease { client: owner, standing: Standing::Lost(why) }) if owner == client => Some(why.clone()),
            _ => None,
        }
    }

    /// A snapshot said who is in control.
    pub(super) fn saw(&self, component: &Component, authority: Authority, me: &PeerName) {
        let mut table = self.table();
        if let Some(Lease { client, standing }) = table.leases.get_mut(component)
            && let Standing::Held(held) = standing
            && authority.generation > held.authority.generation
        {
            let why = match &authority.holder {
                Some(holder) if holder != me.as_str() => format!("{holder} is in control"),
                _ => "control changed hands".into(),
            };
            tell_lost(component, client, &why);
            *standing = Standing::Lost(why);
        }
        if table.seen.len() >= SEEN && !table.seen.contains_key(component) {
            let oldest = table.seen.iter().min_by_key(|(_, (_, at))| *at).map(|(component, _)| component.clone());
            if let Some(oldest) = oldest {
                table.seen.remove(&oldest);
            }
        }
        table.seen.insert(component.clone(), (authority, Instant::now()));
    }

    /// What is known of who is in control.
    pub(super) fn known(&self, component: &Component) -> Option<KnownAuthority> {
        let table = self.table();
        if let Some(Lease { client, standing: Standing::Held(held) }) = table.leases.get(component) {
            let (authority, age) = (held.authority.clone(), held.said.elapsed());
            return Some(KnownAuthority { authority, age, client: Some(client.clone()) });
        }
        let (authority, at) = table.seen.get(component)?;
        Some(KnownAuthority { authority: authority.clone(), age: at.elapsed(), client: None })
    }

    /// Who else is in control, where the host has just refused us in these words: whoever was seen not long ago, unless the
    /// words say otherwise (semantics.md 1.5). Then what was seen is over, and forgotten.
    pub(super) fn holder(&self, component: &Component, me: &PeerName, words: &str) -> Option<String> {
        let mut table = self.table();
        let (authority, at) = table.seen.get(component)?;
        let holder = authority.holder.clone().filter(|holder| holder != me.as_str() && at.elapsed() < FRESH);
        let says = words.contains("is in control") || words.contains("is controlled by");
        let names = |holder: &String| {
            let named = [format!("{holder} is in control"), format!("is controlled by {holder} ")];
            !says || named.iter().any(|named| words.contains(named))
        };
        let holder = holder.filter(names);
        if holder.is_none() {
            table.seen.remove(component);
        }
        holder
    }
}

impl Table {
    fn held(&mut self, component: &Component, number: u64) -> Option<&mut Held> {
        match &mut self.leases.get_mut(component)?.standing {
            Standing::Held(held) if held.number == number => Some(held),
            _ => None,
        }
    }
}

fn tell_lost((peer, namespace): &Component, client: &str, why: &str) {
    tracing::warn!(%peer, namespace, client, why, "control is lost");
}
