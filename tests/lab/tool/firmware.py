# SPDX-License-Identifier: Apache-2.0
"""All tables of a topology, as the archive that stands before the first file system."""

from . import acpi, cpio, hmat, srat


def archive(topology):
    tables = srat.files(topology)
    if topology.hmat is not None:
        tables |= hmat.files(topology)
    result = cpio.Archive()
    for name, data in tables.items():
        result.add_bytes(f'{acpi.FOLDER}/{name}', data)
    return result.bytes()
