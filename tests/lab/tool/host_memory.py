# SPDX-License-Identifier: Apache-2.0
"""Several labs at once must not take more memory than this machine has. A guest's memory becomes
real as the guest touches it, so what running guests may still touch counts as taken.

No list is kept, which a killed lab would leave wrong: running guests are found by their name in
/proc, whoever started them. Between looking and starting, a lab holds a lock on QEMU's file."""

import contextlib
import fcntl
import pathlib
import re
import sys
import time

from . import cache, installation

QEMU_OWN_MIB = 200  # translated code, devices
RESERVE_MIB = 256
NAME = 'numapool-lab-'
SAY_AFTER_S = 5


def name_arguments(memory_mib):
    return ['-name', f'{NAME}{memory_mib}MiB']


@contextlib.contextmanager
def admitted(memory_mib):
    """Waits until a guest of this size fits beside the running ones, or is alone, and keeps others
    from starting until it has."""
    begin = time.monotonic()
    said = False
    while True:
        with cache.locked(installation.qemu(), fcntl.LOCK_EX):
            promised = _promised_to_others_mib()
            if not promised or _available_mib() - sum(promised) >= _need_mib(memory_mib):
                yield
                return
        if not said and time.monotonic() - begin > SAY_AFTER_S:
            said = True
            print('lab: waiting until other guests leave enough memory', file=sys.stderr)
        time.sleep(0.2)


def _need_mib(memory_mib):
    return memory_mib + QEMU_OWN_MIB + RESERVE_MIB


def _promised_to_others_mib():
    """For each running guest, the memory that it may still touch."""
    promised = []
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            found = re.search(rf'\0-name\0{NAME}(\d+)MiB\0'.encode(),
                              (process / 'cmdline').read_bytes())
            if found:
                there = _sum_kib(process / 'status', 'RssAnon', 'RssShmem') // 1024
                promised.append(max(0, int(found[1]) + QEMU_OWN_MIB - there))
        except OSError:
            continue  # it has ended
    return promised


def _sum_kib(path, *names):
    lines = dict(line.split(':', 1) for line in path.read_text().splitlines() if ':' in line)
    return sum(int(lines[name].split()[0]) for name in names if name in lines)


def _available_mib():
    available = _sum_kib(pathlib.Path('/proc/meminfo'), 'MemAvailable') // 1024
    return min([available, *_cgroups_mib()])


def _cgroups_mib():
    """What the limits of this process's cgroups (version 2) leave, page cache not counted."""
    root = pathlib.Path('/sys/fs/cgroup')
    try:
        own = re.search(r'^0::/(.*)$', pathlib.Path('/proc/self/cgroup').read_text(), re.M)[1]
        group = root / own
        for folder in (group, *group.parents):
            limit = folder / 'memory.max'
            if limit.exists() and (text := limit.read_text().strip()) != 'max':
                used = int((folder / 'memory.current').read_text())
                cached = re.search(r'^inactive_file (\d+)', (folder / 'memory.stat').read_text(),
                                   re.M)
                yield (int(text) - used + int(cached[1])) >> 20
            if folder == root:
                return
    except (OSError, TypeError, ValueError):
        return
