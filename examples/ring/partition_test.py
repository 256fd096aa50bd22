"""Two network namespaces, a cable between them, and the cable pulled: the side with the majority trains
on, the other stands still, and once the cable is back all are together again. Nowhere is one step done
in two ways."""

import re
import subprocess
import sys
import tempfile
import threading

import cable

LINE = re.compile(r'step (\d+): y = \S+ x \+ \S+ \((\d+) members\) (\S+ \S+)')


class Member:
    """A ring_line in one of the namespaces, and what it printed."""

    def __init__(self, binary: str, side: str, listen: str, join: str = '') -> None:
        command = cable.inside(side, [binary, '-m', '-v', '-n', '1000000', '-l', listen])
        self.errors = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen(command + ([join] if join else []), stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        self.steps: list[tuple[int, str, int]] = []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            match = LINE.match(line)
            if match:
                self.steps.append((int(match[1]), match[3], int(match[2])))

    def last(self) -> tuple[int, str, int]:
        return self.steps[-1] if self.steps else (0, '', 0)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join()

    def story(self) -> str:
        self.errors.seek(0)
        return f'{self.errors.read()}stopped at step {self.last()[0]} with {self.last()[2]} members\n'


def check(members: list[Member]) -> None:
    sums: dict[int, str] = {}  # The weights after each step, to the bit.
    for member in members:
        numbers = [step for step, _, _ in member.steps]
        assert numbers == sorted(set(numbers)), 'a step was applied twice, or out of order'
        for step, line, _ in member.steps:
            assert sums.setdefault(step, line) == line, f'step {step} was done in two ways'
    # Or nothing would be seen of a step that is done twice.
    last = [sums[step] for step in sorted(sums)[-100:]]
    assert len(set(last)) > 0.9 * len(last), f'the weights are at rest: {last[-1]}'


def pull_and_plug(binary: str, members: list[Member]) -> None:
    founder = '10.231.77.1:4100'
    members.append(Member(binary, 'a', founder))
    members.append(Member(binary, 'a', '10.231.77.1:4101', founder))
    members.append(Member(binary, 'b', '10.231.77.2:4100', founder))
    majority, minority = members[:2], members[2]
    cable.eventually('three train together', lambda: all(m.last()[2] == 3 for m in members))
    cable.pull()
    cable.eventually('two train on', lambda: all(m.last()[2] == 2 for m in majority))
    stood = minority.last()[0]
    before = majority[0].last()[0]
    cable.eventually('two make headway', lambda: majority[0].last()[0] > before + 30)
    assert minority.last()[0] == stood, 'one of three trained on alone'
    cable.plug()
    cable.eventually('three train together again',
               lambda: all(m.last()[2] == 3 for m in members) and minority.last()[0] > before + 30)
    print(f'alone at step {stood}; two went on to {majority[0].last()[0]}; together again')


def main() -> int:
    members: list[Member] = []
    if not cable.is_laid():
        return 77
    try:
        pull_and_plug(sys.argv[1], members)
    except AssertionError:
        for i, member in enumerate(members):
            print(f'member {i + 1}:\n{member.story()}')
        raise
    finally:
        for member in members:
            member.stop()
        cable.remove()
    check(members)
    return 0


if __name__ == '__main__':
    sys.exit(main())
