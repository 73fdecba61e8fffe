//! Bounds the work of a JSON Schema validator before it runs: a schema and a value of a hostile
//! server must not occupy a thread. The schema is one document; compiling and validating it are
//! left to the callers.

mod graph;
mod pattern;

use std::{
    collections::{HashMap, HashSet},
    ops::{Add, AddAssign},
    rc::Rc,
};

use serde_json::{Map, Value};

use graph::{Graph, Part, Use};
use pattern::Pattern;

/// Number of times that matching one pattern on one text may go back, in an engine with
/// backtracking. [`bound_validation`] assumes that a validator has this limit.
pub(crate) const MAX_BACKTRACKS: usize = 20_000;

/// Steps that compiling a schema, or validating one value, may take without its patterns. A
/// validator takes millions of steps in a second, and a reported error takes some hundred bytes.
const MAX_STEPS: u64 = 500_000;

/// Steps that matching the patterns of a schema may take for one value. Each visits up to 64 states,
/// and takes about half a microsecond at most.
const MAX_PATTERN_STEPS: u64 = 1_000_000;

/// Nested evaluations of one validation. Each takes stack.
const MAX_NESTING: usize = 256;

/// Nested subschemas, references included. A compiled schema is built and dropped recursively.
const MAX_SCHEMA_NESTING: usize = 400;

/// Product of the subschemas and references of one schema: the validator may compile the former
/// again for some of the latter.
const MAX_COMPILED: u64 = 1_000_000;

/// Total size of the distinct patterns of one schema, in states of their automatons.
const MAX_PATTERN_STATES: u64 = 200_000;

/// Reason not to validate with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SchemaCostError {
    /// A subschema applies itself to the same value.
    #[error("a reference leads back to itself")]
    Endless,
    /// Too many steps.
    #[error("validation takes too many steps")]
    Steps,
    /// Too many nested subschemas.
    #[error("the schema is nested too deep")]
    Nesting,
    /// The schema is not one document, so that its size is unknown.
    #[error(
        "the schema has a reference that cannot be resolved, a nested `$id` or an unknown `$schema`"
    )]
    Reference,
}

/// Checks that a schema can be compiled in bounded time, and that none of its references leads
/// back to itself at the same value.
///
/// # Errors
/// The reason not to compile the schema.
pub(crate) fn bound_schema(schema: &Value) -> Result<(), SchemaCostError> {
    let totals = graph::totals(schema)?;
    if totals.objects.saturating_mul(totals.references + 1) > MAX_COMPILED
        || totals.states() > MAX_PATTERN_STATES
    {
        return Err(SchemaCostError::Steps);
    }
    let graph = Graph::new(schema);
    let mut sizes = Sizes::new(&graph);
    let whole = sizes.expanded(schema, 0)?;
    // What a schema leaves unevaluated is compiled once per path of references.
    if totals.has_unevaluated && (sizes.is_recursive || whole.parts > MAX_STEPS) {
        return Err(SchemaCostError::Steps);
    }
    let mut in_place = InPlace::new(&graph);
    for schema in std::mem::take(&mut sizes.order) {
        if in_place.parts(schema, 0)? > MAX_STEPS {
            return Err(SchemaCostError::Steps);
        }
    }
    Ok(())
}

/// Checks that a value can be validated in bounded time with a schema that [`bound_schema`] passed.
/// The bound assumes that a validator evaluates every part, and remembers nothing.
///
/// Returns the largest number of steps that deciding and collecting errors take without patterns.
///
/// # Errors
/// The reason not to validate the value.
pub(crate) fn bound_validation(schema: &Value, value: &Value) -> Result<u64, SchemaCostError> {
    let graph = Graph::new(schema);
    let cost = Steps::new(&graph).cost(schema, value, 0)?;
    let Work { steps, patterns } = cost.valid + cost.errors;
    match steps > MAX_STEPS || patterns > MAX_PATTERN_STEPS {
        true => Err(SchemaCostError::Steps),
        false => Ok(steps),
    }
}

/// Size of a schema with its references expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    parts: u64,
    height: usize,
}

/// Sizes of all subschemas that are reached.
struct Sizes<'g, 's> {
    graph: &'g Graph<'s>,
    /// `None` while a subschema is measured.
    known: HashMap<*const Value, Option<Size>>,
    order: Vec<&'s Value>,
    is_recursive: bool,
}

impl<'g, 's> Sizes<'g, 's> {
    fn new(graph: &'g Graph<'s>) -> Self {
        Self {
            graph,
            known: HashMap::new(),
            order: Vec::new(),
            is_recursive: false,
        }
    }

    fn expanded(&mut self, schema: &'s Value, depth: usize) -> Result<Size, SchemaCostError> {
        let Value::Object(parts) = schema else {
            return Ok(Size::default());
        };
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => {
                self.is_recursive = true;
                return Ok(Size::default());
            }
            None => {}
        }
        if depth > MAX_SCHEMA_NESTING {
            return Err(SchemaCostError::Nesting);
        }
        self.known.insert(schema, None);
        let mut size = Size {
            parts: 1,
            height: 0,
        };
        let in_place = self.graph.in_place(parts, None)?;
        let in_place = in_place.into_iter().map(|part| part.schema);
        for part in in_place.chain(graph::below(parts)) {
            let below = self.expanded(part, depth + 1)?;
            size.parts = size.parts.saturating_add(below.parts);
            size.height = size.height.max(below.height);
        }
        size.height += 1;
        if size.height > MAX_SCHEMA_NESTING {
            return Err(SchemaCostError::Nesting);
        }
        self.known.insert(schema, Some(size));
        self.order.push(schema);
        Ok(size)
    }
}

/// Numbers of subschemas that are applied to one value.
struct InPlace<'g, 's> {
    graph: &'g Graph<'s>,
    done: HashMap<*const Value, u64>,
    open: HashSet<*const Value>,
}

impl<'g, 's> InPlace<'g, 's> {
    fn new(graph: &'g Graph<'s>) -> Self {
        Self {
            graph,
            done: HashMap::new(),
            open: HashSet::new(),
        }
    }

    fn parts(&mut self, schema: &'s Value, depth: usize) -> Result<u64, SchemaCostError> {
        let Value::Object(parts) = schema else {
            return Ok(1);
        };
        let key = std::ptr::from_ref(schema);
        if let Some(count) = self.done.get(&key) {
            return Ok(*count);
        }
        if depth > MAX_NESTING {
            return Err(SchemaCostError::Nesting);
        }
        if !self.open.insert(key) {
            return Err(SchemaCostError::Endless);
        }
        let mut count = 1_u64;
        for part in self.graph.in_place(parts, None)? {
            count = count.saturating_add(self.parts(part.schema, depth + 1)?);
        }
        self.open.remove(&key);
        self.done.insert(key, count);
        Ok(count)
    }
}

/// Work of a validator.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    steps: u64,
    /// Steps of matching patterns, which have a budget of their own.
    patterns: u64,
}

impl Work {
    const fn times(self, count: u64) -> Self {
        Self {
            steps: self.steps.saturating_mul(count),
            patterns: self.patterns.saturating_mul(count),
        }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            patterns: self.patterns.saturating_add(other.patterns),
        }
    }
}

/// Work for a subschema and a value.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// To decide whether the value is valid.
    valid: Work,
    /// To collect the errors. Alternatives are first decided, and then collected from.
    errors: Work,
    /// To find the members that are evaluated, for `unevaluatedProperties` and `unevaluatedItems`.
    marks: Work,
}

impl Cost {
    const fn of(work: Work) -> Self {
        Self {
            valid: work,
            errors: work,
            marks: work,
        }
    }

    const fn times(self, count: u64) -> Self {
        Self {
            valid: self.valid.times(count),
            errors: self.errors.times(count),
            marks: self.marks.times(count),
        }
    }

    /// Cost of a subschema of the same value, for its parent.
    fn in_place(self, usage: Use) -> Self {
        Self {
            valid: self.valid,
            errors: match usage {
                Use::Asserted => self.errors,
                Use::Tested => self.errors + self.valid,
            },
            marks: self.marks + self.valid,
        }
    }

    /// Cost of a subschema of a member, for the parent of that.
    const fn below(self) -> Self {
        Self {
            marks: self.valid,
            ..self
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.valid = self.valid + other.valid;
        self.errors = self.errors + other.errors;
        self.marks = self.marks + other.marks;
    }
}

/// Costs of all pairs of a subschema and a part of the value that are reached.
struct Steps<'g, 's> {
    graph: &'g Graph<'s>,
    /// `None` while a pair is measured.
    known: HashMap<(*const Value, *const Value), Option<Cost>>,
    assertions: HashMap<*const Value, Rc<Assertions>>,
    /// Steps of the analysis itself, which are bounded as well.
    spent: u64,
}

/// Parts of a subschema that are no subschemas.
struct Assertions {
    steps: u64,
    pattern: Option<Pattern>,
    /// Patterns for the names of members.
    names: Vec<Pattern>,
}

impl<'g, 's> Steps<'g, 's> {
    fn new(graph: &'g Graph<'s>) -> Self {
        Self {
            graph,
            known: HashMap::new(),
            assertions: HashMap::new(),
            spent: 0,
        }
    }

    const fn spend(&mut self, steps: u64) -> Result<(), SchemaCostError> {
        self.spent = self.spent.saturating_add(steps);
        match self.spent > MAX_STEPS {
            true => Err(SchemaCostError::Steps),
            false => Ok(()),
        }
    }

    fn cost(
        &mut self,
        schema: &'s Value,
        value: &Value,
        depth: usize,
    ) -> Result<Cost, SchemaCostError> {
        self.spend(1)?;
        let Value::Object(parts) = schema else {
            let (steps, patterns) = (1, 0);
            return Ok(Cost::of(Work { steps, patterns }));
        };
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        match self.known.get(&key) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err(SchemaCostError::Endless),
            None => {}
        }
        if depth > MAX_NESTING {
            return Err(SchemaCostError::Nesting);
        }
        self.known.insert(key, None);
        let own = self.own(schema, parts, value)?;
        // The analysis looks at each keyword as well.
        self.spend(own.steps)?;
        let mut cost = Cost::of(own);
        for Part { schema, usage } in self.graph.in_place(parts, Some(value))? {
            cost += self.cost(schema, value, depth + 1)?.in_place(usage);
        }
        match value {
            Value::Object(members) => {
                self.members(&mut cost, parts, members, depth)?;
                cost.marks.steps = cost.marks.steps.saturating_add(length(members.len()));
            }
            Value::Array(items) => {
                self.items(&mut cost, parts, items, depth)?;
                cost.marks.steps = cost.marks.steps.saturating_add(length(items.len()));
            }
            _ => {}
        }
        if graph::UNEVALUATED
            .iter()
            .any(|key| parts.contains_key(*key))
        {
            cost.valid = cost.valid + cost.marks;
            cost.errors = cost.errors + cost.marks;
        }
        self.known.insert(key, Some(cost));
        Ok(cost)
    }

    /// Work for a subschema without its subschemas.
    fn own(
        &mut self,
        schema: &'s Value,
        parts: &'s Map<String, Value>,
        value: &Value,
    ) -> Result<Work, SchemaCostError> {
        let assertions = self.assertions.entry(schema);
        let assertions = assertions.or_insert_with(|| Rc::new(Assertions::of(parts)));
        let assertions = Rc::clone(assertions);
        let (mut steps, mut patterns) = (assertions.steps, 0_u64);
        match value {
            Value::String(text) => {
                steps = steps.saturating_add(length(text.len() / 64));
                patterns = assertions
                    .pattern
                    .map_or(0, |found| found.steps(text.len()));
            }
            Value::Array(items) if parts.get("uniqueItems") == Some(&Value::Bool(true)) => {
                // Short arrays are compared pairwise, others are hashed.
                let nodes = graph::nodes(value);
                self.spend(nodes)?;
                steps = steps.saturating_add(nodes.saturating_mul(length(items.len().min(16))));
            }
            Value::Object(members) => {
                for name in members.keys() {
                    for found in &assertions.names {
                        self.spend(1)?;
                        patterns = patterns.saturating_add(found.steps(name.len()));
                    }
                }
            }
            _ => {}
        }
        Ok(Work { steps, patterns })
    }

    fn members(
        &mut self,
        cost: &mut Cost,
        parts: &'s Map<String, Value>,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), SchemaCostError> {
        let named = parts.get("properties").and_then(Value::as_object);
        let patterns = parts.get("patternProperties").and_then(Value::as_object);
        let rest = ["additionalProperties", "unevaluatedProperties"];
        let rest: Vec<&Value> = rest.iter().filter_map(|key| parts.get(*key)).collect();
        for (name, member) in members {
            self.spend(1)?;
            match named.and_then(|named| named.get(name)) {
                Some(schema) => *cost += self.cost(schema, member, depth + 1)?.below(),
                None => {
                    for schema in &rest {
                        *cost += self.cost(schema, member, depth + 1)?.below();
                    }
                }
            }
            for schema in patterns.into_iter().flat_map(Map::values) {
                *cost += self.cost(schema, member, depth + 1)?.below();
            }
        }
        let longest = members.keys().max_by_key(|name| name.len());
        if let (Some(names), Some(longest)) = (parts.get("propertyNames"), longest) {
            // Pairs are known by address, and this value has one for a moment only.
            let known = std::mem::take(&mut self.known);
            let each = self.cost(names, &Value::String(longest.clone()), depth + 1)?;
            self.known = known;
            *cost += each.times(length(members.len())).below();
        }
        Ok(())
    }

    fn items(
        &mut self,
        cost: &mut Cost,
        parts: &'s Map<String, Value>,
        items: &[Value],
        depth: usize,
    ) -> Result<(), SchemaCostError> {
        let mut each = |schema: &'s Value, item: &Value| -> Result<(), SchemaCostError> {
            *cost += self.cost(schema, item, depth + 1)?.below();
            Ok(())
        };
        let listed = |key: &str| parts.get(key).and_then(Value::as_array);
        for first in [listed("prefixItems"), listed("items")]
            .into_iter()
            .flatten()
        {
            for (schema, item) in first.iter().zip(items) {
                each(schema, item)?;
            }
        }
        for key in ["items", "additionalItems", "contains", "unevaluatedItems"] {
            if let Some(schema) = parts.get(key).filter(|schema| !schema.is_array()) {
                for item in items {
                    each(schema, item)?;
                }
            }
        }
        Ok(())
    }
}

impl Assertions {
    fn of(parts: &Map<String, Value>) -> Self {
        let mut steps = 1_u64;
        for (key, value) in parts {
            let own = match graph::is_assertion(key) {
                true => graph::nodes(value),
                false => match value {
                    // Members that are looked up, but not those of them that the value has.
                    Value::Object(members) => length(members.len()),
                    // The analysis resolves a reference at each use.
                    Value::String(text) if graph::REFERENCES.contains(&key.as_str()) => {
                        length(text.len() / 64)
                    }
                    _ => 0,
                },
            };
            steps = steps.saturating_add(own).saturating_add(1);
        }
        let pattern = parts.get("pattern").and_then(Value::as_str);
        let patterns = parts.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flat_map(Map::keys);
        Self {
            steps,
            pattern: pattern.map(Pattern::of),
            names: patterns.map(|found| Pattern::of(found)).collect(),
        }
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
