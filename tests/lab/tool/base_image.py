# SPDX-License-Identifier: Apache-2.0
"""What every guest has: process 1 (../guest), busybox under the names of its applets, and little in
/etc. Built once, and again when any of it changes."""

import pathlib
import stat
import subprocess
import tempfile

from . import cache, cpio, installation

GUEST = pathlib.Path(__file__).resolve().parents[1] / 'guest'
FOLDERS = ('dev', 'proc', 'sys', 'etc', 'bin', 'usr/bin', 'tmp', '.lab')
APPLETS = ('[ awk basename cat chmod chown cp cut date dd df dirname dmesg du echo env expr false '
           'find free grep head hexdump hostname id kill ln ls mkdir mknod mount mountpoint mv '
           'nproc od printf ps pwd readlink realpath rm rmdir sed seq sh sleep sort stat su tail '
           'tar taskset tee test timeout touch tr true umount uname uniq vi wc which xargs yes'
           ).split()
ETC = {
    'passwd': 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n',
    'group': 'root:x:0:\nnogroup:x:65534:\n',
    'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
}
CONSOLE = (5, 1)  # the device's numbers


def path():
    sources = sorted(GUEST.glob('*.[ch]')) + sorted(GUEST.glob('bin/*'))
    busybox = installation.busybox()
    made_of = [cache.identity(file) for file in (*sources, busybox, __file__)]
    image = cache.folder() / f'base-{cache.key(*made_of)}.cpio'
    if not image.exists():
        cache.publish(image, _build(busybox))
    return image


def _build(busybox):
    archive = cpio.Archive()
    for folder in FOLDERS:
        archive.add_folder(folder)
    archive.add('dev/console', stat.S_IFCHR | 0o600, device=CONSOLE)
    archive.add_bytes('init', _compile_init(), 0o755)
    archive.add_copy('bin/busybox', busybox)
    for program in GUEST.glob('bin/*'):
        archive.add_bytes(f'bin/{program.name}', program.read_bytes(), 0o755)
    for applet in APPLETS:
        archive.add_link(f'bin/{applet}', 'busybox')
    archive.add_link('usr/bin/env', '/bin/busybox')
    for name, text in ETC.items():
        archive.add_bytes(f'etc/{name}', text.encode())
    return archive.bytes()


def _compile_init():
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / 'init'
        subprocess.run([installation.compiler(), '-std=gnu11', '-O2', '-static', '-s',
                        '-D_GNU_SOURCE', '-Wall', '-Wextra', '-o', output,
                        *sorted(GUEST.glob('*.c'))], check=True)
        return output.read_bytes()
