//! What each request method does. Those that need a provider become calls; the rest is answered
//! at once.

use std::time::Instant;

use orchestra_hub::{ListKind, Outcome, Target};
use orchestra_wire::{
    Direction, Era, Fields, Line, Method, MethodKind, RawJson, RequestId, RequestRef, Revision,
    Rope, RpcError, text_of,
};
use serde_json::value::RawValue;

use super::{
    Connection, Handled,
    calls::NewCall,
    targets::{completion, missing, prompt, resource, tool},
};
use crate::{
    cursor::{self, Paged},
    told::{self, ClientCapabilities, RequestMeta, invalid_fields},
};

/// A request whose metadata is understood.
pub(super) struct Parsed<'m, 'a> {
    pub(super) id: &'m RequestId,
    pub(super) fields: &'m Fields<'a>,
    pub(super) meta: RequestMeta<'a>,
    pub(super) revision: Revision,
    pub(super) batch: Option<u64>,
    /// The length of the message, which no copy of its parts exceeds; a large part that is not
    /// copied keeps the whole message.
    pub(super) bytes: usize,
    /// All parameters as they came, where some are unknown.
    pub(super) params: Option<RawJson>,
    pub(super) now: Instant,
}

impl Connection {
    pub(super) fn on_request(
        &mut self,
        request: &RequestRef<'_>,
        line: &Line<'_>,
        batch: Option<u64>,
        now: Instant,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        let method = Method::parse(&request.method)
            .filter(|method| is_served(*method) && self.has_extension_of(*method));
        let Some(method) = method else {
            return self.on_unknown(request, line, batch, now);
        };
        if self.lifetime.is_of_one_message() && needs_stream(method) {
            return Err(without_session(method));
        }
        let fields = request.params.fields().map_err(invalid_fields)?;
        let meta = self.metas.parse(fields.meta)?;
        let era = meta
            .stateless
            .as_ref()
            .map_or(Era::Session, |meta| meta.revision.era());
        if !self.eras.speaks(era) {
            let named = fields
                .protocol_version
                .and_then(text_of)
                .unwrap_or_default();
            let named = meta
                .stateless
                .as_ref()
                .map_or(&*named, |meta| meta.revision.as_str());
            return Err(crate::http::unsupported(named, self.eras));
        }
        // Revision 2025-11-25 has tasks of another kind, which nobody here knows.
        if is_about_tasks(method) && era == Era::Session {
            return self.on_unknown(request, line, batch, now);
        }
        if !method.era().contains(era) {
            return Err(wrong_era(method, era));
        }
        if batch.is_some() && (era == Era::Stateless || method == Method::Initialize) {
            let text = format!(
                "invalid request: {} cannot be part of a batch",
                method.name()
            );
            return Err(RpcError::invalid_request(text));
        }
        let revision = self.revision_of(&meta);
        // That no arguments were given is something else than that they are empty.
        let bare = method == Method::ToolsCall
            && fields.arguments.is_none_or(|given| given.get() == "null");
        let has_others = fields.has_others() || meta.others || bare;
        let params = (has_others && is_call(method)).then(|| request.raw_params());
        let params = params.flatten();
        let params = params.map(|params| RawJson::from_frame(params, line.shared()));
        let mut parsed = Parsed {
            id: &request.id,
            fields,
            meta,
            revision,
            batch,
            bytes: line.as_bytes().len(),
            params,
            now,
        };
        if let Some(meta) = &parsed.meta.stateless {
            let features = meta.capabilities.features;
            self.attachment.introduce(Era::Stateless, features);
        }
        self.answer(method, &mut parsed, line, out)
    }

    /// Does what a request asks for that may be asked for here and now.
    fn answer(
        &mut self,
        method: Method,
        parsed: &mut Parsed<'_, '_>,
        line: &Line<'_>,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        match method {
            Method::ToolsCall => self.call(parsed, line, tool),
            Method::PromptsGet => self.offered_prompts(method)?.call(parsed, line, prompt),
            Method::ResourcesRead => self.offered_resources(method)?.call(parsed, line, resource),
            Method::Complete => self.call(parsed, line, completion),
            Method::ToolsList => self.list(parsed, ListKind::Tools, out),
            Method::PromptsList => {
                self.offered_prompts(method)?
                    .list(parsed, ListKind::Prompts, out)
            }
            Method::ResourcesList => {
                self.offered_resources(method)?
                    .list(parsed, ListKind::Resources, out)
            }
            Method::TemplatesList => {
                self.offered_resources(method)?
                    .list(parsed, ListKind::Templates, out)
            }
            Method::SkillsList | Method::SkillsGet | Method::DirectoryRead => {
                self.skills(method, parsed)
            }
            Method::Initialize => self.initialize(parsed, out),
            Method::Discover => {
                let text = self.instructions();
                let offers = self.attachment.offers();
                self.results(parsed.revision)
                    .discover(out, parsed.id, offers, text.as_deref());
                Ok(Handled::Written)
            }
            Method::Ping => Ok(self.empty(parsed, out)),
            Method::SetLevel => {
                let level = parsed.fields.level.ok_or_else(|| missing("level"))?;
                let level = told::level(level)?;
                self.session.reports.set_level(level);
                self.session.level = Some(level);
                self.attachment.set_log_level(Some(level));
                Ok(self.empty(parsed, out))
            }
            Method::ResourcesSubscribe => self.offered_resources(method)?.subscribe(parsed, out),
            Method::ResourcesUnsubscribe => {
                self.offered_resources(method)?.unsubscribe(parsed, out)
            }
            Method::SubscriptionsListen => self.listen(parsed, out),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                self.on_task(method, parsed, out)
            }
            _ => Err(RpcError::method_not_found(method.name())),
        }
    }

    fn on_unknown(
        &mut self,
        request: &RequestRef<'_>,
        line: &Line<'_>,
        batch: Option<u64>,
        now: Instant,
    ) -> Result<Handled, RpcError> {
        // What is wrong with what a request says about itself comes before what it asks for; but a
        // method that nobody knows may have parameters of any form.
        let meta = match request.params.fields() {
            Ok(fields) => self.metas.parse(fields.meta)?,
            Err(_) => RequestMeta::default(),
        };
        if !self.attachment.offers().raw {
            return Err(RpcError::method_not_found(&request.method));
        }
        let frame = line.shared();
        let params = request.raw_params();
        let target = Target::Raw {
            method: request.method.clone().into_owned(),
            params: params.map(|params| RawJson::from_frame(params, frame)),
        };
        let revision = self.revision_of(&meta);
        let mut parsed = Parsed {
            id: &request.id,
            fields: const { &Fields::NONE },
            meta,
            revision,
            batch,
            bytes: line.as_bytes().len(),
            params: None,
            now,
        };
        self.enter(
            &mut parsed,
            NewCall {
                target,
                answers: None,
            },
        )
    }

    fn offered_prompts(&mut self, method: Method) -> Result<&mut Self, RpcError> {
        if self.attachment.offers().prompts {
            Ok(self)
        } else {
            Err(not_offered(method))
        }
    }

    fn offered_resources(&mut self, method: Method) -> Result<&mut Self, RpcError> {
        if self.attachment.offers().resources {
            Ok(self)
        } else {
            Err(not_offered(method))
        }
    }

    pub(super) fn empty(&self, parsed: &Parsed<'_, '_>, out: &mut Rope) -> Handled {
        self.results(parsed.revision).empty(out, parsed.id);
        Handled::Written
    }

    fn initialize(&mut self, parsed: &Parsed<'_, '_>, out: &mut Rope) -> Result<Handled, RpcError> {
        let requested = parsed
            .fields
            .protocol_version
            .ok_or_else(|| missing("protocolVersion"))?;
        let requested = text_of(requested)
            .ok_or_else(|| RpcError::invalid_params("protocolVersion must be a string"))?;
        let capabilities = match parsed.fields.capabilities {
            None => ClientCapabilities::default(),
            Some(value) => ClientCapabilities::parse(value)
                .ok_or_else(|| RpcError::invalid_params("capabilities must be an object"))?,
        };
        let revision = Revision::negotiate(&requested);
        self.session.revision = Some(revision);
        self.session.initialized = false;
        self.session.capabilities = capabilities.known_to(revision);
        let features = self.session.capabilities.features;
        self.attachment.introduce(Era::Session, features);
        self.session.client = parsed.fields.client_info.and_then(told::client_name);
        let text = self.instructions();
        let offers = self.attachment.offers();
        let translates = self.session.capabilities.translates;
        self.results(revision)
            .initialize(out, parsed.id, offers, translates, text.as_deref());
        Ok(Handled::Written)
    }

    fn instructions(&self) -> Option<String> {
        self.server
            .0
            .instructions
            .clone()
            .or_else(|| self.attachment.instructions())
    }

    fn list(
        &mut self,
        parsed: &mut Parsed<'_, '_>,
        kind: ListKind,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        let start = start_of(parsed, Paged::Catalog(kind))?;
        let limit = self.server.0.limits.page.get();
        let listing = self.attachment.list(kind, parsed.revision);
        if listing.is_empty() || !self.attachment.is_settled() {
            let revision = parsed.revision;
            let call = NewCall {
                target: Target::List {
                    kind,
                    revision,
                    start,
                    limit,
                },
                answers: None,
            };
            return self.enter(parsed, call);
        }
        let (items, next) = listing.page(start, limit);
        let outcome = Outcome::List { kind, items, next };
        self.results(parsed.revision)
            .outcome(out, parsed.id, outcome);
        Ok(Handled::Written)
    }

    fn call(
        &mut self,
        parsed: &mut Parsed<'_, '_>,
        line: &Line<'_>,
        target: fn(&Fields<'_>, &Line<'_>) -> Result<NewCall, RpcError>,
    ) -> Result<Handled, RpcError> {
        let call = target(parsed.fields, line)?;
        self.enter(parsed, call)
    }
}

/// Where the page starts that a request asks for. An empty cursor means the first page.
pub(super) fn start_of(parsed: &Parsed<'_, '_>, list: Paged) -> Result<usize, RpcError> {
    let is_given = |cursor: &&RawValue| !matches!(cursor.get(), "null" | "\"\"");
    match parsed.fields.cursor.filter(is_given) {
        None => Ok(0),
        Some(cursor) => {
            let cursor = text_of(cursor)
                .ok_or_else(|| RpcError::invalid_params("cursor must be a string"))?;
            cursor::read(list, &cursor)
        }
    }
}

/// Whether a client may send it to us as a request.
fn is_served(method: Method) -> bool {
    method.kind() == MethodKind::Request && method.direction() != Direction::ServerToClient
}

/// Whether a method is about what the client is told later.
fn needs_stream(method: Method) -> bool {
    matches!(
        method,
        Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::SubscriptionsListen
            | Method::SetLevel
    )
}

/// Whether a provider is called, who may pass on what nobody here knows.
fn is_call(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete
    )
}

fn is_about_tasks(method: Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel
    )
}

fn wrong_era(method: Method, era: Era) -> RpcError {
    if era == Era::Session {
        // Only stateless requests can mean this method, and they carry their revision.
        return RpcError::invalid_params(format!(
            "{} needs io.modelcontextprotocol/protocolVersion in _meta",
            method.name()
        ));
    }
    RpcError::method_not_found(method.name())
}

/// What is told later is told within a session, where the method has one.
fn without_session(method: Method) -> RpcError {
    let error = RpcError::method_not_found(method.name());
    if !method.era().contains(Era::Session) {
        return error;
    }
    let text = format!(
        "{}: it needs a session; begin one with initialize",
        error.message
    );
    RpcError::new(error.code, text)
}

fn not_offered(method: Method) -> RpcError {
    RpcError::method_not_found(method.name())
}

impl Parsed<'_, '_> {
    /// What the client can be asked for during this request.
    pub(super) fn capabilities(&self, session: ClientCapabilities) -> ClientCapabilities {
        match &self.meta.stateless {
            Some(meta) => meta.capabilities,
            None => session.of_caller(self.meta.caller),
        }
    }

    pub(super) fn token(&self) -> Option<Box<str>> {
        self.meta.progress_token.map(|token| token.get().into())
    }
}
