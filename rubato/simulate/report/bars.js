// What became of the deadlines, and how long jobs took, policy beside policy.

function drawDeadlines() {
  const html = [];
  policies.forEach((p, k) => {
    const m = p.metrics, all = m.deadline_jobs;
    const tally = [0, 0, 0, 0, 0];
    for (let i = 0; i < jobs.count; ++i) if (isFinite(jobs.deadline[i])) ++tally[p.fate[i]];
    const part = (n, colour, name) => n === 0 ? "" :
      `<div style="flex:${n};background:var(${colour})" title="${n} ${name}">` +
      `${n / all > 0.06 ? count(n) : ""}</div>`;
    html.push(`<span class="name${k === view.chosen ? " chosen" : ""}" data-policy="${k}">` +
      `${escaped(p.name)}</span><div class="bar">` +
      part(tally[Fate.met], "--met", "met") + part(tally[Fate.late], "--late", "late") +
      part(tally[Fate.open], "--open", "never ended") +
      part(tally[Fate.refused], "--refused", "refused") +
      `</div><b>${all ? percent(m.deadline_ratio) : "none"}</b>`);
  });
  $("bars").innerHTML = html.join("");
  $("deadlines").hidden = policies[0].metrics.deadline_jobs === 0;
  $("bars-legend").innerHTML = [Fate.met, Fate.late, Fate.refused]
    .map((f) => key(css(fateVariables[f]), fateNames[f])).join("");
  for (const name of $("bars").querySelectorAll(".name")) {
    name.onclick = () => choose(Number(name.dataset.policy));
  }
}

// The JCTs of a policy, ascending.
function completionTimes(p) {
  if (!p.times) {
    const times = [];
    for (let i = 0; i < jobs.count; ++i) {
      if (p.fate[i] === Fate.refused || !isFinite(p.end[i])) continue;
      times.push(Math.max(1, p.end[i] - jobs.submit[i]));
    }
    p.times = Float64Array.from(times).sort();
  }
  return p.times;
}

const timeMarks = [[1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"],
  [36000, "10 h"], [86400, "1 day"], [604800, "1 week"], [2592000, "30 days"]];
// For a narrow range: round values about an octave apart.
const fineMarks = [1, 2, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800,
  57600, 86400, 172800, 345600, 604800, 1209600, 2592000].map((s) => [s, duration(s)]);

function drawCompletion() {
  const canvas = $("cdf"), { c, width, height } = prepare(canvas);
  const x0 = 44, bottom = height - 22, top = 8, plot = width - x0 - 16;
  const all = policies.map(completionTimes).filter((t) => t.length);
  if (!all.length) return;
  const low = Math.log(Math.min(...all.map((t) => t[0]))) - 0.05;
  const high = Math.log(Math.max(...all.map((t) => t[t.length - 1]))) + 0.05;
  const x = (s) => x0 + ((Math.log(s) - low) / (high - low)) * plot;
  const y = (share) => bottom - (bottom - top) * share;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    c.fillStyle = css("--grid");
    c.fillRect(x0, y(share), plot, 1);
    c.fillStyle = css("--muted");
    c.textAlign = "right";
    c.fillText(100 * share + " %", x0 - 6, y(share));
  }
  c.textAlign = "center";
  let used = -100;
  const even = [0, 1, 2, 3].map((k) => Math.exp(low + ((high - low) * k) / 4));
  const marks = high - low > Math.log(300) ? timeMarks : high - low > Math.log(8) ? fineMarks
    : even.map((s) => [s, duration(s)]);
  for (const [s, label] of marks) {
    if (x(s) < x0 - 1 || x(s) > width - 22 || x(s) - used < 54) continue;
    used = x(s);
    c.fillStyle = css("--grid");
    c.fillRect(x(s), top, 1, bottom - top);
    c.fillStyle = css("--muted");
    c.fillText(label, x(s), bottom + 11);
  }
  const order = policies.map((p, k) => k).sort((a, b) => (a === view.chosen) - (b === view.chosen));
  for (const k of order) drawCurve(c, completionTimes(policies[k]), k, { x, y, end: x0 + plot });
  drawn.set(canvas, { x0, plot, low, high });
  $("cdf-legend").innerHTML = policies.map((p, k) => key(colourOf(k), p.name)).join("");
}

function drawCurve(c, times, k, { x, y, end }) {
  if (!times.length) return;
  c.beginPath();
  const step = Math.max(1, Math.floor(times.length / 600));
  let before = y(0);
  const add = (i) => {
    c.lineTo(x(times[i]), before);
    c.lineTo(x(times[i]), (before = y((i + 1) / jobs.count)));
  };
  for (let i = 0; i < times.length; i += step) add(i);
  add(times.length - 1);
  c.lineTo(end, before);
  c.strokeStyle = colourOf(k);
  c.globalAlpha = k === view.chosen ? 1 : 0.75;
  c.lineWidth = k === view.chosen ? 2.6 : 1.4;
  c.stroke();
  c.globalAlpha = 1;
}

function describeCompletion(canvas, mouse) {
  const { x0, plot, low, high } = drawn.get(canvas) || {};
  if (!plot || mouse < x0 || mouse > x0 + plot) return "";
  const s = Math.exp(low + ((mouse - x0) / plot) * (high - low));
  const within = (times) => {
    let a = 0, b = times.length;
    while (a < b) {
      const m = (a + b) >> 1;
      times[m] <= s ? (a = m + 1) : (b = m);
    }
    return a / jobs.count;
  };
  return `<b>within ${duration(s)}</b>` + tipTable(policies.map((p, k) =>
    [key(colourOf(k), p.name), percent(within(completionTimes(p)))]));
}
