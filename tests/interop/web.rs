//! MQTT through the WebSockets of a real broker, plain and over TLS, beside a stranger on its MQTT port.

use std::time::Instant;

use serde_json::json;

use crate::support::{Authority, Bridge, Broker, BrokerOptions, PATIENCE, Peer, error_of, structured};

/// W-081: calls, large ones too, through a WebSocket, and again after the broker was away.
#[test]
fn w081_a_websocket_carries_everything_and_comes_back() {
    let mut broker = Broker::start(&BrokerOptions { web: true, ..BrokerOptions::default() });
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::start(&["--broker", &broker.web_url(), "--name", "bridge-test"], &[]);
    let add = json!({"peer": "scale-1", "namespace": "scale", "method": "add", "args": [1, 2]});
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
    let large = "a".repeat(60_000);
    let echoed = bridge.call_method(["scale-1", "scale", "echo"], &json!([large]), 5_000);
    assert_eq!(structured(&echoed)["result"], json!(large));
    let held =
        bridge.begin("call_method", &json!({"peer": "scale-1", "namespace": "scale", "method": "hold", "args": [1]}));
    peer.ran("hold");
    broker.stop();
    let result = bridge.finish(held);
    assert_eq!(error_of(&result)["outcome"], "unknown", "{result}");
    broker.start_again();
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
}

/// The same over TLS: our authority, our certificate, a pin; and what is wrong is told as on the MQTT port.
#[test]
fn a_websocket_over_tls_trusts_what_was_chosen() {
    let authority = Authority::new();
    let options = BrokerOptions { tls: Some(authority.clone()), web: true, ..BrokerOptions::default() };
    let broker = Broker::start(&options);
    let file = |name: &str| authority.file(name).display().to_string();
    let ours = [file("ca"), file("client"), file("client-key"), authority.digest()];
    let url = broker.web_url();
    let start = |words: &[&str]| Bridge::start(&[&["--broker", &url, "--name", "bridge-test"], words].concat(), &[]);
    let identity = ["--client-cert", &ours[1], "--client-key", &ours[2]];
    for trust in [["--ca", &ours[0]], ["--pin", &ours[3]]] {
        let mut bridge = start(&[&trust[..], &identity].concat());
        assert_eq!(structured(&bridge.call_once_joined("list_peers", &json!({})))["matched"], 0);
    }
    for (words, kind) in [(&identity[..], "tls"), (&["--ca", &ours[0]][..], "tls")] {
        let mut bridge = start(words);
        let until = Instant::now() + PATIENCE;
        loop {
            let error = error_of(&bridge.call("list_peers", &json!({}))).clone();
            assert_eq!(error["code"], "network_unavailable", "{error}");
            if error["links"][0]["kind"] != "joining" {
                assert_eq!(error["links"][0]["kind"], kind, "{error}");
                break;
            }
            assert!(Instant::now() < until, "{error}");
        }
    }
}
