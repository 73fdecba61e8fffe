//! The form in which events are kept.

use super::*;

fn job() -> JobId {
    JobId::parse("00000000-0000-4000-8000-000000000001").unwrap()
}

fn check(what: What, expected: &str) {
    let event = Event::new(Millis::new(5), what);
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(text, format!(r#"{{"v":1,"at":5,"what":{expected}}}"#));
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
}

#[test]
fn events_are_tagged_by_type() {
    let job = job();
    let attempt = AttemptNumber::FIRST;
    check(What::PlanResumed {}, r#"{"type":"planResumed"}"#);
    check(
        What::PlanPaused {
            reason: PauseReason::Branches {
                error: "no base".to_owned(),
            },
        },
        r#"{"type":"planPaused","reason":{"kind":"branches","error":"no base"}}"#,
    );
    check(
        What::ActBegan {
            job,
            attempt,
            act: Act::heal(crate::phase::Phase::Postchecks),
        },
        r#"{"type":"actBegan","job":"00000000-0000-4000-8000-000000000001","attempt":1,"act":{"phase":"postchecks","heal":true}}"#,
    );
    let act = Act::of(crate::phase::Phase::Work);
    let failure = Failure::new(FailureKind::ExitCode, "it ended with 1");
    let next = Next::resuming(Trigger::AutoHeal, crate::phase::Phase::Work);
    check(
        What::AttemptEnded {
            job,
            attempt,
            end: Box::new(AttemptEnd::Again {
                act,
                failure,
                next,
                counted: true,
            }),
            usage: Usage::default(),
            ended_at: None,
        },
        r#"{"type":"attemptEnded","job":"00000000-0000-4000-8000-000000000001","attempt":1,"end":{"result":"again","act":{"phase":"work"},"failure":{"kind":"exit-code","message":"it ended with 1"},"next":{"trigger":"auto-heal","from":"work"},"counted":true}}"#,
    );
}

#[test]
fn what_is_not_known_is_refused() {
    for text in [
        r#"{"v":1,"at":5,"what":{"type":"planExploded"}}"#,
        r#"{"v":1,"at":5,"what":{"type":"planResumed","x":1}}"#,
        r#"{"v":1,"at":5,"what":{"type":"planPaused","reason":{"kind":"branches","error":"","x":1}}}"#,
        r#"{"at":5,"what":{"type":"planResumed"}}"#,
        r#"{"v":1,"at":5,"what":{"type":"jobScheduled","job":"00000000-0000-4000-8000-000000000001","x":1}}"#,
        r#"{"v":1,"at":5,"more":1,"what":{"type":"planResumed"}}"#,
        r#"{"v":1,"at":5,"what":{"type":"jobScheduled","job":"one"}}"#,
    ] {
        assert!(serde_json::from_str::<Event>(text).is_err(), "{text}");
    }
}

#[test]
fn a_later_version_is_refused_before_anything_else_is_read() {
    let text = r#"{"v":2,"at":"soon","what":{"type":"planExploded"}}"#;
    let error = serde_json::from_str::<Event>(text).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn messages_are_cut_at_the_end_of_a_character() {
    let long = "é".repeat(Failure::MESSAGE_MAX);
    let failure = Failure::new(FailureKind::Git, long);
    assert!(failure.message.len() <= Failure::MESSAGE_MAX);
    assert!(failure.message.ends_with('…'));
}
