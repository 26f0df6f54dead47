# SPDX-License-Identifier: Apache-2.0
"""Tables of firmware. Linux takes those it finds in its first file system, below
kernel/firmware/acpi, in place of those that the firmware has: of one signature and OEM table id
the one with the higher revision counts."""

import struct

FOLDER = 'kernel/firmware/acpi'
QEMU_OEM_ID, QEMU_TABLE_ID, NEWER = b'BOCHS ', b'BXPC    ', 0x100


def table(signature, revision, body):
    """The head that all tables have, with a checksum that makes the sum of all bytes zero."""
    length = 36 + len(body)
    head = struct.pack('<4sIBB6s8sI4sI', signature.encode(), length, revision, 0, QEMU_OEM_ID,
                       QEMU_TABLE_ID, NEWER, b'NLAB', 1)
    data = bytearray(head + body)
    data[9] = -sum(data) & 255
    return bytes(data)
