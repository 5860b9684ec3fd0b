//! The prompts there are.

use crate::mcp::completion::Fill;

/// One prompt.
#[derive(Debug)]
pub(in crate::mcp) struct Spec {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// The tools it cannot do without.
    pub(super) needs: &'static [&'static str],
    /// What a user gives, all of it required.
    pub(super) arguments: &'static [Argument],
    pub(super) opening: &'static str,
    /// What to do, each with the tools it names; one whose tools are not there is left out.
    pub(super) steps: &'static [(&'static [&'static str], &'static str)],
    pub(super) closing: &'static str,
}

/// What a user gives.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Bytes it may have.
    pub(super) most: usize,
    /// What it can be completed from.
    pub(super) fill: Fill,
}

const PEER: Argument = Argument { name: "peer", description: "The name of the peer.", most: 256, fill: Fill::Peer };
const CONTRACT: Argument = Argument {
    name: "contract",
    description: "The name of a contract that is kept here.",
    most: 64,
    fill: Fill::Contract,
};
/// Bytes of what a user says in words.
const MOST_WORDS: usize = 2_048;

pub(super) const PROMPTS: &[Spec] = &[
    Spec {
        name: "inspect_plant",
        title: "Look over the plant",
        description: "Who is on the network, what each serves and how it stands, without changing anything.",
        needs: &["list_peers", "describe_peer"],
        arguments: &[],
        opening: "Look over this plant and say what is there. Change nothing: no step below needs it.",
        steps: &[
            (
                &["list_peers"],
                "list_peers: who is there, and which link is down. If a link is down, say so first; peers may be missing.",
            ),
            (&["describe_peer"], "describe_peer for each peer, or for those that matter if there are many."),
            (&["read_state"], "read_state for the components among the namespaces. Take one look each; do not poll."),
            (&["read_context"], "read_context where a description says what a namespace is part of."),
            (
                &["watch_traffic"],
                "watch_traffic for ten seconds: who talks to whom, what fails, what is never answered.",
            ),
            (&["list_fakes"], "list_fakes: a fake is no device. Say which peers are fakes."),
        ],
        closing: "Report what you saw, per peer, and what you could not see and why. Keep what you saw apart from what you \
                  conclude. A failure names its next step; follow that instead of repeating the call.",
    },
    Spec {
        name: "why_is_it",
        title: "Find out why",
        description: "Why a peer does what it does, or does not, from what can be seen without changing anything.",
        needs: &["describe_peer", "read_state"],
        arguments: &[
            PEER,
            Argument {
                name: "question",
                description: "What is to be found out, such as why the oven does not heat.",
                most: MOST_WORDS,
                fill: Fill::Words,
            },
        ],
        opening: "Answer the question below about the peer named below. Only look: do not call what changes something, and do \
                  not try things out on the device.",
        steps: &[
            (
                &["describe_peer"],
                "describe_peer with that peer: what it serves, and what sets what. If it is not there, say so and stop.",
            ),
            (&["read_state"], "read_state of its components: what they hold now, and whether that is live or stale."),
            (&["read_context"], "read_context for what it inherits, where its description names a parent or an owner."),
            (
                &["watch_events"],
                "watch_events on an event that bears on the question. Mind the verdict on loss: only gapless means that nothing \
                 was missed.",
            ),
            (
                &["watch_traffic"],
                "watch_traffic with that peer: who calls it, what it answers, and what it never answers.",
            ),
            (
                &["list_watches", "read_watch"],
                "list_watches, then read_watch of one that listens to this peer: it may hold what happened before you came.",
            ),
            (&["diff_peers"], "diff_peers with a peer of the same kind that behaves, if there is one."),
        ],
        closing: "Answer with what was observed, when, and what follows from it. Where the evidence ends, say what is missing \
                  and which look, or which person, could settle it. Propose a change if one would help; do not make it.",
    },
    Spec {
        name: "try_on_a_fake",
        title: "Try it on a fake",
        description: "Tries something out on a fake made from a contract, where no device can be harmed.",
        needs: &["read_contract", "start_fake", "call_method", "stop_fake"],
        arguments: &[
            CONTRACT,
            Argument { name: "goal", description: "What is to be tried out.", most: MOST_WORDS, fill: Fill::Words },
        ],
        opening: "Reach the goal below on a fake made from the contract named below. Touch no other peer.",
        steps: &[
            (
                &["read_contract"],
                "read_contract with that name: methods, events, components, and what is wrong with it.",
            ),
            (
                &["start_fake"],
                "start_fake with that contract, without a name of your own. Note the name it is given; every call below goes to \
                 that peer and to no other.",
            ),
            (
                &["describe_peer"],
                "describe_peer with the fake: it must say that it is a fake. If it does not, stop and say so.",
            ),
            (
                &["call_method"],
                "call_method on the fake for each step towards the goal, one at a time, reading each outcome.",
            ),
            (
                &["read_state", "set_state"],
                "read_state and set_state on the fake where the goal is about what it holds.",
            ),
            (&["watch_events"], "watch_events on the fake where the goal is about what it emits."),
            (&["stop_fake"], "stop_fake, whatever came of it."),
        ],
        closing: "Report each call with its answer. A fake answers samples and what its script says: what it shows is that calls \
                  are well formed, never how the device would behave. Say so, and say what would still have to be tried on the \
                  device and by whom.",
    },
    Spec {
        name: "check_device",
        title: "Check a device against a contract",
        description: "Whether a peer still serves what a kept contract promises, and what that means for its callers.",
        needs: &["read_contract", "check_peer"],
        arguments: &[PEER, CONTRACT],
        opening: "Hold the peer named below against the contract named below. Only look.",
        steps: &[
            (&["read_contract"], "read_contract with that name: a contract with problems cannot be checked against."),
            (
                &["check_peer"],
                "check_peer with that peer and that contract. Follow the pages to the end. What the peer does not describe is \
                 unchecked, which is no pass.",
            ),
            (
                &["describe_peer"],
                "describe_peer for the namespaces where something differs, to see what is there instead.",
            ),
            (
                &["list_contracts"],
                "list_contracts if the name is unknown: name those that are like it, and do not guess.",
            ),
        ],
        closing: "Report what breaks callers, what merely differs, and what could not be checked, each with its place. Do not \
                  change the contract to fit the device, nor the device to fit the contract; say which of them a person should \
                  look at.",
    },
    Spec {
        name: "hand_over",
        title: "Hand over",
        description: "What this bridge holds and what is under way, written down for whoever comes next.",
        needs: &["list_peers", "list_watches", "list_fakes"],
        arguments: &[],
        opening: "Write down for whoever takes over how things stand at this bridge. Start nothing new.",
        steps: &[
            (&["list_peers"], "list_peers: who is there and which link is down."),
            (
                &["list_watches", "read_watch"],
                "list_watches, then read_watch of each: what came, what was missed, and the cursor to go on from.",
            ),
            (&["list_fakes"], "list_fakes: which stand, since when, and which had to leave."),
            (
                &["read_ticket"],
                "read_ticket for every ticket you were given in this conversation and have not seen the end of.",
            ),
            (
                &["release_control"],
                "release_control of what you took and need no more. If you keep control of something, say so and until when.",
            ),
            (&["list_contracts"], "list_contracts: which are kept, and which cannot be used."),
        ],
        closing: "Write what is known, what is in doubt, and what is open, with the exact names and ids. An outcome that is \
                  unknown stays unknown: name the read that settles it. Stop no watch and no fake that you did not start.",
    },
];
