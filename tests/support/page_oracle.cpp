// SPDX-License-Identifier: Apache-2.0
#include "support/page_oracle.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <system_error>

#include <gtest/gtest.h>

namespace numapool::test {
namespace {

constexpr unsigned long policy_of_node = 1;     // MPOL_F_NODE, set_mempolicy(2)
constexpr unsigned long policy_of_address = 2;  // MPOL_F_ADDR

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

void* page_at(const void* data, std::size_t index) {
  return const_cast<char*>(static_cast<const char*>(data)) + index * page_bytes();
}

std::string error_text(int error_number) {
  return std::generic_category().message(error_number);
}

testimony silent(const char* witness, std::string reason) {
  return {witness, std::nullopt, std::move(reason)};
}

testimony ask_move_pages(const void* data, std::size_t count) {
  page_census census;
  std::vector<void*> pages(count);
  std::vector<int> nodes(count);
  for (std::size_t i = 0; i < count; ++i) {
    pages[i] = page_at(data, i);
  }
  if (::syscall(SYS_move_pages, 0, count, pages.data(), nullptr, nodes.data(), 0) != 0) {
    return silent("move_pages", error_text(errno));
  }
  for (const int node : nodes) {
    if (node >= 0) {
      ++census.by_node[node];
    } else {
      ++census.not_resident;
    }
  }
  return {"move_pages", census, ""};
}

testimony ask_get_mempolicy(const void* data, std::size_t count) {
  page_census census;
  for (std::size_t i = 0; i < count; ++i) {
    int node = -1;
    if (::syscall(SYS_get_mempolicy, &node, nullptr, 0, page_at(data, i),
                  policy_of_node | policy_of_address) != 0) {
      return silent("get_mempolicy", error_text(errno));
    }
    ++census.by_node[node];
  }
  return {"get_mempolicy", census, ""};
}

// One line's pages, added in base pages: "7f..., bind:1 anon=512 N1=512 kernelpagesize_kB=4".
void add_line(const std::string& line, page_census& census) {
  std::map<int, std::size_t> pages;
  std::size_t page_kib = page_bytes() / 1024;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    int node = 0;
    unsigned long count = 0;
    if (std::sscanf(word.c_str(), "N%d=%lu", &node, &count) == 2) {
      pages[node] += count;
    } else if (std::sscanf(word.c_str(), "kernelpagesize_kB=%lu", &count) == 1) {
      page_kib = count;
    }
  }
  for (const auto& [node, count] : pages) {
    census.by_node[node] += count * page_kib * 1024 / page_bytes();
  }
}

std::string read_numa_maps(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/numa_maps");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// In the child: reads the parent's file and hands it back.
[[noreturn]] void send_numa_maps(pid_t parent, int pipe_end) {
  const std::string text = read_numa_maps(parent);
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::write(pipe_end, text.data() + sent, text.size() - sent);
    if (count <= 0) {
      ::_exit(1);
    }
    sent += static_cast<std::size_t>(count);
  }
  ::_exit(text.empty() ? 1 : 0);
}

// This process's numa_maps as another process reads it; "" where it may not.
std::string numa_maps_by_another() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    return {};
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    send_numa_maps(parent, ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t count = 0; (count = ::read(ends[0], block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0 ? text : std::string();
}

testimony ask_numa_maps(const void* data, std::size_t count) {
  const std::string text = numa_maps_by_another();
  if (text.empty()) {
    return silent("numa_maps", "another process may not read it, or it is not there");
  }
  page_census census;
  const std::uintptr_t begin = address_of(data);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::uintptr_t address = std::stoull(line, nullptr, 16);
    if (address >= begin && address < begin + count * page_bytes()) {
      add_line(line, census);
    }
  }
  const std::size_t resident = census.pages();
  census.not_resident = count > resident ? count - resident : 0;
  return {"numa_maps", census, ""};
}

}  // namespace

std::size_t page_census::pages() const {
  std::size_t sum = not_resident;
  for (const auto& [node, count] : by_node) {
    sum += count;
  }
  return sum;
}

std::ostream& operator<<(std::ostream& stream, const page_census& census) {
  for (const auto& [node, count] : census.by_node) {
    stream << "node " << node << ": " << count << "; ";
  }
  return stream << "not resident: " << census.not_resident;
}

std::vector<testimony> ask_witnesses(const void* data, std::size_t size_bytes) {
  const std::size_t count = size_bytes / page_bytes();
  // numa_maps before get_mempolicy, which makes a page resident to tell its node.
  testimony first = ask_move_pages(data, count);
  testimony third = ask_numa_maps(data, count);
  return {std::move(first), ask_get_mempolicy(data, count), std::move(third)};
}

page_census census_of(const void* data, std::size_t size_bytes, std::size_t at_least) {
  std::optional<page_census> agreed;
  std::size_t speakers = 0;
  std::ostringstream said;
  bool agree = true;
  for (const testimony& each : ask_witnesses(data, size_bytes)) {
    said << "\n  " << each.witness << ": ";
    if (!each.census) {
      said << "silent, " << each.reason;
      continue;
    }
    said << *each.census;
    ++speakers;
    agree = agree && (!agreed || *agreed == *each.census);
    agreed = agreed ? agreed : each.census;
  }
  EXPECT_TRUE(agree) << "the witnesses disagree:" << said.str();
  EXPECT_GE(speakers, at_least) << "too few witnesses speak:" << said.str();
  return agreed.value_or(page_census{});
}

}  // namespace numapool::test
