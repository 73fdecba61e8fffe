//! What jobs printed is told whole, piece by piece, and never too much at once.

use orchestra_plan::phase::Phase;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

/// A plan whose job has failed and printed so many lines, so long each.
async fn talkative(lines: usize, length: usize) -> (Plans, Value) {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans.create(plan(&[job("one", &[])])).await;
    plans.model.run(&id);
    plans.model.print(&id, "one", lines, length);
    (plans, json!({"planId": id, "jobId": "one"}))
}

fn size(answer: &Value) -> usize {
    answer.to_string().len()
}

#[tokio::test]
async fn page_by_page_no_line_is_lost() {
    let (plans, own) = talkative(700, 4_000).await;
    for more in [json!({}), json!({"limit": 5_000}), json!({"limit": 7})] {
        let own = with(&own, more);
        let (mut seen, mut cursor) = (String::new(), json!("0"));
        let mut lines = 0;
        loop {
            let page = with(&own, json!({"cursor": cursor}));
            let page = plans.ok("get_copilot_job_logs", page).await;
            let text = page["logs"].as_str().unwrap();
            assert_eq!(
                page["lines"],
                text.lines().count(),
                "what is said is what is shown"
            );
            lines += text.lines().count();
            seen.push_str(text);
            cursor = page["next_cursor"].clone();
            if page["more"] == false {
                break;
            }
        }
        for number in 1..=700 {
            assert!(seen.contains(&format!("] line {number} ")), "{number}");
        }
        assert_eq!(lines, 703);
    }
}

#[tokio::test]
async fn whether_there_are_lines_before_the_last_ones_is_told() {
    let (plans, own) = talkative(600, 0).await;
    let read = async |more: Value| plans.ok("get_copilot_job_logs", with(&own, more)).await;
    // Two phases said a line each before, and one what went wrong.
    for (more, lines, truncated) in [
        (json!({}), 500, true),
        (json!({"tail": 602}), 602, true),
        (json!({"tail": 603}), 603, false),
        (json!({"tail": 5_000}), 603, false),
        (json!({"tail": 10_000}), 603, false),
        (json!({"phase": "merge-fi"}), 1, false),
        (json!({"phase": "work", "tail": 2}), 2, true),
    ] {
        let page = read(more.clone()).await;
        assert_eq!(
            (&page["lines"], &page["truncated"]),
            (&json!(lines), &json!(truncated)),
            "{more}"
        );
    }
}

#[tokio::test]
async fn a_cursor_belongs_to_its_attempt() {
    let (plans, own) = talkative(3, 0).await;
    let first = plans.ok("get_copilot_job_logs", own.clone()).await;
    let cursor = first["next_cursor"].clone();
    plans
        .ok("retry_copilot_plan", json!({"planId": own["planId"]}))
        .await;
    plans.model.run(own["planId"].as_str().unwrap());
    let behind = with(&own, json!({"cursor": cursor}));
    let behind = plans.ok("get_copilot_job_logs", behind).await;
    assert_eq!(
        (
            &behind["logs"],
            &behind["attemptNumber"],
            &behind["latestAttemptNumber"]
        ),
        (&json!(""), &json!(1), &json!(2))
    );
    let now = plans.ok("get_copilot_job_logs", own.clone()).await;
    assert_eq!(
        (&now["attemptNumber"], &now["latestAttemptNumber"]),
        (&json!(2), &Value::Null)
    );
    for wrong in ["2.x", "x.1", "0.1", "1.1"] {
        let wrong = with(&own, json!({"cursor": wrong, "attemptNumber": 2}));
        assert_eq!(
            plans.refused("get_copilot_job_logs", wrong).await.0,
            "bad-cursor"
        );
    }
}

#[tokio::test]
async fn a_talkative_job_fills_no_context() {
    let (plans, own) = talkative(2_000, 4_000).await;
    let shown = plans.ok("get_copilot_job_logs", own.clone()).await;
    assert!(
        size(&shown) < 40_000 && shown["truncated"] == true,
        "{}",
        size(&shown)
    );
    let context = plans
        .ok("get_copilot_job_failure_context", own.clone())
        .await;
    assert!(size(&context) < 50_000, "{}", size(&context));
    assert_eq!(context["logsTruncated"], true);
    let last = context["logs"].as_array().unwrap().last().unwrap();
    assert!(
        last["message"].as_str().unwrap().starts_with("line 2000 "),
        "{last}"
    );
    let attempts = with(&own, json!({"includeLogs": true}));
    let attempts = plans.ok("get_copilot_job_attempts", attempts).await;
    assert!(size(&attempts) < 60_000, "{}", size(&attempts));
    // Who wants more gets more.
    let more = plans
        .ok("get_copilot_job_logs", with(&own, json!({"tail": 200})))
        .await;
    assert_eq!(more["lines"], 200);
}
