//! The rules, held against the record of a run.

use super::record::{Command, Left, Sample, State, Told};

/// Resident memory may grow by this factor between the first quarter of the run after its warm-up and the last one,
const GROWTH: f64 = 1.3;
/// and by this much beside, in MiB.
const ALLOWANCE: f64 = 6.0;

/// Judges what can be judged once everything is over; what is wrong is added to the violations.
pub(super) fn judge(state: &mut State, left: &Left) {
    for (call, what) in state.unanswered() {
        state.violate(Some(call), format!("{what} was never answered"));
    }
    let mut numbers: Vec<u64> = state.commands.keys().copied().collect();
    numbers.sort_unstable();
    for number in numbers {
        let Some(command) = state.commands.get(&number).cloned() else { continue };
        for what in of_command(&command) {
            state.violate(Some(command.call), format!("command {number} to {}: {what}", command.peer));
        }
    }
    for what in of_left(left).into_iter().chain(of_memory(&state.samples)) {
        state.violate(None, what);
    }
}

/// What is wrong with one command.
fn of_command(command: &Command) -> Vec<String> {
    let Command { told, arrived, ran, late, .. } = command;
    let mut wrong = Vec::new();
    if *ran > 1 {
        wrong.push(format!("ran {ran} times"));
    }
    if *arrived > 1 {
        wrong.push(format!("was sent as {arrived} calls"));
    }
    if *late {
        wrong.push("arrived after its client was told that it was not sent".to_owned());
    }
    match told {
        Some(Told::Done) if *ran == 0 => wrong.push("was answered with a result, and did not run".to_owned()),
        Some(Told::Ran) if *ran == 0 => wrong.push("is said to have run, and did not".to_owned()),
        Some(Told::Refused) if *ran > 0 => wrong.push("is said not to have run, and did".to_owned()),
        Some(Told::NotSent) if *arrived > 0 => wrong.push("is said not to have been sent, and arrived".to_owned()),
        _ => {}
    }
    wrong
}

fn of_left(left: &Left) -> Vec<String> {
    let Left { listed, held, retained, descriptors: (before, after), connections } = left;
    let mut wrong: Vec<String> = listed.iter().map(|what| format!("the bridge still lists {what}")).collect();
    wrong.extend(held.iter().cloned());
    wrong.extend(retained.iter().map(|what| format!("the broker still keeps {what}")));
    if after > before {
        wrong.push(format!("{before} descriptors before the load are {after} after it"));
    }
    if *connections > 0 {
        wrong.push(format!("{connections} connections too many are left at the broker"));
    }
    wrong
}

/// Memory and descriptors between the first and the last quarter, by their medians, so that a burst decides nothing.
fn of_memory(samples: &[Sample]) -> Vec<String> {
    let quarter = samples.len() / 4;
    let (Some(first), Some(last)) = (samples.get(..quarter), samples.get(samples.len() - quarter..)) else {
        return Vec::new();
    };
    let (Some(before), Some(after)) = (middle(first), middle(last)) else { return Vec::new() };
    let mut wrong = Vec::new();
    let bound = before.mib * GROWTH + ALLOWANCE;
    if after.mib > bound {
        wrong.push(format!("memory grew from {:.1} to {:.1} MiB; {bound:.1} are allowed", before.mib, after.mib));
    }
    // Connections come and go with the faults, some of them at any moment.
    let bound = before.descriptors + before.descriptors / 4 + 8;
    if after.descriptors > bound {
        wrong.push(format!("{} descriptors became {}; {bound} are allowed", before.descriptors, after.descriptors));
    }
    wrong
}

/// The median of each.
pub(super) fn middle(samples: &[Sample]) -> Option<Sample> {
    let mut mib: Vec<f64> = samples.iter().map(|sample| sample.mib).collect();
    let mut descriptors: Vec<usize> = samples.iter().map(|sample| sample.descriptors).collect();
    mib.sort_unstable_by(f64::total_cmp);
    descriptors.sort_unstable();
    Some(Sample { mib: *mib.get(mib.len() / 2)?, descriptors: *descriptors.get(descriptors.len() / 2)? })
}

/// The lines of the log that must not be there: a panic, or an error that is none of those a bad network brings about.
pub(super) fn of_log(log: &str) -> Vec<String> {
    let bad = |line: &&str| {
        line.contains("panicked at") || is_error(line) && !EXPECTED.iter().any(|known| line.contains(known))
    };
    log.lines().filter(bad).map(|line| format!("in the log: {}", line.chars().take(300).collect::<String>())).collect()
}

fn is_error(line: &str) -> bool {
    line.split_whitespace().take(3).any(|word| word == "ERROR")
}

/// What the bridge may call an error when the network is bad. Empty: a bad network is a warning.
const EXPECTED: [&str; 0] = [];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A run in which all went well: a command done, one refused, one not sent and one in doubt.
    fn good() -> State {
        let mut state = State::new();
        for (told, runs) in
            [(Told::Done, 1), (Told::Refused, 0), (Told::NotSent, 0), (Told::Unknown, 1), (Told::Ran, 1)]
        {
            let call = state.begin("call_method".to_owned(), Duration::from_mins(1));
            let number = state.command("p-00");
            for _ in 0..runs {
                state.arrived(number, true);
            }
            if told == Told::Refused {
                state.arrived(number, false);
            }
            state.told(number, call, told);
            state.answered(call);
        }
        for _ in 0..40 {
            state.sample(Sample { mib: 20.0, descriptors: 30 });
        }
        state
    }

    /// What is found in a run that was good but for this.
    fn found(spoil: impl FnOnce(&mut State, &mut Left)) -> Vec<String> {
        let (mut state, mut left) = (good(), Left::default());
        spoil(&mut state, &mut left);
        judge(&mut state, &left);
        state.violations.into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_good_run_has_no_violation() {
        assert_eq!(found(|_, _| ()), Vec::<String>::new());
    }

    fn finds(words: &str, spoil: impl FnOnce(&mut State, &mut Left)) {
        let found = found(spoil);
        assert!(found.iter().any(|what| what.contains(words)), "{words}: {found:?}");
    }

    #[test]
    fn a_command_that_ran_twice_is_found() {
        finds("ran 2 times", |state, _| state.arrived(1, true));
        finds("was sent as 2 calls", |state, _| state.arrived(4, true));
    }

    #[test]
    fn an_outcome_that_is_not_true_is_found() {
        finds("did not run", |state, _| state.commands.get_mut(&1).unwrap().ran = 0);
        finds("is said not to have run, and did", |state, _| state.commands.get_mut(&2).unwrap().ran = 1);
        finds("is said to have run, and did not", |state, _| state.commands.get_mut(&5).unwrap().ran = 0);
        finds("not sent", |state, _| state.arrived(3, false));
        finds("arrived after its client was told", |state, _| state.arrived(3, true));
    }

    #[test]
    fn a_call_that_is_not_answered_exactly_once_is_found() {
        finds("answered a second time", |state, _| state.answered(1));
        finds("though nobody made it", |state, _| state.answered(99));
        finds("never answered", |state, _| {
            state.begin("read_state".to_owned(), Duration::from_secs(9));
        });
        finds("is its bound", |state, _| {
            let call = state.begin("list_peers".to_owned(), Duration::ZERO);
            std::thread::yield_now();
            state.answered(call);
        });
        let cancelled = found(|state, _| {
            let call = state.begin("call_method".to_owned(), Duration::from_secs(9));
            state.cancelled(call);
        });
        assert_eq!(cancelled, Vec::<String>::new(), "who cancelled gets an answer or none");
    }

    #[test]
    fn whatever_is_left_is_found() {
        finds("still lists", |_, left| left.listed.push("watch w-1".to_owned()));
        finds("holds", |state, left| {
            state.hold("p-01", "e1", "a subscription", true);
            left.held = state.held();
        });
        finds("still keeps", |_, left| left.retained.push("presence/soak-bridge: offline".to_owned()));
        finds("descriptors before the load", |_, left| left.descriptors = (4, 5));
        finds("connections too many", |_, left| left.connections = 1);
        let given_back = found(|state, left| {
            state.hold("p-01", "e1", "a subscription", true);
            state.hold("p-02", "e2", "authority", true);
            state.hold("p-01", "e1", "a subscription", false);
            state.died("p-02", "e2");
            left.held = state.held();
        });
        assert_eq!(given_back, Vec::<String>::new());
    }

    #[test]
    fn what_the_broker_keeps_is_told_apart() {
        let mut state = State::new();
        let second = Duration::from_secs(1);
        state.taken_down("left", second, false);
        state.taken_down("slow", second, false);
        state.taken_down("cut", second, true);
        let kept = |name: &str, payload: &str| vec![(name.to_owned(), payload.to_owned())];
        for (name, payload, wrong) in [
            ("cut", "offline", false),
            ("cut", "online", true),
            ("slow", "offline", false),
            ("slow", "online", true),
            ("soak-bridge", "offline", true),
        ] {
            assert_eq!(!state.kept_wrongly(kept(name, payload)).is_empty(), wrong, "{payload} of {name}");
        }
        let names = ["left", "slow", "a", "b"];
        for name in names {
            state.taken_down(name, second, false);
        }
        let all = names.iter().flat_map(|name| kept(name, "offline")).collect();
        assert_eq!(state.kept_wrongly(all).len(), 4, "farewells that fail often");
        state.ails(true, true);
        state.taken_down("without", second, false);
        assert!(state.kept_wrongly(kept("without", "online")).is_empty());
    }

    #[test]
    fn what_grows_is_found() {
        let grow = |mib, descriptors| {
            move |state: &mut State, _: &mut Left| {
                (0..20).for_each(|_| state.sample(Sample { mib, descriptors }));
            }
        };
        finds("memory grew", grow(40.0, 30));
        finds("descriptors became", grow(20.0, 60));
        assert_eq!(found(grow(24.0, 33)), Vec::<String>::new());
    }

    #[test]
    fn a_panic_and_an_error_in_the_log_are_found() {
        let log = "thread 'main' panicked at src/x.rs:1:1:\n2026-01-01T00:00:00Z ERROR plantbridge: x\n\
                   2026-01-01T00:00:00Z  WARN plantbridge: the link is down, ERROR said the broker";
        assert_eq!(of_log(log).len(), 2);
    }
}
