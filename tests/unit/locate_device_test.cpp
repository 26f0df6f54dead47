// SPDX-License-Identifier: Apache-2.0

// Goal: a device is found by each spelling that people and launchers use, and a text that names
// none or several is refused with a sentence that helps. Method: a machine of two GPUs in memory.

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/environment.hpp>
#include <numapool/error.hpp>

#include "device/device_chain.hpp"
#include "support/device_fakes.hpp"
#include "support/text_files.hpp"
#include "topology/topology_builder.hpp"

namespace numapool::device {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const pci_address first{0, 0x3b, 0, 0};
const pci_address second{8, 0x01, 0, 0};

class NamedDevice : public testing::Test {
 protected:
  NamedDevice() {
    clear_ranks();
    files_.put("/sys/devices/system/cpu/online", "0-3\n");
    files_.put("/sys/devices/system/node/node0/cpulist", "0-1\n");
    files_.put("/sys/devices/system/node/node1/cpulist", "2-3\n");
    put_gpu("0000:3b:00.0", "0");
    put_gpu("0008:01:00.0", "1");
    nvml_.listed = {{"00000000:3B:00.0", "GPU-8f3c1111", "H100", {"MIG-77770001"}, {}, {}},
                    {"00000008:01:00.0", "GPU-8f3c2222", "H100", {}, {}, {}}};
  }
  ~NamedDevice() override { clear_ranks(); }

  static void clear_ranks() {
    for (const char* variable : environment::local_ranks) {
      ::unsetenv(variable);
    }
  }
  void put_gpu(const std::string& name, const std::string& node) {
    const std::string folder = "/sys/bus/pci/devices/" + name;
    files_.put(folder + "/vendor", "0x10de\n");
    files_.put(folder + "/class", "0x030200\n");
    files_.put(folder + "/device", "0x2330\n");
    files_.put(folder + "/numa_node", node + "\n");
  }
  device_location locate(std::string_view text) {
    const topology nodes = topology_builder::read(files_, nullptr);
    device_sources sources{files_, nodes, &cuda_, &nvml_, &programs_};
    sources.visible_devices = visible_;
    return locate_named(sources, text, {});
  }
  std::string refusal(std::string_view text) {
    try {
      static_cast<void>(locate(text));
    } catch (const error& wrong) {
      EXPECT_EQ(wrong.code(), errc::unknown_device);
      EXPECT_EQ(cuda_.initialisations, 0);
      return wrong.what();
    }
    return "not refused";
  }

  tests::text_files files_;
  tests::fake_nvml nvml_;
  tests::fake_programs programs_;
  tests::fake_cuda_view cuda_;
  std::optional<std::string> visible_;
};

TEST_F(NamedDevice, ByOrdinal) {
  visible_ = "1";
  EXPECT_EQ(locate("0").address, second);
  EXPECT_EQ(locate(" 0\n").node, node_id(1));
  EXPECT_THAT(refusal("1"), AllOf(HasSubstr("'1'"), HasSubstr("sees 1 device")));
}

TEST_F(NamedDevice, ByIdOrUniquePrefix) {
  EXPECT_EQ(locate("GPU-8f3c1111").address, first);
  EXPECT_EQ(locate("GPU-8f3c2").address, second);
  EXPECT_EQ(locate("GPU-8f3c2").ordinal, 1);
  EXPECT_EQ(locate("MIG-7").address, first);
}

TEST_F(NamedDevice, ByIdThoughItIsNotVisible) {
  visible_ = "1";
  EXPECT_EQ(locate("GPU-8f3c1").node, node_id(0));
  EXPECT_EQ(locate("GPU-8f3c1").ordinal, std::nullopt);
}

TEST_F(NamedDevice, AmbiguousPrefixNamesTheCandidates) {
  EXPECT_THAT(refusal("GPU-8f"),
              AllOf(HasSubstr("'GPU-8f'"), HasSubstr("GPU-8f3c1111, GPU-8f3c2222")));
}

TEST_F(NamedDevice, UnknownIdIsRefused) {
  EXPECT_THAT(refusal("GPU-ffff"), HasSubstr("no GPU that NVML shows"));
  EXPECT_THAT(refusal("GPU-"), HasSubstr("no GPU that NVML shows"));
  nvml_.error = tests::no_library();
  EXPECT_THAT(refusal("GPU-8f3c1111"), HasSubstr("PCI address"));
}

TEST_F(NamedDevice, ByPciAddressInEachSpelling) {
  EXPECT_EQ(locate("0008:01:00.0").node, node_id(1));
  EXPECT_EQ(locate("00000008:01:00.0").address, second);
  EXPECT_EQ(locate("3B:00.0").address, first);
  EXPECT_EQ(locate("3b:00").ordinal, 0);
  EXPECT_THAT(refusal("0000:3c:00.0"), HasSubstr("no PCI function of this machine"));
}

// A host bridge was taken for the device, with its node.
TEST_F(NamedDevice, ByPciAddressIsRefusedForWhatDoesNotCompute) {
  const auto is_of_class = [this](const std::string& pci_class) {
    files_.put("/sys/bus/pci/devices/0000:3b:00.0/class", pci_class + "\n");
  };
  for (const char* other : {"0x060000", "0x020000", "0x010802"}) {
    is_of_class(other);
    EXPECT_THAT(refusal("0000:3b:00.0"),
                AllOf(HasSubstr("no GPU or accelerator"), HasSubstr(other)));
  }
  for (const char* computing : {"0x030000", "0x030200", "0x038000", "0x0b4000", "0x120000"}) {
    is_of_class(computing);
    EXPECT_EQ(locate("0000:3b:00.0").node, node_id(0)) << computing;
  }
  files_.remove("/sys/bus/pci/devices/0000:3b:00.0/class");
  EXPECT_EQ(locate("0000:3b:00.0").node, node_id(0)) << "nothing says that it is none";
}

TEST_F(NamedDevice, ByLocalRank) {
  EXPECT_THAT(refusal("local-rank"), HasSubstr("no launcher has set LOCAL_RANK"));
  ::setenv("SLURM_LOCALID", "-1", 1);
  EXPECT_THAT(refusal("local-rank"), HasSubstr("SLURM_LOCALID is '-1', which is no rank"));
  ::setenv("FLUX_TASK_LOCAL_ID", "0", 1);
  EXPECT_EQ(locate("local-rank").address, first);
  ::setenv("LOCAL_RANK", "1", 1);
  EXPECT_EQ(locate("local-rank").address, second);
  ::setenv("LOCAL_RANK", "5", 1);
  EXPECT_THAT(refusal("local-rank"), HasSubstr("not number 5"));
}

TEST_F(NamedDevice, OtherTextIsRefusedWithTheWaysToWriteIt) {
  for (const char* text : {"", "-1", "gpu0", "0,1", "99999999999999999999", "4294967296", "0x1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("CUDA ordinal")) << text;
  }
}

TEST(LocalRank, IsTheFirstNumberInTheOrderOfLaunchers) {
  for (const char* variable : environment::local_ranks) {
    ::unsetenv(variable);
  }
  EXPECT_EQ(local_rank(), std::nullopt);
  ::setenv("PALS_LOCAL_RANKID", "6", 1);
  ::setenv("SLURM_LOCALID", "2", 1);
  EXPECT_EQ(local_rank(), 2);
  ::setenv("LOCAL_RANK", "", 1);
  EXPECT_EQ(local_rank(), 2);
  ::setenv("LOCAL_RANK", "-1", 1);
  EXPECT_EQ(local_rank(), 2);
  ::setenv("LOCAL_RANK", " 4 ", 1);
  EXPECT_EQ(local_rank(), 4);
  for (const char* variable : environment::local_ranks) {
    ::unsetenv(variable);
  }
}

// What is kept is shared by all threads.
TEST(ThisMachine, IsAskedByManyThreadsWhileItIsForgotten) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int time = 0; time < 50; ++time) {
        static_cast<void>(
            locate_device(first, {.nvidia_smi_timeout = std::chrono::milliseconds(0)}));
        static_cast<void>(visible_devices());
        if (thread == 0) {
          refresh_devices();
        }
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
}

// The public functions on this machine, whatever it is: they answer or say why not.
TEST(ThisMachine, AnswersOrSaysWhyNot) {
  for (const device_location& found : {locate_device(0), locate_device(first)}) {
    EXPECT_TRUE(!found.node.is_unknown() || !found.reason.empty());
  }
  EXPECT_THROW(static_cast<void>(locate_device("no device")), error);
  for (const visible_device& device : visible_devices()) {
    EXPECT_NE(device.address.has_value(), !device.reason.empty());
  }
  static_cast<void>(host_devices());
  refresh_devices();
}

}  // namespace
}  // namespace numapool::device
