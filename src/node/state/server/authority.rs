//! Who is in control of a component (semantics.md 10.3).

use super::{
    super::{Now, Outputs, component::Lease},
    Server,
};
use crate::wire::{Map, Value};

/// A refusal: the code and the text.
pub(super) type Refusal = (&'static str, String);

/// How long a lease lasts that names no time.
const DEFAULT_LEASE_MS: f64 = 60_000.0;

impl Server {
    /// `$acquire`: grants, renews or takes the lease.
    pub(super) fn acquire(
        &mut self,
        namespace: &str,
        caller: &str,
        args: &[Value],
        now: Now,
        out: &mut Outputs,
    ) -> Result<Value, Refusal> {
        let component = self.component_mut(namespace, "it has no authority to hold")?;
        let expires_ms = now.unix_ms.saturating_add(lease_ms(args.first())?);
        let take = args.get(1).and_then(|options| options.get("take")).and_then(Value::as_bool) == Some(true);
        let held = component.authority().lease().filter(|lease| lease.holder != caller).cloned();
        if let Some(Lease { holder, expires_ms }) = held.clone().filter(|_| !take) {
            let until = crate::wire::json::iso_date(expires_ms).unwrap_or_default();
            return Err(("NotInControl", format!("{namespace} is controlled by {holder} until {until}")));
        }
        let renewed = component.acquire(caller, expires_ms);
        let authority = component.authority().to_value();
        let reason = match (renewed, held.is_some()) {
            (true, _) => "renewed",
            (false, true) => "taken",
            (false, false) => "acquired",
        };
        self.authority_changed(namespace, reason, authority.clone(), held.as_ref(), out);
        Ok(authority)
    }

    /// `$release`: gives it up, if the caller holds it.
    pub(super) fn release(&mut self, namespace: &str, caller: &str, out: &mut Outputs) -> Result<Value, Refusal> {
        let component = self.component_mut(namespace, "it has no authority to hold")?;
        if component.authority().lease().is_none_or(|lease| lease.holder != caller) {
            return Ok("ok - was not holding".into());
        }
        let lease = component.release();
        let authority = component.authority().to_value();
        self.authority_changed(namespace, "released", authority, lease.as_ref(), out);
        Ok("ok".into())
    }

    /// Leases whose time has passed end by themselves.
    pub(super) fn expire_leases(&mut self, now: Now, out: &mut Outputs) {
        let lapsed: Vec<String> = self
            .leases()
            .filter(|(_, lease)| lease.expires_ms <= now.unix_ms)
            .map(|(namespace, _)| namespace.to_owned())
            .collect();
        for namespace in lapsed {
            let Ok(component) = self.component_mut(&namespace, "") else { continue };
            let lease = component.release();
            let authority = component.authority().to_value();
            self.authority_changed(&namespace, "expired", authority, lease.as_ref(), out);
        }
    }

    /// The leases that are held.
    pub(super) fn leases(&self) -> impl Iterator<Item = (&str, &Lease)> {
        self.namespaces.iter().filter_map(|(name, served)| {
            let lease = served.component.as_ref()?.authority().lease()?;
            Some((name.as_str(), lease))
        })
    }

    /// Whether `caller` may call what requires authority.
    pub(super) fn in_control(&self, namespace: &str, method: &str, caller: &str) -> Result<(), Refusal> {
        let component = self.namespaces.get(namespace).and_then(|served| served.component.as_ref());
        let lease = component.and_then(|component| component.authority().lease());
        let why = match lease {
            Some(lease) if lease.holder == caller => return Ok(()),
            Some(lease) => format!("{} is in control", lease.holder),
            None => "nobody is in control - $acquire it first".into(),
        };
        Err(("NotInControl", format!("{namespace}.{method} requires authority: {why}")))
    }

    fn component_mut(
        &mut self,
        namespace: &str,
        without: &str,
    ) -> Result<&mut super::super::component::Component, Refusal> {
        let component = self.namespaces.get_mut(namespace).and_then(|served| served.component.as_mut());
        component.ok_or_else(|| ("ClassNotFound", format!("{namespace} is not an observable component, so {without}")))
    }

    fn authority_changed(
        &mut self,
        namespace: &str,
        reason: &str,
        authority: Value,
        previous: Option<&Lease>,
        out: &mut Outputs,
    ) {
        let mut change = Map::new();
        change.insert("reason", reason);
        change.insert("authority", authority);
        if let Some(previous) = previous {
            change.insert("previousHolder", previous.holder.as_str());
        }
        self.emit(namespace, "authorityChanged", &[change.into()], out);
    }
}

/// The life of a lease, in milliseconds.
#[expect(clippy::cast_possible_truncation, reason = "bounded by the check before it")]
fn lease_ms(asked: Option<&Value>) -> Result<i64, Refusal> {
    let millis = match asked {
        None | Some(Value::Null) => DEFAULT_LEASE_MS,
        Some(value) => value.as_f64().unwrap_or(0.0),
    };
    if millis > 0.0 && millis < 9e15 {
        return Ok(millis.ceil() as i64);
    }
    let text = "$acquire: the lease must expire, so its ttl is a positive number of milliseconds";
    Err(("InvalidParams", text.into()))
}
