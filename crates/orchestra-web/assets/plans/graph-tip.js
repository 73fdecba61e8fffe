// What is told of a node of the graph while it is pointed at or has the focus.

import { h, replace } from "../lib/dom.js";
import { badge, isActive, lasted } from "./words.js";

export class Tip {
  /** @param {HTMLElement} frame within which it is shown */
  constructor(frame) {
    this.frame = frame;
    this.element = h("div.tip", { role: "tooltip", hidden: true });
    frame.append(this.element);
  }

  /** Tells of a job. */
  job(at, job, model) {
    const names = (ids) => {
      const some = ids.slice(0, 4).map((id) => model.jobs.get(id).name);
      return ids.length > some.length ? `${some.join(", ")} and ${ids.length - some.length} more` : some.join(", ");
    };
    const needs = model.needs.get(job.id) ?? [];
    const needed = model.needed.get(job.id) ?? [];
    const rows = [
      job.startedAt !== undefined && ["Took", lasted(job.startedAt, isActive(job.status) ? undefined : job.endedAt)],
      job.attempts > 1 && ["Attempts", String(job.attempts)],
      job.group && job.type === "job" && ["Group", job.group],
      needs.length > 0 && ["Needs", names(needs)],
      needed.length > 0 && ["Needed by", names(needed)],
    ].filter(Boolean);
    replace(
      this.element,
      h("strong", {}, job.name),
      h("div", {}, badge(job.status)),
      rows.length > 0 && h("dl", {}, rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
      job.waiting && h("p", {}, job.waiting),
      job.error && h("p.problem", {}, job.error.length > 300 ? `${job.error.slice(0, 300)}…` : job.error),
    );
    this.place(at);
  }

  /** Tells a text. */
  text(at, text) {
    replace(this.element, h("p", {}, text));
    this.place(at);
  }

  place(at) {
    const { element, frame } = this;
    element.hidden = false;
    const [box, around] = [at.querySelector(".plate").getBoundingClientRect(), frame.getBoundingClientRect()];
    const { offsetWidth: width, offsetHeight: height } = element;
    const left = Math.max(6, Math.min(around.width - width - 6, box.left - around.left + (box.width - width) / 2));
    const under = box.bottom - around.top + 8;
    const over = box.top - around.top - height - 8;
    element.style.transform = `translate(${left}px, ${under + height > around.height && over > 0 ? over : Math.max(6, Math.min(under, around.height - height - 6))}px)`;
  }

  hide() {
    this.element.hidden = true;
  }
}
