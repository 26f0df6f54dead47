# SPDX-License-Identifier: Apache-2.0
"""Files that outlive one run, all below one folder that may be deleted whenever no lab runs."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def folder():
    """build/lab, which goes with the rest of build; NUMAPOOL_LAB_CACHE names another."""
    chosen = os.environ.get('NUMAPOOL_LAB_CACHE')
    path = pathlib.Path(chosen).absolute() if chosen else REPOSITORY / 'build' / 'lab'
    path.mkdir(parents=True, exist_ok=True)
    return path


def key(*parts):
    """A short name for a combination of texts."""
    return hashlib.sha256('\0'.join(str(part) for part in parts).encode()).hexdigest()[:20]


def identity(path):
    """A text that changes when the file does."""
    status = os.stat(path)
    return f'{os.path.realpath(path)}:{status.st_size}:{status.st_mtime_ns}'


def publish(path, data, mode=0o644):
    """Writes a file under a name of its own and then renames it: other runs see all or nothing."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, 'wb') as file:
        file.write(data)
    os.chmod(temporary, mode)
    os.rename(temporary, path)


@contextlib.contextmanager
def run_folder():
    """A folder for one run. Those of runs that were killed are removed by the next."""
    runs = folder() / 'runs'
    runs.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        with locked(runs, fcntl.LOCK_EX):  # so that nobody sees ours before it is locked
            for left in runs.iterdir():
                with contextlib.suppress(OSError), locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(left, ignore_errors=True)
            path = pathlib.Path(tempfile.mkdtemp(dir=runs))
            stack.enter_context(locked(path, fcntl.LOCK_EX))
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        yield path


@contextlib.contextmanager
def locked(path, how):
    """Holds a lock on an existing file or folder; the kernel lets it go when this process ends."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)
