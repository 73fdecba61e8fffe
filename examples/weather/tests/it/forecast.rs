//! `get-forecast`.

use orchestra_mcp::DirectError;
use serde_json::json;

use crate::fake::{Fake, golden, recorded};

const TOOL: &str = "get-forecast";
const POINT: &str = "/points/38.5816,-121.4944";
const GRID: &str = "/gridpoints/STO/41,68/forecast";

#[tokio::test]
async fn a_forecast_is_told_as_text_and_as_data() {
    let fake = Fake::start().await;
    fake.record(POINT, "points");
    fake.record(GRID, "forecast");
    // More than four decimals would only be redirected.
    let place = json!({"latitude": 38.581_572_1, "longitude": -121.494_400_2});
    let (text, data) = fake.weather().ask(TOOL, place).await;
    assert_eq!(text, golden("forecast"));
    assert_eq!(data["total"], 16);
    assert_eq!(data["periods"].as_array().unwrap().len(), 14);
    assert_eq!(data["periods"][0]["temperature"], 65);
    assert_eq!(data["latitude"], 38.5816);
    assert_eq!(fake.asked(), [POINT, GRID]);
}

#[tokio::test]
async fn what_is_not_known_is_said() {
    let fake = Fake::start().await;
    fake.record("/points/40,-75", "points");
    fake.record(GRID, "forecast-sparse");
    let place = json!({"latitude": 40, "longitude": -75.0});
    let (text, _) = fake.weather().ask(TOOL, place).await;
    assert_eq!(text, golden("forecast-sparse"));
}

#[tokio::test]
async fn a_place_that_is_not_covered_is_an_answer() {
    let fake = Fake::start().await;
    fake.answer("/points/51.5,-0.12", 404, &[], &recorded("points-outside"));
    let place = json!({"latitude": 51.5, "longitude": -0.12});
    let text = fake.weather().fail(TOOL, place).await;
    assert_eq!(
        text,
        "there is no forecast for 51.5, -0.12: only the United States are covered"
    );
    assert_eq!(fake.asked().len(), 1, "asking again does not help");
}

#[tokio::test]
async fn only_places_on_earth_are_asked_for() {
    let fake = Fake::start().await;
    let weather = fake.weather();
    for (latitude, longitude, part) in [
        (
            json!(90.1),
            json!(0),
            "argument `latitude`: expected a number between -90 and 90",
        ),
        (json!(-91), json!(0), "argument `latitude`"),
        (
            json!(0),
            json!(180.5),
            "argument `longitude`: expected a number between -180 and 180",
        ),
        (
            json!("40"),
            json!(0),
            "argument `latitude`: invalid type: string",
        ),
        (json!(null), json!(0), "argument `latitude`"),
    ] {
        let arguments = json!({"latitude": latitude, "longitude": longitude});
        match weather.call(TOOL, arguments.clone()).await {
            Err(DirectError::Provider(error)) => {
                assert!(error.to_string().contains(part), "{arguments}: {error}");
            }
            other => panic!("{arguments}: {other:?}"),
        }
    }
    assert!(fake.asked().is_empty(), "nobody was asked");
}

#[tokio::test]
async fn nobody_else_is_asked() {
    let fake = Fake::start().await;
    let other = Fake::start().await;
    let elsewhere = recorded("points").replace("BASE/gridpoints", &format!("{}/grid", other.base));
    fake.answer(POINT, 200, &[], &elsewhere);
    let place = json!({"latitude": 38.5816, "longitude": -121.4944});
    let text = fake.weather().fail(TOOL, place.clone()).await;
    assert_eq!(
        text,
        "the weather service refers to another server, 127.0.0.1, which is not asked"
    );

    let there = format!("{}{POINT}", other.base);
    fake.answer(POINT, 301, &[("location", &there)], "");
    let text = fake.weather().fail(TOOL, place.clone()).await;
    assert!(text.contains("301"), "{text}");
    assert!(other.asked().is_empty());

    fake.answer(POINT, 301, &[("location", "BASE/moved")], "");
    fake.record("/moved", "points");
    fake.record(GRID, "forecast");
    fake.weather().ask(TOOL, place).await;
}
