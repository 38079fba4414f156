// The page of a folder: its tables, one row each, which are filled in one after the other.
import { addressWith } from "./address.js";
import { ask, choice, finding, problem, waiting } from "./ask.js";
import { ago, bytes, compact, count, few, h, time } from "./dom.js";

const AT_ONCE = 3;
const BY = {
  name: () => 0,
  size: (row) => -(row.found?.bytes ?? -1),
  time: (row) => -(row.found?.time ?? -1),
  findings: (row) => (row.error ? -1e9 : -weight(row.found?.findings)),
};
const weight = (findings) => (findings ?? []).reduce((sum, each) => sum + (each.level === "warning" ? 1000 : 1), 0);

export async function showFolder(place) {
  document.title = "Headwater inspector";
  document.getElementById("name").textContent = place.path.split("/").filter(Boolean).pop() ?? place.path;
  document.getElementById("path").replaceChildren(h("bdi", null, place.path));
  document.querySelector("nav.sections").hidden = true;
  const body = h("div", { class: "body" }, waiting("Searching for tables"));
  document.getElementById("main").replaceChildren(h("section", { class: "card", id: "tables", "aria-labelledby": "tables-title" },
    h("header", null, h("h2", { id: "tables-title" }, "Tables"), h("p", null, "The Delta tables below this folder. Open one to see its versions, files and log.")), body));
  try {
    await list(body);
  } catch (error) {
    body.replaceChildren(problem(error));
  }
}

async function list(body) {
  const found = await ask("tables");
  document.getElementById("at").replaceChildren(few(found.tables.length, "table"));
  const notes = found.notes.map((note) => h("p", { class: "note warm" }, note));
  if (!found.tables.length) {
    body.replaceChildren(...notes, h("p", { class: "muted" }, "There is no Delta table below this folder."));
    return;
  }
  const rows = found.tables.map((name) => ({ name, found: null, error: null, line: null }));
  const sums = h("p", { class: "muted sums" });
  const lines = h("tbody");
  let by = "name";
  let wanted = "";
  const arrange = () => {
    const shown = rows.filter((row) => row.name.toLowerCase().includes(wanted));
    shown.sort((a, b) => BY[by](a) - BY[by](b) || (a.name < b.name ? -1 : 1));
    lines.replaceChildren(...shown.map((row) => row.line));
    const known = rows.filter((row) => row.found);
    const failed = rows.filter((row) => row.error).length;
    const size = bytes(known.reduce((sum, row) => sum + row.found.bytes, 0));
    const bad = failed ? `, ${few(failed, "table")} cannot be read` : "";
    sums.textContent = known.length + failed < rows.length ? `${count(known.length + failed)} of ${few(rows.length, "table")} read, ${size} so far${bad}` : `${few(rows.length, "table")}, ${size}${bad}`;
  };
  for (const row of rows) row.line = h("tr", null, cells(row));
  body.replaceChildren(...notes,
    h("div", { class: "controls" },
      h("label", null, "Name ", h("input", { type: "text", id: "wanted", spellcheck: "false", autocomplete: "off", on: { input: (event) => { wanted = event.target.value.trim().toLowerCase(); arrange(); } } })),
      choice("Order", [["name", "Name"], ["size", "Size"], ["time", "Last commit"], ["findings", "Findings"]], by, (value) => { by = value; arrange(); }), sums),
    h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Tables" },
      h("table", { class: "tables" }, h("caption", { class: "hidden" }, "Tables"),
        h("thead", null, h("tr", null, ["Table", "Size", "Files", "Rows", "Version", "Last commit", "Findings"].map((name, i) => h("th", { scope: "col", class: i > 0 && i < 5 ? "right" : null }, name)))), lines)));
  arrange();
  const coming = [...rows];
  const one = async () => {
    for (let row = coming.shift(); row; row = coming.shift()) {
      try {
        row.found = await ask("glance", { table: row.name });
      } catch (error) {
        row.error = error;
        if (error.condition === "gone") coming.length = 0;
      }
      row.line.replaceChildren(...cells(row));
      arrange();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

function cells(row) {
  const link = h("td", { class: "name" }, h("a", { href: addressWith({ table: row.name }) }, row.name));
  if (row.error) return [link, h("td", { colspan: 6, class: "wide" }, h("div", { class: "problem" }, row.error.message))];
  const found = row.found;
  if (!found) return [link, h("td", { colspan: 6 }, waiting())];
  const right = (text) => h("td", { class: "right" }, text);
  return [link, right(bytes(found.bytes)), right(compact(found.files)), right(found.rows === null ? h("span", { class: "none" }, "unknown") : compact(found.rows)), right(count(found.version)),
    h("td", { class: "stamp" }, h("span", { tip: `${time(found.time)} UTC` }, ago(found.time))), h("td", { class: "wide" }, findings(found))];
}

function findings(found) {
  if (found.findingsFailed) return h("span", { class: "muted" }, found.findingsFailed);
  if (found.findings === null) return h("span", { class: "muted" }, "shown when the table is opened, since it has many files");
  if (!found.findings.length) return h("span", { class: "muted" }, "none");
  const warnings = found.findings.filter((each) => each.level === "warning").length;
  const words = [warnings ? few(warnings, "warning") : null, found.findings.length > warnings ? few(found.findings.length - warnings, "note") : null].filter(Boolean).join(", ");
  return h("details", null, h("summary", null, words), h("ul", { class: "findings" }, found.findings.map((each) => finding(each))));
}
