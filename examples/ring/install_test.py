"""What is installed for training loops of others is all they need: the example in C and a few lines of C++
are built with nothing but pkg-config, and run."""

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


def main(cmake: str, build: str, cc: str, cxx: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)
        subprocess.run([cmake, '--install', build, '--component', 'group', '--prefix', here / 'prefix'],
                       check=True, stdout=subprocess.DEVNULL)
        library = here / 'prefix' / 'lib'
        os.environ['PKG_CONFIG_PATH'] = str(library / 'pkgconfig')
        flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'rubato-group'], check=True,
                               capture_output=True, text=True).stdout.split()
        flags.append(f'-Wl,-rpath,{library}')
        line = pathlib.Path(__file__).parent / 'line.c'
        subprocess.run([cc, line, '-o', here / 'line', *flags], check=True)
        trained = subprocess.run([here / 'line', '-v', '-n', '5'], check=True, capture_output=True, text=True)
        assert 'step 4: y = ' in trained.stdout, trained
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
