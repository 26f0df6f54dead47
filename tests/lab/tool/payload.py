# SPDX-License-Identifier: Apache-2.0
"""What one guest has beside the base image: the command's file, the included files and folders,
the libraries of all of these, and the job (../guest/job.h)."""

import os
import shutil
import time

from . import base_image, cpio, libraries
from .errors import LabError

IN_GUEST = {f'/bin/{applet}' for applet in base_image.APPLETS} | {'/bin/busybox', '/usr/bin/env'}


def build(command, includes, job):
    """An archive. `includes` are SOURCE or SOURCE:NAME_IN_GUEST; `job` is a list of pairs."""
    payload = _Payload()
    for include in includes:
        source, _, name = include.partition(':')
        payload.include(source, name)
    arguments = payload.include_command(command)
    payload.add_libraries()
    entries = [('arg', argument) for argument in arguments] + job + [('time', int(time.time()))]
    text = b''.join(f'{key}={value}\0'.encode() for key, value in entries)
    payload.archive.add_bytes('.lab/job', text, 0o600)
    return payload.archive.bytes()


class _Payload:
    def __init__(self):
        self.archive = cpio.Archive()
        self._libraries = set()

    def include(self, source, name=''):
        path = source if os.path.exists(source) else shutil.which(source)
        if not path:
            raise LabError(f'there is no {source} to include')
        path = os.path.abspath(path)
        self._add_tree(path, os.path.abspath(name or path), os.path.realpath(path))

    def include_command(self, command):
        """Adds the command's own file where it is one of this machine's and not the guest's.
        Returns the command as the guest shall run it."""
        name, *arguments = command
        in_guest = name in base_image.APPLETS or name in IN_GUEST
        path = name if '/' in name else shutil.which(name)
        if in_guest or not path or not os.path.isfile(path):
            return command
        path = os.path.abspath(path)
        if path not in self.archive:
            self._add_tree(path, path, os.path.realpath(path))
        return [path, *arguments]

    def add_libraries(self):
        for library in sorted(self._libraries):
            # The loader opens this very name, so what a link points at is stored under it.
            with open(library, 'rb') as file:
                self.archive.add_bytes(library, file.read(), 0o755)

    def _add_tree(self, source, name, top):
        real = os.path.realpath(source)
        if os.path.islink(source) and real.startswith(top + '/'):
            self.archive.add_copy(name, source)  # within an included folder a link stays one
        elif os.path.isdir(real):
            self.archive.add_copy(name, real)
            for entry in sorted(os.listdir(source)):
                self._add_tree(f'{source}/{entry}', f'{name}/{entry}', top)
        elif os.path.isfile(real):
            self.archive.add_copy(name, real)
            self._libraries.update(libraries.of_program(real))
