//! The skills extension (SEP-2640), in both eras.

use std::{collections::BTreeSet, num::NonZeroUsize};

use orchestra_hub::Sha256Digest;
use orchestra_mcp::{Limits, post::Post};
use serde_json::{Value, json};

use crate::{child::Server, memory};

const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Sends requests in one era.
struct Client {
    server: Server,
    stateless: bool,
}

impl Client {
    fn both(example: &str) -> [Self; 2] {
        [false, true].map(|stateless| Self {
            server: Server::session(example, "2025-11-25", "{}"),
            stateless,
        })
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut params = params;
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.server.call(&request.to_string())
    }

    fn code(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params)["error"]["code"].clone()
    }
}

#[test]
fn the_extension_is_declared_by_whoever_serves_skills_and_nobody_else_knows_its_methods() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for (example, settings) in [
            ("everything", json!({"directoryRead": true})),
            ("echo", Value::Null),
        ] {
            let mut server = Server::start(example);
            let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
            let request =
                json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            let reply = server.call(&request.to_string());
            let capabilities = &reply["result"]["capabilities"];
            assert_eq!(
                capabilities["extensions"][EXTENSION], settings,
                "{example} {revision}"
            );
            assert_eq!(capabilities["resources"].is_object(), settings.is_object());
        }
    }
    let [_, mut client] = Client::both("everything");
    let reply = client.ask("server/discover", json!({}));
    let settings = &reply["result"]["capabilities"]["extensions"][EXTENSION];
    assert_eq!(*settings, json!({"directoryRead": true}));
    for mut client in Client::both("echo") {
        for method in ["skills/list", "skills/get", "resources/directory/read"] {
            assert_eq!(
                client.code(method, json!({"uri": "skill://a"})),
                -32601,
                "{method}"
            );
        }
    }
}

#[test]
fn skills_are_listed_and_got_with_every_file_as_it_is_read() {
    for mut client in Client::both("everything") {
        let list = client.ask("skills/list", json!({}))["result"].clone();
        assert!(list.get("nextCursor").is_none());
        assert_eq!(list.get("resultType").is_some(), client.stateless);
        assert_eq!(list["ttlMs"].is_u64(), client.stateless);
        let skills = list["skills"].as_array().unwrap();
        assert_eq!(skills.len(), 3);
        for skill in skills {
            let got = client.ask("skills/get", json!({"uri": skill["uri"]}))["result"].clone();
            assert_eq!(got["skill"], *skill);
            assert_eq!(got["cacheScope"].is_string(), client.stateless);
            assert!(got.get("nextCursor").is_none());
            let mut seen = BTreeSet::new();
            for file in skill["resources"].as_array().unwrap() {
                assert!(seen.insert(file["uri"].to_string()), "{file}");
                let read = client.ask("resources/read", json!({"uri": file["uri"]}));
                let text = read["result"]["contents"][0]["text"].as_str().unwrap();
                assert_eq!(file["size"], text.len());
                assert_eq!(
                    file["digest"],
                    Sha256Digest::of(text.as_bytes()).to_string()
                );
            }
            assert!(seen.contains(&skill["uri"].to_string()));
        }
        let front = &skills[0]["frontmatter"];
        assert_eq!(front["metadata"], json!({"version": "1.0"}));
        assert_eq!(front["license"], "MIT");
    }
}

#[test]
fn directories_are_read_level_by_level() {
    for mut client in Client::both("everything") {
        let mut waiting = vec![json!("skill://test")];
        let mut files = BTreeSet::new();
        while let Some(uri) = waiting.pop() {
            let result =
                client.ask("resources/directory/read", json!({"uri": uri}))["result"].clone();
            assert_eq!(result.get("resultType").is_some(), client.stateless);
            for child in result["resources"].as_array().unwrap() {
                if child["mimeType"] == "inode/directory" {
                    waiting.push(child["uri"].clone());
                } else {
                    assert!(files.insert(child["uri"].to_string()), "{child}");
                }
            }
        }
        assert_eq!(files.len(), 5);
    }
}

#[test]
fn what_is_not_there_is_invalid_in_both_eras() {
    for mut client in Client::both("everything") {
        for (method, params) in [
            ("skills/get", json!({"uri": "skill://none/SKILL.md"})),
            ("skills/get", json!({"uri": "skill://test/test-skill"})),
            ("skills/get", json!({"uri": "test://static-text"})),
            ("skills/get", json!({})),
            ("skills/get", json!({"uri": 1})),
            ("skills/list", json!({"cursor": "made up"})),
            ("skills/list", json!({"cursor": 7})),
            ("resources/directory/read", json!({})),
            ("resources/directory/read", json!({"uri": "skill://none"})),
            (
                "resources/directory/read",
                json!({"uri": "skill://test/single-skill/SKILL.md"}),
            ),
            (
                "resources/directory/read",
                json!({"uri": "test://static-text"}),
            ),
            (
                "resources/directory/read",
                json!({"uri": "skill://test", "cursor": "made up"}),
            ),
        ] {
            assert_eq!(
                client.code(method, params.clone()),
                -32602,
                "{method} {params}"
            );
        }
        let expected = if client.stateless { -32602 } else { -32002 };
        let unread = json!({"uri": "skill://test/test-skill/none.md"});
        assert_eq!(client.code("resources/read", unread), expected);
    }
}

#[tokio::test]
async fn skills_and_directories_come_in_pages() {
    let limits = Limits {
        page: NonZeroUsize::new(1).unwrap(),
        ..Limits::default()
    };
    let post = Post::new(&memory::server(limits), "test");
    for (method, key) in [
        ("skills/list", "skills"),
        ("resources/directory/read", "resources"),
    ] {
        let mut seen = Vec::new();
        let mut params = json!({"uri": "skill://memory"});
        loop {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let reply = memory::post(&post, &request).await.unwrap();
            let items = reply["result"][key].as_array().unwrap().clone();
            assert_eq!(items.len(), 1, "{reply}");
            seen.push(items[0]["uri"].as_str().unwrap().to_owned());
            let Some(next) = reply["result"].get("nextCursor") else {
                break;
            };
            params["cursor"] = next.clone();
        }
        assert_eq!(seen.len(), memory::SKILLS.len(), "{method} {seen:?}");
        let wrong = if key == "skills" {
            "resources/directory/read"
        } else {
            "skills/list"
        };
        if params.get("cursor").is_some() {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": wrong, "params": params});
            let reply = memory::post(&post, &request).await.unwrap();
            assert_eq!(reply["error"]["code"], -32602, "a cursor of another list");
        }
    }
}
