//! Objects of JSON: which of their members say what.

use serde_json::Value;

use super::{
    Figure, Tells, Told,
    text::{EventText, ModelsText, OutputError, TokensText, check_text},
};
use crate::agents::{figure, usage::Tokens};

/// The longest output that is read as one object.
pub(super) const MAX_OBJECT_BYTES: usize = 4 * 1024 * 1024;

/// The most members of an object of models that are looked at.
const MAX_MODELS: usize = 64;

/// The names that lead to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, OutputError> {
        check_text(text)?;
        Ok(Self(text.split('.').map(str::to_owned).collect()))
    }

    fn of_value<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut value = value;
        for name in &self.0 {
            value = value.get(name)?;
        }
        (!value.is_null()).then_some(value)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TokenPaths {
    input: Option<Path>,
    output: Option<Path>,
    cache_read: Option<Path>,
    cache_write: Option<Path>,
    total: Option<Path>,
}

/// What an object says, with its paths parsed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    when: Vec<(Path, String)>,
    session: Option<Path>,
    model: Option<Path>,
    tokens: Option<TokenPaths>,
    models: Option<(Path, TokenPaths)>,
    context: Option<TokenPaths>,
    figures: Vec<(Figure, Path)>,
    error: Option<Path>,
    adds: bool,
    turn: bool,
    last: bool,
    complete: bool,
    failed: bool,
}

impl Event {
    pub(super) fn parse(text: &EventText) -> Result<Self, OutputError> {
        let EventText {
            when,
            session,
            model,
            tokens,
            models,
            context,
            cost_usd,
            premium,
            api_ms,
            session_ms,
            turns,
            lines_added,
            lines_removed,
            error,
            adds,
            turn,
            last,
            complete,
            failed,
        } = text;
        let condition = |(path, value): (&String, &String)| {
            check_text(value)?;
            Ok((Path::parse(path)?, value.clone()))
        };
        let mut figures = Vec::new();
        for (figure, path) in [
            (Figure::Cost, cost_usd),
            (Figure::Premium, premium),
            (Figure::Api, api_ms),
            (Figure::Session, session_ms),
            (Figure::Turns, turns),
            (Figure::LinesAdded, lines_added),
            (Figure::LinesRemoved, lines_removed),
        ] {
            figures.extend(Path::of(path.as_ref())?.map(|path| (figure, path)));
        }
        let models = models.as_ref().map(|ModelsText { at, tokens }| {
            Ok::<_, OutputError>((Path::parse(at)?, TokenPaths::parse(tokens)?))
        });
        Ok(Self {
            when: when.iter().map(condition).collect::<Result<_, _>>()?,
            session: Path::of(session.as_ref())?,
            model: Path::of(model.as_ref())?,
            tokens: tokens.as_ref().map(TokenPaths::parse).transpose()?,
            models: models.transpose()?,
            context: context.as_ref().map(TokenPaths::parse).transpose()?,
            figures,
            error: Path::of(error.as_ref())?,
            adds: *adds,
            turn: *turn,
            last: *last,
            complete: *complete,
            failed: *failed,
        })
    }

    /// Adds what such an object tells.
    pub(super) fn tells(&self, tells: &mut Tells) {
        tells.session |= self.session.is_some();
        tells.tokens |= self.tokens.is_some() || self.models.is_some();
        tells.cost |= self
            .figures
            .iter()
            .any(|(figure, _)| *figure == Figure::Cost);
        tells.context |= self.context.is_some();
    }

    /// Whether a line may be such an object: each value that it needs stands in it somewhere. It
    /// spares us parsing what agents print about everything else.
    fn may_be(&self, line: &[u8]) -> bool {
        self.when.iter().all(|(_, value)| {
            let value = value.as_bytes();
            line.windows(value.len()).any(|window| window == value)
        })
    }

    fn is(&self, object: &Value) -> bool {
        self.when
            .iter()
            .all(|(path, expected)| match path.of_value(object) {
                Some(Value::String(text)) => text == expected,
                Some(Value::Bool(value)) => expected == if *value { "true" } else { "false" },
                Some(Value::Number(value)) => expected
                    .parse()
                    .is_ok_and(|expected: serde_json::Number| expected == *value),
                None => expected == "null",
                _ => false,
            })
    }

    fn read(&self, object: &Value, told: &mut Told<'_>) {
        let text = |path: &Option<Path>| path.as_ref()?.of_value(object)?.as_str();
        if let Some(session) = text(&self.session) {
            told.session(session);
        }
        if let Some(model) = text(&self.model) {
            told.model(model);
        }
        self.read_tokens(object, told);
        if let Some(tokens) = self
            .context
            .as_ref()
            .and_then(|paths| paths.read(object, told))
        {
            told.context(tokens);
        }
        for (figure, path) in &self.figures {
            if let Some(value) = path.of_value(object) {
                told.figure(*figure, figure_of(*figure, value), self.adds);
            }
        }
        if self.turn {
            told.figure(Figure::Turns, Some(1), true);
        }
        if self.failed {
            told.failed();
        }
        if let Some(message) = text(&self.error) {
            told.error(message);
        }
        if self.last {
            told.last();
        }
        if self.complete {
            told.complete();
        }
    }

    fn read_tokens(&self, object: &Value, told: &mut Told<'_>) {
        let mut by_model = Vec::new();
        if let Some((at, paths)) = &self.models
            && let Some(Value::Object(models)) = at.of_value(object)
        {
            for (model, value) in models.iter().take(MAX_MODELS) {
                by_model.extend(
                    paths
                        .read(value, told)
                        .map(|tokens| (Some(model.as_str()), tokens)),
                );
            }
        }
        if by_model.is_empty()
            && let Some(paths) = &self.tokens
        {
            by_model.extend(paths.read(object, told).map(|tokens| (None, tokens)));
        }
        if !by_model.is_empty() && !self.adds {
            told.forget_tokens();
        }
        for (model, tokens) in by_model {
            told.tokens(model, tokens);
        }
    }
}

impl TokenPaths {
    fn parse(text: &TokensText) -> Result<Self, OutputError> {
        Ok(Self {
            input: Path::of(text.input.as_ref())?,
            output: Path::of(text.output.as_ref())?,
            cache_read: Path::of(text.cache_read.as_ref())?,
            cache_write: Path::of(text.cache_write.as_ref())?,
            total: Path::of(text.total.as_ref())?,
        })
    }

    /// The tokens, if any of them stands there.
    fn read(&self, object: &Value, told: &mut Told<'_>) -> Option<Tokens> {
        let mut count = |path: &Option<Path>| {
            let value = path.as_ref()?.of_value(object)?;
            let count = figure::json_count(value);
            if count.is_none() {
                told.ignored();
            }
            count
        };
        let input = count(&self.input);
        let output = count(&self.output);
        let cache_read = count(&self.cache_read);
        let cache_write = count(&self.cache_write);
        let total = count(&self.total).filter(|_| input.is_none() && output.is_none());
        let is_any = [input, output, cache_read, cache_write, total]
            .iter()
            .any(Option::is_some);
        is_any.then(|| Tokens {
            input: input.unwrap_or_default(),
            output: output.unwrap_or_default(),
            cache_read: cache_read.unwrap_or_default(),
            cache_write: cache_write.unwrap_or_default(),
            unsplit: total.unwrap_or_default(),
        })
    }
}

fn figure_of(figure: Figure, value: &Value) -> Option<u64> {
    match figure {
        Figure::Cost => figure::json_money(value),
        Figure::Premium => figure::json_thousandths(value),
        Figure::Api | Figure::Session => figure::json_ms(value),
        Figure::Turns | Figure::LinesAdded | Figure::LinesRemoved => figure::json_count(value),
    }
}

/// What an object says, by all rules that it fits.
pub(super) fn read(events: &[Event], text: &[u8], told: &mut Told<'_>) {
    let is_object = text.trim_ascii_start().first() == Some(&b'{');
    if !is_object || !events.iter().any(|event| event.may_be(text)) {
        return;
    }
    let Ok(object) = serde_json::from_slice::<Value>(text) else {
        return;
    };
    for event in events.iter().filter(|event| event.is(&object)) {
        event.read(&object, told);
    }
}
