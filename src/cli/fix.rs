//! What a person does next, where a verb was refused: the codes are those of the tools, the next step is a command line.

use crate::{
    link::DownKind,
    mcp::{ErrorCode, ToolError, read_state},
    node::LinkState,
    plant::{Plant, PlantError, Shows},
};

/// The refusal with a next step that can be typed.
pub(super) fn for_people(error: PlantError) -> ToolError {
    let (peer, namespace) = (peer_of(&error), namespace_of(&error));
    if let PlantError::NetworkUnavailable { links } = &error {
        let fix = unavailable(links);
        return ToolError::from(error).fix(fix);
    }
    let unanswered = matches!(&error, PlantError::Undescribed { unsaid, .. } if unsaid.unanswered);
    let error = ToolError::from(error);
    if unanswered {
        return error.fix(
            "a longer --timeout waits longer; where frames are signed, give --sign a key file that the peer's lists",
        );
    }
    let Some(fix) = fix(error.code()) else { return error };
    let fix = fix.replace("NAMESPACE", &namespace.unwrap_or_else(|| "NAMESPACE".into()));
    error.fix(fix.replace("PEER", &peer.map_or_else(|| "PEER".into(), |peer| word(&peer))))
}

/// The same refusal, where the outcome is unknown: with what would show what became of the command, as far as the peer's
/// description tells. Nobody is asked: the network may be what failed.
pub(super) fn settled(plant: &Plant, error: ToolError) -> ToolError {
    let part = |name: &str| error.get("settle_with")?.pointer(name)?.as_str().map(str::to_owned);
    let at = part("/arguments/peer").zip(part("/arguments/namespace"));
    let Some((peer, namespace)) = at.filter(|_| error.code() == ErrorCode::UnknownOutcome) else { return error };
    let Some(queries) = plant.plain_queries(&peer, &namespace) else { return error };
    let state = plant.what_shows(&peer, &namespace) == Shows::State;
    error.fix(look_first(&peer, &namespace, &queries, state))
}

/// A refusal that leaves a command in doubt of which nothing came back.
pub(super) fn in_doubt(error: ToolError, peer: &str, namespace: &str) -> ToolError {
    let fix = fix(ErrorCode::UnknownOutcome).unwrap_or_default().replace("PEER", &word(peer));
    error.settle_with(&read_state(peer, namespace)).fix(fix)
}

/// What to do instead of repeating a command of this namespace.
fn look_first(peer: &str, namespace: &str, queries: &[String], state: bool) -> String {
    const SHOWN: usize = 4;
    let typed = |query: &String| format!("plantbridge call {} {}", word(peer), word(&format!("{namespace}.{query}")));
    let calls: Vec<String> = queries.iter().take(SHOWN).map(typed).collect();
    let look = match (calls.is_empty(), state) {
        (false, _) => format!("look at what the plant holds first: {}", calls.join(" or ")),
        (true, true) => format!(
            "look at what the plant holds first: {} publishes its state, which an MCP client can read (plantbridge mcp)",
            word(namespace)
        ),
        (true, false) => "nothing this namespace declares shows what became of it: look at the plant itself".to_owned(),
    };
    format!("do not repeat it; {look}")
}

/// A name as it is typed into a shell.
fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// The next step after this code; `None` where what the verb says is right for people as well.
fn fix(code: ErrorCode) -> Option<&'static str> {
    let fix = match code {
        ErrorCode::UnknownPeer => "plantbridge peers lists who is there; --wait MS waits longer for one that is coming",
        ErrorCode::PeerUndescribed => "plantbridge call reaches it unchecked, if its methods are known",
        ErrorCode::UnknownNamespace | ErrorCode::UnknownMethod | ErrorCode::UnknownEvent => {
            "plantbridge describe PEER shows what there is"
        }
        ErrorCode::UnknownOutcome => {
            "do not repeat it; look at what the plant holds first: plantbridge describe PEER shows what can be read"
        }
        ErrorCode::ReadOnly => "leave out --read-only and PLANTBRIDGE_READ_ONLY, if it is right to change something",
        ErrorCode::NotInControl => {
            "take control and act under one name, if that is right: plantbridge call PEER 'NAMESPACE.$acquire' 60000 --name ME, then the call with --name ME"
        }
        ErrorCode::PeerRefused => "change what the peer names, if anything",
        ErrorCode::DeadlineExceeded => "try again, with a longer --timeout",
        ErrorCode::FakeFailed => {
            "see that the broker or the hub is there and takes one more peer, of another name, then try again"
        }
        ErrorCode::NameInUse => "choose another with --name, or end what has this one",
        ErrorCode::LimitReached => "end one of what is running, then try again",
        ErrorCode::NotAComponent | ErrorCode::NoSnapshot | ErrorCode::NoSetter | ErrorCode::AmbiguousSetter => {
            "plantbridge describe PEER shows what there is and what sets it"
        }
        _ => return None,
    };
    Some(fix)
}

/// The next step where no link is up, by what keeps them down.
fn unavailable(links: &[(String, LinkState)]) -> &'static str {
    let any = |kinds: &[DownKind]| {
        let is = |link: &LinkState| link.down.as_ref().is_some_and(|down| kinds.contains(&down.kind));
        links.iter().any(|(_, link)| is(link))
    };
    if any(&[DownKind::Displaced, DownKind::NameTaken]) {
        "another peer may hold this name; choose another --name"
    } else if any(&[DownKind::Tls]) {
        "trust what is shown, if it is the right one: --ca FILE names the authority that made it, --server-name NAME what it is for, --pin SHA256 this very certificate; --client-cert and --client-key are ours"
    } else {
        "see that the broker or the hub runs and lets you in: --broker with PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD, --hub with PLANTBRIDGE_TOKEN; --wait MS waits longer for it"
    }
}

/// Whom the refusal is about.
fn peer_of(error: &PlantError) -> Option<String> {
    let peer = match error {
        PlantError::UnknownPeer { peer, .. } => return Some(peer.clone()),
        PlantError::Undescribed { peer, .. }
        | PlantError::UnknownNamespace { peer, .. }
        | PlantError::UnknownMethod { peer, .. }
        | PlantError::NoStore { peer, .. }
        | PlantError::UnknownEvent { peer, .. } => peer,
        PlantError::Call { target, .. }
        | PlantError::NotInControl { target, .. }
        | PlantError::OddAnswer { target, .. }
        | PlantError::ReadOnly { target, .. } => &target.peer,
        _ => return None,
    };
    Some(peer.to_string())
}

/// Which of its namespaces.
fn namespace_of(error: &PlantError) -> Option<String> {
    match error {
        PlantError::Call { target, .. } | PlantError::NotInControl { target, .. } => Some(target.namespace.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::Effect,
        fake::Taken,
        mcp::tools,
        node::{CallError, Doubt, NotSent},
        plant::{Target, Unsaid},
        wire::{PeerName, RemoteError},
    };

    fn oven() -> PeerName {
        PeerName::configured("oven-1").unwrap()
    }

    fn failed(observes: bool, error: CallError) -> PlantError {
        let target = Target { peer: oven(), namespace: "oven".into(), method: "set".into() };
        PlantError::Call { target, checked: true, observes, idempotency_key: None, error }
    }

    /// Everything a subcommand for people can run into.
    fn refusals() -> Vec<PlantError> {
        let target = || Target { peer: oven(), namespace: "oven".into(), method: "set".into() };
        let refused = |code: &str| {
            CallError::Refused(RemoteError { code: code.into(), name: String::new(), message: "no".into() })
        };
        let (peer, namespace, alternatives) = (oven(), String::from("oven"), vec![String::from("x")]);
        let mut all = vec![
            PlantError::BadArgument { argument: "/event".into(), expected: "x".into(), problem: "y".into() },
            PlantError::NetworkUnavailable { links: Vec::new() },
            PlantError::UnknownPeer { peer: "x".into(), alternatives: alternatives.clone() },
            PlantError::Undescribed { peer: peer.clone(), unsaid: Unsaid { why: "no".into(), unanswered: false } },
            PlantError::Undescribed { peer: peer.clone(), unsaid: Unsaid { why: "no".into(), unanswered: true } },
            PlantError::UnknownNamespace {
                peer: peer.clone(),
                namespace: "x".into(),
                alternatives: alternatives.clone(),
            },
            PlantError::UnknownMethod {
                peer: peer.clone(),
                namespace: namespace.clone(),
                method: "x".into(),
                alternatives: alternatives.clone(),
                hint: "",
            },
            PlantError::UnknownEvent { peer, namespace, event: "x".into(), alternatives },
            PlantError::InvalidParams {
                target: target(),
                argument: "/args/0".into(),
                problem: "y".into(),
                signature: "set(…)".into(),
            },
            PlantError::ReadOnly { target: target(), effect: Effect::Operate, of_client: false },
            PlantError::NotInControl { target: target(), holder: None, other_client: None, lost: None, refusal: None },
            PlantError::Unwanted,
            PlantError::NameInUse { name: oven(), who: Taken::Peer },
            PlantError::InvalidContract { contract: "x.json".into(), problems: Vec::new() },
            PlantError::InvalidScript { problems: Vec::new() },
            PlantError::ExecDisabled { uses: vec!["handlers"] },
            PlantError::FakeFailed { name: oven(), why: "no".into(), lasts: false },
            PlantError::CannotRead { file: "x.json".into(), why: "no".into() },
            failed(true, CallError::UnknownOutcome(Doubt::Closing)),
            failed(true, CallError::UnknownOutcome(Doubt::Abandoned)),
            failed(false, CallError::UnknownOutcome(Doubt::Closing)),
            failed(false, CallError::NotSent(NotSent::LinkDown)),
            failed(false, CallError::NotSent(NotSent::TooManyCalls { limit: 1 })),
        ];
        for code in ["Busy", "Superseded", "Forbidden", "Exception", "OwnershipChanged", "NotInControl", "Weather"] {
            all.push(failed(false, refused(code)));
        }
        all
    }

    /// A person has no tools to call: every next step is one of theirs.
    #[test]
    fn no_next_step_names_a_tool() {
        let tools: Vec<&str> = tools::all().iter().map(|tool| tool.spec().name).collect();
        for refusal in refusals() {
            let told = for_people(refusal).to_json();
            let fix = told["fix"].as_str().unwrap();
            let named = tools.iter().find(|tool| fix.contains(**tool));
            assert!(
                named.is_none()
                    && !fix.contains("wait_seconds")
                    && !fix.contains("PEER ")
                    && !fix.contains("NAMESPACE"),
                "{told:?}"
            );
        }
    }

    /// Of a command in doubt, what is named can be typed, and shows something if anything does.
    #[test]
    fn what_settles_a_doubt_can_be_typed() {
        let told = look_first("oven-1", "oven", &["read".into(), "temperature".into()], true);
        assert!(told.contains("call oven-1 oven.read or plantbridge call oven-1 oven.temperature"), "{told}");
        let told = look_first("it's", "$odd one", &["read".into()], false);
        assert!(told.contains(r"call 'it'\''s' '$odd one.read'"), "{told}");
        assert!(look_first("p", "oven", &[], true).contains("oven publishes its state"));
        let told = look_first("p", "oven", &[], false);
        assert!(told.contains("nothing") && !told.contains("plantbridge"), "{told}");
    }

    /// The next step names the peer it is about.
    #[test]
    fn the_next_step_names_the_peer() {
        let told = for_people(failed(false, CallError::UnknownOutcome(Doubt::Closing))).to_json();
        assert!(told["fix"].as_str().unwrap().contains("describe oven-1"), "{told:?}");
        assert_eq!((&told["outcome"], &told["retryable"]), (&"unknown".into(), &false.into()));
    }
}
