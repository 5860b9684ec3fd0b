//! Why a verb did not do what it was asked. Each variant holds what the reader needs to do better.

use super::{ScriptTrouble, TapTrouble, TicketView, Unsaid, fakes::taken};
use crate::{
    contract::{Effect, Problem, context::Ref},
    fake::Taken,
    node::{CallError, LinkState},
    wire::{PeerName, RemoteError},
};

/// Why a verb failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlantError {
    /// An argument makes no sense before anybody is asked.
    #[error("{problem}")]
    BadArgument {
        /// Where, as a JSON Pointer into the verb's arguments.
        argument: String,
        /// What was expected.
        expected: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No link is up.
    #[error("the plant network is not reachable: {}", why_down(.links))]
    NetworkUnavailable {
        /// How each link is, by its name.
        links: Vec<(String, LinkState)>,
    },
    /// Nobody of that name is on the network.
    #[error("no peer named '{peer}' is on the network")]
    UnknownPeer {
        /// The name.
        peer: String,
        /// Names like it.
        alternatives: Vec<String>,
    },
    /// The peer says nothing about itself, and this verb cannot do without.
    #[error("{peer} could not be described: {}", .unsaid.why)]
    Undescribed {
        /// Which.
        peer: PeerName,
        /// Why.
        unsaid: Unsaid,
    },
    /// The peer does not serve this namespace.
    #[error("{peer} serves no namespace '{namespace}'")]
    UnknownNamespace {
        /// Which peer.
        peer: PeerName,
        /// The name.
        namespace: String,
        /// What it does serve.
        alternatives: Vec<String>,
    },
    /// The namespace has no such method.
    #[error("{peer}.{namespace} has no method '{method}'{hint}")]
    UnknownMethod {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The name.
        method: String,
        /// What it does have.
        alternatives: Vec<String>,
        /// What to use instead, where the name is a well-known one.
        hint: &'static str,
    },
    /// The namespace is no store that could be written, and has none beside it.
    #[error("{peer}.{namespace} is not, and has not, the write half of a store")]
    NoStore {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The stores the peer does have.
        stores: Vec<String>,
    },
    /// Nothing there can be listened to.
    #[error("{peer}.{namespace} emits no events, so not '{event}' either")]
    UnknownEvent {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The name.
        event: String,
        /// The events the peer declares.
        alternatives: Vec<String>,
    },
    /// No standing watch has this id.
    #[error("no watch '{watch}' is held here")]
    UnknownWatch {
        /// The id.
        watch: String,
        /// Those there are.
        alternatives: Vec<String>,
    },
    /// As many standing watches are held as may be.
    #[error("{limit} watches are held already")]
    TooManyWatches {
        /// How many may be.
        limit: usize,
        /// Those there are.
        held: Vec<String>,
    },
    /// The arguments do not fit what the peer declares; nothing was sent.
    #[error("{problem}")]
    InvalidParams {
        /// What was to be called.
        target: Target,
        /// Which argument, as a JSON Pointer into the verb's arguments.
        argument: String,
        /// What is wrong, in the words the peer would use.
        problem: String,
        /// The method's signature.
        signature: String,
    },
    /// This bridge, or this client, may only look.
    #[error("{target} has effect {}, and {} may only look", .effect.as_str(), who_looks(*.of_client))]
    ReadOnly {
        /// What was to be called.
        target: Target,
        /// Its effect.
        effect: Effect,
        /// Whether that is so for this client alone, and the bridge does more for others.
        of_client: bool,
    },
    /// The method is declared to do more than look, and was to be called to look.
    #[error("{target} is declared with effect {}, so it is not called to look", .effect.as_str())]
    NotALook {
        /// What was to be called.
        target: Target,
        /// Its effect.
        effect: Effect,
    },
    /// The peer answered, but not what a peer of its kind answers.
    #[error("{target} answered something other than {expected}")]
    OddAnswer {
        /// What was called.
        target: Target,
        /// What was expected.
        expected: &'static str,
        /// Whether the call could change something.
        changes: bool,
    },
    /// The namespace publishes no snapshots.
    #[error("{peer}.{namespace} is not an observable component")]
    NotAComponent {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The components it does have.
        alternatives: Vec<String>,
    },
    /// The subscription was accepted and nothing was published.
    #[error(
        "{peer}.{namespace} accepted the subscription but published no snapshot within {seconds}s. It is a component; \
         its host has not said what it holds."
    )]
    NoSnapshot {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Nothing declares that it sets this path.
    #[error("nothing on {peer}.{namespace} declares that it sets '{path}'")]
    NoSetter {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The path.
        path: String,
        /// Each path that is claimed, with its method.
        claims: Vec<String>,
    },
    /// Two methods claim the path.
    #[error("two methods of {peer}.{namespace} declare that they set '{path}': {} and {}", .methods.0, .methods.1)]
    AmbiguousSetter {
        /// Which peer.
        peer: PeerName,
        /// Which namespace.
        namespace: String,
        /// The path.
        path: String,
        /// The two.
        methods: (String, String),
    },
    /// A host along a chain answered, and not what a chain can be made of.
    #[error("{} could not be asked about {at}: {problem}", .at.peer)]
    NoContext {
        /// What it was asked about.
        at: Ref,
        /// What was answered before, one ref a host.
        hops: Vec<Ref>,
        /// What is wrong.
        problem: String,
        /// Its refusal, if it was one.
        refusal: Option<RemoteError>,
    },
    /// No ticket of that id is known.
    #[error("no ticket '{ticket}' is known")]
    UnknownTicket {
        /// The id.
        ticket: String,
        /// The tickets of this client, open ones first.
        tickets: Vec<TicketView>,
    },
    /// The component's authority is in other hands, or in nobody's: it did not run.
    #[error("{}", not_in_control(.target, .other_client.as_deref(), .refusal.as_ref()))]
    NotInControl {
        /// What was to be called.
        target: Target,
        /// The peer in control, if that is known.
        holder: Option<String>,
        /// The client of this bridge in control, if another one is.
        other_client: Option<String>,
        /// How control was lost, if it was.
        lost: Option<String>,
        /// What the peer said, if it was asked.
        refusal: Option<RemoteError>,
    },
    /// A bound of this bridge is reached.
    #[error("there are {limit} {what}, and no more can be")]
    LimitReached {
        /// Of what.
        what: &'static str,
        /// How many may be.
        limit: usize,
    },
    /// This bridge keeps no contracts.
    #[error("this bridge has no directory of contracts")]
    NoContracts,
    /// No contract of that name is kept.
    #[error("no contract '{name}' is kept here")]
    UnknownContract {
        /// The name.
        name: String,
        /// Names like it.
        alternatives: Vec<String>,
    },
    /// A contract that cannot be used.
    #[error("{contract} is not a valid contract: {}", first(.problems))]
    InvalidContract {
        /// Which.
        contract: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
    /// What is kept under the name is not what was expected there; nothing was changed.
    #[error("contract '{name}' was not changed: {}", found_instead(.now.as_deref()))]
    ContractChanged {
        /// The name.
        name: String,
        /// The hash of what is there.
        now: Option<String>,
    },
    /// A file that cannot be read.
    #[error("'{file}' cannot be read: {why}")]
    CannotRead {
        /// Its name, never where it is.
        file: String,
        /// Why.
        why: String,
    },
    /// A file that was not written; what was there is there still.
    #[error("'{file}' was not changed: {why}")]
    CannotWrite {
        /// Its name, never where it is.
        file: String,
        /// Why.
        why: String,
    },
    /// Somebody answers to the name a fake was to have.
    #[error("{}", taken(.name, *.who))]
    NameInUse {
        /// The name.
        name: PeerName,
        /// Who has it.
        who: Taken,
    },
    /// The script does not fit the contract.
    #[error("the script cannot be played: {}", first(.problems))]
    InvalidScript {
        /// Everything that is wrong with it.
        problems: Vec<Problem>,
    },
    /// The script brings code along, which this bridge does not run.
    #[error("this script uses {}, which run code it supplied; this bridge runs none", .uses.join(" and "))]
    ExecDisabled {
        /// The fields that hold it.
        uses: Vec<&'static str>,
    },
    /// The fake did not come to stand on the network; nothing of it is there.
    #[error("the fake '{name}' could not be started: {why}")]
    FakeFailed {
        /// Its name.
        name: PeerName,
        /// Why.
        why: String,
        /// Whether that does not pass by itself.
        lasts: bool,
    },
    /// No fake of that name was started here.
    #[error("no fake named '{fake}' was started here")]
    UnknownFake {
        /// The name.
        fake: String,
        /// Those there are.
        alternatives: Vec<String>,
    },
    /// Something could not be done with a script, here or on another node.
    #[error(transparent)]
    Script(#[from] ScriptTrouble),
    /// The traffic of others cannot be heard.
    #[error("the traffic cannot be watched: {0}")]
    TapUnavailable(TapTrouble),
    /// Nobody waits for it any more; nothing was sent.
    #[error("nobody waits for this any more; nothing was sent")]
    Unwanted,
    /// A call ended badly.
    #[error("{target}: {error}")]
    Call {
        /// What was called.
        target: Target,
        /// Whether the arguments fitted what the peer declares before they left.
        checked: bool,
        /// Whether the peer declares that it changes nothing.
        observes: bool,
        /// The idempotency key it carried.
        idempotency_key: Option<String>,
        /// How it ended.
        error: CallError,
    },
}

/// What a verb called, or was about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The peer.
    pub peer: PeerName,
    /// The namespace.
    pub namespace: String,
    /// The method.
    pub method: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.peer, self.namespace, self.method)
    }
}

fn not_in_control(target: &Target, other_client: Option<&str>, refusal: Option<&RemoteError>) -> String {
    match (refusal, other_client) {
        (Some(refusal), _) => format!("{target} answered {}: {}", refusal.code, refusal.message),
        (None, Some(client)) => format!(
            "{target} was not called: client '{client}' of this bridge is in control of {}.{}",
            target.peer, target.namespace
        ),
        (None, None) => format!("{target} was not called: this bridge is not in control"),
    }
}

fn first(problems: &[Problem]) -> String {
    match problems {
        [] => "it says nothing".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

fn found_instead(now: Option<&str>) -> String {
    match now {
        Some(hash) => format!("what is there has the sha256 {hash}"),
        None => "nothing of that name is there".to_owned(),
    }
}

fn why_down(links: &[(String, LinkState)]) -> String {
    let reasons = links.iter().filter_map(|(_, link)| link.down.as_ref()).map(|reason| reason.detail.clone());
    reasons.collect::<Vec<_>>().join("; ")
}

/// Who may only look.
const fn who_looks(of_client: bool) -> &'static str {
    if of_client { "the token of this client" } else { "this bridge" }
}
