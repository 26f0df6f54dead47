// SPDX-License-Identifier: Apache-2.0
#pragma once

/// "ADDRESS VENDOR DEVICE CLASS", numbers in hex: covers that device's identity in sysfs by bind
/// mounts. For QEMU versions that cannot fake a device better (tests/lab/tool/fake_pci.py). 0, or
/// -1 after the reason was sent.
int mask_pci_device(const char* what);
/// How many PCI devices the kernel knows.
int count_pci_devices(void);
