// How much of the cluster was held over time, stacked by job or model. The largest within the
// window get a band each, the rest share one.

const bandsMax = 12;

// How jobs are put into groups: by themselves, by model, by outcome.
const groupings = {
  job: { what: "jobs", size: jobs.count, of: (p, i) => i, name: (g) => jobs.names[g],
    colour: colourOf },
  model: { what: "models", size: jobs.models.length, of: (p, i) => jobs.model[i],
    name: (g) => jobs.models[g], colour: colourOf },
  fate: { what: "outcomes", size: fateNames.length, of: (p, i) => p.fate[i],
    name: (g) => fateNames[g], colour: (g) => css(fateVariables[g]) },
};

// Which bands to draw in the window: [{name, colour, gpuSeconds}], and the band of each job.
function chooseBands(p, by) {
  const { what, size, of, name, colour } = groupings[by];
  const held = new Float64Array(size);
  const { off, from, to, gpus } = p.held;
  for (let i = 0; i < jobs.count; ++i) {
    if (jobs.submit[i] >= view.t1 || leaves(p, i) <= view.t0) continue;
    const g = of(p, i);
    for (let k = off[i]; k < off[i + 1]; ++k) {
      const overlap = Math.min(to[k], view.t1) - Math.max(from[k], view.t0);
      if (overlap > 0) held[g] += overlap * gpus[k];
    }
  }
  let order = Array.from(held.keys()).filter((g) => held[g] > 0);
  const all = order.length;
  if (order.length > bandsMax) order = order.sort((a, b) => held[b] - held[a]).slice(0, bandsMax);
  order.sort((a, b) => a - b);
  const bandOf = new Int16Array(size).fill(order.length);
  const bands = order.map((g, n) => {
    bandOf[g] = n;
    return { name: name(g), colour: colour(g), gpuSeconds: held[g] };
  });
  const rest = held.reduce((a, b) => a + b, 0) - bands.reduce((a, b) => a + b.gpuSeconds, 0);
  bands.push({ name: `${all - order.length} other ${what}`, colour: css("--rest"),
    gpuSeconds: rest });
  return { bands, bandOf: (policy, i) => bandOf[of(policy, i)],
    others: all > order.length };
}

function bandColumns(p, chosen, n) {
  const per = (view.t1 - view.t0) / n;
  const { off, from, to, gpus } = p.held;
  return columnsOf(chosen.bands.length, n, (edges, flat) => {
    for (let i = 0; i < jobs.count; ++i) {
      if (jobs.submit[i] >= view.t1 || leaves(p, i) <= view.t0) continue;
      const g = chosen.bandOf(p, i);
      for (let k = off[i]; k < off[i + 1]; ++k) {
        spread(edges[g], flat[g], from[k], to[k], gpus[k], view.t0, per, n);
      }
    }
  });
}

function fillBands(c, columns, chosen, box) {
  const { bottom, top, n } = box;
  const base = new Float64Array(n), y = (gpus) => bottom - ((bottom - top) * gpus) / raw.gpus;
  columns.forEach((column, g) => {
    c.beginPath();
    for (let i = 0; i < n; ++i) {
      c.lineTo(left + i, y(base[i] + column[i]));
      c.lineTo(left + i + 1, y(base[i] + column[i]));
    }
    for (let i = n - 1; i >= 0; --i) {
      c.lineTo(left + i + 1, y(base[i]));
      c.lineTo(left + i, y(base[i]));
    }
    c.fillStyle = chosen.bands[g].colour;
    c.fill();
    for (let i = 0; i < n; ++i) base[i] += column[i];
  });
}

function markEnd(c, p, width, bottom) {
  const x = xOf(p.last, width);
  if (x < left || x > width) return;
  c.strokeStyle = css("--ink");
  c.setLineDash([3, 3]);
  c.beginPath();
  c.moveTo(x, 4);
  c.lineTo(x, bottom);
  c.stroke();
  c.setLineDash([]);
  const text = "all done at " + duration(p.last), toLeft = x > width - 160;
  const w = c.measureText(text).width + 10;
  c.fillStyle = css("--tip");
  c.fillRect(toLeft ? x - w - 2 : x + 2, 14, w, 20);
  c.fillStyle = css("--ink");
  c.textAlign = toLeft ? "right" : "left";
  c.fillText(text, x + (toLeft ? -7 : 7), 24);
}

const drawn = new Map();  // Canvas to what the tip needs.

function drawUtilisation(canvas, p, chosen, height, labels) {
  const { c, width } = prepare(canvas, height);
  const bottom = height - (labels ? 22 : 8), top = 8, n = plotWidth(width);
  drawTimeGrid(c, width, bottom, labels);
  drawLevels(c, width, bottom, top, raw.gpus, [0, 0.25, 0.5, 0.75, 1].map((s) => s * raw.gpus));
  const columns = bandColumns(p, chosen, n);
  fillBands(c, columns, chosen, { bottom, top, n });
  c.fillStyle = css("--ink");
  c.fillRect(left, top - 0.5, n, 1);
  if (view.compare) {
    markEnd(c, p, width, bottom);
    c.font = "600 " + c.font;
    c.fillStyle = css("--ink");
    c.textAlign = "left";
    c.fillStyle = css("--tip");
    c.fillRect(left + 6, top + 6, c.measureText(p.name).width + 12, 20);
    c.fillStyle = css("--ink");
    c.fillText(p.name, left + 12, top + 16);
  }
  drawn.set(canvas, { p, chosen, columns, n });
}

function describeUtilisation(canvas, x) {
  const { p, chosen, columns, n } = drawn.get(canvas);
  const i = Math.floor(x - left);
  if (i < 0 || i >= n) return "";
  const rows = chosen.bands.map((band, g) => ({ band, gpus: columns[g][i] }))
    .filter((r) => r.gpus > 0.005).sort((a, b) => b.gpus - a.gpus);
  const used = rows.reduce((a, r) => a + r.gpus, 0);
  return `<b>${duration(timeAt(x, canvas.clientWidth))}</b> &nbsp;${escaped(p.name)}` +
    tipTable([[`${units} held`, `${count(used)} of ${raw.gpus}, ${percent(used / raw.gpus)}`],
      ...rows.slice(0, 9).map((r) => [key(r.band.colour, r.band.name), count(r.gpus)])]);
}

function utilisationCanvases(wanted) {
  const box = $("utilisation");
  while (box.children.length > wanted) {
    drawn.delete(box.lastChild);
    box.lastChild.remove();
  }
  while (box.children.length < wanted) {
    const canvas = document.createElement("canvas");
    makeZoomable(canvas);
    makeHoverable(canvas, (x) => describeUtilisation(canvas, x));
    box.append(canvas);
  }
  return Array.from(box.children);
}

function drawUtilisations() {
  const shown = view.compare ? policies : [policies[view.chosen]];
  const canvases = utilisationCanvases(shown.length);
  const height = shown.length === 1 ? 250 : shown.length === 2 ? 200 : 130;
  // All charts show the bands of the chosen policy, so that a colour means one thing.
  const chosen = chooseBands(policies[view.chosen], $("group").value);
  shown.forEach((p, n) => {
    const last = n === shown.length - 1;
    drawUtilisation(canvases[n], p, chosen, height + (last ? 14 : 0), last);
  });
  const all = chosen.bands.reduce((a, b) => a + b.gpuSeconds, 0) || 1;
  $("legend").innerHTML = chosen.bands
    .filter((b, g) => g < chosen.bands.length - 1 || chosen.others)
    .map((b) => key(b.colour, b.name, percent(b.gpuSeconds / all))).join("");
  const mean = all / (raw.gpus * (view.t1 - view.t0));
  $("utilisation-note").textContent = `${units} held, of ${count(raw.gpus)}; ` +
    `${percent(mean)} in this window under ${policies[view.chosen].name}`;
}
