//! The three resources, and the list of them.

use orchestra_hub::{Provider, ProviderError};
use serde_json::{Value, json};

use crate::bench::Bench;

#[tokio::test]
async fn resources_show_what_the_tools_show() {
    let bench = Bench::with_story().await;
    bench.task("First").await;
    bench
        .ok(
            "write_prd",
            json!({"project": "my-app", "content": "# Mine\n"}),
        )
        .await;
    assert_eq!(
        bench.resource("toon://project/my-app/prd").await.unwrap(),
        "# Mine\n"
    );
    let parse = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let status = parse(
        bench
            .resource("toon://project/%6Dy-app/status")
            .await
            .unwrap(),
    );
    assert_eq!(
        status,
        bench
            .ok("get_project_status", json!({"project": "my-app"}))
            .await
    );
    let task = parse(
        bench
            .resource("toon://project/my-app/task/MA-1/MA-2/MA-3")
            .await
            .unwrap(),
    );
    assert_eq!(
        task,
        bench
            .ok("get_task", json!({"project": "my-app", "task_id": "MA-3"}))
            .await
    );
}

#[tokio::test]
async fn what_is_not_there_is_unknown() {
    let bench = Bench::with_story().await;
    bench.task("First").await;
    for uri in [
        "toon://project/none/prd",
        "toon://project/none/status",
        "toon://project/my-app/task/MA-1/MA-2/MA-9",
        "toon://project/my-app/task/MA-2/MA-2/MA-3",
        "toon://project/my-app/task/MA-1/MA-1/MA-3",
        "toon://project/my-app/task/MA-1/MA-2/MA-2",
        "toon://project/my-app",
        "file:///etc/passwd",
    ] {
        let error = bench.resource(uri).await.unwrap_err();
        assert!(
            matches!(
                error,
                ProviderError::Unknown {
                    kind: "resource",
                    ..
                }
            ),
            "{uri}: {error}"
        );
    }
}

#[tokio::test]
async fn the_resources_of_each_project_are_listed() {
    let bench = Bench::new();
    let _notices = bench.builtin.notices().unwrap();
    let mut catalog = bench.builtin.catalog();
    bench.ok("create_project", json!({"name": "My App"})).await;
    let listed = |catalog: &orchestra_hub::Catalog| -> Vec<String> {
        catalog
            .resources
            .iter()
            .map(|resource| resource.uri.clone())
            .collect()
    };
    let expected = ["toon://project/my-app/prd", "toon://project/my-app/status"];
    catalog
        .wait_for(|catalog| listed(catalog) == expected)
        .await
        .unwrap();
    bench
        .ok("delete_project", json!({"project": "my-app"}))
        .await;
    catalog
        .wait_for(|catalog| catalog.resources.is_empty())
        .await
        .unwrap();
}
