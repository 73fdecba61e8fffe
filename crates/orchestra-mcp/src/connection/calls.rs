//! Calls from their request to their reply: admission, queue, cancellation, settlement.

use std::sync::Arc;

use orchestra_hub::{
    Along, Answers, Caller, Cx, Later, LongWork, Outcome, ProgressSink, ProviderError, Remark,
    Request, Target,
};
use orchestra_wire::{
    Era, MAX_REPLY_BYTES, Params, PendingError, RequestId, Rope, RpcError, shown, text_of, write,
};

use super::{
    Connection, Handled, Job, Lifetime, Open, Stage, Ticket, input::readable, internal,
    requests::Parsed, tasks::Long,
};
use crate::{
    report::{CallReports, Logs},
    results::rpc_error,
    seal::Purpose,
    tasks::LongReports,
};

/// A call that a request asks for.
pub(super) struct NewCall {
    pub(super) target: Target,
    pub(super) answers: Option<Answers>,
}

impl Connection {
    /// Admits a call: it runs, queues, or is refused.
    pub(super) fn enter(
        &mut self,
        parsed: &mut Parsed<'_, '_>,
        mut call: NewCall,
    ) -> Result<Handled, RpcError> {
        let runs = self.runs_now(parsed)?;
        if self.is_listen(parsed.id) {
            return Err(still_open());
        }
        self.open_state(parsed, &mut call)?;
        let may_last = self.may_last(parsed, &call)?;
        let says_later = || {
            let long = self.attachment.long_work(&call.target);
            matches!(long, LongWork::Later | LongWork::MustLater)
        };
        let later = (may_last && says_later()).then(Later::default);
        let serial = self.serial();
        let capabilities = parsed.capabilities(self.session.capabilities);
        let (reports, mut progress) = self.reports(parsed);
        let client = match &parsed.meta.stateless {
            Some(meta) => meta.client.clone(),
            None => self.session.client.clone(),
        };
        let log_level = match &parsed.meta.stateless {
            Some(meta) => meta.log_level,
            None => self.session.level,
        };
        let client = self.asker.name.clone().or(client);
        let face = self.attachment.caller().face;
        let along = self.along(client.as_deref());
        let caller = Caller { face, client };
        let long = may_last.then(|| {
            let reports = Arc::new(LongReports::new(progress.clone()));
            progress = ProgressSink::new(reports.clone());
            Box::new(Long {
                caller: caller.clone(),
                reports,
                log_level,
                connection: self.attachment.number(),
                roots_version: self.attachment.roots_version(),
                along: along.clone(),
                params: parsed.params.clone(),
                bytes: parsed.bytes,
            })
        });
        let stage = if runs { Stage::Running } else { Stage::Queued };
        let target = &call.target;
        let mut open = Open::new(parsed, target, serial, stage, capabilities, reports, long);
        open.log_level = log_level;
        let cancel = open.cancel.signal();
        self.open
            .accept(parsed.id.clone(), open)
            .map_err(|error| match error {
                PendingError::Duplicate => still_open(),
                PendingError::Full => busy(),
            })?;
        let cx = Cx {
            deadline: None,
            cancel,
            progress,
            caller,
            features: capabilities.features,
            answers: call.answers,
            trace: parsed
                .meta
                .trace
                .take()
                .or_else(|| self.asker.trace.clone()),
            log_level,
            connection: self.attachment.number(),
            roots_version: self.attachment.roots_version(),
            along,
            params: parsed.params.take(),
            remark: Remark::default(),
            era: Some(parsed.revision.era()),
            long: may_last,
            later,
        };
        let job = Job {
            ticket: Ticket {
                id: parsed.id.clone(),
                serial,
            },
            request: Box::new(Request {
                target: call.target,
                cx,
            }),
        };
        if runs {
            self.running += 1;
            return Ok(Handled::Run(job));
        }
        self.queued_bytes += parsed.bytes;
        self.queue.push_back((job, parsed.bytes));
        Ok(Handled::Nothing)
    }

    /// What goes along with a call of this client. Where no connection is a session, those are told
    /// apart by whom they have proven to be, and by what they call themselves.
    fn along(&self, client: Option<&str>) -> Along {
        let mut along = self.asker.along.clone();
        if along.session.is_none() && self.lifetime.is_of_one_message() {
            let client = client.unwrap_or_default();
            let session = self.attachment.session();
            let session = session.of_one(&[&self.owner.to_bytes(), client.as_bytes()]);
            along.session = Some(session);
        }
        let own = || self.attachment.session().clone();
        along.session.get_or_insert_with(own);
        along
    }

    /// Whether a call runs at once; otherwise it has to queue.
    fn runs_now(&self, parsed: &Parsed<'_, '_>) -> Result<bool, RpcError> {
        let limits = &self.server.0.limits;
        let runs = self.running < limits.running && self.queue.is_empty();
        let queues = self.queue.len() < limits.queued
            && self.queued_bytes + parsed.bytes <= limits.queued_bytes;
        if runs || queues {
            Ok(runs)
        } else {
            Err(busy())
        }
    }

    /// Opens the state that comes with a call that is made again. Only stateless clients do that;
    /// whoever has a session carries no state.
    fn open_state(&self, parsed: &Parsed<'_, '_>, call: &mut NewCall) -> Result<(), RpcError> {
        if parsed.revision.era() == Era::Session {
            call.answers = None;
        }
        let Some(state) = call.answers.as_mut().and_then(|all| all.state.as_mut()) else {
            return Ok(());
        };
        let sealer = &self.server.0.sealer;
        let open = |purpose| sealer.open(state, &purpose, parsed.now);
        let opened = open(Purpose::of(self.owner, &call.target));
        *state = opened
            .or_else(|_| open(Purpose::any(self.owner)))
            .map_err(|error| RpcError::invalid_params(format!("requestState {error}")))?;
        Ok(())
    }

    /// Where a call reports to: to listeners of its own when it has a token or a level, else to
    /// the session's.
    fn reports(&self, parsed: &Parsed<'_, '_>) -> (Option<Arc<CallReports>>, ProgressSink) {
        let token = parsed.token();
        let session = &self.session.reports;
        let logs = match &parsed.meta.stateless {
            None if token.is_none() && self.lifetime != Lifetime::Requests => {
                return (None, ProgressSink::new(session.clone()));
            }
            None => Logs::Session(Arc::clone(session)),
            Some(meta) if token.is_none() && meta.log_level.is_none() => {
                return (None, ProgressSink::default());
            }
            Some(meta) => Logs::From(meta.log_level),
        };
        let emit = Arc::clone(&self.emit);
        let reports = Arc::new(CallReports::new(
            emit,
            parsed.id.clone(),
            parsed.revision,
            token,
            logs,
        ));
        (Some(Arc::clone(&reports)), ProgressSink::new(reports))
    }

    /// Answers an open call and closes it.
    pub(super) fn settle(
        &mut self,
        ticket: &Ticket,
        outcome: Result<Outcome, ProviderError>,
        out: &mut Rope,
    ) {
        let Some(open) = self
            .open
            .close_if(&ticket.id, |open| open.serial == ticket.serial)
        else {
            return;
        };
        if let Some(reports) = &open.reports {
            reports.end();
        }
        let mut parts = open.batch.map(|batch| self.take_batch(batch));
        let target = parts.as_mut().map_or(&mut *out, |batch| batch.begin_item());
        let mark = target.mark();
        match outcome.or_else(|error| readable(&open, error)) {
            Ok(outcome) => self
                .results(open.revision)
                .outcome(target, &ticket.id, outcome),
            Err(error) => {
                write::error(target, Some(&ticket.id), &rpc_error(error, open.revision));
            }
        }
        // The answers of a batch leave together, so that they are bounded together.
        let length = match open.batch {
            Some(_) => target.len(),
            None => target.len_since(mark),
        };
        if length > MAX_REPLY_BYTES {
            target.cut_back(mark);
            write::error(target, Some(&ticket.id), &too_large());
        }
        match (open.batch, parts) {
            (Some(number), Some(batch)) => self.end_item(number, batch, out),
            _ => out.push_byte(b'\n'),
        }
    }

    /// Handles `notifications/cancelled`.
    pub(super) fn on_cancelled(&mut self, params: &Params<'_>, out: &mut Rope) {
        let Ok(fields) = params.fields() else { return };
        let Some(id) = fields
            .request_id
            .and_then(|id| RequestId::from_raw(id).ok())
        else {
            tracing::debug!("ignored a cancellation without a request id");
            return;
        };
        let reason = fields.reason.and_then(text_of).unwrap_or_default();
        tracing::debug!(id = %shown(id.as_json()), reason = %shown(&reason), "the client cancelled a request");
        if self.end_listen(&id) {
            return;
        }
        let Some(open) = self.open.close(&id) else {
            return;
        };
        self.emit.closed(&id);
        open.stop();
        match &open.stage {
            Stage::Queued => {
                let Self {
                    queue,
                    queued_bytes,
                    ..
                } = self;
                queue.retain(|(job, bytes)| {
                    let keep = job.ticket.serial != open.serial;
                    *queued_bytes -= if keep { 0 } else { *bytes };
                    keep
                });
            }
            Stage::Running => {}
            Stage::Asking(_) => self.withdraw_questions(open.serial, out),
        }
        if let Some(number) = open.batch {
            let batch = self.take_batch(number);
            self.end_item(number, batch, out);
        }
    }
}

pub(super) fn still_open() -> RpcError {
    RpcError::invalid_request("invalid request: a request with this id is still open")
}

pub(super) fn busy() -> RpcError {
    internal("busy: too many requests are waiting, send again later")
}

pub(crate) fn too_large() -> RpcError {
    internal(format!(
        "result_too_large: the result has more than {MAX_REPLY_BYTES} bytes, ask for less"
    ))
}
