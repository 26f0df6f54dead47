# SPDX-License-Identifier: Apache-2.0
"""PCI functions with the vendor, device and class of our choice.

QEMU has a device whose far end is another process ("x-pci-proxy-dev"): the guest reads and writes
its configuration space through a socket. Here the other process is a thread of ours, which answers
from 4096 bytes. The guest's kernel finds a real PCI function, and its sysfs is the kernel's own.

Two limits: such a device cannot be saved, so a guest that is restored from a snapshot has it
plugged in afterwards; and from QEMU 8 on the device needs KVM. There, a harmless device of QEMU's
stands in, and the guest covers the files of its identity in sysfs (../guest/masked_pci.c).
"""

import array
import os
import socket
import struct
import threading

from . import installation

# Messages of QEMU's include/hw/remote/mpqemu-link.h.
SYNC_SYSMEM, RET, CONFIG_WRITE, CONFIG_READ, BAR_WRITE, BAR_READ, SET_IRQFD, DEVICE_RESET = range(8)
DRIVER, STAND_IN = 'x-pci-proxy-dev', 'edu'


def is_possible():
    return installation.qemu_major_version() < 8


class FakePci(threading.Thread):
    """One function. QEMU gets the descriptor `far_end`; start() answers what it asks."""

    def __init__(self, ids):
        super().__init__(daemon=True)
        self._near_end, self._far_end = socket.socketpair()
        self._space, self._writable = _configuration_space(*ids)

    @property
    def far_end(self):
        return self._far_end.fileno()

    def close_far_end(self):
        """Once QEMU has it; then this thread ends with QEMU."""
        self._far_end.close()

    def run(self):
        try:
            while self._answer_one():
                pass
        except OSError:
            pass

    def _answer_one(self):
        head, control, _, _ = self._near_end.recvmsg(16, socket.CMSG_SPACE(64))
        for _, _, data in control:  # the guest's memory, by descriptors: nothing here wants it
            for descriptor in array.array('i', data[:len(data) & ~3]):
                os.close(descriptor)
        if not head:
            return False
        head += self._receive(16 - len(head))
        command, size = struct.unpack('<i4xQ', head)
        data = self._receive(size)
        if command in (CONFIG_READ, CONFIG_WRITE):
            address, value, length = struct.unpack_from('<IIi', data)
            if command == CONFIG_WRITE:
                self._write(address, value.to_bytes(4, 'little')[:length])
                value = 0
            else:
                value = int.from_bytes(self._space[address:address + length], 'little')
            self._reply(value)
        elif command in (BAR_READ, BAR_WRITE, DEVICE_RESET):
            self._reply(0)
        return True

    def _receive(self, size):
        data = b''
        while len(data) < size:
            part = self._near_end.recv(size - len(data))
            if not part:
                raise OSError('QEMU is gone')
            data += part
        return data

    def _write(self, address, data):
        for place, byte in enumerate(data, address):
            mask = self._writable[place]
            self._space[place] = self._space[place] & ~mask & 255 | byte & mask

    def _reply(self, value):
        self._near_end.sendall(struct.pack('<i4xQQ', RET, 8, value))


def _configuration_space(vendor, device, device_class):
    """The space, and which of its bits the guest may write."""
    space, writable = bytearray(4096), bytearray(4096)
    status_has_capabilities, revision = 0x10, 0xa1
    struct.pack_into('<HHHHBBH', space, 0, vendor, device, 0, status_has_capabilities, revision,
                     device_class & 255, device_class >> 8)
    struct.pack_into('<HH', space, 0x2c, vendor, 1)  # subsystem
    space[0x34], space[0x3d] = 0x40, 1  # first capability, interrupt pin
    # PCI Express, 16 GT/s on 16 lanes.
    struct.pack_into('<BBHI4xI2xH', space, 0x40, 0x10, 0, 2, 0x8000, 0x104, 0x104)
    writable[4:6], writable[0x3c] = b'\x07\x05', 255  # command, interrupt line
    struct.pack_into('<I', writable, 0x10, 0xfff00000)  # one region, 1 MiB: fits a port's window
    return space, writable
