// Completing the names of columns in a text field: by arrow keys and Tab or Enter, or by the pointer.
import { h } from "./dom.js";

const MOST = 8;
// What stands before the cursor and may be the beginning of a name; a name in backticks may have any character.
const BEGUN = /(?:`(?:[^`]|``)*|[A-Za-z_][\w.]*(?:\.`(?:[^`]|``)*)?)$/;
const TEXTS = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g;

// The names that a beginning may become: names that begin with it first, then names with a part that does.
function matching(names, begun) {
  const wanted = begun.replaceAll("`", "").toLowerCase();
  const plain = (name) => name.text.replaceAll("`", "").toLowerCase();
  const first = names.filter((name) => plain(name).startsWith(wanted));
  const later = names.filter((name) => !first.includes(name) && plain(name).split(/[._ ]/).some((part) => part.startsWith(wanted)));
  return [...first, ...later].filter((name) => name.text !== begun).slice(0, MOST);
}

// A list for a text field. `names`: {text, type}. `changed` is called when the list closes, as when a name was taken.
export function completing(input, names, changed) {
  const list = h("ul", { class: "completions", id: "completions", role: "listbox", "aria-label": "Columns", hidden: true });
  let shown = [];
  let place = -1;
  let begun = "";
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": "completions", "aria-expanded": "false" })) input.setAttribute(name, value);

  const close = () => {
    const wasOpen = shown.length > 0;
    shown = [];
    place = -1;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    if (wasOpen) changed();
  };
  const choose = (to) => {
    place = to;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === to)));
    if (to < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", list.children[to].id);
  };
  const take = (name) => {
    const end = input.selectionStart;
    input.setRangeText(name.text, end - begun.length, end, "end");
    close();
    input.focus();
  };
  const look = () => {
    const before = input.value.slice(0, input.selectionStart);
    const bare = before.replace(TEXTS, "");
    const isText = /['"]/.test(bare); // a text that is not closed yet
    begun = isText ? "" : (BEGUN.exec(before)?.[0] ?? "");
    shown = begun ? matching(names, begun) : [];
    if (!shown.length) {
      close();
      return;
    }
    list.replaceChildren(...shown.map((name, i) => h("li", { id: `completion-${i}`, role: "option", "aria-selected": "false", on: { pointerdown: (event) => { event.preventDefault(); take(name); } } }, h("code", null, name.text), " ", h("span", { class: "muted" }, name.type))));
    place = -1;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  };
  input.addEventListener("input", look);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (!shown.length) return;
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") choose((place + (key === "ArrowDown" ? 1 : shown.length + (place < 0 ? 0 : -1))) % shown.length);
    else if (key === "Escape") close();
    else if ((key === "Tab" && !event.shiftKey) || (key === "Enter" && place >= 0)) take(shown[Math.max(place, 0)]);
    else {
      if (key === "Enter") close();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
  return h("div", { class: "completing" }, list);
}
