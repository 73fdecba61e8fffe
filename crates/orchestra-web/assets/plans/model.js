// A plan as a page knows it: its jobs, what depends on what, and what follows from that.

import { isActive, isEnded } from "./words.js";

const NONE = { pending: 0, ready: 0, scheduled: 0, running: 0, completed_split: 0, succeeded: 0, failed: 0, blocked: 0, canceled: 0 };

/** A plan with its graph. Jobs are known by their ids; what the graph names by producer is translated. */
export class PlanModel {
  /** @param {{ plan: object, graph: object[] | {nodes: object[]} }} snapshot */
  constructor({ plan, graph }) {
    const { nodes, groups, ...head } = plan;
    this.head = head;
    this.jobs = new Map(nodes.map((node) => [node.id, node]));
    this.producers = new Map(nodes.map((node) => [node.producerId, node.id]));
    this.needs = new Map();
    this.needed = new Map(nodes.map((node) => [node.id, []]));
    for (const vertex of graph.nodes ?? graph) {
      const id = this.producers.get(vertex.producerId);
      const needs = vertex.dependsOn.map((producer) => this.producers.get(producer)).filter(Boolean);
      this.needs.set(id, needs);
      for (const need of needs) this.needed.get(need).push(id);
    }
  }

  /** Finds a job by its id or by the name that its plan knows it by. */
  find(name) {
    return this.jobs.get(name) ?? this.jobs.get(this.producers.get(name));
  }

  /**
   * Takes what has changed of jobs.
   *
   * @returns {{ changed: object[], isNew: boolean }} the jobs that are other than before, and whether
   *   one of them was not known, so that the graph is another one
   */
  take(nodes) {
    const changed = [];
    let isNew = false;
    for (const node of nodes) {
      const before = this.jobs.get(node.id);
      if (!before || before.group !== node.group) isNew = true;
      else if (JSON.stringify(before) !== JSON.stringify(node)) {
        this.jobs.set(node.id, node);
        changed.push(node);
      }
    }
    return { changed, isNew };
  }

  /** Takes a row of the list of plans, as events bring it. */
  takeRow({ id, nodes, ...row }) {
    const before = this.head.status;
    // What a row leaves out is not there any more, as the reason of a pause.
    this.head = { ...this.head, ...row, paused: row.paused };
    if (row.endedAt === undefined) delete this.head.endedAt;
    return before !== this.head.status;
  }

  /** What the layout of the graph depends on; two models with the same have the same layout. */
  structure() {
    return [...this.jobs.values()].map((job) => ({ id: job.id, group: job.type === "snapshot-validation" ? undefined : job.group, needs: this.needs.get(job.id) ?? [] }));
  }

  /** How many jobs stand where. */
  counts(jobs = this.jobs.values()) {
    const counts = { ...NONE };
    for (const job of jobs) counts[job.status] += 1;
    return counts;
  }

  /** Whether time passes for any job. */
  isGoing() {
    for (const job of this.jobs.values()) if (isActive(job.status)) return true;
    return false;
  }

  /** The groups by path, with all that is in them. */
  groups() {
    const groups = new Map();
    for (const job of this.jobs.values()) {
      // The job that ends a plan is in a group of its own, which tells nothing.
      if (!job.group || job.type === "snapshot-validation") continue;
      const parts = job.group.split("/");
      for (let count = 1; count <= parts.length; count += 1) {
        const path = parts.slice(0, count).join("/");
        if (!groups.has(path)) groups.set(path, { path, name: parts[count - 1], depth: count, jobs: [] });
        groups.get(path).jobs.push(job);
      }
    }
    for (const group of groups.values()) Object.assign(group, summed(this.counts(group.jobs), group.jobs));
    return new Map([...groups].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  /** All jobs that a job leads to, or with `needs` all that lead to it. */
  reach(ids, edges = this.needed) {
    const found = new Set();
    const left = [...ids];
    while (left.length > 0) {
      for (const next of edges.get(left.pop()) ?? []) {
        if (found.has(next)) continue;
        found.add(next);
        left.push(next);
      }
    }
    return found;
  }

  /**
   * What asking for failed jobs again does: those run again, and so does what was blocked behind them
   * and behind nothing else that has failed.
   */
  retried(ids) {
    const asked = new Set(ids);
    const dead = (id) => ["failed", "blocked", "canceled"].includes(this.jobs.get(id)?.status);
    const released = [];
    // In the order of the graph, so that a job is looked at after all that it needs.
    for (const id of this.sorted()) {
      const job = this.jobs.get(id);
      if (job.status !== "blocked") continue;
      const needs = this.needs.get(id) ?? [];
      if (needs.some((need) => dead(need) && !asked.has(need))) continue;
      asked.add(id);
      released.push(job);
    }
    return released;
  }

  /** The ids of all jobs, each behind all that it needs. */
  sorted() {
    const waits = new Map([...this.jobs.keys()].map((id) => [id, this.needs.get(id)?.length ?? 0]));
    const ready = [...waits].filter(([, count]) => count === 0).map(([id]) => id);
    for (const id of ready) {
      for (const next of this.needed.get(id) ?? []) {
        waits.set(next, waits.get(next) - 1);
        if (waits.get(next) === 0) ready.push(next);
      }
    }
    return ready;
  }

  /**
   * The path that takes longest: by how long jobs have taken so far, and by the mean of that for those
   * that have not begun, so that before anything has run it is the path of the most jobs.
   */
  criticalPath(now = Date.now()) {
    const took = (job) => (job.startedAt === undefined ? undefined : Math.max(0, (job.endedAt ?? (isActive(job.status) ? now : job.startedAt)) - job.startedAt));
    const known = [...this.jobs.values()].map(took).filter((ms) => ms !== undefined);
    const mean = known.length === 0 ? 1 : Math.max(1, known.reduce((sum, ms) => sum + ms, 0) / known.length);
    const sums = new Map();
    const via = new Map();
    let last;
    for (const id of this.sorted()) {
      let longest = 0;
      for (const need of this.needs.get(id) ?? []) {
        if (sums.get(need) < longest || (via.has(id) && sums.get(need) === longest)) continue;
        longest = sums.get(need);
        via.set(id, need);
      }
      sums.set(id, longest + (took(this.jobs.get(id)) ?? mean));
      if (last === undefined || sums.get(id) > sums.get(last)) last = id;
    }
    const path = [];
    for (let id = last; id !== undefined; id = via.get(id)) path.unshift(id);
    return { path, ms: known.length === 0 ? undefined : sums.get(last) };
  }
}

function summed(counts, jobs) {
  const active = counts.running + counts.scheduled + counts.completed_split;
  const status = active > 0 ? "running" : counts.failed + counts.blocked > 0 ? "failed" : counts.canceled > 0 && counts.pending + counts.ready === 0 ? "canceled" : counts.pending + counts.ready === 0 ? "succeeded" : counts.succeeded > 0 ? "running" : counts.ready > 0 ? "ready" : "pending";
  const started = jobs.map((job) => job.startedAt).filter((at) => at !== undefined);
  const ended = jobs.every((job) => isEnded(job.status)) ? jobs.map((job) => job.endedAt ?? 0) : [];
  return { counts, status, startedAt: started.length > 0 ? Math.min(...started) : undefined, endedAt: ended.length > 0 ? Math.max(...ended) : undefined };
}
