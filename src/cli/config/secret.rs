//! What must not stand in a file of settings, and where it belongs instead. The secret itself is never said.

use toml::de::DeValue;

/// Words that a key of a secret has in it, and where such a secret belongs.
const WORDS: [(&[&str], &str); 4] = [
    (
        &["mqtt", "broker", "user", "account", "login", "passw", "passphrase", "passwd", "pwd"],
        "the account at the broker belongs in PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD",
    ),
    (
        &["mcp", "door", "bearer", "client"],
        "tokens of the door belong in a file that `mcp_auth` names, or in PLANTBRIDGE_MCP_TOKEN",
    ),
    (
        &["hub", "derive", "issuer"],
        "what is presented to the hub belongs in a file that `auth` names, or in PLANTBRIDGE_TOKEN",
    ),
    (
        &["sign", "private", "seed"],
        "a key belongs in a file of its own, as `plantbridge keygen` makes it, that `sign` names",
    ),
];

/// Words that make a key that of a secret.
const SECRET: [&str; 10] =
    ["token", "passw", "passphrase", "passwd", "pwd", "secret", "credential", "bearer", "derive", "username"];

const ANYWHERE: &str = "a token of the hub belongs in a file that `auth` names or in PLANTBRIDGE_TOKEN, one of the door in a file \
                        that `mcp_auth` names or in PLANTBRIDGE_MCP_TOKEN, the account at the broker in PLANTBRIDGE_MQTT_USERNAME \
                        and PLANTBRIDGE_MQTT_PASSWORD";

/// Why a key that no setting has is refused, if by its name it is that of a secret.
pub(super) fn of_key(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let has = |word: &&str| lower.contains(*word);
    if !SECRET.iter().any(has) {
        return None;
    }
    let belongs = WORDS.iter().find(|(words, _)| words.iter().any(has)).map_or(ANYWHERE, |(_, where_to)| *where_to);
    let name = crate::mcp::text::printable(name, 64);
    Some(format!("{name}: a file of settings is no place for a secret; {belongs}"))
}

/// The same of what stands in a table.
pub(super) fn below(value: &DeValue<'_>) -> Option<String> {
    let DeValue::Table(table) = value else { return None };
    table.iter().find_map(|(name, value)| of_key(name.get_ref()).or_else(|| below(value.get_ref())))
}

/// Why a text is refused, if it is a URL that has a user in it, and so perhaps a password.
pub(super) fn of_url(text: &str) -> Option<&'static str> {
    let (_, rest) = text.split_once("://")?;
    rest.contains('@').then_some(
        "a URL here carries no user and no password; those of a broker belong in PLANTBRIDGE_MQTT_USERNAME and \
         PLANTBRIDGE_MQTT_PASSWORD, what is presented to a hub in a file that `auth` names",
    )
}
