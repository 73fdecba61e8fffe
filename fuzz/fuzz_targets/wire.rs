//! Frames and envelopes from arbitrary bytes: nothing panics, a stream decodes the same however it
//! is cut, and what the envelope accepts is JSON whose parts are found where they are.

#![cfg_attr(feature = "link", no_main)]

use libfuzzer_sys::fuzz_target;
use orchestra_wire::{Frame, Inbound, LineDecoder, Message, Reply, parse, parse_item};

const CAP: usize = 512;

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = input;
    let whole = decode(bytes, bytes.len().max(1));
    let cut = decode(bytes, usize::from(step).max(1));
    assert_eq!(whole, cut);
    for line in whole.iter().flatten() {
        check(line);
    }
});

fn decode(bytes: &[u8], step: usize) -> Vec<Option<Vec<u8>>> {
    let mut decoder = LineDecoder::new(CAP);
    let mut frames = Vec::new();
    let owned = |frame: Frame<'_>| match frame {
        Frame::Line(line) => Some(line.as_bytes().to_vec()),
        Frame::TooLong => None,
    };
    for mut chunk in bytes.chunks(step) {
        while let Some(frame) = decoder.next(&mut chunk) {
            frames.push(owned(frame));
        }
        assert!(decoder.held_bytes() <= CAP + 1);
    }
    frames.extend(decoder.finish().map(owned));
    frames
}

fn check(line: &[u8]) {
    match parse(line) {
        Ok(Inbound::One(message)) => {
            let value: serde_json::Value = match serde_json::from_slice(line) {
                Ok(value) => value,
                // Numbers and surrogates that are JSON but no value of serde_json.
                Err(_) => return,
            };
            check_message(&message, &value);
        }
        Ok(Inbound::Batch(items)) => {
            for item in items {
                let _ = parse_item(item);
            }
        }
        Ok(Inbound::BatchTooLong) => panic!("more items than a line of {CAP} bytes has"),
        Err(malformed) => {
            if malformed.error.code.0 == -32600 {
                assert!(serde_json::from_slice::<&serde_json::value::RawValue>(line).is_ok());
            }
        }
    }
}

fn check_message(message: &Message<'_>, value: &serde_json::Value) {
    let same = |text: &str, key: &str| {
        if let Ok(found) = serde_json::from_str::<serde_json::Value>(text) {
            assert_eq!(found, value[key]);
        }
    };
    match message {
        Message::Request(request) => {
            same(request.id.as_json(), "id");
            assert_eq!(*request.method, value["method"]);
            if let Some(params) = request.raw_params() {
                same(params.get(), "params");
            }
        }
        Message::Notification(notification) => {
            assert_eq!(*notification.method, value["method"]);
        }
        Message::Response(response) => match response.reply {
            Reply::Result(result) => same(result.get(), "result"),
            Reply::Error(error) => same(error.get(), "error"),
        },
    }
}

#[cfg(not(feature = "link"))]
fn main() {}
