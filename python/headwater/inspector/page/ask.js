// Asking the server, and showing that it is being asked or that it failed.
import { address } from "./address.js";
import { h } from "./dom.js";

export class Failure extends Error {
  constructor(found) {
    super(found.message);
    this.condition = found.condition;
  }
}

export async function ask(name, values = {}) {
  const query = new URLSearchParams();
  const { table } = address();
  for (const [key, value] of Object.entries({ table, ...values })) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined) query.append(key, each);
  }
  let response;
  try {
    response = await fetch(`api/${name}?${query}`);
  } catch {
    throw new Failure({ condition: "gone", message: "The inspector has ended. Start headwater inspect again, and open the address that it prints." });
  }
  const found = await response.json().catch(() => ({ message: `The inspector answered ${response.status}.` }));
  if (!response.ok) throw new Failure(found);
  return found;
}

export const problem = (error) => h("div", { class: "problem", role: "alert" }, error.message, error.condition && error.condition !== "gone" ? h("code", null, error.condition) : null);
export const waiting = (what = "Reading the log") => h("p", { class: "waiting" }, `${what} …`);

// A row of buttons of which one is pressed.
export function choice(label, options, chosen, pick) {
  const buttons = options.map(([value, text]) => h("button", { type: "button", "aria-pressed": String(value === chosen), on: { click: () => {
    for (const [i, [each]] of options.entries()) buttons[i].setAttribute("aria-pressed", String(each === value));
    pick(value);
  } } }, text));
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

// A finding: a sentence or two, and the statement to copy.
export function finding(found, section) {
  return h("li", { class: found.level }, h("div", null, h("span", null, found.text), section ? [" ", h("a", { href: `#${section}` }, "Show")] : null, found.sql ? copied(found.sql) : null));
}

function copied(sql) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy ${sql}`, on: { click: async () => {
    try {
      await navigator.clipboard.writeText(sql);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  } } }, "Copy");
  const code = h("code", null, sql);
  return h("div", { class: "sql" }, code, button);
}
