"""Two network namespaces and a cable between them, to be pulled and plugged in again. Needs root and ip(8)."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable

SIDES = {'a': f'rubato-a-{os.getpid()}', 'b': f'rubato-b-{os.getpid()}'}


def ip(*words: str) -> None:
    subprocess.run(['ip', *words], check=True, capture_output=True)


def inside(side: str, words: list[str]) -> list[str]:
    """The command that runs `words` on one side."""
    return ['ip', 'netns', 'exec', SIDES[side], *words]


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Usually a second or two. On a busy machine the kernel alone may take a minute to see that a cable is back."""
    deadline = time.monotonic() + 150
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f'not within 150 s: {what}')
        time.sleep(0.05)


def has_carrier(side: str) -> bool:
    shown = subprocess.run(['ip', '-n', SIDES[side], 'link', 'show', 'cable'], check=True, capture_output=True, text=True)
    return 'LOWER_UP' in shown.stdout and 'state UP' in shown.stdout


def lay() -> None:
    for name in SIDES.values():
        ip('netns', 'add', name)
        ip('-n', name, 'link', 'set', 'lo', 'up')
    ip('link', 'add', 'cable', 'netns', SIDES['a'], 'type', 'veth', 'peer', 'name', 'cable', 'netns', SIDES['b'])
    for side, address in (('a', '10.231.77.1/24'), ('b', '10.231.77.2/24')):
        ip('-n', SIDES[side], 'addr', 'add', address, 'dev', 'cable')
        ip('-n', SIDES[side], 'link', 'set', 'cable', 'up')


def remove() -> None:
    if shutil.which('ip'):
        for name in SIDES.values():
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True, check=False)


def is_laid() -> bool:
    """Lays it, or says why a test cannot run here."""
    try:
        lay()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f'skipped: network namespaces need root and ip(8): {error}')
        remove()
        return False
    return True


def pull() -> None:
    ip('-n', SIDES['a'], 'link', 'set', 'cable', 'down')


def plug() -> None:
    ip('-n', SIDES['a'], 'link', 'set', 'cable', 'up')
    eventually('the cable is back', lambda: has_carrier('a') and has_carrier('b'))
