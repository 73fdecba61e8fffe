// What is known of single jobs beyond the status of their plan, asked for when somebody looks.

import { call, get } from "../lib/api.js";
import { countLines } from "./diff-parse.js";
import { Few } from "../lib/follow.js";
import { isActive } from "./words.js";

/** So many are asked for at once. */
const AT_ONCE = 4;
/** How often the phases of a job that runs are looked at. */
const FRESH_MS = 4_000;

/** Keeps what was asked for until a job has changed. */
export class Details {
  /** @param {string} planId @param {AbortSignal} signal @param {(id: string) => void} onCome */
  constructor(planId, signal, onCome) {
    Object.assign(this, { planId, signal, onCome });
    this.few = new Few(AT_ONCE, signal);
    this.known = new Map();
  }

  /** What there is now under a kind, asked for anew where it is old. */
  of(kind, job, load) {
    const key = `${kind} ${job.id}`;
    const mark = [job.status, job.attempts, job.endedAt, job.completedCommit].join();
    const entry = this.known.get(key);
    const isOld = !entry || entry.mark !== mark || (isActive(job.status) && Date.now() - entry.at > FRESH_MS);
    if (isOld && !entry?.isAsked) {
      this.known.set(key, { mark, at: Date.now(), value: entry?.value, isAsked: true });
      this.few.add(key, async () => {
        let value = entry?.value;
        try {
          value = await load();
        } finally {
          this.known.set(key, { mark, at: Date.now(), value });
        }
        if (!this.signal.aborted) this.onCome(job.id);
      });
    }
    return entry?.value;
  }

  /** The attempts of a job. */
  attempts(job) {
    if (job.attempts === 0) return [];
    return this.of("attempts", job, async () => (await call("get_copilot_job_attempts", { planId: this.planId, jobId: job.id }, { signal: this.signal })).attempts);
  }

  /** The state of a job. */
  state(job) {
    return this.of("state", job, async () => (await call("get_copilot_job", { planId: this.planId, jobId: job.id }, { signal: this.signal })).state);
  }

  /** How many lines the commit of a job adds and removes. */
  lines(job) {
    if (!job.completedCommit) return undefined;
    return this.of("lines", job, async () => countLines(await get(`/api/plans/${encodeURIComponent(this.planId)}/jobs/${encodeURIComponent(job.id)}/diff`, { signal: this.signal })));
  }
}
