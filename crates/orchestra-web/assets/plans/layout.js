// Where the jobs of a plan stand in its graph: layers from left to right, as what depends on what
// makes them. How jobs stand does not matter, so nothing moves when that changes.

import { order } from "./layout-order.js";
import { place } from "./layout-place.js";

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 50;
/** How wide the room between two layers is, without what nested groups need there. */
const LAYER_GAP = 72;
/** How far a group reaches beyond what it holds, and how high its name is. */
const GROUP_PAD = 12;
const GROUP_HEAD = 26;

/**
 * Lays out a graph.
 *
 * @param {{ id: string, group?: string, needs: string[] }[]} jobs
 * @param {Set<string>} folded groups that are shown as one node
 * @returns {{ width: number, height: number, nodes: Map<string, object>, boxes: object[],
 *   edges: object[] }} nodes by the ids of jobs, or of folded groups as "group:PATH"; an edge has the
 *   ids of its ends, the jobs that it comes from, and the columns that it passes
 */
export function layout(jobs, folded) {
  const { vertices, edges } = vertexes(jobs, folded);
  rank(vertices, edges);
  const groups = groupsOf(vertices);
  const all = [...vertices.values()];
  const segments = route(all, edges);
  const layers = layersOf(all);
  order(layers, groups, segments);
  place(layers, groups, { head: GROUP_HEAD, pad: GROUP_PAD });
  return drawn(vertices, groups, edges, layers.length);
}

/** The outermost folded group that a job is in. */
function foldedAround(group, folded) {
  if (!group || folded.size === 0) return undefined;
  const parts = group.split("/");
  for (let count = 1; count <= parts.length; count += 1) {
    const path = parts.slice(0, count).join("/");
    if (folded.has(path)) return path;
  }
  return undefined;
}

function vertexes(jobs, folded) {
  const vertices = new Map();
  const standsFor = new Map();
  const make = (id, group, path) => {
    if (!vertices.has(id)) vertices.set(id, { id, group, path, members: [], before: [], after: [], up: [], down: [], height: NODE_HEIGHT, real: true });
    return vertices.get(id);
  };
  for (const job of jobs) {
    const path = foldedAround(job.group, folded);
    const vertex = path === undefined ? make(job.id, job.group) : make(`group:${path}`, path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : undefined, path);
    vertex.members.push(job.id);
    standsFor.set(job.id, vertex);
  }
  const edges = new Map();
  for (const job of jobs) {
    const to = standsFor.get(job.id);
    for (const need of job.needs) {
      const from = standsFor.get(need);
      if (!from || from === to) continue;
      const key = `${from.id}\n${to.id}`;
      if (!edges.has(key)) {
        edges.set(key, { from, to, sources: [], passes: [], back: false });
        from.after.push(edges.get(key));
        to.before.push(edges.get(key));
      }
      edges.get(key).sources.push(need);
    }
  }
  return { vertices, edges: [...edges.values()] };
}

/** Gives each vertex its layer: behind all that it needs, in layers that are not too high. */
function rank(vertices, edges) {
  breakCycles(vertices);
  const waits = new Map();
  for (const vertex of vertices.values()) waits.set(vertex, vertex.before.filter((edge) => !edge.back).length);
  const most = Math.max(24, Math.ceil(Math.sqrt(vertices.size) * 1.6));
  const heights = [];
  let ready = [...vertices.values()].filter((vertex) => waits.get(vertex) === 0);
  for (const vertex of ready) vertex.layer = 0;
  while (ready.length > 0) {
    const next = [];
    for (const vertex of ready) {
      while ((heights[vertex.layer] ?? 0) >= most) vertex.layer += 1;
      heights[vertex.layer] = (heights[vertex.layer] ?? 0) + 1;
      for (const edge of vertex.after) {
        if (edge.back) continue;
        edge.to.layer = Math.max(edge.to.layer ?? 0, vertex.layer + 1);
        waits.set(edge.to, waits.get(edge.to) - 1);
        if (waits.get(edge.to) === 0) next.push(edge.to);
      }
    }
    ready = next;
  }
  // What a layer without room has pushed on may leave one empty.
  const used = [...new Set([...vertices.values()].map((vertex) => vertex.layer))].sort((one, other) => one - other);
  const now = new Map(used.map((layer, index) => [layer, index]));
  for (const vertex of vertices.values()) vertex.layer = now.get(vertex.layer);
  for (const edge of edges) if (edge.from.layer >= edge.to.layer) edge.back = true;
}

/** Jobs have no cycles, but folded groups may: what closes one points back. */
function breakCycles(vertices) {
  const state = new Map();
  for (const root of vertices.values()) {
    if (state.has(root)) continue;
    const path = [{ vertex: root, next: 0 }];
    state.set(root, "open");
    while (path.length > 0) {
      const top = path.at(-1);
      const edge = top.vertex.after[top.next];
      top.next += 1;
      if (!edge) {
        state.set(top.vertex, "done");
        path.pop();
      } else if (state.get(edge.to) === "open") edge.back = true;
      else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        path.push({ vertex: edge.to, next: 0 });
      }
    }
  }
}

/** The tree of groups around the vertices; each knows the layers that it spans. */
function groupsOf(vertices) {
  const root = { path: "", parent: undefined, children: [], depth: 0, first: Infinity, last: -Infinity, serial: 0 };
  const all = new Map([["", root]]);
  const at = (path) => {
    if (!path) return root;
    if (!all.has(path)) {
      const parent = at(path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");
      const group = { path, parent, children: [], depth: parent.depth + 1, first: Infinity, last: -Infinity, serial: all.size };
      parent.children.push(group);
      all.set(path, group);
    }
    return all.get(path);
  };
  for (const vertex of vertices.values()) {
    vertex.owner = at(vertex.group);
    for (let group = vertex.owner; group; group = group.parent) {
      group.first = Math.min(group.first, vertex.layer);
      group.last = Math.max(group.last, vertex.layer);
    }
  }
  return [...all.values()];
}

/** The innermost group around a vertex, itself not above `limit`, that spans a layer. */
function spanning(vertex, layer, limit) {
  for (let group = vertex.owner; group.depth > limit.depth; group = group.parent) if (group.first <= layer && layer <= group.last) return group;
  return undefined;
}

function common(one, other) {
  let [a, b] = [one, other];
  while (a !== b) {
    if (a.depth >= b.depth) a = a.parent;
    else b = b.parent;
  }
  return a;
}

/**
 * Leads edges over more than one layer through a place in each of those between. Those to the same
 * vertex share their places, so that many of them are one trunk.
 */
function route(all, edges) {
  const places = new Map();
  const segments = new Map();
  const join = (from, to, weight) => {
    const key = `${from.serial} ${to.serial}`;
    if (segments.has(key)) return;
    segments.set(key, { from, to, weight });
    from.down.push({ other: to, weight });
    to.up.push({ other: from, weight });
  };
  for (const [serial, vertex] of all.entries()) vertex.serial = serial;
  for (const edge of edges) {
    if (edge.back) continue;
    const { from, to } = edge;
    const limit = common(from.owner, to.owner);
    let last = from;
    for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
      const owner = spanning(from, layer, limit) ?? spanning(to, layer, limit) ?? limit;
      const key = `${to.serial} ${layer} ${owner.serial}`;
      if (!places.has(key)) {
        const made = { layer, owner, up: [], down: [], height: 8, real: false, serial: all.length };
        places.set(key, made);
        all.push(made);
      }
      const passed = places.get(key);
      edge.passes.push(passed);
      join(last, passed, last.real ? 2 : 8);
      last = passed;
    }
    join(last, to, last.real ? 1 : 2);
  }
  return [...segments.values()];
}

function layersOf(all) {
  const layers = [];
  for (const vertex of all) (layers[vertex.layer] ??= []).push(vertex);
  return layers;
}

function drawn(vertices, groups, edges, count) {
  const deepest = groups.reduce((most, group) => Math.max(most, group.depth), 0);
  const step = NODE_WIDTH + LAYER_GAP + 2 * GROUP_PAD * deepest;
  const x = (layer) => layer * step + GROUP_PAD * deepest;
  const nodes = new Map();
  for (const { id, layer, y, path, members } of vertices.values()) nodes.set(id, { id, x: x(layer), y, width: NODE_WIDTH, height: NODE_HEIGHT, layer, path, members });
  const below = (group) => group.children.reduce((most, child) => Math.max(most, below(child) + 1), 0);
  const boxes = groups
    .filter((group) => group.parent)
    .map((group) => {
      const pad = GROUP_PAD * (below(group) + 1);
      return { path: group.path, depth: group.depth, x: x(group.first) - pad, y: group.y, width: x(group.last) - x(group.first) + NODE_WIDTH + 2 * pad, height: group.height };
    });
  const root = groups[0];
  return {
    nodes,
    boxes,
    edges: edges.map((edge) => ({ from: edge.from.id, to: edge.to.id, sources: edge.sources, back: edge.back, passes: edge.passes.map((passed) => ({ x: x(passed.layer), y: passed.y + passed.height / 2 })) })),
    width: Math.max(1, count) * step - LAYER_GAP,
    height: root.height,
  };
}
