#!/usr/bin/env python3
"""tools/lint finds what it promises to find: each test plants one breach in a small tree and looks for its name."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import script_test

LINT = pathlib.Path(__file__).resolve().parent.parent / 'tools' / 'lint'


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='rubato-lint.')
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.plant('rubato/base/README.md', '# base\n')
        self.plant('rubato/base/clock.h', '#include "absl/time/time.h"\nint Answer();\n')

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        readme = target.parent / 'README.md'
        if path.startswith('rubato/') and not readme.exists():
            readme.write_text('# a folder\n')

    def lint(self):
        run = subprocess.run([sys.executable, LINT, '--root', self.root], capture_output=True, text=True)
        return run.returncode, run.stdout

    def expect_breach(self, *words):
        code, out = self.lint()
        self.assertEqual(code, 1, out)
        self.assertEqual(len(out.splitlines()), 1, out)
        for word in words:
            self.assertIn(word, out)

    def expect_clean(self):
        self.assertEqual(self.lint(), (0, ''))

    def test_a_clean_tree_passes(self):
        self.expect_clean()

    def test_this_tree_passes(self):
        run = subprocess.run([sys.executable, LINT], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, ''))

    def test_an_arrow_that_points_up(self):
        self.plant('rubato/base/up.cc', '\n#include "rubato/master/master.h"\n')
        self.expect_breach('rubato/base/up.cc:2:', 'base/ must not include rubato/master/master.h')

    def test_an_arrow_that_points_down_is_fine(self):
        self.plant('rubato/master/down.cc', '#include "rubato/tasks/ledger.h"\n')
        self.expect_clean()

    def test_a_folder_outside_the_layers(self):
        self.plant('rubato/attic/old.h', 'int Old();\n')
        self.expect_breach('rubato/attic', 'no place in the layers')

    def test_foreign_headers_stay_in_their_rooms(self):
        rooms = {'torch/torch.h': 'rubato/adapters/torch', 'grpcpp/grpcpp.h': 'rubato/adapters/grpc',
                 'asio/io_context.hpp': 'rubato/adapters/posix', 'yaml-cpp/yaml.h': 'rubato/adapters/yaml',
                 'sys/socket.h': 'rubato/adapters/posix', 'CLI/CLI.hpp': 'rubato/cli'}
        for header, room in rooms.items():
            with self.subTest(header):
                self.plant(f'{room}/inside.cc', f'#include <{header}>\n')
                self.expect_clean()
                self.plant('rubato/worker/outside.cc', f'#include <{header}>\n')
                self.expect_breach('rubato/worker/outside.cc:1:', f'<{header}> belongs in', room)
                (self.root / 'rubato/worker/outside.cc').unlink()

    def test_json_is_written_where_no_byte_can_break_it(self):
        self.plant('rubato/base/json_text.h', 'return document.dump(1);\n')
        self.expect_clean()
        self.plant('rubato/cli/show.cc', '\nout << json.dump() << "\\n";\n')
        self.expect_breach('rubato/cli/show.cc:2:', 'JsonText()')

    def test_no_clock_chance_or_thread_in_the_core(self):
        words = ['absl::Now()', 'std::chrono::steady_clock::now()', 'sleep(1)', 'std::random_device seed',
                 'getenv("HOME")', 'std::thread runner']
        for word in words:
            with self.subTest(word):
                self.plant('rubato/tasks/late.cc', f'\n\nauto x = {word};\n')
                self.expect_breach('rubato/tasks/late.cc:3:', 'in the core')

    def test_adapters_comments_and_tests_may_name_the_clock(self):
        self.plant('rubato/adapters/posix/clock.cc', 'auto now = absl::Now();\n')
        self.plant('rubato/tasks/quiet.cc', '// Never absl::Now().\n')
        self.plant('rubato/tasks/quiet_test.cc', 'auto now = absl::Now();\n')
        self.expect_clean()

    def test_a_file_too_long(self):
        self.plant('rubato/tasks/long.cc', 'int x;\n' * 650)
        self.expect_breach('rubato/tasks/long.cc:', '651 lines')

    def test_a_function_too_long(self):
        body = '  x += 1;\n' * 69
        self.plant('rubato/tasks/ok.cc', 'void Fits(int x) {\n' + body[10:] + '}\n')
        self.expect_clean()
        self.plant('rubato/tasks/long.cc', '\nvoid Long(int x) {\n' + body + '}\n')
        self.expect_breach('rubato/tasks/long.cc:2:', 'a function of 71 lines')

    def test_a_line_too_wide(self):
        self.plant('rubato/tasks/wide.h', f'// {"x" * 100}\n')
        self.expect_breach('rubato/tasks/wide.h:1:', '103 columns')

    def test_a_folder_without_readme(self):
        self.plant('rubato/tasks/task.h', 'int Task();\n')
        (self.root / 'rubato/tasks/README.md').unlink()
        self.expect_breach('rubato/tasks:1:', 'no README.md')


if __name__ == '__main__':
    script_test.main()
