//! Answers are kept for as long as they hold, and asked for as the service wants it.

use serde_json::json;

use crate::fake::{Fake, recorded};

const POINT: &str = "/points/38.5816,-121.4944";
const GRID: &str = "/gridpoints/STO/41,68/forecast";

#[tokio::test]
async fn answers_are_kept_for_as_long_as_their_headers_say() {
    let fake = Fake::start().await;
    fake.record(POINT, "points");
    fake.answer(
        GRID,
        200,
        &[("cache-control", "public, max-age=60")],
        &recorded("forecast"),
    );
    fake.record("/alerts/active?area=CA", "alerts");
    let weather = fake.weather();
    for _ in 0..2 {
        let place = json!({"latitude": 38.5816, "longitude": -121.4944});
        weather.ask("get-forecast", place).await;
        weather.ask("get-alerts", json!({"state": "CA"})).await;
    }
    let alerts = "/alerts/active?area=CA";
    assert_eq!(fake.asked(), [POINT, GRID, alerts, alerts]);

    fake.answer(
        POINT,
        200,
        &[("cache-control", "no-store")],
        &recorded("points"),
    );
    let weather = fake.weather();
    for _ in 0..2 {
        let place = json!({"latitude": 38.5816, "longitude": -121.4944});
        weather.ask("get-forecast", place).await;
    }
    assert_eq!(fake.asked()[4..], [POINT, GRID, POINT]);
}

#[tokio::test]
async fn a_question_says_who_asks_and_what_for() {
    let fake = Fake::start().await;
    fake.record("/alerts/active?area=CA", "alerts-none");
    fake.weather()
        .ask("get-alerts", json!({"state": "CA"}))
        .await;
    let headers = fake.first_headers();
    assert_eq!(headers["accept"], "application/geo+json");
    let agent = headers["user-agent"].to_str().unwrap();
    let (name, contact) = agent.split_once(' ').unwrap();
    assert!(name.starts_with("orchestra-weather/"), "{agent}");
    assert!(contact.starts_with("(https://"), "{agent}");
}
