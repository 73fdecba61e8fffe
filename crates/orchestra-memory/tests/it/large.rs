//! Too much, and too strange, over gRPC: a clear refusal, and the engine goes on.

use orchestra_memory::engine::generated::{
    ContextRequest, SessionEvent, StoreChunkRequest, StoreSessionRequest,
};
use tonic::Code;

use crate::in_process::{Served, query, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_tags_and_events_are_refused() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let tagged = |count: usize| StoreChunkRequest {
        tags: (0..count).map(|number| format!("t{number}")).collect(),
        ..text("tagged", "a text with tags")
    };
    let refused = client.store_chunk(tagged(100_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("tags: at most 32"), "{refused}");
    let event = SessionEvent {
        r#type: "note".to_owned(),
        summary: "x".to_owned(),
        timestamp: String::new(),
    };
    let session = StoreSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
        summary: "long".to_owned(),
        events: vec![event; 100_000],
    };
    let refused = client.store_session(session).await.unwrap_err();
    assert!(refused.message().contains("events"), "{refused}");
    client.store_chunk(tagged(32)).await.unwrap();
    let found = client.search_memory(query("tags")).await.unwrap();
    assert_eq!(found.into_inner().results[0].tags.len(), 32);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_every_script_and_of_control_characters_are_answered() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let texts = [
        "数据库迁移需要锁",
        "базы данных в Москве",
        "قاعدة البيانات",
        "מסד נתונים",
        "ฐานข้อมูล",
        "데이터베이스 이전",
        "ტესტი მონაცემთა",
    ];
    for content in texts {
        client.store_chunk(text("fact", content)).await.unwrap();
        let found = client.search_memory(query(content)).await.unwrap();
        assert!(!found.into_inner().results.is_empty(), "{content}");
    }
    let controls = (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32);
    for strange in [
        controls.collect::<String>().as_str(),
        "",
        "\0",
        "\u{202e}\u{2066}\u{feff}\u{ffff}\u{10ffff}",
        "\"* OR NEAR(AND ^ : {summary} -- ; DROP TABLE chunk",
        "👩‍👩‍👧‍👦🇬🇪",
        &"wide ".repeat(10_000),
    ] {
        client.search_memory(query(strange)).await.unwrap();
        let context = ContextRequest {
            project: "demo".to_owned(),
            query: strange.to_owned(),
            limit: 5,
        };
        client.get_context(context).await.unwrap();
    }
    served.end().await;
}
