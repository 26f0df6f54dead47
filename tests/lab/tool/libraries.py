# SPDX-License-Identifier: Apache-2.0
"""Which shared libraries a program needs."""

import os
import re
import subprocess
import sys

from . import cache

ELF = b'\x7fELF'
# glibc loads it by name when a thread is cancelled or exits, which no list of a program's says.
ALWAYS = '/lib/x86_64-linux-gnu/libgcc_s.so.1'


def of_program(path):
    """Their paths, under the names by which the loader looks for them. Cached."""
    with open(path, 'rb') as file:
        if file.read(4) != ELF:
            return []
    note = cache.folder() / 'libraries' / cache.key(cache.identity(path))
    if note.exists():
        found = note.read_text().split('\n')
        if all(os.path.exists(library) for library in found if library):
            return [library for library in found if library]
    found = _ask_loader(path)
    cache.publish(note, '\n'.join(found).encode())
    return found


def _ask_loader(path):
    said = subprocess.run(['ldd', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout
    found = re.findall(r'(/\S+) \(0x', said)
    for line in said.splitlines():
        if 'not found' in line:
            print(f'lab: {path}: {line.strip()}', file=sys.stderr)
    if found and ALWAYS not in found and os.path.exists(ALWAYS):
        found.append(ALWAYS)
    return found
