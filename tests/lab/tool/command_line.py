# SPDX-License-Identifier: Apache-2.0
"""The options of the lab's command line."""

import argparse
import os
import shlex
import shutil
import signal
import sys
import traceback

from . import cache, errors, installation, machine, presets, run, snapshot, topology

DESCRIPTION = """\
Runs a command on a real Linux of several NUMA nodes, in an emulated machine.

  lab run --topology two-nodes -- ./placement_test --gtest_filter='Nodes.*'
  lab run --topology '2c512m,2c64m,0c1g' --uid 65534 --memlock 65536 -- ./placement_test
  lab run -- sh -c 'grep . /sys/devices/system/node/node*/meminfo | head'

The command's own exit status is returned: 128+N for signal N, 124 when it ran too long, 125 when
the lab itself failed, 126 and 127 when the command could not start. See tests/lab/README.md."""

SKIPPED = 77  # as CMake's SKIP_RETURN_CODE has it


def main(arguments):
    parser = _parser()
    before, separator, command = _split(arguments)
    chosen = parser.parse_args(before)
    if separator and chosen.what != 'run':
        parser.error(f"'{chosen.what}' takes no command")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(errors.SIGNAL_BASE + number))
    try:
        return COMMANDS[chosen.what](chosen, command)
    except errors.Missing as error:
        return _missing(chosen, error)
    except errors.LabError as error:
        print(f'lab: {error}', file=sys.stderr)
        return errors.LAB_FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.SIGNAL_BASE + signal.SIGPIPE
    except KeyboardInterrupt:
        return errors.SIGNAL_BASE + signal.SIGINT
    except Exception:  # whatever it is, it must not look like a command's own exit status
        traceback.print_exc()
        return errors.LAB_FAILED


def _split(arguments):
    if '--' not in arguments:
        return arguments, False, []
    place = arguments.index('--')
    return arguments[:place], True, arguments[place + 1:]


def _missing(chosen, error):
    required = os.environ.get('CI') == 'true' or os.environ.get('NUMAPOOL_REQUIRE_LAB') == '1'
    if getattr(chosen, 'skip_when_missing', False) and not required:
        print(f'lab: SKIPPED, nothing was tested on several nodes: {error}', file=sys.stderr)
        return SKIPPED
    print(f'lab: {error}', file=sys.stderr)
    return errors.LAB_FAILED


# --- subcommands ---

def _run(chosen, command):
    if not command:
        raise errors.LabError("no command: write it after '--'")
    installation.require_all()
    names = [field for field in run.Options.__dataclass_fields__ if field in vars(chosen)]
    options = {name: getattr(chosen, name) for name in names}
    options['topology'] = presets.find(chosen.topology)
    status = run.run(run.Options(command=command, **options))
    if chosen.skip_when_missing and status == SKIPPED:
        print(f'lab: the command exited {SKIPPED}, which would count as skipped', file=sys.stderr)
        return 1
    return status


def _topologies(*_):
    for name, text in presets.PRESETS.items():
        print(f'{name:20} {text}')
    print(f'\n{topology.__doc__}', end='')


def _show(chosen, _):
    wanted = presets.find(chosen.topology)
    print(shlex.join(machine.arguments(
        wanted, 'INITRD', lambda domain, mib: f'memory-backend-ram,id=memory{domain},size={mib}M',
        None)))


def _check(*_):
    installation.require_all()
    print(f'lab: {installation.qemu()}, {installation.kernel()}, {installation.busybox()}')


def _prune(*_):
    """Leaves what running labs use."""
    templates = cache.folder() / 'templates'
    for path in templates.glob('*') if templates.exists() else ():
        if path.is_dir():
            snapshot.remove(path)
    for path in cache.folder().iterdir():
        if path.is_file():
            path.unlink()
    shutil.rmtree(cache.folder() / 'libraries', ignore_errors=True)


COMMANDS = {'run': _run, 'topologies': _topologies, 'show': _show, 'check': _check,
            'prune': _prune}


def _parser():
    parser = argparse.ArgumentParser(prog='lab', description=DESCRIPTION, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='what', required=True, metavar='COMMAND')
    _add_run(commands.add_parser('run', help='run a command in a guest', allow_abbrev=False))
    commands.add_parser('topologies', help='list the named topologies, and how to write others')
    show = commands.add_parser('show', help="show QEMU's command line for a topology")
    show.add_argument('--topology', default='two-nodes')
    check = commands.add_parser('check', help='say whether all that the lab needs is here')
    _add_skip(check)
    commands.add_parser('prune', help='remove cached files and snapshots')
    return parser


def _add_run(parser):
    add = parser.add_argument
    parser.usage = 'lab run [OPTION]... -- COMMAND [ARGUMENT]...'
    add('--topology', default='two-nodes', metavar='NAME-OR-SPEC')
    add('--include', action='append', default=[], metavar='FILE[:NAME]',
        help='a file or folder that the guest has too, under the same name or another')
    add('--env', action='append', default=[], metavar='NAME=VALUE')
    add('--before', action='append', default=[], metavar='COMMAND',
        help='a shell command that runs first, as root')
    add('--fetch', action='append', default=[], metavar='GUEST[:HOST]',
        help='a file or folder that is brought back afterwards')
    add('--uid', type=int, metavar='N', help='the user and group that the command runs as')
    add('--memlock', metavar='BYTES', help="RLIMIT_MEMLOCK, a number or 'unlimited'")
    add('--seccomp', metavar='PROFILE',
        help='docker, docker-nice, enosys, or ERRNO:CALL,... as EPERM:mbind,move_pages')
    add('--cpus', metavar='LIST', help="the CPUs that the command's cgroup leaves to it")
    add('--mems', metavar='LIST', help="the nodes that the command's cgroup leaves to it")
    add('--memory-max', metavar='BYTES', help="the memory that the command's cgroup leaves to it")
    add('--timeout', type=float, default=120, metavar='S', help='for the command (default 120)')
    add('--boot-timeout', type=float, default=240, metavar='S', help='until it starts')
    add('--snapshot', action='store_true',
        help='continue a guest that was booted earlier: 0.2 s instead of 3')
    add('--kernel-log', action='store_true', help="the guest's kernel log, to standard error")
    add('--gtest', action='store_true',
        help='the command is a GoogleTest program: a skipped test is a failure, and so is none')
    add('--times', action='store_true', help='say how long it took')
    _add_skip(parser)


def _add_skip(parser):
    parser.add_argument(
        '--skip-when-missing', action='store_true',
        help=f'exit {SKIPPED}, not 125, where QEMU or the like is missing, unless CI is true or '
             'NUMAPOOL_REQUIRE_LAB is 1')
