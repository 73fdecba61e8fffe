//! Looking at plans: their list, their status, their graph.

use std::sync::Arc;

use orchestra_plan::draw;
use orchestra_plan::ids::{GroupPath, PlanId, ProducerId};
use orchestra_plan::plan::Plan;
use orchestra_plan::value::Whole;
use orchestra_plan::view::{GraphNode, ListFilter, PlanRow, PlanView, graph, row};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{Named, cursor_of};
use super::bad_cursor;
use crate::failure::Failure;
use crate::joined::Joined;
use crate::tool::{Effect, PlanCx, Reply, Tool};

/// How many plans or jobs are shown unless told.
const LIMIT: usize = 50;

/// How many jobs are shown of a plan with its status or graph unless told: all of most plans.
const NODES: usize = 100;

/// How many of them are wanted.
pub(super) type PageSize = Whole<1, 500>;

/// How many are shown.
pub(super) fn shown(limit: Option<PageSize>) -> usize {
    limit.map_or(LIMIT, |limit| usize::try_from(limit.get()).unwrap_or(LIMIT))
}

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "get_copilot_plan_status",
            "Get plan status",
            Effect::Read,
            "Return the status of a plan and its jobs.",
            status,
        ),
        Tool::of_plans(
            "list_copilot_plans",
            "List plans",
            Effect::Read,
            "List plans, newest first.",
            list,
        ),
        Tool::of_plans(
            "get_copilot_plan_graph",
            "Get plan graph",
            Effect::Read,
            "Return the job graph of a plan, also as Mermaid.",
            show_graph,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OnePlan {
    plan_id: Named,
    limit: Option<PageSize>,
    cursor: Option<Named>,
}

/// Where the jobs that are shown stand among all of the plan.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Nodes {
    /// How many there are in all.
    total_nodes: usize,
    #[serde(rename = "next_cursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl OnePlan {
    /// Whether the first jobs are asked for, with which comes what is about the plan as a whole.
    fn is_first(&self) -> bool {
        cursor_of(self.cursor.as_ref()).is_none()
    }

    /// Leaves of jobs those that are asked for.
    fn page<T>(&self, nodes: &mut Vec<T>) -> Result<Nodes, Failure> {
        let from = match cursor_of(self.cursor.as_ref()) {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| bad_cursor())?,
        };
        let limit = self.limit.map_or(NODES, |limit| shown(Some(limit)));
        let total = nodes.len();
        let page = nodes.drain(..).skip(from).take(limit);
        let page: Vec<T> = page.collect();
        let end = from.saturating_add(page.len());
        *nodes = page;
        Ok(Nodes {
            total_nodes: total,
            next_cursor: (end < total).then(|| end.to_string()),
        })
    }
}

type Status = Joined<PlanView, Nodes>;

impl Reply for Status {}

async fn status(cx: PlanCx, args: OnePlan) -> Result<Status, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let mut view = cx.plans.view(plan).await?;
    let nodes = args.page(&mut view.nodes)?;
    if !args.is_first() {
        view.groups.clear();
    }
    Ok(Joined(view, nodes))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListPlans {
    status: Option<ListFilter>,
    limit: Option<PageSize>,
    cursor: Option<Named>,
}

/// Plans of a list.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Listed {
    /// How many are shown here.
    count: usize,
    #[serde(rename = "Plans")]
    plans: Vec<PlanRow>,
    /// How many there are in all.
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Which cannot be read, and what to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

impl Reply for Listed {}

/// Where a plan stands in the list: newest first, and by id where two are of the same moment.
fn place(plan: &Plan) -> (std::cmp::Reverse<u64>, PlanId) {
    (std::cmp::Reverse(plan.created_at().get()), *plan.id())
}

async fn list(cx: PlanCx, args: ListPlans) -> Result<Listed, Failure> {
    let filter = args.status.unwrap_or_default();
    let limit = shown(args.limit);
    let after = match cursor_of(args.cursor.as_ref()) {
        None => None,
        Some(cursor) => {
            let parts = cursor.split_once('.').ok_or_else(bad_cursor)?;
            let at: u64 = parts.0.parse().map_err(|_| bad_cursor())?;
            let id = PlanId::parse(parts.1).map_err(|_| bad_cursor())?;
            Some((std::cmp::Reverse(at), id))
        }
    };
    let mut plans = cx.plans.plans().await?;
    plans.retain(|plan| filter.shows(plan));
    orchestra_sort::sort_by_key(&mut plans, |plan| place(plan));
    let total = plans.len();
    let from = after.map_or(0, |after| {
        plans.partition_point(|plan| place(plan) <= after)
    });
    let page = &plans[from..total.min(from + limit)];
    let waiting = cx.plans.waiting_for_trust().await?;
    let as_row = |plan: &Arc<Plan>| PlanRow {
        waits_for_trust: waiting.contains(plan.id()),
        ..row(plan)
    };
    let next = page.last().filter(|_| from + page.len() < total);
    Ok(Listed {
        count: page.len(),
        plans: page.iter().map(as_row).collect(),
        total,
        next_cursor: next.map(|plan| format!("{}.{}", plan.created_at().get(), plan.id())),
        unreadable: cx.plans.unreadable().await?,
    })
}

/// A plan's graph.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Graph {
    plan_id: PlanId,
    name: String,
    node_count: usize,
    /// The whole graph, with the first of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    mermaid: Option<String>,
    nodes: Vec<GraphNode>,
    #[serde(rename = "next_cursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Reply for Graph {}

async fn show_graph(cx: PlanCx, args: OnePlan) -> Result<Graph, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let mut nodes = graph(&plan);
    let mermaid = args.is_first().then(|| mermaid(&plan, &nodes));
    let page = args.page(&mut nodes)?;
    Ok(Graph {
        plan_id: *plan.id(),
        name: plan.name().to_owned(),
        node_count: page.total_nodes,
        mermaid,
        nodes,
        next_cursor: page.next_cursor,
    })
}

fn mermaid(plan: &Plan, nodes: &[GraphNode]) -> String {
    let nodes = nodes.iter().map(|node| draw::Node {
        producer_id: node.producer_id.as_str(),
        name: &node.name,
        status: node.status.name(),
        group: node.group.as_ref().map(GroupPath::as_str),
        dependencies: node.depends_on.iter().map(ProducerId::as_str).collect(),
    });
    draw::mermaid(&draw::Graph::new(plan.name(), nodes.collect()))
}
