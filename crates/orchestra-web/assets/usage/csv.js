// Figures as other programs read them (RFC 4180).

const COLUMNS = ["day", "provider", "model", "project", "plan", "requests", "input", "output", "cost"];

/** Rows of figures as lines of text, the first with the names of the columns. */
export function csv(rows) {
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((column) => row[column] ?? ""))];
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  const text = String(value);
  // What begins so is a formula to programs that show tables.
  const harmless = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
