//! Prompts over a session: which are there, what they say, what they refuse.

use plantbridge::mcp::{Offer, tools};
use serde_json::{Value as Json, json};

use crate::harness::{Client, Setup, nowhere};

async fn offered(offer: Offer) -> (Client, Vec<String>) {
    let mut client = Client::over(nowhere(), tools::all(), &Setup { offer, ..Setup::default() });
    client.initialize("2025-06-18").await;
    let list = client.ask("prompts/list", &json!({})).await["result"].take();
    let name = |prompt: &Json| prompt["name"].as_str().unwrap().to_owned();
    let names = list["prompts"].as_array().unwrap().iter().map(name).collect();
    (client, names)
}

const ALL: Offer = Offer { read_only: false, contracts: true, scripts: false, exec: false };

/// A prompt is there where the tools it speaks of are, and says only what is there.
#[tokio::test]
async fn a_prompt_is_offered_with_its_tools() {
    let (_, all) = offered(ALL).await;
    assert_eq!(all, ["inspect_plant", "why_is_it", "try_on_a_fake", "check_device", "hand_over"]);
    let (mut client, without) = offered(Offer::default()).await;
    assert_eq!(without, ["inspect_plant", "why_is_it", "hand_over"]);
    let refused = client.ask("prompts/get", &json!({"name": "check_device"})).await;
    assert_eq!(refused["error"]["code"], -32602);
    let (mut client, looking) = offered(Offer { read_only: true, ..ALL }).await;
    assert_eq!(looking, ["inspect_plant", "why_is_it", "check_device", "hand_over"]);
    let told = client.ask("prompts/get", &json!({"name": "hand_over"})).await["result"].take();
    assert!(!told.to_string().contains("release_control"), "{told}");
}

/// What a prompt says, and how it is listed.
#[tokio::test]
async fn the_words_of_each_prompt() {
    let (mut client, names) = offered(ALL).await;
    let list = client.ask("prompts/list", &json!({})).await["result"].take();
    insta::assert_json_snapshot!("prompts_list", list);
    let given = json!({"peer": "oven-1", "question": "Why is it cold?", "contract": "oven", "goal": "Bake once."});
    for name in names {
        let listed = list["prompts"].as_array().unwrap().iter().find(|prompt| prompt["name"] == *name).unwrap();
        let wanted = listed["arguments"].as_array().into_iter().flatten().map(|argument| {
            let argument = argument["name"].as_str().unwrap();
            (argument.to_owned(), given[argument].clone())
        });
        let arguments: Json = wanted.collect::<serde_json::Map<_, _>>().into();
        let told = client.ask("prompts/get", &json!({"name": name, "arguments": arguments})).await["result"].take();
        assert_eq!((&told["messages"][0]["role"], told["messages"].as_array().unwrap().len()), (&json!("user"), 1));
        insta::assert_snapshot!(format!("prompt_{name}"), told["messages"][0]["content"]["text"].as_str().unwrap());
    }
}

/// What is given is bounded, complete, and nothing else is taken.
#[tokio::test]
async fn what_a_prompt_is_given_is_checked() {
    let (mut client, _) = offered(ALL).await;
    for (arguments, says) in [
        (json!({}), "arguments.peer is missing"),
        (json!({"peer": "oven"}), "arguments.question is missing"),
        (json!({"peer": 5, "question": "x"}), "arguments.peer must be a text"),
        (json!({"peer": " ", "question": "x"}), "arguments.peer is empty"),
        (json!({"peer": "x".repeat(257), "question": "x"}), "at most 256"),
        (json!({"peer": "x", "question": "é".repeat(1_025)}), "at most 2048"),
        (json!({"peer": "x", "question": "x", "tone\u{202e}": "x"}), "no argument \"tone\""),
    ] {
        let refused = client.ask("prompts/get", &json!({"name": "why_is_it", "arguments": arguments})).await;
        let error = &refused["error"];
        assert!(error["code"] == -32602 && error["message"].as_str().unwrap().contains(says), "{says}: {error}");
    }
    for params in [json!({}), json!({"name": 5}), json!({"name": "why_is_it", "arguments": []})] {
        assert_eq!(client.ask("prompts/get", &params).await["error"]["code"], -32602, "{params}");
    }
    let refused = client.ask("prompts/get", &json!({"name": "why_is"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("why_is_it"), "{refused}");
    assert_eq!(client.ask("prompts/list", &json!({"cursor": "x"})).await["error"]["code"], -32602);
}

/// 2026-07-28: how long a client may keep the list; older revisions are not told.
#[tokio::test]
async fn the_list_may_be_kept() {
    let mut client = Client::over(nowhere(), tools::all(), &Setup::default());
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    }});
    let list = client.ask("prompts/list", &meta).await["result"].take();
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(3_600_000), &json!("private")));
}
