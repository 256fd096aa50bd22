#!/usr/bin/env python3
"""The documents tell the truth: every ```sh block of a page is run, in order, and every flag is described.

  tests/docs_test.py [DocsTest.test_readme ...]     with RUBATO_BUILD=build/release, the default

A page runs in a scratch folder that shows the project's own files, with the built binary on PATH and `set -eu`. A block marked
```sh beside is run while the block before it still trains, as in another terminal; one marked ```sh elsewhere needs what
is not here, and is not run. What would never end here is in INSTEAD.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import script_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get('RUBATO_BUILD', ROOT / 'build' / 'release')).resolve()
PAGES = ['README.md', 'CONTRIBUTING.md', *(f'docs/{page.name}' for page in sorted((ROOT / 'docs').glob('*.md')))]
INSTEAD = {
    './demo': './demo --rows 250000',  # The same, smaller.
    './check': './check --help',      # It runs this very test.
    # The benches work; what they measure wants a quiet machine.
    'bench/train/run --rounds 3 --records 150000': 'bench/train/run --rounds 1 --records 5000 --warmup 5000 --rows 20000',
    'bench/train/run --only log --rounds 5': 'bench/train/run --only log --rounds 1 --records 5000 --warmup 5000 --rows 20000',
    'bench/score/run --seconds 5': 'bench/score/run --seconds 0.3 --rows 5000',
    'bench/recovery/run --kills 20': 'bench/recovery/run --kills 1 --joins 1 --steps 2500',
    'build/release/tests/chaos_test': 'build/release/tests/chaos_test --gtest_list_tests',  # A test of its own.
}
PATIENCE_S = 600


def blocks(page):
    """(text, whether it runs beside the block before) of every ```sh block."""
    text = (ROOT / page).read_text()
    for marks, body in re.findall(r'^```sh(.*)\n((?:.*\n)*?)```$', text, re.MULTILINE):
        lines = [INSTEAD.get(line, line) for line in body.splitlines()]
        if marks.strip() != 'elsewhere':
            yield '\n'.join(lines) + '\n', marks.strip() == 'beside'


class Scratch:
    """A folder that looks like the project, but whatever is written lands here."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='rubato-docs.'))
        for entry in ROOT.iterdir():
            if entry.name in ('.git', 'build', 'demo-data', 'rubato-jobs'):
                continue
            if entry.name in ('demo', 'check'):
                shutil.copy(entry, self.path / entry.name)  # They go to the folder they are in.
            else:
                (self.path / entry.name).symlink_to(entry)
        (self.path / 'build').mkdir()
        (self.path / 'build' / 'release').symlink_to(BUILD)
        self.log = self.path / 'output.log'

    def start(self, script):
        env = dict(os.environ, PATH=f'{BUILD}/bin:{os.environ["PATH"]}')
        with self.log.open('a') as log:
            log.write(f'\n$ {script}')
            log.flush()
            return subprocess.Popen(['bash', '-euc', script], cwd=self.path, env=env, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, start_new_session=True)

    def wait_until_training(self, process):
        """Until a job in this folder has committed something; False if `process` ended before."""
        until = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < until:
            for file in self.path.glob('*jobs/*/processes.json'):
                shown = subprocess.run([BUILD / 'bin' / 'rubato', 'show', file.parent, '--json'], capture_output=True)
                job = json.loads(shown.stdout) if shown.returncode == 0 else {'state': 'starting'}
                if job['state'] == 'training' and job['records_committed'] > 0:
                    return True
            time.sleep(0.05)
        return False


class DocsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = Scratch()
        self.running = []
        self.addCleanup(shutil.rmtree, self.scratch.path, True)
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start(self, script):
        self.running.append(self.scratch.start(script))
        return self.running[-1]

    def expect_success(self, page, script, process):
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = f'nothing after {PATIENCE_S} s'
        if code != 0:
            tail = self.scratch.log.read_text()[-4000:]
            self.fail(f'{page}: a block ended with {code}:\n{script}\n--- output ends with:\n{tail}')

    def run_page(self, page):
        todo = list(blocks(page))
        environment = ''.join(line + '\n' for script, _ in todo for line in script.splitlines()
                              if line.startswith('export '))
        for number, (script, beside) in enumerate(todo):
            if beside:
                continue  # Was run with the one before.
            process = self.start(environment + script)
            if number + 1 < len(todo) and todo[number + 1][1]:
                companion = todo[number + 1][0]
                self.assertTrue(self.scratch.wait_until_training(process), f'{page}: nothing trains beside\n{companion}')
                self.expect_success(page, companion, self.start(environment + companion))
            self.expect_success(page, script, process)

    def test_readme(self):
        self.run_page('README.md')

    def test_commands(self):
        self.run_page('docs/commands.md')

    def test_other_pages(self):
        for page in PAGES:
            if page not in ('README.md', 'docs/commands.md'):
                with self.subTest(page):
                    self.run_page(page)


class FlagsTest(unittest.TestCase):
    def help(self, *command):
        return subprocess.run([BUILD / 'bin' / 'rubato', *command, '--help'], capture_output=True, text=True,
                              check=True).stdout

    def commands(self, *command):
        """Every command that has no commands below it, as a tuple of words."""
        found = re.search(r'^Subcommands:\n((?:  .*\n)+)', self.help(*command), re.MULTILINE)
        if not found:
            yield command
            return
        for name in re.findall(r'^  (\S+)', found.group(1), re.MULTILINE):
            yield from self.commands(*command, name)

    def test_every_flag_is_described(self):
        pages = [(ROOT / page).read_text() for page in PAGES if page.startswith('docs/')]
        missing = []
        for command in self.commands():
            name = ' '.join(('rubato', *command))
            about = ''.join(page for page in pages if name in page)
            options = self.help(*command).split('Examples:')[0]
            for flag in re.findall(r'^  (?:-\w,)?(--[a-z-]+)', options, re.MULTILINE):
                if flag != '--help' and not re.search(rf'{flag}\b(?!-)', about):
                    missing.append(f'{name} {flag}')
            if not about:
                missing.append(name)
        self.assertEqual(missing, [], 'not described in docs/')

    def test_every_link_leads_somewhere(self):
        designs = [f'docs/design/{page.name}' for page in (ROOT / 'docs/design').glob('*.md')]
        for page in [*PAGES, *designs]:
            for target in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', (ROOT / page).read_text()):
                self.assertTrue((ROOT / page).parent.joinpath(target).exists(), f'{page}: {target}')

    def test_the_map_names_what_is_there(self):
        text = (ROOT / 'docs/ARCHITECTURE.md').read_text()
        for path in re.findall(r'`([a-z_/]+\.(?:h|cc))`', text):
            found = (ROOT / path).exists() or list((ROOT / 'rubato').rglob(path))
            self.assertTrue(found, f'docs/ARCHITECTURE.md: {path}')


if __name__ == '__main__':
    script_test.main()
