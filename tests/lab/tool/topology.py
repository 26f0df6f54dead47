# SPDX-License-Identifier: Apache-2.0
"""Which machine a guest sees: nodes, CPUs, memory, distances, devices. Written as a short text:

    2c512m,2c512m                 two nodes, each with 2 CPUs and 512 MiB; ids 0 and 1
    2c512m,0c512m                 node 1 has memory only ("0c"); "2c0m" is a node with CPUs only
    0:2c512m,64:2c512m            nodes 0 and 64
    2c512m,0c0m                   node 1 is empty, but may be given memory later (hotplug)

and after it, each after a semicolon:

    distances=10,20/20,10         one row a node, in the order in which the nodes are written
    threads=2                     CPUs come as pairs of threads of one core
    hmat                          latencies and bandwidths, of which the kernel makes tiers
    hmat=LATENCIES+BANDWIDTHS     in ns and GB/s, rows as for distances
    pci=gpu@1,nic@0,edu@none      devices and their nodes, in the order of their PCI addresses.
                                  gpu and nic are functions with NVIDIA's and Mellanox's ids; also
                                  VENDOR:DEVICE:CLASS in hex; any other name is a device of
                                  QEMU's. Those on no node come first
    hotplug=1g                    room for memory that is plugged in later
"""

import dataclasses
import re

from .errors import LabError

# Debian's 6.1 is built for 1024 nodes, boots with an id of 384, and panics at boot with one of 511.
LARGEST_NODE_ID = 384
DEVICE_IDS = {
    'gpu': (0x10de, 0x2330, 0x030200),  # NVIDIA H100, "3D controller"
    'nic': (0x15b3, 0x101d, 0x020700),  # Mellanox ConnectX-6, "Infiniband controller"
}


@dataclasses.dataclass(frozen=True)
class Node:
    id: int
    cpus: int
    memory_mib: int


@dataclasses.dataclass(frozen=True)
class Device:
    """A PCI device. `ids` (vendor, device, class) are of a faked one; else `name` is QEMU's."""
    name: str
    ids: tuple | None
    node_id: int | None


@dataclasses.dataclass(frozen=True)
class Topology:
    text: str
    nodes: tuple
    distances: tuple | None = None
    threads: int = 1
    hmat: tuple | None = None  # matrices: none, latencies, or latencies and bandwidths
    devices: tuple = ()
    hotplug_mib: int = 0

    @property
    def memory_mib(self):
        return sum(node.memory_mib for node in self.nodes)

    @property
    def fake_devices(self):
        return [device for device in self.devices if device.ids]

    def domain(self, node_id):
        """A node's place in the order in which they are written: the number that QEMU and the
        firmware know it by ("proximity domain"). srat.py makes Linux call it `node_id`."""
        for place, node in enumerate(self.nodes):
            if node.id == node_id:
                return place
        raise LabError(f"topology '{self.text}': there is no node {node_id}")


def parse(text):
    head, *options = text.split(';')
    values = {'text': text, 'nodes': _parse_nodes(text, head)}
    for option in options:
        name, _, value = option.strip().partition('=')
        if name not in _OPTIONS:
            raise LabError(f"topology '{text}': there is no option '{name}'")
        field, read = _OPTIONS[name]
        try:
            values[field] = read(value)
        except ValueError as error:
            raise LabError(f"topology '{text}': {name}: {error}") from error
    topology = Topology(**values)
    _check(topology)
    return topology


def _parse_nodes(text, head):
    nodes = []
    next_id = 0
    for part in head.split(','):
        match = re.fullmatch(r'(?:(\d+):)?(\d+)c(\d+)([mg])', part.strip().lower())
        if not match:
            raise LabError(f"topology '{text}': '{part}' is no node; one is written 2c512m")
        node_id = int(match[1]) if match[1] else next_id
        if node_id < next_id or node_id > LARGEST_NODE_ID:
            raise LabError(f"topology '{text}': node {node_id} is out of order or too large")
        nodes.append(Node(node_id, int(match[2]), int(match[3]) * (1024 if match[4] == 'g' else 1)))
        next_id = node_id + 1
    return tuple(nodes)


def _parse_size(value):
    match = re.fullmatch(r'(\d+)([mg])', value.lower())
    if not match:
        raise ValueError(f"'{value}' is no size; one is written 512m or 1g")
    return int(match[1]) * (1024 if match[2] == 'g' else 1)


def _parse_matrix(value):
    return tuple(tuple(int(cell) for cell in row.split(',')) for row in value.split('/'))


def _parse_hmat(value):
    return tuple(_parse_matrix(matrix) for matrix in value.split('+')) if value else ()


def _parse_devices(value):
    devices = []
    for part in value.split(','):
        name, separator, node = part.strip().rpartition('@')
        if not separator or not (node == 'none' or node.isdigit()):
            raise ValueError(f"'{part}' is no device; one is written gpu@1 or gpu@none")
        ids = DEVICE_IDS.get(name)
        if ':' in name:
            ids = tuple(int(number, 16) for number in name.split(':'))
            if len(ids) != 3:
                raise ValueError(f"'{name}' is not VENDOR:DEVICE:CLASS")
        devices.append(Device(name, ids, None if node == 'none' else int(node)))
    return tuple(devices)


_OPTIONS = {
    'distances': ('distances', _parse_matrix),
    'threads': ('threads', int),
    'hmat': ('hmat', _parse_hmat),
    'pci': ('devices', _parse_devices),
    'hotplug': ('hotplug_mib', _parse_size),
}


def _check(topology):
    def require(condition, what):
        if not condition:
            raise LabError(f"topology '{topology.text}': {what}")

    count = len(topology.nodes)
    for matrix in (topology.distances, *(topology.hmat or ())):
        require(matrix is None or [len(row) for row in matrix] == [count] * count,
                f'a matrix must have {count} rows of {count} numbers')
    require(topology.hmat is None or len(topology.hmat) <= 2, 'hmat takes at most two matrices')
    require(any(node.cpus for node in topology.nodes), 'no node has a CPU')
    require(any(node.memory_mib for node in topology.nodes), 'no node has memory')
    require(topology.threads in (1, 2), 'threads is 1 or 2')
    require(all(node.cpus % topology.threads == 0 for node in topology.nodes),
            'a node cannot have half a core')
    for device in topology.devices:
        if device.node_id is not None:
            topology.domain(device.node_id)
