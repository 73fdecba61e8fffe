// Calls a tool that VS Code knows, as the chat does, and says what it answered.

const vscode = require("vscode");

/** So long a tool is waited for: no event tells that there are more. */
const PATIENCE_MS = 15_000;

async function tool(end) {
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = vscode.lm.tools.find(({ name }) => name.endsWith(end));
    if (found) return found;
    if (Date.now() > until) throw new Error(`there is no such tool among ${vscode.lm.tools.length}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

async function call() {
  const end = await vscode.window.showInputBox({ prompt: "How the name of the tool ends" });
  const input = await vscode.window.showInputBox({ prompt: "Its arguments, as JSON" });
  try {
    const { name } = await tool(end);
    const { content } = await vscode.lm.invokeTool(name, { input: JSON.parse(input), toolInvocationToken: undefined });
    return vscode.window.showInformationMessage(`${name} answered: ${content.map(({ value }) => value).join("")}`);
  } catch (error) {
    return vscode.window.showErrorMessage(`${end} failed: ${error.message}`);
  }
}

exports.activate = (context) => void context.subscriptions.push(vscode.commands.registerCommand("orchestra-hand.call", call));
