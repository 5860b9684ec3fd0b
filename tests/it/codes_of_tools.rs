//! Which error codes each tool can give. docs/tools.md tells it, and every failure that any test here meets is held against it
//! ([`check`]), so that a code that is missing is found by the test that meets it.

use serde_json::Value as Json;

/// What any tool can give: it may not be offered, be called wrongly, wait too long or fail.
pub(crate) const OF_ALL: [&str; 6] = ["bad_argument", "unknown_tool", "read_only", "busy", "cancelled", "internal"];

/// What whoever asks a peer can meet.
const OF_PEERS: [&str; 6] =
    ["network_unavailable", "unknown_peer", "peer_undescribed", "deadline_exceeded", "peer_refused", "peer_busy"];

/// What whoever has a command run can meet beside that.
const OF_COMMANDS: [&str; 8] = [
    "unknown_namespace",
    "unknown_method",
    "invalid_params",
    "not_in_control",
    "superseded",
    "ownership_changed",
    "unknown_outcome",
    "limit_reached",
];

/// What a tool for scripts can meet when they are of another node.
const OF_NODES: [&str; 8] = [
    "network_unavailable",
    "unknown_peer",
    "unknown_namespace",
    "deadline_exceeded",
    "peer_refused",
    "unknown_outcome",
    "cannot_read",
    "cannot_write",
];

/// The groups of a tool, and what is its own.
type Codes = (&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

const OF_EACH: &[Codes] = &[
    ("list_peers", &[], &["network_unavailable", "stale_cursor"]),
    ("describe_peer", &[&OF_PEERS], &["unknown_namespace", "stale_cursor"]),
    ("find_capability", &[], &["network_unavailable", "stale_cursor"]),
    ("call_method", &[&OF_PEERS, &OF_COMMANDS], &[]),
    (
        "read_state",
        &[&OF_PEERS],
        &["unknown_namespace", "not_a_component", "no_snapshot", "limit_reached", "stale_cursor"],
    ),
    ("set_state", &[&OF_PEERS, &OF_COMMANDS], &["not_a_component", "no_setter", "ambiguous_setter"]),
    ("read_context", &[&OF_PEERS], &["unknown_namespace"]),
    ("list_writable", &[&OF_PEERS], &["unknown_namespace", "unknown_method", "stale_cursor"]),
    (
        "list_rows",
        &[&OF_PEERS],
        &["unknown_namespace", "unknown_method", "not_a_component", "invalid_params", "stale_cursor"],
    ),
    ("read_row", &[&OF_PEERS], &["unknown_namespace", "unknown_method", "invalid_params"]),
    ("write_row", &[&OF_PEERS, &OF_COMMANDS], &[]),
    ("watch_events", &[&OF_PEERS], &["unknown_namespace", "unknown_event", "limit_reached"]),
    (
        "start_watch",
        &[&OF_PEERS],
        &["unknown_namespace", "unknown_event", "not_a_component", "no_snapshot", "limit_reached"],
    ),
    ("read_watch", &[], &["unknown_watch", "stale_cursor"]),
    ("list_watches", &[], &["stale_cursor"]),
    ("stop_watch", &[], &["unknown_watch"]),
    ("watch_traffic", &[], &["network_unavailable", "tap_unavailable", "stale_cursor"]),
    ("read_ticket", &[], &["unknown_ticket", "deadline_exceeded"]),
    (
        "take_control",
        &[&OF_PEERS],
        &["unknown_namespace", "not_a_component", "not_in_control", "limit_reached", "unknown_outcome"],
    ),
    ("release_control", &[&OF_PEERS], &["unknown_namespace", "not_in_control", "unknown_outcome"]),
    ("check_peer", &[&OF_PEERS], &["invalid_contract", "unknown_contract", "cannot_read", "stale_cursor"]),
    ("diff_peers", &[&OF_PEERS], &["stale_cursor"]),
    ("save_contract", &[], &["invalid_contract", "limit_reached", "cannot_read", "cannot_write"]),
    ("list_contracts", &[], &["cannot_read", "stale_cursor"]),
    ("read_contract", &[], &["unknown_contract", "unknown_namespace", "cannot_read", "stale_cursor"]),
    ("delete_contract", &[], &["unknown_contract", "cannot_read", "cannot_write"]),
    (
        "start_fake",
        &[&OF_PEERS],
        &[
            "name_in_use",
            "invalid_contract",
            "unknown_contract",
            "invalid_script",
            "exec_disabled",
            "fake_failed",
            "limit_reached",
            "cannot_read",
        ],
    ),
    ("stop_fake", &[], &["unknown_fake"]),
    ("list_fakes", &[], &["stale_cursor"]),
    ("save_script", &[&OF_NODES], &["limit_reached"]),
    ("list_scripts", &[&OF_NODES], &["stale_cursor"]),
    ("read_script", &[&OF_NODES], &["unknown_script"]),
    ("start_script", &[&OF_NODES], &["unknown_script", "invalid_script", "already_running", "limit_reached"]),
    ("script_output", &[&OF_NODES], &["unknown_script", "stale_cursor"]),
    ("stop_script", &[&OF_NODES], &["unknown_script"]),
    ("delete_script", &[&OF_NODES], &["unknown_script"]),
    ("list_packages", &[&OF_NODES], &["stale_cursor"]),
    ("add_package", &[&OF_NODES], &["install_failed"]),
    ("remove_package", &[&OF_NODES], &["install_failed"]),
    ("bridge_status", &[], &[]),
];

/// The codes of a tool beside those of all; nothing for a tool of the tests.
pub(crate) fn of(tool: &str) -> Option<Vec<&'static str>> {
    let (_, groups, own) = OF_EACH.iter().find(|(name, ..)| *name == tool)?;
    Some(groups.iter().flat_map(|group| group.iter()).chain(own.iter()).copied().collect())
}

/// The tools that are told about.
pub(crate) fn tools() -> impl Iterator<Item = &'static str> {
    OF_EACH.iter().map(|(name, ..)| *name)
}

/// A failure has a code that its tool is said to give.
pub(crate) fn check(tool: &str, result: &Json) {
    // A success may tell of an error too: the one a ticket was rejected with.
    let Some(code) = result["structuredContent"]["error"]["code"].as_str().filter(|_| result["isError"] == true) else {
        return;
    };
    let known = of(tool).is_none_or(|own| own.contains(&code) || OF_ALL.contains(&code));
    assert!(known, "{tool} is not said to give {code}: tests/it/codes_of_tools.rs");
}
