// Moves a card to another state, as the workflow allows, with what it asks for on the way.

import { call } from "../lib/api.js";
import { announce, dialog, field, h, toast } from "../lib/dom.js";
import { NAMES } from "./model.js";

const TOOLS = { epic: ["update_epic", "epic_id"], story: ["update_story", "story_id"] };

/** The tool that changes an issue, and the name of its argument for the id. */
export function updateOf(card) {
  return TOOLS[card.type] ?? ["update_task", "task_id"];
}

/**
 * Moves a card, after asking for the evidence or the reason that the workflow wants.
 *
 * @returns {Promise<boolean>} whether it was moved; what stood against it was told
 */
export function move(project, model, card, to) {
  if (card.status === to) return Promise.resolve(false);
  const { exit, refused } = model.exit(card, to);
  if (refused) {
    toast(`${card.id} stays: ${refused}.`, "bad");
    return Promise.resolve(false);
  }
  const send = async (more) => {
    const [tool, id] = to === "rejected" ? ["reject_task", "task_id"] : updateOf(card);
    await call(tool, { project, [id]: card.id, ...(to === "rejected" ? {} : { status: to }), ...more });
    announce(`${card.id} is now in ${NAMES[to]}`);
  };
  if (to === "rejected") return asked(card, to, "Why is it rejected?", "reason", send);
  if (exit.gate) return asked(card, to, `What shows it? ${exit.asks ?? ""}`.trim(), "evidence", send);
  return send({}).then(
    () => true,
    (error) => {
      toast(`${card.id} stays: ${error.message}`, "bad");
      return false;
    },
  );
}

function asked(card, to, question, name, send) {
  return new Promise((resolve) => {
    const text = h("textarea", { name, required: true, maxlength: 20_000 });
    let moved = false;
    dialog(`${card.id}: ${NAMES[card.status]} → ${NAMES[to]}`, [field(question, text)], {
      submit: "Move",
      onSubmit: async () => {
        if (!text.value.trim()) throw new Error("Write something that others can follow.");
        await send({ [name]: text.value });
        moved = true;
      },
      onClose: () => resolve(moved),
    });
  });
}

/** Asks where a card is to go; what is refused is shown with the reason. */
export function chooseMove(project, model, card, onMoved) {
  const choices = Object.keys(NAMES).filter((to) => to !== card.status).map((to) => {
    const { refused, exit } = model.exit(card, to);
    const told = refused ?? (exit.gate ? "asks for evidence" : "");
    const choose = async () => {
      box.close();
      if (await move(project, model, card, to)) onMoved?.(to);
    };
    return h("li", {}, h("button", { type: "button", disabled: Boolean(refused), dataset: { to }, onclick: choose }, NAMES[to]), told && h("small", {}, ` ${told}`));
  });
  const box = dialog(`Move ${card.id} to…`, [h("ul.choices", {}, choices)]);
}
