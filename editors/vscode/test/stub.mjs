// A stand-in for the API of VS Code: as much of it as the extension uses, in memory.

import Module, { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync, writeFileSync, mkdirSync, realpathSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

class EventEmitter {
  listeners = new Set();
  event = (listen) => {
    this.listeners.add(listen);
    return { dispose: () => this.listeners.delete(listen) };
  };
  fire(value) {
    for (const listen of this.listeners) listen(value);
  }
  dispose() {
    this.listeners.clear();
  }
}

class Uri {
  constructor(scheme, path) {
    Object.assign(this, { scheme, path, fsPath: path });
  }
  static file = (path) => new Uri("file", path);
  static parse = (text) => Object.assign(new Uri(text.split(":")[0], text), { text });
  static joinPath = (uri, ...parts) => Uri.file(join(uri.path, ...parts));
  get authority() {
    return this.text === undefined ? "" : new URL(this.text).host;
  }
  with({ fragment }) {
    return Uri.parse(`${this}#${fragment}`);
  }
  toString() {
    return this.text ?? `file://${this.path}`;
  }
}

class TreeItem {
  constructor(label, collapsibleState) {
    Object.assign(this, { label, collapsibleState });
  }
}

/** Makes a VS Code. `settings` are by whole name; without `lm` it is one of before. */
export function vscode({ folder, settings = {}, lm = true } = {}) {
  const said = { asked: [], warnings: [], errors: [], log: [], opened: [], definitions: undefined, disposed: 0 };
  const configuration = new EventEmitter();
  const folders = new EventEmitter();
  const commands = new Map();
  const answers = [];
  const inputs = [];
  const level = (kind) => (text) => said.log.push(`${kind}: ${text}`);
  const status = { show() {}, dispose() {} };
  const trees = new Map();
  const api = {
    EventEmitter,
    Uri,
    TreeItem,
    ThemeIcon: class { constructor(id) { this.id = id; } },
    TreeItemCollapsibleState: { None: 0, Collapsed: 1, Expanded: 2 },
    StatusBarAlignment: { Left: 1, Right: 2 },
    workspace: {
      workspaceFolders: folder ? [{ uri: Uri.file(folder), name: "folder", index: 0 }] : undefined,
      getConfiguration: (section) => ({ inspect: (key) => (`${section}.${key}` in settings ? { key, globalValue: settings[`${section}.${key}`] } : { key }) }),
      onDidChangeConfiguration: configuration.event,
      onDidChangeWorkspaceFolders: folders.event,
      fs: {
        readFile: async (uri) => readFileSync(uri.fsPath),
        writeFile: async (uri, bytes) => {
          mkdirSync(dirname(uri.fsPath), { recursive: true });
          writeFileSync(uri.fsPath, bytes);
        },
      },
    },
    window: {
      createOutputChannel: () => ({ info: level("info"), warn: level("warn"), error: level("error"), debug: level("debug"), dispose() {} }),
      createStatusBarItem: () => status,
      registerTreeDataProvider: (id, provider) => (trees.set(id, provider), { dispose: () => trees.delete(id) }),
      showWarningMessage: async (text) => (said.warnings.push(text), answers.shift()),
      showErrorMessage: async (text) => void said.errors.push(text),
      showInputBox: async (how) => (said.asked.push(how), inputs.shift()),
      showTextDocument: async (uri) => void said.opened.push(uri.toString()),
    },
    commands: {
      registerCommand: (name, act) => (commands.set(name, act), { dispose: () => commands.delete(name) }),
      executeCommand: async (...given) => void said.opened.push(given.join(" ")),
    },
    env: {
      asExternalUri: async (uri) => uri,
      openExternal: async (uri) => void said.opened.push(uri.toString()),
    },
  };
  if (lm) {
    api.lm = {
      registerMcpServerDefinitionProvider: (id, provider) => {
        said.definitions = { id, provider };
        return { dispose: () => (said.definitions = undefined) };
      },
    };
    api.McpStdioServerDefinition = class { constructor(label, command, args, env, version) { Object.assign(this, { label, command, args, env, version }); } };
    api.McpHttpServerDefinition = class { constructor(label, uri, headers, version) { Object.assign(this, { label, uri, headers, version }); } };
  }
  return {
    api, said, commands, status, trees, answers, inputs,
    set(key, value) {
      if (value === undefined) delete settings[key];
      else settings[key] = value;
      configuration.fire({ affectsConfiguration: (asked) => key === asked || key.startsWith(`${asked}.`) });
    },
  };
}

/** The extension, loaded anew into such a VS Code. */
export function load(api) {
  const resolve = Module._resolveFilename;
  Module._resolveFilename = (name, ...rest) => (name === "vscode" ? "vscode" : resolve.call(Module, name, ...rest));
  require.cache["vscode"] = { id: "vscode", filename: "vscode", loaded: true, exports: api };
  const bundle = join(here, "..", "dist", "all.js");
  delete require.cache[bundle];
  try {
    return require(bundle);
  } finally {
    Module._resolveFilename = resolve;
    delete require.cache["vscode"];
  }
}

/** What VS Code gives to an extension that it activates. */
export function context(extensionPath = "/nowhere") {
  const [kept, hidden] = [new Map(), new Map()];
  const secrets = { get: async (key) => hidden.get(key), store: async (key, value) => void hidden.set(key, value), delete: async (key) => void hidden.delete(key) };
  return { secrets, subscriptions: [], extensionPath, extension: { packageJSON: { version: "1.2.3" } }, workspaceState: { get: (key) => kept.get(key), update: async (key, value) => void kept.set(key, value) } };
}

/** An empty repository; it is removed when all tests of the file have ended, and what runs in it has. */
export function workspace(files = {}) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "orchestra-vscode-")));
  process.on("exit", () => {
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    } catch {
      // A program that is just ending writes there still; it is a temporary directory.
    }
  });
  execFileSync("git", ["init", "--quiet"], { cwd: folder });
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** Waits until something is so. */
export async function until(what, is, ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await is();
    if (found) return found;
    if (Date.now() > end) throw new Error(`it does not come to: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
