//! TLS towards a real broker: a private authority, our own certificate, and what is said when either is missing.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Authority, Bridge, Broker, BrokerOptions, PATIENCE, PLANTBRIDGE, Shown, error_of, structured};

fn secured() -> (Broker, Authority) {
    showing(Shown::Good)
}

/// A broker that shows this certificate.
fn showing(shown: Shown) -> (Broker, Authority) {
    let authority = Authority::showing(shown);
    let broker = Broker::start(&BrokerOptions { tls: Some(authority.clone()), ..BrokerOptions::default() });
    (broker, authority)
}

/// A bridge with these files of an authority.
fn start(broker: &Broker, authority: &Authority, files: &[(&str, &str)]) -> Bridge {
    start_with(broker, authority, files, &[])
}

/// What opens a broker that wants a certificate of ours.
const OURS: [(&str, &str); 2] = [("--client-cert", "client"), ("--client-key", "client-key")];

/// The same with further words.
fn start_with(broker: &Broker, authority: &Authority, files: &[(&str, &str)], words: &[&str]) -> Bridge {
    let url = broker.url();
    let mut arguments = vec!["--broker".to_owned(), url, "--name".to_owned(), "bridge-test".to_owned()];
    for (flag, file) in files {
        arguments.extend([(*flag).to_owned(), authority.file(file).display().to_string()]);
    }
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Bridge::start(&arguments, &[])
}

/// Why the bridge is not on the network, once it is no longer just joining.
fn why_not(bridge: &mut Bridge) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let result = bridge.call("list_peers", &json!({}));
        let error = error_of(&result).clone();
        assert_eq!(error["code"], "network_unavailable", "{error}");
        if error["links"][0]["kind"] != "joining" {
            return error["links"][0].clone();
        }
        assert!(Instant::now() < until, "the cause is not named: {error}");
    }
}

/// A broker of a private authority that wants to know who comes: --ca and our certificate are enough.
#[test]
fn a_private_authority_and_our_own_certificate_open_the_door() {
    let (broker, authority) = secured();
    let all = [("--ca", "ca"), ("--client-cert", "client"), ("--client-key", "client-key")];
    let mut bridge = start(&broker, &authority, &all);
    let result = bridge.call_once_joined("list_peers", &json!({}));
    assert_eq!(structured(&result)["matched"], 0, "{result}");
}

/// What is wrong is named, and nothing goes over the line: not our authority, somebody else's, no certificate of ours.
#[test]
fn what_is_missing_is_said() {
    let (broker, authority) = secured();
    let stranger = Authority::new();
    for (authority, files) in [(&authority, &[][..]), (&stranger, &[("--ca", "ca")]), (&authority, &[("--ca", "ca")])] {
        let link = why_not(&mut start(&broker, authority, files));
        assert_eq!(link["kind"], "tls", "{link}");
    }
}

fn opens(mut bridge: Bridge) -> Bridge {
    let result = bridge.call_once_joined("list_peers", &json!({}));
    assert_eq!(structured(&result)["matched"], 0, "{result}");
    bridge
}

/// Each certificate that is not trusted has a sentence of its own, which the model reads and the operator too.
#[test]
fn each_bad_certificate_is_told_in_a_sentence() {
    let cases = [
        (Shown::Expired, "the broker's certificate expired"),
        (Shown::Early, "the broker's certificate is valid in"),
        (Shown::OtherName, "is not for 127.0.0.1, it is for \"broker.plant.example\""),
        (Shown::SelfSigned, "it is self-signed, or of a private authority"),
        (Shown::Authority, "the broker shows an authority's own certificate"),
    ];
    for (shown, sentence) in cases {
        let (broker, authority) = showing(shown);
        let mut bridge = start(&broker, &authority, &[("--ca", "ca"), OURS[0], OURS[1]]);
        let link = why_not(&mut bridge);
        assert_eq!(link["kind"], "tls", "{shown:?}: {link}");
        let detail = link["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(sentence), "{shown:?}: {detail}");
        assert!(bridge.stderr().contains(sentence), "{shown:?}: {}", bridge.stderr());
    }
}

/// A pinned certificate is trusted for what it is, whoever made it; another one is not, whoever made it. With an authority
/// named beside it, both have to be right.
#[test]
fn a_pinned_certificate_is_the_only_one() {
    for shown in [Shown::SelfSigned, Shown::OtherName, Shown::Expired, Shown::Good] {
        let (broker, authority) = showing(shown);
        opens(start_with(&broker, &authority, &OURS, &["--pin", &authority.digest()]));
    }
    let (broker, authority) = secured();
    let other = Authority::new();
    let mut bridge = start_with(&broker, &authority, &OURS, &["--pin", &other.digest()]);
    let detail = why_not(&mut bridge)["detail"].to_string();
    assert!(detail.contains("another certificate than the pinned one"), "{detail}");
    assert!(detail.contains(&authority.digest()), "what is shown is named: {detail}");
    let both = [("--ca", "ca"), OURS[0], OURS[1]];
    opens(start_with(&broker, &authority, &both, &["--pin", &authority.digest()]));
    let link = why_not(&mut start_with(&broker, &other, &both, &["--pin", &authority.digest()]));
    assert_eq!(link["kind"], "tls", "of another authority: {link}");
}

/// A certificate for another name than the address is trusted for the name that was given.
#[test]
fn the_name_of_the_server_can_be_given() {
    let (broker, authority) = showing(Shown::OtherName);
    let files = [("--ca", "ca"), OURS[0], OURS[1]];
    opens(start_with(&broker, &authority, &files, &["--server-name", "broker.plant.example"]));
    let link = why_not(&mut start_with(&broker, &authority, &files, &["--server-name", "broker.other.example"]));
    assert_eq!(link["kind"], "tls", "{link}");
}

/// Taking any certificate needs --development, and is said at the start so that nobody overlooks it.
#[test]
fn any_certificate_is_taken_only_in_development_and_loudly() {
    let (broker, authority) = showing(Shown::SelfSigned);
    let bridge = opens(start_with(&broker, &authority, &OURS, &["--insecure-tls", "--development"]));
    assert!(bridge.stderr().contains("ANY CERTIFICATE IS TAKEN"), "{}", bridge.stderr());
    let pin = authority.digest();
    for (words, wanted) in [
        (&["--insecure-tls"][..], "--development"),
        (&["--insecure-tls", "--development", "--pin", &pin], "cannot be used with"),
        (&["--pin", "00"], "64 hexadecimal digits"),
        (&["--server-name", "a:b/c"], "host name"),
    ] {
        let mut command = std::process::Command::new(PLANTBRIDGE);
        let output = command.args(["mcp", "--broker", &broker.url()]).args(words).output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(wanted) && said.lines().count() == 1, "{words:?}: {said}");
    }
    let plain = Broker::stock();
    let mut command = std::process::Command::new(PLANTBRIDGE);
    let output = command.args(["mcp", "--broker", &plain.url(), "--pin", &pin]).output().expect("it can be started");
    assert!(String::from_utf8_lossy(&output.stderr).contains("need TLS: a broker at mqtts://"));
}
