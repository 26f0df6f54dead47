# SPDX-License-Identifier: Apache-2.0
"""The kernel in the form that QEMU starts fastest.

A vmlinuz is a small real-mode program around a compressed ELF file. QEMU can start that ELF file by
itself ("PVH"), which spares the emulated CPU from decompressing it: 0.2 to 1.5 s a boot."""

import pathlib
import shutil
import struct
import subprocess
import sys

from . import cache, installation

ELF = b'\x7fELF'
UNPACKERS = {
    b'\x02\x21\x4c\x18': ['lz4', '-dc'],
    b'\x1f\x8b': ['gzip', '-dc'],
    b'\xfd7zX': ['xz', '-dc'],
    b'\x28\xb5\x2f\xfd': ['zstd', '-dc'],
    b'BZh': ['bzip2', '-dc'],
}
# Fields of the boot header, by Linux' Documentation/x86/boot.rst.
SETUP_SECTORS, PAYLOAD_OFFSET = 0x1f1, 0x248


def bootable():
    """The path of the ELF file, or of the vmlinuz as it is where that cannot be unpacked."""
    vmlinuz = installation.kernel()
    elf = cache.folder() / f'vmlinux-{cache.key(cache.identity(vmlinuz))}'
    if not elf.exists():
        data = _unpack(pathlib.Path(vmlinuz).read_bytes())
        if data is None:
            print(f'lab: {vmlinuz} cannot be unpacked, and boots slower', file=sys.stderr)
            return vmlinuz
        cache.publish(elf, data)
    return str(elf)


def _unpack(image):
    if image.startswith(ELF):
        return image
    offset, length = struct.unpack_from('<II', image, PAYLOAD_OFFSET)
    start = ((image[SETUP_SECTORS] or 4) + 1) * 512 + offset
    payload = image[start:start + length - 4]  # the last four bytes are the unpacked size
    for magic, command in UNPACKERS.items():
        if payload.startswith(magic) and shutil.which(command[0]):
            unpacked = subprocess.run(command, input=payload, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL).stdout
            return unpacked if unpacked.startswith(ELF) else None
    return None
