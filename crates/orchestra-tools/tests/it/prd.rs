//! The PRD questionnaire, scenario 9 and the weaknesses that concern it.

use serde_json::{Value, json};

use crate::bench::Bench;

const REQUIRED: [bool; 12] = [
    true, true, true, true, false, true, false, false, false, false, false, false,
];

fn project() -> Value {
    json!({"project": "my-app"})
}

fn answer(text: &str) -> Value {
    json!({"project": "my-app", "answer": text})
}

async fn complete(bench: &Bench) -> Value {
    bench
        .ok(
            "start_prd_session",
            json!({"project": "my-app", "restart": true}),
        )
        .await;
    for number in 0..11 {
        bench
            .ok("answer_prd_question", answer(&format!("Answer {number}")))
            .await;
    }
    bench.ok("answer_prd_question", answer("Answer 11")).await
}

#[tokio::test]
async fn scenario_09_the_questionnaire_from_start_to_phases() {
    let bench = Bench::with_story().await;
    let mut question = bench.ok("start_prd_session", project()).await;
    for (index, required) in REQUIRED.into_iter().enumerate() {
        assert_eq!(question["status"], "in_progress");
        assert_eq!(
            (&question["index"], &question["required"]),
            (&json!(index), &json!(required))
        );
        if required {
            let refusal = bench.refused("skip_prd_question", project()).await;
            assert!(refusal.contains("is required"), "{refusal}");
        }
        if index == 6 {
            let back = bench.ok("back_prd_question", project()).await;
            assert_eq!(back["index"], 5);
            bench
                .ok("answer_prd_question", answer("Features again"))
                .await;
        }
        question = if index == 7 {
            bench.ok("skip_prd_question", project()).await
        } else {
            bench
                .ok("answer_prd_question", answer(&format!("Answer {index}")))
                .await
        };
    }
    assert_eq!(question, json!({"status": "complete", "file": "prd.md"}));
    let text = bench.ok("read_prd", project()).await["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        text.starts_with("# Answer 0\n")
            && text.contains("Features again")
            && !text.contains("Constraints")
    );

    for tool in ["answer_prd_question", "skip_prd_question"] {
        let arguments = if tool == "answer_prd_question" {
            answer("More")
        } else {
            project()
        };
        assert!(
            bench
                .refused(tool, arguments)
                .await
                .starts_with("the PRD session is complete")
        );
    }
    let split = json!({"project": "my-app", "phases": ["Core", "Polish"]});
    let phases = bench.ok("split_prd", split).await;
    assert_eq!(
        phases,
        json!({"phases": ["my-app-phase-1", "my-app-phase-2"], "count": 2})
    );
    bench
        .ok(
            "create_epic",
            json!({"project": "my-app-phase-1", "title": "Works there"}),
        )
        .await;
    bench
        .ok("start_prd_session", json!({"project": "my-app-phase-2"}))
        .await;
    let listed = bench.ok("list_prd_phases", project()).await;
    assert_eq!(listed["total"], 2);
    assert_eq!(
        listed["items"][1],
        json!({"slug": "my-app-phase-2", "name": "My App — Phase 2: Polish", "phase": 2, "status": "in_progress"})
    );
}

#[tokio::test]
async fn w05_a_complete_questionnaire_refuses_answers_and_the_provider_lives() {
    let bench = Bench::with_story().await;
    complete(&bench).await;
    for _ in 0..3 {
        bench
            .refused("answer_prd_question", answer("Too late"))
            .await;
        bench.refused("skip_prd_question", project()).await;
    }
    assert_eq!(
        bench.ok("get_prd_session", project()).await["status"],
        "complete"
    );
    assert_eq!(bench.ok("back_prd_question", project()).await["index"], 11);
    assert_eq!(
        bench.ok("get_prd_session", project()).await["status"],
        "in_progress"
    );
}

#[tokio::test]
async fn w07_phases_are_projects_of_their_own() {
    let bench = Bench::with_story().await;
    complete(&bench).await;
    bench
        .ok(
            "split_prd",
            json!({"project": "my-app", "phases": ["One", "Two"]}),
        )
        .await;
    let phase = json!({"project": "my-app-phase-1"});
    let epic = bench
        .ok(
            "create_epic",
            json!({"project": "my-app-phase-1", "title": "Epic"}),
        )
        .await;
    assert!(
        !epic["id"].as_str().unwrap().starts_with("MA-"),
        "ids of the phase are its own: {epic}"
    );
    let status = bench.ok("get_project_status", phase.clone()).await;
    assert_eq!(
        (&status["parent_slug"], &status["phase"]),
        (&json!("my-app"), &json!(1))
    );
    assert_eq!(bench.ok("list_projects", json!({})).await["total"], 3);
    assert!(
        bench.ok("read_prd", phase).await["content"]
            .as_str()
            .unwrap()
            .starts_with('#')
    );
    let refusal = bench
        .refused(
            "split_prd",
            json!({"project": "my-app", "phases": ["A", "B"]}),
        )
        .await;
    assert!(refusal.starts_with("the PRD is split already"), "{refusal}");
}

#[tokio::test]
async fn w36_nothing_is_replaced_unasked() {
    let bench = Bench::with_story().await;
    bench.ok("start_prd_session", project()).await;
    let refusal = bench.refused("answer_prd_question", answer("  ")).await;
    assert!(refusal.contains("is required"), "{refusal}");
    bench.ok("answer_prd_question", answer("Shop")).await;
    let refusal = bench.refused("start_prd_session", project()).await;
    assert!(refusal.contains("pass restart"), "{refusal}");
    assert_eq!(
        bench
            .ok(
                "start_prd_session",
                json!({"project": "my-app", "restart": true})
            )
            .await["index"],
        0
    );

    bench
        .ok(
            "write_prd",
            json!({"project": "my-app", "content": "# By hand"}),
        )
        .await;
    for number in 0..11 {
        bench
            .ok("answer_prd_question", answer(&format!("Answer {number}")))
            .await;
    }
    let refusal = bench.refused("skip_prd_question", project()).await;
    assert!(refusal.contains("pass overwrite"), "{refusal}");
    assert_eq!(
        bench.ok("read_prd", project()).await["content"],
        "# By hand"
    );
    bench
        .ok(
            "skip_prd_question",
            json!({"project": "my-app", "overwrite": true}),
        )
        .await;
    let text = bench.ok("read_prd", project()).await["content"].clone();
    assert!(
        text.as_str().unwrap().starts_with("# Answer 0"),
        "the title is the answer, not the slug: {text}"
    );
}

#[tokio::test]
async fn a_preview_and_an_abandoned_session() {
    let bench = Bench::with_story().await;
    assert!(
        bench
            .refused("preview_prd", project())
            .await
            .contains("start_prd_session")
    );
    bench.ok("start_prd_session", project()).await;
    bench.ok("answer_prd_question", answer("Shop")).await;
    let session = bench.ok("get_prd_session", project()).await;
    assert_eq!(
        session["answers"],
        json!([{"question": "project_name", "answer": "Shop"}])
    );
    assert_eq!(session["current_index"], 1);
    let preview = bench.ok("preview_prd", project()).await["content"].clone();
    assert!(preview.as_str().unwrap().starts_with("# Shop"));
    assert_eq!(
        bench.ok("abandon_prd_session", project()).await["status"],
        "abandoned"
    );
    assert_eq!(
        bench.ok("abandon_prd_session", project()).await["status"],
        "abandoned"
    );
    bench.refused("get_prd_session", project()).await;
    assert_eq!(
        bench.ok("list_prd_phases", project()).await,
        json!({"items": [], "total": 0})
    );
}
