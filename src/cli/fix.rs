//! What a person does next, where a verb was refused: the codes are those of the tools, the next step is a command line.

use crate::{
    link::DownKind,
    mcp::{ErrorCode, ToolError},
    node::LinkState,
    plant::PlantError,
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
    error.fix(fix.replace("PEER", &peer.unwrap_or_else(|| "PEER".into())))
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
            PlantError::ReadOnly { target: target(), effect: Effect::Operate },
            PlantError::NotInControl { target: target(), holder: None, other_client: None, lost: None, refusal: None },
            PlantError::Unwanted,
            PlantError::NameInUse { name: oven(), who: Taken::Peer },
            PlantError::InvalidContract { contract: "x.json".into(), problems: Vec::new() },
            PlantError::InvalidScript { problems: Vec::new() },
            PlantError::ExecDisabled { uses: vec!["handlers"] },
            PlantError::FakeFailed { name: oven(), why: "no".into() },
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

    /// The next step names the peer it is about.
    #[test]
    fn the_next_step_names_the_peer() {
        let told = for_people(failed(false, CallError::UnknownOutcome(Doubt::Closing))).to_json();
        assert!(told["fix"].as_str().unwrap().contains("describe oven-1"), "{told:?}");
        assert_eq!((&told["outcome"], &told["retryable"]), (&"unknown".into(), &false.into()));
    }
}
