# SPDX-License-Identifier: Apache-2.0
"""The firmware's table of latencies and bandwidths (ACPI HMAT), ours in place of QEMU's, which
Linux rejects as a whole as soon as one node has no memory. Nothing in a guest is really slower."""

import struct

from . import acpi

# ns and GB/s to a node's own memory, to that of another with CPUs, and to that of one without.
LATENCIES = (80, 140, 250)
BANDWIDTHS = (200, 100, 40)
ACCESS_LATENCY, ACCESS_BANDWIDTH = 0, 3
NS_UNIT_PS, GBPS_UNIT_MBPS = 1000, 1024


def files(topology):
    latencies = _matrix(topology, 0, LATENCIES)
    bandwidths = _matrix(topology, 1, BANDWIDTHS)
    body = (struct.pack('<I', 0) + _attributes(topology, latencies) +
            _values(topology, ACCESS_LATENCY, NS_UNIT_PS, latencies) +
            _values(topology, ACCESS_BANDWIDTH, GBPS_UNIT_MBPS, bandwidths))
    return {'HMAT.aml': acpi.table('HMAT', 2, body)}


def _matrix(topology, place, defaults):
    if place < len(topology.hmat):
        return topology.hmat[place]
    own, other, without_cpus = defaults
    nodes = topology.nodes
    return [[own if i == j else other if nodes[j].cpus else without_cpus
             for j in range(len(nodes))] for i in range(len(nodes))]


def _initiators(topology):
    return [place for place, node in enumerate(topology.nodes) if node.cpus]


def _targets(topology):
    return [place for place, node in enumerate(topology.nodes) if node.memory_mib]


def _attributes(topology, latencies):
    """Which node with CPUs each memory belongs to."""
    initiators = _initiators(topology)
    entries = []
    for target in _targets(topology):
        nearest = min(initiators, key=lambda i: (i != target, latencies[i][target]))
        entries.append(struct.pack('<HHIHHIIIQQ', 0, 0, 40, 1, 0, nearest, target, 0, 0, 0))
    return b''.join(entries)


def _values(topology, kind, unit, matrix):
    initiators, targets = _initiators(topology), _targets(topology)
    cells = struct.pack(f'<{len(initiators)}I{len(targets)}I', *initiators, *targets)
    cells += struct.pack(f'<{len(initiators) * len(targets)}H',
                         *(matrix[i][t] for i in initiators for t in targets))
    cells += b'\0' * (-len(cells) % 4)
    head = struct.pack('<HHIBBBBIIIQ', 1, 0, 32 + len(cells), 0, kind, 0, 0, len(initiators),
                       len(targets), 0, unit)
    return head + cells
