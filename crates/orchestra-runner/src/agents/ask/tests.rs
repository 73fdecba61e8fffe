//! What work asks of an agent, and what comes of it.

use orchestra_plan::work::WorkSpec;
use serde_json::{Value, json};

use super::*;

fn profile(more: Value) -> Profile {
    let mut text = json!({
        "program": "x",
        "arguments": [
            ["--model", "{model}"], ["--effort={effort}"], ["--turns={max_turns}"],
            ["--resume={session}"], ["--dir={folders}"], ["--url={urls}"], ["--", "{prompt}"],
        ],
        "models": {"fast": "small", "premium": "large"},
    });
    for (name, value) in more.as_object().unwrap() {
        text[name] = value.clone();
    }
    serde_json::from_value(text).unwrap()
}

fn able(features: &[Feature], models: Option<&[&str]>) -> Capabilities {
    Capabilities {
        program: "/x".into(),
        version: Some("1.2".to_owned()),
        features: features.iter().copied().collect(),
        domains_only: false,
        models: models.map(|models| models.iter().map(|&model| model.to_owned()).collect()),
        known: Default::default(),
    }
}

const ALL: [Feature; 6] = [
    Feature::Model,
    Feature::Resume,
    Feature::Effort,
    Feature::MaxTurns,
    Feature::Folders,
    Feature::Urls,
];

fn asked(work: &AgentWork, profile: &Profile, able: &Capabilities) -> Result<Asked, AgentError> {
    Asked::of(
        &ProfileName::parse("one").unwrap(),
        profile,
        able,
        work,
        "Do it.",
    )
}

fn work(more: Value) -> AgentWork {
    let mut text = json!({"type": "agent", "instructions": "Do it."});
    for (name, value) in more.as_object().unwrap() {
        text[name] = value.clone();
    }
    let work: WorkSpec = serde_json::from_value(text).unwrap();
    work.agent().unwrap().clone()
}

#[test]
fn what_the_program_cannot_do_is_refused_each_with_its_code() {
    let none = able(&[], None);
    for (more, code) in [
        (json!({"model": "a"}), "agent_model_unsupported"),
        (json!({"modelTier": "fast"}), "agent_model_unsupported"),
        (json!({"effort": "low"}), "agent_effort_unsupported"),
        (json!({"maxTurns": 3}), "agent_max_turns_unsupported"),
        (json!({"resumeSession": true}), "agent_resume_unsupported"),
        (
            json!({"allowedFolders": ["/"]}),
            "agent_folders_unsupported",
        ),
        (json!({"allowedUrls": ["a.com"]}), "agent_urls_unsupported"),
    ] {
        let work = work(more);
        let error = asked(&work, &profile(json!({})), &none).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(asked(&work, &profile(json!({})), &able(&ALL, None)).is_ok());
    }
    let resumed = work(json!({"resumeSession": true}));
    let error = asked(&resumed, &profile(json!({})), &none).unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent `one` cannot resume a session: neither its profile nor its program (1.2) offers it; omit \
         `resumeSession`, or name an agent that can"
    );
}

#[test]
fn a_session_is_resumed_where_it_can_be_unless_work_says_otherwise() {
    let resumes = |more: Value, features: &[Feature]| {
        asked(&work(more), &profile(json!({})), &able(features, None))
            .unwrap()
            .resume
    };
    assert!(resumes(json!({}), &ALL) && !resumes(json!({}), &[]));
    assert!(!resumes(json!({"resumeSession": false}), &ALL));
}

#[test]
fn models_are_those_that_are_known() {
    let able = able(&ALL, Some(&["a", "b"]));
    let ask = |more: Value| asked(&work(more), &profile(json!({})), &able);
    let model = |more: Value| ask(more).unwrap().model.unwrap();
    assert_eq!(model(json!({"model": "a"})), "a");
    assert_eq!(model(json!({"model": "large"})), "large");
    assert_eq!(model(json!({"modelTier": "fast"})), "small");
    let error = ask(json!({"model": "c"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent `one` has no model `c`; its models: a, b"
    );
    assert_eq!(
        ask(json!({"model": "--yolo"})).unwrap_err().code(),
        "agent_value"
    );
    let tier = ask(json!({"modelTier": "standard"})).unwrap_err();
    assert_eq!(tier.code(), "agent_tier_unknown");
}

#[test]
fn what_nobody_asked_for_is_left_out_with_a_reason() {
    let name = ProfileName::parse("one").unwrap();
    let (long, plain) = ("x".repeat(5_000), work(json!({})));
    let all = able(&ALL, None);
    let most = Asked::of(&name, &profile(json!({})), &all, &plain, &long).unwrap();
    assert_eq!(
        (most.model.as_deref(), most.effort),
        (Some("large"), Some(Effort::High))
    );
    let few = profile(json!({"models": {}, "efforts": ["low"]}));
    let least = Asked::of(&name, &few, &all, &plain, &long).unwrap();
    assert_eq!(
        (least.model, least.effort, least.reasons.len()),
        (None, None, 4)
    );
    let error = asked(&work(json!({"effort": "high"})), &few, &all).unwrap_err();
    assert!(error.to_string().contains("it knows low"), "{error}");
}

#[test]
fn folders_are_there_and_addresses_are_domains_where_they_have_to_be() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let all = able(&ALL, None);
    let folders = |path: &Path| {
        asked(
            &work(json!({"allowedFolders": [path]})),
            &profile(json!({})),
            &all,
        )
    };
    let whole = place.path().canonicalize().unwrap();
    assert_eq!(folders(place.path()).unwrap().folders, [whole]);
    for (path, what) in [
        (Path::new("/not/there"), "is not there"),
        (file.as_path(), "is no directory"),
    ] {
        let error = folders(path).unwrap_err();
        assert_eq!(error.code(), "agent_folder");
        assert!(error.to_string().contains(what), "{error}");
    }
    let mut domains = all.clone();
    domains.domains_only = true;
    let urls = |url: &str, able: &Capabilities| {
        asked(
            &work(json!({"allowedUrls": [url]})),
            &profile(json!({})),
            able,
        )
    };
    assert!(urls("https://a.com/x", &all).is_ok());
    assert!(urls("a.com", &domains).is_ok() && urls("https://a.com/", &domains).is_ok());
    for url in ["https://a.com/x", "*.a.com", "a.com:8080", "[::1]"] {
        let error = urls(url, &domains).unwrap_err();
        assert_eq!(error.code(), "agent_urls_unsupported", "{url}");
    }
}
