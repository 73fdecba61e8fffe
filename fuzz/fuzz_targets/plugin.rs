//! Frames, envelopes and structs of the plugin protocol from arbitrary bytes: nothing panics, a
//! stream decodes the same however it is cut, what is forwarded is what came, and what a struct says
//! as JSON says the same struct.

#![cfg_attr(feature = "link", no_main)]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use orchestra_plugin::{
    envelope::{Request, Response},
    frame::FrameDecoder,
    structs::{self, Numbers, Style},
};

const CAP: usize = 512;

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = input;
    let whole = frames(bytes, bytes.len().max(1));
    assert_eq!(whole, frames(bytes, usize::from(step).max(1)));
    for frame in whole.iter().chain([&Bytes::copy_from_slice(bytes)]) {
        envelope(frame);
        message(frame);
        json(frame);
    }
});

fn frames(bytes: &[u8], step: usize) -> Vec<Bytes> {
    let mut decoder = FrameDecoder::new(CAP);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(step) {
        let mut chunk = Bytes::copy_from_slice(chunk);
        loop {
            match decoder.next(&mut chunk) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
    }
    frames
}

fn envelope(bytes: &Bytes) {
    if let Ok(request) = Request::decode(bytes) {
        let (kind, payload) = (request.kind(), request.payload());
        // What is routed goes on under another id, and everything else stays as it was.
        let _ = request.routing().is_ok();
        let again = request.with_request_id("other").encode();
        let again = Request::decode(&again).expect("what was written");
        assert_eq!(again.request_id(), "other");
        assert_eq!((again.kind(), again.payload()), (kind, payload));
    }
    let _ = Response::decode(bytes).is_ok();
}

fn message(bytes: &Bytes) {
    if let Ok(text) = structs::decode(bytes, Style::Plain) {
        let again = structs::encode(text.as_bytes(), Numbers::Nearest).expect("JSON");
        let same = structs::decode(&again, Style::Plain).expect("a struct");
        assert_eq!(text, same);
    }
}

fn json(bytes: &Bytes) {
    if let Ok(message) = structs::encode(bytes, Numbers::Nearest) {
        structs::decode(&message, Style::Sorted).expect("a struct");
    }
}

#[cfg(not(feature = "link"))]
fn main() {}
