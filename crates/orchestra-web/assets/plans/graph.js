// The graph of a plan, drawn: what is in sight of it, live, by mouse, touch and keyboard.

import { announce, h, icon, replace, s } from "../lib/dom.js";
import { Camera } from "./camera.js";
import { edgeBounds, edgePath, groupBox, groupNode, jobInWords, jobNode, underName } from "./graph-draw.js";
import { Tip } from "./graph-tip.js";
import { layout } from "./layout.js";
import { countsInWords, isActive, stateIcon, word } from "./words.js";

/** From so many nodes on only those in sight are drawn. */
const MANY = 300;
/** Of more edges only those of the job in focus are drawn. */
const MOST_EDGES = 4_000;
/** Farther away than this texts cannot be read, and are left out. */
const READABLE = 0.42;
const LEGEND = ["pending", "ready", "running", "succeeded", "failed", "blocked", "canceled"];

export class GraphView {
  /**
   * @param {HTMLElement} host
   * @param {import("./model.js").PlanModel} model
   * @param {{ open: (job: object) => void, signal: AbortSignal, memory: string }} how `memory` is the
   *   name under which it is kept which groups are folded
   */
  constructor(host, model, { open, signal, memory }) {
    Object.assign(this, { host, model, open, memory, signal });
    this.folded = new Set(JSON.parse(sessionStorage.getItem(memory) ?? "[]"));
    this.critical = new Set();
    this.shows = () => true;
    this.boxes = s("g.boxes");
    this.edges = s("g.edges");
    this.nodes = s("g.nodes");
    this.drawing = s("svg.drawing", { role: "group", "aria-label": "Jobs and their dependencies" }, this.boxes, this.edges, this.nodes);
    this.frame = h("div.frame", {}, this.drawing);
    this.tip = new Tip(this.frame);
    this.note = h("p.graph-note", { hidden: true });
    const button = (name, label, act) => h("button.plain", { type: "button", "aria-label": label, title: label, onclick: act }, icon(name));
    const tools = h("div.tools", { role: "group", "aria-label": "Zoom" }, button("plus", "Nearer (+)", () => this.camera.nearer()), button("minus", "Farther (-)", () => this.camera.farther()), button("fit", "Fit (0)", () => this.camera.fit()));
    const legend = h("details.legend", {}, h("summary", {}, "Legend"), h("ul", {}, LEGEND.map((status) => h("li", {}, stateIcon(status), word(status))), h("li", {}, h("span.edge.dashed"), "has not succeeded yet"), h("li", {}, h("span.edge"), "has succeeded"), h("li", {}, h("span.edge.critical"), "critical path")));
    replace(host, this.frame, tools, legend, this.note);
    this.camera = new Camera(this.frame, this.drawing, { onMove: () => this.look(), signal });
    this.listen();
    this.lay();
    this.camera.begin(READABLE);
  }

  /** Lays the graph out anew: when its structure has changed, or a group was folded. */
  lay() {
    const { model, folded } = this;
    this.laid = layout(model.structure(), folded);
    this.groups = model.groups();
    this.camera.size(this.laid.width, this.laid.height);
    this.standsFor = new Map();
    for (const node of this.laid.nodes.values()) for (const id of node.members) this.standsFor.set(id, node.id);
    this.byLayer = [];
    for (const node of this.laid.nodes.values()) (this.byLayer[node.layer] ??= []).push(node);
    for (const layer of this.byLayer) layer.sort((one, other) => one.y - other.y);
    this.into = new Set(this.laid.edges.map((edge) => edge.to));
    this.edgesOf = new Map();
    for (const edge of this.laid.edges) {
      edge.bounds = edgeBounds(this.laid.nodes.get(edge.from), this.laid.nodes.get(edge.to), edge.passes);
      for (const end of [edge.from, edge.to]) {
        if (!this.edgesOf.has(end)) this.edgesOf.set(end, []);
        this.edgesOf.get(end).push(edge);
      }
    }
    this.tooMany = this.laid.edges.length > MOST_EDGES;
    this.note.hidden = !this.tooMany;
    this.note.textContent = this.tooMany ? `${this.laid.edges.length.toLocaleString("en")} edges: only those of the job in focus are drawn.` : "";
    this.drawn = new Map();
    this.lines = new Map();
    replace(this.nodes);
    replace(this.edges);
    replace(this.boxes, this.laid.boxes.map((box) => groupBox(this.groups.get(box.path), box)));
    if (!this.laid.nodes.has(this.current)) this.current = this.standsFor.get(this.current) ?? this.laid.nodes.keys().next().value;
    this.around = undefined;
    this.look();
  }

  /** Draws what has come in sight and lets go of what has left it. */
  look() {
    const { camera, laid } = this;
    this.tip.hide();
    this.drawing.classList.toggle("far", camera.scale < READABLE);
    const all = laid.nodes.size <= MANY;
    const seen = camera.seen();
    // What was drawn for a look from afar is far too much for one from near.
    const fits = (around) => within(seen, around) && around.right - around.left < 4 * (seen.right - seen.left);
    if (this.around && (all || fits(this.around))) return;
    this.around = all ? { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity } : camera.seen(0.6);
    for (const node of laid.nodes.values()) {
      const wanted = node.id === this.current || touches({ left: node.x, right: node.x + node.width, top: node.y, bottom: node.y + node.height }, this.around);
      const element = this.drawn.get(node.id);
      if (wanted && !element) this.drawNode(node);
      else if (!wanted && element) {
        element.remove();
        this.drawn.delete(node.id);
      }
    }
    for (const edge of laid.edges) this.drawEdge(edge);
  }

  drawNode(node) {
    const { model } = this;
    const job = model.jobs.get(node.id);
    const hasNeeds = this.into.has(node.id);
    const element = job ? jobNode(job, node, jobInWords(job, model.needs.get(job.id)?.length ?? 0, model.needed.get(job.id)?.length ?? 0), hasNeeds) : groupNode(this.groups.get(node.path), node, hasNeeds);
    const jobs = node.members.map((id) => model.jobs.get(id));
    element.classList.toggle("dim", !jobs.some((one) => this.shows(one)));
    element.classList.toggle("critical", node.members.some((id) => this.critical.has(id)));
    if (node.id === this.current) element.setAttribute("tabindex", "0");
    const before = this.drawn.get(node.id);
    const focused = before && before === document.activeElement;
    if (before) before.replaceWith(element);
    else this.nodes.append(element);
    this.drawn.set(node.id, element);
    if (focused) element.focus({ preventScroll: true });
  }

  drawEdge(edge) {
    const lit = edge.from === this.lit || edge.to === this.lit;
    const wanted = this.tooMany ? lit : touches(edge.bounds, this.around);
    let line = this.lines.get(edge);
    if (!wanted) {
      line?.remove();
      this.lines.delete(edge);
      return;
    }
    if (!line) {
      line = s("path.edge", { d: edgePath(this.laid.nodes.get(edge.from), this.laid.nodes.get(edge.to), edge.passes) });
      this.lines.set(edge, line);
      this.edges.append(line);
    }
    const done = edge.sources.every((id) => this.model.jobs.get(id)?.status === "succeeded");
    const to = this.laid.nodes.get(edge.to);
    const critical = edge.sources.some((id) => this.critical.has(id) && to.members.some((member) => this.follows.get(id) === member));
    const name = `edge${done ? "" : " dashed"}${lit ? " lit" : ""}${critical ? " critical" : ""}`;
    if (line.getAttribute("class") !== name) line.setAttribute("class", name);
    if ((lit || critical) && line.nextSibling) this.edges.append(line);
  }

  /** Shows how jobs stand now; where they stand in the drawing stays. */
  update(jobs) {
    const touched = new Set(jobs.map((job) => this.standsFor.get(job.id)));
    const paths = new Set();
    for (const job of jobs) {
      const parts = (job.type === "job" && job.group?.split("/")) || [];
      for (let count = 1; count <= parts.length; count += 1) paths.add(parts.slice(0, count).join("/"));
    }
    if (paths.size > 0) {
      this.groups = this.model.groups();
      for (const box of this.laid.boxes) {
        if (!paths.has(box.path)) continue;
        const before = this.boxes.querySelector(`[data-box="${CSS.escape(box.path)}"]`);
        const focused = before.contains(document.activeElement);
        const element = groupBox(this.groups.get(box.path), box);
        before.replaceWith(element);
        if (focused) element.querySelector("[tabindex]").focus({ preventScroll: true });
      }
    }
    if (this.critical.size > 0) this.mark();
    for (const id of touched) {
      if (this.drawn.has(id)) this.drawNode(this.laid.nodes.get(id));
      for (const edge of this.edgesOf.get(id) ?? []) this.drawEdge(edge);
    }
  }

  /** Another model of the same plan: what it is laid out by may have changed. */
  replace(model) {
    const same = JSON.stringify(this.model.structure()) === JSON.stringify(model.structure());
    this.model = model;
    if (!same) this.lay();
    else this.update([...model.jobs.values()]);
  }

  /** Lets durations grow. */
  tick() {
    for (const [id, element] of this.drawn) {
      const job = this.model.jobs.get(id);
      if (job && isActive(job.status)) element.querySelector(".small").textContent = underName(job);
    }
  }

  /** Shows the jobs that a test lets pass, the others paler. */
  filter(shows) {
    this.shows = shows;
    for (const [id, element] of this.drawn) element.classList.toggle("dim", !this.laid.nodes.get(id).members.some((member) => shows(this.model.jobs.get(member))));
  }

  /** Shows or hides the critical path. */
  showCritical(on) {
    this.critical = new Set(on ? [""] : []);
    this.mark();
    for (const id of this.drawn.keys()) this.drawNode(this.laid.nodes.get(id));
    for (const edge of this.laid.edges) if (this.lines.has(edge)) this.drawEdge(edge);
  }

  mark() {
    const path = this.critical.size > 0 ? this.model.criticalPath().path : [];
    this.critical = new Set(path);
    this.follows = new Map(path.map((id, index) => [id, path[index + 1]]));
  }

  fold(path) {
    if (this.folded.has(path)) this.folded.delete(path);
    else this.folded.add(path);
    sessionStorage.setItem(this.memory, JSON.stringify([...this.folded]));
    this.current = this.folded.has(path) ? `group:${path}` : (this.groups.get(path)?.jobs[0]?.id ?? this.current);
    this.lay();
    if (this.camera.fitted) this.camera.fit();
    this.goTo(this.current);
    announce(`${path}: ${this.folded.has(path) ? "folded" : "unfolded"}`);
  }

  /** Brings a node in sight and gives it the focus. */
  goTo(id) {
    const node = this.laid.nodes.get(this.standsFor.get(id) ?? id);
    if (!node) return;
    this.drawn.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = node.id;
    if (!this.drawn.has(node.id)) this.drawNode(node);
    this.drawn.get(node.id).setAttribute("tabindex", "0");
    this.drawn.get(node.id).focus({ preventScroll: true });
    this.camera.reveal(node);
  }

  light(id) {
    if (this.lit === id) return;
    const touched = [...(this.edgesOf.get(this.lit) ?? []), ...(this.edgesOf.get(id) ?? [])];
    this.lit = id;
    for (const edge of touched) this.drawEdge(edge);
  }

  listen() {
    const { frame, signal } = this;
    // At the frame, since a drawing that hears of the focus could be given it itself.
    const listen = (kind, act) => frame.addEventListener(kind, act, { signal });
    const nodeAt = (event) => event.target instanceof Element && event.target.closest(".node");
    listen("click", (event) => {
      const group = event.target.closest("[data-group]");
      if (group) return this.fold(group.dataset.group);
      const node = nodeAt(event);
      if (node) this.open(this.model.jobs.get(node.dataset.id), event);
    });
    listen("pointerover", (event) => {
      const node = nodeAt(event);
      this.light(node ? node.dataset.id : document.activeElement?.dataset?.id);
      if (node && event.pointerType !== "touch") this.tell(node);
      else this.tip.hide();
    });
    listen("pointerleave", () => this.tip.hide());
    listen("focusin", (event) => {
      const node = nodeAt(event);
      if (!node) return;
      this.light(node.dataset.id);
      if (node.matches(":focus-visible")) requestAnimationFrame(() => requestAnimationFrame(() => node.isConnected && node === document.activeElement && this.tell(node)));
    });
    listen("focusout", () => this.tip.hide());
    listen("keydown", (event) => this.key(event));
    document.addEventListener("keydown", (event) => this.enter(event), { signal });
  }

  /** An arrow, where nothing has the focus, goes to the job that had it last, or to the first. */
  enter(event) {
    const isArrow = event.key.startsWith("Arrow") && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
    const isShown = this.frame.isConnected && this.laid.nodes.has(this.current) && !document.querySelector("dialog[open]");
    if (!isArrow || !isShown || event.defaultPrevented || ![document.body, document.getElementById("main")].includes(event.target)) return;
    event.preventDefault();
    this.goTo(this.current);
  }

  tell(element) {
    const { id } = element.dataset;
    const job = this.model.jobs.get(id);
    if (job) this.tip.job(element, job, this.model);
    else this.tip.text(element, `${element.dataset.group}: ${countsInWords(this.groups.get(element.dataset.group).counts)}`);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target.closest("[data-id],[data-group]");
    if (!at) return;
    const done = () => (event.preventDefault(), event.stopPropagation());
    const path = at.dataset.group;
    if (event.key === "Enter" || (event.key === " " && path)) {
      done();
      return path ? this.fold(path) : this.open(this.model.jobs.get(at.dataset.id), event);
    }
    if (event.key === "Escape") return this.tip.hide();
    if (!at.dataset.id) return;
    const node = this.laid.nodes.get(at.dataset.id);
    const group = this.model.jobs.get(node.id)?.group;
    if (event.key === "f" && !path && this.groups.has(group) && this.laid.boxes.some((box) => box.path === group)) {
      done();
      return this.fold(group);
    }
    const to = this.beside(node, event.key);
    if (to === null) return;
    done();
    if (to) this.goTo(to.id);
  }

  /** The node that an arrow key leads to: along an edge, or within the layer; null for other keys. */
  beside(node, key) {
    const nearest = (ids) => ids.map((id) => this.laid.nodes.get(id)).sort((one, other) => Math.abs(one.y - node.y) - Math.abs(other.y - node.y))[0];
    const edges = this.edgesOf.get(node.id) ?? [];
    const layer = this.byLayer[node.layer];
    switch (key) {
      case "ArrowRight":
        return nearest(edges.filter((edge) => edge.from === node.id).map((edge) => edge.to));
      case "ArrowLeft":
        return nearest(edges.filter((edge) => edge.to === node.id).map((edge) => edge.from));
      case "ArrowDown":
        return layer[layer.indexOf(node) + 1];
      case "ArrowUp":
        return layer[layer.indexOf(node) - 1];
      case "Home":
        return this.byLayer[0][0];
      case "End":
        return this.byLayer.at(-1)[0];
      default:
        return null;
    }
  }
}

function touches(one, other) {
  return one.left <= other.right && one.right >= other.left && one.top <= other.bottom && one.bottom >= other.top;
}

function within(one, other) {
  return one.left >= other.left && one.right <= other.right && one.top >= other.top && one.bottom <= other.bottom;
}
