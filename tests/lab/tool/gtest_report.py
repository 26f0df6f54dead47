# SPDX-License-Identifier: Apache-2.0
"""A GoogleTest program whose tests skip themselves exits 0. In a guest that was booted for them
that is a failure, and so is a program that ran none: the program's own report says which."""

import json
import os
import sys
import tempfile

IN_GUEST = '/tmp/.numapool-gtest-report.json'
FAILED = 1


def arrange(options):
    """Asks for the report. By an argument, and not by a variable, which a child would inherit."""
    options.command = [*options.command, f'--gtest_output=json:{IN_GUEST}']
    options.fetch = [*options.fetch, f'{IN_GUEST}:{_path()}']


def _path():
    return os.path.join(tempfile.gettempdir(), f'numapool-gtest-report-{os.getpid()}.json')


def judge(status, fetched):
    """The exit status that counts."""
    path = fetched[IN_GUEST]
    try:
        with open(path, encoding='utf-8') as file:
            report = json.load(file)
        os.unlink(path)
    except FileNotFoundError:
        if status == 0:
            print('lab: the program wrote no GoogleTest report', file=sys.stderr)
        return status or FAILED
    tests = [(f'{suite["name"]}.{test["name"]}', test)
             for suite in report['testsuites'] for test in suite['testsuite']]
    skipped = [name for name, test in tests if test['result'] == 'SKIPPED']
    for name in skipped:
        print(f'lab: {name} was skipped, in a guest that was booted for it', file=sys.stderr)
    ran = [name for name, test in tests if test['status'] == 'RUN']
    if not ran:
        print('lab: not one test ran', file=sys.stderr)
    return status or (FAILED if skipped or not ran else 0)
