//! What a request meets, check by check (wire.md 5.1): a repeat, a name, the arguments, authority, the queue, its time.

use std::time::Duration;

use super::{
    super::{NodeEvent, Now, Outputs, SNAPSHOT, counters::MAX_NAME, projection::Projection, repeats::Seen},
    Accepted, Failure, Incoming, MAX_RUNNING, METHOD_CODES, RunId, Server,
    authority::Refusal,
    context::CONTEXT,
    retired,
    streams::Subscribed,
};
use crate::{
    contract::{Method, Semantics, Sets, validate},
    link::{LinkId, Origin},
    wire::{PeerName, Request, Value, frame::Answer},
};

/// What a request that was not refused leads to.
enum Admitted {
    /// It is answered at once.
    Answer(Value),
    /// It runs as soon as it may; a command waits for the one before it.
    Run {
        /// Whether it waits.
        serial: bool,
    },
}

impl Server {
    /// A request came for us.
    pub(in super::super) fn request(
        &mut self,
        (link, origin): (LinkId, Origin),
        source: PeerName,
        request: Request,
        now: Now,
        out: &mut Outputs,
    ) {
        self.expire_leases(now, out);
        match self.repeats.arrive(&source, &request.correlation) {
            Seen::New => {}
            Seen::Running => return,
            Seen::Answered(route, answer) => {
                return self.send_reply(&source, link, request.correlation, route, answer, out);
            }
        }
        match self.admit(link, &source, &request, now, out) {
            Ok(Admitted::Answer(value)) => self.answer(&source, link, &request, Answer::Value(Some(value)), out),
            Ok(Admitted::Run { serial }) => {
                let accepted = Accepted { link, origin, source, request, arrived: now, serial, command: None };
                self.queue(accepted, now, out);
            }
            Err((code, text)) => self.refuse(&source, link, &request, code, text, out),
        }
    }

    /// A method has ended.
    pub(in super::super) fn ran(
        &mut self,
        run: RunId,
        result: Result<Option<Value>, Failure>,
        now: Now,
        out: &mut Outputs,
    ) {
        let answer = match result {
            Ok(value) => Answer::Value(value),
            Err(failure) => Answer::Error(chosen(failure)),
        };
        let Some(accepted) = self.running.remove(&run) else {
            return self.ran_later(run, answer, out);
        };
        self.expire_leases(now, out);
        if let Some(command) = accepted.command.clone() {
            self.repeats.end_command(command, &answer);
        }
        self.answer(&accepted.source, accepted.link, &accepted.request, answer, out);
        self.next_command(&accepted.request.path, run, now, out);
    }

    /// Leases lapse.
    pub(in super::super) fn handle_timeout(&mut self, now: Now, out: &mut Outputs) {
        self.expire_leases(now, out);
    }

    /// When the next lease lapses.
    pub(in super::super) fn next_expiry_ms(&self) -> Option<i64> {
        self.leases().map(|(_, lease)| lease.expires_ms).min()
    }

    fn admit(
        &mut self,
        link: LinkId,
        source: &PeerName,
        request: &Request,
        now: Now,
        out: &mut Outputs,
    ) -> Result<Admitted, Refusal> {
        let (path, method) = (request.path.as_str(), request.method.as_str());
        if path == "msgrpc" && self.serving.introspection {
            return self.introspect(request, now).map(Admitted::Answer);
        }
        let Some(served) = self.namespaces.get(path) else {
            return match path {
                CONTEXT => {
                    self.fenced(request).and_then(|()| self.context(link, source, request)).map(Admitted::Answer)
                }
                _ => Err(("ClassNotFound", format!("{path}.{method} is not exposed"))),
            };
        };
        let Some(declared) = served.exposed.surface.methods.iter().find(|known| known.name == method) else {
            return self.built_in(link, source, request, now, out).map(Admitted::Answer);
        };
        let serial = matches!(declared.semantics, Some(Semantics::IdempotentCommand | Semantics::NonRepeatableCommand));
        self.check_arguments(declared, request)?;
        if declared.sets == Some(Sets::Any) && !served.exposed.path_writes {
            let text = format!(
                "{path}.{method} sets any path, which this host does not accept - it is enabled with \
                 allowStatePathWrites, and gated by authorize() like any call"
            );
            return Err(("Forbidden", text));
        }
        if declared.requires_authority {
            self.in_control(path, method, source.as_str())?;
        }
        self.fenced(request)?;
        Ok(Admitted::Run { serial })
    }

    fn check_arguments(&self, declared: &Method, request: &Request) -> Result<(), Refusal> {
        let Some(served) = self.namespaces.get(&request.path) else { return Ok(()) };
        if !served.exposed.validate {
            return Ok(());
        }
        validate::arguments(&request.args, declared, &self.serving.types).map_err(|fault| {
            let suffix = served.exposed.surface.version.as_ref();
            let suffix = suffix.map(|version| format!(" (this server serves {}@{version})", request.path));
            ("InvalidParams", format!("{}{}", fault.text, suffix.unwrap_or_default()))
        })
    }

    /// Names the dispatcher answers itself when the namespace does not (wire.md 5.6).
    fn built_in(
        &mut self,
        link: LinkId,
        source: &PeerName,
        request: &Request,
        now: Now,
        out: &mut Outputs,
    ) -> Result<Value, Refusal> {
        let (path, method) = (request.path.as_str(), request.method.as_str());
        match method {
            "on" => self.subscribe(link, source, request, now, out),
            "off" | "removeListener" if self.is_emitter(path) => {
                let event = request.args.first().and_then(Value::as_str).unwrap_or_default();
                let was = self.streams.unsubscribe(&(path.to_owned(), event.to_owned()), source);
                Ok(if was { "ok" } else { "ok - was not subscribed" }.into())
            }
            "$acquire" => self.acquire(path, source.as_str(), &request.args, now, out),
            "$release" => self.release(path, source.as_str(), out),
            "$data" => self.data(path, &request.args),
            _ => Err(("MethodNotFound", format!("{path}.{method} is not exposed"))),
        }
    }

    /// `on`: attaches a subscription. An observer of a component gets the snapshot before the answer.
    fn subscribe(
        &mut self,
        link: LinkId,
        source: &PeerName,
        request: &Request,
        now: Now,
        out: &mut Outputs,
    ) -> Result<Value, Refusal> {
        let path = request.path.as_str();
        let event = request.args.first().and_then(Value::as_str).filter(|event| !event.is_empty());
        let observes = event == Some(SNAPSHOT);
        if observes && !self.is_component(path) {
            return Err(("ClassNotFound", format!("{path} is not an observable component")));
        }
        if !observes && !self.is_emitter(path) {
            return Err(("MethodNotFound", format!("{path}.on is not exposed")));
        }
        // W-076: what is not a name would be listed as one ever after.
        let event = event.ok_or_else(|| ("InvalidParams", "an event is named by a non-empty string".to_owned()))?;
        if event.len() > MAX_NAME {
            return Err(("InvalidParams", format!("the name of an event has at most {MAX_NAME} bytes")));
        }
        let projection = if observes { request.args.get(1) } else { None };
        let projection = Projection::parse(projection).map_err(|text| ("InvalidParams", text))?;
        self.counters.start(path, event, now.unix_ms);
        let stream = (path.to_owned(), event.to_owned());
        let subscribed = self.streams.subscribe(stream, source, link, projection);
        if observes && subscribed != Subscribed::Full {
            self.send_snapshot(path, source, link, out);
        }
        match subscribed {
            Subscribed::New => Ok("ok".into()),
            Subscribed::AlreadyExists => Ok("ok - already exists".into()),
            Subscribed::Reprojected => Ok("ok - reprojected".into()),
            Subscribed::Full => Err(("Busy", format!("{path} has as many subscribers as it can hold"))),
        }
    }

    /// W-061: a fenced call runs under the owner its caller saw, or not at all.
    pub(super) fn fenced(&self, request: &Request) -> Result<(), Refusal> {
        let Some(fence) = &request.fence else { return Ok(()) };
        let path = &request.path;
        match self.topology.places().owner_epoch(path) {
            Some(epoch) if epoch == fence => Ok(()),
            Some(_) => {
                let text = format!(
                    "{path} changed owner generation while this call was on its way - read the topology again and \
                     decide again"
                );
                Err(("OwnershipChanged", text))
            }
            None => {
                let text = format!("{path} has no topology record here to check the owner fence against");
                Err(("OwnershipChanged", text))
            }
        }
    }

    fn is_emitter(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|served| served.exposed.surface.emitter)
    }

    fn is_component(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|served| served.component.is_some())
    }
}

// The queue.
impl Server {
    /// Starts a request, or lets it wait for the command before it.
    fn queue(&mut self, accepted: Accepted, now: Now, out: &mut Outputs) {
        let Some(served) = self.namespaces.get_mut(&accepted.request.path) else { return };
        if !accepted.serial || served.busy.is_none() {
            self.start(accepted, now, out);
        } else if served.waiting.len() < served.exposed.mailbox {
            served.waiting.push_back(accepted);
        } else {
            let waiting = served.waiting.len();
            self.busy(&accepted, waiting, out);
        }
    }

    fn busy(&mut self, accepted: &Accepted, waiting: usize, out: &mut Outputs) {
        let (path, method) = (&accepted.request.path, &accepted.request.method);
        let text = format!("{path}.{method} was not queued: {waiting} calls are already waiting on this instance");
        self.refuse(&accepted.source, accepted.link, &accepted.request, "Busy", text, out);
    }

    /// The last checks, immediately before a method runs (W-064), then the run. True when it runs.
    fn start(&mut self, mut accepted: Accepted, now: Now, out: &mut Outputs) -> bool {
        if self.running.len() >= MAX_RUNNING {
            let running = self.running.len();
            self.busy(&accepted, running, out);
            return false;
        }
        if let Err((code, text)) = self.still_allowed(&accepted, now) {
            self.refuse(&accepted.source, accepted.link, &accepted.request, code, text, out);
            return false;
        }
        if !self.begin_command(&mut accepted, out) {
            return false;
        }
        let run = RunId(self.next_run);
        self.next_run += 1;
        if accepted.serial
            && let Some(served) = self.namespaces.get_mut(&accepted.request.path)
        {
            served.busy = Some(run);
        }
        let request = &mut accepted.request;
        let incoming = Incoming {
            run,
            caller: accepted.source.clone(),
            origin: accepted.origin,
            namespace: request.path.clone(),
            method: request.method.clone(),
            args: std::mem::take(&mut request.args),
        };
        self.running.insert(run, Box::new(accepted));
        out.event(NodeEvent::Run(incoming));
        true
    }

    fn still_allowed(&self, accepted: &Accepted, now: Now) -> Result<(), Refusal> {
        let request = &accepted.request;
        let Some(served) = self.namespaces.get(&request.path) else {
            return Err(("OwnershipChanged", retired(request)));
        };
        if let Some(budget) = budget(request)
            && let Some(late) = now.at.saturating_duration_since(accepted.arrived.at).checked_sub(budget)
            && !late.is_zero()
        {
            let (path, method, ms) = (&request.path, &request.method, late.as_millis());
            let text = format!("{path}.{method} was not run: its caller stopped waiting {ms} ms ago");
            return Err(("Timeout", text));
        }
        self.fenced(request)?;
        let declared = served.exposed.surface.methods.iter().find(|known| known.name == request.method);
        if declared.is_some_and(|declared| declared.requires_authority) {
            self.in_control(&request.path, &request.method, accepted.source.as_str())?;
        }
        Ok(())
    }

    /// A keyed command that must not be repeated runs once, whoever sends it again. False when it does not run now.
    fn begin_command(&mut self, accepted: &mut Accepted, out: &mut Outputs) -> bool {
        let request = &accepted.request;
        let Some(key) = request.idempotency_key.clone() else { return true };
        let declared = self.namespaces.get(&request.path);
        let declared = declared
            .and_then(|served| served.exposed.surface.methods.iter().find(|known| known.name == request.method));
        if declared.and_then(|declared| declared.semantics) != Some(Semantics::NonRepeatableCommand) {
            return true;
        }
        let command = (request.path.clone(), request.method.clone(), key);
        match self.repeats.begin_command(&command) {
            Seen::New => {
                accepted.command = Some(command);
                true
            }
            Seen::Running => {
                self.repeats.forget(&accepted.source, &request.correlation);
                false
            }
            Seen::Answered(_, answer) => {
                self.answer_again(accepted, answer, out);
                false
            }
        }
    }

    /// The command `run` has ended: the next of its namespace that may still run is started.
    pub(super) fn next_command(&mut self, namespace: &str, run: RunId, now: Now, out: &mut Outputs) {
        let Some(served) = self.namespaces.get_mut(namespace).filter(|served| served.busy == Some(run)) else {
            return;
        };
        served.busy = None;
        while let Some(next) = self.namespaces.get_mut(namespace).and_then(|served| served.waiting.pop_front()) {
            if self.start(next, now, out) {
                return;
            }
        }
    }
}

/// How long after its arrival a request may still start (wire.md 6.1): its ttl, narrowed by what the broker left of its
/// expiry. An expiry alone sets no budget.
fn budget(request: &Request) -> Option<Duration> {
    let ttl = Duration::from_millis(request.ttl?);
    let left = request.expiry.map(|seconds| Duration::from_secs(seconds.into()));
    Some(left.map_or(ttl, |left| left.min(ttl)))
}

/// A failure with a code that a method may choose (S-013).
fn chosen(failure: Failure) -> crate::wire::RemoteError {
    let code = if METHOD_CODES.contains(&failure.code.as_str()) { failure.code } else { "Exception".into() };
    crate::wire::RemoteError { code, name: "Error".into(), message: failure.message }
}
