# SPDX-License-Identifier: Apache-2.0
"""System calls that container runtimes deny, by name. ../guest/denied_calls.c denies them."""

import errno
import re

from .errors import LabError

# Of x86-64.
NUMBERS = {
    'sched_setaffinity': 203,
    'sched_getaffinity': 204,
    'madvise': 28,
    'mlock': 149,
    'mlock2': 325,
    'mbind': 237,
    'set_mempolicy': 238,
    'get_mempolicy': 239,
    'migrate_pages': 256,
    'move_pages': 279,
    'set_mempolicy_home_node': 450,
    'userfaultfd': 323,
}
PAGE_MOVES = ('move_pages', 'migrate_pages')
POLICIES = ('mbind', 'set_mempolicy', 'get_mempolicy', 'set_mempolicy_home_node')
# What Docker leaves to a container: chown, dac_override, fowner, fsetid, kill, setgid, setuid,
# setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
DOCKER_CAPABILITIES = 0xa80425fb
SYS_NICE = 1 << 23

# name -> (calls, errno, capabilities left or None). Docker's default profile ties the policy calls
# to CAP_SYS_NICE, and lists move_pages and migrate_pages nowhere: with that capability they are
# still denied.
PROFILES = {
    'docker': (PAGE_MOVES + POLICIES, errno.EPERM, DOCKER_CAPABILITIES),
    'docker-nice': (PAGE_MOVES, errno.EPERM, DOCKER_CAPABILITIES | SYS_NICE),
    'enosys': (PAGE_MOVES + POLICIES, errno.ENOSYS, None),
}


def job_entries(profile):
    """A profile's name, or ERRNO:CALL,CALL..., as entries of a guest's job."""
    calls, error, capabilities = PROFILES.get(profile) or _parse(profile)
    entries = [('deny', ' '.join([str(error), *(str(NUMBERS[call]) for call in calls)]))]
    if capabilities is not None:
        entries.append(('capabilities', hex(capabilities)))
    return entries


def _parse(text):
    match = re.fullmatch(r'(E[A-Z]+):([\w,]+)', text)
    error = getattr(errno, match[1], None) if match else None
    if error is None or not set(match[2].split(',')) <= set(NUMBERS):
        raise LabError(f"'{text}' is none of {', '.join(PROFILES)}, and not ERRNO:CALL,... with "
                       f"calls of {', '.join(NUMBERS)}")
    return match[2].split(','), error, None
