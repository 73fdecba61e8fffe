// The page: its navigation, its login, and which part of it is shown where.

import { ApiError, post, setLogin } from "./lib/api.js";
import { announce, dialog, field, h, icon, replace, toast } from "./lib/dom.js";
import { on, open, streamState } from "./lib/stream.js";
import { keys, showKeys } from "./lib/keys.js";

const { base } = document.documentElement.dataset;

/** What each first part of a path shows; a module has `page(root, place, signal)`. */
const PAGES = {
  board: { title: "Board", load: () => import("./board.js") },
  plans: { title: "Plans", load: () => import("./plans.js") },
  memory: { title: "Memory", load: () => import("./memory.js") },
  servers: { title: "Servers", load: () => import("./servers.js") },
  usage: { title: "Usage", load: () => import("./usage.js") },
};

/** What is shown at an address that leads nowhere. */
const NOWHERE = { title: "Not found", load: async () => ({ page: nowhere }) };

let leave = new AbortController();
let shown;

/**
 * Goes to a path of the page, as `/board/my-app`.
 *
 * @param {string} path
 * @param {{ replace?: boolean, quiet?: boolean }} [how] quiet: the page that is shown knows already
 */
export function go(path, how = {}) {
  history[how.replace ? "replaceState" : "pushState"](null, "", base + path);
  if (!how.quiet) show();
}

/** A link within the page. */
export function link(path, props, ...children) {
  return h("a", { href: base + path, ...props }, ...children);
}

/** Says that there is nothing at an address. @param {HTMLElement} root */
export function nowhere(root) {
  document.title = "Not found – Orchestra";
  replace(root, h("div.empty", { role: "alert" }, h("h1", {}, "Page not found"), h("p", {}, link("/board", { class: "button" }, "Open the board"))));
}

/** The parts of the address below the base; none where it cannot be read. */
export function place() {
  try {
    return location.pathname.slice(base.length).split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return [];
  }
}

async function show() {
  const [name = "", ...parts] = place();
  const isKnown = Object.hasOwn(PAGES, name);
  const known = isKnown ? PAGES[name] : NOWHERE;
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  for (const entry of document.querySelectorAll("nav a")) {
    if (entry.dataset.page === name) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
  const main = document.getElementById("main");
  const root = h("div.page", { class: isKnown ? name : undefined });
  replace(main, root);
  document.title = `${known.title} – Orchestra`;
  const moved = shown !== undefined && shown !== name;
  shown = name;
  try {
    const { page } = await known.load();
    if (signal.aborted) return;
    await page(root, { parts, query: new URLSearchParams(location.search) }, signal);
    if (moved && !signal.aborted) announce(known.title);
  } catch (error) {
    if (signal.aborted) return;
    const [title, text, again] = error.status === 401 ? ["You are not logged in", "Log in with a token. `orchestra token` prints one on the machine of the server.", "Log in"] : ["This page cannot be loaded", error.message, "Try again"];
    replace(root, h("div.empty", { role: "alert" }, h("h1", {}, title), h("p", {}, text), h("button", { type: "button", onclick: show }, again)));
    if (!(error instanceof ApiError)) throw error;
  }
}

/** One login at a time, however many requests wait for it. */
let asking;

function askForToken() {
  asking ??= new Promise((resolve) => {
    const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true });
    dialog("Log in", [h("p", {}, "Log in with a token. Run `orchestra token` on the machine of the server to print one."), field("Token", token)], {
      submit: "Log in",
      onSubmit: async () => {
        const response = await logIn(token.value);
        if (response.status === 429) throw new Error("Too many attempts. Try again in a minute.");
        if (!response.ok) throw new Error("That is not a token of this program.");
        open();
        resolve();
      },
      onClose: () => {
        asking = undefined;
        resolve();
      },
    });
  });
  return asking;
}

/** Exchanges a token for a cookie. Not by `post`, whose refusals ask for a token. */
function logIn(token) {
  return fetch(`${base}/api/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
}

/** Logs in with the token of a link, `#token=…`, and removes it from the address. A wrong one is asked for again. */
async function logInByLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  await logIn(token).catch(() => undefined);
}

function tellState() {
  const state = streamState();
  const words = { connecting: "Connecting…", live: "Live", lost: "Connection lost, trying again…" };
  const status = document.getElementById("state");
  status.dataset.state = state;
  status.textContent = words[state];
}

const THEMES = ["auto", "light", "dark"];

function themed(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", `Theme: ${theme}`);
  button.title = `Theme: ${theme}`;
  replace(button, icon(`theme-${theme}`));
}

async function begin() {
  await logInByLink();
  let theme = localStorage.getItem("orchestra-theme") ?? "auto";
  themed(THEMES.includes(theme) ? theme : "auto");
  document.getElementById("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("orchestra-theme", theme);
    themed(theme);
  });
  const leaveButton = document.getElementById("logout");
  leaveButton?.addEventListener("click", async () => {
    await post("/api/logout");
    location.reload();
  });
  document.getElementById("help").addEventListener("click", showKeys);
  document.addEventListener("click", (event) => {
    const anchor = event.target instanceof Element && event.target.closest("a[href]");
    if (!anchor || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (anchor.origin !== location.origin || anchor.target || anchor.hasAttribute("download") || anchor.getAttribute("href").startsWith("#")) return;
    const path = anchor.pathname.slice(base.length);
    if (!Object.hasOwn(PAGES, path.split("/")[1])) return;
    event.preventDefault();
    go(path + anchor.search);
  });
  window.addEventListener("popstate", show);
  window.addEventListener("unhandledrejection", (event) => {
    if (event.reason instanceof ApiError) toast(event.reason.message, "bad");
  });
  for (const [index, name] of Object.keys(PAGES).entries()) keys(String(index + 1), `Go to ${PAGES[name].title}`, () => go(`/${name}`));
  keys("?", "Show keyboard shortcuts", showKeys);
  setLogin(askForToken);
  on("state", tellState);
  tellState();
  open();
  show();
}

void begin();
