#!/usr/bin/env python3
"""history.py passes logs that tell one history, and names what is wrong with each of those that do not."""
import copy
import unittest

import history
import script_test


def view(number, members, holders, step):
    return {'event': 'view', 'number': number, 'members': members, 'holders': holders, 'step': step}


def issued(number, members, holders, step):
    return {'event': 'view', 'number': number, 'members': members, 'holders': holders, 'group_step': step}


def founded(generation, step):
    return {'event': 'group_founded', 'generation': generation, 'step': step}


def kept(step):
    return {'event': 'checkpoint_complete', 'step': step}


# Three workers; `c` is cut off after view 5, and comes back.
SOUND = {
    'a': [{'event': 'started', 'worker': 'a'}, view(1, 'a', 1, 0), view(3, 'a b', 2, 10), kept(20),
          view(5, 'a b c', 3, 30), kept(40), view(6, 'a b', 2, 41), kept(60), view(7, 'a b c', 2, 70)],
    'b': [{'event': 'started', 'worker': 'b'}, view(2, 'a b', 1, 0), view(3, 'a b', 2, 10),
          view(5, 'a b c', 3, 30), view(6, 'a b', 2, 41), view(7, 'a b c', 2, 70)],
    'c': [{'event': 'started', 'worker': 'c'}, view(4, 'a b c', 2, 0), view(5, 'a b c', 3, 30),
          {'event': 'waiting'}, {'event': 'worker_evicted', 'worker': 'c'}, view(7, 'a b c', 2, 33)],
}


class HistoryTest(unittest.TestCase):
    def setUp(self):
        self.logs = copy.deepcopy(SOUND)

    def expect_fault(self, *words):
        """One fault has these words; others may follow from the same plant."""
        faults = history.faults_of(self.logs)
        self.assertEqual(sum(all(word in fault for word in words) for fault in faults), 1, faults)

    def test_one_history_passes(self):
        self.assertEqual(history.faults_of(self.logs), [])

    def test_two_views_of_one_number(self):
        self.logs['c'].insert(3, view(6, 'a b c', 2, 41))
        self.expect_fault('c: view 6', 'another log has')

    def test_holders_who_begin_a_view_at_different_steps(self):
        self.logs['b'][4]['step'] = 40
        self.expect_fault('view 6 begins at step 40', 'another log has 41')

    def test_numbers_that_go_back(self):
        self.logs['b'].append(view(6, 'a b', 2, 41))
        self.expect_fault('b: view 6 after view 7')

    def test_steps_that_go_back(self):
        for name in 'ab':
            self.logs[name][-1]['step'] = 35
        self.expect_fault('view 7 begins at step 35, view 6 at step 41')

    def test_a_minority_that_goes_on(self):
        self.logs['c'][3:] = [view(6, 'c', 1, 31)]
        self.logs['a'][6:] = self.logs['b'][4:] = []
        self.expect_fault("view 6 has ['c'] of ['a', 'b', 'c']", 'no majority')

    def test_half_of_the_holders_with_the_oldest_are_enough_and_without_it_not(self):
        two = {'a': [{'event': 'started', 'worker': 'a'}, view(1, 'a b', 2, 5)],
               'b': [{'event': 'started', 'worker': 'b'}, view(1, 'a b', 2, 5)]}
        self.logs = copy.deepcopy(two)
        self.logs['a'].append(view(2, 'a', 1, 9))
        self.assertEqual(history.faults_of(self.logs), [])
        self.logs = copy.deepcopy(two)
        self.logs['b'].append(view(2, 'b', 1, 9))
        self.expect_fault('no majority')
        self.logs['b'].append({'event': 'worker_left', 'worker': 'a', 'view': 2})
        self.assertEqual(history.faults_of(self.logs), [])

    def test_one_that_is_cut_off_and_goes_on_in_its_old_view(self):
        self.logs['c'].insert(4, kept(44))
        self.expect_fault('c: step 44 is committed in view 5, and view 6 begins at step 41')

    def test_checkpoints_that_go_back(self):
        self.logs['a'].insert(8, kept(50))
        self.expect_fault('a: checkpoint_complete of step 50 after one of 60')

    def master(self):
        """Three workers, of whom two die; then the last, and the next group goes on from step 20."""
        self.logs = {'job': [founded(1, 0), issued(1, 'w-0 w-1 w-2', 3, 0), kept(20), issued(2, 'w-2', 1, 31),
                             founded(2, 20), issued(1, 'w-3', 1, 0), issued(2, 'w-3 w-4', 1, 25), kept(40)]}

    def test_a_master_issues_views_without_a_majority(self):
        self.master()
        self.assertEqual(history.faults_of(self.logs), [])

    def test_a_master_whose_numbers_go_back(self):
        self.master()
        self.logs['job'].append(issued(2, 'w-4', 1, 41))
        self.expect_fault('job: view 2 after view 2')

    def test_a_master_whose_steps_go_back(self):
        self.master()
        self.logs['job'].append(issued(3, 'w-4', 1, 24))
        self.expect_fault('view 3 begins at step 24, view 2 at step 25')

    def test_a_group_that_begins_with_what_was_never_kept(self):
        self.master()
        self.logs['job'].append(founded(3, 31))
        self.expect_fault('generation 3 begins with step 31')

    def test_a_generation_that_is_left_out(self):
        self.master()
        self.logs['job'].append(founded(4, 20))
        self.expect_fault('job: generation 4 after generation 2')


if __name__ == '__main__':
    script_test.main()
