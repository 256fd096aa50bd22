"""`run --check` fails for every aim that is missed, and says by how much; it reads figures that were printed before."""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).with_name('run')

load = {'mrows_s': 35, 'over_ps_lite': 2.1, 'server_cpu_ns_per_key': 29, 'client_cpu_ns_per_key': 9, 'p50_us': 300, 'p99_us': 900, 'of_bare_socket': 0.5}
wire = {f'{kind}_{keys}k_{load_name}': dict(load) for kind in ('pull', 'push') for keys in (1, 10, 100)
        for load_name in ('x1', 'x4', 'x4_two_clients')}
MET = {
    'table': {'rows': 10, 'adagrad_1_uniform': {'gather_of_limit': 0.61, 'update_of_limit': 0.7}},
    'growth': {'prepared': {'slowest_push_cpu_ms': 4.9, 'of_payload_most': 1.33}},
    'wire': {'rows': 10, 'unix_fp32_dim_16': wire},
    'log': {'log_adds': 0.04},
    'checkpoint': {'longest_hold_cpu_ms': 5},
    'recovery': {'log_bytes': 7e8, 'from_the_log_alone': {'seconds': 1.7}, 'from_a_checkpoint': {'seconds': 0.8}},
}


class RunTest(unittest.TestCase):
    def run_on(self, *reports, flags=('--check',)):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, report in enumerate(reports):
                files.append(pathlib.Path(folder, f'{number}.json'))
                files[-1].write_text(json.dumps(report), encoding='utf-8')
            done = subprocess.run([sys.executable, RUN, *flags, '--reports', *files], text=True, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_all_met(self):
        code, _, said = self.run_on({name: MET[name] for name in ('table', 'wire', 'log')},
                                    {name: MET[name] for name in ('growth', 'checkpoint', 'recovery')})
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count('met: '), 14)

    def test_each_miss_is_named(self):
        for case, path, value, words in [
                ('table', ('adagrad_1_uniform', 'gather_of_limit'), 0.3, 'aim >= 0.6, missed by 50%'),
                ('table', ('adagrad_1_uniform', 'update_of_limit'), 0.35, 'aim >= 0.7, missed by 50%'),
                ('growth', ('prepared', 'slowest_push_cpu_ms'), 10, 'aim <= 5, missed by 100%'),
                ('growth', ('prepared', 'of_payload_most'), 1.485, 'aim <= 1.35, missed by 10%'),
                ('wire', ('unix_fp32_dim_16', 'pull_10k_x4_two_clients', 'over_ps_lite'), 1, 'aim >= 2, missed by 50%'),
                ('wire', ('unix_fp32_dim_16', 'push_10k_x4', 'over_ps_lite'), 1.5, 'aim >= 2, missed by 25%'),
                ('wire', ('unix_fp32_dim_16', 'push_10k_x4_two_clients', 'server_cpu_ns_per_key'), 33, 'aim <= 30, missed by 10%'),
                ('log', ('log_adds',), 0.1, 'aim <= 0.05, missed by 100%'),
                ('checkpoint', ('longest_hold_cpu_ms',), 11, 'aim <= 10, missed by 10%'),
                ('recovery', ('from_a_checkpoint', 'seconds'), 3, 'aim <= 2, missed by 50%')]:
            report = copy.deepcopy(MET)
            place = report[case]
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = value
            code, _, said = self.run_on(report)
            self.assertEqual(code, 1, said)
            missed = [line for line in said.splitlines() if line.startswith('MISSED')]
            self.assertEqual(missed, [f'MISSED: {case} {".".join(path)}: {value:g}, {words}'])

    def test_a_figure_that_is_not_there_is_missed(self):
        code, _, said = self.run_on({'log': {}})
        self.assertEqual(code, 1)
        self.assertIn('MISSED: log log_adds: there is no such figure', said)

    def test_tables(self):
        code, printed, said = self.run_on({'wire': MET['wire']}, flags=('--table',))
        self.assertEqual(code, 0, said)
        self.assertIn('| 16 | 10k, 4, 2 | 35.0 | 29 | 9 | 300 | 900 | 0.50 | 35.0 | 29 | 9 | 300 | 900 | 0.50 |', printed)
        self.assertEqual(len(printed.splitlines()), 2 + 9)


if __name__ == '__main__':
    unittest.main()
