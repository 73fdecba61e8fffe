// The plans: all of them, one with its graph, or a job of one.

import { nowhere } from "./app.js";
import { listPage } from "./plans/list.js";

/** @param {HTMLElement} root @param {{ parts: string[], query: URLSearchParams }} place @param {AbortSignal} signal */
export async function page(root, { parts, query }, signal) {
  const [plan, kind, job] = parts;
  if (!plan) return listPage(root, query, signal);
  if (kind === "jobs" && job) {
    const { jobPage } = await import("./plans/job.js");
    return jobPage(root, plan, job, query, signal);
  }
  if (kind) return nowhere(root);
  const { planPage } = await import("./plans/plan.js");
  return planPage(root, plan, query, signal);
}
