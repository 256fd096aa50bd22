#!/usr/bin/env python3
"""Looks in the event logs of one group for what must never be there: `history.py DIR...`.

A log is what one process believed: that of each worker without a master, or the one of their master. Together
they must tell one history, as the simulation's checker asks of simulated ones:

- one view a number: whoever tells of view N names the same members and holders, and its holders the same step;
- views follow each other: in each log their numbers grow, and a later one begins at no earlier step;
- a minority never commits: of those who held view N more than half, or half with the oldest, are in view N+1 or
  asked to go (nothing of the kind is needed where a master issues the views);
- no step is committed in two views: what is told as kept or evaluated in view N is in view N+1.

The logs are of one founding, with `quorum: majority`. Where a master founds the group anew (`group_founded`), views are
numbered from 1 again, all of this holds within each generation, and
- generations follow each other, and each begins with a step that was kept, or with what the first began with.
"""
import collections
import json
import pathlib
import sys

COMMITTED = ('checkpoint_complete', 'evaluation_ended')  # Nobody tells of them before their step is.


class View:
    """All that the logs say of one number."""

    def __init__(self, members: list[str], holders: int) -> None:
        self.members, self.holders = members, members[:holders]
        self.step: int | None = None  # Where it begins, as its holders say.
        self.left: set[str] = set()  # Who is no longer in it, having asked to go.
        self.told: list[tuple[int, str]] = []  # Committed steps that were told of in it, and where.


class History:
    def __init__(self) -> None:
        self.views: dict[tuple[int, int], View] = {}  # By generation and number.
        self.faults: list[str] = []
        self.agreed = True  # By the members, and not issued by a master.

    def read(self, name: str, events: list[dict]) -> None:
        generation, number, me, last_told = 0, 0, None, collections.Counter()
        begins: set[int] = set()  # The steps that a generation may begin with.
        for event in events:
            kind = event['event']
            if kind in ('started', 'resumed'):
                me = event.get('worker', me)
            if kind == 'group_founded':  # A master's; what was trained since that checkpoint is trained again.
                self.agreed, last_told = False, collections.Counter()
                self.found(name, generation, event, begins)
                generation, number = event['generation'], 0
            if kind == 'view':
                if event['number'] <= number:
                    self.faults.append(f'{name}: view {event["number"]} after view {number}')
                number = event['number']
                self.enter(name, me, generation, event)
            if kind == 'worker_left' and (generation, event.get('view')) in self.views:
                self.views[generation, event['view']].left.add(event['worker'])
            if kind in COMMITTED:
                if event['step'] < last_told[kind]:
                    self.faults.append(f'{name}: {kind} of step {event["step"]} after one of {last_told[kind]}')
                last_told[kind] = event['step']
                if kind == 'checkpoint_complete':
                    begins.add(event['step'])
                if (generation, number) in self.views:
                    self.views[generation, number].told.append((event['step'], name))

    def found(self, name: str, before: int, event: dict, begins: set[int]) -> None:
        if event['generation'] != before + 1 and before > 0:
            self.faults.append(f'{name}: generation {event["generation"]} after generation {before}')
        if before > 0 and event['step'] not in begins:
            self.faults.append(f'{name}: generation {event["generation"]} begins with step {event["step"]}, '
                               f'which was never kept')
        begins.add(event['step'])

    def enter(self, name: str, me: str | None, generation: int, event: dict) -> None:
        members, number = event['members'].split(), event['number']
        view = self.views.setdefault((generation, number), View(members, event['holders']))
        if (view.members, view.holders) != (members, members[:event['holders']]):
            self.faults.append(f'{name}: view {number} of {members}, {event["holders"]} of them with the model; '
                               f'another log has {view.members}, {len(view.holders)}')
        # A master counts the steps of a generation, those in which nothing was trained too.
        step = event.get('step') if me in view.holders else event.get('group_step')
        if step is not None:
            if view.step not in (None, step):
                self.faults.append(f'{name}: view {number} begins at step {step}; another log has {view.step}')
            view.step = step

    def compare(self) -> list[str]:
        """All faults, once every log has been read."""
        step, since, last = 0, 0, 0
        for (generation, number), view in sorted(self.views.items()):
            if generation != last:
                step, since, last = 0, 0, generation
            if view.step is not None:
                if view.step < step:
                    self.faults.append(f'view {number} begins at step {view.step}, view {since} at step {step}')
                step, since = view.step, number
            if (generation, number + 1) in self.views:
                self.compare_two(number, view, self.views[generation, number + 1])
        return self.faults

    def compare_two(self, number: int, view: View, after: View) -> None:
        stay = [member for member in view.holders if member in after.members or member in after.left]
        enough = 2 * len(stay) > len(view.holders) or (2 * len(stay) == len(view.holders) and view.holders[0] in stay)
        if self.agreed and not enough:
            self.faults.append(f'view {number + 1} has {stay} of {view.holders}, who held view {number}: no majority')
        for step, name in view.told:
            if self.agreed and after.step is not None and step > after.step:
                self.faults.append(f'{name}: step {step} is committed in view {number}, '
                                   f'and view {number + 1} begins at step {after.step}')


def faults_of(logs: dict[str, list[dict]]) -> list[str]:
    history = History()
    for name, events in logs.items():
        history.read(name, events)
    return history.compare()


def read_log(directory: str) -> list[dict]:
    lines = (pathlib.Path(directory) / 'events.jsonl').read_text().splitlines()
    events = []
    for at, line in enumerate(lines):
        try:
            events.append(json.loads(line))
        except ValueError:
            if at + 1 < len(lines):  # The last may be half written by one that was killed.
                raise
    return events


def main(directories: list[str]) -> int:
    logs = {directory: read_log(directory) for directory in directories}
    faults = faults_of(logs)
    views = sum(event['event'] == 'view' for events in logs.values() for event in events)
    print('\n'.join(faults) or f'{views} views in {len(logs)} logs, one history')
    return 1 if faults or views == 0 else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
