"""Groups that end with a step: whoever has committed the last one closes, and leaves nobody behind who
cannot know that it counts. Many short trainings of two and three members, which need a majority."""

import re
import subprocess
import sys
import tempfile
import time

STEPS, ROUNDS, PATIENCE_S = 150, 10, 60
LAST = re.compile(r'step (\d+): y = (\S+ x \+ \S+) ')


class Training:
    """A founder and those who join it, until all have ended."""

    def __init__(self, binary: str, members: int) -> None:
        self.binary, self.members = binary, members
        self.outs = [tempfile.TemporaryFile('w+') for _ in range(members)]
        self.errors = [tempfile.NamedTemporaryFile('w+') for _ in range(members)]
        self.processes = [self.start(0)]
        self.began = time.monotonic()

    def start(self, member: int, *join: str) -> subprocess.Popen:  # type: ignore[type-arg]
        return subprocess.Popen([self.binary, '-m', '-v', '-n', str(STEPS), *join], stdout=self.outs[member],
                                stderr=self.errors[member])

    def join(self) -> None:
        address = None
        while address is None:
            address = re.search(r'address (\S+)\n', open(self.errors[0].name).read())
            time.sleep(0.005)
        self.processes += [self.start(member, address[1]) for member in range(1, self.members)]

    def check(self) -> bool:
        """Whether all were together at the end; not so if a slow machine let one come too late."""
        try:
            for process in self.processes:
                process.wait(max(0.1, self.began + PATIENCE_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        ended = [process.poll() for process in self.processes]
        for process in self.processes:
            process.kill()
            process.wait()
        lasts, errors = [], []
        for out, error in zip(self.outs, self.errors):
            out.seek(0)
            lasts.append((LAST.findall(out.read()) or [None])[-1])
            errors.append(open(error.name).read())
        if None in lasts:
            return False
        assert ended == [0] * self.members, (ended, lasts, errors)
        assert len(set(lasts)) == 1 and int(lasts[0][0]) == STEPS, (lasts, errors)
        return True


def check_that_nobody_is_waited_for_in_vain(binary: str) -> None:
    """Whoever finds nobody at the address says so, and ends."""
    alone = subprocess.run([binary, '-t', '0.5', '127.0.0.1:1'], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert alone.returncode == 1, alone
    assert 'nobody answers at 127.0.0.1:1' in alone.stderr, alone.stderr
    assert 'nobody has let this one in for 0.5 s' in alone.stderr, alone.stderr


def main(binary: str) -> None:
    check_that_nobody_is_waited_for_in_vain(binary)
    together = 0
    for _ in range(ROUNDS):
        trainings = [Training(binary, members) for members in (2, 3, 3)]
        for training in trainings:
            training.join()
        together += sum(training.check() for training in trainings)
    assert together >= ROUNDS, together
    print(f'{together} trainings ended together')


if __name__ == '__main__':
    main(sys.argv[1])
