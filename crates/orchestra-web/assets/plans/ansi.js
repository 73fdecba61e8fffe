// Lines as programs print them for terminals: colours become classes, all other control characters go.

/** @typedef {{ fg?: number, bg?: number, bold?: boolean, dim?: boolean, italic?: boolean, underline?: boolean, inverse?: boolean, strike?: boolean }} Look */

const PLAIN = Object.freeze({});
const TAB = 8;
/** A sequence for a terminal, or a control character that is no tab (ECMA-48, sections 5.4 and 5.6). */
const CONTROL = /\u001b\[([0-?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?|[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/gu;
const HAS_CONTROL = /[\u0000-\u001f\u007f-\u009f]/u;

/** How a line looks before the first of all. */
export const BEGIN = PLAIN;

/** How the line after this one begins: colours go on until they are ended. */
export function lookAfter(raw, look) {
  if (!raw.includes("\u001b[")) return look;
  let now = look;
  for (const found of raw.matchAll(CONTROL)) if (found[2] === "m") now = turned(now, found[1]);
  return now;
}

/**
 * Reads a line.
 *
 * @param {string} raw
 * @param {Look} look how it begins
 * @returns {{ text: string, name: string }[]} parts, each with the classes of its look
 */
export function partsOf(raw, look) {
  if (!HAS_CONTROL.test(raw)) return raw === "" ? [] : [{ text: raw, name: namesOf(look) }];
  const parts = [];
  let column = 0;
  let now = look;
  const push = (text) => {
    if (text === "") return;
    let spaced = "";
    for (const [index, piece] of text.split("\t").entries()) {
      if (index > 0) {
        const spaces = TAB - (column % TAB);
        spaced += " ".repeat(spaces);
        column += spaces;
      }
      spaced += piece;
      column += piece.length;
    }
    const name = namesOf(now);
    if (parts.at(-1)?.name === name) parts.at(-1).text += spaced;
    else parts.push({ text: spaced, name });
  };
  // What is written over by what comes after it in the same line is not shown, as bars of progress.
  const line = raw.replace(/\r+$/u, "");
  const over = line.lastIndexOf("\r");
  if (over >= 0) now = lookAfter(line.slice(0, over), now);
  const shown = line.slice(over + 1);
  let from = 0;
  for (const found of shown.matchAll(CONTROL)) {
    push(shown.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") now = turned(now, found[1]);
  }
  push(shown.slice(from));
  return parts;
}

/** A line without any of it. */
export function plainOf(raw) {
  if (!HAS_CONTROL.test(raw)) return raw;
  return partsOf(raw, PLAIN).map(({ text }) => text).join("");
}

/** The look after a sequence that turns it (Select Graphic Rendition). */
function turned(look, parameters) {
  const codes = parameters.split(/[;:]/u).map((text) => (text === "" ? 0 : Number(text)));
  let now = { ...look };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index];
    if (code === 0) now = {};
    else if (code === 1) now.bold = true;
    else if (code === 2) now.dim = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 7) now.inverse = true;
    else if (code === 9) now.strike = true;
    else if (code === 22) now.bold = now.dim = false;
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 27) now.inverse = false;
    else if (code === 29) now.strike = false;
    else if (code >= 30 && code <= 37) now.fg = code - 30;
    else if (code === 39) now.fg = undefined;
    else if (code >= 40 && code <= 47) now.bg = code - 40;
    else if (code === 49) now.bg = undefined;
    else if (code >= 90 && code <= 97) now.fg = code - 82;
    else if (code >= 100 && code <= 107) now.bg = code - 92;
    else if (code === 38 || code === 48) {
      const side = code === 38 ? "fg" : "bg";
      if (codes[index + 1] === 5) {
        now[side] = ofTable(codes[index + 2]);
        index += 2;
      } else if (codes[index + 1] === 2) {
        now[side] = nearest(codes[index + 2], codes[index + 3], codes[index + 4]);
        index += 4;
      }
    }
  }
  return now;
}

/** One of the 256 colours as one of the 16 that themes have. */
function ofTable(index = 0) {
  if (index < 16) return index;
  if (index >= 232) return index < 238 ? 0 : index < 244 ? 8 : index < 250 ? 7 : 15;
  const level = (part) => (part === 0 ? 0 : 55 + part * 40);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red = 0, green = 0, blue = 0) {
  const most = Math.max(red, green, blue);
  if (most < 60) return 0;
  const low = Math.min(red, green, blue);
  if (most - low < 30) return most < 110 ? 8 : most < 200 ? 7 : 15;
  const edge = (most + low) / 2;
  return (red > edge ? 1 : 0) + (green > edge ? 2 : 0) + (blue > edge ? 4 : 0) + (most > 210 ? 8 : 0);
}

function namesOf(look) {
  if (look === PLAIN) return "";
  const [fg, bg] = look.inverse ? [look.bg ?? "ground", look.fg ?? "ink"] : [look.fg, look.bg];
  return [fg !== undefined && `a-fg-${fg}`, bg !== undefined && `a-bg-${bg}`, look.bold && "a-bold", look.dim && "a-dim", look.italic && "a-italic", look.underline && "a-underline", look.strike && "a-strike"].filter(Boolean).join(" ");
}
