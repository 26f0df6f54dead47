# SPDX-License-Identifier: Apache-2.0
"""Goal: what a command did in its guest is what the lab's caller sees. Method: commands that end in
every way, in guests that continue a snapshot: that these are as good is snapshot_test's matter."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import lab_process
from lab_process import guests_of, is_running, lab, shell

SNAPSHOT = '--snapshot'


class Outputs(unittest.TestCase):
    def test_they_stay_apart_and_whole(self):
        run = shell('seq 1 20000; seq 20001 20100 >&2', SNAPSHOT)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, ''.join(f'{number}\n' for number in range(1, 20001)))
        self.assertEqual(run.stderr, ''.join(f'{number}\n' for number in range(20001, 20101)))

    def test_bytes_are_not_touched(self):
        run = subprocess.run(
            [lab_process.LAB, 'run', SNAPSHOT, '--', 'printf', r'\245\000\r\n\377'],
            stdout=subprocess.PIPE, check=True, timeout=lab_process.LIMIT_S)
        self.assertEqual(run.stdout, b'\xa5\x00\r\n\xff')

    def test_output_comes_while_the_command_runs(self):
        process = lab_process.start(SNAPSHOT, '--', 'sh', '-c', 'echo first; sleep 1000')
        try:
            self.assertEqual(process.stdout.readline(), 'first\n')
        finally:
            process.terminate()
            process.communicate()

    def test_what_a_daemon_holds_open_does_not_keep_the_lab(self):
        run = shell('sleep 1000 & echo done', SNAPSHOT)
        self.assertEqual((run.returncode, run.stdout), (0, 'done\n'))

    def test_a_closed_output_ends_it(self):
        process = lab_process.start(SNAPSHOT, '--', 'yes')
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(lab_process.LIMIT_S), 128 + signal.SIGPIPE)
        process.stderr.close()


class ExitStatus(unittest.TestCase):
    def test_is_the_commands(self):
        for status in (0, 1, 3, 126, 255):
            self.assertEqual(shell(f'exit {status}', SNAPSHOT).returncode, status)

    def test_says_the_signal(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS):
            self.assertEqual(shell(f'kill -{int(number)} $$', SNAPSHOT).returncode, 128 + number)

    def test_127_where_there_is_no_such_command(self):
        run = lab(SNAPSHOT, '--', 'no-such-command')
        self.assertEqual(run.returncode, 127)
        self.assertIn('no-such-command', run.stderr)

    def test_124_when_it_ran_too_long(self):
        run = shell('echo before; sleep 1000', SNAPSHOT, '--timeout', '5')
        self.assertEqual((run.returncode, run.stdout), (124, 'before\n'))
        self.assertIn('timed out', run.stderr)

    def test_125_when_the_lab_is_used_wrongly(self):
        for arguments, said in ((('--topology', '2c', '--', 'true'), "'2c' is no node"),
                                (('--include', 'no/such/file', '--', 'true'), 'no/such/file'),
                                (('--seccomp', 'podman', '--', 'true'), "'podman' is none of"),
                                (('--topology', 'two-nodes'), 'no command')):
            run = lab(*arguments)
            self.assertEqual(run.returncode, 125, run.stderr)
            self.assertIn(said, run.stderr)

    def test_125_when_the_surroundings_cannot_be_had(self):
        for options in (('--before', 'echo why; false'), ('--mems', '7'), ('--memory-max', 'much')):
            run = lab(SNAPSHOT, *options, '--', 'echo', 'ran')
            self.assertEqual((run.returncode, run.stdout), (125, ''), run.stderr)
        self.assertIn('memory.max = much', run.stderr)

    def test_125_when_the_guest_dies(self):
        run = shell('echo c >/proc/sysrq-trigger', SNAPSHOT)
        self.assertEqual(run.returncode, 125)
        self.assertIn('Kernel panic', run.stderr)
        self.assertIn('the guest died', run.stderr)
        self.assertNotIn('once more', run.stderr)  # the command had started

    def test_125_when_the_emulator_does_not_start(self):
        run = lab('--', 'true', env={**os.environ, 'NUMAPOOL_LAB_QEMU': 'false'})
        self.assertEqual(run.returncode, 125)
        self.assertIn('false is no QEMU', run.stderr)


class GoogleTest(unittest.TestCase):
    def run_tests(self, pattern):
        program = os.environ['NUMAPOOL_LAB_SKIPPING']  # ctest sets it
        return lab(SNAPSHOT, '--gtest', '--', program, f'--gtest_filter={pattern}')

    def test_a_skipped_test_is_a_failure(self):
        run = self.run_tests('*.Skips:*.Passes')
        self.assertEqual(run.returncode, 1)
        self.assertIn('Example.Skips was skipped, in a guest that was booted for it', run.stderr)

    def test_others_end_as_they_do(self):
        self.assertEqual(self.run_tests('*.Passes').returncode, 0)
        self.assertEqual(self.run_tests('*.Fails').returncode, 1)
        self.assertEqual(self.run_tests('*.Dies').returncode, 128 + signal.SIGABRT)

    def test_to_run_none_is_a_failure(self):
        run = self.run_tests('No.Such')
        self.assertEqual(run.returncode, 1)
        self.assertIn('not one test ran', run.stderr)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_included_ones_are_there_with_their_modes(self):
        (self.path / 'below').mkdir()
        (self.path / 'below' / 'text').write_text('hello')
        (self.path / 'below' / 'link').symlink_to('text')
        (self.path / 'run-me').write_text('#!/bin/sh\necho $1')
        (self.path / 'run-me').chmod(0o755)
        run = shell('cat below/link /elsewhere; readlink below/link; ./run-me it', SNAPSHOT,
                    '--include', 'below', '--include', 'below/text:/elsewhere',
                    '--include', 'run-me', cwd=self.path)
        self.assertEqual(run.stdout, 'hellohellotext\nit\n', run.stderr)

    # Seen with a checkout below /tmp: its folders came with the modes of the payload's.
    def test_the_folder_for_temporary_files_stays_everybodys(self):
        (self.path / 'text').write_text('hello')
        run = shell('cat text; touch /tmp/mine', SNAPSHOT, '--uid', '65534',
                    '--include', f'{self.path}/text', cwd=self.path)
        self.assertEqual((run.returncode, run.stdout), (0, 'hello'), run.stderr)

    def test_a_program_has_its_libraries(self):
        run = lab(SNAPSHOT, '--', '/usr/bin/getconf', 'PAGESIZE')
        self.assertEqual((run.returncode, run.stdout), (0, '4096\n'), run.stderr)

    def test_fetched_ones_come_back(self):
        run = shell('mkdir -p out/empty; seq 100000 >out/numbers; echo x >single; exit 4', SNAPSHOT,
                    '--fetch', 'out', '--fetch', 'single:renamed', cwd=self.path)
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertEqual((self.path / 'renamed').read_text(), 'x\n')
        self.assertEqual(len((self.path / 'out' / 'numbers').read_text().split()), 100000)
        self.assertTrue((self.path / 'out' / 'empty').is_dir())

    def test_one_that_is_not_there_is_a_failure(self):
        run = lab(SNAPSHOT, '--fetch', 'nothing', '--', 'true', cwd=self.path)
        self.assertEqual(run.returncode, 125)
        self.assertIn('nothing', run.stderr)


class Surroundings(unittest.TestCase):
    def test_user_limit_and_variables(self):
        run = shell('id -u; ulimit -l; echo $COLOUR; pwd', SNAPSHOT, '--uid', '65534',
                    '--memlock', '65536', '--env', 'COLOUR=green')
        self.assertEqual(run.stdout.split(), ['65534', '64', 'green', os.getcwd()], run.stderr)

    def test_cgroup(self):
        run = shell('grep _allowed_list /proc/self/status; cat /sys/fs/cgroup/job/memory.max',
                    SNAPSHOT, '--cpus', '0-1', '--mems', '1', '--memory-max', '67108864')
        self.assertEqual(run.stdout.split(), ['Cpus_allowed_list:', '0-1', 'Mems_allowed_list:',
                                              '1', '67108864'], run.stderr)

    def test_commands_before_run_as_root_and_are_heard(self):
        run = shell('cat /sys/kernel/mm/transparent_hugepage/enabled', SNAPSHOT, '--uid', '65534',
                    '--before', 'echo never >/sys/kernel/mm/transparent_hugepage/enabled',
                    '--before', 'id -u')
        self.assertIn('[never]', run.stdout)
        self.assertEqual(run.stderr, 'lab: 0\n')

    def test_the_clock_is_right(self):
        run = lab(SNAPSHOT, '--', 'date', '+%s')
        self.assertLess(abs(int(run.stdout) - time.time()), 30)

    def test_kernel_log(self):
        run = lab(SNAPSHOT, '--kernel-log', '--', 'true')
        self.assertIn('Linux version', run.stderr)


class Ending(unittest.TestCase):
    """However a lab ends, its emulator ends too."""

    def end_by(self, number):
        process = lab_process.start(SNAPSHOT, '--', 'sh', '-c', 'echo on; sleep 1000')
        self.assertEqual(process.stdout.readline(), 'on\n')
        guests = guests_of(process.pid)
        self.assertEqual(len(guests), 1)
        process.send_signal(number)
        process.communicate(timeout=60)
        deadline = time.monotonic() + 30
        while is_running(guests[0]) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(is_running(guests[0]))
        return process.returncode

    def test_by_signals(self):
        self.assertEqual(self.end_by(signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertEqual(self.end_by(signal.SIGINT), 128 + signal.SIGINT)
        self.assertEqual(self.end_by(signal.SIGHUP), 128 + signal.SIGHUP)

    def test_by_kill(self):
        self.assertEqual(self.end_by(signal.SIGKILL), -signal.SIGKILL)
