//! Rules, filters and budgets.

use super::*;
use crate::config::{InheritEnv, Origin, Place, Source, StdioConfig, Template, Transport, Trust};

fn config() -> ServerConfig {
    let origin = Origin {
        file: Path::new("mcp.json").into(),
        place: Place::START,
        source: Source::User,
        trust: Trust::Trusted,
        directory: ".".into(),
    };
    let transport = Transport::Stdio(StdioConfig {
        command: Template::new("x"),
        args: Vec::new(),
        cwd: None,
        env: Default::default(),
        env_file: None,
        inherit_env: InheritEnv::Default,
    });
    ServerConfig::new("s".parse().unwrap(), origin, transport)
}

fn rule(effect: Effect, tool: &str, arguments: &[(&str, &str)]) -> Rule {
    let arguments = arguments.iter();
    Rule {
        effect,
        tool: tool.to_owned(),
        arguments: arguments
            .map(|(path, pattern)| ((*path).to_owned(), (*pattern).to_owned()))
            .collect(),
    }
}

#[test]
fn patterns_know_stars_and_question_marks() {
    for (pattern, text, expected) in [
        ("", "", true),
        ("*", "", true),
        ("get_?", "get_a", true),
        ("get_?", "get_", false),
        ("*a*b", "xaybb", true),
        ("*a*b", "xayc", false),
        ("a*", "ba", false),
        ("?ü?", "aüb", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn arguments_that_read_in_two_ways_are_denied_where_a_rule_looks_at_them() {
    let mut config = config();
    config.rules = vec![
        rule(Effect::Allow, "free", &[]),
        rule(Effect::Deny, "*", &[("path", "/secret/*")]),
        rule(Effect::Allow, "*", &[]),
    ];
    let policy = Policy::new(&config, None);
    let decide = |tool: &str, arguments: &'static str| {
        let arguments = RawJson::checked(arguments.as_bytes().into()).unwrap();
        policy.decide(tool, Nature::Unknown, &arguments).effect
    };
    for (arguments, effect) in [
        (r#"{"path":"/open/a"}"#, Effect::Allow),
        (r#"{"path":"/secret/a"}"#, Effect::Deny),
        (r#"{"path":"/secret/a","path":"/open/a"}"#, Effect::Deny),
        (
            r#"{"x":[{"y":1,"\u0079":2}],"path":"/open/a"}"#,
            Effect::Deny,
        ),
        // JSON that no type of Rust holds hides no other argument.
        (r#"{"x":"\ud800","path":"/open/a"}"#, Effect::Allow),
        (r#"{"x":"\ud800","path":"/secret/a"}"#, Effect::Deny),
        (r#"{"x":1e400,"path":"/secret/a"}"#, Effect::Deny),
    ] {
        assert_eq!(decide("any", arguments), effect, "{arguments}");
        assert_eq!(decide("free", arguments), Effect::Allow, "{arguments}");
    }
}

#[test]
fn numbers_are_compared_by_value_and_objects_in_any_order() {
    let decide = |effect: Effect, pattern: &str, value: &str| {
        let mut config = config();
        config.rules = vec![rule(effect, "*", &[("n", pattern)])];
        let other = match effect {
            Effect::Deny => Effect::Allow,
            _ => Effect::Deny,
        };
        config.default = Some(other);
        let policy = Policy::new(&config, None);
        let arguments = RawJson::checked(format!(r#"{{"n":{value}}}"#).into()).unwrap();
        policy.decide("any", Nature::Unknown, &arguments).effect == effect
    };
    for effect in [Effect::Deny, Effect::Allow, Effect::Ask] {
        for (pattern, value, expected) in [
            ("5", "5", true),
            ("5", "5.0", true),
            ("5", "5e0", true),
            ("5", "50e-1", true),
            ("5", "0.5E1", true),
            ("5.0", "5", true),
            ("5e0", "5", true),
            ("-0", "0", true),
            ("1?0", "1e2", true),
            ("0.5", "5e-1", true),
            ("5", "6", false),
            ("5", "5.5", false),
            ("5", "-5", false),
            // A default that denies is stricter than a rule that asks for a part.
            ("5", "[5]", effect == Effect::Deny),
            ("5", r#""5""#, true),
            ("[1,2]", "[1.0, 2e0]", true),
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            (r#"*"a":1*"#, r#"{"b":2,"a":1e0}"#, true),
            ("true", "true", true),
        ] {
            assert_eq!(
                decide(effect, pattern, value),
                expected,
                "{effect:?} {pattern} {value}"
            );
        }
    }
    // Equal for a server that reads floats.
    let (id, next) = ("9007199254740992", "9007199254740993");
    assert!(decide(Effect::Deny, id, next) && decide(Effect::Ask, next, id));
    assert!(!decide(Effect::Allow, id, next) && decide(Effect::Allow, id, id));
}

#[test]
fn rules_that_deny_or_ask_match_parts_of_lists_and_objects() {
    use Effect::{Allow, Ask, Deny};
    let decide = |effect: Effect, later: Effect, path: &str, arguments: &str| {
        let mut config = config();
        config.rules = vec![
            rule(effect, "*", &[(path, "/etc/*")]),
            rule(later, "*", &[]),
        ];
        let arguments = RawJson::checked(arguments.to_owned().into()).unwrap();
        let policy = Policy::new(&config, None);
        policy.decide("any", Nature::Unknown, &arguments).effect
    };
    for (path, arguments) in [
        ("path", r#"{"path":["/etc/x"]}"#),
        ("path", r#"{"path":["/tmp/x",["/etc/x"]]}"#),
        ("path", r#"{"path":{"a":[{"b":"/etc/x"}]}}"#),
        ("path", r#"{"path":{"/etc/x":1}}"#),
        (
            "files.path",
            r#"{"files":[{"path":"/tmp/x"},{"path":"/etc/x"}]}"#,
        ),
        ("files.0.path", r#"{"files":[{"path":["/etc/x"]}]}"#),
    ] {
        for (effect, later, expected) in [
            (Deny, Allow, Deny),
            (Ask, Allow, Ask),
            // A question about a part does not replace a rule that denies the rest.
            (Ask, Deny, Deny),
            (Allow, Deny, Deny),
        ] {
            let decided = decide(effect, later, path, arguments);
            assert_eq!(decided, expected, "{effect:?} {later:?} {arguments}");
        }
    }
    for arguments in [
        r#"{"path":["/tmp/x"]}"#,
        r#"{"path":{"a":"/tmp/x"}}"#,
        r#"{"other":["/etc/x"]}"#,
    ] {
        assert_eq!(decide(Deny, Allow, "path", arguments), Allow, "{arguments}");
    }
}

#[test]
fn the_first_rule_about_a_call_decides() {
    let mut config = config();
    config.rules = vec![
        rule(
            Effect::Allow,
            "write",
            &[("path", "/tmp/*"), ("deep.0.mode", "4?0")],
        ),
        rule(Effect::Ask, "write", &[("path", "*")]),
        rule(Effect::Deny, "w*", &[]),
    ];
    let policy = Policy::new(&config, None);
    let decide = |tool: &str, arguments: &'static str| {
        let arguments = RawJson::checked(arguments.as_bytes().into()).unwrap();
        let decision = policy.decide(tool, Nature::Unknown, &arguments);
        (decision.effect, decision.rule)
    };
    let told = str::to_owned;
    assert_eq!(
        decide("write", r#"{"path":"/tmp/x","deep":[{"mode":420}]}"#),
        (Effect::Allow, told("rule 1: allow write"))
    );
    assert_eq!(
        decide("write", r#"{"path":"/etc/x"}"#),
        (Effect::Ask, told("rule 2: ask write"))
    );
    assert_eq!(
        decide("wipe", "{}"),
        (Effect::Deny, told("rule 3: deny w*"))
    );
    assert_eq!(
        decide("write", "{}"),
        (Effect::Deny, told("rule 3: deny w*"))
    );
    assert_eq!(
        decide("read", "{}"),
        (Effect::Allow, told("default: allow"))
    );
}

#[test]
fn what_no_rule_is_about_is_as_the_default_says() {
    use Effect::{Allow, Ask, Deny};
    let (unknown, reads) = (Nature::Unknown, Nature::ReadsOnly);
    for (default, nature, effect, told) in [
        (Allow, unknown, Allow, "default: allow"),
        (Allow, reads, Allow, "default: allow"),
        (Ask, unknown, Ask, "default: ask"),
        (Ask, reads, Allow, "default: allow, it only reads"),
        (Deny, unknown, Deny, "default: deny"),
        (Deny, reads, Deny, "default: deny"),
    ] {
        let mut config = config();
        config.default = Some(default);
        config.rules = vec![rule(Allow, "always", &[])];
        let policy = Policy::new(&config, None);
        let arguments = RawJson::empty_object();
        let decision = policy.decide("other", nature, &arguments);
        assert_eq!(decision.by, By::Default);
        assert_eq!((decision.effect, &*decision.rule), (effect, told));
        let decision = policy.decide("always", nature, &arguments);
        assert_eq!(decision.rule, "rule 1: allow always");
    }
}

#[test]
fn a_file_that_others_may_have_written_is_not_laxer_than_the_user() {
    use Effect::{Allow, Ask, Deny};
    for (own, usual, trusted, asked) in [
        (None, Ask, Ask, Ask),
        (Some(Allow), Ask, Allow, Ask),
        (Some(Deny), Ask, Deny, Deny),
        (Some(Ask), Allow, Ask, Ask),
    ] {
        let mut config = config();
        (config.default, config.usual) = (own, usual);
        assert_eq!(config.default_effect(), trusted, "{own:?} {usual:?}");
        config.origin.trust = Trust::Ask;
        assert_eq!(config.default_effect(), asked, "{own:?} {usual:?}");
    }
}

#[test]
fn rules_that_others_may_have_written_are_not_laxer_than_the_user() {
    use Effect::{Allow, Ask, Deny};
    let (unknown, reads) = (Nature::Unknown, Nature::ReadsOnly);
    for (own, usual, nature, effect, told) in [
        (Allow, Allow, unknown, Allow, "rule 1: allow *"),
        (
            Allow,
            Ask,
            unknown,
            Ask,
            "default: ask, over rule 1: allow *",
        ),
        (Allow, Ask, reads, Allow, "rule 1: allow *"),
        (
            Allow,
            Deny,
            reads,
            Deny,
            "default: deny, over rule 1: allow *",
        ),
        (Ask, Allow, unknown, Ask, "rule 1: ask *"),
        (
            Ask,
            Deny,
            unknown,
            Deny,
            "default: deny, over rule 1: ask *",
        ),
        (Deny, Ask, unknown, Deny, "rule 1: deny *"),
    ] {
        let mut config = config();
        config.rules = vec![rule(own, "*", &[])];
        config.usual = usual;
        let decide = |config: &ServerConfig| {
            Policy::new(config, None).decide("get", nature, &RawJson::empty_object())
        };
        // What the user wrote decides.
        assert_eq!(
            (decide(&config).effect, decide(&config).by),
            (own, By::Rule)
        );
        config.origin.trust = Trust::Ask;
        let decision = decide(&config);
        assert_eq!((decision.effect, &*decision.rule), (effect, told));
        assert_eq!(decision.by == By::Bound, effect != own, "{told}");
    }
    let mut config = config();
    config.origin.trust = Trust::Ask;
    (config.usual, config.misread) = (Deny, Some(Path::new("mcp.json").into()));
    let why = Policy::new(&config, None).why_default(By::Bound);
    assert!(why.contains("mcp.json cannot be parsed"), "{why}");
}

#[test]
fn a_filter_says_which_tools_there_are() {
    let mut config = config();
    config.tools.deny = vec!["delete_*".to_owned()];
    assert!(Policy::new(&config, None).offers("get"));
    config.tools.allow = vec!["delete_one".to_owned(), "get".to_owned()];
    let policy = Policy::new(&config, None);
    assert!(policy.offers("get") && !policy.offers("delete_one") && !policy.offers("other"));
}

#[test]
fn pattern_that_allows_matches_own_names_and_pattern_that_denies_shown_ones_too() {
    let mut config = config();
    config.tools.allow = vec!["a_b".to_owned(), "c.d".to_owned()];
    let policy = Policy::new(&config, None);
    for (name, expected) in [("a_b", true), ("c.d", true), ("a b", false), ("c_d", false)] {
        assert_eq!(policy.offers(name), expected, "{name}");
    }
    config.tools.allow.clear();
    let hashed = names::forms(Some(&config.name), "x y").pop().unwrap();
    let hashed = hashed.strip_prefix("s__").unwrap().to_owned();
    for pattern in ["x_*", "x.y", "x y", "?_y", hashed.as_str()] {
        config.tools.deny = vec![pattern.to_owned()];
        let policy = Policy::new(&config, None);
        assert!(!policy.offers("x y") && policy.offers("xy"), "{pattern}");
    }
    // Names that pass unchanged have one form.
    config.tools.deny = vec!["x_*".to_owned()];
    config.prefix = false;
    assert!(Policy::new(&config, None).offers("x y"));
}

#[tokio::test(start_paused = true)]
async fn a_rate_refuses_or_waits() {
    let mut config = config();
    config.limits.budget.requests_per_second = Some(2.0);
    config.limits.budget.burst = Some(1);
    let policy = Policy::new(&config, None);
    policy.take().await.unwrap();
    let refused = policy.take().await.unwrap_err();
    assert_eq!(refused.code, "rate_limited");
    assert!(refused.again <= Duration::from_millis(500));
    config.limits.budget.wait = true;
    let policy = Policy::new(&config, None);
    let began = tokio::time::Instant::now();
    for _ in 0..5 {
        policy.take().await.unwrap();
    }
    let waited = began.elapsed();
    assert!((1_999..2_100).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test]
async fn a_place_is_given_back_with_its_call() {
    let mut config = config();
    config.limits.budget.concurrency = Some(1);
    let policy = Policy::new(&config, None);
    let place = policy.take().await.unwrap();
    assert_eq!(
        policy.take().await.unwrap_err().code,
        "concurrency_exceeded"
    );
    drop(place);
    policy.take().await.unwrap();
}
