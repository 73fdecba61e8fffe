// Where the program is: as the setting says, on PATH, or beside the extension.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

export interface Looking {
  /** What the setting says; empty where nothing is chosen. */
  chosen: string;
  /** The directory of the extension. */
  extension: string;
  path: string | undefined;
  isWindows: boolean;
}

export type Found = { program: string; from: "setting" | "path" | "bundle" } | { problem: string };

export const INSTALL = "Install it with `cargo install --locked --path crates/orchestra` in a checkout of Orchestra, or name it in the setting `orchestra.path`.";

/** Whether this is a file that can be started. */
function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

export function find({ chosen, extension, path, isWindows }: Looking): Found {
  const name = isWindows ? "orchestra.exe" : "orchestra";
  if (chosen !== "") {
    if (!isAbsolute(chosen)) return { problem: `The setting \`orchestra.path\` has to be a whole path; it is \`${chosen}\`.` };
    return isProgram(chosen) ? { program: chosen, from: "setting" } : { problem: `There is no program at \`${chosen}\`, which the setting \`orchestra.path\` names.` };
  }
  for (const directory of (path ?? "").split(delimiter)) {
    // A relative directory of PATH could be one of the workspace, which others write.
    if (isAbsolute(directory) && isProgram(join(directory, name))) return { program: join(directory, name), from: "path" };
  }
  const bundled = join(extension, "bin", name);
  if (isProgram(bundled)) return { program: bundled, from: "bundle" };
  return { problem: `The program \`orchestra\` was not found. ${INSTALL}` };
}
