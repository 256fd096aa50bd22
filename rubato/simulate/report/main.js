// Puts the page together.

let waiting = false;
function redraw() {  // Once a frame, however many events ask for it.
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawOverview();
    drawUtilisations();
    drawGantt();
    drawQueue();
  });
}

function redrawAll() {
  drawSwitcher();
  drawTiles();
  drawDeadlines();
  drawCompletion();
  drawTable();
  redraw();
}

function choose(k) {
  view.chosen = k;
  rows.first = 0;
  rows.shown = 0;
  redrawAll();
}

function drawSwitcher() {
  $("policies").innerHTML = policies.map((p, k) => {
    const note = p.metrics.deadline_jobs ? percent(p.metrics.deadline_ratio)
      : duration(p.metrics.makespan);
    return `<button role="tab" aria-selected="${k === view.chosen}">${escaped(p.name)}` +
      `<i>${note}</i></button>`;
  }).join("");
  Array.from($("policies").children).forEach((b, k) => { b.onclick = () => choose(k); });
}

function listen() {
  $("theme").onclick = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redrawAll();
  };
  $("compare").onchange = () => { view.compare = $("compare").checked; redrawAll(); };
  $("group").onchange = redraw;
  $("colour").onchange = redraw;
  $("rows").onchange = () => {
    rows.packed = $("rows").value === "packed";
    rows.first = rows.shown = 0;
    redraw();
  };
  $("find").oninput = () => findJob($("find").value);
  for (const b of document.querySelectorAll("[data-zoom]")) {
    b.onclick = () => zoom(Number(b.dataset.zoom));
  }
  addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT" || e.target.tagName === "SELECT") return;
    const by = (view.t1 - view.t0) / 5;
    if (e.key === "Escape") zoom(0);
    else if (e.key === "+" || e.key === "=") zoom(0.5);
    else if (e.key === "-") zoom(2);
    else if (e.key === "ArrowLeft") setWindow(view.t0 - by, view.t1 - by);
    else if (e.key === "ArrowRight") setWindow(view.t0 + by, view.t1 + by);
  });
  addEventListener("resize", redrawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
}

function start() {
  document.title = raw.title + " \u00b7 Rubato";
  $("title").textContent = raw.title;
  $("subtitle").textContent = raw.subtitle;
  $("compare-label").hidden = policies.length < 2;
  $("compare").checked = view.compare;
  $("group").value = raw.group_by_model || jobs.count > 60 ? "model" : "job";
  $("rows").value = rows.packed ? "packed" : "job";
  $("colour").value = jobs.count <= 40 ? "job" : "fate";
  if (raw.group_by_model) $("colour").value = "model";
  // The address may say what to show: #policy=rubato&from=0&to=3600
  // and also theme=dark, compare=1, group=, rows= and colour= with a value of their menus.
  const wish = new URLSearchParams(location.hash.slice(1));
  const named = policies.findIndex((p) => p.name === wish.get("policy"));
  view.chosen = named >= 0 ? named : policies.length - 1;
  for (const id of ["group", "rows", "colour"]) if (wish.has(id)) $(id).value = wish.get(id);
  rows.packed = $("rows").value === "packed";
  if (wish.has("theme")) document.documentElement.dataset.theme = wish.get("theme");
  if (wish.has("compare")) $("compare").checked = view.compare = wish.get("compare") === "1";
  if (wish.has("from")) {
    view.t0 = Math.max(0, Number(wish.get("from")));
    view.t1 = Math.min(horizon, Math.max(view.t0 + 1, Number(wish.get("to") || horizon)));
  }
  makeZoomable($("gantt"), moveRows);
  makeHoverable($("gantt"), (x, y) => {
    const i = jobAt($("gantt"), x, y);
    return i < 0 ? "" : describeJob(policies[view.chosen], i, timeAt(x, $("gantt").clientWidth));
  });
  makeZoomable($("queue"));
  makeHoverable($("queue"), (x) => describeQueue($("queue"), x));
  makeHoverable($("cdf"), (x) => describeCompletion($("cdf"), x));
  makeBrush($("overview"));
  listen();
  redrawAll();
}
start();
