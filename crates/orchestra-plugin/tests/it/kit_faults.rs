//! A plugin of the kit, and an orchestrator that has lost its mind: frames of noise, and lengths that
//! are lies.

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Request, Response},
    generated::{
        BootRequest, McpRequest, PluginManifest, PromptGetRequest, Publish, StorageWriteRequest,
        StreamStart, ToolRequest,
    },
};
use tokio::time::timeout;

use crate::{
    kit_rig::{SAMPLE, Sample, tool_request},
    quic_hostile::{pair, raw_to},
    quic_rig::{Authority, PATIENCE, is_soak, soon},
    quic_rogue::Dice,
};

/// Requests that are good, to be spoilt. None of them ends the plugin.
fn good() -> Vec<Bytes> {
    let echo: ToolRequest = tool_request("echo", r#"{"text":"x","more":[1,null,{"a":2.5}]}"#);
    let arguments = echo.arguments.clone();
    let start = StreamStart {
        stream_id: "s".into(),
        tool_name: "count".into(),
        arguments: tool_request("count", r#"{"to":3}"#).arguments,
        ..StreamStart::default()
    };
    let write = StorageWriteRequest {
        path: "p".into(),
        metadata: arguments.clone(),
        ..StorageWriteRequest::default()
    };
    let event = Publish {
        topic: "sample.news".into(),
        event_type: "e".into(),
        payload: arguments,
        ..Publish::default()
    };
    let ours = McpRequest {
        method: "resources/read".into(),
        params: Bytes::from_static(br#"{"uri":"sample://text"}"#),
        ..McpRequest::default()
    };
    let prompt = PromptGetRequest {
        prompt_name: "greeting".into(),
        arguments: [("name".into(), "you".into())].into(),
        ..PromptGetRequest::default()
    };
    let manifest = PluginManifest {
        id: SAMPLE.into(),
        revision: 1,
        ..PluginManifest::default()
    };
    vec![
        Request::new("1", &echo).encode(),
        Request::new("2", &start).encode(),
        Request::new("3", &write).encode(),
        Request::new("4", &event).encode(),
        Request::new("5", &ours).encode(),
        Request::new("6", &prompt).encode(),
        Request::new("7", &manifest).encode(),
        Request::new("8", &BootRequest::default()).encode(),
    ]
}

/// Whether a frame would end the plugin: a `shutdown` is obeyed, be it made by chance.
fn is_harmless(frame: &[u8]) -> bool {
    let request = Request::decode(&Bytes::copy_from_slice(frame));
    !request.is_ok_and(|request| {
        request.kind() == Some(orchestra_plugin::envelope::RequestKind::Shutdown)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_frame_of_noise_is_answered() {
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let pid = sample.text("pid", "{}").await;
    let good = good();
    let mut dice = Dice(3);
    let mut below = move |most: usize| dice.next() as usize % most;
    for round in 0..if is_soak() { 100_000 } else { 2_000 } {
        let mut frame = good[below(good.len())].to_vec();
        for _ in 0..=below(4) {
            let at = below(frame.len());
            match below(4) {
                0 => frame[at] = below(256) as u8,
                1 => frame.truncate(at.max(1)),
                2 => frame.insert(at, below(256) as u8),
                _ if frame.len() > 1 => drop(frame.remove(at)),
                _ => {}
            }
        }
        if !is_harmless(&frame) {
            continue;
        }
        let answers = sample
            .caller
            .stream(Bytes::from(frame.clone()), soon())
            .await;
        let mut answers = answers.unwrap_or_else(|error| panic!("{round} {frame:?}: {error}"));
        let mut count = 0;
        while let Some(answer) = timeout(PATIENCE, answers.next())
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{round} {frame:?}: {error}"))
        {
            Response::decode(&answer).unwrap();
            count += 1;
        }
        assert!(count > 0, "{round} {frame:?}");
    }
    assert_eq!(sample.text("pid", "{}").await, pid);
}

/// Bytes that a process has for its data, whether it uses them or not.
#[cfg(target_os = "linux")]
fn data_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weakness_10_a_length_that_is_a_lie_takes_no_memory() {
    const FRAME: usize = 16 * 1024 * 1024;
    let authority = Authority::new();
    let sample = Sample::alone(&authority).await;
    let name = format!("orchestrator-to-{SAMPLE}");
    let certificate = Some(pair(&authority.identity(&name)));
    let server = (sample.address, SAMPLE);
    let (_endpoint, connection) = raw_to(&authority, server, certificate, b"orchestra-plugin")
        .await
        .unwrap();
    sample.text("pid", "{}").await;
    let process = sample.child.id().unwrap();
    let before = data_bytes(process);
    let mut streams = Vec::new();
    for _ in 0..64 {
        let (mut send, recv) = connection.open_bi().await.unwrap();
        send.write_all(&[1, 0, 0, 0, 7]).await.unwrap();
        streams.push((send, recv));
    }
    // They have arrived when one that comes after them is answered, on the same connection.
    let mut most = 0;
    for _ in 0..20 {
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&[0, 0, 0, 0]).await.unwrap();
        send.finish().unwrap();
        let answer = timeout(PATIENCE, recv.read_to_end(1_024)).await.unwrap();
        assert!(!answer.unwrap().is_empty());
        most = most.max(data_bytes(process));
    }
    let more = most.saturating_sub(before);
    assert!(more < FRAME, "{more} bytes for 64 bytes that came");
}
