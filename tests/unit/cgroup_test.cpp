// SPDX-License-Identifier: Apache-2.0

// Goal: the limits of this process are found wherever cgroups are mounted, and nothing else is
// taken for them. Method: made-up mounts in memory; the layouts that machines really had are in
// tests/machines.

#include "topology/cgroup.hpp"

#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/text_files.hpp"

namespace numapool::cgroup {
namespace {

const std::string machines = NUMAPOOL_TEST_MACHINES;

std::vector<std::string> warnings;

cpuset cpuset_of(const platform::files& files) {
  warnings.clear();
  return read_cpuset(files, kernel_files(files, warnings));
}

std::string cpus_of(const platform::files& files) {
  const auto cpus = cpuset_of(files).cpus;
  return cpus ? cpus->to_list() : "none";
}

std::optional<double> quota_of(const platform::files& files) {
  warnings.clear();
  return read_cpu_quota(files, kernel_files(files, warnings));
}

// cpuset as a version 1 controller, and an empty version 2 hierarchy beside it.
tests::text_files hybrid(const std::string& memberships) {
  return tests::text_files({
      {"/proc/mounts",
       "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
       "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n"
       "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"},
      {"/proc/self/cgroup", memberships},
      {"/sys/fs/cgroup/cpuset/a/cpuset.cpus", "2-3\n"},
      {"/sys/fs/cgroup/cpuset/a/cpuset.mems", "0\n"},
      {"/sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n"},
      {"/sys/fs/cgroup/unified/cgroup.controllers", "\n"},
  });
}

TEST(Cpuset, HybridDoesNotStopAtTheVersion2Line) {
  EXPECT_EQ(cpus_of(hybrid("0::/\n3:cpuset:/a\n")), "2-3");
  EXPECT_EQ(cpus_of(hybrid("3:cpuset:/a\n0::/\n")), "2-3");
  EXPECT_EQ(cpuset_of(hybrid("0::/\n3:cpuset:/a\n")).nodes->to_list(), "0");
  EXPECT_TRUE(warnings.empty());
}

TEST(Cpuset, ComesFromThePathAboveWhereOursIsNotMounted) {
  EXPECT_EQ(cpus_of(hybrid("3:cpuset:/a/b/c\n")), "2-3");
  EXPECT_EQ(cpus_of(hybrid("3:cpuset:/elsewhere\n")), "0-7");
  EXPECT_EQ(cpus_of(hybrid("3:cpuset:/a (deleted)\n")), "2-3");
}

TEST(Cpuset, PathsMayHoldColons) {
  tests::text_files files = hybrid("3:cpuset:/x:y\n");
  files.put("/sys/fs/cgroup/cpuset/x:y/cpuset.cpus", "5");
  EXPECT_EQ(cpus_of(files), "5");
}

TEST(Cpuset, EffectiveSetsOfVersion1SpeakWhereNothingIsConfigured) {
  tests::text_files files = hybrid("3:cpuset:/a\n");
  files.put("/sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "3");
  EXPECT_EQ(cpus_of(files), "2-3");
  files.put("/sys/fs/cgroup/cpuset/a/cpuset.cpus", "\n");
  EXPECT_EQ(cpus_of(files), "3");
  files.put("/sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "\n");
  EXPECT_EQ(cpus_of(files), "0-7");
}

TEST(Cpuset, OldMountsHaveNoPrefix) {
  for (const char* mount :
       {"none /dev/cpuset cgroup rw,cpuset,noprefix 0 0\n", "none /dev/cpuset cpuset rw 0 0\n"}) {
    tests::text_files files({{"/proc/mounts", mount},
                             {"/proc/self/cpuset", "/batch/7\n"},
                             {"/dev/cpuset/batch/7/cpus", "1,3\n"},
                             {"/dev/cpuset/batch/7/mems", "0-1\n"}});
    EXPECT_EQ(cpus_of(files), "1,3") << mount;
    EXPECT_EQ(cpuset_of(files).nodes->to_list(), "0-1") << mount;
  }
}

TEST(Cpuset, TheCpusetFileNamesVersion2Too) {
  tests::text_files files({{"/proc/mounts", "none /cgroup/unified cgroup2 rw 0 0\n"},
                           {"/proc/self/cpuset", "/job/step\n"},
                           {"/cgroup/unified/job/step/cpuset.cpus.effective", "0-5\n"}});
  EXPECT_EQ(cpus_of(files), "0-5");
}

TEST(Cpuset, NothingMountedMeansNoLimit) {
  EXPECT_EQ(cpus_of(tests::text_files()), "none");
  EXPECT_EQ(cpus_of(tests::text_files({{"/proc/self/cgroup", "0::/\n"}})), "none");
  EXPECT_EQ(cpus_of(tests::text_files(
                {{"/proc/mounts", "c /c cgroup2 rw 0 0\n"}, {"/c/cpuset.cpus.effective", "1"}})),
            "none");  // nobody says where we are
}

TEST(Cpuset, MalformedFilesWarn) {
  tests::text_files files = hybrid("3:cpuset:/a\n");
  files.put("/sys/fs/cgroup/cpuset/a/cpuset.cpus", "2-");
  EXPECT_EQ(cpus_of(files), "0-7");
  EXPECT_EQ(warnings.size(), 1U);
  files.fail("/sys/fs/cgroup/cpuset/a/cpuset.cpus", EACCES);
  EXPECT_EQ(cpus_of(files), "0-7");
  EXPECT_EQ(warnings.size(), 1U);
}

// A container: its own part of the host's hierarchy is mounted, and its path counts from the host's
// root.
TEST(Cpuset, BindMountsShowAPartOfTheHierarchy) {
  tests::text_files files({
      {"/proc/self/mountinfo",
       "40 30 0:28 /kube/other /other rw - cgroup2 c rw\n"
       "41 30 0:28 /kube/pod /sys/fs/cgroup rw,nosuid shared:1 - cgroup2 cgroup2 rw\n"},
      {"/proc/self/cgroup", "0::/kube/pod/box\n"},
      {"/sys/fs/cgroup/box/cpuset.cpus.effective", "6\n"},
      {"/other/cpuset.cpus.effective", "0\n"},
  });
  EXPECT_EQ(cpus_of(files), "6");
  files.put("/proc/self/cgroup",
            "0::/kube/podium\n");  // not below /kube/pod, though it starts alike
  files.remove("/other/cpuset.cpus.effective");
  files.put("/sys/fs/cgroup/cpuset.cpus.effective", "6-7\n");
  EXPECT_NE(cpus_of(files), "6");
}

TEST(Cpuset, PathsOutsideOfTheNamespaceEndAtTheMount) {
  tests::text_files files({
      {"/proc/self/mountinfo", "41 30 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
      {"/proc/self/cgroup", "0::/../../other\n"},
      {"/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"},
  });
  EXPECT_EQ(cpus_of(files), "0-3");
}

TEST(CpuQuota, IsTheSmallestOnTheWayUp) {
  tests::text_files files({
      {"/proc/mounts", "cgroup2 /c cgroup2 rw 0 0\n"},
      {"/proc/self/cgroup", "0::/a/b\n"},
      {"/c/a/b/cpu.max", "max 100000\n"},
      {"/c/a/cpu.max", "150000 100000\n"},
      {"/c/cpu.max", "50000 10000\n"},
  });
  EXPECT_EQ(quota_of(files), 1.5);
  files.put("/c/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_of(files), 5.0);
  files.remove("/c/cpu.max");
  EXPECT_EQ(quota_of(files), std::nullopt);
  for (const char* garbage : {"", "a 100000", "100 0", "100 b", "-1 100000"}) {
    files.put("/c/a/cpu.max", garbage);
    EXPECT_EQ(quota_of(files), std::nullopt) << garbage;
    EXPECT_EQ(warnings.size(), 1U) << garbage;
  }
}

TEST(CpuQuota, Version1SaysMinusOneForNone) {
  tests::text_files files({
      {"/proc/mounts", "cgroup /c cgroup rw,cpuacct,cpu 0 0\n"},
      {"/proc/self/cgroup", "8:cpuacct,cpu:/a\n"},
      {"/c/a/cpu.cfs_quota_us", "-1\n"},
      {"/c/a/cpu.cfs_period_us", "100000\n"},
      {"/c/cpu.cfs_quota_us", "400000\n"},
      {"/c/cpu.cfs_period_us", "100000\n"},
  });
  EXPECT_EQ(quota_of(files), 4.0);
  EXPECT_TRUE(warnings.empty());
}

TEST(MemoryLimits, AreAllThatHold) {
  const auto files = platform::files_below(machines + "/long-cgroup-path");
  const std::vector<memory_limit> limits = memory_limits(*files);
  ASSERT_EQ(limits.size(), 2U);  // the innermost says "max"
  EXPECT_EQ(limits[0].limit_bytes, 1073741824U);
  EXPECT_EQ(limits[0].usage_bytes, 1000U);
  EXPECT_EQ(limits[0].reclaimable_bytes, 30U);
  EXPECT_EQ(limits[1].path, "/cgroup/unified tree/kubepods.slice");
  EXPECT_EQ(limits[1].limit_bytes, 4294967296U);
  EXPECT_EQ(limits[1].reclaimable_bytes, 0U);
}

TEST(MemoryLimits, Version1CountsTotalsAndKnowsNoLimit) {
  const auto files = platform::files_below(machines + "/v1-container");
  const std::vector<memory_limit> limits = memory_limits(*files);
  ASSERT_EQ(limits.size(), 1U);
  EXPECT_EQ(limits[0].path, "/sys/fs/cgroup/memory");
  EXPECT_EQ(limits[0].limit_bytes, 2147483648U);
  EXPECT_EQ(limits[0].usage_bytes, 1073741824U);
  EXPECT_EQ(limits[0].reclaimable_bytes, 4608U);
}

// A process may be moved, its cgroup's limit changed, and the whole tree mounted elsewhere.
TEST(MemoryLimits, FollowAProcessThatIsMoved) {
  const std::string mounts = "cgroup2 /c cgroup2 rw 0 0\n";
  tests::text_files files({{"/proc/mounts", mounts},
                           {"/proc/self/cgroup", "0::/a\n"},
                           {"/c/a/memory.max", "1000\n"},
                           {"/c/b/memory.max", "3000\n"},
                           {"/d/b/memory.max", "5000\n"}});
  memory_limit_reader reader(files);
  const auto limit = [&reader] {
    const std::vector<memory_limit> limits = reader.read();
    return limits.size() == 1 ? limits[0].limit_bytes : 0;
  };
  EXPECT_EQ(limit(), 1000U);
  files.put("/c/a/memory.max", "2000\n");
  EXPECT_EQ(limit(), 2000U);
  files.put("/proc/self/cgroup", "0::/b\n");
  EXPECT_EQ(limit(), 3000U);
  files.put("/proc/mounts", "cgroup2 /d cgroup2 rw 0 0\n");
  files.remove("/c/b/memory.max");
  EXPECT_EQ(limit(), 5000U);
  files.put("/d/b/memory.max", "max\n");
  EXPECT_EQ(limit(), 0U);
  files.put("/d/b/memory.max", "6000\n");
  EXPECT_EQ(limit(), 6000U);
}

TEST(MemoryLimits, AreNoneWithoutCgroups) {
  EXPECT_TRUE(memory_limits(tests::text_files()).empty());
}

}  // namespace
}  // namespace numapool::cgroup
