# SPDX-License-Identifier: Apache-2.0
"""Memory that is plugged into a running guest, as the guest itself asks (../guest/bin/hotplug)."""

import sys

from .errors import LabError


class Hotplug:
    def __init__(self, topology, guest):
        self._topology = topology
        self._guest = guest
        self._plugged = []  # (node id, MiB, QEMU's name)
        self._count = 0

    def obey(self, lines):
        """`plug NODE MIB` or `unplug NODE MIB` each. The guest sees for itself what came of it."""
        for line in lines.splitlines():
            try:
                what, node_id, mib = line.split()
                {'plug': self._plug, 'unplug': self._unplug}[what](int(node_id), int(mib))
            except (KeyError, ValueError):
                print(f"lab: the guest asks for '{line}'", file=sys.stderr)
            except LabError as error:
                print(f'lab: {error}', file=sys.stderr)

    def _plug(self, node_id, mib):
        domain = self._topology.domain(node_id)
        self._count += 1
        name = f'plugged{self._count}'
        self._guest.ask('object-add', qom_type='memory-backend-ram', id=f'{name}.memory',
                        size=mib << 20)
        self._guest.ask('device_add', driver='pc-dimm', id=name, memdev=f'{name}.memory',
                        node=domain)
        self._plugged.append((node_id, mib, name))

    def _unplug(self, node_id, mib):
        for entry in self._plugged:
            if entry[:2] == (node_id, mib):
                self._guest.ask('device_del', id=entry[2])
                self._plugged.remove(entry)
                return
        raise LabError(f'node {node_id} has no {mib} MiB that were plugged in')
