# SPDX-License-Identifier: Apache-2.0
"""The lab as a child process, as its users run it."""

import pathlib
import subprocess

LAB = pathlib.Path(__file__).resolve().parents[1] / 'lab'
LIMIT_S = 300


def lab(*arguments, **options):
    """`lab run` with these arguments, ended. Outputs are text."""
    return subprocess.run([LAB, 'run', *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=LIMIT_S, check=False, **options)


def shell(script, *arguments, **options):
    """`lab run` of a shell script."""
    return lab(*arguments, '--', 'sh', '-c', script, **options)


def start(*arguments):
    """`lab run`, started."""
    return subprocess.Popen([LAB, 'run', *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def guests_of(pid):
    """The process ids of the emulators that a lab has started."""
    found = []
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            parent = int((process / 'stat').read_text().rpartition(')')[2].split()[1])
            if parent == pid and b'numapool-lab-' in (process / 'cmdline').read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def is_running(pid):
    """A process that has ended and that nobody has reaped yet is not."""
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
        return False
    return state not in 'ZX'
