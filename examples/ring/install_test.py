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
        (here / 'where.cc').write_text(SAYS_WHERE)
        subprocess.run([cxx, '-std=c++20', here / 'where.cc', '-o', here / 'where', *flags], check=True)
        said = subprocess.run([here / 'where'], check=True, capture_output=True, text=True)
        assert said.stdout.startswith('127.0.0.1:'), said


if __name__ == '__main__':
    main(*sys.argv[1:])
