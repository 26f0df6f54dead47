# SPDX-License-Identifier: Apache-2.0
"""Goal: a guest that continues a snapshot is the guest that boots. Method: one report from both."""

import os
import shutil
import subprocess
import tempfile
import unittest

import lab_process
from lab_process import shell
from topology_test import REPORT

STATE = REPORT + r'''
cat /proc/cmdline
grep -E 'allowed|Uid|Gid|Cap|Seccomp|NoNewPrivs|Sig[BIC]' /proc/self/status
ulimit -a
cat /sys/kernel/mm/transparent_hugepage/enabled /sys/fs/cgroup/cgroup.controllers
cut -d ' ' -f 1-3 /proc/mounts
cat /sys/devices/system/node/node*/hugepages/*/nr_hugepages
cat /proc/sys/kernel/numa_balancing
'''


class Snapshot(unittest.TestCase):
    def test_equals_a_boot(self):
        self.maxDiff = None
        for name in ('four-nodes', 'four-gpus', 'sparse-63-64', 'hmat'):
            with self.subTest(name):
                booted = shell(STATE, '--topology', name)
                continued = shell(STATE, '--topology', name, '--snapshot')
                self.assertEqual((booted.returncode, continued.returncode), (0, 0))
                self.assertEqual(continued.stdout, booted.stdout)
                self.assertEqual(continued.stderr, booted.stderr)

    def test_runs_do_not_see_one_another(self):
        for _ in range(2):
            run = shell('ls /tmp/mark 2>/dev/null; touch /tmp/mark; '
                        'head -c 50000000 /dev/zero >/dev/shm/fill; echo clean', '--snapshot')
            self.assertEqual(run.stdout, 'clean\n', run.stderr)


class OwnCache(unittest.TestCase):
    """In a cache of its own, which a test may break."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {**os.environ, 'NUMAPOOL_LAB_CACHE': self.folder}

    def run_true(self):
        return shell('echo ran', '--topology', '1c128m', '--snapshot', env=self.environment)

    def test_a_broken_snapshot_costs_a_boot_and_not_the_run(self):
        self.assertEqual(self.run_true().returncode, 0)
        templates = os.path.join(self.folder, 'templates')
        broken = next(entry.path for entry in os.scandir(templates) if entry.is_dir())
        with open(f'{broken}/state', 'wb') as file:
            file.write(b'no state of anything')
        run = self.run_true()
        self.assertEqual((run.returncode, run.stdout), (0, 'ran\n'), run.stderr)
        self.assertIn('once more', run.stderr)

    def test_the_next_run_removes_what_a_killed_one_has_left(self):
        process = subprocess.Popen(
            [lab_process.LAB, 'run', '--topology', '1c128m', '--', 'sh', '-c', 'echo on; sleep 99'],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), 'on\n')
        process.kill()
        process.communicate()
        runs = os.path.join(self.folder, 'runs')
        self.assertEqual(len(os.listdir(runs)), 1)
        self.assertEqual(self.run_true().returncode, 0)
        self.assertEqual(os.listdir(runs), [])

    def test_prune_removes_it_all_and_the_next_run_makes_it_again(self):
        self.assertEqual(self.run_true().returncode, 0)
        subprocess.run([lab_process.LAB, 'prune'], env=self.environment, check=True)
        kept = [name for _, _, names in os.walk(self.folder) for name in names]
        self.assertEqual([name for name in kept if not name.endswith('.lock')], [])
        self.assertEqual(self.run_true().returncode, 0)
        self.assertEqual(os.listdir(os.path.join(self.folder, 'runs')), [])
