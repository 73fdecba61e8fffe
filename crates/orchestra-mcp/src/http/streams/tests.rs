//! Streams without a server around them.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::{
    stream::{KEPT_EVENTS, KEPT_READ_BYTES},
    *,
};

const MIB: usize = 1024 * 1024;

fn streams() -> Arc<Streams> {
    within(usize::MAX)
}

fn within(most: usize) -> Arc<Streams> {
    Arc::new(Streams::new(Budget::new(most)))
}

fn id(number: u64) -> RequestId {
    RequestId::from_number(number)
}

fn rope(text: &str) -> Rope {
    let mut rope = Rope::new();
    rope.push(text.as_bytes());
    rope.push_byte(b'\n');
    rope
}

fn answer(number: u64, length: usize) -> String {
    let text = "x".repeat(length);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":\"{text}\"}}")
}

/// What a call says.
fn report(streams: &Streams, request: u64, text: &str) {
    streams.emit(Some(&id(request)), rope(text));
}

/// What is there to read, without waiting: numbers and texts, of long ones only the beginning.
fn read(reader: &mut StreamReader) -> Vec<(u64, String)> {
    let mut read = Vec::new();
    while let Poll::Ready(Some((number, event))) = poll(reader.wait()) {
        let text = String::from_utf8_lossy(&event[..event.len().min(50)]);
        read.push((number, text.into_owned()));
    }
    read
}

fn texts(reader: &mut StreamReader) -> Vec<String> {
    read(reader).into_iter().map(|(_, text)| text).collect()
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn is_over(reader: &mut StreamReader) -> bool {
    matches!(poll(reader.wait()), Poll::Ready(None))
}

#[test]
fn messages_come_in_order_each_on_the_stream_of_its_request() {
    let streams = streams();
    let mut one = streams.open(&[id(1)]).unwrap();
    let mut two = streams.open(&[id(2)]).unwrap();
    assert_eq!(streams.open(&[id(2)]).unwrap_err(), Unopened::Taken);
    report(&streams, 2, "a");
    report(&streams, 1, "b");
    streams.ask(&id(1), rope("c"));
    streams.send(rope(&format!("notice\n{}\n{}", answer(2, 1), answer(1, 1))));
    report(&streams, 1, "late");
    assert_eq!(texts(&mut one), ["b", "c", &answer(1, 1)]);
    assert_eq!(texts(&mut two), ["a", &answer(2, 1)]);
    assert!(is_over(&mut one) && one.is_at_end() && is_over(&mut two));
    let mut own = streams.listen().unwrap();
    assert_eq!(read(&mut own), [(1, "notice".into()), (2, "late".into())]);
    assert!(!is_over(&mut own));
    assert!(streams.open(&[id(2)]).is_ok(), "the id is free again");
}

#[test]
fn a_stream_begins_with_its_answer_or_with_a_part() {
    let streams = streams();
    let mut reader = streams.open(&[id(1)]).unwrap();
    assert!(poll(reader.begins()).is_pending());
    report(&streams, 1, "a");
    assert_eq!(poll(reader.begins()), Poll::Ready(Beginning::Part));
    // However large what follows is, what it began with is still there.
    streams.send(rope(&answer(1, 2 * MIB)));
    assert_eq!(poll(reader.begins()), Poll::Ready(Beginning::Part));
    assert_eq!(texts(&mut reader), ["a", &answer(1, 50)[..50]]);
    let mut reader = streams.open(&[id(2)]).unwrap();
    let whole = answer(2, 1);
    streams.send(rope(&whole));
    let begins = poll(reader.begins());
    assert_eq!(begins, Poll::Ready(Beginning::Whole(whole.into())));
    let mut reader = streams.open(&[id(3)]).unwrap();
    streams.closed(&id(3));
    assert_eq!(poll(reader.begins()), Poll::Ready(Beginning::Nothing));
    assert!(!reader.is_closed());
}

#[test]
fn a_client_that_comes_back_goes_on_behind_what_it_has() {
    let streams = streams();
    let mut reader = streams.open(&[id(1)]).unwrap();
    let key = reader.key();
    for text in ["a", "b", "c"] {
        report(&streams, 1, text);
    }
    assert_eq!(texts(&mut reader), ["a", "b", "c"]);
    drop(reader);
    streams.send(rope(&answer(1, 1)));
    let last = answer(1, 1);
    for (after, rest) in [
        (0, &["a", "b", "c", &last][..]),
        (2, &["c", &last]),
        (3, &[&last]),
        (4, &[]),
    ] {
        let mut back = streams.resume(key, after).unwrap();
        assert_eq!(texts(&mut back), rest);
        assert!(is_over(&mut back));
    }
    for (key, after) in [(key, 5), (key, u64::MAX), (key + 1, 0), (OWN, 0)] {
        assert_eq!(
            streams.resume(key, after).unwrap_err(),
            Unreadable::Unknown,
            "{key}-{after}"
        );
    }
}

#[test]
fn who_comes_back_takes_a_stream_over() {
    let streams = streams();
    let mut dead = streams.listen().unwrap();
    streams.send(rope("a"));
    assert_eq!(texts(&mut dead), ["a"]);
    streams.send(rope("b"));
    let mut back = streams.resume(OWN, 0).unwrap();
    assert_eq!(back.place(), 0);
    assert!(is_over(&mut dead), "another reads it");
    assert_eq!(texts(&mut back), ["a", "b"]);
    drop(dead);
    let mut next = streams.listen().unwrap();
    assert!(is_over(&mut back), "another reads it");
    drop(back);
    assert!(streams.is_in_use(), "the newest reader reads");
    assert_eq!(next.place(), 2);
    streams.send(rope("c"));
    assert_eq!(read(&mut next), [(3, "c".into())]);
}

#[test]
fn what_was_read_is_kept_within_bounds_and_what_was_not_is_kept() {
    let streams = streams();
    let mut reader = streams.open(&[id(1)]).unwrap();
    let key = reader.key();
    for step in 0..2 * KEPT_EVENTS {
        report(&streams, 1, &step.to_string());
        reader.wait_now();
    }
    let long = "x".repeat(1_000);
    (0..10).for_each(|_| report(&streams, 1, &long));
    drop(reader);
    let mut back = streams.resume(key, 1).unwrap();
    let first = back.place() + 1;
    assert!(first > 256, "the oldest are forgotten: {first}");
    let kept = read(&mut back);
    assert_eq!(kept[0], (first, (first - 1).to_string()));
    assert_eq!(kept.len(), KEPT_EVENTS);
    // Bytes count as well, those of what was read alone.
    for _ in 0..2 * KEPT_READ_BYTES / long.len() {
        report(&streams, 1, &long);
        back.wait_now();
    }
    streams.send(rope(&answer(1, 2 * MIB)));
    drop(back);
    let mut back = streams.resume(key, 1).unwrap();
    let rest = read(&mut back);
    let most = KEPT_READ_BYTES / long.len() + 1;
    assert!(rest.len() > 1 && rest.len() <= most, "{}", rest.len());
    drop(back);
    let mut back = streams.resume(key, 1).unwrap();
    assert_eq!(read(&mut back).len(), 1, "the last is kept");
}

#[test]
fn what_nobody_waits_for_is_dropped_where_too_much_waits() {
    let streams = streams();
    let mut reader = streams.open(&[id(1)]).unwrap();
    (0..2 * MAX_WAITING).for_each(|step| report(&streams, 1, &step.to_string()));
    streams.ask(&id(1), rope("question"));
    streams.send(rope(&answer(1, 1)));
    let all = texts(&mut reader);
    assert_eq!(all.len(), MAX_WAITING + 2);
    assert_eq!(
        (all[0].as_str(), all[MAX_WAITING].as_str()),
        ("0", "question")
    );
    let mut reader = streams.open(&[id(1)]).unwrap();
    let long = "x".repeat(EMIT_BYTES / 4);
    (0..100).for_each(|_| report(&streams, 1, &long));
    assert_eq!(texts(&mut reader).len(), 5);
    // Notices wait where they come from; what comes nevertheless makes the oldest go.
    assert!(poll(streams.ready()).is_ready());
    (0..MAX_WAITING + 10).for_each(|step| streams.send(rope(&step.to_string())));
    assert!(poll(streams.ready()).is_pending());
    let mut own = streams.listen().unwrap();
    assert_eq!(poll(own.wait()), Poll::Ready(Some((11, "10".into()))));
    assert!(poll(streams.ready()).is_ready());
}

#[test]
fn a_joined_stream_loses_no_answer() {
    let streams = streams();
    streams.join();
    let mut own = streams.listen().unwrap();
    let many = 2 * MAX_WAITING as u64;
    assert!(!streams.is_full());
    (0..many).for_each(|number| streams.send(rope(&answer(number, 1))));
    streams.send(rope(&format!("[{},{}]", answer(1, 1), answer(2, 1))));
    assert!(streams.is_full());
    assert_eq!(texts(&mut own).len(), 2 * MAX_WAITING + 1);
    assert!(!streams.is_full());
}

#[test]
fn the_answers_of_a_batch_come_together_on_its_stream() {
    let streams = streams();
    let mut other = streams.open(&[id(3)]).unwrap();
    for taken in [&[id(1), id(3)][..], &[id(1), id(2), id(1)]] {
        assert_eq!(streams.open(taken).unwrap_err(), Unopened::Taken);
    }
    let mut reader = streams.open(&[id(1), id(2)]).unwrap();
    report(&streams, 2, "a");
    streams.closed(&id(2));
    let answers = format!(
        "[{},{}]",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":0}",
        answer(1, 1)
    );
    streams.send(rope(&answers));
    assert_eq!(texts(&mut reader), ["a", &answers[..50]]);
    assert!(is_over(&mut reader) && !is_over(&mut other));
    // One whose requests were all cancelled has no answer.
    let mut reader = streams.open(&[id(1), id(2)]).unwrap();
    streams.closed(&id(1));
    streams.closed(&id(2));
    assert!(is_over(&mut reader));
    streams.send(rope(&answers));
    drop((reader, other));
    let mut own = streams.listen().unwrap();
    assert_eq!(texts(&mut own), [""; 0]);
}

#[test]
fn few_streams_are_kept_after_their_answers() {
    let streams = streams();
    let mut keys = Vec::new();
    for number in 0..2 * KEPT_STREAMS as u64 {
        keys.push(streams.open(&[id(number)]).unwrap().key());
        streams.send(rope(&answer(number, 1)));
    }
    let (gone, kept) = keys.split_at(KEPT_STREAMS);
    assert!(gone.iter().all(|key| streams.resume(*key, 0).is_err()));
    assert!(kept.iter().all(|key| streams.resume(*key, 0).is_ok()));
    assert!(!streams.is_in_use());
    let large = streams.open(&[id(99)]).unwrap().key();
    streams.send(rope(&answer(99, KEPT_BYTES)));
    assert!(kept.iter().all(|key| streams.resume(*key, 0).is_err()));
    assert!(streams.resume(large, 0).is_ok(), "the last is kept");
}

#[test]
fn what_nobody_reads_counts_and_is_forgotten_where_room_is_needed() {
    let streams = within(1_000);
    let key = streams.open(&[id(1)]).unwrap().key();
    streams.send(rope(&answer(1, 1)));
    let mut open = streams.open(&[id(2)]).unwrap();
    (0..100).for_each(|_| streams.send(rope("a notice of some length")));
    assert!(streams.budget.is_spent());
    report(&streams, 2, "dropped");
    assert!(poll(streams.ready()).is_pending());
    streams.forget_unread();
    assert!(!streams.budget.is_spent());
    assert!(poll(streams.ready()).is_ready());
    assert!(streams.resume(key, 0).is_err());
    report(&streams, 2, "kept");
    assert_eq!(texts(&mut open), ["kept"]);
    let mut own = streams.listen().unwrap();
    streams.send(rope("b"));
    assert_eq!(read(&mut own), [(101, "b".into())], "places stay");
}

#[test]
fn a_session_that_is_over_has_no_streams() {
    let streams = streams();
    let mut own = streams.listen().unwrap();
    let mut reader = streams.open(&[id(1)]).unwrap();
    let key = reader.key();
    streams.send(rope("a"));
    streams.close();
    assert_eq!(texts(&mut own), ["a"]);
    assert!(is_over(&mut own) && is_over(&mut reader) && reader.is_closed());
    assert_eq!(streams.open(&[id(2)]).unwrap_err(), Unopened::Closed);
    assert_eq!(streams.listen().unwrap_err(), Unreadable::Closed);
    assert_eq!(streams.resume(key, 0).unwrap_err(), Unreadable::Closed);
}

#[tokio::test]
async fn who_waits_is_woken_by_the_next_event_and_by_the_end() {
    let streams = streams();
    let mut reader = streams.open(&[id(1)]).unwrap();
    let waiting = tokio::spawn(async move {
        let first = reader.wait().await;
        (first, reader.wait().await)
    });
    tokio::task::yield_now().await;
    report(&streams, 1, "a");
    tokio::task::yield_now().await;
    streams.close();
    let (first, second) = waiting.await.unwrap();
    assert_eq!((first, second), (Some((1, "a".into())), None));
}

impl StreamReader {
    /// Reads one event that is there.
    fn wait_now(&mut self) {
        assert!(poll(self.wait()).is_ready());
    }
}
