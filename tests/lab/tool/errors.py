# SPDX-License-Identifier: Apache-2.0
"""What can go wrong that is not the command's fault, and the exit statuses of the lab."""

TIMED_OUT = 124
LAB_FAILED = 125
SIGNAL_BASE = 128


class LabError(Exception):
    """The lab itself failed. Its text is for people, in one sentence."""


class Missing(LabError):
    """Something that the lab needs is not on this machine."""
