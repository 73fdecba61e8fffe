//! Tests of work as it is written.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{AllowedUrl, FolderPath, WorkSpec, WorktreePath};
use crate::testing::{Advertised, read};

fn canonical(value: &Value) -> Value {
    serde_json::to_value(read::<WorkSpec>(value).unwrap()).unwrap()
}

#[test]
fn text_is_a_command_a_task_or_an_object() {
    let check =
        |text: &str, expected: Value| assert_eq!(canonical(&json!(text)), expected, "{text}");
    let shell = |text: &str| json!({"type": "shell", "command": text});
    let agent = |text: &str| json!({"type": "agent", "instructions": text});
    check("make test", shell("make test"));
    check("  make\ntest ", shell("  make\ntest "));
    check("@agent fix it", agent("fix it"));
    check("@agent: fix\nit ", agent("fix\nit"));
    check("  @agent\nfix it", agent("fix it"));
    check("@agents are here", shell("@agents are here"));
    check("{ make; make install; }", shell("{ make; make install; }"));
    check("{echo,a,b}", shell("{echo,a,b}"));
    check(
        r#" {"type": "process", "executable": "true"}"#,
        json!({"type": "process", "executable": "true"}),
    );
    check(r#"{"type":"shell","command":"{"}"#, shell("{"));
}

#[test]
fn an_object_comes_back_as_it_was() {
    let objects = [
        json!({"type": "shell", "command": "dir", "shell": "pwsh", "errorAction": "Stop"}),
        json!({
            "type": "process", "executable": "/bin/echo", "args": ["", "a b"],
            "env": {"A": "b"}, "cwd": "crates/app", "timeoutMs": 1000, "idleTimeoutMs": 10,
            "onFailure": {"noAutoHeal": true, "message": "oh", "resumeFromPhase": "merge-ri"},
        }),
        json!({
            "type": "agent", "instructions": "do it", "agent": "claude", "model": "m-1",
            "modelTier": "premium", "effort": "xhigh", "maxTurns": 500, "resumeSession": false,
            "allowedFolders": ["/srv/data"], "allowedUrls": ["https://example.com/a", "*.rs"],
        }),
        json!({"type": "agent", "instructionsFile": "docs/task.md"}),
    ];
    for object in objects {
        assert_eq!(canonical(&object), object);
        assert_eq!(canonical(&json!(object.to_string())), object);
    }
}

#[test]
fn errors_name_the_field_and_what_is_expected() {
    let check = |value: Value, expected: &str| {
        assert_eq!(read::<WorkSpec>(&value).unwrap_err(), expected);
    };
    check(
        json!(1),
        ".: invalid type: integer `1`, expected a command line, `@agent` and a task, or an object \
         with a `type`",
    );
    check(
        json!(""),
        ".: a command must not be empty; if it is optional, omit it",
    );
    check(
        json!("x".repeat(50_001)),
        ".: a command is too long: at most 50000 characters",
    );
    check(
        json!("@agent"),
        ".: `@agent` must be followed by a task of at most 100000 characters",
    );
    check(json!({}), ".: missing field `type`");
    check(
        json!({"type": "magic"}),
        "type: `magic` is not a kind of work: agent, shell or process",
    );
    check(
        json!({"type": "shell"}),
        ".: a work object of type `shell` needs the field `command`",
    );
    check(
        json!({"type": "agent"}),
        ".: a work object of type `agent` needs the field `instructions` or `instructionsFile`",
    );
    check(
        json!({"type": "agent", "instructions": "a", "instructionsFile": "b"}),
        ".: an agent takes `instructions` or `instructionsFile`, not both",
    );
    check(
        json!({"type": "process", "executable": "a", "command": "b"}),
        ".: work of type `process` has no field `command`; its fields: executable, args, env, cwd, timeoutMs, \
         idleTimeoutMs, onFailure",
    );
    check(
        json!({"type": "shell", "command": "a", "shell": "powershell", "errorAction": "x"}),
        "errorAction: `x` is not an error action: Continue, Stop or SilentlyContinue",
    );
    check(
        json!({"type": "shell", "command": "a 2>&1", "shell": "pwsh"}),
        ".: PowerShell turns `2>&1` into false failures; omit it: stdout and stderr are both logged without it",
    );
    check(
        json!({"type": "shell", "command": "a", "errorAction": "Stop"}),
        ".: `errorAction` is supported only by the shells powershell and pwsh",
    );
    check(
        json!({"type": "shell", "command": "a", "cwd": "../b"}),
        "cwd: `../b` is not a relative path inside the worktree without .., such as crates/app",
    );
    check(
        json!({"type": "shell", "command": "a", "onFailure": {"resumeFromPhase": "setup"}}),
        "onFailure.resumeFromPhase: `setup` is not a phase to resume from: one of merge-fi, \
         prechecks, work, commit, postchecks, merge-ri",
    );
    let error = read::<WorkSpec>(&json!({"type": "shell", "command": "a", "timeout": 1}));
    assert!(
        error
            .unwrap_err()
            .starts_with("timeout: unknown field `timeout`, expected one of")
    );
    let error = read::<WorkSpec>(&json!(r#"{"type": "shell", "comand": "a"}"#)).unwrap_err();
    assert!(
        error.starts_with(".: not a work object: unknown field `comand`"),
        "{error}"
    );
    let error = read::<WorkSpec>(&json!(r#"{ "type": "shell", "#)).unwrap_err();
    assert!(error.starts_with(".: not a work object: EOF"), "{error}");
    // A shell that is not a PowerShell may do so.
    assert!(read::<WorkSpec>(&json!("make 2>&1 | tee log")).is_ok());
}

#[test]
fn paths_stay_where_they_belong() {
    let inside = |text: &str| WorktreePath::parse(text).ok().map(|path| path.to_string());
    for (text, path) in [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        (".", "."),
        ("a b/ü", "a b/ü"),
    ] {
        assert_eq!(inside(text).as_deref(), Some(path));
    }
    for text in [
        "",
        "/",
        "/a",
        "..",
        "a/..",
        "a/../b",
        "../a",
        "\\a",
        "a\\..\\b",
        "C:\\a",
        "c:a",
        "a\nb",
        "a\u{0}",
        "\\\\server\\share",
    ] {
        assert_eq!(inside(text), None, "{text}");
    }
    for text in ["/", "/srv/data", "C:\\data", "d:/data"] {
        assert!(FolderPath::parse(text).is_ok(), "{text}");
    }
    for text in [
        "",
        "a",
        "./a",
        "/a/../b",
        "C:a",
        "~",
        "\\\\server\\share",
        "/a\n",
    ] {
        assert!(FolderPath::parse(text).is_err(), "{text}");
    }
}

#[test]
fn only_addresses_of_the_web_may_be_allowed() {
    for text in [
        "https://example.com",
        "http://example.com:8080/a?b#c",
        "HTTPS://EXAMPLE.COM/",
        "example.com",
        "*.example.com",
        "localhost",
        "localhost:3000",
        "127.0.0.1",
        "a_b.example",
        "https://[::1]:80/",
        "xn--bcher-kva.example",
        "https://example.com/a@b:c",
    ] {
        assert!(AllowedUrl::parse(text).is_ok(), "{text}");
    }
    for text in [
        "",
        "*",
        "*.",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,a",
        "vbscript:a",
        "about:blank",
        "blob:https://example.com",
        "ftp://example.com",
        "https://",
        "https://user@example.com",
        "https://user:pw@example.com",
        "https:///a",
        "example.com/a",
        "a b.example",
        "https://exa mple.com",
        "-a.example",
        "a..b",
        "https://a:0",
        "https://a:+80",
        "https://a:99999",
        "https:\\\\example.com",
        "JaVaScRiPt:alert(1)",
        "\tjavascript:alert(1)",
        "https://example.com\n",
        "*.[::1]",
    ] {
        assert!(AllowedUrl::parse(text).is_err(), "{text}");
    }
}

/// Values of fields, right and wrong, where the wrong is what a schema can show.
fn field() -> impl Strategy<Value = (&'static str, Value)> {
    let list = |count: usize| json!(vec!["/a"; count]);
    prop::sample::select(vec![
        ("command", json!("make")),
        ("command", json!("")),
        ("command", json!(7)),
        ("shell", json!("pwsh")),
        ("shell", json!("zsh")),
        ("executable", json!("true")),
        ("executable", json!("a\nb")),
        ("args", json!([])),
        ("args", json!(["a", ""])),
        ("args", json!([1])),
        ("args", json!(vec!["a"; 257])),
        ("instructions", json!("do")),
        ("instructions", json!("x".repeat(100_001))),
        ("instructionsFile", json!("a.md")),
        ("agent", json!("claude")),
        ("agent", json!("Claude")),
        ("model", json!("m")),
        ("model", json!("m".repeat(101))),
        ("modelTier", json!("fast")),
        ("modelTier", json!("best")),
        ("effort", json!("low")),
        ("effort", json!("max")),
        ("maxTurns", json!(1)),
        ("maxTurns", json!(0)),
        ("maxTurns", json!(501)),
        ("resumeSession", json!(true)),
        ("resumeSession", json!("yes")),
        ("allowedFolders", list(20)),
        ("allowedFolders", list(21)),
        ("allowedUrls", json!(["a.b"])),
        ("allowedUrls", json!("a.b")),
        ("env", json!({"A": "b"})),
        ("env", json!({"A": 1})),
        ("env", json!([])),
        ("cwd", json!("a")),
        ("cwd", json!("")),
        ("cwd", json!("a".repeat(501))),
        ("timeoutMs", json!(5)),
        ("timeoutMs", json!(0)),
        ("timeoutMs", json!(604_800_001)),
        ("idleTimeoutMs", json!(5.0)),
        ("idleTimeoutMs", json!(5.5)),
        ("onFailure", json!({})),
        ("onFailure", json!({"noAutoHeal": 1})),
        ("onFailure", json!({"message": "m", "x": 1})),
        ("onFailure", json!({"resumeFromPhase": "cleanup"})),
        ("banana", json!(1)),
        ("command", json!(null)),
        ("executable", json!(null)),
        ("instructions", json!(null)),
        ("instructionsFile", json!(null)),
        ("env", json!(null)),
        ("effort", json!(null)),
    ])
}

fn object() -> impl Strategy<Value = Value> {
    let of = prop::sample::select(vec!["shell", "process", "agent", "magic"]);
    // A field of another type is no error when it is `null`, which no schema tells of.
    let told = |of: &str, name: &str| match name {
        "command" => of == "shell",
        "executable" => of == "process",
        "instructions" | "instructionsFile" | "effort" => of == "agent",
        _ => true,
    };
    let must = |of: &str| match of {
        "shell" => ("command", json!("make")),
        "process" => ("executable", json!("true")),
        _ => ("instructions", json!("do")),
    };
    (of, prop::collection::vec(field(), 0..4), any::<bool>()).prop_map(
        move |(of, fields, whole)| {
            let mut object: Map<String, Value> = Map::new();
            object.insert("type".to_owned(), json!(of));
            if whole {
                let (name, value) = must(of);
                object.insert(name.to_owned(), value);
            }
            object.extend(
                fields
                    .into_iter()
                    .filter(|(name, value)| !value.is_null() || told(of, name))
                    .map(|(name, value)| (name.to_owned(), value)),
            );
            object.into()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn objects_agree_with_their_schema_and_come_back(value in object()) {
        thread_local! {
            static SHOWN: Advertised = Advertised::of::<WorkSpec>();
        }
        SHOWN.with(|shown| shown.agrees::<WorkSpec>(&value)).map_err(TestCaseError::fail)?;
        if let Ok(work) = read::<WorkSpec>(&value) {
            let written = serde_json::to_value(&work).unwrap();
            prop_assert_eq!(read::<WorkSpec>(&written).unwrap(), work);
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in "\\PC{0,60}|[@agent{} \":a-z\n]{0,30}") {
        if let Ok(work) = WorkSpec::parse(&text) {
            let written = serde_json::to_value(&work).unwrap();
            prop_assert_eq!(read::<WorkSpec>(&written).unwrap(), work);
        }
        let _ = (AllowedUrl::parse(&text), WorktreePath::parse(&text), FolderPath::parse(&text));
    }
}

#[test]
fn text_of_an_object_has_each_member_once() {
    let text = r#"{"type": "shell", "command": "make", "command": "make clean"}"#;
    let error = read::<WorkSpec>(&json!(text)).unwrap_err();
    assert!(error.contains("duplicate field `command`"), "{error}");
}
