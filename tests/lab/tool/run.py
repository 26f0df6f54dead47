# SPDX-License-Identifier: Apache-2.0
"""One command in one guest: from the options to its exit status."""

import contextlib
import dataclasses
import os
import sys
import time

from . import (base_image, cache, denied_calls, fake_pci, firmware, gtest_report, hotplug, machine,
               payload, snapshot)
from .errors import LAB_FAILED, SIGNAL_BASE, TIMED_OUT, LabError
from .guest import GONE, Guest

AFTER_END_S = 120  # for fetching files and the kernel's log


@dataclasses.dataclass
class Options:
    """What ../README.md says of the command line's options of the same names."""
    topology: object
    command: list
    include: list = dataclasses.field(default_factory=list)
    env: list = dataclasses.field(default_factory=list)
    before: list = dataclasses.field(default_factory=list)
    fetch: list = dataclasses.field(default_factory=list)
    seccomp: str | None = None
    uid: int | None = None
    memlock: str | None = None
    cpus: str | None = None
    mems: str | None = None
    memory_max: str | None = None
    timeout: float = 120
    boot_timeout: float = 240
    kernel_log: bool = False
    snapshot: bool = False
    gtest: bool = False
    times: bool = False


class NotStarted(LabError):
    """The guest did not get as far as the command: that says nothing about the command."""


def run(options):
    """The exit status. A guest that did not start is tried once more, without a snapshot."""
    if options.gtest:
        gtest_report.arrange(options)
    wanted = _fetched_names(options)
    packed = payload.build(options.command, options.include, _job(options, wanted))
    try:
        return _run_once(options, packed, wanted, options.snapshot)
    except NotStarted as error:
        print(f'lab: {error}; trying once more', file=sys.stderr)
    return _run_once(options, packed, wanted, False)


def _fetched_names(options):
    """Name in the guest -> name here."""
    names = {}
    for text in options.fetch:
        in_guest, _, here = text.partition(':')
        names[os.path.abspath(in_guest)] = os.path.abspath(here or os.path.basename(in_guest))
    return names


def _job(options, fetched):
    entries = [('cwd', os.getcwd())]  # so that relative names mean the same
    entries += [('env', text) for text in _told(options.topology) + options.env]
    entries += [('before', text) for text in options.before]
    entries += [('fetch', name) for name in fetched]
    entries += [('mask', text) for text in machine.masked(options.topology)]
    for key, value in (('uid', options.uid), ('memlock', options.memlock),
                       ('cpuset.cpus', options.cpus), ('cpuset.mems', options.mems),
                       ('memory.max', options.memory_max)):
        if value is not None:
            entries.append((key, value))
    if options.seccomp:
        entries += denied_calls.job_entries(options.seccomp)
    if options.kernel_log:
        entries.append(('kernel-log', 1))
    if options.snapshot and _fake_slots(options.topology):
        entries.append(('wait-pci', len(_fake_slots(options.topology))))
    return entries


def _told(topology):
    """So that a test can tell a machine that is not what it asked for."""
    def ids(nodes):
        return ','.join(str(node.id) for node in nodes)
    return [f'NUMAPOOL_LAB_NODES_WITH_CPUS={ids(n for n in topology.nodes if n.cpus)}',
            f'NUMAPOOL_LAB_NODES_WITH_MEMORY={ids(n for n in topology.nodes if n.memory_mib)}']


def _fake_slots(topology):
    if not fake_pci.is_possible():
        return []
    return [slot for slot in machine.slots(topology) if slot.device.ids]


def _run_once(options, packed, fetched, from_snapshot):
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(cache.run_folder())
        start = _restore if from_snapshot else _boot
        guest = stack.enter_context(start(options, packed, folder, stack))
        session = _Session(options, guest, fetched)
        status = session.follow()
        if options.times:
            started = session.started or time.monotonic()
            print(f'lab: command started after {started - begin:.2f} s, '
                  f'all done after {time.monotonic() - begin:.2f} s', file=sys.stderr)
        return status


def _boot(options, packed, folder, _):
    topology = options.topology
    initrd = folder / 'initrd'
    with open(initrd, 'wb') as file:
        file.write(firmware.archive(topology))
        file.write(base_image.path().read_bytes())
        file.write(packed)
    fakes = [fake_pci.FakePci(slot.device.ids) for slot in _fake_slots(topology)]
    # QEMU passes the memory to a fake device's far end by a descriptor, so there must be one.
    kind = 'memfd,share=on' if fakes else 'ram'
    arguments = machine.arguments(
        topology, initrd,
        lambda domain, mib: f'memory-backend-{kind},id=memory{domain},size={mib}M', fakes)
    guest = Guest(arguments, folder, topology.memory_mib,
                  descriptors=[fake.far_end for fake in fakes])
    for fake in fakes:
        fake.start()
        fake.close_far_end()
    return guest


def _restore(options, packed, folder, stack):
    template = stack.enter_context(
        snapshot.template(options.topology, base_image.path(), options.boot_timeout))
    file = folder / 'payload'
    file.write_bytes(packed)
    fakes = [(slot.bus, fake_pci.FakePci(slot.device.ids))
             for slot in _fake_slots(options.topology)]
    try:
        guest = snapshot.restore(template, options.topology, file, folder, fakes)
    except LabError as error:
        raise NotStarted(str(error)) from error
    for _, fake in fakes:
        fake.close_far_end()
    return guest


class _Session:
    """Passes on what a guest sends."""

    def __init__(self, options, guest, fetched):
        self.started = None
        self._options = options
        self._guest = guest
        self._fetched = fetched
        self._arrived = set()
        self._hotplug = hotplug.Hotplug(options.topology, guest)
        self._status = None
        self._deadline = time.monotonic() + options.boot_timeout

    def follow(self):
        while True:
            frame = self._guest.frame(self._deadline)
            if frame is None:
                return self._out_of_time()
            if frame == GONE:
                return self._gone()
            kind, data = frame
            if kind == 'Q':
                return self._final_status()
            self._receive(kind, data)

    def _receive(self, kind, data):
        if kind == 'O':
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif kind in 'EK':
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
        elif kind == 'S':
            self.started = time.monotonic()
            self._deadline = self.started + self._options.timeout
        elif kind == 'X':
            wait_status = int(data.decode().partition('=')[2])
            self._status = os.waitstatus_to_exitcode(wait_status)
            self._deadline = time.monotonic() + AFTER_END_S
        elif kind == 'B':
            self._status = None
            self.started = self.started or time.monotonic()  # trying again would not help
            raise LabError(data.decode(errors='replace').rstrip())
        elif kind == 'H':
            self._hotplug.obey(data.decode())
        elif kind == 'L':
            print(f'lab: {data.decode(errors="replace").rstrip()}', file=sys.stderr)
        elif kind in 'FD':
            self._store(kind, data)

    def _store(self, kind, data):
        name, _, content = data.partition(b'\0')
        name = name.decode()
        for in_guest, here in self._fetched.items():
            if name == in_guest or name.startswith(in_guest + '/'):
                self._arrived.add(in_guest)
                path = here + name[len(in_guest):]
                if kind == 'D':
                    os.makedirs(path, exist_ok=True)
                else:
                    cache.publish(path, content)

    def _final_status(self):
        if self._status is None:
            return LAB_FAILED
        status = self._status if self._status >= 0 else SIGNAL_BASE - self._status
        missing = set(self._fetched) - self._arrived
        if self._options.gtest:
            return gtest_report.judge(status, self._fetched)
        if missing and status == 0:
            raise LabError(f'the guest has no {", ".join(sorted(missing))} to fetch')
        return status

    def _out_of_time(self):
        if self._status is not None:
            raise LabError('the guest did not send its files')
        if self.started is None:
            self._guest.show_logs()
            raise NotStarted(f'the guest did not start the command within '
                             f'{self._options.boot_timeout:g} s')
        print(f'lab: timed out: the command ran for {self._options.timeout:g} s', file=sys.stderr)
        self._guest.show_logs()
        return TIMED_OUT

    def _gone(self):
        self._guest.show_logs()
        if self.started is None:
            raise NotStarted('the guest ended before it started the command')
        raise LabError('the guest died')
