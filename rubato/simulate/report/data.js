// What the page knows: the jobs, and for each policy what they held and what became of them.
// Times are seconds since the first submission.

const raw = JSON.parse(document.getElementById("data").textContent);

const Fate = { met: 0, late: 1, refused: 2, bestEffort: 3, open: 4 };
const fateNames = ["deadline met", "late", "refused", "best effort", "never ended"];
const fateVariables = ["--met", "--late", "--refused", "--best-effort", "--open"];

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}
const float64 = (base64) => new Float64Array(bytesOf(base64).buffer);
const uint32 = (base64) => new Uint32Array(bytesOf(base64).buffer);

const jobs = (() => {
  const j = raw.jobs;
  const since = (times) => times.map((t) => t - raw.origin);
  return {
    count: j.count, names: j.names, models: j.models, submit: since(float64(j.submit)),
    deadline: since(float64(j.deadline)), iterations: float64(j.iterations),
    model: uint32(j.model), asked: uint32(j.asked), batch: uint32(j.batch), kind: bytesOf(j.kind),
  };
})();

// The stream of report.h, as arrays: the pieces of job i are off[i] .. off[i + 1].
function unpack(p) {
  const bytes = bytesOf(p.stream);
  const out = {
    off: new Uint32Array(jobs.count + 1), from: new Float64Array(p.count),
    to: new Float64Array(p.count), gpus: new Float32Array(p.count), pool: new Uint8Array(p.count),
  };
  let at = 0, n = 0;
  const next = () => {
    let value = 0, unit = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * unit;
      if (byte < 128) return value;
      unit *= 128;
    }
  };
  for (let i = 0; i < jobs.count; ++i) {
    out.off[i] = n;
    let tick = Math.round(jobs.submit[i] / p.tick);
    for (let k = next(); k > 0; --k, ++n) {
      tick += next();
      out.from[n] = tick * p.tick;
      tick += next();
      out.to[n] = tick * p.tick;
      out.gpus[n] = next() / p.gpu_scale;
      if (p.pools) out.pool[n] = next();
    }
  }
  out.off[jobs.count] = n;
  return out;
}

function fateOf(i, end, admitted) {
  if (!admitted[i]) return Fate.refused;
  if (!isFinite(end[i])) return Fate.open;
  if (!isFinite(jobs.deadline[i])) return Fate.bestEffort;
  return end[i] <= jobs.deadline[i] + 1e-6 ? Fate.met : Fate.late;
}

function loadPolicy(p) {
  const end = float64(p.end).map((t) => t - raw.origin);
  const admitted = bytesOf(p.admitted);
  const fate = new Uint8Array(jobs.count);
  let last = 0;
  for (let i = 0; i < jobs.count; ++i) {
    fate[i] = fateOf(i, end, admitted);
    last = Math.max(last, jobs.submit[i], isFinite(end[i]) ? end[i] : 0);
  }
  let held = null;
  return {
    name: p.name, metrics: p.metrics, end, fate, last, coarse: p.pieces.width,
    resizes: uint32(p.resizes),
    refusals: new Map(p.refusals.map(
      ([job, reason, offer, share]) => [job, { reason, offer, share }])),
    // Unpacked when first looked at: a page may hold many policies.
    get held() { return held || (held = unpack(p.pieces)); },
  };
}

const policies = raw.policies.map(loadPolicy);
const horizon = Math.max(1, ...policies.map((p) => p.last));

// Until when job i is in the system: its end, its refusal, or the end of the page.
function leaves(p, i) {
  if (p.fate[i] === Fate.refused) return jobs.submit[i];
  return isFinite(p.end[i]) ? p.end[i] : horizon;
}

// Adds `weight` over [a, b) to columns of `per` seconds from `t0`. `flat` holds what covers whole
// columns, as differences; `edges` what covers them in part. See columnsOf().
function spread(edges, flat, a, b, weight, t0, per, n) {
  const x0 = Math.max(0, (a - t0) / per), x1 = Math.min(n, (b - t0) / per);
  if (x1 <= x0) return;
  const i0 = Math.floor(x0), i1 = Math.floor(x1);
  if (i0 === i1) {
    edges[i0] += weight * (x1 - x0);
    return;
  }
  edges[i0] += weight * (i0 + 1 - x0);
  edges[i1] += weight * (x1 - i1);
  flat[i0 + 1] += weight;
  flat[i1] -= weight;
}

// The mean over each of `n` columns of what `add` spreads, for `groups` groups at once.
function columnsOf(groups, n, add) {
  const edges = [], flat = [];
  for (let g = 0; g < groups; ++g) {
    edges.push(new Float64Array(n + 2));
    flat.push(new Float64Array(n + 2));
  }
  add(edges, flat);
  for (let g = 0; g < groups; ++g) {
    for (let i = 0, level = 0; i < n; ++i) {
      level += flat[g][i];
      edges[g][i] += level;
    }
  }
  return edges;
}
