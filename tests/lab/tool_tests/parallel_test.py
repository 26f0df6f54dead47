# SPDX-License-Identifier: Apache-2.0
"""Goal: labs at once do not disturb one another, nor take more memory than there is. Method: start
several; where they meet is the making of a snapshot, the cache, and the host's memory."""

import concurrent.futures
import os
import shutil
import tempfile
import time
import unittest
from unittest import mock

import lab_process
from lab_process import guests_of, shell
from tool import host_memory


class AtOnce(unittest.TestCase):
    def test_four_make_and_use_one_snapshot(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        environment = {**os.environ, 'NUMAPOOL_LAB_CACHE': folder}

        def one(number):
            return shell(f'echo {number}', '--topology', '1c128m,1c128m', '--snapshot',
                         env=environment)

        with concurrent.futures.ThreadPoolExecutor() as threads:
            runs = list(threads.map(one, range(4)))
        self.assertEqual([run.stdout for run in runs], [f'{number}\n' for number in range(4)],
                         [run.stderr for run in runs])
        self.assertEqual([run.stderr for run in runs], [''] * 4)
        templates = [entry for entry in os.scandir(f'{folder}/templates') if entry.is_dir()]
        self.assertEqual(len(templates), 1)

    def test_two_boot_side_by_side(self):
        first = lab_process.start('--topology', '1c128m', '--', 'sh', '-c', 'echo on; sleep 1000')
        try:
            self.assertEqual(first.stdout.readline(), 'on\n')
            self.assertEqual(shell('echo two', '--topology', '1c128m').stdout, 'two\n')
            self.assertIsNone(first.poll())
        finally:
            first.terminate()
            first.communicate()


class Memory(unittest.TestCase):
    def test_what_a_running_guest_may_still_touch_is_counted(self):
        process = lab_process.start('--topology', '1c777m', '--', 'sh', '-c', 'echo on; sleep 1000')
        try:
            self.assertEqual(process.stdout.readline(), 'on\n')
            self.assertEqual(len(guests_of(process.pid)), 1)
            promised = [mib for mib in host_memory._promised_to_others_mib() if 500 < mib < 977]
            self.assertTrue(promised)
        finally:
            process.terminate()
            process.communicate()

    def admit(self, others, available):
        """How often it had to look before a guest of 1000 MiB was admitted."""
        looked = []

        def look():
            looked.append(1)
            return others if len(looked) < 3 else []

        with mock.patch.object(host_memory, '_promised_to_others_mib', look), \
             mock.patch.object(host_memory, '_available_mib', lambda: available), \
             mock.patch.object(time, 'sleep'), \
             host_memory.admitted(1000):
            return len(looked)

    def test_a_guest_waits_for_room_or_to_be_alone(self):
        self.assertEqual(self.admit([500], 2000), 1)  # fits
        self.assertEqual(self.admit([600], 2000), 3)  # waits until the others have ended
        self.assertEqual(self.admit([], 10), 1)       # alone it is let through
