//! Bounds the work of a JSON Schema validator before it runs: a schema and a value of a hostile
//! server must not occupy a thread. The schema is one document; compiling and validating it are
//! left to the callers.

mod graph;
mod pattern;

use std::{
    collections::{HashMap, HashSet},
    ops::AddAssign,
};

use serde_json::{Map, Value};

use graph::{Graph, Part, Use};

/// Steps that compiling a schema, or validating one value, may take. A validator takes millions of
/// steps in a second, and a reported error takes some hundred bytes.
const MAX_STEPS: u64 = 500_000;

/// Nested evaluations of one validation. Each takes stack.
const MAX_NESTING: usize = 256;

/// Nested subschemas, references included. A compiled schema is built and dropped recursively.
const MAX_SCHEMA_NESTING: usize = 400;

/// Product of the subschemas and references of one schema: the validator may compile the former
/// again for some of the latter.
const MAX_COMPILED: u64 = 1_000_000;

/// Total size of the patterns of one schema, in states of their automatons.
const MAX_PATTERNS: u64 = 200_000;

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
    #[error("its parts are nested too deep")]
    Nesting,
    /// The schema is not one document, so that its size is unknown.
    #[error("it has an unresolvable reference, a nested `$id` or an unknown `$schema`")]
    Reference,
}

/// Checks that a schema can be compiled in bounded time, and that none of its references leads
/// back to itself at the same value.
///
/// # Errors
/// The reason not to compile the schema.
pub fn bound_schema(schema: &Value) -> Result<(), SchemaCostError> {
    let totals = graph::totals(schema)?;
    if totals.objects.saturating_mul(totals.references + 1) > MAX_COMPILED
        || totals.patterns > MAX_PATTERNS
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
/// Returns the largest number of steps that deciding and collecting errors take.
///
/// # Errors
/// The reason not to validate the value.
pub fn bound_validation(schema: &Value, value: &Value) -> Result<u64, SchemaCostError> {
    let graph = Graph::new(schema);
    let cost = Steps::new(&graph, 0).cost(schema, value, 0)?;
    match cost.valid.saturating_add(cost.errors) {
        steps if steps > MAX_STEPS => Err(SchemaCostError::Steps),
        steps => Ok(steps),
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

/// Steps that a subschema takes on a value.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// To decide whether the value is valid.
    valid: u64,
    /// To collect the errors. Alternatives are first decided, and then collected from.
    errors: u64,
    /// To find the members that are evaluated, for `unevaluatedProperties` and `unevaluatedItems`.
    marks: u64,
}

impl Cost {
    const fn of(steps: u64) -> Self {
        Self {
            valid: steps,
            errors: steps,
            marks: steps,
        }
    }

    const fn times(self, count: u64) -> Self {
        Self {
            valid: self.valid.saturating_mul(count),
            errors: self.errors.saturating_mul(count),
            marks: self.marks.saturating_mul(count),
        }
    }

    /// Cost of a subschema of the same value, for its parent.
    const fn in_place(self, usage: Use) -> Self {
        Self {
            valid: self.valid,
            errors: match usage {
                Use::Asserted => self.errors,
                Use::Tested => self.errors.saturating_add(self.valid),
            },
            marks: self.marks.saturating_add(self.valid),
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
        self.valid = self.valid.saturating_add(other.valid);
        self.errors = self.errors.saturating_add(other.errors);
        self.marks = self.marks.saturating_add(other.marks);
    }
}

/// Costs of all pairs of a subschema and a part of the value that are reached.
struct Steps<'g, 's> {
    graph: &'g Graph<'s>,
    /// `None` while a pair is measured.
    known: HashMap<(*const Value, *const Value), Option<Cost>>,
    assertions: HashMap<*const Value, Assertions<'s>>,
    /// Steps of the analysis itself, which are bounded as well.
    spent: u64,
}

/// Parts of a subschema that are no subschemas.
#[derive(Clone)]
struct Assertions<'s> {
    steps: u64,
    pattern: Option<&'s str>,
    names: Vec<&'s str>,
}

impl<'g, 's> Steps<'g, 's> {
    fn new(graph: &'g Graph<'s>, spent: u64) -> Self {
        Self {
            graph,
            known: HashMap::new(),
            assertions: HashMap::new(),
            spent,
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
            return Ok(Cost::of(1));
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
        let mut cost = Cost::of(self.own(schema, parts, value)?);
        for Part { schema, usage } in self.graph.in_place(parts, Some(value))? {
            cost += self.cost(schema, value, depth + 1)?.in_place(usage);
        }
        match value {
            Value::Object(members) => {
                self.members(&mut cost, parts, members, depth)?;
                cost.marks = cost.marks.saturating_add(length(members.len()));
            }
            Value::Array(items) => {
                self.items(&mut cost, parts, items, depth)?;
                cost.marks = cost.marks.saturating_add(length(items.len()));
            }
            _ => {}
        }
        if graph::UNEVALUATED
            .iter()
            .any(|key| parts.contains_key(*key))
        {
            cost.valid = cost.valid.saturating_add(cost.marks);
            cost.errors = cost.errors.saturating_add(cost.marks);
        }
        self.known.insert(key, Some(cost));
        Ok(cost)
    }

    /// Steps of a subschema without its subschemas.
    fn own(
        &mut self,
        schema: &'s Value,
        parts: &'s Map<String, Value>,
        value: &Value,
    ) -> Result<u64, SchemaCostError> {
        let assertions = self.assertions.entry(schema);
        let assertions = assertions.or_insert_with(|| Assertions::of(parts)).clone();
        let mut own = assertions.steps;
        match value {
            Value::String(text) => {
                own = own.saturating_add(length(text.len() / 64));
                if let Some(found) = assertions.pattern {
                    own = own.saturating_add(pattern::steps(found, text.len()));
                }
            }
            Value::Array(items) if parts.get("uniqueItems") == Some(&Value::Bool(true)) => {
                // Short arrays are compared pairwise, others are hashed.
                let nodes = graph::nodes(value);
                self.spend(nodes)?;
                own = own.saturating_add(nodes.saturating_mul(length(items.len().min(16))));
            }
            Value::Object(members) => {
                for name in members.keys() {
                    for found in &assertions.names {
                        self.spend(1)?;
                        own = own.saturating_add(pattern::steps(found, name.len()));
                    }
                }
            }
            _ => {}
        }
        Ok(own)
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
            let mut steps = Self::new(self.graph, self.spent);
            let each = steps.cost(names, &Value::String(longest.clone()), depth + 1)?;
            self.spent = steps.spent;
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

impl<'s> Assertions<'s> {
    fn of(parts: &'s Map<String, Value>) -> Self {
        let mut steps = 1_u64;
        for (key, value) in parts {
            let own = match graph::is_assertion(key) {
                true => graph::nodes(value),
                // Members that are looked up, but not those of them that the value has.
                false => value.as_object().map_or(0, |members| length(members.len())),
            };
            steps = steps.saturating_add(own).saturating_add(1);
        }
        let patterns = parts.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flat_map(Map::keys);
        Self {
            steps,
            pattern: parts.get("pattern").and_then(Value::as_str),
            names: patterns.map(String::as_str).collect(),
        }
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
