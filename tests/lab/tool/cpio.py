# SPDX-License-Identifier: Apache-2.0
"""Archives in the form that Linux unpacks as its first file system (cpio, "newc"). Several may
follow one another in one file."""

import os
import stat


class Archive:
    def __init__(self):
        self._parts = []
        self._names = set()

    def __contains__(self, name):
        return name.strip('/') in self._names

    def add(self, name, mode, data=b'', device=(0, 0)):
        """Adds an entry, and folders above it. Of two with one name the first stays."""
        name = name.strip('/')
        if not name or name in self._names:
            return
        parent = os.path.dirname(name)
        if parent and parent not in self._names:
            self.add(parent, stat.S_IFDIR | 0o755)
        self._names.add(name)
        self._append(len(self._names), name, mode, data, device)

    def add_folder(self, name, mode=0o755):
        self.add(name, stat.S_IFDIR | mode)

    def add_link(self, name, target):
        self.add(name, stat.S_IFLNK | 0o777, target.encode())

    def add_bytes(self, name, data, mode=0o644):
        self.add(name, stat.S_IFREG | mode, data)

    def add_copy(self, name, source):
        """Adds a file, folder (without what is in it) or link that this machine has."""
        status = os.lstat(source)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            self.add_link(name, os.readlink(source))
        elif stat.S_ISDIR(status.st_mode):
            self.add_folder(name, mode)
        elif stat.S_ISREG(status.st_mode):
            with open(source, 'rb') as file:
                self.add_bytes(name, file.read(), mode)

    def bytes(self):
        whole = Archive()
        whole._append(0, 'TRAILER!!!', 0, b'', (0, 0))
        return b''.join(self._parts + whole._parts)

    def _append(self, inode, name, mode, data, device):
        encoded = name.encode() + b'\0'
        numbers = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        entry = b'070701' + ''.join(f'{number:08x}' for number in numbers).encode() + encoded
        entry += b'\0' * (-len(entry) % 4)
        self._parts.append(entry + data + b'\0' * (-len(data) % 4))
