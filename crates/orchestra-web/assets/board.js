// The board of a project: its issues in the columns of the workflow, as they are now.

import { go } from "./app.js";
import { get } from "./lib/api.js";
import { on } from "./lib/stream.js";
import { Board } from "./board/frame.js";
import { noProject, unknownProject } from "./board/project.js";

const LAST_KEY = "orchestra-project";

/** Shows the board of the project in the path, of the one that was shown last, or of the first. */
export async function page(root, { parts, query }, signal) {
  // Heard before they are asked for, so that a project that is made meanwhile is not missed.
  let heard;
  on("projects", (data) => (heard = data.projects), { signal });
  const answer = await get("/api/board", { signal });
  const projects = heard ?? answer.projects;
  const [asked, issue] = parts;
  const last = localStorage.getItem(LAST_KEY);
  const slug = asked ?? projects.find((project) => project.slug === last)?.slug ?? projects[0]?.slug;
  if (!slug) {
    noProject(root);
    on("projects", (data) => data.projects.length > 0 && go("/board", { replace: true }), { signal });
    return;
  }
  if (!projects.some((project) => project.slug === slug)) {
    unknownProject(root, slug, projects);
    return;
  }
  localStorage.setItem(LAST_KEY, slug);
  if (!asked) go(`/board/${encodeURIComponent(slug)}${location.search}`, { replace: true, quiet: true });
  await new Board(root, slug, signal).begin(projects, query, issue);
}
