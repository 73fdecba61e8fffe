//! Tests of cutting a stream into frames.

use proptest::prelude::*;

use super::*;

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = header(payload.len()).unwrap().to_vec();
    frame.extend_from_slice(payload);
    frame
}

fn decode(limit: usize, chunks: &[&[u8]]) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut decoder = FrameDecoder::new(limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        let mut input = Bytes::copy_from_slice(chunk);
        while let Some(frame) = decoder.next(&mut input)? {
            frames.push(frame.to_vec());
        }
        assert!(input.is_empty());
    }
    decoder.finish().map(|()| frames)
}

#[test]
fn an_empty_frame_is_a_frame() {
    assert_eq!(decode(10, &[&[0, 0, 0, 0]]), Ok(vec![vec![]]));
}

#[test]
fn a_frame_inside_a_chunk_is_a_part_of_it() {
    let chunk = Bytes::from([framed(b"abc"), framed(b"de")].concat());
    let mut decoder = FrameDecoder::default();
    let mut input = chunk.clone();
    let first = decoder.next(&mut input).unwrap().unwrap();
    let second = decoder.next(&mut input).unwrap().unwrap();
    assert_eq!((&first[..], &second[..]), (&b"abc"[..], &b"de"[..]));
    assert_eq!(first.as_ptr(), chunk[4..].as_ptr());
    assert_eq!(second.as_ptr(), chunk[11..].as_ptr());
    assert_eq!(decoder.next(&mut input), Ok(None));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn the_limit_is_inclusive() {
    assert_eq!(decode(3, &[&framed(b"abc")]), Ok(vec![b"abc".to_vec()]));
    let error = FrameError::TooLong {
        length: 4,
        limit: 3,
    };
    assert_eq!(decode(3, &[&framed(b"abcd")]), Err(error));
    assert!(header(MAX_FRAME_BYTES).is_ok());
    assert_eq!(
        header(MAX_FRAME_BYTES + 1),
        Err(FrameError::TooLong {
            length: 16_777_217,
            limit: 16_777_216
        })
    );
}

#[test]
fn a_header_over_the_limit_is_refused_before_any_payload() {
    let mut decoder = FrameDecoder::default();
    let refused = decoder.next(&mut Bytes::from_static(&[1, 0, 0, 1]));
    assert_eq!(
        refused,
        Err(FrameError::TooLong {
            length: 16_777_217,
            limit: MAX_FRAME_BYTES
        })
    );
    let mut decoder = FrameDecoder::default();
    assert_eq!(
        decoder.next(&mut Bytes::from_static(&[1, 0, 0, 0])),
        Ok(None)
    );
}

#[test]
fn a_stream_that_ends_inside_a_frame_says_so() {
    let frame = framed(b"abc");
    for cut in 1..frame.len() {
        let error = FrameError::Truncated { received: cut };
        assert_eq!(decode(10, &[&frame[..cut]]), Err(error), "cut at {cut}");
    }
}

#[test]
fn room_grows_with_what_has_arrived_and_not_with_what_the_header_says() {
    let mut decoder = FrameDecoder::default();
    assert_eq!(
        decoder.next(&mut Bytes::from_static(&[1, 0, 0, 0])),
        Ok(None)
    );
    assert_eq!(decoder.payload.capacity(), 0);
    let mut arrived = 0;
    while arrived + 1_000 < MAX_FRAME_BYTES {
        assert_eq!(decoder.next(&mut Bytes::from(vec![7; 1_000])), Ok(None));
        arrived += 1_000;
        assert_eq!(decoder.held_bytes(), arrived);
        let room = decoder.payload.capacity();
        assert!(
            room <= (4 * arrived).max(FIRST_ROOM_BYTES),
            "{room} for {arrived}"
        );
    }
    let rest = vec![7; MAX_FRAME_BYTES - arrived];
    let frame = decoder.next(&mut Bytes::from(rest)).unwrap().unwrap();
    assert_eq!(frame.len(), MAX_FRAME_BYTES);
    assert_eq!(decoder.held_bytes(), 0);
}

#[test]
fn header_and_message_stand_in_one_buffer() {
    let message = prost_types::Timestamp {
        seconds: 150,
        nanos: 0,
    };
    assert_eq!(
        &encode(&message).unwrap()[..],
        b"\x00\x00\x00\x03\x08\x96\x01"
    );
}

#[test]
fn a_message_over_the_limit_is_not_encoded() {
    let fits = prost_types::Any {
        type_url: String::new(),
        value: vec![0; MAX_FRAME_BYTES - 5],
    };
    assert_eq!(
        encode(&fits).map(|frame| frame.len()),
        Ok(4 + MAX_FRAME_BYTES)
    );
    let large = prost_types::Any {
        type_url: "x".into(),
        ..fits
    };
    let error = encode(&large).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { .. }));
}

proptest! {
    #[test]
    fn frames_cut_anywhere_decode_the_same(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
        cuts in proptest::collection::vec(0usize..150, 0..8),
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.sort_unstable();
        cuts.push(stream.len());
        let mut start = 0;
        let chunks: Vec<&[u8]> = cuts
            .into_iter()
            .map(|cut| &stream[std::mem::replace(&mut start, cut)..cut])
            .collect();
        prop_assert_eq!(decode(20, &chunks), Ok(payloads));
    }

    #[test]
    fn hostile_bytes_never_panic_nor_are_held_twice(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
    ) {
        let mut decoder = FrameDecoder::new(60);
        let mut arrived = 0;
        for chunk in chunks {
            arrived += chunk.len();
            let mut input = Bytes::from(chunk);
            while let Ok(Some(_)) = decoder.next(&mut input) {}
            prop_assert!(decoder.held_bytes() <= arrived);
        }
    }
}
