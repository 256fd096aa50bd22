// What the charts over time share: the window being looked at, axes, colours, zooming, the tip.

const view = { t0: 0, t1: horizon, chosen: 0, compare: raw.compare };
const left = 58;   // Room for labels on the left of every chart over time,
const right = 10;  // and for the last time on the right.

const unit = raw.unit, units = raw.unit + "s";
const $ = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt(0) + ";");

const palette = ["#4c78d8", "#e8853a", "#2fa58b", "#c9577f", "#8a6bd1", "#b9a13a", "#4fb0d8",
  "#d8604c", "#6fa84c", "#9b7d63", "#d184c8", "#5d6f91"];
// The same job or model has the same colour everywhere. Past the palette, hues a golden angle
// apart: neighbours differ.
function colourOf(i) {
  if (i < palette.length) return palette[i];
  return `hsl(${(i * 137.508) % 360} ${42 + (i % 3) * 6}% ${50 + (i % 4) * 4}%)`;
}
const rgbCache = new Map();
function rgbOf(colour) {
  if (!rgbCache.has(colour)) {
    const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    c.fillStyle = colour;
    c.fillRect(0, 0, 1, 1);
    rgbCache.set(colour, c.getImageData(0, 0, 1, 1).data);
  }
  return rgbCache.get(colour);
}

// A canvas made ready to be drawn in CSS pixels; `height` as given or as the element says.
function prepare(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  height = height || Number(canvas.dataset.height || canvas.getAttribute("height"));
  canvas.dataset.height = height;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = height + "px";
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  c.textBaseline = "middle";
  return { c, width, height };
}

function duration(s) {
  if (s === null) return "-";  // Not known, as of no jobs at all.
  if (!isFinite(s)) return "never";
  const sign = s < 0 ? "-" : "";
  s = Math.abs(s);
  if (s < 0.005) return "0 s";
  if (s < 10) return sign + s.toFixed(s < 1 ? 2 : 1) + " s";
  if (s < 120 || (horizon < 7200 && s < 7200)) return sign + s.toFixed(0) + " s";
  const m = Math.round(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (m < 60) return `${sign}${m} min`;
  if (d < 2) return `${sign}${h} h ${String(m % 60).padStart(2, "0")}`;
  return `${sign}${d} d ${h % 24} h`;
}
function count(x) {
  if (x === null || !isFinite(x)) return "-";
  if (Math.abs(x) >= 1e6) return (x / 1e6).toFixed(2) + " M";
  if (Math.abs(x) >= 1e4) return Math.round(x).toLocaleString("en");
  return Number.isInteger(x) ? String(x) : x.toFixed(Math.abs(x) < 10 ? 2 : 1);
}
const percent = (x) => (100 * x).toFixed(1) + " %";

const timeSteps = horizon < 7200 ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
  : [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 5184000, 15552000, 31104000];
function timeLabel(t, step) {
  if (horizon < 7200) return t + " s";
  const d = Math.floor(t / 86400), h = Math.floor(t / 3600) % 24, m = Math.floor(t / 60) % 60;
  if (step >= 86400 || (t % 86400 === 0 && horizon > 86400)) return "day " + d;
  if (step < 60) return `${h}:${String(m).padStart(2, "0")}:${String(t % 60).padStart(2, "0")}`;
  return `${h}:${String(m).padStart(2, "0")}`;
}

// Ticks at round values from 0 to at least `max`, about `want` of them.
function roundTicks(max, want) {
  const rough = Math.max(1e-9, max) / want, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * unit).find((s) => s >= rough);
  const ticks = [];
  for (let y = 0; y <= max + 1e-9 * step; y += step) ticks.push(y);
  return ticks;
}

// Draws the vertical grid and, if `labels`, the times below the plot.
function drawTimeGrid(c, width, bottom, labels) {
  const plot = width - left - right, span = view.t1 - view.t0;
  const step = timeSteps.find((s) => (s / span) * plot >= 88) || span;
  c.textAlign = "center";
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
    const x = Math.round(xOf(t, width)) + 0.5;
    c.fillStyle = css("--grid");
    c.fillRect(x - 0.5, 0, 1, bottom);
    c.fillStyle = css("--muted");
    if (labels) c.fillText(timeLabel(t, step), Math.min(x, width - 20), bottom + 11);
  }
}
const plotWidth = (width) => Math.max(1, Math.floor(width - left - right));  // In pixels.
const xOf = (t, width) => left + ((t - view.t0) / (view.t1 - view.t0)) * (width - left - right);
const timeAt = (x, width) =>
  view.t0 + ((x - left) / (width - left - right)) * (view.t1 - view.t0);

function drawLevels(c, width, bottom, top, max, ticks) {
  c.textAlign = "right";
  for (const y of ticks) {
    const at = Math.round(bottom - ((bottom - top) * y) / max) + 0.5;
    c.fillStyle = css("--grid");
    c.fillRect(left, at - 0.5, width - left - right, 1);
    c.fillStyle = css("--muted");
    c.fillText(count(y), left - 8, at);
  }
}

function setWindow(t0, t1) {
  const least = Math.min(horizon, 1);
  const span = Math.min(horizon, Math.max(least, t1 - t0));
  view.t0 = Math.min(Math.max(0, t0), horizon - span);
  view.t1 = view.t0 + span;
  redraw();
}
function zoom(factor, around) {
  if (factor === 0) return setWindow(0, horizon);
  const at = around === undefined ? (view.t0 + view.t1) / 2 : around;
  setWindow(at - (at - view.t0) * factor, at + (view.t1 - at) * factor);
}

// Scrolling zooms around the pointer, dragging pans; `vertical(dy, event)` hears of the rest.
function makeZoomable(canvas, vertical) {
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const factor = Math.exp((e.deltaY || e.deltaX) * 0.0016);
    if (e.shiftKey && vertical) return vertical({ zoom: factor, y: e.offsetY });
    zoom(factor, timeAt(e.offsetX, canvas.clientWidth));
  }, { passive: false });
  let from = null;
  canvas.addEventListener("pointerdown", (e) => {
    from = { x: e.offsetX, y: e.offsetY, t0: view.t0, t1: view.t1 };
    canvas.setPointerCapture(e.pointerId);
    canvas.classList.add("dragging");
    hideTip();
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!from) return;
    const per = (from.t1 - from.t0) / (canvas.clientWidth - left - right);
    const by = (from.x - e.offsetX) * per;
    if (vertical) vertical({ pan: from.y - e.offsetY });
    from.y = e.offsetY;
    setWindow(from.t0 + by, from.t0 + by + (from.t1 - from.t0));
  });
  const stop = () => { from = null; canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerup", stop);
  canvas.addEventListener("pointercancel", stop);
  canvas.addEventListener("dblclick", () => zoom(0));
}

function makeHoverable(canvas, describe) {
  canvas.addEventListener("pointermove", (e) => {
    if (e.buttons) return;
    const html = describe(e.offsetX, e.offsetY);
    if (!html) return hideTip();
    const tip = $("tip");
    tip.innerHTML = html;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = Math.min(e.clientX + 16, innerWidth - width - 8) + "px";
    tip.style.top = Math.max(8, Math.min(e.clientY + 14, innerHeight - height - 8)) + "px";
  });
  canvas.addEventListener("pointerleave", hideTip);
}
function hideTip() { $("tip").hidden = true; }
const tipTable = (rows) =>
  "<table>" + rows.map(([k, v]) => `<tr><td>${k}</td><td>${v}</td></tr>`).join("") + "</table>";
const key = (colour, text, note) =>
  `<span class="key">${colour ? `<i style="background:${colour}"></i>` : ""}${escaped(text)}` +
  (note ? `<em>${escaped(note)}</em>` : "") + "</span>";
