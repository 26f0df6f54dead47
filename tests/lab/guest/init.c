// SPDX-License-Identifier: Apache-2.0
// Process 1 of a guest. Mounts the usual file systems, takes one job, runs it, reports on the
// second serial port, and powers the guest off. A static program: a guest has no libraries.
//
// A guest that is booted for one command finds its job in its initial file system. A guest that
// is to become a template finds none: it says that it is ready, and is saved at that point. Each
// guest that is restored from it continues there, and reads its own job by fw_cfg.

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "fw_cfg.h"
#include "job.h"
#include "masked_pci.h"
#include "payload.h"
#include "serial.h"
#include "surroundings.h"

static const char payload_name[] = "opt/numapool/payload";

static void power_off(void) {
  serial_drain();
  reboot(RB_POWER_OFF);
  for (;;) {
    pause();
  }
}

static void mount_all(void) {
  const unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  static const char* const folders[] = {"/proc", "/sys", "/tmp", "/run", "/root", "/var", "/mnt"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; ++i) {
    mkdir(folders[i], 0755);
  }
  chmod("/tmp", 01777);
  mount("proc", "/proc", "proc", plain, NULL);
  mount("sysfs", "/sys", "sysfs", plain, NULL);
  mount("cgroup2", "/sys/fs/cgroup", "cgroup2", plain, NULL);
  mkdir("/dev/pts", 0755);
  mount("devpts", "/dev/pts", "devpts", 0, "mode=0620,ptmxmode=0666");
  mkdir("/dev/shm", 0755);
  mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  mkdir("/dev/hugepages", 0755);
  mount("hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, "mode=1777");
  if (symlink("/proc/self/fd", "/dev/fd") != 0 || symlink("/proc/self/fd/1", "/dev/stdout") != 0 ||
      symlink("/proc/self/fd/2", "/dev/stderr") != 0) {
    send_text('L', "no links in /dev");
  }
}

static void set_kernel(void) {
  static const char* const controllers[] = {"+cpuset", "+cpu", "+memory", "+hugetlb", "+pids"};
  for (size_t i = 0; i < sizeof controllers / sizeof controllers[0]; ++i) {
    write_text("/sys/fs/cgroup/cgroup.subtree_control", controllers[i]);
  }
  write_text("/proc/sys/kernel/numa_balancing",
             "0");  // it would move pages while a test counts them
  sethostname("lab", 3);
}

static void open_console(void) {
  const int console = open("/dev/console", O_RDWR);
  for (int fd = 0; console >= 0 && fd < 3; ++fd) {
    dup2(console, fd);
  }
  if (console > 2) {
    close(console);
  }
}

// --- templates --------------------------------------------------------------------------------

// What a restored guest does first is then in memory already.
static void warm_up(void) {
  fw_cfg_open(payload_name);
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/busybox", "true", (char*)NULL);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

// A second after boot the kernel changes its clock once. Every restored guest would do that again.
static void wait_for_final_clock(void) {
  for (int i = 0; i < 40; ++i) {
    char name[16] = {0};
    const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                        O_RDONLY | O_CLOEXEC);
    const ssize_t count = read(fd, name, sizeof name - 1);
    close(fd);
    if (count < 0 || strncmp(name, "tsc-early", 9) != 0) {
      return;
    }
    usleep(100000);
  }
}

// Devices that cannot be saved are plugged in after the restore.
static void wait_for_plugged_pci(int before) {
  const char* plugged = job_value("wait-pci");
  for (int i = 0; plugged != NULL && count_pci_devices() < before + atoi(plugged); ++i) {
    if (i == 5000) {
      send_text('L', "the plugged PCI devices did not show up");
      return;
    }
    usleep(1000);
  }
}

static int become_template(void) {
  warm_up();
  wait_for_final_clock();
  const int pci_devices = count_pci_devices();
  send_text('R', "ready");
  if (!wait_for_go() || fw_cfg_open(payload_name) != 0 || unpack_payload() != 0 ||
      load_job() != 0) {
    send_text('B', "the guest got no job");
    return -1;
  }
  fw_cfg_close();
  wait_for_plugged_pci(pci_devices);
  return 0;
}

int main(void) {
  cpu_set_t all, first;
  mkdir("/dev", 0755);
  mount("dev", "/dev", "devtmpfs", 0, "mode=0755");
  serial_open();
  open_console();
  umask(022);
  mount_all();
  set_kernel();

  // What this process allocates, files above all, comes from the first CPU's node.
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(0, sizeof first, &first);
  const int ready = load_job() == 0 || become_template() == 0;
  sched_setaffinity(0, sizeof all, &all);
  if (ready) {
    run_job();
  }
  send_frame('Q', "", 0);
  power_off();
}
