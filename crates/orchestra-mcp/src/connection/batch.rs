//! Batches of the revisions that have them: items are handled one by one, the answers leave
//! together when the last one is there.

use std::time::Instant;

use orchestra_wire::{
    Line, MAX_BATCH, MAX_REPLY_BYTES, Malformed, Message, Rope, RpcError, parse_item, write,
};
use serde_json::value::RawValue;

use super::{Connection, Handled, Step, calls::too_large, write_malformed};

/// A batch whose answers are being collected.
#[derive(Debug, Default)]
pub(super) struct Batch {
    answers: Rope,
    /// Calls that have not been answered.
    waiting: usize,
}

impl Batch {
    /// Where the next answer is written.
    pub(super) fn begin_item(&mut self) -> &mut Rope {
        if !self.answers.is_empty() {
            self.answers.push_byte(b',');
        }
        &mut self.answers
    }

    fn finish(self, out: &mut Rope) {
        if self.answers.is_empty() {
            return;
        }
        out.push_byte(b'[');
        out.append(self.answers);
        out.push_byte(b']');
        out.push_byte(b'\n');
    }
}

impl Connection {
    pub(super) fn on_batch(&mut self, items: &[&RawValue], now: Instant, out: &mut Rope) -> Step {
        if let Err(error) = self.has_batches() {
            return refuse_each(items, &error, out);
        }
        if items.is_empty() {
            return refuse(
                RpcError::invalid_request("invalid request: empty batch"),
                out,
            );
        }
        let number = self.serial();
        let mut batch = Batch::default();
        let mut jobs = Vec::new();
        for item in items {
            // Each for itself: what a call keeps of its item does not keep the others.
            let line = &Line::Borrowed(item.get().as_bytes());
            let mark = batch.answers.mark();
            let handled = match parse_item(item) {
                Ok(message @ Message::Request(_)) => {
                    let answer = batch.begin_item();
                    let start = answer.mark();
                    let handled = self.on_message(&message, line, Some(number), now, answer);
                    if let Message::Request(request) = &message
                        && answer.len() > MAX_REPLY_BYTES
                    {
                        answer.cut_back(start);
                        write::error(answer, Some(&request.id), &too_large());
                    }
                    handled
                }
                // What these have to say are lines of their own, beside the batch.
                Ok(message) => self.on_message(&message, line, None, now, out),
                Err(malformed) => {
                    write_malformed(batch.begin_item(), &malformed);
                    Handled::Written
                }
            };
            match handled {
                Handled::Written | Handled::WrittenFirst => {}
                Handled::Nothing => batch.answers.cut_back(mark),
                Handled::Run(job) => {
                    batch.answers.cut_back(mark);
                    jobs.push(job);
                }
            }
        }
        // Counted at the end, as an item may have cancelled one before it.
        batch.waiting = self
            .open
            .iter()
            .filter(|(_, open)| open.batch == Some(number))
            .count();
        if batch.waiting == 0 {
            batch.finish(out);
        } else {
            self.batches.insert(number, batch);
        }
        if jobs.is_empty() {
            Step::Nothing
        } else {
            Step::RunAll(jobs)
        }
    }

    /// Refuses a batch of too many items.
    pub(super) fn on_long_batch(&self, out: &mut Rope) -> Step {
        let too_long = || {
            let text = format!("invalid request: a batch may have at most {MAX_BATCH} items");
            RpcError::invalid_request(text)
        };
        refuse(self.has_batches().err().unwrap_or_else(too_long), out)
    }

    /// Before `initialize` it is not known yet whether the revision has batches, and their messages
    /// are answered as they would be alone.
    fn has_batches(&self) -> Result<(), RpcError> {
        if !self
            .session
            .revision
            .is_none_or(orchestra_wire::Revision::batches)
        {
            let text = "invalid request: batches are not part of this revision; send the messages \
                 one by one";
            return Err(RpcError::invalid_request(text));
        }
        Ok(())
    }

    pub(super) fn take_batch(&mut self, number: u64) -> Batch {
        self.batches.remove(&number).unwrap_or_default()
    }

    /// Puts a batch back after one of its calls has ended, or sends it when that was the last.
    pub(super) fn end_item(&mut self, number: u64, mut batch: Batch, out: &mut Rope) {
        batch.waiting = batch.waiting.saturating_sub(1);
        if batch.waiting == 0 {
            batch.finish(out);
        } else {
            self.batches.insert(number, batch);
        }
    }
}

/// Refuses a batch: each of its requests is answered, so that nobody waits for one.
fn refuse_each(items: &[&RawValue], error: &RpcError, out: &mut Rope) -> Step {
    let requests = items.iter().filter_map(|item| match parse_item(item) {
        Ok(Message::Request(request)) => Some(request.id),
        _ => None,
    });
    let mut is_answered = false;
    for id in requests {
        is_answered = true;
        write::error(out, Some(&id), error);
        out.push_byte(b'\n');
    }
    match is_answered {
        true => Step::Nothing,
        false => refuse(error.clone(), out),
    }
}

fn refuse(error: RpcError, out: &mut Rope) -> Step {
    write_malformed(out, &Malformed { id: None, error });
    out.push_byte(b'\n');
    Step::Nothing
}
