//! The settings in force as a file of settings: what somebody gave stands as it could be read again, what nobody gave as a comment.

use std::ffi::OsString;

use serde_json::{Value as Json, json};

use super::{
    keys::Value,
    secret,
    settings::{Origin, Setting, Settings},
};
use crate::{
    cli::{ending::Failure, environment::Environment, log, out::Out},
    mcp::text,
};

/// Settings that open something, and what.
const GRANTS: [(&str, &str); 7] = [
    ("insecure_tls", "any certificate of a broker is taken"),
    ("hub_unsigned", "whoever is on the hub is heard, beside frames that are signed"),
    ("development", "what must never be on beside a plant is allowed"),
    ("allow_exec", "fakes run code that their scripts bring along"),
    ("scripts", "clients write programs and run them with every right of this user, unless it may only look"),
    ("scriptable_by", "these peers write and start programs here, over the network"),
    ("remote_scripts", "clients write and start programs at nodes that named us"),
];

/// Prints them.
pub(super) fn run(settings: &Settings, typed: &[OsString], environment: &Environment, out: Out) -> Result<(), Failure> {
    let word = typed.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let told = secrets(environment);
    if out.json {
        let opens: Vec<&str> = grants(settings).map(|(name, _)| name).collect();
        let secrets: serde_json::Map<String, Json> =
            told.iter().map(|(name, set)| ((*name).into(), json!(set))).collect();
        let all: Vec<Json> = settings.0.iter().map(as_json).collect();
        let whole = json!({"command": word, "settings": all, "opens": opens, "secrets": secrets});
        return out.say(out.line(&whole).trim_end());
    }
    out.say(&as_toml(settings, &word, &told))
}

/// The file.
pub(super) fn as_toml(settings: &Settings, word: &str, secrets: &[(&str, bool)]) -> String {
    let mut lines = vec![format!(
        "# The settings of `plantbridge {word}`, each with where it came from. This is a file of settings itself."
    )];
    let opened: Vec<String> = grants(settings).map(|(name, what)| format!("#   {name}: {what}")).collect();
    if !opened.is_empty() {
        lines.push("# WHAT IS SWITCHED ON:".into());
        lines.extend(opened);
    }
    lines.push(String::new());
    lines.extend(settings.0.iter().map(line));
    lines.push(String::new());
    lines.push("# Secrets, which are never shown:".into());
    lines.extend(secrets.iter().map(|(name, set)| format!("#   {name}: {}", if *set { "set" } else { "not set" })));
    lines.join("\n")
}

fn grants(settings: &Settings) -> impl Iterator<Item = (&'static str, &'static str)> {
    GRANTS.into_iter().filter(|(name, _)| settings.get(name).is_some_and(Setting::is_given))
}

fn secrets(environment: &Environment) -> [(&'static str, bool); 3] {
    let held = &environment.secrets;
    [
        ("PLANTBRIDGE_MQTT_USERNAME", held.mqtt.is_some()),
        ("PLANTBRIDGE_TOKEN", held.token.is_some()),
        ("PLANTBRIDGE_MCP_TOKEN", held.door.is_some()),
    ]
}

fn line(setting: &Setting) -> String {
    let name = &setting.key.name;
    if name == "log_level" && !setting.is_given() && log::of_environment().is_some() {
        return format!("# {name}: RUST_LOG decides # environment");
    }
    let origin = text::one_line(&setting.origin.to_string());
    match written(setting) {
        Err(why) => format!("# {name}: {why} # {origin}"),
        Ok(None) if setting.key.value == Value::Switch => format!("# {name} = false # {origin}"),
        Ok(None) => format!("# {name}: not set"),
        // Some have rules that hold where somebody sets them.
        Ok(Some(value)) if setting.origin == Origin::Default => format!("# {name} = {value} # {origin}"),
        Ok(Some(value)) => format!("{name} = {value} # {origin}"),
    }
}

/// The value as TOML has it; nothing where none is set.
fn written(setting: &Setting) -> Result<Option<toml::Value>, &'static str> {
    let values = setting.values.iter().map(|value| one(setting.key.value, value));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    Ok(match setting.key.many {
        true if values.is_empty() => None,
        true => Some(toml::Value::Array(values)),
        false => values.into_iter().next(),
    })
}

fn one(kind: Value, value: &OsString) -> Result<toml::Value, &'static str> {
    let value = value.to_str().ok_or("it is not UTF-8, and cannot stand in such a file")?;
    match kind {
        Value::Switch => Ok(toml::Value::Boolean(value == "true")),
        Value::Number => value.parse().map(toml::Value::Integer).map_err(|_| "it is no whole number"),
        Value::Text if secret::of_url(value).is_some() => Err("a URL with a user in it, which will be refused"),
        Value::Text | Value::Path => Ok(toml::Value::String(value.to_owned())),
    }
}

fn as_json(setting: &Setting) -> Json {
    let value = match written(setting) {
        Ok(Some(value)) => serde_json::to_value(value).unwrap_or_default(),
        Ok(None) if setting.key.value == Value::Switch => json!(false),
        Ok(None) | Err(_) => Json::Null,
    };
    let (from, at) = match &setting.origin {
        Origin::Flag => ("flag", None),
        Origin::Environment => ("environment", None),
        Origin::File(place) => ("file", Some(place.to_string())),
        Origin::Default => ("default", None),
    };
    match at {
        Some(at) => json!({"key": setting.key.name, "value": value, "from": from, "at": at}),
        None => json!({"key": setting.key.name, "value": value, "from": from}),
    }
}
