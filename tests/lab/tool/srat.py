# SPDX-License-Identifier: Apache-2.0
"""The firmware's table of who is on which node (ACPI SRAT), ours in place of QEMU's.

Firmware numbers "proximity domains"; Linux gives node ids in the order in which the table first
names a domain, CPUs before memory. QEMU's own table would therefore move a node without CPUs to
the end, and cannot leave ids out. Ours names the domains in the order of the wanted ids:

- every node by an entry for a CPU; a node without CPUs by one for a CPU that does not exist;
- every id that is to be left out by such an entry for a domain that nothing else is in. Linux
  then counts that node as possible, and never brings it online.
"""

import struct

from . import acpi

MIB = 1 << 20
NO_SUCH_APIC_ID = 254  # the largest that is valid; no guest here has so many CPUs
FIRST_FILLER_DOMAIN = 1023  # downwards; Linux takes domains below 1024
ENABLED = 1

# Where the q35 machine puts memory: below the PCI window, around the old VGA one, above 4 GiB.
VGA_START, VGA_END = 0xa0000, 0x100000
LOW_END_SMALL, LOW_END_LARGE = 0xb0000000, 0x80000000
HIGH_START = 1 << 32


def files(topology):
    body = struct.pack('<IQ', 1, 0) + _cpus(topology) + _memory(topology)
    return {'SRAT.aml': acpi.table('SRAT', 3, body)}


def _cpus(topology):
    entries = []
    apic_ids = iter(_apic_ids(topology))
    wanted = {node.id: place for place, node in enumerate(topology.nodes)}
    filler = FIRST_FILLER_DOMAIN
    for node_id in range(max(wanted) + 1):
        if node_id in wanted:
            domain = wanted[node_id]
            own = [next(apic_ids) for _ in range(topology.nodes[domain].cpus)]
        else:
            domain, own, filler = filler, [], filler - 1
        entries += [_cpu(domain, apic_id) for apic_id in own or [NO_SUCH_APIC_ID]]
    return b''.join(entries)


def _cpu(domain, apic_id):
    high = (domain >> 8).to_bytes(3, 'little')
    return struct.pack('<BBBBIB3sI', 0, 16, domain & 255, apic_id, ENABLED, 0, high, 0)


def _apic_ids(topology):
    """The ids that QEMU gives to CPUs: socket, core and thread in fields of whole bits."""
    cores, threads = cores_per_socket(topology), topology.threads
    thread_bits, core_bits = (threads - 1).bit_length(), (cores - 1).bit_length()
    for cpu in range(sum(node.cpus for node in topology.nodes)):
        socket, in_socket = divmod(cpu, cores * threads)
        core, thread = divmod(in_socket, threads)
        yield socket << (thread_bits + core_bits) | core << thread_bits | thread


def cores_per_socket(topology):
    """One socket a node, so that a node's CPUs share their last cache and no others do: with all
    in one socket the kernel warns of a topology that makes no sense. Uneven nodes cannot be
    sockets; there each core is one."""
    counts = {node.cpus for node in topology.nodes if node.cpus}
    return counts.pop() // topology.threads if len(counts) == 1 else 1


def _memory(topology):
    low_end = LOW_END_SMALL if topology.memory_mib * MIB < LOW_END_SMALL else LOW_END_LARGE
    # Each piece of the guest's memory, counted from 0, and how far above that its addresses are.
    pieces = ((0, VGA_START, 0), (VGA_END, low_end, 0), (low_end, 1 << 62, HIGH_START - low_end))
    entries = []
    start = 0
    for domain, node in enumerate(topology.nodes):
        end = start + node.memory_mib * MIB
        for piece_start, piece_end, shift in pieces:
            first, last = max(start, piece_start), min(end, piece_end)
            if first < last:
                entries.append(struct.pack('<BBIHQQIIQ', 1, 40, domain, 0, first + shift,
                                           last - first, 0, ENABLED, 0))
        start = end
    return b''.join(entries)
