//! TLS towards a real broker: a private authority, our own certificate, and what is said when either is missing.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Authority, Bridge, Broker, BrokerOptions, PATIENCE, error_of, structured};

fn secured() -> (Broker, Authority) {
    let authority = Authority::new();
    let broker = Broker::start(&BrokerOptions { tls: Some(authority.clone()), ..BrokerOptions::default() });
    (broker, authority)
}

/// A bridge with these files of an authority.
fn start(broker: &Broker, authority: &Authority, files: &[(&str, &str)]) -> Bridge {
    let url = broker.url();
    let mut arguments = vec!["--broker".to_owned(), url, "--name".to_owned(), "bridge-test".to_owned()];
    for (flag, file) in files {
        arguments.extend([(*flag).to_owned(), authority.file(file).display().to_string()]);
    }
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
