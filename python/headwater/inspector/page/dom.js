// Elements and texts. Everything from the table goes through here, as text: no markup is ever made of it.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "at") Object.assign(element.style, value);
    else if (name === "tip") tipOf(element, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// A short text beside what the pointer or the keyboard is on.
function tipOf(element, text) {
  const tip = document.getElementById("tip");
  const show = (x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 16 + box.height > innerHeight ? y - box.height - 10 : y + 16}px`;
  };
  element.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    show(box.left + box.width / 2, box.top + box.height / 2);
  });
  for (const event of ["pointerleave", "blur"]) element.addEventListener(event, () => (tip.hidden = true));
}

// Sizes in the units of the command line and of notebooks.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${value < 0 ? "−" : ""}${unit === 0 ? Math.floor(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

const NUMBER = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (value) =>
  value === null || value === undefined ? "unknown" : NUMBER.format(value).replace("-", "−");
export const compact = (value) =>
  value === null || value === undefined ? "unknown" : (Math.abs(value) < 100000 ? NUMBER : COMPACT).format(value);
export const few = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const share = (part, whole) => {
  if (!whole) return "0 %";
  const value = (100 * part) / whole;
  return value > 0 && value < 0.1 ? "< 0.1 %" : value < 100 && value > 99.9 ? "> 99.9 %" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
};

export function time(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "unknown";
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString().slice(0, 19).replace("T", " ");
}
export function ago(milliseconds) {
  const minutes = Math.max(0, (Date.now() - milliseconds) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return few(Math.floor(minutes), "minute") + " ago";
  if (minutes < 48 * 60) return few(Math.floor(minutes / 60), "hour") + " ago";
  if (minutes < 700 * 24 * 60) return few(Math.floor(minutes / 1440), "day") + " ago";
  return few(Math.floor(minutes / 525600), "year") + " ago";
}
export const signed = (value, format) =>
  value === null || value === undefined ? "?" : value > 0 ? `+${format(value)}` : value === 0 ? "0" : format(value);

// A table; cells are texts or elements. Columns: {name, right, code}.
export function table(columns, rows, caption) {
  const head = h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.right ? "right" : null }, c.name)));
  const body = rows.map((row) =>
    h("tr", null, row.map((cell, i) => h("td", { class: [columns[i].right && "right", columns[i].code && "code"].filter(Boolean).join(" ") || null }, cell ?? h("span", { class: "none" }, "none")))),
  );
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "hidden" }, caption), h("thead", null, head), h("tbody", null, body)));
}

export const pairs = (entries) =>
  h("dl", { class: "pairs" }, entries.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value ?? h("span", { class: "none" }, "none"))]));

export const folded = (title, ...children) => h("details", null, h("summary", null, title), children);
