// What was used, put together by day and by what it was used for.

import { amount } from "../lib/time.js";

/** The most parts that are told apart; the rest is one. */
const MOST_PARTS = 7;

/** By what figures are told apart. */
export const PARTS = {
  model: { title: "By model", of: ({ model }) => model || "Unknown model" },
  provider: { title: "By provider", of: ({ provider }) => provider || "Unknown provider" },
  project: { title: "By project", of: ({ project }) => project ?? "No project" },
  plan: { title: "By plan", of: ({ plan }) => plan ?? "Not part of a plan" },
};

/** What is counted. */
export const MEASURES = {
  tokens: { title: "Tokens", of: ({ input, output }) => input + output, format: amount },
  cost: { title: "Cost", of: ({ cost }) => cost, format: (cost) => cost.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 4 }) },
  requests: { title: "Requests", of: ({ requests }) => requests, format: amount },
};

/** A moment's day in UTC, as the program counts, as `2026-02-14`. */
export function dayOf(at) {
  return at.toISOString().slice(0, 10);
}

/** Whether a text is a day as the program writes them. */
export function isDay(text) {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}

/** The day so many days before another. */
export function daysBefore(day, count) {
  const at = new Date(`${day}T00:00:00Z`);
  at.setUTCDate(at.getUTCDate() - count);
  return dayOf(at);
}

/** All days from one to another, both included; of very many the last ones. */
export function daysBetween(from, to, most = 1_100) {
  const days = [];
  for (let day = to; day >= from && days.length < most; day = daysBefore(day, 1)) days.unshift(day);
  return days;
}

/**
 * The parts by how much they sum up to, the rest beyond a few put together.
 *
 * @returns {{ name: string, sum: number, days: Map<string, number> }[]}
 */
export function gathered(rows, part, measure) {
  const parts = new Map();
  const { of } = MEASURES[measure];
  for (const row of rows) add(parts, PARTS[part].of(row), row.day, of(row));
  const sorted = [...parts.values()].sort((one, other) => other.sum - one.sum || one.name.localeCompare(other.name));
  if (sorted.length <= MOST_PARTS + 1) return sorted;
  const rest = new Map();
  for (const { days } of sorted.slice(MOST_PARTS)) for (const [day, value] of days) add(rest, `${sorted.length - MOST_PARTS} more`, day, value);
  return [...sorted.slice(0, MOST_PARTS), ...rest.values()];
}

function add(parts, name, day, value) {
  if (!parts.has(name)) parts.set(name, { name, sum: 0, days: new Map() });
  const entry = parts.get(name);
  entry.sum += value;
  entry.days.set(day, (entry.days.get(day) ?? 0) + value);
}
