# SPDX-License-Identifier: Apache-2.0
"""One running QEMU, and the two wires to it: frames of the guest's process 1 (../guest/serial.h),
and QEMU's own control channel (QMP, JSON lines)."""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from . import host_memory
from .errors import LabError

MARK, HEAD = b'\xa5', 6  # of a frame
GONE = ('', b'')
QMP_TIMEOUT_S = 60
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Guest:
    """Ends with this process, however that ends."""

    def __init__(self, arguments, folder, memory_mib, descriptors=()):
        self._folder = folder
        self._frames, frames_far = socket.socketpair()
        far_ends = [frames_far]
        wires = ['-chardev', f'file,id=console,path={folder}/console.log',
                 '-device', 'isa-serial,chardev=console,index=0',
                 '-chardev', f'socket,id=frames,fd={frames_far.fileno()}',
                 '-device', 'isa-serial,chardev=frames,index=1']
        self._control, control_far = socket.socketpair()
        far_ends.append(control_far)
        wires += ['-chardev', f'socket,id=control,fd={control_far.fileno()}',
                  '-mon', 'chardev=control,mode=control']
        self._received = b''
        self._qmp = None
        passed = [end.fileno() for end in far_ends] + list(descriptors)
        with open(f'{folder}/qemu.log', 'wb') as log, host_memory.admitted(memory_mib):
            self._process = subprocess.Popen(
                arguments + host_memory.name_arguments(memory_mib) + wires,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=passed,
                start_new_session=True, preexec_fn=_die_with_parent(os.getpid()))
        for end in far_ends:
            end.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    # --- frames ---

    def frame(self, deadline):
        """The next (type, data); None at the deadline; GONE when QEMU has ended."""
        while True:
            frame = self._take_frame()
            if frame:
                return frame
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self._frames], [], [], wait)[0]:
                return None
            try:
                data = self._frames.recv(1 << 16)
            except ConnectionResetError:
                data = b''
            if not data:
                return GONE
            self._received += data

    def _take_frame(self):
        start = self._received.find(MARK)
        if start < 0 or len(self._received) < start + HEAD:
            return None
        size = struct.unpack_from('<I', self._received, start + 2)[0]
        end = start + HEAD + size
        if len(self._received) < end:
            return None
        frame = chr(self._received[start + 1]), self._received[start + HEAD:end]
        self._received = self._received[end:]
        return frame

    def say_go(self):
        self._frames.sendall(b'G')

    # --- QMP ---

    def ask(self, command, **arguments):
        """Runs one command of QEMU's and returns its answer."""
        if self._qmp is None:
            self._control.settimeout(QMP_TIMEOUT_S)
            self._qmp = self._control.makefile('rwb')
            self._qmp.readline()  # the greeting
            self.ask('qmp_capabilities')
        message = {'execute': command}
        if arguments:
            message['arguments'] = {name.replace('_', '-'): value
                                    for name, value in arguments.items()}
        try:
            self._qmp.write(json.dumps(message).encode() + b'\n')
            self._qmp.flush()
            while True:  # events come in between
                answer = json.loads(self._qmp.readline() or '{"error": "QEMU has ended"}')
                if 'return' in answer:
                    return answer['return']
                if 'error' in answer:
                    raise LabError(f'QEMU refuses {command}: {answer["error"]}')
        except (OSError, ValueError) as error:
            raise LabError(f'QEMU does not answer {command}: {error}') from error

    # --- for people ---

    def show_logs(self):
        """What QEMU and the guest's kernel have said, to standard error."""
        for name in ('qemu.log', 'console.log'):
            try:
                with open(f'{self._folder}/{name}', 'rb') as file:
                    text = file.read()[-4000:].decode(errors='replace').strip()
            except OSError:
                continue
            if text:
                print(f'--- end of {name}\n{text}\n---', file=sys.stderr)


def _die_with_parent(parent):
    def arrange():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)
    return arrange
