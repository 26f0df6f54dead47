# SPDX-License-Identifier: Apache-2.0
"""Goal: the machine inside is the one that was asked for. Method: boot every named topology, read
what the kernel says of it, and compare with the specification."""

import unittest

from lab_process import shell
from tool import machine, presets

# Prints lines of words, the first of which says what the line is about.
REPORT = r'''
cd /sys/devices/system/node
echo online $(cat online)
echo with_cpus $(cat has_cpu)
echo with_memory $(cat has_memory)
for node in node*; do
  echo cpus ${node#node} $(cat $node/cpulist)
  echo memory_kib ${node#node} $(awk '/MemTotal/ {print $4}' $node/meminfo)
  echo distances ${node#node} $(cat $node/distance)
  echo latency ${node#node} $(cat $node/access0/initiators/read_latency 2>/dev/null)
done
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
  echo siblings ${cpu##*cpu} $(cat $cpu/topology/thread_siblings_list)
  echo last_cache ${cpu##*cpu} $(cat $cpu/cache/index3/shared_cpu_list)
done
cd /sys/bus/pci/devices
for device in *; do
  echo ids $device $(cat $device/vendor $device/device $device/class)
  echo node $device $(cat $device/numa_node)
  echo local_cpus $device $(cat $device/local_cpulist)
done
'''
# Of a node's memory the kernel keeps this much for itself (of the first that has some, of others):
# its own image, its table of pages, and what it sets aside for each node that is possible.
KEPT_FIRST_MIB, KEPT_MIB, KEPT_FOR_A_POSSIBLE_NODE_MIB = 60, 16, 0.25
# Above 3 GiB in all the machine's memory has a hole for PCI, beside which more is lost.
KEPT_AT_HOLE_MIB = 70


def ranges(ids):
    """As the kernel writes a set of numbers."""
    ids = sorted(ids)
    firsts = [number for number in ids if number - 1 not in ids]
    lasts = [number for number in ids if number + 1 not in ids]
    return ','.join(str(a) if a == b else f'{a}-{b}' for a, b in zip(firsts, lasts))


class Machine(unittest.TestCase):
    """The tests are made below, one a named topology."""

    def check(self, name):
        # From the snapshot that the scenarios use. That it equals a boot is snapshot_test's matter.
        run = shell(REPORT, '--topology', name, '--snapshot')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.facts = {}
        for line in run.stdout.splitlines():
            about, *rest = line.split()
            if about in ('online', 'with_cpus', 'with_memory'):
                self.facts[about] = rest
            else:
                self.facts[about, rest[0]] = rest[1:]
        wanted = presets.find(name)
        self.check_nodes(wanted)
        self.check_memory(wanted)
        self.check_distances(wanted)
        self.check_cpus(wanted)
        self.check_devices(wanted)

    def check_nodes(self, wanted):
        there = [node for node in wanted.nodes if node.cpus or node.memory_mib]
        self.assertEqual(self.facts['online'], [ranges(node.id for node in there)])
        self.assertEqual(self.facts['with_cpus'], [ranges(node.id for node in there if node.cpus)])
        self.assertEqual(self.facts['with_memory'],
                         [ranges(node.id for node in there if node.memory_mib)])

    def check_memory(self, wanted):
        kept = KEPT_FIRST_MIB
        for node in wanted.nodes:
            if node.cpus or node.memory_mib:
                mib = int(self.facts['memory_kib', str(node.id)][0]) / 1024
                self.assertLessEqual(mib, node.memory_mib)
                if node.memory_mib:
                    self.assertGreater(mib, node.memory_mib - self.kept(wanted, kept))
                    kept = KEPT_MIB

    @staticmethod
    def kept(wanted, kept):
        kept += KEPT_FOR_A_POSSIBLE_NODE_MIB * wanted.nodes[-1].id
        return kept + (KEPT_AT_HOLE_MIB if wanted.memory_mib > 2800 else 0)

    def check_distances(self, wanted):
        for place, node in enumerate(wanted.nodes):
            if not node.cpus and not node.memory_mib:
                continue
            row = (wanted.distances[place] if wanted.distances else
                   [10 if other is node else 20 for other in wanted.nodes
                    if other.cpus or other.memory_mib])
            self.assertEqual(self.facts['distances', str(node.id)], [str(cell) for cell in row])
            latency = self.facts['latency', str(node.id)]
            if wanted.hmat is not None:
                self.assertEqual(latency, ['80' if node.cpus else '250'])

    def check_cpus(self, wanted):
        first = 0
        for node in wanted.nodes:
            cpus = range(first, first + node.cpus)
            first += node.cpus
            if not cpus and not node.memory_mib:
                continue
            self.assertEqual(self.facts['cpus', str(node.id)], [ranges(cpus)] if cpus else [])
            for cpu in cpus:
                core = cpu - cpu % wanted.threads
                self.assertEqual(self.facts['siblings', str(cpu)],
                                 [ranges(range(core, core + wanted.threads))])
                self.assertEqual(self.facts['last_cache', str(cpu)], [ranges(cpus)])

    def check_devices(self, wanted):
        all_cpus = range(sum(node.cpus for node in wanted.nodes))
        for slot in machine.slots(wanted):
            node_id = slot.device.node_id
            vendor, device, device_class = slot.device.ids
            self.assertEqual(self.facts['ids', slot.address],
                             [f'0x{vendor:04x}', f'0x{device:04x}', f'0x{device_class:06x}'])
            self.assertEqual(self.facts['node', slot.address],
                             ['-1' if node_id is None else str(node_id)])
            local = ([ranges(all_cpus)] if node_id is None else
                     self.facts['cpus', str(node_id)])
            self.assertEqual(self.facts['local_cpus', slot.address], local)


def _add(name):
    setattr(Machine, f'test_{name.replace("-", "_")}', lambda self: self.check(name))


for preset in presets.PRESETS:
    _add(preset)


class Hotplug(unittest.TestCase):
    SCRIPT = r"""
cd /sys/devices/system/node
for i in 1 2; do
  hotplug add 1 256
  echo $(cat online has_memory) $(awk '/MemTotal/ {print $4}' node1/meminfo)
  hotplug remove 1 256
  cat online
done
"""

    def test_memory_comes_and_goes(self):
        for options in ((), ('--snapshot',)):
            run = shell(self.SCRIPT, '--topology', 'hotplug', *options)
            self.assertEqual(run.stdout, '0-2 0-2 262144\n0,2\n' * 2, run.stderr)

    def test_memory_may_come_before_the_command(self):
        run = shell('cat /sys/devices/system/node/online', '--topology', 'hotplug', '--snapshot',
                    '--before', 'hotplug add 1 128')
        self.assertEqual(run.stdout, '0-2\n', run.stderr)

    def test_what_cannot_be_is_said(self):
        run = shell('echo unplug 1 128 >/.lab/host; echo plug 7 128 >/.lab/host; '
                    'echo rubbish >/.lab/host; sleep 1', '--topology', 'hotplug', '--snapshot')
        for said in ('node 1 has no 128 MiB', 'there is no node 7', "asks for 'rubbish'"):
            self.assertIn(said, run.stderr)
