// Every figure of every policy.

// [name, label, format, which is best: 1 the largest, -1 the smallest, 0 neither]
const figures = [
  ["Deadlines"],
  ["deadline_ratio", "ratio met", percent, 1], ["deadline_jobs", "jobs with a deadline", count, 0],
  ["met", "met", count, 1], ["late_admitted", "admitted, but late", count, -1],
  ["late_soft", "soft deadlines missed", count, -1],
  ["refused", "refused", count, 0], ["admitted", "admitted", count, 0],
  ["completed", "completed", count, 0],
  ["Time"],
  ["jct_mean", "JCT, mean", duration, -1], ["jct_p50", "JCT, median", duration, -1],
  ["jct_p95", "JCT, 95th percentile", duration, -1],
  ["best_effort_jct_mean", "best-effort JCT, mean", duration, -1],
  ["best_effort_jct_p95", "best-effort JCT, 95th percentile", duration, -1],
  ["makespan", "makespan", duration, -1],
  ["Cluster"],
  ["utilisation", "utilisation", percent, 0], ["gpu_hours_used", unit + "-hours used", count, 0],
  ["gpu_hours_offered", unit + "-hours offered", count, 0],
  ["migrations", "migrations", count, -1], ["rescales", "rescales", count, -1],
  ["rescale_seconds", "time paused to rescale", duration, -1],
  ["failures", "nodes failed", count, 0],
  ["Decisions"],
  ["decisions", "decisions", count, 0], ["active_jobs_mean", "active jobs, mean", count, 0],
  ["active_jobs_max", "active jobs, most", count, 0],
  ["decision_us_p50", "decision, median, \u00b5s", count, -1],
  ["decision_us_p99", "decision, 99th percentile, \u00b5s", count, -1],
  ["decision_us_max", "decision, longest, \u00b5s", count, -1],
  ["wall_seconds", "simulated in", (s) => s.toFixed(2) + " s", -1],
];

function drawTable() {
  const chosen = (k) => (k === view.chosen ? " chosen" : "");
  const head = policies.map((p, k) =>
    `<th class="${chosen(k)}" data-policy="${k}">${escaped(p.name)}</th>`).join("");
  const body = figures.map(([name, label, format, better]) => {
    if (!label) return `<tr class="section"><td colspan="${policies.length + 1}">${name}</td></tr>`;
    const values = policies.map((p) => p.metrics[name]);
    const known = values.filter((v) => v !== null);
    const best = better > 0 ? Math.max(...known) : Math.min(...known);
    const mark = better !== 0 && policies.length > 1 && Math.max(...known) > Math.min(...known);
    return `<tr><td>${label}</td>` + values.map((v, k) =>
      `<td class="${mark && v === best ? "best" : ""}${chosen(k)}">${format(v)}</td>`).join("") +
      "</tr>";
  }).join("");
  $("table").innerHTML = `<table><tr><th></th>${head}</tr>${body}</table>`;
  for (const th of $("table").querySelectorAll("th[data-policy]")) {
    th.onclick = () => choose(Number(th.dataset.policy));
  }
}

// From submission to the first GPU, of the jobs that got one; null if nobody is known to have.
function waits(p) {
  let sum = 0, n = 0, most = 0;
  for (let i = 0; i < jobs.count; ++i) {
    if (p.held.off[i] === p.held.off[i + 1]) continue;
    const waited = Math.max(0, p.held.from[p.held.off[i]] - jobs.submit[i]);
    sum += waited;
    most = Math.max(most, waited);
    ++n;
  }
  return n ? { mean: sum / n, most } : { mean: null, most: null };
}

function drawTiles() {
  const p = policies[view.chosen], m = p.metrics, wait = waits(p);
  const waited = [duration(wait.mean), `mean wait for a ${unit}`];
  const tiles = m.deadline_jobs ? [
    [percent(m.deadline_ratio), `of ${count(m.deadline_jobs)} deadlines met`],
    [count(m.late_admitted), `late; ${count(m.refused)} refused`],
    waited,
  ] : [
    [count(m.completed), "jobs completed"], [duration(wait.most), "longest wait"], waited,
  ];
  tiles.push(
    [percent(m.utilisation), `of ${count(raw.gpus)} ${units} used`],
    [duration(m.jct_mean), `mean JCT; p95 ${duration(m.jct_p95)}`],
    [duration(m.makespan), "makespan"]);
  $("tiles").innerHTML = tiles.map(([value, label]) =>
    `<div class="tile"><b>${value}</b><span>${label}</span></div>`).join("");
}
