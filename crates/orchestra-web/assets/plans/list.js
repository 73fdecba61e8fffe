// All plans: live, filtered, and many at once.

import { go } from "../app.js";
import { call, get } from "../lib/api.js";
import { announce, dialog, h, icon, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { inNextFrame } from "../lib/frame.js";
import { bulkBar } from "./bulk.js";
import { everySecond, wake } from "./clock.js";
import { follow } from "../lib/follow.js";
import { planRow, tickRow } from "./row.js";
import { isGoing, word } from "./words.js";

/** What can be shown of plans: a name, a test, and whether it is offered when there is none. */
const KINDS = {
  all: ["All", () => true],
  active: ["Active", ({ status }) => ["running", "pausing", "pending"].includes(status)],
  waiting: ["Waiting", ({ status }) => ["pending-start", "paused", "scaffolding"].includes(status)],
  failed: ["Failed", ({ status }) => status === "failed"],
  succeeded: ["Succeeded", ({ status }) => status === "succeeded"],
  canceled: ["Canceled", ({ status }) => status === "canceled"],
};

/** Shows the list. */
export async function listPage(root, query, signal) {
  await new PlanList(root, query, signal).begin();
}

class PlanList {
  constructor(root, query, signal) {
    Object.assign(this, { root, signal });
    this.later = inNextFrame(() => this.show(), signal);
    this.plans = new Map();
    this.rows = new Map();
    this.chosen = new Set();
    this.text = query.get("q") ?? "";
    this.kind = query.get("status") in KINDS ? query.get("status") : "all";
    this.archivedOpen = query.get("archived") === "1";
  }

  async begin() {
    const { signal } = this;
    this.frame();
    await follow({
      kinds: ["plan", "plan-gone"],
      load: () => get("/api/plans", { signal }),
      reset: (snapshot) => this.reset(snapshot),
      apply: (kind, data) => this.apply(kind, data),
      signal,
    });
    everySecond(
      () => [...this.plans.values()].some((plan) => isGoing(plan.status)),
      () => this.rows.forEach((element, id) => tickRow(element, this.plans.get(id))),
      signal,
    );
    this.listen();
  }

  frame() {
    this.kindButtons = new Map(Object.entries(KINDS).map(([kind, [label]]) => [kind, h("button.toggle", { type: "button", "data-kind": kind, onclick: () => this.filter({ kind }) }, label, " ", h("span.count"))]));
    this.kinds = h("div.kinds", { role: "group", "aria-label": "Which plans" }, [...this.kindButtons.values()]);
    this.find = h("input", { type: "search", placeholder: "Filter by name or branch", "aria-label": "Filter plans", value: this.text, oninput: () => this.filter({ text: this.find.value }) });
    this.warning = h("div.panel.warning", { hidden: true, role: "status" });
    this.list = h("ul.plan-list", { "aria-label": "Plans" });
    this.archivedList = h("ul.plan-list", { "aria-label": "Archived plans" });
    this.archivedTitle = h("summary", {});
    this.archived = h("details.archived", { open: this.archivedOpen, hidden: true, ontoggle: () => this.filter({ archivedOpen: this.archived.open }) }, this.archivedTitle, this.archivedList);
    this.nothing = h("p.nothing", { hidden: true, role: "status" });
    this.bulk = bulkBar(() => [...this.chosen].map((id) => this.plans.get(id)).filter(Boolean), () => this.choose([]));
    this.content = h("div.plans-content", {}, this.warning, this.list, this.nothing, this.archived);
    this.head = h("div.bar", {}, h("h1", {}, "Plans"), this.find, this.kinds, h("span.grow"), h("button", { type: "button", onclick: howTo }, icon("plus"), " New plan"));
    replace(this.root, this.head, this.content, this.bulk.element);
  }

  reset({ plans, unreadable = [] }) {
    this.plans = new Map(plans.map((plan) => [plan.id, plan]));
    for (const id of this.chosen) if (!this.plans.has(id)) this.chosen.delete(id);
    this.warning.hidden = unreadable.length === 0;
    replace(this.warning, h("strong", {}, "Some plans cannot be read"), h("ul", {}, unreadable.map((what) => h("li", {}, what))));
    for (const element of this.rows.values()) element.remove();
    this.rows.clear();
    this.show();
  }

  apply(kind, data) {
    if (kind === "plan-gone") {
      this.plans.delete(data.planId);
      this.chosen.delete(data.planId);
    } else {
      const before = this.plans.get(data.plan.id);
      this.plans.set(data.plan.id, data.plan);
      this.rows.get(data.plan.id)?.setAttribute("data-old", "");
      if (before && before.status !== data.plan.status && ["succeeded", "failed", "canceled"].includes(data.plan.status)) announce(`Plan ${data.plan.name}: ${word(data.plan.status)}`);
    }
    this.later();
  }

  /** The plans that the filter lets pass, newest first. */
  shown() {
    const text = this.text.trim().toLowerCase();
    const passes = ({ id, name, targetBranch = "" }) => text === "" || name.toLowerCase().includes(text) || targetBranch.toLowerCase().includes(text) || id.startsWith(text);
    return [...this.plans.values()].filter(passes).sort((one, other) => other.createdAt - one.createdAt || (one.id < other.id ? -1 : 1));
  }

  show() {
    const shown = this.shown();
    const live = shown.filter(({ status }) => status !== "archived");
    const archived = shown.filter(({ status }) => status === "archived");
    const passing = live.filter(KINDS[this.kind][1]);
    this.visible = passing;
    for (const [kind, button] of this.kindButtons) {
      button.setAttribute("aria-pressed", String(this.kind === kind));
      button.lastElementChild.textContent = String(live.filter(KINDS[kind][1]).length);
    }
    const wanted = new Set([...passing, ...(this.archivedOpen ? archived : [])].map(({ id }) => id));
    for (const [id, element] of this.rows) {
      if (wanted.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
    this.fill(this.list, passing);
    this.fill(this.archivedList, this.archivedOpen ? archived : []);
    this.archived.hidden = archived.length === 0;
    this.archivedTitle.textContent = `Archived (${archived.length})`;
    const none = this.plans.size === 0;
    this.find.hidden = this.kinds.hidden = none;
    this.nothing.hidden = none || passing.length > 0 || (live.length === 0 && archived.length > 0 && this.kind === "all" && this.text === "");
    this.nothing.textContent = "No plan matches. Change the filter.";
    this.emptied?.remove();
    if (none) {
      this.emptied = h("div.empty", {}, h("h1", {}, "No plans yet"), h("p", {}, "A plan is a graph of jobs that run in git worktrees of their own and end as one merge."), waysToMake());
      this.content.append(this.emptied);
    }
    this.bulk.update();
    wake();
  }

  /** Puts rows in order; those that are in place stay, and with them what has the focus. */
  fill(list, plans) {
    let at = list.firstElementChild;
    for (const plan of plans) {
      let element = this.rows.get(plan.id);
      if (!element || element.hasAttribute("data-old")) {
        const made = planRow(plan, { isChosen: this.chosen.has(plan.id), onChoose: (on, range) => this.chooseOne(plan.id, on, range) });
        const focused = element?.contains(document.activeElement) && (document.activeElement.matches("input") ? "input" : "a");
        if (element) {
          if (at === element) at = made;
          element.replaceWith(made);
        }
        if (focused) made.querySelector(focused).focus({ preventScroll: true });
        element = made;
        this.rows.set(plan.id, element);
      }
      if (at === element) at = at.nextElementSibling;
      else list.insertBefore(element, at);
    }
  }

  filter(change) {
    Object.assign(this, change);
    const query = new URLSearchParams();
    if (this.text) query.set("q", this.text);
    if (this.kind !== "all") query.set("status", this.kind);
    if (this.archivedOpen) query.set("archived", "1");
    go(`/plans${query.size > 0 ? `?${query}` : ""}`, { replace: true, quiet: true });
    this.show();
  }

  chooseOne(id, on, range) {
    const order = [...this.rows.keys()].sort((one, other) => (this.rows.get(one).compareDocumentPosition(this.rows.get(other)) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
    const ids = range && this.last !== undefined ? order.slice(Math.min(order.indexOf(id), order.indexOf(this.last)), Math.max(order.indexOf(id), order.indexOf(this.last)) + 1) : [id];
    const next = new Set(this.chosen);
    for (const one of ids) on ? next.add(one) : next.delete(one);
    this.last = id;
    this.choose(next);
  }

  choose(ids) {
    this.chosen = new Set(ids);
    for (const [id, element] of this.rows) {
      element.classList.toggle("chosen", this.chosen.has(id));
      element.querySelector("input").checked = this.chosen.has(id);
    }
    this.bulk.update();
  }

  step(by) {
    const links = [...this.root.querySelectorAll(".plan-row a.title")];
    const row = document.activeElement?.closest(".plan-row");
    const now = row ? links.indexOf(row.querySelector("a.title")) : -1;
    links[Math.max(0, Math.min(links.length - 1, now + by))]?.focus();
  }

  listen() {
    const { signal } = this;
    keys("/", "Filter the plans", () => this.find.focus(), signal);
    keys("j", "Next plan", () => this.step(1), signal);
    keys("k", "Previous plan", () => this.step(-1), signal);
    keys("ArrowDown", "Next plan", () => this.step(1), signal);
    keys("ArrowUp", "Previous plan", () => this.step(-1), signal);
    const choose = () => {
      const id = document.activeElement?.closest(".plan-row")?.dataset.id;
      if (id) this.chooseOne(id, !this.chosen.has(id), false);
    };
    keys("x", "Select the focused plan", choose, signal);
    // No key is called so: it is here for the list of keys alone.
    keys("Ctrl+A", "Select all shown plans", () => {}, signal);
    keys("Escape", "Choose none", () => this.choose([]), signal);
    keys("Delete", "Delete the selected plans", () => this.chosen.size > 0 && this.bulk.ask("delete"), signal);
    document.addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "a" || !(event.ctrlKey || event.metaKey) || event.target.matches?.("input:not([type=checkbox]),textarea,select") || document.querySelector("dialog[open]")) return;
        event.preventDefault();
        this.choose(this.visible.map(({ id }) => id));
        announce(`${this.chosen.size} chosen`);
      },
      { signal },
    );
  }
}

/** The ways in which a plan is made, with a button for the one that needs nothing. */
function waysToMake() {
  const sample = h("button.primary", { type: "button", onclick: (event) => trySample(event.currentTarget) }, "Run a sample plan");
  return h(
    "div.ways",
    {},
    h("ul", {}, h("li", {}, "From a shell: ", h("code", {}, "orchestra plan run FILE")), h("li", {}, "A connected agent creates plans with the tool ", h("code", {}, "create_copilot_plan")), h("li", {}, "As a trial: eleven scripted jobs that check this installation. Two of them are expected to fail.")),
    sample,
  );
}

async function trySample(button) {
  button.disabled = true;
  try {
    const { planId } = await call("run_copilot_integration_test", { startPaused: false });
    document.querySelector("dialog[open]")?.close();
    go(`/plans/${planId}`);
  } finally {
    button.disabled = false;
  }
}

function howTo() {
  dialog("New plan", [h("p", {}, "A plan is a graph of jobs that run in git worktrees of their own and end as one merge."), waysToMake()]);
}
