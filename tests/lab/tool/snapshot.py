# SPDX-License-Identifier: Apache-2.0
"""Guests that are booted once and then continued many times.

A template is a guest that stopped just before it would look for its command. Its memory is in
files, one a node; the rest of its state, 300 KiB, is another file. A guest that continues maps the
memory files as private copies: it starts in 0.2 s, shares what it does not change, and changes
nothing for others. Its command comes by another way (../guest/fw_cfg.h).

Copies share what was random in the template, address layout above all. A template belongs to this
QEMU, kernel, image and command line: its name is made of all of them."""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time

from . import cache, fake_pci, firmware, installation, machine
from .errors import LabError
from .guest import GONE, Guest

LIMIT_BYTES = 3 << 30  # of all templates; the longest unused go first
IGNORE_SHARED = [{'capability': 'x-ignore-shared', 'state': True}]  # memory files are not copied


@contextlib.contextmanager
def template(topology, base_image, boot_timeout_s):
    """The folder of a template, made where there is none, and kept while in use."""
    name = cache.key(*machine.arguments(topology, 'initrd', _memory('folder', 'share'), None),
                     cache.identity(installation.qemu()), base_image,
                     firmware.archive(topology).hex())
    templates = cache.folder() / 'templates'
    templates.mkdir(exist_ok=True)
    path = templates / name
    lock = templates / f'{name}.lock'
    lock.touch()
    with cache.locked(lock, fcntl.LOCK_SH) as descriptor:
        while not (path / 'state').exists():  # again, if it was removed between the locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not (path / 'state').exists():  # nobody made it meanwhile
                _make(topology, base_image, path, boot_timeout_s)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            _remove_unused(templates)
        os.utime(path)
        yield path


def _memory(folder, how):
    return lambda domain, mib: _memory_object(domain, mib, f'{folder}/memory{domain}', how)


def _memory_object(domain, mib, path, how):
    return f'memory-backend-file,id=memory{domain},size={mib}M,mem-path={path},{how}'


def _make(topology, base_image, path, boot_timeout_s):
    shutil.rmtree(path, ignore_errors=True)
    folder = tempfile.mkdtemp(dir=path.parent, prefix=f'{path.name}.new-')
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        initrd = f'{folder}/initrd'
        with open(initrd, 'wb') as file:
            file.write(firmware.archive(topology) + base_image.read_bytes())
        # In memory as long as the guest writes to it: each page that is written to a mapped file
        # waits for the file system, which may be busy for minutes.
        memory = {domain: stack.enter_context(open(os.memfd_create(f'memory{domain}'), 'r+b'))
                  for domain, node in enumerate(topology.nodes) if node.memory_mib}
        arguments = machine.arguments(
            topology, initrd, lambda domain, mib: _memory_object(
                domain, mib, f'/proc/self/fd/{memory[domain].fileno()}', 'share=on'), None)
        payload = ['-fw_cfg', f'name={machine.PAYLOAD},file={initrd}']  # any file: it is not read
        guest = stack.enter_context(
            Guest(arguments + payload, folder, topology.memory_mib,
                  descriptors=[file.fileno() for file in memory.values()]))
        _wait_until_ready(guest, time.monotonic() + boot_timeout_s)
        _save(guest, f'{folder}/state', time.monotonic() + boot_timeout_s)
        for domain, file in memory.items():
            _copy_without_zeros(file, f'{folder}/memory{domain}')
        os.rename(folder, path)


def _wait_until_ready(guest, deadline):
    while True:
        frame = guest.frame(deadline)
        if frame is None or frame == GONE:
            guest.show_logs()
            raise LabError('the template did not boot')
        if frame[0] == 'R':
            return


def _save(guest, path, deadline):
    guest.ask('stop')
    guest.ask('migrate-set-capabilities', capabilities=IGNORE_SHARED)
    guest.ask('migrate-set-parameters', max_bandwidth=1 << 40)
    guest.ask('migrate', uri=f'exec:cat > {path}.part')
    while (status := guest.ask('query-migrate').get('status')) != 'completed':
        if status in ('failed', 'cancelled') or time.monotonic() > deadline:
            raise LabError(f'the template could not be saved: {status}')
        time.sleep(0.01)
    os.rename(f'{path}.part', path)


def _copy_without_zeros(source, path):
    """Where the guest wrote nothing, or zeros, the copy is sparse."""
    chunk_size = 1 << 14
    zeros = bytes(chunk_size)
    with open(path, 'wb') as copy:
        copy.truncate(os.fstat(source.fileno()).st_size)
        for start, end in _written(source.fileno()):
            for place in range(start, end, chunk_size):
                chunk = os.pread(source.fileno(), min(chunk_size, end - place), place)
                if chunk != zeros:
                    os.pwrite(copy.fileno(), chunk, place)


def _written(descriptor):
    """The parts of a sparse file that were written."""
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # none from there on
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _remove_unused(templates):
    """Keeps all templates together below the limit. Those in use are locked, and stay."""
    for unfinished in templates.glob('*.new-*'):
        remove(unfinished)
    found = sorted((path for path in templates.iterdir() if (path / 'state').exists()),
                   key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in found:
        total += sum(file.stat().st_blocks * 512 for file in path.iterdir())
        if total > LIMIT_BYTES:
            remove(path)


def remove(path):
    """A template, also one that a killed lab has begun; one that is in use stays."""
    lock = path.with_name(path.name.partition('.')[0] + '.lock')
    with contextlib.suppress(OSError), cache.locked(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
        shutil.rmtree(path, ignore_errors=True)


def restore(folder, topology, payload, run_folder, fakes):
    """A guest that continues from the template in `folder` with the file `payload` as its job.
    `fakes` are the faked devices with the names of the ports that they are plugged into."""
    arguments = machine.arguments(topology, f'{folder}/initrd', _memory(folder, 'share=off'), None)
    arguments += ['-fw_cfg', f'name={machine.PAYLOAD},file={payload}', '-incoming', 'defer']
    state = os.open(f'{folder}/state', os.O_RDONLY)
    try:
        guest = Guest(arguments, run_folder, topology.memory_mib,
                      descriptors=[state, *(fake.far_end for _, fake in fakes)])
        try:
            _continue(guest, state, fakes)
        except BaseException:
            guest.kill()
            raise
    finally:
        os.close(state)
    return guest


def _continue(guest, state, fakes):
    guest.ask('migrate-set-capabilities', capabilities=IGNORE_SHARED)
    guest.ask('migrate-incoming', uri=f'fd:{state}')
    deadline = time.monotonic() + 60
    while guest.ask('query-status')['status'] == 'inmigrate':
        if time.monotonic() > deadline:
            raise LabError('the template was still loading after 60 s')
        time.sleep(0.002)
    for bus, fake in fakes:
        descriptor = fake.far_end
        fake.start()
        guest.ask('device_add', driver=fake_pci.DRIVER, bus=bus, fd=str(descriptor))
    guest.ask('cont')
    guest.say_go()  # only now: what comes earlier is overwritten by the port's saved state
