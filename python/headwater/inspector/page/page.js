// The inspector's page: asks the server for facts, section by section, and shows them.
import { address, addressWith, goAddress } from "./address.js";
import { ask, choice, finding, problem, waiting } from "./ask.js";
import { ago, bytes, compact, count, few, folded, h, pairs, share, signed, table, time } from "./dom.js";
import { bars, growth, marksOf, MARKS, meter, ranges, treemap } from "./charts.js";
import { completing } from "./completing.js";
import { showFolder } from "./folder.js";

const POLL = 4000;
const state = { place: null, version: null, newest: null, overview: null, history: [], more: false, column: null, failed: null };
const $ = (id) => document.getElementById(id);

const askHere = (name, values = {}) => ask(name, { ...values, version: state.version });


const SECTIONS = [
  ["overview", "Overview", null, showOverview],
  ["timeline", "Timeline", "How the table grew, and what each version did. Drag over a part to enlarge it, double-click to see all, click a version to open it.", showTimeline],
  ["files", "File sizes", "Data files by size, and what OPTIMIZE would make of them.", showFiles],
  ["skipping", "Data skipping", "Which files a query can leave out, by the statistics and partition values in the log.", showSkipping],
  ["partitions", "Partitions", null, showPartitions],
  ["vectors", "Deleted rows", "Rows that deletion vectors mark: they are in the files, and readers leave them out.", showVectors],
  ["log", "Log", "Commits, checkpoints, and the files that VACUUM would delete.", showLog],
  ["writers", "Writers", "Who commits: engines, operations, and the applications that number their commits, as streams do.", showWriters],
  ["schema", "Definition", "Columns, properties and protocol of this version.", showSchema],
  ["rows", "Rows", "A few rows, read from the data files when you ask for them.", showRows],
];

// The section that shows what a finding is about.
const SHOWN = { smallFiles: "files", deletedRows: "vectors", statistics: "skipping", vacuum: "log", checkpoint: "log", partitions: "partitions" };

function build() {
  $("sections").replaceChildren(...SECTIONS.map(([id, title]) => h("li", null, h("a", { href: `#${id}` }, title))));
  $("main").replaceChildren(...SECTIONS.map(([id, title, about]) =>
    h("section", { class: id === "overview" ? "glance" : "card", id, "aria-labelledby": `${id}-title` },
      h("header", { class: id === "overview" ? "hidden" : null }, h("h2", { id: `${id}-title` }, title), about ? h("p", null, about) : null),
      h("div", { class: "body" }, waiting()))));
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const visible = new Set();
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) visible[isIntersecting ? "add" : "delete"](target.id);
    const first = SECTIONS.find(([id]) => visible.has(id))?.[0];
    if (!first) return;
    for (const [id, link] of links) {
      if (id === first) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    document.querySelector("nav.sections").scrollTo({ left: links.get(first).offsetLeft - 60 });
  }, { rootMargin: "-115px 0px -60% 0px" });
  for (const section of document.querySelectorAll("main > section")) seen.observe(section);
}

async function show() {
  if (state.at !== null) state.newest = await ask("newest").then((found) => found.version, () => state.newest);
  await Promise.all([timelineFirst(), overviewFirst()]);
  for (const [id, , , render] of SECTIONS) {
    const body = $(id).querySelector(".body");
    Promise.resolve().then(() => render(body)).catch((error) => body.replaceChildren(problem(error)));
  }
}

async function overviewFirst() {
  try {
    state.overview = await askHere("overview");
    state.failed = null;
    state.version = state.overview.version;
    state.newest = Math.max(state.newest ?? 0, state.version);
  } catch (error) {
    state.overview = null;
    state.failed = error;
  }
  const o = state.overview;
  if (o) {
    const folder = o.path.split("/").filter(Boolean).pop() ?? o.path;
    $("name").textContent = o.name ?? folder;
    document.title = `${o.name ?? folder} · Headwater inspector`;
    $("path").replaceChildren(h("bdi", null, o.path));
    $("at").replaceChildren("version ", h("b", null, count(o.version)), h("span", { class: "when" }, ` · ${ago(o.time)}`));
  } else {
    const path = state.table === null ? state.place.path : `${state.place.path}/${state.table}`;
    const folder = path.split("/").filter(Boolean).pop() ?? path;
    $("name").textContent = folder;
    document.title = `${folder} · Headwater inspector`;
    $("path").replaceChildren(h("bdi", null, path));
    $("at").replaceChildren(h("span", { class: "chip bad" }, "cannot be read"));
  }
  $("newest").hidden = o ? o.version === state.newest : state.at === null;
}

async function timelineFirst() {
  try {
    const page = await ask("history");
    state.history = page.entries;
    state.more = page.more;
    state.counted = page.counted !== false;
  } catch (error) {
    state.history = [];
    state.historyFailed = error;
  }
}

const needsTable = () => {
  if (state.failed) throw state.failed;
  return state.overview;
};

async function showOverview(body) {
  if (state.failed) {
    const readable = state.history.filter((e) => !e.error);
    body.replaceChildren(problem(state.failed), h("p", { class: "muted" }, state.history.length ? "What can be read of the log is below. " : "", readable.length > 1 ? "Open an earlier version in the timeline to see the table as it was." : ""));
    return;
  }
  const o = state.overview;
  const rows = h("div", { class: "tile" });
  const tile = (label, value, more) => h("div", { class: "tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "more" }, more));
  const findings = h("ul", { class: "findings" });
  body.replaceChildren(
    h("div", { class: "tiles" },
      rows,
      tile("Size", bytes(o.bytes), `${bytes(o.files ? o.bytes / o.files : 0)} per file`),
      tile("Files", compact(o.files), o.partitionColumns.length ? `partitioned by ${o.partitionColumns.join(", ")}` : o.clusteringColumns ? `clustered by ${o.clusteringColumns.join(", ")}` : "not partitioned"),
      tile("Columns", count(o.columns.filter((c) => c.depth === 0).length), `${few(o.columnsWithBounds.length, "column")} with bounds`),
      tile("Versions", count(o.version + 1), `${few(state.history.length, "commit")}${state.more ? " or more" : ""} in the log`),
      tile("Protocol", `${o.protocol.reader} / ${o.protocol.writer}`, few(o.protocol.features.length, "feature"))),
    findings);
  const say = (words, target, fine) => findings.append(h("li", { class: fine ? "fine" : null }, h("span", null, words, " ", target ? h("a", { href: `#${target}` }, "Show") : null)));
  const fillRows = (value, more) => rows.replaceChildren(...tile("Rows", value, more).childNodes);
  fillRows("…", "counting");
  try {
    const n = await askHere("counts");
    fillRows(n.rows === null ? "unknown" : compact(n.rows), n.rows === null ? `${few(n.filesWithoutStatistics, "file")} without a count` : n.deletedRows ? `${compact(n.deletedRows)} more are deleted` : `${compact(o.files ? Math.round(n.rows / o.files) : 0)} per file`);
    if (!state.counted) timelineFirst().then(() => showTimeline($("timeline").querySelector(".body")));
    const log = await askHere("log");
    if (log.incomplete.length) say(`${few(log.incomplete.length, "checkpoint")} with parts missing.`, "log");
    findings.append(...(await askHere("advice")).findings.map((each) => finding(each, SHOWN[each.name])));
    if (!findings.childElementCount) say("No findings: files, statistics and log are in good shape.", null, true);
  } catch (error) {
    if (error.condition === "gone") throw error;
    findings.append(problem(error));
  }
}

let disposeGrowth = null;
const view = { measure: "bytes", byTime: false, filter: "" };

function showTimeline(body) {
  if (disposeGrowth) disposeGrowth();
  disposeGrowth = null;
  if (!state.history.length) {
    body.replaceChildren(state.historyFailed ? problem(state.historyFailed) : h("p", { class: "muted" }, "The log has no commits; a checkpoint alone is left."));
    return;
  }
  const box = h("div", { role: "img", "aria-label": "Size of the table after each version, and what each version added and removed. The table below has the same figures." });
  const list = h("div");
  const operations = [...new Set(state.history.map((e) => e.operation ?? "unknown"))].sort();
  const draw = () => {
    if (disposeGrowth) disposeGrowth();
    const entries = [...state.history].reverse();
    disposeGrowth = entries.length > 1 ? growth(box, entries, { ...view, pick: openVersion }) : null;
  };
  let shown = 60;
  const listAll = () => {
    const chosen = state.history.filter((e) => !view.filter || (e.operation ?? "unknown") === view.filter);
    const change = (e, place, format) => h("span", null,
      e.added[place] || !e.removed[place] ? h("span", { class: "plus" }, signed(e.added[place], format)) : null, e.added[place] && e.removed[place] ? " " : null,
      e.removed[place] ? h("span", { class: "minus" }, signed(-e.removed[place], format)) : null, e.removed[place] === null ? h("span", { class: "minus" }, "−?") : null);
    const rows = chosen.slice(0, shown).map((e) => [
      h("button", { type: "button", class: "link", "aria-label": `Open version ${e.version}`, on: { click: () => openVersion(e.version) } }, e.version),
      h("span", { class: "stamp" }, time(e.time)),
      h("span", null, h("span", { class: e.error ? "chip bad" : marksOf(e).some(([, name]) => name !== "schema change") ? "chip marked-version" : "chip" }, e.error ? "damaged" : (e.operation ?? "unknown")), e.estimated ? h("span", { class: "chip warm", tip: "The commit is large, so the figures are those of its own metrics" }, "estimated") : null,
        e.schemaChanged ? h("span", { class: "chip marked-version" }, "schema") : e.version > 0 && (e.defines.includes("metaData") || e.defines.includes("protocol")) ? h("span", { class: "chip", tip: "It changed the table's definition" }, "definition") : null),
      change(e, 2, compact), change(e, 1, bytes), change(e, 0, compact),
      e.total?.[2] === undefined || e.total?.[2] === null ? h("span", { class: "none" }, "unknown") : compact(e.total[2]),
      e.engine ?? e.user,
    ]);
    list.replaceChildren(
      table([{ name: "Version" }, { name: "Time (UTC)" }, { name: "Operation" }, { name: "Rows", right: true }, { name: "Bytes", right: true }, { name: "Files", right: true }, { name: "Rows after", right: true }, { name: "Engine" }], rows, "Versions, the newest first"),
      h("div", { class: "controls" },
        h("span", { class: "muted" }, `${count(rows.length)} of ${few(chosen.length, "version")}`),
        chosen.length > shown ? h("button", { type: "button", on: { click: () => { shown += 300; listAll(); } } }, "Show more") : null,
        state.more ? h("button", { type: "button", on: { click: older } }, "Read older commits") : null));
  };
  const older = async (event) => {
    event.target.disabled = true;
    const page = await ask("history", { before: state.history[state.history.length - 1].version });
    state.history.push(...page.entries);
    state.more = page.more;
    shown += page.entries.length;
    draw();
    listAll();
  };
  body.replaceChildren(
    h("div", { class: "controls" },
      choice("Measure", [["bytes", "Bytes"], ["files", "Files"], ["rows", "Rows"]], view.measure, (value) => { view.measure = value; draw(); }),
      choice("Axis", [[false, "By version"], [true, "By time"]], view.byTime, (value) => { view.byTime = value; draw(); }),
      h("div", { class: "legend" }, h("span", { class: "of-kept" }, "table"), h("span", { class: "of-added" }, "added"), h("span", { class: "of-gone" }, "removed"),
        MARKS.filter((mark) => state.history.some((e) => marksOf(e).includes(mark))).map(([letter, name]) => h("span", { class: "of-none" }, h("b", null, letter), ` ${name}`)))),
    box,
    h("div", { class: "controls", at: { marginTop: "12px" } },
      h("label", null, "Operation ", h("select", { on: { change: (event) => { view.filter = event.target.value; listAll(); } } }, h("option", { value: "" }, "all"), operations.map((o) => h("option", { value: o, selected: o === view.filter }, o)))),
      compared()),
    list);
  draw();
  listAll();
}

// Which two versions to compare.
function compared() {
  const newest = state.history[0].version;
  const oldest = state.history[state.history.length - 1].version;
  const number = (id, label, value) => h("input", { type: "number", id, min: 0, max: newest, step: 1, required: true, value, "aria-label": label });
  const from = number("from", "Older version", Math.max(oldest, newest - 1));
  const to = number("to", "Newer version", newest);
  return h("form", { class: "compare", on: { submit: (event) => { event.preventDefault(); openComparison(Number(from.value), Number(to.value)); } } },
    h("span", { class: "muted" }, "Compare version"), from, h("span", { class: "muted" }, "with"), to, h("button", { type: "submit" }, "Compare"));
}

// The dialog with a title, buttons beside it, and one to close it, which stays in view.
function openDialog(title, body, ...buttons) {
  const dialog = $("dialog");
  dialog.replaceChildren(
    h("header", null, h("h2", { id: "dialog-title" }, title),
      h("button", { type: "button", class: "quiet close", "aria-label": "Close", on: { click: () => dialog.close() } }, "✕"),
      h("div", { class: "steps" }, buttons)),
    body);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

async function openComparison(from, to) {
  goAddress({ commit: null, from, to });
  const body = h("div", null, waiting(`Comparing version ${from} with version ${to}`));
  openDialog(`Versions ${count(Math.min(from, to))} and ${count(Math.max(from, to))}`, body);
  try {
    const found = await ask("compare", { from, to });
    const [before, after] = found.sides;
    const row = (name, show, value) => [name, show(value(before)), show(value(after)), value(before) === null || value(after) === null ? "unknown" : signed(value(after) - value(before), show)];
    const f = found.files;
    body.replaceChildren(
      h("p", { class: "lead" }, found.sentence),
      table([{ name: "" }, { name: `Version ${count(before.version)}`, right: true }, { name: `Version ${count(after.version)}`, right: true }, { name: "Difference", right: true }], [
        ["Committed (UTC)", h("span", { class: "wraps" }, time(before.time)), h("span", { class: "wraps" }, time(after.time)), ""],
        row("Files", count, (side) => side.files), row("Size", bytes, (side) => side.bytes), row("Rows", count, (side) => side.rows),
      ], "Both versions"),
      h("h3", null, "Files"),
      table([{ name: "What" }, { name: "Files", right: true }, { name: "Size", right: true }], [
        [h("span", { class: "plus" }, `only in version ${count(after.version)}`), count(f.added), bytes(f.addedBytes)],
        [h("span", { class: "minus" }, `only in version ${count(before.version)}`), count(f.removed), bytes(f.removedBytes)],
        [h("span", { class: "wraps" }, "in both, with other deleted rows"), count(f.withOtherDeletedRows), ""],
      ], "Files"),
      changesOf({ version: null, changes: found.changes }) || h("p", { class: "muted", at: { marginTop: "12px" } }, "Schema, properties and protocol are the same."));
  } catch (error) {
    body.replaceChildren(problem(error));
  }
}

async function openVersion(version) {
  goAddress({ commit: version, from: null, to: null });
  const body = h("div", null, waiting(`Reading version ${version}`));
  const entry = state.history.find((e) => e.version === version);
  const go = (to) => state.history.some((e) => e.version === to);
  const step = (to, text) => (go(to) ? h("button", { type: "button", class: "quiet", on: { click: () => openVersion(to) } }, text) : null);
  openDialog(`Version ${version}`, body, step(version - 1, "‹ Before"), step(version + 1, "After ›"),
    version > 0 ? h("button", { type: "button", class: "quiet", on: { click: () => openComparison(version - 1, version) } }, "Compare with the one before") : null,
    version !== state.version || state.failed ? h("button", { type: "button", class: "quiet", on: { click: () => goTo(version) } }, "View the table at this version") : null);
  try {
    const found = await ask("version", { number: version });
    const info = found.commitInfo ?? {};
    const { operationMetrics: metrics, operationParameters: parameters, ...others } = info;
    const text = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
    const all = (object) => pairs(Object.entries(object ?? {}).map(([name, value]) => [name, text(value)]));
    const list = h("div");
    const actions = async (offset) => {
      const page = offset === 0 ? found : await ask("version", { number: version, offset });
      list.replaceChildren(...(page.actions.length ? [
        table([{ name: "Line", right: true }, { name: "Action" }, { name: "What", code: true }, { name: "Size", right: true }, { name: "Rows", right: true }, { name: "Content" }],
          page.actions.map((a) => [a.line, h("span", { class: a.problem ? "chip bad" : "chip" }, a.kind),
            h("span", null, a.problem ?? a.path ?? summary(a), a.partition && Object.keys(a.partition).length ? h("div", { class: "muted" }, Object.entries(a.partition).map(([k, v]) => `${k}=${v ?? "null"}`).join(" ")) : null),
            a.size === undefined || a.size === null ? "" : bytes(a.size), a.rows === undefined || a.rows === null ? "" : `${compact(a.rows)}${a.deletedRows ? ` (${compact(a.deletedRows)} deleted)` : ""}`,
            folded("JSON", h("pre", null, a.text ?? JSON.stringify(a.content, null, 2)))]), `Actions of version ${version}`),
        page.total > page.actions.length ? h("div", { class: "controls", at: { marginTop: "8px" } }, h("span", { class: "muted" }, `${count(page.offset + 1)} to ${count(page.offset + page.actions.length)} of ${few(page.total, "action")}${page.cutOff ? " in the part that is shown" : ""}`),
          page.offset > 0 ? h("button", { type: "button", on: { click: () => actions(Math.max(0, page.offset - 200)) } }, "Earlier") : null,
          page.offset + page.actions.length < page.total ? h("button", { type: "button", on: { click: () => actions(page.offset + page.actions.length) } }, "Later") : null) : null,
      ].filter(Boolean) : [h("p", { class: "muted" }, "The commit has no actions.")]));
    };
    body.replaceChildren(
      found.cutOff ? h("p", { class: "problem" }, `The commit has ${bytes(found.bytes)}; its beginning is shown.`) : "",
      entry?.error ? h("p", { class: "problem" }, entry.error) : "",
      found.sentence ? h("p", { class: "lead" }, found.sentence) : "",
      changesOf(found),
      h("div", { class: "two" },
        h("div", null, h("h3", null, "Commit"), pairs([["time (UTC)", time(entry?.time)], ["bytes", bytes(found.bytes)], ["actions", Object.entries(found.counts).map(([kind, n]) => `${count(n)} ${kind}`).join(", ")], ...Object.entries(others).filter(([name]) => name !== "timestamp").map(([name, value]) => [name, text(value)])])),
        h("div", null, parameters && Object.keys(parameters).length ? [h("h3", null, "Parameters"), all(parameters)] : null, metrics && Object.keys(metrics).length ? [h("h3", null, "Metrics"), pairs(Object.entries(metrics).map(([name, value]) => [name, metric(name, value)]))] : null)),
      h("h3", null, "Actions"), list);
    await actions(0);
  } catch (error) {
    body.replaceChildren(problem(error));
  }
}

// A metric with the unit that its name says: sizes as everywhere, times in milliseconds, and numbers of things.
function metric(name, value) {
  const isNumber = /^-?\d{1,15}$/.test(String(value));
  if (!isNumber) return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
  if (/bytes|size/i.test(name)) return bytes(Number(value));
  return /ms$/i.test(name) ? `${count(Number(value))} ms` : count(Number(value));
}

const summary = (action) => {
  const c = action.content;
  if (!c || typeof c !== "object") return action.text ?? "";
  if (action.kind === "commitInfo") return c.operation ?? "";
  if (action.kind === "txn") return `${c.appId} at ${c.version}`;
  if (action.kind === "domainMetadata") return `${c.domain}${c.removed ? ", removed" : ""}`;
  if (action.kind === "protocol") return `reader ${c.minReaderVersion}, writer ${c.minWriterVersion}`;
  return c.name ?? c.id ?? "";
};

function changesOf(found) {
  const c = found.changes;
  if (!c) return "";
  const lists = [["Schema", c.schema], ["Properties", c.properties], ["Protocol", c.protocol]].filter(([, list]) => list.length);
  if (!lists.length && !c.error && !c.unknown.length) return "";
  const mark = { added: "plus", set: "plus", dropped: "minus", unset: "minus" };
  return h("div", null,
    h("h3", null, found.version === null ? "Definition" : found.version === 0 ? "What it defines" : "What it changed of the definition"),
    c.error ? h("p", { class: "problem" }, c.error) : null,
    c.unknown.length ? h("p", { class: "muted" }, "The log no longer says what was before it, so everything is listed.") : null,
    lists.map(([name, list]) => folded2(`${name}: ${few(list.length, "difference")}`, found.version > 0 || name !== "Protocol",
      table([{ name: "Change" }, { name: "What", code: true }, { name: "Before", code: true }, { name: "After", code: true }], list.map((each) => [h("span", { class: mark[each.kind] }, each.kind), each.name, each.before ?? "", each.after ?? ""]), `${name}, differences`))));
}
const folded2 = (title, open, ...children) => h("details", { open }, h("summary", null, title), children);

async function showFiles(body) {
  needsTable();
  const sizes = await askHere("sizes");
  if (!state.overview.files) {
    body.replaceChildren(h("p", { class: "muted" }, "The table has no files."));
    return;
  }
  const chart = h("div");
  const words = h("div");
  let plan = null;
  let byBytes = false;
  const name = (i) => (i === 0 ? `< ${bytes(sizes.edges[0])}` : i === sizes.edges.length ? `≥ ${bytes(sizes.edges[i - 1])}` : `${bytes(sizes.edges[i - 1])} to ${bytes(sizes.edges[i])}`);
  const draw = () => {
    const place = byBytes ? 1 : 0;
    const format = byBytes ? bytes : (n) => few(n, "file");
    const filled = sizes.bars.map((bar, i) => bar[0] || (plan && plan.after[i][0]) ? i : -1).filter((i) => i >= 0);
    const first = Math.max(0, Math.min(...filled) - 1);
    const last = Math.min(sizes.bars.length - 1, Math.max(...filled) + 1);
    const list = [];
    for (let i = first; i <= last; i += 1) {
      const gone = plan ? plan.rewritten[i][place] : 0;
      list.push({
        label: i === 0 ? "0" : bytes(sizes.edges[i - 1]).replace(".00", "").replace(".0", ""),
        parts: [{ value: gone, class: "gone" }, { value: sizes.bars[i][place] - gone, class: "kept" }],
        ghost: plan && plan.filesRemoved ? plan.after[i][place] : 0,
        tip: `${name(i)}\n${format(sizes.bars[i][place])} now${plan ? `\n${format(gone)} would be rewritten\n${format(plan.after[i][place])} after OPTIMIZE` : ""}`,
      });
    }
    chart.replaceChildren(
      bars(list, `Files by size: ${list.filter((bar) => bar.parts[0].value + bar.parts[1].value).map((bar) => bar.tip.split("\n").slice(0, 2).join(" ")).join("; ")}`, { format: byBytes ? bytes : compact, across: "size of a file, from", up: byBytes ? "bytes" : "files" }),
      h("div", { class: "legend" }, h("span", { class: "of-kept" }, "unchanged"), plan && plan.filesRemoved ? [h("span", { class: "of-gone" }, "rewritten by OPTIMIZE"), h("span", { class: "of-ghost" }, "after OPTIMIZE")] : null),
      folded("As a table", table([{ name: "Size" }, { name: "Files", right: true }, { name: "Bytes", right: true }, ...(plan ? [{ name: "Files rewritten", right: true }, { name: "Files after OPTIMIZE", right: true }] : [])],
        sizes.bars.map((bar, i) => [name(i), count(bar[0]), bytes(bar[1]), ...(plan ? [count(plan.rewritten[i][0]), count(plan.after[i][0])] : [])]).slice(first, last + 1), "Files by size")));
  };
  body.replaceChildren(h("div", { class: "controls" }, choice("Measure", [[false, "Files"], [true, "Bytes"]], byBytes, (value) => { byBytes = value; draw(); }),
    h("span", { class: "muted" }, `smallest ${bytes(sizes.smallest)} · median ${bytes(sizes.median)} · largest ${bytes(sizes.largest)}`)), chart, words);
  draw();
  words.replaceChildren(waiting("Asking what OPTIMIZE would do"));
  try {
    plan = await askHere("optimize");
    const verb = { compact: "compaction", cluster: "clustering" }[plan.layout] ?? plan.layout;
    words.replaceChildren(h("h3", null, `OPTIMIZE (${verb})`), plan.filesRemoved
      ? pairs([["would remove", `${few(plan.filesRemoved, "file")}, ${bytes(plan.bytesRead)}`], ["would add", `${few(plan.filesAdded, "file")}, about ${bytes(plan.bytesWritten)}`], ["why", Object.entries(plan.reasons).map(([why, n]) => `${count(n)}: ${why}`).join(" · ")], ["small files", `${count(sizes.smallFiles)} under ${bytes(sizes.smallerThan)}`]])
      : h("p", { class: "muted" }, `It would leave all files unchanged: ${few(sizes.smallFiles, "file")} under ${bytes(sizes.smallerThan)}, and no two of a partition to compact.`));
    draw();
  } catch (error) {
    words.replaceChildren(problem(error));
  }
}

async function showSkipping(body) {
  const o = needsTable();
  const columns = o.columnsWithBounds;
  const names = columns.map((path) => path.map((n) => (/^[A-Za-z_]\w*$/.test(n) ? n : `\`${n.replaceAll("`", "``")}\``)).join("."));
  const picture = h("div");
  const depths = h("div");
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const input = h("input", { type: "text", id: "where", spellcheck: "false", autocomplete: "off", "aria-label": "Predicate", placeholder: names.length ? `${names[0]} = … AND …` : "column = value" });
  const select = h("select", null, names.map((name, i) => h("option", { value: i }, name)));
  let place = columns.length ? 0 : null;
  let found = null;
  let asked = 0;
  const draw = (read) => {
    if (!found) return;
    if (!found.known) {
      picture.replaceChildren(h("p", { class: "muted" }, "No file has a minimum and maximum of this column."));
      return;
    }
    picture.replaceChildren(
      ranges(found, read),
      h("div", { class: "legend" }, read ? [h("span", { class: "of-read" }, "read"), h("span", { class: "of-skipped" }, "skipped")] : h("span", { class: "of-read" }, "a file, from its minimum to its maximum"),
        h("span", { class: "of-none" }, `on average ${found.average.toFixed(1)} of ${few(found.files, "file")} may hold a value, at most ${count(found.maximum)}${found.withoutBounds ? `; ${count(found.withoutBounds)} without bounds` : ""}`)));
  };
  const pick = async () => {
    if (place === null) return;
    picture.replaceChildren(waiting("Comparing the files"));
    try {
      found = await askHere("overlap", { column: columns[place] });
      draw(null);
      if (input.value.trim()) await explain();
    } catch (error) {
      picture.replaceChildren(problem(error));
    }
  };
  const explain = async () => {
    const mine = (asked += 1);
    const text = input.value.trim();
    if (!text) {
      answer.replaceChildren();
      draw(null);
      return;
    }
    try {
      const result = await askHere("skipping", { where: text, column: place === null ? [] : columns[place] });
      if (mine !== asked) return;
      draw(result.drawn ?? null);
      answer.replaceChildren(...explained(result));
    } catch (error) {
      if (mine !== asked) return;
      if (input.getAttribute("aria-expanded") === "true") answer.replaceChildren(); // a name is still being typed
      else answer.replaceChildren(problem(error));
    }
  };
  let timer = null;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(explain, 250); });
  select.addEventListener("change", () => { place = Number(select.value); pick(); });
  const ask_ = h("form", { class: "predicate", on: { submit: (event) => { event.preventDefault(); clearTimeout(timer); explain(); } } }, input, h("button", { type: "submit", class: "main" }, "Which files?"));
  const box = completing(input, o.columns.map((c) => ({ text: c.path, type: c.type })), () => { clearTimeout(timer); explain(); });
  body.replaceChildren(
    h("h3", { at: { marginTop: 0 } }, "Type a predicate"), ask_, box, answer,
    h("h3", null, "How the files overlap"),
    names.length ? h("div", { class: "controls" }, h("label", null, "Column ", select)) : h("p", { class: "muted" }, "No column has a minimum and maximum in the log."),
    picture, depths);
  await pick();
  if (names.length) showDepths(depths).catch((error) => depths.replaceChildren(problem(error)));
}

// How many files may hold a value, column by column.
async function showDepths(box) {
  const found = await askHere("depths");
  const c = found.clustering;
  box.replaceChildren(
    h("h3", null, "Depth of each column"),
    c.columns.length ? h("p", { class: "muted", at: { marginBottom: "8px" } }, `Clustered by ${c.columns.join(", ")}: ${few(c.filesInCubes, "file")} in ${few(c.cubes, "cube")} of ${few(state.overview.files, "file")}.`) : "",
    table([{ name: "Column", code: true }, { name: "Files that may hold a value, on average", right: true }, { name: "At most", right: true }, { name: "Of all files", right: true }, { name: "Without bounds", right: true }],
      found.depths.map((d) => [h("span", null, d.column, c.columns.includes(d.column) ? [" ", h("span", { class: "chip" }, "clustering")] : null), d.average === null ? "unknown" : d.average.toFixed(1), count(d.maximum), d.average === null ? "" : share(d.average, state.overview.files), count(d.withoutBounds)]), "Depth of each column"));
}

function explained(r) {
  const list = (files, caption) => table([{ name: "File", code: true }, { name: "Size", right: true }, { name: "What the log says of it", code: true }, ...(caption === "Skipped" ? [{ name: "Cannot hold", code: true }] : [])],
    files.map((f) => [f.path, bytes(f.size), f.bounds.join("\n"), ...(caption === "Skipped" ? [f.because ?? ""] : [])]), `${caption} files`);
  return [
    r.notUnderstood.length ? h("p", { class: "note warm" }, `${r.notUnderstood.join("; ")} skips no file. Comparisons of a column with a literal do, and IN, BETWEEN, IS NULL, AND, OR and NOT.`) : null,
    h("p", { class: "big" }, `Reads ${count(r.filesRead)} of ${few(r.files, "file")}, ${bytes(r.bytesRead)} of ${bytes(r.bytes)}`),
    meter([{ value: r.filesRead, class: "read", tip: few(r.filesRead, "file") + " read" }, { value: r.filesSkipped, class: "skipped", tip: few(r.filesSkipped, "file") + " skipped" }], `${share(r.filesSkipped, r.files)} of the files are skipped`),
    table([{ name: "Part", code: true }, { name: "Decided by" }, { name: "Skips", right: true }, { name: "Only this part skips", right: true }], r.parts.map((p) => [p.text, p.by.startsWith("not understood") ? h("span", { class: "chip warm" }, p.by) : p.by, few(p.skips, "file"), count(p.alone)]), "Parts of the predicate"),
    r.read.length ? folded(`Files that are read${r.filesRead > r.read.length ? `, ${r.read.length} of ${count(r.filesRead)}` : ""}`, list(r.read, "Read")) : null,
    r.skipped.length ? folded(`Files that are skipped, and why${r.filesSkipped > r.skipped.length ? `, ${r.skipped.length} of ${count(r.filesSkipped)}` : ""}`, list(r.skipped, "Skipped")) : null,
  ].filter(Boolean);
}

// Partitions up to which their table is open.
const FEW_PARTITIONS = 12;
// Bytes of a partition below which its files stay small.
const SMALL_PARTITION = 2 ** 24;

// How many partitions there are, and whether their sizes are any trouble.
function ofPartitions(found) {
  const sizes = found.partitions.map((p) => p.bytes);
  const all = sizes.reduce((sum, each) => sum + each, found.rest.bytes);
  const told = [`${few(found.count, "partition")} by ${found.columns.join(", ")}, ${bytes(all)}.`];
  if (found.count === 1) told.push("With one partition, a filter on its columns reads everything or nothing.");
  else if (found.count > 1) {
    const times = found.bytesOfMedian ? found.bytesOfLargest / found.bytesOfMedian : 0;
    const largest = found.partitions[0].values.map((value) => value ?? "null").join(" / ");
    const known = `The largest (${largest}) has ${bytes(found.bytesOfLargest)}, ${share(found.bytesOfLargest, all)} of the table; the median has ${bytes(found.bytesOfMedian)}.`;
    told.push(times >= 4 ? `${known} The largest is ${times.toFixed(0)} times the median, so work per partition is uneven.` : known);
  }
  const mean = found.count ? all / found.count : 0;
  if (found.count > 1 && mean < SMALL_PARTITION) told.push(`On average a partition has ${bytes(mean)}, so its files stay small. Clustering has no such limit.`);
  return told.join(" ");
}

async function showPartitions(body) {
  needsTable();
  const found = await askHere("partitions");
  if (!found.columns.length) {
    body.replaceChildren(h("p", { class: "muted" }, "The table is not partitioned."));
    return;
  }
  const label = (p) => p.values.map((value, i) => `${found.columns[i]}=${value ?? "null"}`).join(" / ");
  const items = found.partitions.filter((p) => p.bytes > 0).map((p) => ({ ...p, weight: p.bytes }));
  if (found.rest.bytes > 0) items.push({ ...found.rest, weight: found.rest.bytes, isRest: true });
  items.sort((a, b) => b.weight - a.weight);
  const groups = new Map(found.partitions.map((p) => [p.values[0], 0]));
  [...groups.keys()].forEach((value, i) => groups.set(value, i));
  const hue = (p) => (found.columns.length > 1 ? 200 + ((groups.get(p.values[0]) * 47) % 150) : 200);
  const most = items[0]?.weight || 1;
  const draw = (p, area) => {
    const text = p.isRest ? `${few(p.partitions, "partition")} more` : label(p);
    const tip = `${text}\n${bytes(p.bytes)}, ${few(p.files, "file")}${p.rows === null || p.rows === undefined ? "" : `, ${compact(p.rows)} rows`}`;
    const cell = h("div", { role: "listitem", tabindex: area > 0.004 ? 0 : null, class: p.isRest ? "rest" : null, tip, "aria-label": tip.replace("\n", ": ") }, area > 0.006 ? [p.isRest ? text : p.values.map((v) => v ?? "null").join(" / "), h("small", null, `${bytes(p.bytes)} · ${few(p.files, "file")}`)] : null);
    if (!p.isRest) cell.style.backgroundColor = `hsl(${hue(p)} 55% ${40 - 14 * Math.sqrt(p.weight / most)}%)`;
    return cell;
  };
  body.replaceChildren(
    h("p", { class: "controls" }, ofPartitions(found)),
    items.length ? treemap(items, draw, `Partitions by bytes`) : "",
    folded2("As a table", found.count <= FEW_PARTITIONS, table([...found.columns.map((name) => ({ name })), { name: "Bytes", right: true }, { name: "Files", right: true }, { name: "Rows", right: true }, { name: "Small files", right: true }],
      found.partitions.map((p) => [...p.values.map((v) => v ?? h("span", { class: "none" }, "null")), bytes(p.bytes), count(p.files), count(p.rows), count(p.smallFiles)]), "Partitions")));
}

async function showVectors(body) {
  needsTable();
  const v = await askHere("vectors");
  if (!v.filesWithVectors) {
    body.replaceChildren(h("p", { class: "muted" }, "No file has a deletion vector."));
    return;
  }
  body.replaceChildren(h("div", { class: "two" },
    h("div", null,
      pairs([["files with vectors", `${count(v.filesWithVectors)} of ${count(v.files)} (${share(v.filesWithVectors, v.files)})`], ["rows marked", v.rows === null ? count(v.deletedRows) : `${count(v.deletedRows)} of ${count(v.rows)} (${share(v.deletedRows, v.rows)})`], ["stored", Object.entries(v.stored).map(([where, n]) => `${count(n)} ${where}`).join(", ")], ["bytes of vectors", bytes(v.bytes)]]),
      h("div", { at: { marginTop: "12px" } }, v.rows ? meter([{ value: v.rows - v.deletedRows, class: "read", tip: `${count(v.rows - v.deletedRows)} rows` }, { value: v.deletedRows, class: "marked", tip: `${count(v.deletedRows)} deleted rows` }], `${share(v.deletedRows, v.rows)} of the rows are deleted`) : null)),
    h("div", null, bars(v.bars.map((n, i) => ({ label: `${i * 10} %`, parts: [{ value: n, class: "marked" }], tip: `${i * 10} to ${i * 10 + 10} % of the rows deleted\n${few(n, "file")}` })), "Files with vectors by the share of rows deleted", { across: "share of a file's rows that are deleted, from", up: "files" }))),
    folded("The files with most deleted rows", table([{ name: "File", code: true }, { name: "Size", right: true }, { name: "Rows", right: true }, { name: "Deleted", right: true }, { name: "Share", right: true }], v.worst.map((f) => [f.path, bytes(f.size), count(f.rows), count(f.deleted), f.rows ? share(f.deleted, f.rows) : "unknown"]), "Files with most deleted rows")));
}

async function showLog(body) {
  const log = await askHere("log").catch((error) => { if (state.failed) return ask("log"); throw error; });
  const f = log.figures;
  const vacuum = h("div");
  body.replaceChildren(
    h("div", { class: "two" },
      h("div", null, pairs([
        ["versions", `${log.earliest ?? "?"} to ${log.latest ?? "?"}`],
        ["commits", `${count(log.commits.files)}, ${bytes(log.commits.bytes)}`],
        f ? ["last checkpoint", f.lastCheckpoint === null ? null : `version ${count(f.lastCheckpoint)}, ${few(f.commitsSinceLastCheckpoint, "commit")} ago`] : null,
        f ? ["checkpoint interval", few(f.checkpointInterval, "commit")] : null,
        ["checkpoints", `${count(log.checkpointCount)}, ${bytes(log.checkpointBytes)}${log.sidecars.files ? `; ${few(log.sidecars.files, "sidecar")}, ${bytes(log.sidecars.bytes)}` : ""}`],
        ["checksum files", count(log.checksums)],
        ["compacted commits", log.compactions.files ? `${count(log.compactions.files)}, ${bytes(log.compactions.bytes)}` : "0"],
        f ? ["tombstones", count(f.tombstones)] : null,
        ["_last_checkpoint", log.lastCheckpointFile ? "present" : "missing"],
      ])), vacuum),
    log.incomplete.length ? h("div", { class: "problem", at: { marginTop: "12px" } }, log.incomplete.map((each) => h("p", null, `The checkpoint of version ${each.version} lacks ${each.missing}.`))) : "",
    log.checkpoints.length ? [h("h3", null, "Checkpoints"), table([{ name: "Version" }, { name: "Time (UTC)" }, { name: "Kind" }, { name: "Files", right: true }, { name: "Bytes", right: true }], log.checkpoints.map((c) => [count(c.version), time(c.time), c.format, count(c.files), bytes(c.bytes)]), "Checkpoints, the newest first")].reduce((all, each) => (all.append(each), all), document.createDocumentFragment()) : "");
  if (!f) return;
  vacuum.replaceChildren(waiting("Asking what VACUUM would delete"));
  try {
    const v = await askHere("vacuum");
    vacuum.replaceChildren(pairs([["VACUUM would delete", `${few(v.filesDeleted, "file")}, ${bytes(v.bytesDeleted)}`], ["kept for older versions", `${few(v.filesRetained, "file")}, ${bytes(v.bytesRetained)}`], ["retention", `${v.retentionHours.toFixed(0)} hours`], ["cleaned up to version", v.cleanedUpToVersion]]),
      h("p", { class: "muted", at: { marginTop: "8px" } }, "As far as the log says: files that no commit names are not looked for."));
  } catch (error) {
    vacuum.replaceChildren(problem(error));
  }
}

async function showWriters(body) {
  const by = (name) => {
    const groups = new Map();
    for (const e of state.history) {
      const key = e[name] ?? "unknown";
      const g = groups.get(key) ?? { n: 0, last: null };
      g.n += 1;
      g.last = Math.max(g.last ?? 0, e.time ?? 0);
      groups.set(key, g);
    }
    return [...groups].sort((a, b) => b[1].n - a[1].n).map(([key, g]) => [key, count(g.n), time(g.last)]);
  };
  const columns = (name) => [{ name }, { name: "Commits", right: true }, { name: "Last (UTC)" }];
  const found = state.failed ? null : await askHere("writers");
  const queries = new Map();
  for (const e of state.history) {
    const id = e.parameters?.queryId ?? null;
    for (const app of [...e.applications, ...(id && !e.applications.includes(id) ? [id] : [])]) {
      const q = queries.get(app) ?? { n: 0, operations: new Set() };
      q.n += 1;
      q.operations.add(e.operation ?? "unknown");
      queries.set(app, q);
    }
  }
  const kind = (id) => {
    const q = queries.get(id);
    if (!q) return "";
    return [...q.operations].join(", ");
  };
  body.replaceChildren(
    h("div", { class: "two" },
      h("div", null, h("h3", { at: { marginTop: 0 } }, "Engines"), table(columns("Engine"), by("engine"), "Engines")),
      h("div", null, h("h3", { at: { marginTop: 0 } }, "Operations"), table(columns("Operation"), by("operation"), "Operations"))),
    h("h3", null, "Streams, and writes that happen once"),
    found === null ? problem(state.failed) : found.applications.length
      ? table([{ name: "Application", code: true }, { name: "Version", right: true }, { name: "Last (UTC)" }, { name: "Commits above", right: true }, { name: "Operations" }], found.applications.map((a) => [a.id, count(a.version), time(a.time), queries.has(a.id) ? count(queries.get(a.id).n) : "", kind(a.id)]), "Applications that number their commits")
      : h("p", { class: "muted" }, "No application numbers its commits in this table."));
}

function showSchema(body) {
  const o = needsTable();
  const p = o.protocol;
  body.replaceChildren(
    table([{ name: "Column", code: true }, { name: "Type", code: true }, { name: "Notes" }, { name: "Comment" }],
      o.columns.map((c) => [h("span", { at: { paddingLeft: `${c.depth * 18}px` } }, c.name), c.type, h("span", null, c.nullable ? null : [h("span", { class: "chip warm" }, "NOT NULL"), " "], c.notes.map((note) => [h("span", { class: "chip" }, note), " "]), c.physical ? h("span", { class: "muted" }, `in files: ${c.physical}`) : null), c.comment ?? ""]), "Columns"),
    h("div", { class: "two" },
      h("div", null, h("h3", null, "Properties"), Object.keys(o.properties).length ? pairs(Object.entries(o.properties)) : h("p", { class: "muted" }, "None is set.")),
      h("div", null, h("h3", null, "Protocol and table"), pairs([
        ["reader version", p.reader], ["writer version", p.writer],
        ["features", p.features.length ? h("span", null, p.features.map((f) => [h("span", { class: "chip", tip: f.readers ? "Readers and writers need it" : "Writers need it" }, f.name), " "])) : null],
        ["column mapping", o.columnMapping], ["partitioned by", o.partitionColumns.join(", ") || null], ["clustered by", o.clusteringColumns?.join(", ") || null],
        ["description", o.description], ["created (UTC)", o.created === null ? null : time(o.created)], ["id", o.id],
        ...o.domains.map((d) => [d.name, d.configuration])]))));
}

async function showRows(body) {
  needsTable();
  const out = h("div");
  const read = async (start) => {
    out.replaceChildren(waiting("Reading rows"));
    try {
      const r = await askHere("sample", { start });
      out.replaceChildren(
        ...r.problems.map((text) => h("p", { class: "problem" }, text)),
        r.rows.length ? table(r.columns.map((c) => ({ name: h("span", { tip: c.type }, c.name) })), r.rows.map((row) => row.map((cell) => cell ?? h("span", { class: "none" }, "null"))), "Rows") : h("p", { class: "muted" }, "No rows."),
        h("div", { class: "controls", at: { marginTop: "8px" } }, h("span", { class: "muted" }, `${few(r.rows.length, "row")} of ${few(r.files.length, "file")}${r.columnsLeftOut ? `, without ${few(r.columnsLeftOut, "more column")}` : ""}`),
          r.more ? h("button", { type: "button", on: { click: () => read(r.next) } }, "From the next files") : null));
    } catch (error) {
      out.replaceChildren(problem(error));
    }
  };
  body.replaceChildren(h("div", { class: "controls" }, h("button", { type: "button", class: "main", id: "read-rows", on: { click: () => read(0) } }, "Read rows")), out);
}

async function goTo(version) {
  goAddress({ at: version, commit: null, from: null, to: null });
  $("dialog").close();
  await showAt(version);
}

async function showAt(version) {
  state.version = version;
  state.at = version;
  $("live").replaceChildren();
  scrollTo({ top: 0 });
  await show();
}

// What the address says is open in the dialog.
async function openWhatIsNamed() {
  const { commit, from, to } = address();
  if (from !== null && to !== null) await openComparison(from, to);
  else if (commit !== null) await openVersion(commit);
  else if ($("dialog").open) $("dialog").close();
}

// A table may grow while it is looked at: what is shown stays, and the page says that there is more.
async function watch() {
  if (!document.hidden) {
    try {
      const { version } = await ask("newest");
      if (state.newest !== null && version > state.newest) {
        const from = state.newest;
        say(h("span", null, version === from + 1 ? `Version ${count(version)} was committed.` : `Versions ${count(from + 1)} to ${count(version)} were committed.`), () => { state.newest = version; goTo(null); }, "Show it");
      } else if (state.failed && state.at === null) {
        state.newest = version;
        await showAt(null);
      }
    } catch (error) {
      if (!state.failed) say(h("span", null, error.message), null, null, true);
    }
  }
  setTimeout(watch, POLL);
}

function say(words, action, text, bad) {
  const live = $("live");
  if (live.textContent === words.textContent + (text ?? "")) return;
  live.replaceChildren(h("div", { class: bad ? "note bad" : "note" }, words, action ? h("button", { type: "button", on: { click: action } }, text) : null));
}

// Draw the timeline in other colours; the page of a folder has none.
function drawTimeline() {
  const section = $("timeline");
  if (section) showTimeline(section.querySelector(".body"));
}

$("newest").addEventListener("click", () => goTo(null));
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  drawTimeline();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTimeline);
$("dialog").addEventListener("click", (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); });

$("dialog").addEventListener("close", () => goAddress({ commit: null, from: null, to: null }));
addEventListener("popstate", async () => {
  const named = address();
  if (named.table !== state.table) location.reload();
  else {
    if (named.at !== state.at) await showAt(named.at);
    await openWhatIsNamed();
  }
});

async function start() {
  state.place = await ask("place");
  const named = address();
  [state.table, state.at, state.version] = [named.table, named.at, named.at];
  if (state.place.kind === "folder" && state.table === null) {
    await showFolder(state.place);
    return;
  }
  if (state.place.kind === "folder") {
    $("folder").hidden = false;
    $("folder").href = addressWith({ table: null, at: null, commit: null, from: null, to: null });
  }
  build();
  await show();
  await openWhatIsNamed();
  setTimeout(watch, POLL);
}

await start().catch((error) => $("main").replaceChildren(problem(error)));
document.documentElement.dataset.ready = "true";
