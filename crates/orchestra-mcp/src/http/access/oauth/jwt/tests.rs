//! What a token may say.

use std::time::Duration;

use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000;

fn expected() -> Expected {
    Expected {
        resource: "https://box.example/mcp".parse().unwrap(),
        audiences: vec!["api://orchestra".to_owned()],
        scopes: vec!["use".parse().unwrap(), "more".parse().unwrap()],
        leeway: Duration::from_secs(60),
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Claims that are let in, with some changed; `null` takes one away.
fn claims(changed: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://login.example", "sub": "ada", "aud": "https://box.example/mcp",
        "exp": NOW + 1, "scope": "more use"
    });
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// What becomes of a token with these claims changed.
fn checked(changed: Value) -> Result<(), Denied> {
    let header = json!({"alg": "ES256"});
    let text = format!("{}.{}.AA", part(&header), part(&claims(&changed)));
    let token = Jwt::parse(text.as_bytes())?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    token.claims().check(&expected(), now)?;
    token.claims().check_scopes(&expected())
}

/// What becomes of a token with this header.
fn parsed(header: Value) -> Result<(), Denied> {
    let text = format!("{}.{}.AA", part(&header), part(&claims(&json!({}))));
    Jwt::parse(text.as_bytes()).map(drop)
}

#[test]
fn a_token_is_for_us_and_for_now() {
    for good in [
        json!({}),
        json!({"aud": ["https://other.example", "https://box.example/mcp"]}),
        json!({"aud": "HTTPS://BOX.example/mcp"}),
        json!({"aud": "api://orchestra"}),
        json!({"exp": NOW - 59}),
        json!({"exp": NOW as f64 + 0.5, "nbf": NOW + 60, "iat": NOW + 60}),
        json!({"azp": "editor", "client_id": "editor", "nbf": 0, "more": {"iss": 1}}),
        json!({"scope": null, "scp": ["use", "more"]}),
        json!({"scope": "use", "scp": "more"}),
        json!({"scope": ["use", "more other"]}),
    ] {
        assert_eq!(checked(good.clone()), Ok(()), "{good}");
    }
    for (bad, why) in [
        (json!({"aud": null}), Denied::Malformed),
        (json!({"aud": "https://other.example"}), Denied::Audience),
        (json!({"aud": "https://box.example"}), Denied::Audience),
        (json!({"aud": "https://box.example/mcp/"}), Denied::Audience),
        (json!({"aud": []}), Denied::Audience),
        (
            json!({"aud": {"a": "https://box.example/mcp"}}),
            Denied::Audience,
        ),
        (
            json!({"aud": [["https://box.example/mcp"]]}),
            Denied::Audience,
        ),
        (json!({"exp": null}), Denied::Malformed),
        (json!({"exp": "2999999999"}), Denied::Malformed),
        (json!({"exp": NOW - 60}), Denied::Expired),
        (json!({"exp": -1}), Denied::Expired),
        (json!({"nbf": NOW + 61}), Denied::Early),
        (json!({"iat": NOW + 61}), Denied::Early),
        (json!({"iss": null}), Denied::Malformed),
        (json!({"sub": null}), Denied::Malformed),
        (json!({"cnf": {"jkt": "x"}}), Denied::Bound),
        (json!({"sub": ""}), Denied::Subject),
        (json!({"scope": "use"}), Denied::Scope),
        (json!({"scope": "uses more"}), Denied::Scope),
        (json!({"scope": null}), Denied::Scope),
    ] {
        assert_eq!(checked(bad.clone()), Err(why), "{bad}");
    }
}

#[test]
fn a_header_is_for_access_and_understood_whole() {
    for good in [
        json!({"alg": "RS256"}),
        json!({"alg": "RS256", "typ": "at+jwt", "kid": "a"}),
        json!({"alg": "RS256", "typ": "application/AT+JWT"}),
        json!({"alg": "RS256", "typ": "JWT", "jku": "https://evil.example", "x5c": []}),
    ] {
        assert_eq!(parsed(good.clone()), Ok(()), "{good}");
    }
    for (bad, why) in [
        (json!({}), Denied::Malformed),
        (json!([]), Denied::Malformed),
        (json!({"alg": ["RS256"]}), Denied::Malformed),
        (json!({"alg": "RS256", "kid": 1}), Denied::Malformed),
        (json!({"alg": "none"}), Denied::Algorithm),
        (json!({"alg": "HS256"}), Denied::Algorithm),
        (json!({"alg": "RS256", "crit": ["exp"]}), Denied::Critical),
        (json!({"alg": "RS256", "crit": null}), Denied::Critical),
        (json!({"alg": "RS256", "typ": "logout+jwt"}), Denied::Type),
        (json!({"alg": "RS256", "typ": "dpop+jwt"}), Denied::Type),
        (json!({"alg": "RS256", "typ": ""}), Denied::Type),
    ] {
        assert_eq!(parsed(bad.clone()), Err(why), "{bad}");
    }
}

#[test]
fn whatever_is_no_token_is_refused() {
    let header = part(&json!({"alg": "RS256"}));
    let body = part(&claims(&json!({})));
    let twice = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","alg":"ES256"}"#);
    let long = format!("{header}.{body}.{}", "A".repeat(MOST));
    for text in [
        "",
        ".",
        "..",
        "...",
        &header,
        &format!("{header}.{body}"),
        &format!("{header}.{body}.AA.AA"),
        &format!("{header}.{body}.AA.AA.AA"),
        &format!("{header}.{body}.A"),
        &format!("{header}.{body}.AA=="),
        &format!("{header}.{body}.+/AA"),
        &format!("{header}..AA"),
        &format!(".{body}.AA"),
        &format!("{twice}.{body}.AA"),
        &format!(" {header}.{body}.AA"),
        &long,
    ] {
        let parsed = Jwt::parse(text.as_bytes()).map(drop);
        assert_eq!(parsed, Err(Denied::Malformed), "{text}");
    }
}

#[test]
fn what_it_says_is_never_shown() {
    let text = format!(
        "{}.{}.AA",
        part(&json!({"alg": "RS256"})),
        part(&claims(&json!({})))
    );
    let token = Jwt::parse(text.as_bytes()).unwrap();
    assert!(!format!("{:?}", token.claims()).contains("ada"));
}

#[test]
fn a_program_is_known_by_either_name() {
    let client = |changed: Value| {
        let text = format!(
            "{}.{}.AA",
            part(&json!({"alg": "RS256"})),
            part(&claims(&changed))
        );
        let token = Jwt::parse(text.as_bytes()).unwrap();
        token.claims().client().map(str::to_owned)
    };
    assert_eq!(client(json!({})), None);
    assert_eq!(client(json!({"azp": "a"})).as_deref(), Some("a"));
    assert_eq!(
        client(json!({"azp": "a", "client_id": "b"})).as_deref(),
        Some("b")
    );
}
