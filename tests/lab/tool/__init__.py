# SPDX-License-Identifier: Apache-2.0
"""The lab: boots Linux on emulated machines of several NUMA nodes. Begin with ../README.md."""
