//! Properties of the whole: every form at every entry, any text, any cut.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    MASK, Masker,
    sample::{Sample, samples, tokens},
    text,
};

/// Texts around a sample.
const FRAMES: [(&str, &str); 9] = [
    ("", ""),
    ("before ", " after"),
    ("$ ", "\n"),
    ("(", ")"),
    ("\"", "\""),
    ("line one\n", "\nline three"),
    ("\u{1b}[32m", "\u{1b}[0m"),
    ("2026-11-28T10:00:00Z INFO run: ", ""),
    ("é ", " 🚀"),
];

fn leaks(sample: &Sample, masked: &str) -> bool {
    masked.contains(&sample.secret)
}

#[test]
fn every_form_is_masked_in_text() {
    let mut leaked = Vec::new();
    for sample in samples("text") {
        for (before, after) in FRAMES {
            let masked = text(&format!("{before}{}{after}", sample.text)).into_owned();
            if leaks(&sample, &masked) || !masked.contains(MASK) {
                leaked.push(format!("{before}{}{after} -> {masked}", sample.text));
            }
        }
    }
    assert!(
        leaked.is_empty(),
        "{} leaked:\n{}",
        leaked.len(),
        leaked.join("\n")
    );
}

#[test]
fn every_form_is_masked_in_json() {
    for sample in samples("json") {
        let inner = json!({"output": [sample.text, 1]});
        for mut value in [
            json!({"result": {"content": [{"type": "text", "text": sample.text}]}}),
            json!([sample.text]),
            json!({"text": inner.to_string()}),
            json!({sample.text.as_str(): true}),
        ] {
            assert!(Masker::default().json(&mut value), "{sample:?}");
            assert!(!leaks(&sample, &value.to_string()), "{sample:?}: {value}");
            assert!(!Masker::default().json(&mut value), "masked twice: {value}");
        }
    }
}

#[test]
fn every_form_is_masked_in_a_stream_at_any_cut() {
    for sample in samples("stream") {
        let whole = format!("before\n{}\r\nafter", sample.text);
        let expected = Masker::default().stream().text(&whole);
        assert!(!leaks(&sample, &expected), "{sample:?}: {expected}");
        for cut in 0..whole.len() {
            let mut stream = Masker::default().stream();
            let mut out = Vec::new();
            stream.push(&whole.as_bytes()[..cut], &mut out);
            stream.push(&whole.as_bytes()[cut..], &mut out);
            stream.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}

#[test]
fn excerpt_has_no_part_of_a_value_where_it_ends() {
    const VALUE: &str = "Zt-9f8e7d6c5b4a39281706f5e4d3c2b1a0";
    let masker = Masker::table().value(VALUE);
    // Masked, each is so much shorter that all that is read would fit.
    let values = format!("{VALUE} ").repeat(600);
    for before in 0..2 * VALUE.len() {
        let text = format!("{} {values}", "x".repeat(before));
        for max in [64, 200, 512] {
            let excerpt = masker.excerpt(&text, max);
            assert!(excerpt.len() <= max, "{before} {max}: {excerpt}");
            assert!(!excerpt.contains("Zt-"), "{before} {max}: {excerpt}");
            assert_eq!(masker.excerpt_of_bytes(text.as_bytes(), max), excerpt);
        }
    }
    let plain = "é".repeat(100);
    assert_eq!(masker.excerpt(&plain, 200), plain);
    assert_eq!(masker.excerpt(&plain, 21), "é".repeat(10));
}

#[test]
fn prefix_of_a_token_remains() {
    for (prefix, sample) in tokens("prefix") {
        let masked = text(&sample.text).into_owned();
        assert!(
            masked.contains(&format!("{prefix}{MASK}")),
            "{sample:?}: {masked}"
        );
    }
}

#[test]
fn masked_samples_are_not_masked_again() {
    for sample in samples("twice") {
        let once = text(&sample.text).into_owned();
        assert_eq!(text(&once), once, "{}", sample.text);
    }
}

#[test]
fn known_value_is_masked_in_every_spelling() {
    let masker = Masker::new([r#"ké"y\a/b c<&>'z"#]);
    for spelling in [
        r#"ké"y\a/b c<&>'z"#,
        r#"ké\"y\\a/b c<&>'z"#,
        r#"k\u00e9\"y\\a/b c<&>'z"#,
        r#"k\u00E9\"y\\a/b c<&>'z"#,
        r#"ké\\\"y\\\\a/b c<&>'z"#,
        r#"k\\u00e9\\\"y\\\\a/b c<&>'z"#,
        r#"k\u00e9\"y\\a\/b c<&>'z"#,
        r#"ké\"y\\a/b c\u003c\u0026\u003e'z"#,
        "k%C3%A9%22y%5Ca%2Fb%20c%3C%26%3E%27z",
        "k%C3%A9%22y%5Ca/b%20c%3C%26%3E%27z",
        "k%C3%A9%22y%5Ca%2Fb+c%3C%26%3E%27z",
        "k%C3%A9%22y%5Ca%2Fb%20c%3C%26%3E'z",
        r"ké&quot;y\a/b c&lt;&amp;&gt;&#39;z",
        r"ké&quot;y\a/b c&lt;&amp;&gt;&#x27;z",
    ] {
        let masked = masker.text(&format!("a {spelling} b")).into_owned();
        assert_eq!(masked, format!("a {MASK} b"), "{spelling}");
    }
}

#[test]
fn members_are_masked_by_name_and_by_neighbour() {
    let masker = Masker::new(["s3cret-and-more", "s3cret", "x"])
        .member("pin")
        .environment([
            ("GITHUB_TOKEN", "tok-123"),
            ("LANG", "C.UTF-8"),
            ("https_proxy", "http://me:pr0xy@pw@proxy.example:3128"),
            ("DB_PASSPHRASE", "correct horse"),
        ]);
    for (before, after) in [
        (
            json!({"a": "is s3cret-and-more, s3cret"}),
            json!({"a": "is ***, ***"}),
        ),
        (
            json!({"arguments": {"pin": 1234}}),
            json!({"arguments": {"pin": "***"}}),
        ),
        (
            json!({"pin": {"deep": ["a", null]}}),
            json!({"pin": {"deep": ["***", null]}}),
        ),
        (json!({"X-Api-Key": "abc"}), json!({"X-Api-Key": "***"})),
        (json!({"s3cret": 1}), json!({"***": 1})),
        (
            json!({"text": "{\"password\": \"pw\"}"}),
            json!({"text": "{\"password\":\"***\"}"}),
        ),
        (
            json!({"token": "ghp_0123456789abcdefghij"}),
            json!({"token": "ghp_***"}),
        ),
        (
            json!({"name": "API_KEY", "value": "abc"}),
            json!({"name": "API_KEY", "value": "***"}),
        ),
        (
            json!(["mysql", "-pabc", "--password", "two words"]),
            json!(["mysql", "-p***", "--password", "***"]),
        ),
        (
            json!({"Value": "abc", "Name": "API_KEY"}),
            json!({"Value": "***", "Name": "API_KEY"}),
        ),
        (
            json!({"rows": [["password", "kR7vQ2mZx9"], ["user", "me"]]}),
            json!({"rows": [["password", "***"], ["user", "me"]]}),
        ),
        (
            json!(["wpa_passphrase", "net", "swordfish7"]),
            json!(["wpa_passphrase", "net", "***"]),
        ),
        (
            json!(["C:/tools/mysql.exe", "-pswordfish7"]),
            json!(["C:/tools/mysql.exe", "-p***"]),
        ),
        (
            json!({"tokens": ["kR7vQ2mZx9kR7vQ2mZx9"]}),
            json!({"tokens": ["***"]}),
        ),
        (json!("tok-123 C.UTF-8 x"), json!("*** C.UTF-8 x")),
        (
            json!("407 for pr0xy@pw, pr0xy%40pw"),
            json!("407 for ***, ***"),
        ),
        (json!("it was correct horse"), json!("it was ***")),
    ] {
        let mut message: Value = before.clone();
        assert!(masker.json(&mut message), "{before}");
        assert_eq!(message, after);
        assert!(!masker.json(&mut message), "masked twice: {message}");
    }
    for plain in [
        json!({"_meta": {"progressToken": 7}}),
        json!({"inputSchema": {"properties": {"token": {"type": "string"}}}}),
        json!({"text": "{\"a\": 1}", "n": 1.5, "total_tokens": 12}),
        json!({"auth": {"type": "bearer"}, "password": null, "pass": 12, "key": "ORC-1"}),
        json!({"password": "${DB_PASSWORD}"}),
        json!({"required": ["password", "username"], "tokens": ["hello", "world2go"]}),
        json!({"inputSchema": {"required": ["apiKey", "s3Bucket"], "x": [["apiKey", "s3Bucket"]]}}),
        json!({"required": ["password", "md5sum1"]}),
    ] {
        assert!(!masker.json(&mut plain.clone()), "{plain}");
    }
    assert_eq!(format!("{masker:?}").matches("s3cret").count(), 0);
}

#[test]
fn arguments_of_a_list_are_masked() {
    let masked = |words: &[&str]| Masker::default().arguments(words).join(" ");
    assert_eq!(
        masked(&["server", "--api-key", "abc", "-v"]),
        "server --api-key *** -v"
    );
    assert_eq!(
        masked(&["server", "--api-key", "${KEY}"]),
        "server --api-key ${KEY}"
    );
    assert_eq!(
        masked(&["server", "--token=abc", "DB_PASS=x"]),
        "server --token=*** DB_PASS=***"
    );
    assert_eq!(
        masked(&["sshpass", "-p", "two words", "ssh"]),
        "sshpass -p *** ssh"
    );
    assert_eq!(
        masked(&["sh", "-c", "mysql -pswordfish"]),
        "sh -c mysql -p***"
    );
}

#[test]
fn private_key_is_masked_line_by_line() {
    let key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBkg4LVWM9nuwNk3yByxZpYRTBnVCnmJ5LLKr7RZjvpZ\nAoGCCqG=\n-----END EC PRIVATE KEY-----\nok\n";
    let masked = "-----BEGIN EC PRIVATE KEY-----\n***\n***\n-----END EC PRIVATE KEY-----\nok\n";
    assert_eq!(Masker::default().stream().text(key), masked);
    let known = Masker::new([key]);
    assert!(
        !known
            .text("x MHcCAQEEIBkg4LVWM9nuwNk3yByxZpYRTBnVCnmJ5LLKr7RZjvpZ y")
            .contains("MHc")
    );
}

#[test]
fn long_line_of_a_stream_is_masked_at_any_place() {
    for at in [0, 1, 60_000, 61_430, 65_520, 65_535, 65_540, 130_000] {
        for filler in ["a ", "ab,", "a"] {
            let mut line = filler.repeat(at / filler.len());
            line.push_str(" DB_PASSWORD=planted-7f3a9c ");
            line.push_str(&filler.repeat(70_000));
            let mut stream = Masker::new(["known-5e1b"]).stream();
            let mut out = Vec::new();
            line.push_str("known-5e1b");
            for piece in line.as_bytes().chunks(8_191) {
                stream.push(piece, &mut out);
            }
            stream.finish(&mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(
                !out.contains("7f3a9c") && !out.contains("known"),
                "{at} {filler}"
            );
            assert_eq!(
                out,
                line.replace("planted-7f3a9c", MASK)
                    .replace("known-5e1b", MASK)
            );
        }
    }
}

#[test]
fn long_word_after_a_blank_at_any_offset_passes_a_stream() {
    for offset in (0..70_000).step_by(1_777).chain([
        0, 1, 4_095, 4_096, 4_097, 61_439, 61_440, 61_441, 65_535, 65_536,
    ]) {
        let line = format!("{} {}\n", "x".repeat(offset), "y".repeat(70_000));
        assert_eq!(Masker::default().stream().text(&line), line, "{offset}");
    }
}

#[test]
fn long_line_of_long_characters_behind_a_continued_line_passes_a_stream() {
    for before in ["password:\n", "my password:\n", "a\\\n", "ab\\\n"] {
        let text = format!("{before}{}\nend\n", "é".repeat(70_000));
        assert_eq!(Masker::default().stream().text(&text), text);
    }
}

#[test]
fn installed_value_is_known_to_every_masker() {
    Masker::new(["installed-1f9c"]).install();
    assert_eq!(text("an installed-1f9c text"), "an *** text");
    let other = Masker::new(["other-value"]);
    assert_eq!(other.text("installed-1f9c other-value"), "*** ***");
    assert_eq!(Masker::table().text("installed-1f9c"), "installed-1f9c");
    Masker::new(["installed-later"]).install();
    assert_eq!(text("installed-1f9c installed-later"), "*** ***");
}

#[test]
fn newest_of_too_many_values_are_masked() {
    let value = |number: usize| format!("value-{number:06}-x");
    let values = Vec::from_iter((0..10_000).map(value));
    let masker = Masker::new(values.iter().map(String::as_str)).value("planted-one");
    let is_masked = |text: &str| masker.text(text) == MASK;
    assert!(is_masked("planted-one"));
    assert!((6_000..10_000).all(|number| is_masked(&value(number))));
    assert!(!is_masked(&value(0)), "the oldest values are dropped");
    // A value that is repeated is new again.
    let masker = masker.value(&value(0)).value(&value(9_999));
    assert_eq!(masker.text(&value(0)), MASK);
}

/// Length of a hostile text.
const HOSTILE_BYTES: usize = 256 * 1024;

/// Texts that repeat one piece: a search that is not linear does not end within them.
#[test]
fn hostile_texts_are_masked_in_linear_time() {
    let pieces = [
        "glpat-",
        "ghp_ghp_",
        "password=\"",
        "token='\"",
        "mysql ",
        "mysql \"",
        "echo |",
        "echo a|",
        "sudo -S <<<",
        "eyJ",
        "eyJabcdefgh.",
        "://",
        "a://b:c",
        "-----BEGIN PRIVATE KEY-----",
        "Bearer ",
        "Authorization: ",
        "Cookie: a=",
        "tokentoken",
        "--token ",
        "\\\"token",
        "password:\n",
        "[\"secret\":[",
        "?code=",
        "curl -u '",
        "sk-sk-",
        "<password>",
        "identified by '",
        "a@",
        "docker login -p \\\n",
        "\\",
        "'",
        "key",
        "passwordpassword=",
        "bash -c 'mysql \"",
        "-----BEGIN ",
        "hooks.slack.com/services/",
        "echo ",
        "echo a ",
        "Authorization: Digest ",
        "Authorization:",
        "from-literal=",
        "AUTH ",
        "password for ",
        "setuser >",
        "\"name\":\"password\",\"value",
        "\"value\":\"name\":\"password\"",
        "password: {",
        "password: |\n",
        "<password><![CDATA[",
        "a:b@tcp(",
        ":5432:a:",
        "jdbc:oracle:thin:a/",
        "MTA4oAtz4TFbY3pflkwyla4s.",
        "sudo -S <<a\n",
        "(echo a;",
        "yes ",
        "curl -su ",
        "identified with ",
        "Authorization: Digest a=\"b\",",
        "étoken\">",
        "\u{3000}a:b@tcp(",
        "ACL SETUSER me >",
        "chpasswd <<a\nb:c\n",
        "mysql <a",
        "set --export PASSWORD ",
    ];
    for piece in pieces {
        let hostile = piece.repeat(HOSTILE_BYTES / piece.len());
        let masked = text(&hostile);
        assert!(masked.len() <= hostile.len() * 4);
        // Lines that continue each other are read again.
        if piece.contains('\n') {
            let streamed = Masker::default().stream().text(&hostile);
            assert!(streamed.len() <= hostile.len() * 4);
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_masked_once(noise in "[ \"'\\\\=:{}\\[\\]?&@/#u|<>$%*.,;a1\n-]{0,60}", any in any::<String>(), pick in any::<prop::sample::Index>()) {
        let samples = samples("noise");
        let sample = pick.get(&samples);
        for given in [any.clone(), noise.clone(), format!("{noise}{}{noise}{any}", sample.text), format!("password{noise}token{noise}mysql -p{noise}://{noise}Bearer {noise}")] {
            let once = text(&given).into_owned();
            prop_assert_eq!(text(&once), once.as_str());
        }
    }

    #[test]
    fn known_value_is_masked_wherever_it_occurs(secret in "[a-zA-Z0-9+/=_.é-]{6,30}", around in "\\PC{0,60}") {
        prop_assume!(crate::is_secret_value(&secret));
        let masker = Masker::new([secret.as_str()]);
        let left = masker.text(&format!("{around}{secret}{around}{secret}")).replace(MASK, "#");
        prop_assert!(!left.contains(&secret));
    }

    #[test]
    fn result_of_a_stream_does_not_depend_on_its_cuts(
        text in "[ab\n ]{0,40}",
        secrets in prop::collection::vec("[ab]{4,9}", 1..4),
        cuts in prop::collection::vec(0_usize..40, 0..6),
    ) {
        let masker = Masker::new(secrets.iter().map(String::as_str));
        let whole = masker.stream().text(&text);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let (mut stream, mut out, mut at) = (masker.stream(), Vec::new(), 0);
        for cut in cuts {
            stream.push(&text.as_bytes()[at..cut], &mut out);
            at = cut;
        }
        stream.finish(&mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), whole.as_str());
        for secret in secrets {
            prop_assert!(!whole.contains(&secret));
        }
    }
}
