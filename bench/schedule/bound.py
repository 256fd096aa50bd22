"""What no policy can beat on a trace: bounds on the share of deadlines met.

alone:    a job is met if it could be, alone on an empty cluster.
offline:  also knows the whole future, and lets jobs share GPU time like water. A job needs at least
          least_gpu_seconds. Those submitted after a and due before b must fit into GPUs x (b - a);
          the fewest that must go are found by Moore and Hodgson's rule (in the order of deadlines;
          when it is too much, the largest goes), and what must go in disjoint windows adds up.
          Placement, whole GPUs and all pauses but the first are left out, so a schedule as good as
          this need not exist: the regret printed is the most there can be.
"""
import bisect
import csv
import gzip
import heapq
from pathlib import Path
from typing import NamedTuple

NEVER = float("inf")


class Job(NamedTuple):
    submit: float
    deadline: float
    work: float
    curve: tuple[tuple[int, float], ...]  # (GPUs, iterations per second).


def read_curves(folder: Path, gpus_max: int) -> dict[tuple[str, int], tuple]:
    curves = {}
    for profile in folder.glob("*.csv"):
        for row in csv.DictReader(profile.open()):
            points = [(int(k), float(v)) for k, v in row.items()
                      if k.isdigit() and int(k) <= gpus_max and v not in ("", "nan", "0")]
            curves[profile.stem, int(row["global_batch_size"])] = tuple(points)
    return curves


def read_jobs(path: Path, curves: dict) -> list[Job]:
    """Those with deadlines, by submission."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row.get("best_effort", "0") != "1"]
    jobs = [Job(float(row.get("submit_time") or row["submission_time"]),
                float(row.get("ddl") or row["deadline"]),
                float(row.get("iteration") or row["num_iteration"]),
                curves[row["model_name"], int(row["batch_size"])]) for row in rows]
    return sorted(jobs)


def least_gpu_seconds(job: Job, pause: float) -> float:
    """To do its work in its window, mixing two sizes at best; NEVER if the window is too short."""
    window = job.deadline - job.submit - pause
    if window <= 0 or max(rate for _, rate in job.curve) * window < job.work:
        return NEVER
    points = [(0, 0.0), *job.curve]
    least = NEVER
    for slow_gpus, slow in points:
        for gpus, rate in points:
            if rate * window < job.work or slow >= rate or slow * window > job.work:
                continue
            fast_s = (job.work - slow * window) / (rate - slow)
            least = min(least, gpus * fast_s + slow_gpus * (window - fast_s))
    return least


def must_go(jobs: list[tuple[float, float, float]], gpus: int) -> int:
    """How many of these (submit, deadline, GPU-seconds), by submission, must go at least."""
    submits = [submit for submit, _, _ in jobs]
    by_deadline = sorted(range(len(jobs)), key=lambda i: jobs[i][1])
    gone = [0] * (len(jobs) + 1)  # Of those from the i-th submission on.
    for i in range(len(jobs) - 1, -1, -1):
        begin, used, dropped, best = submits[i], 0.0, 0, gone[i + 1]
        kept: list[float] = []
        for k in by_deadline:
            if k < i:
                continue
            _, deadline, need = jobs[k]
            heapq.heappush(kept, -need)
            used += need
            if used > gpus * (deadline - begin):
                used += heapq.heappop(kept)
                dropped += 1
                best = max(best, dropped + gone[bisect.bisect_left(submits, deadline)])
        gone[i] = best
    return gone[0]


def bounds(jobs: list[Job], gpus: int, pause: float, jobs_max: int = 2000) -> dict[str, float]:
    """Shares of `jobs`; the offline bound only if there are not too many."""
    needs = [(job.submit, job.deadline, least_gpu_seconds(job, pause)) for job in jobs]
    open_ = [need for need in needs if need[2] < NEVER]
    alone = sum(least_gpu_seconds(job, 0) < NEVER for job in jobs)
    result = {"upper_bound": round(alone / len(jobs), 4)}
    if len(jobs) <= jobs_max:
        result["offline_bound"] = round((len(open_) - must_go(open_, gpus)) / len(jobs), 4)
    return result
