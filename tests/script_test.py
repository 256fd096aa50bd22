"""Runs unittest cases as ctest runs GoogleTest programs: exit code, and a JSON report for tools/count_tests."""
import json
import os
import pathlib
import sys
import unittest


def main():
    program = unittest.main(module='__main__', exit=False, verbosity=2)
    result = program.result
    report = os.environ.get('GTEST_OUTPUT', '')  # "json:FOLDER/", as ./check sets it.
    if report.startswith('json:'):
        path = pathlib.Path(report.removeprefix('json:')) / f'{pathlib.Path(sys.argv[0]).stem}.json'
        path.parent.mkdir(parents=True, exist_ok=True)
        counts = {'tests': result.testsRun, 'failures': len(result.failures), 'errors': len(result.errors),
                  'disabled': len(result.skipped)}
        path.write_text(json.dumps(counts))
    sys.exit(0 if result.wasSuccessful() else 1)
