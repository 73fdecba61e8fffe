// The trees of the side bar.

import * as vscode from "vscode";
import type { Card, Job, Model, Plan, Project } from "./model";

/** What a state looks like. */
const ICONS: Record<string, string> = { succeeded: "pass", done: "pass", failed: "error", running: "loading~spin", "in-progress": "loading~spin", paused: "debug-pause", "pending-start": "debug-pause", canceled: "circle-slash", cancelled: "circle-slash", blocked: "warning" };

function icon(status: string): vscode.ThemeIcon {
  return new vscode.ThemeIcon(ICONS[status] ?? "circle-outline");
}

export type BoardNode = { kind: "project"; project: Project } | { kind: "state"; project: Project; state: string } | { kind: "card"; project: Project; card: Card };

/** The board: projects, their states with what stands in each. */
export class BoardTree implements vscode.TreeDataProvider<BoardNode> {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;

  constructor(private readonly model: () => Model | undefined) {}

  refresh(): void {
    this.changes.fire();
  }

  getChildren(node?: BoardNode): BoardNode[] {
    const model = this.model();
    if (!model) return [];
    if (!node) {
      const nodes = model.projects.map((project): BoardNode => ({ kind: "project", project }));
      // One project needs no level of its own.
      return nodes.length === 1 && nodes[0] ? this.getChildren(nodes[0]) : nodes;
    }
    const { project } = node;
    if (node.kind === "project") return model.states.filter((state) => model.inState(project.slug, state).length > 0).map((state) => ({ kind: "state", project, state }));
    if (node.kind === "state") return model.inState(project.slug, node.state).map((card) => ({ kind: "card", project, card }));
    return [];
  }

  getTreeItem(node: BoardNode): vscode.TreeItem {
    const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;
    if (node.kind === "project") return new vscode.TreeItem(node.project.name, Expanded);
    if (node.kind === "state") {
      const item = new vscode.TreeItem(node.state, ["done", "cancelled", "rejected", "backlog"].includes(node.state) ? Collapsed : Expanded);
      item.id = `${node.project.slug}/${node.state}`;
      item.description = String(this.model()?.inState(node.project.slug, node.state).length ?? 0);
      item.iconPath = icon(node.state);
      return item;
    }
    const item = new vscode.TreeItem(node.card.title, None);
    item.id = `${node.project.slug}/${node.card.id}`;
    item.description = node.card.id;
    item.tooltip = `${node.card.id}: ${node.card.title} (${node.card.status})`;
    item.contextValue = "task";
    item.command = { command: "orchestra.openTask", title: "Open Task", arguments: [node] };
    return item;
  }
}

export type PlanNode = { kind: "plan"; plan: Plan } | { kind: "job"; plan: Plan; job: Job };

/** The plans, each with its jobs. */
export class PlanTree implements vscode.TreeDataProvider<PlanNode> {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;

  constructor(private readonly model: () => Model | undefined) {}

  refresh(): void {
    this.changes.fire();
  }

  async getChildren(node?: PlanNode): Promise<PlanNode[]> {
    const model = this.model();
    if (!model) return [];
    if (!node) return model.newest().filter(({ status }) => status !== "archived").map((plan) => ({ kind: "plan", plan }));
    if (node.kind === "job") return [];
    const jobs = await model.jobs(node.plan.id);
    return jobs.map((job) => ({ kind: "job", plan: node.plan, job }));
  }

  getTreeItem(node: PlanNode): vscode.TreeItem {
    const { Collapsed, None } = vscode.TreeItemCollapsibleState;
    if (node.kind === "plan") {
      const item = new vscode.TreeItem(node.plan.name, Collapsed);
      item.id = node.plan.id;
      item.description = node.plan.status;
      item.iconPath = icon(node.plan.status);
      item.contextValue = `plan.${node.plan.status}`;
      item.command = { command: "orchestra.openPlan", title: "Open Plan", arguments: [node] };
      return item;
    }
    const item = new vscode.TreeItem(node.job.name, None);
    item.id = `${node.plan.id}/${node.job.id}`;
    item.description = node.job.status;
    item.iconPath = icon(node.job.status);
    item.contextValue = `job.${node.job.status}`;
    return item;
  }
}
