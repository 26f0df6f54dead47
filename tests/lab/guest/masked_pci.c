// SPDX-License-Identifier: Apache-2.0
#include "masked_pci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serial.h"

static int cover(const char* address, const char* file, const char* text) {
  char path[256];
  char with[256];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", address, file);
  snprintf(with, sizeof with, "/run/pci/%s.%s", address, file);
  const int fd = open(with, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
  const ssize_t count = write(fd, text, strlen(text));
  close(fd);
  if (count < 0 || mount(with, path, NULL, MS_BIND, NULL) != 0) {
    send_text('B', "cannot cover %s: %s", path, strerror(errno));
    return -1;
  }
  return 0;
}

int mask_pci_device(const char* what) {
  char address[32];
  unsigned vendor, device, class;
  char vendor_text[32], device_text[32], class_text[32], modalias[128], uevent[256];
  if (sscanf(what, "%31s %x %x %x", address, &vendor, &device, &class) != 4) {
    send_text('B', "no device to mask: %s", what);
    return -1;
  }
  snprintf(vendor_text, sizeof vendor_text, "0x%04x\n", vendor);
  snprintf(device_text, sizeof device_text, "0x%04x\n", device);
  snprintf(class_text, sizeof class_text, "0x%06x\n", class);
  snprintf(modalias, sizeof modalias, "pci:v%08Xd%08Xsv%08Xsd00000001bc%02Xsc%02Xi%02X\n", vendor,
           device, vendor, class >> 16, class >> 8 & 255, class & 255);
  snprintf(uevent, sizeof uevent,
           "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0001\nPCI_SLOT_NAME=%s\n", class,
           vendor, device, vendor, address);
  mkdir("/run/pci", 0755);
  return cover(address, "vendor", vendor_text) == 0 && cover(address, "device", device_text) == 0 &&
                 cover(address, "class", class_text) == 0 &&
                 cover(address, "subsystem_vendor", vendor_text) == 0 &&
                 cover(address, "modalias", modalias) == 0 && cover(address, "uevent", uevent) == 0
             ? 0
             : -1;
}

int count_pci_devices(void) {
  int count = 0;
  DIR* devices = opendir("/sys/bus/pci/devices");
  while (devices != NULL && readdir(devices) != NULL) {
    ++count;
  }
  if (devices != NULL) {
    closedir(devices);
  }
  return count;
}
