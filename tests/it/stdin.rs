//! What a client may throw at standard input (results.md 5): each case gets its answer and the session goes on.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use plantbridge::door::{outbox, stdio::Ended};
use serde_json::{Value as Json, json};
use tokio::{io::AsyncWriteExt, time::timeout};

use crate::harness::{Client, Setup};

fn nested(levels: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{}1{}}}"#,
        "[".repeat(levels - 1),
        "]".repeat(levels - 1)
    )
}

/// results.md 5, F-01, F-03, F-04: the refusals, before a session has begun and after, and then it goes on.
#[tokio::test]
async fn refused_lines_are_answered_and_the_session_goes_on() {
    type Case = (Vec<u8>, Vec<(Json, i64)>);
    let cases: Vec<Case> = vec![
        (b"null".to_vec(), vec![(json!(null), -32600)]),
        (b"17".to_vec(), vec![(json!(null), -32600)]),
        (b"\"text\"".to_vec(), vec![(json!(null), -32600)]),
        (b"{}".to_vec(), vec![(json!(null), -32600)]),
        (b"{\"id\":\"mine\"}".to_vec(), vec![(json!("mine"), -32600)]),
        (b"not json".to_vec(), vec![(json!(null), -32700)]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":12,".to_vec(), vec![(json!(12), -32700)]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":13,\"method\":\"\xE2\x82\"}".to_vec(), vec![(json!(13), -32700)]),
        (b"\xff\xfe".to_vec(), vec![(json!(null), -32700)]),
        (nested(101).into_bytes(), vec![(json!("deep"), -32600)]),
        (nested(20_000).into_bytes(), vec![(json!("deep"), -32600)]),
        (b"[]".to_vec(), vec![(json!(null), -32600)]),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}},{"method":"n"},{"jsonrpc":"2.0","id":"b","method":"ping"}]"#.to_vec(),
            vec![(json!(1), -32600), (json!("b"), -32600)],
        ),
        (br#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#.to_vec(), vec![(json!(null), -32600)]),
        (br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":null}"#.to_vec(), vec![(json!(5), -32602)]),
    ];
    let mut client = Client::new(&Setup::default());
    for begun in [false, true] {
        if begun {
            client.initialize("2025-11-25").await;
        }
        for (line, answers) in &cases {
            client.send_bytes(line).await;
            client.send_bytes(b"\r\n").await;
            for (id, code) in answers {
                let answer = client.read().await;
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (id, &json!(code)),
                    "{}",
                    String::from_utf8_lossy(line)
                );
                assert!(answer.as_object().unwrap().contains_key("id"), "the id is there even when it is null");
                assert_eq!(answer["jsonrpc"], "2.0");
            }
            assert_eq!(client.ask("ping", &json!({})).await["result"], json!({}));
        }
    }
    assert_eq!(client.switches.echoed.load(Ordering::SeqCst), 0, "nothing of this is executed");
}

/// results.md 5: a line over 32 MiB is answered with its id, skipped to its newline, and the next one is read.
#[tokio::test]
async fn a_line_of_33_mib_is_skipped() {
    let mut client = Client::begun(&Setup::default()).await;
    let beginning = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":""#;
    client.send_bytes(beginning).await;
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..33 {
        client.send_bytes(&piece).await;
    }
    client.send_bytes(b"\"}},\"id\":\"late\"}\n").await;
    let answer = client.read().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("late"), &json!(-32600)));
    client.still_there().await;
}

/// results.md 5: a notification or response before `initialize` is absorbed. The SDK would end the session.
#[tokio::test]
async fn early_notifications_and_responses_are_absorbed() {
    let mut client = Client::new(&Setup::default());
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "x"}})).await;
    assert_eq!(client.initialize("2025-06-18").await["result"]["protocolVersion"], "2025-06-18");
    client.still_there().await;
}

/// F-06, F-07, results.md 3: a call before `initialize` or without an id is never executed.
#[tokio::test]
async fn a_call_that_cannot_be_answered_is_never_executed() {
    let mut client = Client::new(&Setup::default());
    let params = json!({"name": "echo", "arguments": {"text": "x"}});
    assert_eq!(client.ask("tools/call", &params).await["error"]["code"], -32602);
    client.initialize("2025-06-18").await;
    client.send(&json!({"jsonrpc": "2.0", "method": "tools/call", "params": params})).await;
    client.still_there().await;
    assert_eq!(client.switches.echoed.load(Ordering::SeqCst), 0);
    assert_eq!(client.ask("tools/call", &params).await["result"]["structuredContent"]["text"], "x");
    assert_eq!(client.switches.echoed.load(Ordering::SeqCst), 1);
}

/// `params: null` is no params; the SDK would answer -32601.
#[tokio::test]
async fn null_params_are_no_params() {
    let mut client = Client::begun(&Setup::default()).await;
    assert!(client.ask("tools/list", &Json::Null).await["result"]["tools"].is_array());
    assert_eq!(client.ask("ping", &Json::Null).await["result"], json!({}));
    assert_eq!(client.ask("unheard/of", &Json::Null).await["error"]["code"], -32601);
}

/// However a line arrives, it is one line.
#[tokio::test]
async fn lines_may_arrive_in_pieces_and_together() {
    let mut client = Client::begun(&Setup::default()).await;
    let line = json!({"jsonrpc": "2.0", "id": "é", "method": "ping"}).to_string() + "\n\n \r\n";
    for byte in line.as_bytes() {
        client.send_bytes(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.read().await["id"], "é");
    let many: String =
        (0..500).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string() + "\n").collect();
    client.send_bytes(many.as_bytes()).await;
    let mut ids = Vec::new();
    for _ in 0..500 {
        ids.push(client.read().await["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
}

/// results.md 5: slow work never stops the reading.
#[tokio::test]
async fn slow_work_does_not_stop_the_reading() {
    let mut client = Client::begun(&Setup::default()).await;
    for at in 0..160 {
        client.start(&format!("slow-{at}"), "block", json!({})).await;
    }
    client.still_there().await;
    for _ in 0..32 {
        client.switches.begun.recv().await.unwrap();
    }
    client.start("one too many", "block", json!({})).await;
    let answer = client.read().await;
    assert_eq!(answer["id"], "one too many");
    assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "busy");
    client.switches.release.add_permits(160);
    for _ in 0..160 {
        assert_eq!(client.read().await["result"]["structuredContent"], json!({"done": true}));
    }
}

/// results.md 5: a client that does not read its answers stops the reading, and nothing it asked is lost.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_stops_the_reading() {
    let mut client = Client::begun(&Setup { pipe: 128, ..Setup::default() }).await;
    let mut sent = 0_usize;
    let stalled = loop {
        let line = format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": sent, "method": "ping", "params": {"pad": "x".repeat(4000)}})
        );
        match timeout(Duration::from_secs(5), client.input.as_mut().unwrap().write_all(line.as_bytes())).await {
            Ok(written) => written.unwrap(),
            // What of this line was written is read below; the rest follows it.
            Err(_) => break line,
        }
        sent += 1;
        assert!(sent < outbox::MAX_LINES + 64, "the reading never stopped");
    };
    assert!(sent >= outbox::MAX_LINES, "{sent} were taken before the queue was full");
    drop(stalled);
    for _ in 0..sent {
        assert_eq!(client.read().await["result"], json!({}));
    }
}

/// results.md 5: at the end of input, what runs is answered; then the session ends.
#[tokio::test]
async fn at_the_end_of_input_running_calls_are_answered() {
    let mut client = Client::begun(&Setup::default()).await;
    client.start("slow", "block", json!({})).await;
    client.switches.begun.recv().await.unwrap();
    client.send_bytes(br#"{"jsonrpc":"2.0","id":"no newline","method":"ping"}"#).await;
    client.input.take();
    assert_eq!(client.read().await["id"], "no newline");
    client.switches.release.add_permits(1);
    let answer = client.read().await;
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]), (&json!("slow"), &json!({"done": true})));
    assert!(client.output.as_mut().unwrap().next_line().await.unwrap().is_none());
    assert_eq!(client.ended().await, Ended::EndOfInput);
}

/// results.md 5: that wait is bounded. What did not end goes on by itself; its outcome is unknown.
#[tokio::test(start_paused = true)]
async fn the_wait_at_the_end_of_input_is_bounded() {
    let mut client = Client::begun(&Setup::default()).await;
    client.start("slow", "press", json!({})).await;
    client.switches.begun.recv().await.unwrap();
    let begun = tokio::time::Instant::now();
    client.input.take();
    let answer = client.read().await;
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!(
        (&error["code"], &error["outcome"], &error["retryable"]),
        (&json!("cancelled"), &json!("unknown"), &json!(false))
    );
    assert_eq!(client.switches.told.recv().await, Some("press"));
    let (server, release) = (client.server.clone(), client.switches.release.clone());
    assert_eq!(client.ended().await, Ended::EndOfInput);
    assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
    release.add_permits(1);
    server.settled().await;
}

/// Asked to stop, the door reads nothing more and waits for what runs.
#[tokio::test]
async fn asked_to_stop_it_drains_too() {
    let mut client = Client::begun(&Setup::default()).await;
    client.start("slow", "block", json!({})).await;
    client.switches.begun.recv().await.unwrap();
    client.stop.cancel();
    client.switches.release.add_permits(1);
    assert_eq!(client.read().await["id"], "slow");
    assert_eq!(client.ended().await, Ended::Stopped);
}

/// A broken output ends the session quietly, whatever runs, and input may still be open.
#[tokio::test]
async fn a_broken_output_ends_the_session() {
    let mut client = Client::begun(&Setup::default()).await;
    client.start("slow", "press", json!({})).await;
    client.switches.begun.recv().await.unwrap();
    client.output.take();
    client.request("x", "ping", &json!({})).await;
    assert_eq!(client.switches.told.recv().await, Some("press"));
    client.switches.release.add_permits(1);
    let server = client.server.clone();
    assert_eq!(client.ended().await, Ended::OutputClosed);
    server.settled().await;
}

/// A client that opens the pipes and goes away is no error.
#[tokio::test]
async fn a_client_that_says_nothing_is_no_error() {
    let mut client = Client::new(&Setup::default());
    client.input.take();
    assert_eq!(client.ended().await, Ended::EndOfInput);
}

/// results.md 5: each refused line is one line on stderr, with its first 80 printable characters and no more.
#[tokio::test]
async fn each_refusal_is_one_line_in_the_log() {
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut client = Client::begun(&Setup::default()).await;
    let long = format!("nonsense\u{1b}[31m\u{202e}{}", "z".repeat(500));
    client.send_bytes(format!("{long}\n").as_bytes()).await;
    client.send_bytes(b"[{\"id\":1},{\"id\":2},{\"id\":3}]\n").await;
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\"}\n").await;
    for _ in 0..4 {
        assert!(client.read().await["error"].is_object());
    }
    client.still_there().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].contains(&format!("line=nonsense[31m{}", "z".repeat(68))), "{log}");
    assert!(!log.contains(&"z".repeat(69)) && !log.contains(['\u{1b}', '\u{202e}']), "{log}");
    assert!(lines[1].contains("batches") && lines[2].contains("without an id"), "{log}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
