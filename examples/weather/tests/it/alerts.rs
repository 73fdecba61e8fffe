//! `get-alerts`.

use orchestra_mcp::DirectError;
use serde_json::{Value, json};

use crate::fake::{Fake, golden, recorded};

const TOOL: &str = "get-alerts";
const CALIFORNIA: &str = "/alerts/active?area=CA";

#[tokio::test]
async fn active_alerts_are_told_as_text_and_as_data() {
    let fake = Fake::start().await;
    fake.record(CALIFORNIA, "alerts");
    let (text, data) = fake.weather().ask(TOOL, json!({"state": "ca"})).await;
    assert_eq!(text, golden("alerts"));
    assert_eq!(data["state"], "CA");
    assert_eq!(data["total"], 3);
    assert_eq!(data["alerts"][0]["areaDesc"], "Sacramento Valley");
    assert_eq!(data["alerts"][0]["instruction"], "Drink plenty of fluids.");
    assert_eq!(
        data["alerts"][2],
        json!({"event": "Special Weather Statement"})
    );
    assert_eq!(fake.asked(), [CALIFORNIA]);
}

#[tokio::test]
async fn that_there_are_none_is_said() {
    let fake = Fake::start().await;
    fake.record(CALIFORNIA, "alerts-none");
    let (text, data) = fake.weather().ask(TOOL, json!({"state": "CA"})).await;
    assert_eq!(text, "No active alerts for CA");
    assert_eq!(data, json!({"state": "CA", "alerts": [], "total": 0}));
}

#[tokio::test]
async fn twenty_are_told_and_how_many_more_there_are() {
    let fake = Fake::start().await;
    let mut document: Value = serde_json::from_str(&recorded("alerts")).unwrap();
    let alert = document["features"][0].clone();
    document["features"] = json!(vec![alert; 23]);
    fake.answer(CALIFORNIA, 200, &[], &document.to_string());
    let (text, data) = fake.weather().ask(TOOL, json!({"state": "CA"})).await;
    assert_eq!(text.matches("Event: Heat Advisory").count(), 20);
    assert!(text.ends_with("\n---\n3 more"), "{text}");
    assert_eq!(data["alerts"].as_array().unwrap().len(), 20);
    assert_eq!(data["total"], 23);
}

#[tokio::test]
async fn only_areas_that_exist_are_asked_for() {
    let fake = Fake::start().await;
    let weather = fake.weather();
    for (arguments, part) in [
        (
            json!({"state": "XX"}),
            "argument `state`: expected the two letters of a US state",
        ),
        (
            json!({"state": "CAL"}),
            "argument `state`: expected the two letters",
        ),
        (json!({"state": "California"}), "argument `state`"),
        (json!({"state": 6}), "argument `state`"),
        (json!({"state": "../x"}), "argument `state`"),
        (json!({}), "missing argument `state`"),
        (
            json!({"state": "CA", "county": "Kern"}),
            "unknown argument `county`",
        ),
    ] {
        match weather.call(TOOL, arguments.clone()).await {
            Err(DirectError::Provider(error)) => {
                assert!(error.to_string().contains(part), "{arguments}: {error}");
            }
            other => panic!("{arguments}: {other:?}"),
        }
    }
    assert!(fake.asked().is_empty(), "nobody was asked");
    for area in ["DC", "PR", "gu", "PZ", "LM"] {
        let path = format!("/alerts/active?area={}", area.to_uppercase());
        fake.record(&path, "alerts-none");
        weather.ask(TOOL, json!({"state": area})).await;
    }
}
