//! A source that fails: the model is told why.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpListener;

use crate::fake::{Fake, Weather};

const CALIFORNIA: &str = "/alerts/active?area=CA";
const AT_ONCE: [(&str, &str); 1] = [("retry-after", "0")];

async fn alerts(weather: &Weather) -> String {
    weather.fail("get-alerts", json!({"state": "CA"})).await
}

#[tokio::test]
async fn what_may_pass_is_asked_twice_again() {
    for (status, again) in [
        (500, true),
        (503, true),
        (429, true),
        (403, false),
        (404, false),
    ] {
        let fake = Fake::start().await;
        fake.answer(CALIFORNIA, status, &AT_ONCE, "no");
        let text = alerts(&fake.weather()).await;
        assert!(text.contains(&format!("status {status}")), "{text}");
        assert_eq!(text.contains("try again later"), again, "{text}");
        assert_eq!(fake.asked().len(), if again { 3 } else { 1 }, "{status}");
    }
}

#[tokio::test]
async fn a_fault_that_passes_is_not_seen() {
    let fake = Fake::start().await;
    fake.answer(CALIFORNIA, 429, &[("retry-after", "1")], "later");
    let weather = fake.weather();
    let ask = weather.ask("get-alerts", json!({"state": "CA"}));
    let mend = async {
        while fake.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        fake.record(CALIFORNIA, "alerts-none");
    };
    let ((text, _), ()) = tokio::join!(ask, mend);
    assert_eq!(text, "No active alerts for CA");
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test]
async fn a_wait_past_the_time_is_not_begun() {
    let fake = Fake::start().await;
    fake.answer(CALIFORNIA, 503, &[("retry-after", "3600")], "later");
    let started = Instant::now();
    let text = alerts(&fake.weather()).await;
    assert!(text.contains("status 503"), "{text}");
    assert_eq!(fake.asked().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_source_that_is_silent_is_given_up() {
    let fake = Fake::start().await;
    fake.hang(CALIFORNIA);
    let text = alerts(&fake.patient(Duration::from_millis(200))).await;
    assert!(
        text.starts_with("the weather service did not answer within"),
        "{text}"
    );
}

#[tokio::test]
async fn what_cannot_be_understood_is_said() {
    let fake = Fake::start().await;
    let weather = fake.weather();
    for body in [
        "",
        "<html>",
        "{\"features\": 3}",
        "{}",
        "{\"features\": [{\"properties\": 1}]}",
    ] {
        fake.answer(CALIFORNIA, 200, &[], body);
        let text = alerts(&weather).await;
        assert!(text.contains("cannot be understood"), "{body}: {text}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let fake = Fake::start().await;
    fake.answer(CALIFORNIA, 200, &[], &" ".repeat(17 * 1024 * 1024));
    let text = alerts(&fake.weather()).await;
    assert!(text.contains("longer than"), "{text}");
}

#[tokio::test]
async fn a_source_that_is_not_there_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let text = alerts(&Weather::over(&base, Duration::from_secs(10))).await;
    assert!(
        text.starts_with("the weather service cannot be reached: "),
        "{text}"
    );
}
