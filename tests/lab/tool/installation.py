# SPDX-License-Identifier: Apache-2.0
"""Where QEMU, the kernel and busybox are on this machine."""

import os
import pathlib
import platform
import re
import shutil
import subprocess

from . import cache
from .errors import LabError, Missing

UNPACKED = cache.REPOSITORY / 'build' / 'third_party' / 'lab'
VERSION = r'QEMU emulator version (\d+)'
ADVICE = 'run third_party/install lab'


def qemu():
    """The emulator's path; NUMAPOOL_LAB_QEMU names another."""
    name = os.environ.get('NUMAPOOL_LAB_QEMU', 'qemu-system-x86_64')
    path = shutil.which(name)
    if not path:
        raise Missing(f'{name} is not installed: {ADVICE}')
    return path


def qemu_major_version():
    """Cached, since asking starts a program with fifty libraries."""
    path = qemu()
    note = cache.folder() / f'qemu-version-{cache.key(cache.identity(path))}'
    if not note.exists():
        said = subprocess.run([path, '--version'], stdout=subprocess.PIPE, check=False).stdout
        if not re.search(VERSION.encode(), said):
            raise LabError(f'{path} is no QEMU')
        cache.publish(note, said)
    return int(re.search(VERSION, note.read_text())[1])


def kernel():
    """The newest cloud kernel, ours before the system's; NUMAPOOL_LAB_KERNEL names another."""
    chosen = os.environ.get('NUMAPOOL_LAB_KERNEL')
    if chosen:
        if not os.access(chosen, os.R_OK):
            raise Missing(f'there is no kernel {chosen} (NUMAPOOL_LAB_KERNEL)')
        return chosen
    for place, pattern in ((UNPACKED, 'vmlinuz-*'), ('/boot', 'vmlinuz-*cloud-amd64')):
        found = [str(path) for path in pathlib.Path(place).glob(pattern)
                 if os.access(path, os.R_OK)]
        if found:
            return max(found, key=_by_version)
    raise Missing(f'there is no cloud kernel: {ADVICE}')


def _by_version(name):
    return [int(number) for number in re.findall(r'\d+', os.path.basename(name))]


def busybox():
    """A static busybox."""
    unpacked = UNPACKED / 'busybox'
    if unpacked.exists():
        return str(unpacked)
    path = shutil.which('busybox')
    if path and _is_static(path):
        return path
    raise Missing(f'there is no static busybox: {ADVICE}')


def _is_static(path):
    ldd = subprocess.run(['ldd', path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return ldd.returncode != 0


def compiler():
    """What builds the guest's process 1."""
    for name in ('gcc', 'cc', 'clang'):
        path = shutil.which(name)
        if path:
            return path
    raise Missing('there is no C compiler: run third_party/install core')


def require_all():
    """Raises Missing for the first thing that is not there."""
    for find in (qemu, kernel, busybox, compiler):
        find()
    if platform.machine() != 'x86_64':
        raise Missing(f'the lab runs x86-64 programs, and this machine is {platform.machine()}')
