"""What is installed for training loops of others is all they need: the commands of README.md are run as they
stand there, and a few more lines of C and C++ are built with nothing but pkg-config."""

import os
import pathlib
import subprocess
import sys
import tempfile

SAYS_WHERE = """
#include <cstdio>
#include "rubato/adapters/ring/elastic_group.h"
int main() {
  const auto group = rubato::ElasticGroup::Open({});
  if (!group.ok()) return 1;
  std::puts((*group)->address().c_str());
}
"""

NEWER = """
#include <stdio.h>
#include "rubato/adapters/ring/elastic_group_c.h"
int main(void) {
  struct { rubato_group_options known; long added; } newer = {RUBATO_GROUP_OPTIONS_INIT, 0};
  newer.known.size = sizeof(newer);
  newer.known.microbatches = 1;
  rubato_group* group = rubato_group_open(&newer.known);
  if (group == NULL) return 1;
  rubato_group_close(group);
  newer.added = 1;
  if (rubato_group_open(&newer.known) != NULL) return 2;
  puts(rubato_group_error(NULL));
  return 0;
}
"""


def commands() -> str:
    """The block of README.md that installs, builds and runs, word for word."""
    text = (pathlib.Path(__file__).parent / 'README.md').read_text()
    block = text[text.index('    prefix='):]
    return block[:block.index('\n\n')]


def main(cmake: str, build: str, cc: str, cxx: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)
        # A clone, and tools under the names that people know them by.
        (here / 'build').mkdir()
        (here / 'build' / 'release').symlink_to(build)
        (here / 'examples').symlink_to(pathlib.Path(__file__).resolve().parent.parent)
        (here / 'bin').mkdir()
        (here / 'bin' / 'cmake').symlink_to(cmake)
        (here / 'bin' / 'cc').symlink_to(cc)
        os.environ.update(HOME=scratch, PATH=f'{here / "bin"}:{os.environ["PATH"]}')
        for unset in ('LD_LIBRARY_PATH', 'PKG_CONFIG_PATH'):
            os.environ.pop(unset, None)
        trained = subprocess.run(['bash', '-euc', commands()], cwd=here, capture_output=True, text=True)
        assert trained.returncode == 0, trained
        assert 'step 50: y = ' in trained.stdout and 'step 100: y = ' in trained.stdout, trained
        assert trained.stdout.count('step 50: ') == 1, ('the second run went on from step 50', trained)
        os.environ['PKG_CONFIG_PATH'] = str(here / 'rubato' / 'lib' / 'pkgconfig')
        flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'rubato-group'], check=True,
                               capture_output=True, text=True).stdout.split()
        (here / 'newer.c').write_text(NEWER)
        subprocess.run([cc, here / 'newer.c', '-o', here / 'newer', *flags], check=True)
        refused = subprocess.run([here / 'newer'], check=True, capture_output=True, text=True)
        assert 'of which this library knows the first' in refused.stdout, refused
        (here / 'where.cc').write_text(SAYS_WHERE)
        subprocess.run([cxx, '-std=c++20', here / 'where.cc', '-o', here / 'where', *flags], check=True)
        said = subprocess.run([here / 'where'], check=True, capture_output=True, text=True)
        assert said.stdout.startswith('127.0.0.1:'), said


if __name__ == '__main__':
    main(*sys.argv[1:])
