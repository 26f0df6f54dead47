# SPDX-License-Identifier: Apache-2.0
"""Goal: the parts that no guest is needed for. Method: values and bytes."""

import contextlib
import io
import os
import struct
import tempfile
import unittest
from unittest import mock

from tool import (cache, command_line, cpio, denied_calls, firmware, gtest_report, hmat,
                  installation, machine, presets, run, srat, topology)
from tool.errors import LabError


def domains_in_order(text):
    """The proximity domains of the SRAT's CPU entries, each once, in order."""
    data = srat.files(topology.parse(text))['SRAT.aml']
    place, order = 48, []
    while place < len(data) and data[place] == 0:
        domain = data[place + 2] | int.from_bytes(data[place + 9:place + 12], 'little') << 8
        if domain not in order:
            order.append(domain)
        place += data[place + 1]
    return order


class Topologies(unittest.TestCase):
    def test_every_preset_is_one(self):
        for name in presets.PRESETS:
            self.assertTrue(presets.find(name).nodes)

    def test_ids_follow_or_are_written(self):
        nodes = topology.parse('2c1g,4:0c512m,1c0m').nodes
        self.assertEqual([(node.id, node.cpus, node.memory_mib) for node in nodes],
                         [(0, 2, 1024), (4, 0, 512), (5, 1, 0)])

    def test_nonsense_is_refused_with_its_text(self):
        for text in ('', 'two-nodez', '2c', '1:2c1g,0:2c1g', '0c1g', '2c0m', '2c1g;colour=red',
                     '2c1g,2c1g;distances=10,20', '2c1g;pci=gpu@1', '2c1g;pci=gpu', '999:2c1g',
                     '3c1g;threads=2', '2c1g;pci=1:2@0', '2c1g;distances=a'):
            with self.subTest(text), self.assertRaises(LabError) as caught:
                presets.find(text)
            self.assertIn(text, str(caught.exception))

    def test_devices_keep_their_order_over_nodes(self):
        wanted = topology.parse('1c1g,1c1g;pci=gpu@1,gpu@0,nic@0,gpu@1,gpu@none')
        addresses = [slot.address for slot in machine.slots(wanted)]
        self.assertEqual(addresses[:4], sorted(addresses[:4]))
        self.assertEqual(len(set(addresses)), 5)


class Tables(unittest.TestCase):
    def test_bytes_of_a_table_add_up_to_zero(self):
        for files in (srat.files, hmat.files):
            for data in files(presets.find('hmat')).values():
                self.assertEqual(sum(data) & 255, 0)
                self.assertEqual(struct.unpack_from('<I', data, 4)[0], len(data))

    def test_domains_stand_in_the_order_of_ids(self):
        self.assertEqual(domains_in_order('2c1g,0c1g,2c1g'), [0, 1, 2])
        self.assertEqual(domains_in_order('1:2c1g,3:2c1g'), [1023, 0, 1022, 1])

    def test_all_memory_is_in_the_table_once(self):
        for text in ('2c512m,2c512m', '2c1g,2c1g,2c1g', '2c3g,2c0m,0c5g'):
            wanted = topology.parse(text)
            data = srat.files(wanted)['SRAT.aml']
            ranges, place = [], 48
            while place < len(data):
                if data[place] == 1:
                    ranges.append(struct.unpack_from('<QQ', data, place + 8))
                place += data[place + 1]
            legacy = 0x60000  # the old VGA window
            self.assertEqual(sum(size for _, size in ranges) + legacy, wanted.memory_mib << 20)
            for (start, size), (following, _) in zip(ranges, ranges[1:]):
                self.assertLessEqual(start + size, following)

    def test_archive_has_the_names_that_linux_looks_for(self):
        archive = firmware.archive(presets.find('hmat'))
        self.assertIn(b'kernel/firmware/acpi/SRAT.aml\0', archive)
        self.assertIn(b'kernel/firmware/acpi/HMAT.aml\0', archive)


class Archives(unittest.TestCase):
    def test_folders_come_first_and_names_once(self):
        archive = cpio.Archive()
        archive.add_bytes('/a/b/c', b'first')
        archive.add_bytes('a/b/c', b'second')
        data = archive.bytes()
        self.assertLess(data.index(b'a/b\0'), data.index(b'a/b/c\0'))
        self.assertIn(b'first', data)
        self.assertNotIn(b'second', data)
        self.assertEqual(len(data) % 4, 0)


class DeniedCalls(unittest.TestCase):
    def test_profiles_and_lists(self):
        self.assertEqual(denied_calls.job_entries('EPERM:mbind'), [('deny', '1 237')])
        self.assertEqual(len(denied_calls.job_entries('docker')), 2)
        for text in ('podman', 'EPERM:', 'EPERM:fork', 'EWHAT:mbind'):
            with self.assertRaises(LabError):
                denied_calls.job_entries(text)


class Reports(unittest.TestCase):
    def judge(self, status, *results):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            path = os.path.join(folder, 'report.json')
            if results:
                tests = ', '.join(f'{{"name": "T{i}", "status": "{ran}", "result": "{result}"}}'
                                  for i, (ran, result) in enumerate(results))
                cache.publish(path, f'{{"testsuites": [{{"name": "S", "testsuite": [{tests}]}}]}}'
                              .encode())
            return gtest_report.judge(status, {gtest_report.IN_GUEST: path})

    def test_skips_none_and_no_report_are_failures(self):
        done, skipped, off = ('RUN', 'COMPLETED'), ('RUN', 'SKIPPED'), ('NOTRUN', 'SUPPRESSED')
        self.assertEqual(self.judge(0, done), 0)
        self.assertEqual(self.judge(1, done), 1)
        self.assertEqual(self.judge(0, done, skipped), 1)
        self.assertEqual(self.judge(0, off), 1)
        self.assertEqual(self.judge(0), 1)
        self.assertEqual(self.judge(139), 139)


class MissingParts(unittest.TestCase):
    """A user may lack QEMU. Continuous integration may not."""

    def status(self, **environment):
        with mock.patch.dict(os.environ, {'NUMAPOOL_LAB_QEMU': 'no-such-qemu', 'CI': '',
                                          'NUMAPOOL_REQUIRE_LAB': '', **environment}), \
             contextlib.redirect_stderr(io.StringIO()) as said:
            status = command_line.main(['run', '--skip-when-missing', '--', 'true'])
        self.assertIn('no-such-qemu is not installed: run third_party/install lab', said.getvalue())
        return status

    def test_is_a_skip_for_a_user_and_a_failure_in_ci(self):
        self.assertEqual(self.status(), 77)
        self.assertEqual(self.status(CI='true'), 125)
        self.assertEqual(self.status(NUMAPOOL_REQUIRE_LAB='1'), 125)

    def test_a_kernel_that_is_not_there_is_named(self):
        with mock.patch.dict(os.environ, {'NUMAPOOL_LAB_KERNEL': '/no/such/kernel'}), \
             self.assertRaises(LabError) as caught:
            installation.kernel()
        self.assertIn('/no/such/kernel', str(caught.exception))


class OwnSkip(unittest.TestCase):
    def test_a_command_that_exits_77_has_failed(self):
        with mock.patch.object(run, 'run', return_value=77), \
             mock.patch.object(installation, 'require_all'), \
             contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(command_line.main(['run', '--skip-when-missing', '--', 'x']), 1)
            self.assertEqual(command_line.main(['run', '--', 'x']), 77)
