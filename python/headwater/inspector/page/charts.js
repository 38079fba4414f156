// Charts. Lines over versions are uPlot's; the others are plain elements, sized in shares of their box.
// Each has a name for screen readers, and a table of the same figures beside it.
import "./language.js";
import uPlot from "./uPlot.js";
import { bytes, compact, count, h, s, share, time } from "./dom.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Steps of an axis of bytes, so that its labels are round.
const POWERS = Array.from({ length: 60 }, (_, i) => 2 ** i);

// What the timeline marks of a commit: a letter, and what it stands for.
export const MARKS = [["O", "OPTIMIZE"], ["R", "RESTORE"], ["S", "schema change"]];
export function marksOf(entry) {
  const operation = (entry.operation ?? "").toUpperCase();
  const marked = [operation.startsWith("OPTIMIZE"), operation.startsWith("RESTORE"), entry.schemaChanged === true];
  return MARKS.filter((_, i) => marked[i]);
}

// Dashed lines with letters for the marked versions; letters that would cover each other are left out.
function drawMarks(plot, xs, marks) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.strokeStyle = ctx.fillStyle = color("--muted");
  ctx.setLineDash([3 * ratio, 4 * ratio]);
  let free = -Infinity;
  for (const [i, letters] of marks) {
    const x = Math.round(plot.valToPos(xs[i], "x", true));
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const half = 5 * ratio * letters.length;
    if (x - half < free) continue;
    ctx.fillText(letters, x, bbox.top - 4 * ratio);
    free = x + half;
  }
  ctx.restore();
}

// How a measure of the table grew, and what each version added and removed.
export function growth(box, entries, { measure, byTime, pick }) {
  const place = { files: 0, bytes: 1, rows: 2 }[measure];
  const format = measure === "bytes" ? bytes : compact;
  const xs = entries.map((e) => (byTime ? (e.time ?? 0) / 1000 : e.version));
  const total = entries.map((e) => e.total?.[place] ?? null);
  const added = entries.map((e) => e.added[place] ?? null);
  const removed = entries.map((e) => (e.removed[place] ? -e.removed[place] : null));
  const axis = (size) => ({ stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", size });
  const readout = h("p", { class: "readout" });
  const show = (index) => {
    const e = entries[index ?? entries.length - 1];
    readout.textContent = e
      ? `Version ${e.version} · ${time(e.time)} · ${e.operation ?? "unknown operation"} · table ${format(e.total?.[place])} · added ${format(e.added[place])}, removed ${format(e.removed[place])}`
      : "";
  };
  const marks = entries.map((e, i) => [i, marksOf(e).map(([letter]) => letter).join("")]).filter(([, letters]) => letters);
  const plots = [];
  const base = (height, series, x) => ({
    width: Math.max(box.clientWidth, 240),
    height,
    padding: [x ? 10 : 18, 18, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "growth" }, y: false, points: { size: 7 }, drag: { x: true, y: false } },
    scales: { x: { time: byTime }, y: x ? {} : { range: (_, low, high) => [0, Math.max(high, 1) * 1.06] } },
    axes: [
      { ...axis(x ? 34 : 10), values: x ? (byTime ? undefined : (_, ticks) => ticks.map((t) => (Number.isInteger(t) ? t : ""))) : () => [] },
      { ...axis(72), values: (_, ticks) => ticks.map((t) => format(t)), space: x ? 15 : 34, incrs: measure === "bytes" ? POWERS : undefined },
    ],
    series: [{}, ...series],
    hooks: { setCursor: [(plot) => show(plot.cursor.idx)], draw: x ? [] : [(plot) => drawMarks(plot, xs, marks)] },
  });
  const steps = entries.length > 300 ? undefined : uPlot.paths.stepped({ align: 1 });
  const bars = uPlot.paths.bars({ size: [0.7, 26, 1] });
  const upper = h("div");
  const lower = h("div");
  box.replaceChildren(readout, upper, lower);
  plots.push(new uPlot(base(190, [{ stroke: color("--accent"), fill: color("--accent-soft"), width: 2, paths: steps, points: { show: entries.length < 60, size: 5, fill: color("--accent") } }], false), [xs, total], upper));
  plots.push(new uPlot(base(120, [
    { stroke: color("--good"), fill: color("--good"), width: 0, paths: bars, points: { show: false } },
    { stroke: color("--warm"), fill: color("--warm"), width: 0, paths: bars, points: { show: false } },
  ], true), [xs, added, removed], lower));
  for (const plot of plots) {
    plot.over.addEventListener("click", () => {
      const index = plot.cursor.idx;
      if (index !== null && index !== undefined && plot.select.width < 2) pick(entries[index].version);
    });
  }
  show(null);
  const observer = new ResizeObserver(() => {
    const width = box.clientWidth;
    if (width > 0) for (const plot of plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
  });
  observer.observe(box);
  return () => {
    observer.disconnect();
    for (const plot of plots) plot.destroy();
  };
}

// Bars side by side, each under its amount; each {label, parts: [{value, class}], tip, ghost}. `ghost` is drawn as an
// outline. `format` is of the amounts, `across` and `up` say what the axes are.
export function bars(list, label, { format = compact, across, up }) {
  const total = (bar) => bar.parts.reduce((sum, part) => sum + part.value, 0);
  const top = Math.max(1, ...list.map((bar) => Math.max(total(bar), bar.ghost ?? 0)));
  const height = (value) => `${(100 * value) / top}%`;
  const steps = top >= 2 ? [top, Math.round(top / 2), 0] : [top, 0];
  return h("div", { class: "histogram", role: "img", "aria-label": label },
    h("div", { class: "up" }, up),
    h("div", { class: "steps" }, steps.map((step) => h("span", { at: { bottom: height(step) } }, format(step)))),
    h("div", { class: list.length > 10 ? "bars dense" : "bars" },
      list.map((bar) => h("div", { class: "bar", tip: bar.tip },
        h("div", { class: "column" },
          bar.ghost ? h("div", { class: "ghost", at: { height: height(bar.ghost) } }) : null,
          h("div", { class: "stack" }, bar.parts.filter((part) => part.value > 0).map((part) => h("div", { class: part.class, at: { height: height(part.value), minHeight: "2px" } }))),
          total(bar) > 0 ? h("div", { class: "amount", at: { bottom: height(total(bar)) } }, format(total(bar))) : null,
        ),
        h("div", { class: "tick" }, bar.label)))),
    h("div", { class: "across" }, across));
}

// A share of a whole as one line.
export const meter = (parts, label) => {
  const whole = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  return h("div", { class: "meter", role: "img", "aria-label": label },
    parts.filter((part) => part.value > 0).map((part) => h("div", { class: part.class, tip: part.tip, at: { width: `${(100 * part.value) / whole}%` } })));
};

// The ranges of files, one line each from minimum to maximum, under the number of files open at each value.
export function ranges(found, read) {
  const rows = found.ranges.length;
  const width = 1000;
  const top = Math.max(1, ...found.curve);
  const points = found.curve.map((n, i) => [(width * (i + 0.5)) / found.curve.length, 60 - (56 * n) / top]);
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const curve = s("svg", { viewBox: `0 0 ${width} 60`, preserveAspectRatio: "none", class: "curve", role: "img", "aria-label": `Files that may hold a value, from the least value to the greatest: at most ${count(found.maximum)}, ${found.average?.toFixed(1)} on average` },
    s("polygon", { points: `0,60 ${points.length ? `0,${points[0][1].toFixed(1)} ` : ""}${line} ${points.length ? `${width},${points[points.length - 1][1].toFixed(1)} ` : ""}${width},60`, class: "area" }));
  const step = Math.min(14, Math.max(2, 240 / Math.max(rows, 1)));
  const lines = s("svg", { viewBox: `0 0 ${width} ${Math.max(rows * step, step)}`, preserveAspectRatio: "none", class: "ranges", at: { height: `${Math.max(rows * step, 14)}px` }, role: "img", "aria-label": `${count(rows)} of ${count(found.known)} files, each a line from its minimum to its maximum` },
    found.ranges.map((range, i) => {
      const from = Math.max(0, range.from * width - 1);
      return s("rect", {
        x: from.toFixed(1), y: (i * step + step * 0.15).toFixed(2), height: (step * 0.7).toFixed(2),
        width: Math.max(3, range.to * width - from + 1).toFixed(1), rx: 1,
        class: read ? (read[i] ? "read" : "skipped") : "plain",
        tip: `${range.low ?? "?"} to ${range.high ?? "?"}${read ? (read[i] ? " · read" : " · skipped") : ""}`,
      });
    }));
  return h("div", { class: "overlap" }, curve, lines, h("div", { class: "ends" }, h("span", null, found.low ?? ""), h("span", null, found.high ?? "")));
}

// Squarified treemap: boxes in shares of a box that is twice as wide as high. Items: {weight, ...}, the heaviest first.
export function treemap(items, draw, label) {
  const total = items.reduce((sum, item) => sum + item.weight, 0) || 1;
  const box = h("div", { class: "treemap", role: "list", "aria-label": label });
  let [x, y, width, height] = [0, 0, 2, 1];
  let rest = items.map((item) => ({ item, area: (2 * item.weight) / total }));
  const worst = (row, side) => {
    const sum = row.reduce((all, each) => all + each.area, 0);
    return Math.max(...row.map((each) => Math.max((side * side * each.area) / (sum * sum), (sum * sum) / (side * side * each.area))));
  };
  while (rest.length) {
    const side = Math.min(width, height);
    let row = [rest[0]];
    while (row.length < rest.length && worst([...row, rest[row.length]], side) <= worst(row, side)) row = rest.slice(0, row.length + 1);
    const sum = row.reduce((all, each) => all + each.area, 0);
    const deep = side > 0 ? sum / side : 0;
    let along = 0;
    for (const each of row) {
      const length = deep > 0 ? each.area / deep : 0;
      const [left, top, w, t] = width >= height ? [x, y + along, deep, length] : [x + along, y, length, deep];
      const cell = draw(each.item, w * t);
      Object.assign(cell.style, { left: `${50 * left}%`, top: `${100 * top}%`, width: `${50 * w}%`, height: `${100 * t}%` });
      box.append(cell);
      along += length;
    }
    if (width >= height) [x, width] = [x + deep, width - deep];
    else [y, height] = [y + deep, height - deep];
    rest = rest.slice(row.length);
  }
  return box;
}

export { share };
