//! No secret is ever written: not to standard error at its loudest, not into a result, not into a refusal to start.

use std::process::Command;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{Bridge, Broker, BrokerOptions, Caller, Hub, Keys, Kind, PLANTBRIDGE, Peer, error_of, structured};

/// Every variable that holds a secret, whether this build reads it or not.
const VARIABLES: [(&str, &str); 8] = [
    ("PLANTBRIDGE_MQTT_USERNAME", "plant"),
    ("PLANTBRIDGE_MQTT_PASSWORD", "pässword-of-the-broker"),
    ("SOURCE_RPC_MQTT_USERNAME", "other"),
    ("SOURCE_RPC_MQTT_PASSWORD", "password-of-the-other-name"),
    ("PLANTBRIDGE_TOKEN", "token-of-the-hub"),
    ("SOURCE_RPC_TOKEN", "token-of-the-hub-by-its-other-name"),
    ("PLANTBRIDGE_MCP_TOKEN", "token-of-the-door"),
    ("SOURCE_RPC_MCP_TOKEN", "token-of-the-door-by-its-other-name"),
];

/// The values of [`VARIABLES`] that are secret.
fn variables() -> impl Iterator<Item = String> {
    let secret = |(name, _): &&(&str, &str)| !name.ends_with("USERNAME");
    VARIABLES.iter().filter(secret).map(|(_, value)| (*value).to_owned())
}

/// Fails if one of the secrets stands in `written`, as it is or in a form that gives it away.
fn no_secret(written: &str, secrets: &[String]) {
    let lower = written.to_lowercase();
    for secret in secrets {
        // Keys are base64 already; their bytes are secret in every other form too.
        let decoded = BASE64_STANDARD.decode(secret).ok();
        for bytes in [Some(secret.as_bytes().to_vec()), decoded].into_iter().flatten() {
            let hex = hex::encode(&bytes);
            let listed = bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            let forms = [BASE64_STANDARD_NO_PAD.encode(&bytes), BASE64_URL_SAFE_NO_PAD.encode(&bytes), listed];
            let found = forms.iter().find(|form| written.contains(form.as_str()));
            assert!(found.is_none(), "{found:?}, a form of {secret:?}, was written:\n{written}");
            assert!(!lower.contains(&hex), "{secret:?} was written in hexadecimal:\n{written}");
        }
        assert!(!written.contains(secret.as_str()), "{secret:?} was written:\n{written}");
    }
}

fn boiler() -> Value {
    json!({"schema": 1, "version": "1", "namespaces": {"boiler": {"version": "4", "methods": {"read": {"params": []}}}}})
}

/// The key of a fake, as the rustdoc of its making tells: the secret, or the seed of a pair.
fn key_of_fake(kind: Kind, key: &[u8], name: &str) -> String {
    let tag = |key: &[u8], bytes: &[u8]| {
        Hmac::<Sha256>::new_from_slice(key).expect("any length will do").chain_update(bytes).finalize().into_bytes()
    };
    let kind = if kind == Kind::Hmac { "hmac-sha256" } else { "ed25519" };
    let info = [kind.as_bytes(), &[0], name.as_bytes(), &[1]].concat();
    BASE64_STANDARD.encode(tag(&tag(b"plantbridge/kin/1", key), &info))
}

/// Everything a bridge wrote: its results, what nobody waited for, standard error.
fn written(mut bridge: Bridge, results: &[Value]) -> String {
    bridge.hang_up();
    let leftover = bridge.leftover();
    format!("{results:?}{leftover:?}{}", bridge.stderr())
}

/// The search finds what it looks for.
#[test]
#[should_panic(expected = "a form of")]
fn the_search_finds_a_secret_in_another_form() {
    no_secret(&format!("x{}y", BASE64_STANDARD_NO_PAD.encode("hunter2")), &["hunter2".to_owned()]);
}

/// A bridge that works, at its loudest, with every failure a call can have, and frames that are not believed.
#[test]
fn a_working_bridge_writes_no_secret() {
    let account = Some((VARIABLES[0].1.to_owned(), VARIABLES[1].1.to_owned()));
    for kind in [Kind::Hmac, Kind::Ed25519] {
        let broker = Broker::start(&BrokerOptions { account: account.clone(), ..BrokerOptions::default() });
        let keys = Keys::of(kind, &["bridge-test", "scale-1", "hmi"]);
        let login = ["--username", VARIABLES[0].1, "--password", VARIABLES[1].1];
        let (scale, hmi) = (keys.file("scale-1"), keys.file("hmi"));
        let options: Vec<&str> = login.iter().copied().chain(["--sign", &scale]).collect();
        let _peer = Peer::join(&broker, "scale-1", &options);
        let loud = [&VARIABLES[..], &[("RUST_LOG", "trace")]].concat();
        let mut bridge = Bridge::start(&["--broker", &broker.url(), "--sign", &keys.file("bridge-test")], &loud);
        let mut results = vec![bridge.call_once_joined("list_peers", &json!({}))];
        results.push(bridge.call_method(["scale-1", "scale", "add"], &json!([1, 2]), 5000));
        results.push(bridge.call_method(["scale-1", "scale", "fail"], &json!(["Forbidden"]), 5000));
        results.push(bridge.call_method(["scale-1", "scale", "nothing"], &json!([]), 5000));
        results.push(bridge.call_method(["nobody", "scale", "add"], &json!([]), 500));
        results.push(bridge.call("describe_peer", &json!({"peer": 7})));
        results.push(bridge.call("no_tool", &json!({})));
        results.push(bridge.call_method(["scale-1", "scale", "hold"], &json!([1]), 300));
        // A fake has a key of its own, which is as secret.
        let own = std::fs::read_to_string(keys.path("bridge-test")).expect("it was made");
        let own: Value = serde_json::from_str(&own).expect("it is JSON");
        let fakes = match kind {
            Kind::Hmac => own["secret"].as_str().map(|secret| secret.as_bytes().to_vec()),
            Kind::Ed25519 => own["ed25519"]["seed"].as_str().and_then(|seed| BASE64_STANDARD.decode(seed).ok()),
        };
        let fakes = key_of_fake(kind, &fakes.expect("a key"), "double");
        let listed = keys.of_fake("bridge-test", "double")["double"].clone();
        assert!(kind == Kind::Ed25519 || listed == json!(fakes), "the key is another");
        results.push(bridge.call("start_fake", &json!({"name": "double", "schema": boiler()})));
        assert_eq!(structured(&results[results.len() - 1])["peer"], "double");
        results.push(bridge.call_method(["double", "boiler", "read"], &json!([]), 5000));
        results.push(bridge.call("list_fakes", &json!({})));
        let options: Vec<&str> = login.iter().copied().chain(["--sign", &hmi]).collect();
        let mut caller = Caller::join(&broker.url(), "hmi", &options);
        for bend in ["unsigned", "re-signed", "stale", "replayed", "none"] {
            let call = json!({"peer": "bridge-test", "path": "msgrpc", "method": "describe", "ttl": 300, "bend": bend});
            let call = call.as_object().expect("an object").clone();
            let mut wish = json!({"do": "call"});
            wish.as_object_mut().expect("an object").extend(call);
            caller.do_it(wish);
        }
        let secrets: Vec<String> = variables().chain(keys.secrets()).chain([fakes]).collect();
        let written = written(bridge, &results);
        assert!(written.contains("not believed") && written.contains("rumqttc"), "it is not at its loudest");
        no_secret(&written, &secrets);
    }
}

/// On a hub, at its loudest: the token, what vouches for fakes, and each credential that was minted.
#[test]
fn a_bridge_on_a_hub_writes_no_secret() {
    let (token, derive) = ("token-of-the-file", "what-vouches-for-fakes");
    let tokens = json!({token: "bridge-test"}).to_string();
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let file = folder.path().join("auth.json");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::write(&file, json!({"token": token, "derive": derive}).to_string()).expect("it can be written");
    std::fs::set_permissions(&file, mode).expect("the file is ours");
    let auth = file.display().to_string();
    // A hub that takes its word, and one that does not.
    for known in [derive, "something else"] {
        let issuers = json!({"bridge-test": known}).to_string();
        let mut hub = Hub::start(&["--tokens", &tokens, "--issuers", &issuers]);
        let loud = [&VARIABLES[..], &[("RUST_LOG", "trace")]].concat();
        let mut bridge = Bridge::start(&["--hub", &hub.url, "--name", "bridge-test", "--auth", &auth], &loud);
        let mut results = vec![bridge.call_once_joined("list_peers", &json!({}))];
        results.push(bridge.call("start_fake", &json!({"name": "double", "schema": boiler()})));
        results.push(bridge.call_method(["double", "boiler", "read"], &json!([]), 2000));
        results.push(bridge.call("list_fakes", &json!({})));
        let presented = hub.child.heard(|line| line["presented"].as_str().map(str::to_owned));
        let minted = presented.iter().filter(|token| token.starts_with("srpc-d1.")).count();
        assert!(presented.len() > minted, "the bridge was let in");
        assert_eq!(minted, usize::from(known == derive), "the fake is let in if the hub takes our word");
        let signature = |token: &String| token.rsplit('.').next().map(str::to_owned);
        let signatures: Vec<String> = presented.iter().filter_map(signature).collect();
        let fixed = [token.to_owned(), derive.to_owned()];
        let secrets: Vec<String> = variables().chain(fixed).chain(presented).chain(signatures).collect();
        no_secret(&written(bridge, &results), &secrets);
    }
}

/// A broker that refuses the account, and one that is not there.
#[test]
fn a_refused_account_is_told_without_it() {
    let account = Some(("plant".to_owned(), "right".to_owned()));
    let broker = Broker::start(&BrokerOptions { account, ..BrokerOptions::default() });
    for url in [broker.url(), "mqtt://127.0.0.1:1".to_owned()] {
        let loud = [&VARIABLES[..], &[("RUST_LOG", "trace")]].concat();
        let mut bridge = Bridge::start(&["--broker", &url], &loud);
        let mut results = Vec::new();
        loop {
            let result = bridge.call("list_peers", &json!({}));
            let joining = error_of(&result)["links"][0]["kind"] == "joining";
            results.push(result);
            if !joining {
                break;
            }
        }
        no_secret(&written(bridge, &results), &variables().collect::<Vec<_>>());
    }
}

/// Each way not to start: one line on standard error, nothing on standard output, and no secret in either.
#[test]
fn a_refusal_to_start_holds_no_secret() {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let secret = "the-secret-of-a-key-file";
    let seed = BASE64_STANDARD.encode([0xA7; 32]);
    let files = [
        ("no json", format!("{{\"secret\": {secret}}}")),
        ("cut off", format!("{{\"secret\": \"{secret}")),
        ("a bad escape", format!("{{\"secret\": \"{secret}\\q\"}}")),
        ("another member", format!("{{\"secret\": \"{secret}\", \"peer\": \"{secret}\"}}")),
        ("a secret as a list", format!("{{\"secret\": [\"{secret}\"]}}")),
        ("twice", format!("{{\"secret\": \"{secret}\", \"secret\": \"{secret}\"}}")),
        ("both", format!("{{\"secret\": \"{secret}\", \"ed25519\": {{\"seed\": \"{seed}\"}}}}")),
        ("no pair", format!("{{\"ed25519\": {{\"seed\": \"{seed}\", \"public\": \"{seed}\"}}}}")),
        ("a long seed", format!("{{\"ed25519\": {{\"seed\": \"{seed}{seed}\"}}}}")),
        ("a peer", format!("{{\"secret\": \"{secret}\", \"peers\": {{\"oven\": {{\"secret\": [\"{secret}\"]}}}}}}")),
        ("another name", format!("{{\"name\": \"hmi\", \"secret\": \"{secret}\"}}")),
        ("the name", format!("{{\"name\": {{\"{secret}\": 1}}, \"secret\": \"{secret}\"}}")),
    ];
    let mut starts = Vec::new();
    let flag = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (number, (_, text)) in files.iter().enumerate() {
        let path = folder.path().join(format!("{number}.json"));
        std::fs::write(&path, text).expect("the scratch folder can be written");
        let path = path.display().to_string();
        starts.push((flag(&["--broker", "mqtt://127.0.0.1:1", "--name", "bridge", "--sign", &path]), Vec::new()));
    }
    let auths = [
        format!("{{\"token\": {secret}}}"),
        format!("{{\"token\": \"{secret}\\n\"}}"),
        format!("{{\"tokens\": {{\"{secret}\": \"a\"}}}}"),
        format!("{{\"token\": \"{secret}\", \"issuers\": [\"{secret}\"]}}"),
        format!("{{\"token\": \"{secret}\", \"{secret}\": 1}}"),
        format!("{{\"token\": \"{secret}\", \"derive\": \"{secret}\"}}"),
    ];
    for (number, text) in auths.iter().enumerate() {
        let path = folder.path().join(format!("auth-{number}.json"));
        std::fs::write(&path, text).expect("the scratch folder can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("the file is ours");
        let path = path.display().to_string();
        starts.push((flag(&["--hub", "http://127.0.0.1:1", "--auth", &path]), Vec::new()));
    }
    starts.push((flag(&["--broker", &format!("mqtt://plant:{secret}@127.0.0.1:1")]), Vec::new()));
    starts.push((flag(&["--broker", &format!("mqtt://127.0.0.1:1/{secret}")]), Vec::new()));
    starts.push((flag(&["--broker", "mqtt://127.0.0.1:1"]), vec![("PLANTBRIDGE_MQTT_USERNAME", "")]));
    starts.push((flag(&["--broker", "nonsense"]), Vec::new()));
    for (arguments, changed) in starts {
        let mut command = Command::new(PLANTBRIDGE);
        command.arg("mcp").args(&arguments).envs(VARIABLES).envs(changed).env("RUST_LOG", "trace");
        let output = command.output().expect("the binary can be started");
        let (said, shown) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let lines: Vec<&str> =
            said.lines().filter(|line| !line.contains("others of this machine can read it")).collect();
        assert_eq!((lines.len(), &*shown), (1, ""), "{arguments:?}: {said}");
        let secrets: Vec<String> = variables().chain([secret.to_owned(), seed.clone()]).collect();
        no_secret(&said, &secrets);
    }
}
