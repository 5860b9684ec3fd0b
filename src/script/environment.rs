//! What programs are told of the world (F-25): a few variables of the bridge's own environment that are named here, and
//! where the network is. No other is passed on; so no token of the bridge, and no password, reaches one.

/// Where the network is, as scripts are told. No account and no token is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The URL of the broker.
    pub broker: Option<String>,
    /// The URL of the hub.
    pub hub: Option<String>,
    /// The topic prefix.
    pub prefix: String,
}

/// Variables that any program is given if the bridge has them, beside those of the locale.
const EVERYBODY: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
];

/// Variables that package managers are given besides: where packages come from.
const PACKAGERS: [&str; 22] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_CACHE",
    "npm_config_cache",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_CACHE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
];

/// What of an environment is passed on, and to whom.
#[derive(Clone, Default)]
pub struct Inherited {
    pub(super) everybody: Vec<(String, String)>,
    pub(super) packagers: Vec<(String, String)>,
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A proxy's address may hold a password.
        let names: Vec<&str> = self.everybody.iter().chain(&self.packagers).map(|(name, _)| name.as_str()).collect();
        out.debug_tuple("Inherited").field(&names).finish()
    }
}

impl Inherited {
    /// Picks what is passed on.
    pub fn of(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut inherited = Self::default();
        for (name, value) in variables {
            if EVERYBODY.contains(&name.as_str()) || name.starts_with("LC_") {
                inherited.everybody.push((name, value));
            } else if PACKAGERS.contains(&name.as_str()) {
                inherited.packagers.push((name, value));
            }
        }
        inherited
    }

    /// What any program is given.
    pub fn everybody(&self) -> &[(String, String)] {
        &self.everybody
    }

    /// The home of this user; empty if it is not known.
    pub(super) fn home(&self) -> &str {
        self.everybody.iter().find(|(name, _)| name == "HOME").map_or("", |(_, value)| value)
    }

    /// Where programs are looked for.
    pub(super) fn path(&self) -> &str {
        self.everybody.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value)
    }
}

/// What one script is told: under the names its libraries know, and under ours.
pub(super) fn of_script(
    inherited: &Inherited,
    place: &Whereabouts,
    peer: &str,
    token: Option<&str>,
) -> Vec<(String, String)> {
    let mut all = inherited.everybody.clone();
    let told = [
        ("BROKER", place.broker.as_deref()),
        ("HUB", place.hub.as_deref()),
        ("PREFIX", Some(place.prefix.as_str())),
        ("NAME", Some(peer)),
        ("TOKEN", token),
    ];
    for (name, value) in told {
        let Some(value) = value else { continue };
        all.extend(["SOURCE_RPC", "PLANTBRIDGE"].map(|family| (format!("{family}_{name}"), value.to_owned())));
    }
    // Or a line that it prints is seen only when a buffer is full.
    all.push(("PYTHONUNBUFFERED".into(), "1".into()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-25: what is not named is not passed on, and a secret is not named.
    #[test]
    fn no_secret_is_passed_on() {
        let secrets = [
            "SOURCE_RPC_TOKEN",
            "SOURCE_RPC_TOKENS",
            "SOURCE_RPC_MQTT_PASSWORD",
            "SOURCE_RPC_MCP_TOKEN",
            "PLANTBRIDGE_TOKEN",
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
            "PLANTBRIDGE_MQTT_PASSWORD",
            "PLANTBRIDGE_MCP_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "NPM_TOKEN",
            "NODE_OPTIONS",
            "NODE_AUTH_TOKEN",
            "LD_PRELOAD",
            "PYTHONPATH",
        ];
        let plain = [("PATH", "/bin"), ("LC_ALL", "C"), ("HTTPS_PROXY", "http://user:hunter2@proxy")];
        let all = secrets.iter().map(|name| (*name, "hunter2")).chain(plain);
        let inherited = Inherited::of(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let place = Whereabouts { broker: Some("mqtt://plant:1883".into()), hub: None, prefix: "msgrpc/v2".into() };
        let given = of_script(&inherited, &place, "pump@bridge", None);
        assert!(given.iter().all(|(name, value)| value != "hunter2" && !secrets.contains(&name.as_str())), "{given:?}");
        assert!(!format!("{given:?}{inherited:?}").contains("hunter2"));
        let has = |name: &str, value: &str| given.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("PATH", "/bin") && has("LC_ALL", "C") && has("SOURCE_RPC_BROKER", "mqtt://plant:1883"));
        assert!(has("SOURCE_RPC_NAME", "pump@bridge") && has("PLANTBRIDGE_PREFIX", "msgrpc/v2"));
        assert_eq!(inherited.packagers.len(), 1);
        let minted = of_script(&inherited, &place, "pump@bridge", Some("srpc-d1.x"));
        assert!(minted.contains(&("SOURCE_RPC_TOKEN".into(), "srpc-d1.x".into())));
    }
}
