// Every job on a row of its own, or packed into as few rows as fit. Rows tall enough are drawn as
// bars whose thickness shows the GPUs; thinner ones are summed up into an image, so 15,000 jobs
// still show where they ran, waited and came late.

const rows = { first: 0, shown: 0, packed: jobs.count > 40, layouts: new Map() };
const barRow = 3;  // Least height of a row, in pixels, that is drawn as bars.

// Gives every job that was not refused a lane of its own while it is in the system.
function packLanes(p) {
  const laneOf = new Int32Array(jobs.count).fill(-1);
  const lanes = [], busy = [], idle = [];  // busy: heap of [end, lane]; idle: heap of lanes.
  const push = (heap, item, less) => {
    heap.push(item);
    for (let i = heap.length - 1, up; i > 0 && less(heap[i], heap[(up = (i - 1) >> 1)]); i = up) {
      [heap[i], heap[up]] = [heap[up], heap[i]];
    }
  };
  const pop = (heap, less) => {
    const top = heap[0], last = heap.pop();
    if (heap.length) heap[0] = last;
    for (let i = 0; ;) {
      let least = i;
      for (const d of [2 * i + 1, 2 * i + 2]) {
        if (d < heap.length && less(heap[d], heap[least])) least = d;
      }
      if (least === i) return top;
      [heap[i], heap[least]] = [heap[least], heap[i]];
      i = least;
    }
  };
  const sooner = (a, b) => a[0] < b[0], lower = (a, b) => a < b;
  for (let i = 0; i < jobs.count; ++i) {
    if (p.fate[i] === Fate.refused) continue;
    while (busy.length && busy[0][0] <= jobs.submit[i]) push(idle, pop(busy, sooner)[1], lower);
    const lane = idle.length ? pop(idle, lower) : lanes.push([]) - 1;
    push(busy, [leaves(p, i), lane], sooner);
    laneOf[i] = lane;
    lanes[lane].push(i);
  }
  return { laneOf, lanes, count: Math.max(1, lanes.length) };
}

function layout(p) {
  const name = p.name + rows.packed;
  if (!rows.layouts.has(name)) {
    const each = { laneOf: Int32Array.from(jobs.submit.keys()), lanes: null, count: jobs.count };
    rows.layouts.set(name, rows.packed ? packLanes(p) : each);
  }
  return rows.layouts.get(name);
}

function jobColour(p, i) {
  const by = $("colour").value;
  if (by === "fate") return fateColours[p.fate[i]];
  return colourOf(by === "model" ? jobs.model[i] : i);
}
let fateColours = [];

function clampRows(total) {
  const least = Math.min(total, 4);
  rows.shown = Math.min(total, Math.max(least, rows.shown || total));
  rows.first = Math.min(Math.max(0, rows.first), total - rows.shown);
}

// Calls draw(x0, x1, gpus) for what job i held, joining pieces less than a pixel wide.
function eachBar(p, i, width, draw) {
  const { off, from, to, gpus } = p.held;
  let x0 = 0, x1 = -1, sum = 0;
  const flush = () => {
    if (x1 >= x0) draw(x0, Math.max(x1, x0 + 0.7), sum / Math.max(1e-9, x1 - x0));
  };
  for (let k = off[i]; k < off[i + 1]; ++k) {
    if (to[k] <= view.t0 || from[k] >= view.t1) continue;
    const a = Math.max(left, xOf(from[k], width)), b = Math.min(width - right, xOf(to[k], width));
    if (x1 >= x0 && b - x0 < 1) {
      sum += gpus[k] * (b - a);
      x1 = b;
      continue;
    }
    flush();
    x0 = a; x1 = b; sum = gpus[k] * (b - a);
  }
  flush();
}

function drawBars(c, p, lay, box) {
  const { width, h, bottom } = box;
  for (let i = 0; i < jobs.count; ++i) {
    const row = lay.laneOf[i] - rows.first;
    if (row < -1 || row > rows.shown || jobs.submit[i] > view.t1) continue;
    if (leaves(p, i) < view.t0) continue;
    drawJob(c, p, i, { y: row * h, h, width, bottom });
  }
}

function drawJob(c, p, i, { y, h, width }) {
  const refused = p.fate[i] === Fate.refused;
  const x0 = Math.max(left, xOf(jobs.submit[i], width));
  const x1 = Math.min(width - right, xOf(leaves(p, i), width));
  const colour = jobColour(p, i), middle = y + h / 2;
  const pad = h > 12 ? 2 : h > 5 ? 1 : 0.3;
  if (refused) {
    c.fillStyle = fateColours[Fate.refused];
    c.fillRect(x0 - 1.5, y + pad, 3, h - 2 * pad);
    const fits = x0 + 60 < width - right;  // At the right edge the word stands before the mark.
    c.textAlign = fits ? "left" : "right";
    if (h > 13) c.fillText("refused", x0 + (fits ? 7 : -7), middle);
    c.textAlign = "left";
    return;
  }
  c.fillStyle = css_wait;
  c.fillRect(x0, middle - Math.min(1, h / 6), x1 - x0, Math.min(2, h / 3));
  let most = 1;
  for (let k = p.held.off[i]; k < p.held.off[i + 1]; ++k) most = Math.max(most, p.held.gpus[k]);
  c.fillStyle = colour;
  const texts = [];
  eachBar(p, i, width, (a, b, gpus) => {
    const tall = (h - 2 * pad) * (0.35 + 0.65 * Math.min(1, gpus / most));
    c.fillRect(a, middle - tall / 2, b - a - (b - a > 4 ? 0.6 : 0), tall);
    if (tall >= 11 && b - a > 20) texts.push([count(Math.round(gpus)), (a + b) / 2, b - a]);
  });
  c.fillStyle = "#fff";
  c.textAlign = "center";
  for (const [text, x, w] of texts) {
    if (c.measureText(text).width < w - 6) c.fillText(text, x, middle);
  }
  if (h >= 8 && isFinite(jobs.deadline[i])) {
    drawDeadline(c, xOf(jobs.deadline[i], width), y, h, width);
  }
}

function drawDeadline(c, x, y, h, width) {
  if (x < left || x > width - right) return;
  c.fillStyle = css("--ink");
  c.fillRect(x - 0.5, y + 1, 1, h - 2);
  c.beginPath();
  c.moveTo(x - 3, y + 1);
  c.lineTo(x + 3, y + 1);
  c.lineTo(x, y + 5);
  c.fill();
}

// Sums up coverage per pixel: many rows may share one.
function drawImage(canvas, c, p, lay, box) {
  const { width, bottom, h } = box, w = plotWidth(width);
  const red = new Float32Array(w * bottom), green = red.slice(), blue = red.slice();
  const weight = red.slice();
  const cover = (row, a, b, rgb, full) => {
    const y0 = Math.max(0, Math.floor(row * h));
    const y1 = Math.min(bottom, Math.max(y0 + 1, Math.floor((row + 1) * h)));
    const x0 = Math.max(0, Math.floor(a)), x1 = Math.min(w, Math.max(x0 + 1, Math.ceil(b)));
    for (let y = y0; y < y1; ++y) {
      for (let k = y * w + x0, end = y * w + x1; k < end; ++k) {
        red[k] += full * rgb[0]; green[k] += full * rgb[1]; blue[k] += full * rgb[2];
        weight[k] += full;
      }
    }
  };
  const waiting = rgbOf(css("--wait")), part = Math.min(1, Math.max(h, 0.25));
  for (let i = 0; i < jobs.count; ++i) {
    const row = lay.laneOf[i] - rows.first, until = leaves(p, i);
    if (row < -1 || row > rows.shown || jobs.submit[i] > view.t1 || until < view.t0) continue;
    if (p.fate[i] !== Fate.refused || !rows.packed) {
      const x0 = xOf(jobs.submit[i], width) - left, x1 = xOf(until, width) - left;
      cover(row, x0, x1, waiting, 0.22 * part);
    }
    const rgb = rgbOf(jobColour(p, i));
    eachBar(p, i, width, (a, b) => cover(row, a - left, b - left, rgb, part));
  }
  const image = c.createImageData(w, bottom);
  for (let k = 0; k < weight.length; ++k) {
    if (weight[k] === 0) continue;
    image.data[4 * k] = red[k] / weight[k];
    image.data[4 * k + 1] = green[k] / weight[k];
    image.data[4 * k + 2] = blue[k] / weight[k];
    image.data[4 * k + 3] = 255 * Math.min(1, weight[k]) ** 0.75;
  }
  const buffer = document.createElement("canvas");
  buffer.width = w;
  buffer.height = bottom;
  buffer.getContext("2d").putImageData(image, 0, 0);
  c.imageSmoothingEnabled = false;
  c.drawImage(buffer, left, 0);
}

function drawRowLabels(c, lay, box) {
  const { h, bottom } = box;
  c.textAlign = "right";
  c.fillStyle = css("--muted");
  if (!rows.packed && h >= 11) {
    for (let r = Math.floor(rows.first); r < Math.min(lay.count, rows.first + rows.shown); ++r) {
      const name = jobs.names[r];
      const short = name.length > 8 ? name.slice(0, 7) + "\u2026" : name;
      c.fillText(short, left - 8, (r - rows.first + 0.5) * h);
    }
    return;
  }
  for (const r of roundTicks(rows.shown, 5)) {
    const y = Math.min(bottom - 6, Math.max(6, r * h));
    c.fillText(count(Math.round(rows.first + r)), left - 8, y);
  }
}

let css_wait = "";
function drawGantt() {
  const p = policies[view.chosen], lay = layout(p), canvas = $("gantt");
  fateColours = fateVariables.map(css);
  css_wait = css("--wait");
  clampRows(lay.count);
  const wanted = Math.min(440, Math.max(90, lay.count * 26) + 22);
  const { c, width, height } = prepare(canvas, wanted);
  const bottom = height - 22, box = { width, bottom, h: bottom / rows.shown };
  drawTimeGrid(c, width, bottom, true);
  drawRowLabels(c, lay, box);
  c.save();
  c.beginPath();
  c.rect(left, 0, width - left - right, bottom);
  c.clip();
  box.h >= barRow ? drawBars(c, p, lay, box) : drawImage(canvas, c, p, lay, box);
  c.restore();
  drawn.set(canvas, { p, lay, box });
  noteGantt(p, lay, box);
}

function noteGantt(p, lay, box) {
  const shown = rows.packed ? `${count(lay.count)} at a time at most` : "in order of submission";
  $("gantt-note").textContent = `${count(jobs.count)} jobs, ${shown}` +
    (p.coarse ? `; drawn to ${duration(p.coarse)}` : "");
  const keys = [];
  if ($("colour").value === "fate") {
    fateNames.forEach((name, f) => {
      const n = p.fate.reduce((a, x) => a + (x === f), 0);
      if (n && !(rows.packed && f === Fate.refused)) keys.push(key(fateColours[f], name, count(n)));
    });
  } else if ($("colour").value === "model") {
    jobs.models.slice(0, 16).forEach((name, m) => keys.push(key(colourOf(m), name)));
  }
  keys.push(key(css_wait, "thin line: waiting"));
  if (box.h >= barRow) keys.push(key("", `thickness: ${units}, against the job's most`));
  if (box.h >= 8 && policies[0].metrics.deadline_jobs) keys.push(key("", "\u25be deadline"));
  $("gantt-legend").innerHTML = keys.join("");
}

function jobAt(canvas, x, y) {
  const { lay, box } = drawn.get(canvas);
  const t = timeAt(x, canvas.clientWidth), row = Math.floor(rows.first + y / box.h);
  if (y >= box.bottom || x < left) return -1;
  if (!lay.lanes) return row < jobs.count ? row : -1;
  const near = (2 * (view.t1 - view.t0)) / canvas.clientWidth;
  for (const r of [row, row - 1, row + 1]) {
    for (const i of lay.lanes[r] || []) {
      if (jobs.submit[i] - near <= t && t <= leaves(policies[view.chosen], i) + near) return i;
    }
  }
  return -1;
}

function describeService(p, i, t) {
  const { off, from, to, gpus } = p.held, submit = jobs.submit[i];
  let now = 0, start = Infinity, most = 0;
  for (let k = off[i]; k < off[i + 1]; ++k) {
    start = Math.min(start, from[k]);
    most = Math.max(most, gpus[k]);
    if (from[k] <= t && t < to[k]) now = gpus[k];
  }
  const waited = start > submit + 0.02 ? `, waited ${duration(start - submit)}` : "";
  return [
    ["started", duration(start) + waited],
    ["ended", duration(p.end[i])], ["took", duration(p.end[i] - submit)],
    [units, `${count(Math.round(now))} now, ${count(Math.round(most))} at most`],
    ["resizes", p.resizes[i]],
  ];
}

function describeJob(p, i, t) {
  const submit = jobs.submit[i], deadline = jobs.deadline[i];
  const table = [["submitted", duration(submit)]];
  if (isFinite(deadline)) {
    table.push(["deadline", `${duration(deadline)} (${duration(deadline - submit)} later)`]);
  }
  table.push(["asked for", `${jobs.asked[i]} ${jobs.asked[i] === 1 ? unit : units}`]);
  const refusal = p.refusals.get(i);
  if (p.fate[i] !== Fate.refused) table.push(...describeService(p, i, t));
  if (refusal) table.push(["because", escaped(refusal.reason)]);
  if (refusal && refusal.offer !== null) {
    table.push(["would accept", duration(refusal.offer - raw.origin)]);
  }
  if (refusal && refusal.share > 0) {
    table.push(["or by its deadline", `${percent(refusal.share)} of its iterations`]);
  }
  const name = escaped(jobs.names[i].slice(0, 40)), model = escaped(jobs.models[jobs.model[i]]);
  return `<b>${name}</b> &nbsp;${model}, batch ${jobs.batch[i]}<br>` +
    key(fateColours[p.fate[i]], fateNames[p.fate[i]]) + tipTable(table);
}

function moveRows({ zoom: factor, y, pan }) {
  const { lay, box } = drawn.get($("gantt"));
  if (pan !== undefined) rows.first += pan / box.h;
  if (factor !== undefined) {
    const at = y / box.h, shown = Math.min(lay.count, Math.max(4, rows.shown * factor));
    rows.first += at - (at * shown) / rows.shown;
    rows.shown = shown;
  }
  clampRows(lay.count);
  redraw();
}

// Shows the first job whose name begins with `text`.
function findJob(text) {
  const i = jobs.names.findIndex((name) => name.startsWith(text));
  if (!text || i < 0) return;
  const p = policies[view.chosen], lay = layout(p);
  const span = Math.max(1, leaves(p, i) - jobs.submit[i]);
  if (lay.laneOf[i] >= 0) {
    rows.shown = Math.min(lay.count, 24);
    rows.first = lay.laneOf[i] - rows.shown / 2;
    clampRows(lay.count);
  }
  setWindow(jobs.submit[i] - span * 0.25, jobs.submit[i] + span * 1.25);
}
