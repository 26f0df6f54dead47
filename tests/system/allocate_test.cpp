// SPDX-License-Identifier: Apache-2.0
//
// Goal: this kernel gives what the handle says: resident pages of the kind named, locked or not,
// guarded, zeroed; and has everything back afterwards.
// Method: real pools; /proc/self/smaps, status and maps as the second opinion.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "support/smaps.hpp"
#include "support/task_list.hpp"

namespace numapool {
namespace {

using test::area_of;
using testing::IsEmpty;

constexpr std::size_t mib = std::size_t{1} << 20U;

node_id first_node() {
  return topology::system()->nodes().front().id;
}

request ask(std::size_t size_bytes = 16 * mib) {
  request what;
  what.size_bytes = size_bytes;
  what.node = topology::system()->nearest_memory_node(first_node());
  what.pin = pin_policy::none;
  return what;
}

bool has_huge_pages() {
  std::string line;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), line);
  return !line.empty() && line.find("[never]") == std::string::npos;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

// The kernel's pool of 2 MiB pages, raised for a test and put back.
class huge_page_pool_guard {
 public:
  explicit huge_page_pool_guard(unsigned pages) : before_(read()) {
    write(before_.value_or(0) + pages);
    is_raised_ = before_ && read() == *before_ + pages;
  }
  ~huge_page_pool_guard() {
    if (before_) {
      write(*before_);
    }
  }
  huge_page_pool_guard(const huge_page_pool_guard&) = delete;
  huge_page_pool_guard& operator=(const huge_page_pool_guard&) = delete;
  [[nodiscard]] bool is_raised() const { return is_raised_; }

 private:
  static constexpr const char* path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
  static std::optional<unsigned> read() {
    unsigned pages = 0;
    std::ifstream file(path);
    return file >> pages ? std::optional(pages) : std::nullopt;
  }
  static void write(unsigned pages) { std::ofstream(path) << pages << std::flush; }

  std::optional<unsigned> before_;
  bool is_raised_ = false;
};

TEST(RealAllocation, HasResidentBasePages) {
  worker_pool pool;
  for (const auto mode : {populate_mode::quiet, populate_mode::fast}) {
    request what = ask(16 * mib + 1);
    what.pages = page_policy::base;
    what.populate = mode;
    const buffer held = pool.allocate(what);
    const auto area = area_of(held.data(), held.mapped_bytes());
    EXPECT_EQ(area.bytes.at("Rss"), held.mapped_bytes());
    EXPECT_EQ(area.bytes.at("AnonHugePages"), 0U);
    EXPECT_EQ(area.permissions, "rw-p");
    EXPECT_EQ(held.pages().kind, page_kind::base);
    EXPECT_EQ(held.pages().huge_bytes, 0U);
    EXPECT_EQ(held.mapped_bytes(), 16 * mib + static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  }
}

TEST(RealAllocation, HasHugePagesAsManyAsItSays) {
  if (!has_huge_pages()) {
    GTEST_SKIP() << "SKIPPED: transparent huge pages are off on this kernel";
  }
  worker_pool pool;
  for (const auto mode : {populate_mode::quiet, populate_mode::fast}) {
    request what = ask(64 * mib);
    what.populate = mode;
    const buffer held = pool.allocate(what);
    const auto area = area_of(held.data(), held.mapped_bytes());
    EXPECT_EQ(area.bytes.at("Rss"), held.mapped_bytes());
    ASSERT_TRUE(held.pages().huge_bytes.has_value());
    EXPECT_EQ(*held.pages().huge_bytes, area.bytes.at("AnonHugePages"));
    EXPECT_EQ(held.pages().kind,
              area.bytes.at("AnonHugePages") > 0 ? page_kind::thp : page_kind::base);
    EXPECT_GT(area.bytes.at("AnonHugePages"), 0U)
        << "not one huge page on a machine with free memory";
  }
}

TEST(RealAllocation, TakesHugetlbPagesWhenAskedFor) {
  const huge_page_pool_guard pages(8);
  if (!pages.is_raised()) {
    GTEST_SKIP() << "SKIPPED: this process may not raise nr_hugepages, or the kernel found no "
                    "eight free huge pages";
  }
  worker_pool pool;
  for (const auto bind : {bind_policy::prefer, bind_policy::strict}) {
    request what = ask(15 * mib);
    what.pages = page_policy::huge_2mib;
    what.bind = bind;
    what.verify = verify_policy::full;
    const buffer held = pool.allocate(what);
    EXPECT_EQ(held.mapped_bytes(), 16 * mib);
    EXPECT_EQ(held.pages().kind, page_kind::hugetlb);
    const auto area = area_of(held.data(), held.mapped_bytes());
    EXPECT_EQ(area.bytes.at("KernelPageSize"), 2 * mib);
    EXPECT_EQ(area.bytes.at("Private_Hugetlb"), 16 * mib);
    EXPECT_EQ(held.placement().share_on_node, 1.0);
    EXPECT_TRUE(is_zero(held.span()));
  }
  request too_much = ask(1024 * mib);
  too_much.pages = page_policy::huge_2mib;
  boost::system::error_code error;
  static_cast<void>(pool.allocate(too_much, error));
  EXPECT_EQ(error, errc::no_huge_pages);
}

TEST(RealAllocation, IsLockedWhenItSaysSo) {
  worker_pool pool;
  request what = ask(8 * mib);
  what.pin = pin_policy::automatic;
  const buffer held = pool.allocate(what);
  const auto area = area_of(held.data(), held.mapped_bytes());
  if (held.pin().obtained == pin_kind::mlock) {
    EXPECT_EQ(area.bytes.at("Locked"), held.mapped_bytes());
  } else {
    EXPECT_EQ(area.bytes.at("Locked"), 0U);
    EXPECT_FALSE(held.pin().reason.empty() && held.pin().obtained == pin_kind::none);
  }
}

TEST(RealAllocation, OfFourAtOnceAreFourWholeBuffers) {
  worker_pool pool;
  std::vector<buffer> made(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < made.size(); ++i) {
      threads.emplace_back([&, i] { made[i] = pool.allocate(ask((40 + i) * mib)); });
    }
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].size_bytes(), (40 + i) * mib);
    EXPECT_EQ(area_of(made[i].data(), made[i].mapped_bytes()).bytes.at("Rss"),
              made[i].mapped_bytes());
  }
}

TEST(RealAllocation, IsZeroedAlthoughTheMemoryWasUsedBefore) {
  worker_pool pool;
  for (int round = 0; round < 3; ++round) {
    const buffer held = pool.allocate(ask(8 * mib));
    EXPECT_TRUE(is_zero({held.data(), held.mapped_bytes()}));
    std::fill_n(held.data(), held.mapped_bytes(), std::byte{0xa5});
  }
}

TEST(RealAllocation, GivesEverythingBack) {
  worker_pool pool;
  pool.allocate(ask()).reset();
  wait_for_releases();
  const std::size_t areas = test::areas_kept_from_children();
  const std::uint64_t locked = test::status_bytes("VmLck");
  const std::uint64_t resident = test::status_bytes("VmRSS");
  for (int round = 0; round < 10; ++round) {
    request what = ask(16 * mib);
    what.pin = pin_policy::automatic;
    buffer held = pool.allocate(what);
    EXPECT_EQ(test::areas_kept_from_children(), areas + 1) << "a forked child has no share in it";
    held.reset();
    wait_for_releases();
  }
  EXPECT_EQ(test::areas_kept_from_children(), areas);
  EXPECT_EQ(test::status_bytes("VmLck"), locked);
#if !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)  // their shadow memory is resident too
  EXPECT_LT(test::status_bytes("VmRSS"), resident + 8 * mib);
#else
  static_cast<void>(resident);
#endif
}

// write(2) answers EFAULT where a load would be a signal.
bool can_read(const std::byte* address) {
  const int sink = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  int pipe_ends[2] = {};
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const bool could = ::write(pipe_ends[1], address, 1) == 1;
  EXPECT_TRUE(could || errno == EFAULT);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ::close(sink);
  return could;
}

TEST(GuardPages, LieOnBothSides) {
  worker_pool pool;
  const buffer held = pool.allocate(ask(4 * mib));
  EXPECT_FALSE(can_read(held.data() - 1));
  EXPECT_TRUE(can_read(held.data()));
  EXPECT_TRUE(can_read(held.data() + held.mapped_bytes() - 1));
  EXPECT_FALSE(can_read(held.data() + held.mapped_bytes()));
  const auto begin = reinterpret_cast<std::uintptr_t>(held.data());
  int guards = 0;
  for (const auto& area : test::read_smaps()) {
    const bool is_beside = area.end == begin || area.begin == begin + held.mapped_bytes();
    guards += is_beside && area.permissions == "---p" ? 1 : 0;
  }
  EXPECT_EQ(guards, 2) << "nothing else can be mapped there, and so nothing merges with it";
}

using GuardPagesDeathTest = testing::Test;

TEST_F(GuardPagesDeathTest, EndAProcessThatWritesThere) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const bool is_before : {true, false}) {
    EXPECT_DEATH(
        {
          worker_pool pool;
          const buffer held = pool.allocate(ask(mib));
          volatile std::byte* const beside =
              is_before ? held.data() - 1 : held.data() + held.mapped_bytes();
          *beside = std::byte{1};
        },
        "");
  }
}

TEST(RealPool, HasThreadsNamedAndPinnedThatEndWithIt) {
  const node_info& node =
      *topology::system()->find(topology::system()->nearest_usable_node(first_node()));
  const std::string name = "numapool-" + std::to_string(node.id.value());
  {
    worker_pool pool;
    EXPECT_THAT(test::tasks_named(name), IsEmpty());
    pool.submit(node.id, [] {});
    const auto threads = test::tasks_named(name);
    EXPECT_EQ(threads.size(), pool.stats().nodes.front().workers);
    ASSERT_FALSE(threads.empty());
    for (const auto& thread : threads) {
      EXPECT_EQ(thread.name, name);
      EXPECT_TRUE(cpu_set::parse_list(thread.cpus).is_subset_of(node.usable_cpus)) << thread.cpus;
    }
  }
  EXPECT_THAT(test::tasks_named(name), IsEmpty());
}

}  // namespace
}  // namespace numapool
