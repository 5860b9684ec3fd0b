//! What could not be done with a script, here or on another node, as the error object: the part of `refusal` that is about
//! programs. No path of this machine is in it.

use serde_json::{Map, json};

use super::{ErrorCode, NextCall, Outcome, ToolError, refusal::LINK_RETRY};
use crate::{
    node::Doubt,
    plant::{ScriptTrouble, Target, nearest},
    script::{Said, ScriptFault},
    wire::RemoteError,
};

pub(super) fn of_scripts(trouble: ScriptTrouble, message: String) -> ToolError {
    match trouble {
        ScriptTrouble::Here(fault) => of_fault(fault, message),
        ScriptTrouble::None => ToolError::new(ErrorCode::CannotRead, message)
            .cause("the bridge was started without --scripts")
            .fix("give `node`, the name of a node that can be scripted; or ask a person to start the bridge with --scripts")
            .outcome(Outcome::NotRun),
        ScriptTrouble::NoNode { alternatives, .. } => ToolError::new(ErrorCode::UnknownPeer, message)
            .alternatives(alternatives)
            .fix("call list_peers {} for who is there")
            .outcome(Outcome::NotRun),
        ScriptTrouble::NotScriptable { node } => ToolError::new(ErrorCode::UnknownNamespace, message)
            .cause(format!("{node} was not started with --scripts and --scriptable-by, so the namespace does not exist there"))
            .fix(format!("ask whoever runs {node} to name this bridge with --scriptable-by, or leave `node` out"))
            .outcome(Outcome::NotRun),
        ScriptTrouble::Forbidden { target, refusal } => forbidden(&target, &refusal, message),
        ScriptTrouble::Told { target, said, text, refusal } => {
            let error = of_said(&target, said, &text, &message).peer_error(&refusal.code, &refusal.message);
            if said.nothing_ran() { error.outcome(Outcome::NotRun) } else { error }
        }
        ScriptTrouble::Silent { target, looks, doubt } => silent(&target, looks, &doubt, message),
        ScriptTrouble::FarEnd { target, refusal: Some(refusal), .. } => ToolError::new(ErrorCode::InstallFailed, message)
            .cause(format!("{} began it, and then said this", target.peer))
            .problem(refusal.message.as_str())
            .peer_error(&refusal.code, &refusal.message),
        ScriptTrouble::FarEnd { target, .. } => ToolError::new(ErrorCode::UnknownOutcome, message)
            .cause("it was begun on another node, and nothing conclusive came back")
            .fix(format!("do not repeat it; see what is there: list_packages {}", json!({"node": target.peer.as_str()}))),
    }
}

/// What another node told the kind of: the same codes as here, and the next step is one on that node.
fn of_said(target: &Target, said: Said, text: &str, message: &str) -> ToolError {
    let node = target.peer.as_str();
    let at = json!({"node": node});
    let there = |code| ToolError::new(code, message);
    match said {
        Said::Argument => there(ErrorCode::BadArgument).fix("change what the message names, and call again"),
        Said::Unknown => {
            there(ErrorCode::UnknownScript).fix(format!("call list_scripts {at}, or save_script there first"))
        }
        Said::NotRunning => there(ErrorCode::UnknownScript)
            .cause("it was not started, or has ended by itself")
            .fix(format!("call list_scripts {at} for what runs, and script_output for how it ended")),
        Said::NeverStarted => there(ErrorCode::UnknownScript)
            .cause("output is kept from the start of a run on, of the last ten runs")
            .fix(format!("start_script there first; list_scripts {at} tells what there is")),
        Said::Running => there(ErrorCode::AlreadyRunning)
            .fix(format!("stop_script there first, or read what it writes with script_output, both with {at}")),
        Said::Limit => there(ErrorCode::LimitReached)
            .fix(format!("end or delete one that is not needed: list_scripts {at}, then stop_script or delete_script")),
        Said::Toolchain => there(ErrorCode::InvalidScript)
            .cause(format!("what would run it on {node} is missing, too old or broken"))
            .fix(format!("do what the message says, on the machine of {node}: ask whoever runs it")),
        Said::Packager => there(ErrorCode::InstallFailed)
            .cause(format!("the package manager cannot be run on {node}"))
            .problem(text)
            .fix(format!("do what `problem` says, on the machine of {node}: ask whoever runs it")),
        Said::Start => there(ErrorCode::InvalidScript)
            .cause("its process could not be started")
            .fix(format!("ask whoever runs {node} to look at its machine")),
        Said::File => there(ErrorCode::CannotWrite)
            .cause("a file in the directory of scripts is not what it should be")
            .fix(format!("if it is not the name, ask whoever runs {node} to look at its directory of scripts")),
        Said::Closing => {
            there(ErrorCode::PeerRefused).fix(format!("{node} is ending; call again once list_peers shows it anew"))
        }
        Said::Install => {
            there(ErrorCode::InstallFailed).cause(format!("{node} began it, and then said this")).problem(text)
        }
        Said::Cancelled => there(ErrorCode::Cancelled).fix(format!("call list_packages {at} for what is there")),
    }
}

/// A node that is there and says nothing most often does not believe us: what it does not believe it throws away unanswered.
fn silent(target: &Target, looks: bool, doubt: &Doubt, message: String) -> ToolError {
    let node = target.peer.as_str();
    let cause = format!(
        "likely {node} takes only signed frames and does not believe this bridge, which signs none or is not in its key file; else \
         it hangs"
    );
    let trust = format!(
        "a person must start this bridge with --sign and its key file, list it in the key file of {node}, and name it there with \
         --scriptable-by"
    );
    match doubt {
        Doubt::Timeout(_) | Doubt::Abandoned if looks => ToolError::new(ErrorCode::DeadlineExceeded, message)
            .cause(cause)
            .fix(format!("nothing was changed; call again, and if it stays silent, {trust}")),
        Doubt::LinkLost(_) | Doubt::Closing if looks => {
            ToolError::new(ErrorCode::NetworkUnavailable, message).retry_after(LINK_RETRY)
        }
        Doubt::Timeout(_) | Doubt::Abandoned | Doubt::LinkLost(_) | Doubt::Closing => {
            let packages = matches!(target.method.as_str(), "addPackage" | "removePackage");
            let tool = if packages { "list_packages" } else { "list_scripts" };
            let arguments = Map::from_iter([("node".to_owned(), node.into())]);
            let error = ToolError::new(ErrorCode::UnknownOutcome, message).fix(format!(
                "do not repeat it; see what is there: {tool} {}. If that is not answered either, {trust}",
                json!({"node": node})
            ));
            let error = error.settle_with(&NextCall::new(tool, arguments));
            if matches!(doubt, Doubt::Timeout(_)) { error.cause(cause) } else { error }
        }
    }
}

/// The far node decides, and nothing here is to be configured (tools.md 6).
fn forbidden(target: &Target, refusal: &RemoteError, message: String) -> ToolError {
    let node = &target.peer;
    ToolError::new(ErrorCode::PeerRefused, message)
        .cause(format!("{node} has not named this bridge, or cannot be sure that it is this bridge"))
        .fix(format!(
            "whoever runs {node} must name this bridge with --scriptable-by, and both need --sign with a key file that lists the \
             other; keys travel by hand, never over the network"
        ))
        .peer_error(&refusal.code, &refusal.message)
        .outcome(Outcome::NotRun)
}

fn of_fault(fault: ScriptFault, message: String) -> ToolError {
    let not_run = |code| ToolError::new(code, message.clone()).outcome(Outcome::NotRun);
    match fault {
        ScriptFault::Name { fault, .. } => {
            not_run(ErrorCode::BadArgument).argument("/name").expected(fault.to_string())
        }
        ScriptFault::Unknown { name, names } => not_run(ErrorCode::UnknownScript)
            .alternatives(nearest(&name, names.iter().map(String::as_str)))
            .fix("call list_scripts {}, or save_script first"),
        ScriptFault::Running { name, .. } => not_run(ErrorCode::AlreadyRunning).fix(format!(
            "stop_script {0} first, or read what it writes with script_output {0}",
            json!({"name": name})
        )),
        ScriptFault::NotRunning { name } => not_run(ErrorCode::UnknownScript)
            .cause("it was not started, or has ended by itself")
            .fix(format!("script_output {} tells how it ended; list_scripts {{}} what runs", json!({"name": name}))),
        ScriptFault::NeverStarted { .. } => not_run(ErrorCode::UnknownScript)
            .cause("output is kept from the start of a run on, of the last ten runs of a script and the last 256 of all")
            .fix("start_script first; list_scripts {} tells what there is"),
        ScriptFault::TooMany { limit } => not_run(ErrorCode::LimitReached)
            .detail("limit", limit)
            .fix("stop one that is not needed: list_scripts {}, then stop_script"),
        ScriptFault::Full { limit } => not_run(ErrorCode::LimitReached)
            .detail("limit", limit)
            .fix("delete one that is not needed: list_scripts {}, then delete_script"),
        ScriptFault::Toolchain { fix, .. } => {
            not_run(ErrorCode::InvalidScript).cause("what would run it is missing, too old or broken").fix(fix)
        }
        ScriptFault::Packager { manager, why, fix } => {
            not_run(ErrorCode::InstallFailed).cause(format!("{manager} cannot be run here")).problem(why).fix(fix)
        }
        ScriptFault::Start { .. } => not_run(ErrorCode::InvalidScript)
            .cause("its process could not be started")
            .fix("ask a person to look at the machine of the bridge"),
        ScriptFault::File { .. } | ScriptFault::Content { .. } => not_run(ErrorCode::CannotWrite)
            .cause("a file in the directory of scripts is not what it should be")
            .fix("if it is not the name, ask a person to look at the directory the bridge was given with --scripts"),
        ScriptFault::Unreadable { .. } => not_run(ErrorCode::CannotRead)
            .cause("a file in the directory of scripts is not what it should be")
            .fix("save_script writes it anew if its name is free; else ask a person to look at the directory the bridge was given with --scripts"),
        ScriptFault::Needed { .. } => {
            not_run(ErrorCode::BadArgument).argument("/name").expected("a package that list_packages shows")
        }
        ScriptFault::NotInstalled { .. } => not_run(ErrorCode::BadArgument)
            .argument("/name")
            .expected("a package that list_packages shows")
            .fix("list_packages {} tells what there is, and whose"),
        ScriptFault::Closing => not_run(ErrorCode::Cancelled),
        ScriptFault::Spec { why, .. } => not_run(ErrorCode::BadArgument)
            .argument("/spec")
            .expected(why)
            .fix("name a package of the registry: mqtt, @scope/name, name@^1.2 for npm; name==1.2 for pip"),
        ScriptFault::Install { output, .. } => ToolError::new(ErrorCode::InstallFailed, message)
            .problem(if output.is_empty() { "it said nothing".to_owned() } else { output }),
        ScriptFault::Cancelled { .. } => {
            ToolError::new(ErrorCode::Cancelled, message).fix("call list_packages {} for what is there")
        }
    }
}
