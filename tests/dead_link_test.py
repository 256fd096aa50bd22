"""Members in network namespaces of their own, and the link between two of them dead for good, while each still reaches
the others. If a sum needs it, one of the two makes room, and comes back once the link does. If none does, a newcomer
whose oldest holder is behind it copies the state from another, and trains along. Needs root and ip(8)."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / 'examples' / 'ring'))
import cable  # noqa: E402

SIDES = {name: f'rubato-{name}-{os.getpid()}' for name in ('a', 'b', 'c', 'd', 'hub')}
ADDRESSES = {'a': '10.231.78.1', 'b': '10.231.78.2', 'c': '10.231.78.3', 'd': '10.231.78.4'}
NOBODY = '02:00:00:00:00:99'


def lay() -> None:
    for name in SIDES.values():
        cable.ip('netns', 'add', name)
        cable.ip('-n', name, 'link', 'set', 'lo', 'up')
    cable.ip('-n', SIDES['hub'], 'link', 'add', 'bridge', 'type', 'bridge')
    cable.ip('-n', SIDES['hub'], 'link', 'set', 'bridge', 'up')
    for side, address in ADDRESSES.items():
        cable.ip('link', 'add', 'cable', 'netns', SIDES[side], 'type', 'veth',
                 'peer', 'name', f'port-{side}', 'netns', SIDES['hub'])
        cable.ip('-n', SIDES['hub'], 'link', 'set', 'dev', f'port-{side}', 'master', 'bridge', 'up')
        cable.ip('-n', SIDES[side], 'addr', 'add', f'{address}/24', 'dev', 'cable')
        cable.ip('-n', SIDES[side], 'link', 'set', 'cable', 'up')


def remove() -> None:
    for name in SIDES.values():
        subprocess.run(['ip', 'netns', 'del', name], capture_output=True, check=False)


def part(*pair: str) -> None:
    """What the two say to each other goes to a station that does not exist."""
    for side, other in (pair, pair[::-1]):
        cable.ip('-n', SIDES[side], 'neigh', 'replace', ADDRESSES[other], 'lladdr', NOBODY,
                 'dev', 'cable', 'nud', 'permanent')


def mend(*pair: str) -> None:
    for side, other in (pair, pair[::-1]):
        cable.ip('-n', SIDES[side], 'neigh', 'del', ADDRESSES[other], 'dev', 'cable')


class Member:
    """A ring_line in one of the namespaces, and the last that it printed."""

    def __init__(self, binary: str, folder: pathlib.Path, side: str, join: str = '') -> None:
        self.out = folder / f'{side}.out'
        words = [binary, '-m', '-v', '-n', '1000000', '-l', f'{ADDRESSES[side]}:4100']
        with self.out.open('w') as out:
            self.process = subprocess.Popen(['ip', 'netns', 'exec', SIDES[side], *words, *([join] if join else [])],
                                            stdout=out, stderr=subprocess.STDOUT)

    def last(self) -> tuple[int, int]:
        """Its last step, and how many took it."""
        steps = re.findall(r'step (\d+): .* \((\d+) members\)', self.out.read_text())
        return (int(steps[-1][0]), int(steps[-1][1])) if steps else (0, 0)

    def trains_with(self, members: int) -> bool:
        return self.last()[1] == members


def three_train(binary: str, folder: pathlib.Path, members: list[Member]) -> None:
    founder = f'{ADDRESSES["a"]}:4100'
    members.append(Member(binary, folder, 'a'))
    cable.eventually('one listens', lambda: 'address' in members[0].out.read_text())
    members.append(Member(binary, folder, 'b', founder))
    cable.eventually('two train together', lambda: all(m.trains_with(2) for m in members))
    members.append(Member(binary, folder, 'c', founder))
    cable.eventually('three train together', lambda: all(m.trains_with(3) for m in members))


def one_dead_link(binary: str, folder: pathlib.Path, members: list[Member]) -> None:
    three_train(binary, folder, members)
    part('a', 'b')
    cable.eventually('two train on', lambda: sum(m.trains_with(2) for m in members) == 2 and members[2].trains_with(2))
    before = members[2].last()[0]
    cable.eventually('they make headway', lambda: members[2].last()[0] > before + 10)
    cable.eventually('the third says why it waits', lambda: any('gone on without this member' in m.out.read_text() for m in members))
    mend('a', 'b')
    cable.eventually('three train together again', lambda: all(m.trains_with(3) for m in members))


def a_newcomer_without_its_source(binary: str, folder: pathlib.Path, members: list[Member]) -> None:
    """Sums so small go up and down a tree, in which the fourth has to do with c alone. The first that it would ask for
    the state, and the one who makes the views, is a."""
    three_train(binary, folder, members)
    part('a', 'd')
    members.append(Member(binary, folder, 'd', f'{ADDRESSES["b"]}:4100'))
    cable.eventually('all four have the state', lambda: all(m.trains_with(4) for m in members))
    mend('a', 'd')


def tell(story: Callable[[str, pathlib.Path, list[Member]], None]) -> None:
    members: list[Member] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            story(sys.argv[1], pathlib.Path(folder), members)
        except AssertionError:
            for member in members:
                print(member.out.read_text()[-600:])
            raise
        finally:
            for member in members:
                member.process.kill()
                member.process.wait()


def main() -> int:
    try:
        lay()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f'skipped: network namespaces need root and ip(8): {error}')
        remove()
        return 77
    try:
        for story in (one_dead_link, a_newcomer_without_its_source):
            tell(story)
    finally:
        remove()
    return 0


if __name__ == '__main__':
    sys.exit(main())
