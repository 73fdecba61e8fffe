// What models cost: by day, and by model, provider, project or plan.

import { go, link } from "./app.js";
import { get } from "./lib/api.js";
import { copy } from "./lib/clipboard.js";
import { h, replace, toast } from "./lib/dom.js";
import { soon } from "./lib/follow.js";
import { keys } from "./lib/keys.js";
import { on } from "./lib/stream.js";
import { chart } from "./usage/chart.js";
import { csv } from "./usage/csv.js";
import { dayOf, daysBefore, daysBetween, gathered, isDay, MEASURES, PARTS } from "./usage/model.js";

/** The ranges that are one press away, in days, each with its key. */
const RANGES = [[7, "w"], [30, "m"], [90, "q"]];

/** So long after something was recorded it is asked for, as agents record much at once. */
const PAUSE_MS = 500;
/** The most rows of the table; the CSV has all. */
const MOST_ROWS = 1_000;

/** @param {HTMLElement} root @param {{ query: URLSearchParams }} place @param {AbortSignal} signal */
export async function page(root, { query }, signal) {
  await new UsagePage(root, query, signal).begin();
}

class UsagePage {
  constructor(root, query, signal) {
    Object.assign(this, { root, signal });
    const said = (name) => (isDay(query.get(name) ?? "") ? query.get(name) : undefined);
    this.to = said("to") ?? dayOf(new Date());
    this.from = said("from") ?? daysBefore(this.to, 29);
    if (this.from > this.to) [this.from, this.to] = [this.to, this.from];
    this.part = query.get("by") in PARTS ? query.get("by") : "model";
    this.measure = query.get("show") in MEASURES ? query.get("show") : "tokens";
    this.plans = [];
    this.turn = 0;
  }

  async begin() {
    this.frame();
    await this.load();
    const { signal } = this;
    const again = () => this.again();
    const later = soon(again, PAUSE_MS, signal);
    keys("r", "Reload", again, signal);
    for (const [days, key] of RANGES) keys(key, `The last ${days} days`, () => this.last(days), signal);
    keys("c", "Copy as CSV", () => this.copy(), signal);
    on("anew", again, { signal });
    on("changed", ({ what }) => what === "usage" && later(), { signal });
    // What the jobs of a plan use stands in the plan.
    on("plan", ({ plan }) => plan.usage && later(), { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && again(), { signal });
  }

  frame() {
    const day = (name, label) => h("input", { type: "date", "aria-label": label, value: this[name], required: true, onchange: (event) => event.target.value && this.narrow({ [name]: event.target.value }) });
    this.first = day("from", "First day");
    this.second = day("to", "Last day");
    this.ranges = RANGES.map(([days]) => h("button.toggle", { type: "button", "data-days": days, onclick: () => this.last(days) }, `${days} days`));
    const choice = (name, label, options) => {
      const choose = h("select", { "aria-label": label, onchange: () => this.choose({ [name]: choose.value }) }, Object.entries(options).map(([value, { title }]) => h("option", { value, selected: this[name] === value }, title)));
      return choose;
    };
    this.by = choice("part", "By what", PARTS);
    this.show = choice("measure", "What", MEASURES);
    this.content = h("div.usage-content", {});
    replace(
      this.root,
      h("div.bar", {}, h("h1", {}, "Usage"), h("div.ranges", { role: "group", "aria-label": "Which days" }, this.ranges), this.first, h("span", { "aria-hidden": "true" }, "–"), this.second, h("span.grow"), this.show, this.by, h("button", { type: "button", onclick: () => this.copy() }, "Copy as CSV")),
      this.content,
    );
  }

  last(days) {
    const to = dayOf(new Date());
    this.narrow({ to, from: daysBefore(to, days - 1) });
  }

  narrow(change) {
    Object.assign(this, change);
    if (this.from > this.to) [this.from, this.to] = [this.to, this.from];
    this.first.value = this.from;
    this.second.value = this.to;
    this.address();
    this.again();
  }

  /** Loads anew; what cannot be loaded is told, unless somebody has left the page. */
  again() {
    this.load().catch((error) => !this.signal.aborted && toast(error.message, "bad"));
  }

  choose(change) {
    Object.assign(this, change);
    this.address();
    this.draw();
  }

  /** Keeps in the address what is shown. */
  address() {
    const query = new URLSearchParams({ from: this.from, to: this.to, by: this.part, show: this.measure });
    go(`/usage?${query}`, { replace: true, quiet: true });
  }

  async load() {
    const turn = ++this.turn;
    const asked = { from: this.from, to: this.to };
    const [usage, plans] = await Promise.all([get(`/api/usage?${new URLSearchParams(asked)}`, { signal: this.signal }), get("/api/plans", { signal: this.signal }).catch(() => ({ plans: [] }))]);
    if (this.signal.aborted || turn !== this.turn) return;
    // What is the same stays as it is, and with it what has the focus.
    const now = JSON.stringify([asked, usage.days, usage.totals]);
    if (now === this.drawn) return;
    this.drawn = now;
    this.plans = plans.plans;
    this.usage = usage;
    this.draw();
  }

  draw() {
    if (!this.usage) return;
    for (const button of this.ranges) {
      const isMeant = this.to === dayOf(new Date()) && this.from === daysBefore(this.to, Number(button.dataset.days) - 1);
      button.setAttribute("aria-pressed", String(isMeant));
    }
    const { totals } = this.usage;
    if (totals.requests === 0 && this.usage.days.length === 0) {
      return replace(this.content, h("div.empty", {}, h("h1", {}, "No usage in this period"), h("p", {}, "Agents report the cost of a request with the tool ", h("code", {}, "record_usage"), ". Usage by agents of plans is recorded automatically. Choose other days to see earlier usage.")));
    }
    this.series = gathered(this.usage.days, this.part, this.measure);
    const days = daysBetween(this.from, this.to);
    const focused = document.activeElement;
    const place = this.content.contains(focused) ? (focused.getAttribute("href") ?? "") : undefined;
    const format = MEASURES[this.measure].format;
    replace(
      this.content,
      h("dl.usage-totals", {}, Object.values(MEASURES).map(({ title, of, format: written }) => h("div.panel", {}, h("dt", {}, title), h("dd", {}, written(of(totals)))))),
      h("section.panel", { "aria-label": "By day" }, chart(days, this.series, MEASURES[this.measure]), h("ul.usage-legend", {}, this.series.map(({ name, sum }, index) => h("li", {}, h("span.swatch", { class: `series-${index}`, "aria-hidden": "true" }), `${name}: ${format(sum)}`)))),
      this.table(),
    );
    if (place !== undefined) ([...this.content.querySelectorAll("a")].find((anchor) => anchor.getAttribute("href") === place) ?? this.content.lastElementChild).focus({ preventScroll: true });
  }

  /** A plan by its name, which several may have. */
  plan(name) {
    const ids = this.plans.filter((plan) => plan.name === name).map(({ id }) => id);
    if (ids.length === 0) return name;
    return link(ids.length === 1 ? `/plans/${encodeURIComponent(ids[0])}` : `/plans?${new URLSearchParams({ q: name })}`, {}, name);
  }

  table() {
    const head = ["Day", "Provider", "Model", "Project", "Plan"].map((name) => h("th", { scope: "col" }, name));
    const numbers = ["Requests", "Tokens in", "Tokens out", "Cost"].map((name) => h("th.number", { scope: "col" }, name));
    const shown = this.usage.days.slice(-MOST_ROWS).reverse();
    const left = this.usage.days.length - shown.length;
    const rows = shown.map((row) => h("tr", {}, h("th", { scope: "row" }, row.day), h("td", {}, row.provider || "–"), h("td", {}, row.model || "–"), h("td", {}, row.project ? link(`/board/${encodeURIComponent(row.project)}`, {}, row.project) : "–"), h("td", {}, row.plan ? this.plan(row.plan) : "–"), h("td.number", {}, row.requests.toLocaleString()), h("td.number", {}, row.input.toLocaleString()), h("td.number", {}, row.output.toLocaleString()), h("td.number", {}, MEASURES.cost.format(row.cost))));
    return h("section.usage-table", { tabindex: "0", role: "region", "aria-label": "All figures" }, h("table", {}, h("caption.unseen", {}, "All figures"), h("thead", {}, h("tr", {}, head, numbers)), h("tbody", {}, rows)), left > 0 && h("p", {}, `${left.toLocaleString()} older rows are not shown; the CSV contains them.`));
  }

  async copy() {
    if (!this.usage) return;
    await copy(csv(this.usage.days));
  }
}
