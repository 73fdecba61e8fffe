//! Frames of noise: every one of them is answered, and costs nobody else anything.

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Request, Response},
    generated::{
        HealthRequest, HealthResult, PluginManifest, Publish, StorageWriteRequest, StreamStart,
        Subscribe, ToolRequest,
    },
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    face_rig::{PATIENCE, Rig, soon, structure},
    rig::is_soak,
};

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Requests that are good, to be spoilt.
fn good() -> Vec<Bytes> {
    let arguments = structure(&json!({"a": [1, 2.5, null, {"b": "c"}], "d": true}));
    vec![
        Request::new(
            "1",
            &ToolRequest {
                tool_name: "echo".into(),
                arguments: arguments.clone(),
                session_id: "s".into(),
                ..ToolRequest::default()
            },
        )
        .encode(),
        Request::new(
            "2",
            &Publish {
                topic: "t".into(),
                event_type: "e".into(),
                payload: arguments.clone(),
                ..Publish::default()
            },
        )
        .encode(),
        Request::new(
            "3",
            &Subscribe {
                subscription_id: "s".into(),
                topic: "t".into(),
                filters: [("a".into(), "b".into())].into(),
            },
        )
        .encode(),
        Request::new(
            "4",
            &StorageWriteRequest {
                path: "p".into(),
                content: "c".into(),
                metadata: arguments.clone(),
                ..StorageWriteRequest::default()
            },
        )
        .encode(),
        Request::new(
            "5",
            &StreamStart {
                stream_id: "x".into(),
                tool_name: "echo".into(),
                arguments,
                ..StreamStart::default()
            },
        )
        .encode(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_frame_of_noise_is_answered() {
    let rig = Rig::new();
    let needs = PluginManifest {
        needs_events: vec!["*".into()],
        needs_tools: vec!["*".into()],
        needs_storage: vec!["*".into()],
        ..PluginManifest::default()
    };
    let plugin = rig.plugin("some.plugin", needs).await;
    let good = good();
    let mut dice = Dice(11);
    for round in 0..if is_soak() { 100_000 } else { 2_000 } {
        let mut frame = good[dice.next(good.len())].to_vec();
        for _ in 0..=dice.next(4) {
            let at = dice.next(frame.len());
            match dice.next(4) {
                0 => frame[at] = dice.next(256) as u8,
                1 => frame.truncate(at.max(1)),
                2 => frame.insert(at, dice.next(256) as u8),
                _ => drop(frame.remove(at)),
            }
            if frame.is_empty() {
                frame.push(0xff);
            }
        }
        let shown = frame.clone();
        let answers = plugin.0.stream(Bytes::from(frame), soon()).await;
        let mut answers = answers.unwrap_or_else(|error| panic!("{round} {shown:?}: {error}"));
        let mut count = 0;
        while let Some(answer) = timeout(PATIENCE, answers.next())
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{round} {shown:?}: {error}"))
        {
            Response::decode(&answer).unwrap();
            count += 1;
        }
        assert!(count > 0, "{round} {shown:?}");
    }
    let _: HealthResult = plugin.get(&HealthRequest::default()).await;
}
