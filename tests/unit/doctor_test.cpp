// SPDX-License-Identifier: Apache-2.0

// Goal: each thing that stands in the way of a job is one finding, with what it means and what to
// do; a machine in order has none. Method: simulated machines, each spoilt in one way.

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/doctor.hpp>
#include <numapool/environment.hpp>

#include "diagnosis/checks.hpp"
#include "platform/cuda_error.hpp"
#include "support/device_fakes.hpp"
#include "support/fake_machine.hpp"

namespace numapool {
namespace {

using test::fake_machine;
using test::gib;
using test::machine_plan;
using test::mib;
using test::seam_call;
using testing::HasSubstr;

const std::string gpu_folder = "/sys/bus/pci/devices/0000:3b:00.0";

/// What CUDA's probe answers.
class told_registrar final : public platform::registrar {
 public:
  platform::registrar_status probe() noexcept override {
    ++probes;
    return status;
  }
  boost::system::error_code pci_address(int, std::string&) noexcept override { return none(); }
  boost::system::error_code host_node(int, int&) noexcept override { return none(); }
  boost::system::error_code active_devices(std::vector<int>&) noexcept override { return none(); }
  boost::system::error_code register_range(int, void*, std::size_t, void**) noexcept override {
    return none();
  }
  platform::unregister_result unregister_range(int, void*) noexcept override { return {}; }

  platform::registrar_status status;
  int probes = 0;

 private:
  static boost::system::error_code none() { return tests::no_library(); }
};

class Doctor : public testing::Test {
 protected:
  Doctor() : Doctor(machine_plan::two_nodes()) {}
  explicit Doctor(const machine_plan& plan) : machine_(plan) {
    for (const char* variable : environment::all) {
      ::unsetenv(variable);
    }
    options_.initialise_cuda = true;
    cuda_.status.route = platform::registrar_route::runtime;
    cuda_.status.reason = "CUDA runtime 13.0, driver 13.0, 1 device";
    files().set("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    files().set("/sys/kernel/mm/transparent_hugepage/defrag",
                "always defer defer+madvise [madvise] never\n");
    files().set("/proc/sys/kernel/numa_balancing", "0\n");
    files().set("/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n");
    put_gpu("1");
    nvml_.listed = {{"00000000:3B:00.0", "GPU-8f3c", "H100", {}, {}, {}}};
  }

  test::fake_files& files() { return machine_.files(); }
  void put_gpu(const std::string& node) {
    files().set(gpu_folder + "/vendor", "0x10de\n");
    files().set(gpu_folder + "/class", "0x030200\n");
    files().set(gpu_folder + "/device", "0x2330\n");
    files().set(gpu_folder + "/numa_node", node + "\n");
  }
  void be_without_gpu() { files().set(gpu_folder + "/vendor", "0x8086\n"); }

  std::vector<check> examine() {
    machine_.reread();
    platform::platform& below = machine_.platform();
    platform::platform whole{below.files, below.threads, below.memory, cuda_, &nvml_, &programs_};
    return diagnosis::examine(whole, *machine_.nodes(), options_);
  }
  /// The first check of that name; one that was not made is a failure of the test.
  check look(const std::string& name) {
    for (const check& each : examine()) {
      if (each.name == name) {
        return each;
      }
    }
    ADD_FAILURE() << "no check is named " << name;
    return {};
  }
  void expect(const std::string& name, check_status status, const std::string& value,
              const std::string& meaning = "") {
    const check found = look(name);
    EXPECT_EQ(found.status, status) << found.value << ": " << found.meaning;
    EXPECT_THAT(found.value, HasSubstr(value));
    EXPECT_THAT(found.meaning, HasSubstr(meaning));
    EXPECT_TRUE(!found.fix.empty() || status == check_status::ok || status == check_status::info);
  }

  fake_machine machine_;
  told_registrar cuda_;
  tests::fake_nvml nvml_;
  tests::fake_programs programs_;
  diagnosis_options options_;
};

TEST_F(Doctor, FindsNothingOnAMachineInOrder) {
  for (const check& each : examine()) {
    EXPECT_TRUE(each.status == check_status::ok || each.status == check_status::info)
        << each.name << ": " << each.value << ": " << each.meaning;
    EXPECT_FALSE(each.name.empty() || each.value.empty() || each.meaning.empty()) << each.name;
    EXPECT_EQ(each.meaning.find('\n'), std::string::npos);
  }
  expect("nodes", check_status::ok, "0-1");
  expect("device", check_status::ok, "0000:3b:00.0: node 1 (sysfs)");
}

TEST_F(Doctor, NoDriver) {
  files().remove("/proc/driver/nvidia/version");
  cuda_.status = {platform::registrar_route::none, 0, tests::no_library(), "no CUDA runtime"};
  expect("cuda", check_status::fail, "no CUDA runtime", "no NVIDIA driver is loaded");
  expect("nvidia_driver", check_status::fail, "none");
  be_without_gpu();
  nvml_.listed.clear();
  expect("cuda", check_status::info, "no CUDA runtime", "no NVIDIA driver");
  expect("nvidia_driver", check_status::info, "none");
  expect("device", check_status::info, "none");
}

TEST_F(Doctor, DriverTooOldForTheRuntime) {
  cuda_.status = {platform::registrar_route::none, 0, platform::runtime_error(35),
                  "CUDA runtime 13.0 cannot be used"};
  expect("cuda", check_status::fail, "13.0", "too old for this runtime");
}

TEST_F(Doctor, DriverThatShowsNoGpu) {
  cuda_.status = {platform::registrar_route::none, 0, platform::driver_error(100), "no device"};
  expect("cuda", check_status::fail, "no device", "no GPU");
}

TEST_F(Doctor, CudaIsNotAskedUnlessItMayBeInitialised) {
  options_.initialise_cuda = false;
  expect("cuda", check_status::info, "not asked");
  EXPECT_EQ(cuda_.probes, 0);
}

TEST_F(Doctor, NoNvml) {
  nvml_.error = tests::no_library();
  expect("nvml", check_status::warn, "NVML's library (libnvidia-ml.so.1) is not here");
  be_without_gpu();
  expect("nvml", check_status::info, "is not here");
  nvml_.error = base::system_error(EIO);
  expect("nvml", check_status::info, "NVML cannot be asked");
}

TEST_F(Doctor, MemlockSmall) {
  test::fake_memory::abilities can;
  can.lock_limit_bytes = 8 * mib;
  machine_.memory().set_abilities(can);
  expect("memlock", check_status::warn, "8 MiB", "unlocked");
  files().set("/proc/self/status", "CapEff:\t0000000000004000\n");
  expect("memlock", check_status::ok, "8 MiB, not enforced");
}

TEST_F(Doctor, PolicyCallsDenied) {
  machine_.faults().fail_all(seam_call::bind, EPERM);
  expect("memory_policy", check_status::warn, "refused", "touching the pages first");
  expect("move_pages", check_status::ok, "allowed");
  machine_.faults().fail_all(seam_call::query_nodes, EPERM);
  expect("move_pages", check_status::warn, "refused", "numa_maps");
  EXPECT_EQ(machine_.memory().mappings(), 0U);
}

TEST_F(Doctor, ThpNever) {
  files().set("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  files().set("/sys/kernel/mm/transparent_hugepage/defrag", "always defer [never]\n");
  expect("transparent_huge_pages", check_status::warn, "never", "page by page");
  expect("huge_page_defrag", check_status::info, "never");
}

TEST_F(Doctor, NumaBalancingOn) {
  files().set("/proc/sys/kernel/numa_balancing", "1\n");
  expect("numa_balancing", check_status::warn, "on (1)", "spikes");
}

TEST_F(Doctor, NoHugePages) {
  const std::string first = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/";
  const std::string second = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/";
  files().set(first + "nr_hugepages", "0\n");
  files().set(second + "nr_hugepages", "0\n");
  expect("huge_pages", check_status::info, "none reserved", "2MiB");
  files().set(second + "nr_hugepages", "64\n");
  files().set(second + "free_hugepages", "0\n");
  expect("huge_pages", check_status::warn, "node 1: 0 of 64 free, of 2 MiB", "refused");
}

TEST_F(Doctor, CgroupLimits) {
  machine_.set_cgroup_memory(8 * gib, 1 * gib);
  expect("cgroup_memory", check_status::warn, "8 GiB, 1 GiB used", "refused");
  machine_.set_cpu_quota("250000 100000");
  expect("cgroup_cpu", check_status::warn, "2.50 CPUs");
}

TEST_F(Doctor, KernelsWithLimits) {
  for (const auto& [release, status] :
       std::vector<std::pair<std::string, check_status>>{{"6.12.4-generic", check_status::warn},
                                                         {"5.10.0", check_status::warn},
                                                         {"6.14.0", check_status::ok},
                                                         {"5.14.0", check_status::ok},
                                                         {"x", check_status::info}}) {
    files().set("/proc/sys/kernel/osrelease", release + "\n");
    EXPECT_EQ(look("kernel").status, status) << release;
  }
}

TEST_F(Doctor, DriversWithLimits) {
  files().set("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release\n");
  expect("nvidia_driver", check_status::info, "580.65.06", "512 GiB");
}

TEST_F(Doctor, GpuWhoseNodeNobodyKnows) {
  put_gpu("-1");
  expect("device", check_status::warn, "(heuristic)", "nothing says where it is");
  programs_.say("NUMA IDs of closest CPU: 1\n");
  expect("device", check_status::info, "node 1 (nvidia-smi)", "seconds");
}

TEST_F(Doctor, VariableThatHidesGpus) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0,7", 1);
  expect("visible_device", check_status::warn, "1 visible", "'7'");
  expect("environment", check_status::info, "CUDA_VISIBLE_DEVICES=0,7");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(Doctor, GateIsSaid) {
  expect("gate", check_status::info, "closed");
  ::setenv(environment::enable_numa, "1", 1);
  expect("gate", check_status::info, "open");
  ::unsetenv(environment::enable_numa);
}

TEST_F(Doctor, AffinityFile) {
  const std::string path = "/etc/map";
  ::setenv(environment::nrl_affinity_file, path.c_str(), 1);
  expect("affinity_file", check_status::warn, "/etc/map: not there");
  files().set(path, "0:0-3\n1:4-7\n");
  expect("affinity_file", check_status::ok, "/etc/map", "2 lines");
  files().set(path, "0:0-3\ngarbage\n");
  expect("affinity_file", check_status::warn, "'garbage'", "stop at this line");
  ::unsetenv(environment::nrl_affinity_file);
}

class DoctorInACpuset : public Doctor {
 protected:
  DoctorInACpuset() : Doctor(plan()) {}
  static machine_plan plan() {
    machine_plan of = machine_plan::two_nodes();
    of.allowed_cpus = "0-3";
    of.allowed_nodes = "0";
    return of;
  }
};

TEST_F(DoctorInACpuset, WithoutTheGpusNode) {
  expect("allowed_cpus", check_status::warn, "0-3", "no worker can run on node 1");
  expect("allowed_memory", check_status::warn, "0", "memory of node 1 may not be taken");
  expect("device", check_status::warn, "node 0 (sysfs)", "it is on node 1");
  EXPECT_THAT(look("device").fix, HasSubstr("4-7"));
}

class DoctorWithoutNodes : public Doctor {
 protected:
  DoctorWithoutNodes() : Doctor(machine_plan::no_nodes()) {}
};

TEST_F(DoctorWithoutNodes, SaysThatNoneAreShown) {
  expect("nodes", check_status::warn, "none shown", "no NUMA nodes");
}

// This machine, whatever it is: every check is made once, and CUDA is left alone.
TEST(DoctorHere, LooksAtEverything) {
  std::vector<std::string> names;
  for (const check& each : diagnose()) {
    names.push_back(each.name);
  }
  for (const char* name :
       {"nodes", "allowed_cpus", "allowed_memory", "move_pages", "memlock",
        "transparent_huge_pages", "huge_pages", "numa_balancing", "cgroup_memory", "cgroup_cpu",
        "kernel", "cuda", "nvidia_driver", "nvml", "device", "affinity_file", "gate"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
}

TEST(DoctorNames, OfStatuses) {
  EXPECT_EQ(name(check_status::ok), "ok");
  EXPECT_EQ(name(check_status::info), "info");
  EXPECT_EQ(name(check_status::warn), "warn");
  EXPECT_EQ(name(check_status::fail), "fail");
}

}  // namespace
}  // namespace numapool
