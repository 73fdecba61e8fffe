// A unified diff, read: its files, their hunks, and which words of a line changed.

/**
 * @typedef {{ kind: " "|"+"|"-"|"\\", text: string, before?: number, after?: number }} Line
 * @typedef {{ title: string, lines: Line[] }} Hunk
 * @typedef {{ from?: string, to?: string, notes: string[], hunks: Hunk[], added: number, removed: number, isBinary: boolean }} File
 */

/** Reads a diff as `git diff` writes it. @returns {File[]} */
export function parseDiff(text) {
  const files = [];
  let file;
  let hunk;
  let [before, after, leftBefore, leftAfter] = [0, 0, 0, 0];
  for (const line of text.split("\n")) {
    if (hunk && (leftBefore > 0 || leftAfter > 0)) {
      const kind = line[0] ?? " ";
      const rest = line.slice(1);
      if (kind === "+") {
        hunk.lines.push({ kind, text: rest, after });
        after += 1;
        leftAfter -= 1;
        file.added += 1;
        continue;
      }
      if (kind === "-") {
        hunk.lines.push({ kind, text: rest, before });
        before += 1;
        leftBefore -= 1;
        file.removed += 1;
        continue;
      }
      if (kind === " ") {
        hunk.lines.push({ kind, text: rest, before, after });
        before += 1;
        after += 1;
        leftBefore -= 1;
        leftAfter -= 1;
        continue;
      }
    }
    if (line.startsWith("\\ ") && hunk) hunk.lines.push({ kind: "\\", text: line.slice(2) });
    else if (line.startsWith("diff --git ")) {
      file = { from: undefined, to: undefined, notes: [], hunks: [], added: 0, removed: 0, isBinary: false };
      [file.from, file.to] = namesOf(line.slice("diff --git ".length));
      files.push(file);
      hunk = undefined;
    } else if (!file) continue;
    else if (line.startsWith("@@")) {
      const found = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
      if (!found) continue;
      [before, after] = [Number(found[1]), Number(found[3])];
      [leftBefore, leftAfter] = [Number(found[2] ?? 1), Number(found[4] ?? 1)];
      hunk = { title: line, lines: [] };
      file.hunks.push(hunk);
    } else if (line.startsWith("--- ")) file.from = nameOf(line.slice(4), "a/");
    else if (line.startsWith("+++ ")) file.to = nameOf(line.slice(4), "b/");
    else if (line.startsWith("rename from ")) file.from = unquoted(line.slice("rename from ".length));
    else if (line.startsWith("rename to ")) file.to = unquoted(line.slice("rename to ".length));
    else if (line.startsWith("new file")) file.from = undefined;
    else if (line.startsWith("deleted file")) file.to = undefined;
    else if (line.startsWith("Binary files") || line.startsWith("GIT binary patch")) file.isBinary = true;
    else if (/^(old mode|new mode|similarity index|copy )/.test(line)) file.notes.push(line);
  }
  return files;
}

/** How many lines a diff adds and removes. */
export function countLines({ text, truncated }) {
  const files = parseDiff(text);
  return { added: files.reduce((sum, file) => sum + file.added, 0), removed: files.reduce((sum, file) => sum + file.removed, 0), truncated };
}

function namesOf(text) {
  // Both names are the same unless a file moved, which other lines say.
  if (text.startsWith('"')) {
    const found = /^("(?:[^"\\]|\\.)*") (.*)$/.exec(text);
    return found ? [nameOf(found[1], "a/"), nameOf(found[2], "b/")] : [text, text];
  }
  const half = (text.length - 1) / 2;
  return [nameOf(text.slice(0, half), "a/"), nameOf(text.slice(half + 1), "b/")];
}

function nameOf(text, prefix) {
  const name = unquoted(text.replace(/\t$/, ""));
  if (name === "/dev/null") return undefined;
  return name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

/** Git writes names with other bytes than ASCII in quotes, with octal escapes. */
function unquoted(text) {
  if (!text.startsWith('"') || !text.endsWith('"')) return text;
  const bytes = [];
  const plain = new TextEncoder();
  const inner = text.slice(1, -1);
  for (let index = 0; index < inner.length; index += 1) {
    if (inner[index] !== "\\") {
      bytes.push(...plain.encode(inner[index]));
      continue;
    }
    const octal = /^[0-7]{3}/.exec(inner.slice(index + 1));
    if (octal) {
      bytes.push(Number.parseInt(octal[0], 8));
      index += 3;
    } else {
      index += 1;
      bytes.push(...plain.encode({ n: "\n", t: "\t", r: "\r" }[inner[index]] ?? inner[index]));
    }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** What differs between two lines: how much they have in common at their beginnings and ends. */
export function changedPart(one, other) {
  const most = Math.min(one.length, other.length);
  let start = 0;
  while (start < most && one[start] === other[start]) start += 1;
  let end = 0;
  while (end < most - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  // Of lines with little in common nothing is pointed out.
  if (start + end < most * 0.3) return undefined;
  return { start, end };
}
