//! One task that moves what happens into the state machine and its outputs out again. It decides nothing.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, atomic::AtomicU64},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::{self, JoinError, JoinHandle, JoinSet},
};
use uuid::Uuid;

use super::{
    CallError, Failure, Identity, Incoming, Network, Node, NotSent, Service, Shared,
    command::{Caller, Command, Release},
    listener::Listener,
    log,
    meter::Meter,
    state::{Answered, CallId, NodeEvent, NodeState, Now, RunId, Send, SendWhat, SubscriptionId},
    ticket::Followed,
};
use crate::{
    link::{Link, LinkEvent, LinkId, Outbound, Rejection, now_ms},
    wire::{Correlation, Value},
};

/// How many commands may wait for the driver.
pub(super) const COMMAND_QUEUE: usize = 1024;
/// How many inputs are fed before outputs are drained: a full house is served in batches, a lone call at once.
const TURN: usize = 256;

/// The driver's task; it ends when the node has left the network.
#[derive(Debug)]
pub struct Running(JoinHandle<()>);

impl Running {
    /// Waits until the node has left.
    pub async fn ended(self) {
        // A driver that panicked has ended too; the panic was printed where it happened.
        let _ = self.0.await;
    }
}

/// `hosted`: whoever starts it knows who is on the network, and says who left.
pub(super) fn start(identity: Identity, links: Vec<Link>, hosted: bool) -> (Node, Running) {
    let (commands, commands_rx) = mpsc::channel(COMMAND_QUEUE);
    let (releases, releases_rx) = mpsc::unbounded_channel();
    let (network_tx, network) = watch::channel(Arc::default());
    let name = identity.name.clone();
    let shared =
        Shared { name: name.clone(), commands, releases, network, ids: AtomicU64::new(1), meter: Meter::default() };
    let node = Node { shared: Arc::new(shared), tap: None };
    let epoch = Uuid::new_v4().simple().to_string();
    let mut state = NodeState::new(name, links.iter().map(|link| link.id), epoch, Uuid::new_v4().into_bytes());
    if hosted {
        state.be_hosted();
    }
    let mut services = HashMap::new();
    state.serve(identity.serving);
    for (exposed, service) in identity.exposed {
        services.insert(exposed.name.clone(), service);
        state.expose(exposed, Uuid::new_v4().to_string(), now());
    }
    // Boxed: what a task is given it holds twice, and there may be hundreds of nodes.
    let driver = Box::new(Driver {
        node: node.clone(),
        state,
        services,
        links: links.into_iter().map(|link| (link.id, link)).collect(),
        commands: commands_rx,
        releases: releases_rx,
        network: network_tx,
        network_changed: true,
        calls: HashMap::new(),
        tickets: Followed::default(),
        listeners: HashMap::new(),
        runs: JoinSet::new(),
        run_ids: HashMap::new(),
        owed: HashMap::new(),
        leaving: false,
        hosted,
    });
    (node, Running(tokio::spawn(driver.run())))
}

/// One thing that happened.
enum Input {
    Link(LinkId, LinkEvent),
    LinkEnded(LinkId),
    Command(Command),
    Release(Release),
    Ran(Result<(task::Id, Result<Option<Value>, Failure>), JoinError>),
    Timeout,
}

struct Driver {
    /// What services emit and commit through.
    node: Node,
    state: NodeState,
    services: HashMap<String, Arc<dyn Service>>,
    links: Vec<(LinkId, Link)>,
    commands: mpsc::Receiver<Command>,
    releases: mpsc::UnboundedReceiver<Release>,
    network: watch::Sender<Arc<Network>>,
    network_changed: bool,
    calls: HashMap<CallId, Caller>,
    tickets: Followed,
    listeners: HashMap<SubscriptionId, Listener>,
    runs: JoinSet<Result<Option<Value>, Failure>>,
    run_ids: HashMap<task::Id, RunId>,
    /// The runs that answer later, and how they are told that nobody waits any more.
    owed: HashMap<RunId, watch::Sender<bool>>,
    leaving: bool,
    hosted: bool,
}

impl Driver {
    async fn run(mut self: Box<Self>) {
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        self.drain();
        while !(self.leaving && self.links.is_empty()) {
            let wake = self.state.poll_timeout(now());
            // A timer that is early costs one empty turn; re-arming it for every call would cost more.
            if let Some(wake) = wake
                && (timer.is_elapsed() || timer.deadline().into_std() > wake)
            {
                timer.as_mut().reset(wake.into());
            }
            let input = tokio::select! {
                (id, event) = next_event(&mut self.links) => event.map_or(Input::LinkEnded(id), |event| Input::Link(id, event)),
                Some(command) = self.commands.recv() => Input::Command(command),
                Some(release) = self.releases.recv() => Input::Release(release),
                Some(ran) = self.runs.join_next_with_id() => Input::Ran(ran),
                () = &mut timer, if wake.is_some() => Input::Timeout,
            };
            self.feed(input);
            let more = self.feed_ready();
            self.state.end_turn();
            self.drain();
            if more {
                // What is ready costs the scheduler's budget nothing: without this a flood would keep its thread.
                task::yield_now().await;
            }
        }
        self.runs.shutdown().await;
        self.refuse_rest();
    }

    /// What was asked for and not taken up certainly was not sent.
    fn refuse_rest(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Call { answer, .. } = command {
                // Nobody waits any more.
                let _ = answer.send(Err(CallError::NotSent(NotSent::Closing)));
            }
        }
    }

    /// Feeds what is ready already, up to a turn's worth: one thing of every source in turn, so that no link keeps another
    /// or the handle waiting. True when there may be more.
    fn feed_ready(&mut self) -> bool {
        if self.links.len() > 1 {
            self.links.rotate_left(1);
        }
        for _ in 0..TURN {
            let mut fed = false;
            for at in 0..self.links.len() {
                let event = self.links.get_mut(at).and_then(|(id, link)| Some((*id, link.events.try_recv().ok()?)));
                if let Some((id, event)) = event {
                    self.feed(Input::Link(id, event));
                    fed = true;
                }
            }
            if let Ok(release) = self.releases.try_recv() {
                self.feed(Input::Release(release));
                fed = true;
            }
            if let Ok(command) = self.commands.try_recv() {
                self.feed(Input::Command(command));
                fed = true;
            }
            if !fed {
                return false;
            }
        }
        true
    }

    fn feed(&mut self, input: Input) {
        let now = now();
        match input {
            Input::Link(id, event) => self.state.handle_link(id, event, now),
            Input::LinkEnded(id) => {
                self.state.handle_link(id, LinkEvent::Closed, now);
                self.links.retain(|(known, _)| *known != id);
            }
            Input::Command(command) => self.command(command, now),
            Input::Release(release) => self.release(release, now),
            Input::Ran(ended) => self.ran(ended, now),
            Input::Timeout => self.state.handle_timeout(now),
        }
    }

    /// A method has ended, by itself or by a panic; one that panics fails alone.
    fn ran(&mut self, ended: Result<(task::Id, Result<Option<Value>, Failure>), JoinError>, now: Now) {
        let (task, result) = match ended {
            Ok((task, result)) => (task, result),
            Err(error) => (error.id(), Err(Failure::exception("the method failed unexpectedly"))),
        };
        // What it committed before it returned is told before its answer; it stands in a full queue at the latest.
        for _ in 0..COMMAND_QUEUE {
            let Ok(command) = self.commands.try_recv() else { break };
            self.command(command, now);
        }
        if let Some(run) = self.run_ids.remove(&task) {
            self.owed.remove(&run);
            self.state.handle_ran(run, result, now);
        }
    }

    fn command(&mut self, command: Command, now: Now) {
        match command {
            // The release of a caller or listener that is gone may have overtaken the command: nothing would end it.
            Command::Call { answer, .. } if answer.is_closed() => {}
            Command::Subscribe { deliveries, .. } if deliveries.is_closed() => {}
            Command::Call { id, call, correlation, answer } => {
                self.calls.insert(id, answer);
                self.state.call(id, *call, correlation, now);
            }
            Command::Subscribe { id, stream, deliveries, missed } => {
                self.listeners.insert(id, Listener { deliveries, missed });
                self.state.subscribe(id, *stream, fresh(), now);
            }
            Command::Emit(emission) => self.state.emit(&emission.namespace, &emission.event, &emission.args),
            Command::Commit(commit) => {
                let (namespace, change) = *commit;
                self.state.commit(&namespace, change);
            }
            Command::Place { change, answer } => {
                // Whoever no longer asks has made the change all the same.
                let _ = answer.send(self.state.change_topology(*change));
            }
            Command::Mute { namespace, muted } => self.state.mute(&namespace, muted),
            Command::Defer { run, life, gone, answer } => {
                let deferred = self.state.defer(run, life, now);
                if deferred.is_ok() {
                    self.owed.insert(run, gone);
                }
                // A method that no longer asks has ended, or was ended.
                let _ = answer.send(deferred);
            }
            Command::Progress { run, value } => self.state.progress(run, value),
            Command::Unanswered(run) => self.state.leave_unanswered(run, now),
            Command::Departed(peer) => self.state.departed(&peer),
        }
    }

    fn release(&mut self, release: Release, now: Now) {
        match release {
            Release::Abandon(id) => self.state.abandon(id, now),
            Release::Unsubscribe(id) => {
                self.listeners.remove(&id);
                self.state.unsubscribe(id, fresh(), now);
            }
            Release::Leave(theirs) => self.leave(now, &theirs),
        }
    }

    /// Leaves, and without a word where somebody else goes by our name.
    fn leave(&mut self, now: Now, theirs: &[LinkId]) {
        let said = |link: &LinkId| if theirs.contains(link) { Outbound::Yield } else { Outbound::Leave };
        self.leaving = true;
        self.state.close(now);
        self.drain();
        // A link whose queue is full is not coming back to read it: it is dropped, which ends it.
        self.links.retain(|(id, link)| link.outbound.try_send(said(id)).is_ok());
    }

    fn drain(&mut self) {
        let now = now();
        loop {
            if let Some(send) = self.state.poll_send() {
                self.send(send, now);
            } else if let Some(event) = self.state.poll_event() {
                self.event(event);
            } else {
                break;
            }
        }
        if std::mem::take(&mut self.network_changed) {
            let links = self.state.links().map(|(id, link)| (id, link.clone())).collect();
            self.network.send_replace(Arc::new(Network { links, roster: self.state.roster().clone() }));
        }
    }

    fn send(&mut self, send: Send, now: Now) {
        let (outbound, id) = match send.what {
            SendWhat::Frame { id, frame, claim } => (Outbound::Frame { id, frame, claim }, Some(id)),
            SendWhat::Announce(shape) => (Outbound::Announce { shape }, None),
        };
        let link = self.links.iter().find(|(known, _)| *known == send.link);
        let refused = match link.map(|(_, link)| link.outbound.try_reserve()) {
            Some(Ok(room)) => return room.send(outbound),
            Some(Err(mpsc::error::TrySendError::Full(()))) => Rejection::Full,
            Some(Err(mpsc::error::TrySendError::Closed(()))) | None => Rejection::Down,
        };
        if let Some(id) = id {
            self.state.handle_link(send.link, LinkEvent::Rejected { id, why: refused }, now);
        }
    }

    fn event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Resolved(id, outcome) => self.resolved(id, outcome),
            NodeEvent::Ticket(id, update) => self.tickets.update(id, update, now()),
            NodeEvent::Delivery(id, delivery) => {
                let fits = self.listeners.get(&id).is_none_or(|listener| listener.deliver(delivery.into()));
                if !fits {
                    self.node.shared.meter.fell_off();
                }
            }
            NodeEvent::Run(incoming) => self.start_run(incoming),
            NodeEvent::CallerGone(run) => {
                if let Some(gone) = self.owed.get(&run) {
                    gone.send_replace(true);
                }
            }
            NodeEvent::NetworkChanged => self.network_changed = true,
            // What happens to the network stands in the log of the host, once and not for every peer it has.
            NodeEvent::Note(note) if self.hosted => log::note_of_hosted(self.node.name(), &note),
            NodeEvent::Note(note) => log::note(&note),
        }
    }

    fn resolved(&mut self, id: CallId, outcome: Result<Answered, CallError>) {
        let Some(caller) = self.calls.remove(&id) else { return };
        let told = outcome.map(|answered| {
            let log = answered.ticket_expires_ms.map(|_| self.tickets.begin(id));
            (answered, log)
        });
        // Nobody waits any more: the answer is late, not lost.
        let _ = caller.send(told);
    }

    fn start_run(&mut self, incoming: Incoming) {
        let run = incoming.run;
        let Some(service) = self.services.get(&incoming.namespace).cloned() else {
            return self.state.handle_ran(run, Err(Failure::exception("nothing is behind this namespace")), now());
        };
        let node = self.node.clone();
        // Called inside its task, so that a service that panics before it gives a future fails alone too.
        let task = self.runs.spawn(async move { service.run(node, incoming).await });
        self.run_ids.insert(task.id(), run);
    }
}

/// The next event of any link; `None` when that link has ended. Waits for ever when there is no link.
async fn next_event(links: &mut [(LinkId, Link)]) -> (LinkId, Option<LinkEvent>) {
    poll_fn(|context| {
        for (id, link) in links.iter_mut() {
            if let Poll::Ready(event) = link.events.poll_recv(context) {
                return Poll::Ready((*id, event));
            }
        }
        Poll::Pending
    })
    .await
}

fn fresh() -> Correlation {
    Uuid::new_v4().hyphenated().to_string().into()
}

/// The moment, by both clocks. Tokio's, so that tests may pause it.
fn now() -> Now {
    Now { at: tokio::time::Instant::now().into_std(), unix_ms: now_ms() }
}
