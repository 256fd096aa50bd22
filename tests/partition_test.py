"""Three `rubato worker`s without a master, in two network namespaces, and the cable between them pulled: two of
three, who share memory, train on, the third says that it waits and keeps nothing, and once the cable is back all three train to
the end together, to the same weights. Their logs tell one history."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / 'examples' / 'ring'))
import cable  # noqa: E402
import history  # noqa: E402

FOUNDER = '10.231.77.1:4100'
IMAGES, EPOCHS, BATCH = 640, 40, 32
STEPS = IMAGES // BATCH * EPOCHS


class Worker:
    """A `rubato worker` in one of the namespaces, with a job directory of its own."""

    def __init__(self, rubato: str, folder: pathlib.Path, name: str, side: str, listen: str, join: str = '') -> None:
        self.directory = folder / name
        self.out, self.err = folder / f'{name}.out', folder / f'{name}.err'
        words = [rubato, 'worker', '--job', str(folder / 'job.yaml'), '--job-dir', str(self.directory), '--listen', listen]
        if join:
            words += ['--join', join]
        if side == 'b':  # Another machine: it sees nobody's memory and processes.
            words = ['unshare', '--pid', '--fork', '--kill-child', *words]
        with self.out.open('w') as out, self.err.open('w') as err:
            self.process = subprocess.Popen(cable.inside(side, words), stdout=out, stderr=err)

    def says(self, words: str, since: int = 0) -> bool:
        """Also after `since` characters of what it has said."""
        if self.process.poll() not in (None, 0):
            raise AssertionError(f'it ended: {self.err.read_text()}')
        return words in self.err.read_text()[since:]

    def said(self) -> int:
        return len(self.err.read_text())

    def saved(self) -> int:
        """The step of the newest checkpoint that it has written."""
        steps = [0]
        for manifest in self.directory.glob('checkpoints/*/manifest.json'):
            steps.append(json.loads(manifest.read_text())['step'])
        return max(steps)


def all_three(workers: list[Worker], since: list[int]) -> bool:
    return all(w.says(': 3 workers, 3 with the model', at) for w, at in zip(workers, since))


def write_job(folder: pathlib.Path, source: str) -> None:
    (folder / 'train').write_text(f'{IMAGES} 1 120')
    (folder / 'valid').write_text('60 2 120')
    pixels = ', '.join(f'p{i}' for i in range(28 * 28))
    (folder / 'job.yaml').write_text(
        f'name: digits\nmodel: mnist_cnn\nstrategy: allreduce\nbatch_size: {BATCH}\nepochs: {EPOCHS}\n'
        f'data: {{format: {source}, train: train, validation: valid, label: digit, numeric: [{pixels}]}}\n'
        'optimizer: {name: sgd, learning_rate: 0.05}\ncheckpoint: {every_steps: 2, keep: 2}\n')


def pull_and_plug(rubato: str, folder: pathlib.Path, workers: list[Worker]) -> None:
    # Held back, so that training outlasts what happens to it: a quarter of a second for a step.
    (folder / 'pace').write_text('8000')
    workers.append(Worker(rubato, folder, 'founder', 'a', FOUNDER))
    cable.eventually('one listens', lambda: workers[0].says('listening on'))
    workers.append(Worker(rubato, folder, 'second', 'a', '10.231.77.1:4101', FOUNDER))
    workers.append(Worker(rubato, folder, 'third', 'b', '10.231.77.2:4100', FOUNDER))
    cable.eventually('three train together', lambda: all_three(workers, [0, 0, 0]))
    since = [w.said() for w in workers]
    cable.pull()
    cable.eventually('two train on', lambda: all(w.says(': 2 workers, 2 with the model', at)
                                                 for w, at in zip(workers[:2], since[:2])))
    cable.eventually('one waits', lambda: workers[2].says('waiting after step', since[2]))
    before = workers[0].saved()
    cable.eventually('two make headway', lambda: workers[0].saved() >= before + 6)
    assert workers[2].saved() == 0, 'one of three kept a model of its own'
    assert not workers[2].says(': 1 workers', since[2]), 'one of three went on alone'
    since = [w.said() for w in workers]
    cable.plug()
    cable.eventually('three train together again', lambda: all_three(workers, since))
    (folder / 'pace').unlink()
    cable.eventually('all have trained to the end', lambda: all(w.process.poll() == 0 for w in workers))
    results = [w.out.read_text() for w in workers]
    assert results[0].startswith(f'trained {STEPS} steps, {IMAGES * EPOCHS} records; weights '), results[0]
    assert results.count(results[0]) == 3, f'they have different weights: {results}'
    logs = {w.directory.name: history.read_log(str(w.directory)) for w in workers}
    faults = history.faults_of(logs)
    assert not faults, faults
    print(results[0].strip())


def run(rubato: str, source: str) -> int:
    workers: list[Worker] = []
    if not cable.is_laid():
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_job(folder, source)
        try:
            pull_and_plug(rubato, folder, workers)
        except AssertionError:
            for worker in workers:
                print(f'{worker.directory.name}:\n{worker.err.read_text()}')
            raise
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()
            cable.remove()
    return 0


if __name__ == '__main__':
    sys.exit(run(*sys.argv[1:]))
