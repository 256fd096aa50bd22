// How many jobs are in the system without a GPU, over time; and the strip that shows the whole.

function waitingColumns(p, t0, t1, n) {
  const per = (t1 - t0) / n, { off, from, to } = p.held;
  return columnsOf(1, n, ([edges], [flat]) => {
    for (let i = 0; i < jobs.count; ++i) {
      const until = leaves(p, i);
      if (jobs.submit[i] >= t1 || until <= t0) continue;
      let since = jobs.submit[i];
      for (let k = off[i]; k < off[i + 1]; ++k) {
        if (from[k] > since) spread(edges, flat, since, from[k], 1, t0, per, n);
        since = to[k];
      }
      if (until > since) spread(edges, flat, since, until, 1, t0, per, n);
    }
  })[0];
}

function drawQueue() {
  const canvas = $("queue"), { c, width, height } = prepare(canvas);
  const bottom = height - 22, top = 8, n = plotWidth(width);
  const shown = view.compare ? policies.map((p, k) => k) : [view.chosen];
  const lines = shown.map((k) => ({ k, at: waitingColumns(policies[k], view.t0, view.t1, n) }));
  let max = 1;
  for (const { at } of lines) for (let i = 0; i < n; ++i) max = Math.max(max, at[i]);
  drawTimeGrid(c, width, bottom, true);
  drawLevels(c, width, bottom, top, max,
    max < 4 ? [0, 1, 2, 3].slice(0, max + 1) : roundTicks(max, 4));
  for (const { k, at } of lines) {
    c.beginPath();
    c.moveTo(left, bottom);
    for (let i = 0; i < n; ++i) c.lineTo(left + i + 0.5, bottom - ((bottom - top) * at[i]) / max);
    c.strokeStyle = view.compare ? colourOf(k) : css("--accent");
    c.lineWidth = k === view.chosen ? 1.8 : 1;
    c.stroke();
    if (k !== view.chosen) continue;
    c.lineTo(left + n, bottom);
    c.fillStyle = css("--shade");
    c.fill();
  }
  $("queue-note").textContent = `jobs without a ${unit}` +
    (view.compare ? ", by policy" : ` under ${policies[view.chosen].name}`);
  drawn.set(canvas, { lines, n });
}

function describeQueue(canvas, x) {
  const { lines, n } = drawn.get(canvas), i = Math.floor(x - left);
  if (i < 0 || i >= n) return "";
  return `<b>${duration(timeAt(x, canvas.clientWidth))}</b>` +
    tipTable(lines.map(({ k, at }) => [escaped(policies[k].name), count(at[i]) + " waiting"]));
}

// The whole run at a glance, with the window that the charts show.
function drawOverview() {
  const canvas = $("overview"), { c, width, height } = prepare(canvas);
  const n = plotWidth(width), p = policies[view.chosen];
  const held = overviewColumns(p, n);
  c.fillStyle = css("--rest");
  for (let i = 0; i < n; ++i) {
    const tall = (height - 4) * Math.min(1, held[i] / raw.gpus);
    c.fillRect(left + i, height - 2 - tall, 1, tall);
  }
  const x0 = left + (view.t0 / horizon) * n, x1 = left + (view.t1 / horizon) * n;
  c.fillStyle = css("--shade");
  c.fillRect(x0, 0, x1 - x0, height);
  c.fillStyle = css("--accent");
  c.fillRect(x0 - 1, 0, 2, height);
  c.fillRect(x1 - 1, 0, 2, height);
  c.fillStyle = css("--muted");
  c.textAlign = "right";
  c.fillText("all", left - 8, height / 2);
}
const overviews = new Map();
function overviewColumns(p, n) {
  const name = p.name + "/" + n;
  if (!overviews.has(name)) {
    const { off, from, to, gpus } = p.held, per = horizon / n;
    overviews.set(name, columnsOf(1, n, ([edges], [flat]) => {
      for (let k = 0; k < off[jobs.count]; ++k) {
        spread(edges, flat, from[k], to[k], gpus[k], 0, per, n);
      }
    })[0]);
  }
  return overviews.get(name);
}

// Dragging an edge resizes the window, its middle moves it, elsewhere draws a new one.
function makeBrush(canvas) {
  const at = (e) => ((e.offsetX - left) / (canvas.clientWidth - left - right)) * horizon;
  let drag = null;
  canvas.addEventListener("pointerdown", (e) => {
    const t = at(e), near = (6 * horizon) / canvas.clientWidth;
    canvas.setPointerCapture(e.pointerId);
    const whole = view.t1 - view.t0 > 0.98 * horizon;
    if (Math.abs(t - view.t0) < near && !whole) drag = { fixed: view.t1 };
    else if (Math.abs(t - view.t1) < near && !whole) drag = { fixed: view.t0 };
    else if (t > view.t0 && t < view.t1 && !whole) drag = { grip: t - view.t0 };
    else drag = { fixed: t };
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!drag) return;
    const t = at(e), span = view.t1 - view.t0;
    if (drag.grip !== undefined) setWindow(t - drag.grip, t - drag.grip + span);
    else setWindow(Math.min(t, drag.fixed), Math.max(t, drag.fixed));
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("dblclick", () => zoom(0));
}
