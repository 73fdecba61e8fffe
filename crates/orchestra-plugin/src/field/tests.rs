//! Tests of reading and writing single fields.

use proptest::prelude::*;

use super::*;

fn numbers(message: &[u8]) -> Result<Vec<u32>, FieldError> {
    Fields::new(message)
        .map(|field| field.map(|field| field.number))
        .collect()
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, value);
    out
}

#[test]
fn fields_of_every_type_are_read_with_their_places() {
    let message = b"\x08\x96\x01\x11\x00\x00\x00\x00\x00\x00\xf0\x3f\x1a\x02hi\x25\x01\x00\x00\x00";
    let fields: Vec<_> = Fields::new(message).map(Result::unwrap).collect();
    let seen: Vec<_> = fields
        .iter()
        .map(|f| (f.number, f.value, f.start..f.end))
        .collect();
    assert_eq!(
        seen,
        [
            (1, Value::Varint(150), 0..3),
            (2, Value::Fixed64(1f64.to_bits()), 3..12),
            (3, Value::Bytes(b"hi"), 12..16),
            (4, Value::Fixed32(1), 16..21),
        ]
    );
}

#[test]
fn what_is_no_field_is_refused() {
    let cases: [(&[u8], FieldError); 12] = [
        (b"\x0a", FieldError::Truncated { at: 0 }),
        (b"\x0a\x00\x0a\x05abcd", FieldError::Truncated { at: 2 }),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            FieldError::Truncated { at: 0 },
        ),
        (b"\x11\x00\x00", FieldError::Truncated { at: 0 }),
        (b"\x25\x00\x00", FieldError::Truncated { at: 0 }),
        (b"\x08\x80", FieldError::Truncated { at: 0 }),
        (
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            FieldError::Varint { at: 1 },
        ),
        (
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            FieldError::Varint { at: 1 },
        ),
        (b"\x00\x00", FieldError::Number { at: 0 }),
        (b"\x80\x80\x80\x80\x10\x00", FieldError::Number { at: 0 }),
        (
            b"\x0b\x0c",
            FieldError::WireType {
                number: 1,
                wire_type: 3,
            },
        ),
        (
            b"\x0f",
            FieldError::WireType {
                number: 1,
                wire_type: 7,
            },
        ),
    ];
    for (message, error) in cases {
        assert_eq!(numbers(message), Err(error), "{message:02x?}");
    }
}

#[test]
fn reading_ends_after_an_error() {
    let mut fields = Fields::new(b"\x0b\x0a\x00");
    assert!(fields.next().is_some_and(|field| field.is_err()));
    assert_eq!(fields.next(), None);
}

#[test]
fn the_highest_number_and_the_longest_varint_are_read() {
    assert_eq!(
        numbers(b"\xf8\xff\xff\xff\x0f\x00"),
        Ok(vec![(1 << 29) - 1])
    );
    let mut message = vec![0x08];
    put_varint(&mut message, u64::MAX);
    let field = Fields::new(&message).next();
    assert_eq!(
        field.map(|f| f.map(|f| f.value)),
        Some(Ok(Value::Varint(u64::MAX)))
    );
}

#[test]
fn a_part_of_the_buffer_is_shared_and_not_copied() {
    let message = Bytes::from_static(b"\x08\x01\x12\x02hi");
    let field = Fields::new(&message).last().unwrap().unwrap();
    let shared = field.shared(&message).unwrap();
    assert_eq!(&shared[..], b"hi");
    assert_eq!(shared.as_ptr(), message[4..].as_ptr());
}

#[test]
fn a_string_is_set_and_the_rest_stays() {
    // Field 3 stands between fields 1 and 77, or twice, or nowhere.
    let cases: [(&[u8], &str, &[u8]); 6] = [
        (
            b"\x0a\x01a\x1a\x03old\xe8\x04\x07",
            "newer",
            b"\x0a\x01a\x1a\x05newer\xe8\x04\x07",
        ),
        (b"\x1a\x01x\x0a\x01a\x1a\x01y", "z", b"\x1a\x01z\x0a\x01a"),
        (b"\x1a\x01x\x1a\x01y\x0a\x01a", "z", b"\x1a\x01z\x0a\x01a"),
        (b"\x0a\x01a", "z", b"\x0a\x01a\x1a\x01z"),
        (b"\x0a\x01a\x1a\x01x", "", b"\x0a\x01a"),
        // A number where a string belongs is replaced as well.
        (b"\x18\x07", "z", b"\x1a\x01z"),
    ];
    for (message, text, wanted) in cases {
        let changed = with_text(&Bytes::from_static(message), 3, text).unwrap();
        assert_eq!(&changed[..], wanted, "{message:02x?}");
    }
}

#[test]
fn a_message_that_says_so_already_is_not_copied() {
    for (message, text) in [(&b"\x1a\x01x\x0a\x01a"[..], "x"), (b"\x0a\x01a", "")] {
        let message = Bytes::from_static(message);
        let changed = with_text(&message, 3, text).unwrap();
        assert_eq!(changed.as_ptr(), message.as_ptr());
        assert_eq!(changed, message);
    }
}

#[test]
fn fields_that_are_kept_together_are_not_copied() {
    let message = Bytes::from_static(b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d");
    let kept =
        |wanted: &[u32]| retained(&message, |field| Ok(wanted.contains(&field.number))).unwrap();
    assert_eq!(kept(&[2, 3]).as_ptr(), message[3..].as_ptr());
    assert_eq!(&kept(&[2, 3])[..], b"\x12\x01b\x1a\x01c");
    assert_eq!(&kept(&[1, 3, 4])[..], b"\x0a\x01a\x1a\x01c\x22\x01d");
    assert_eq!(&kept(&[1, 3])[..], b"\x0a\x01a\x1a\x01c");
    assert_eq!(kept(&[]), Bytes::new());
}

proptest! {
    #[test]
    fn a_varint_comes_back_and_has_the_length_that_was_told(value: u64) {
        let mut message = vec![0x08];
        message.extend(varint(value));
        prop_assert_eq!(message.len() - 1, varint_len(value));
        let field = Fields::new(&message).next();
        prop_assert_eq!(field.map(|f| f.map(|f| f.value)), Some(Ok(Value::Varint(value))));
    }

    #[test]
    fn fields_of_hostile_bytes_never_overlap_or_panic(message: Vec<u8>) {
        let mut end = 0;
        for field in Fields::new(&message).map_while(Result::ok) {
            prop_assert_eq!(field.start, end);
            prop_assert!(field.end > field.start && field.end <= message.len());
            end = field.end;
        }
    }

    #[test]
    fn a_string_that_was_set_is_what_others_read(
        fields in proptest::collection::vec((1u32..5, "[a-z]{0,3}"), 0..8),
        text in "[a-z]{0,3}",
    ) {
        let mut message = Vec::new();
        for (number, text) in &fields {
            put_bytes_head(&mut message, *number, text.len());
            message.extend_from_slice(text.as_bytes());
        }
        let changed = with_text(&message.into(), 3, &text).unwrap();
        let found: Vec<_> = Fields::new(&changed)
            .map(|field| field.and_then(|f| Ok((f.number, f.text()?.to_owned()))))
            .collect::<Result<_, _>>()
            .unwrap();
        let others = |all: &[(u32, String)]| -> Vec<(u32, String)> {
            all.iter().filter(|(number, _)| *number != 3).cloned().collect()
        };
        prop_assert_eq!(others(&found), others(&fields));
        let set: Vec<_> = found.iter().filter(|(number, _)| *number == 3).collect();
        prop_assert!(set.len() <= 1);
        prop_assert_eq!(set.first().map_or("", |(_, text)| text.as_str()), text);
    }
}
