// SPDX-License-Identifier: Apache-2.0
#include "cli/allocate_options.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/device_argument.hpp"
#include "cli/errors.hpp"
#include "cli/quantity.hpp"

namespace numapool::cli {

namespace {

constexpr std::uint64_t count_max = 4096;    // times the nodes; more is a slip of the hand
constexpr std::uint64_t threads_max = 1024;  // a node

template <typename Value, std::size_t N>
using choices = std::array<std::pair<std::string_view, Value>, N>;

constexpr choices<page_policy, 5> page_choices{{{"auto", page_policy::automatic},
                                                {"base", page_policy::base},
                                                {"thp", page_policy::thp},
                                                {"2MiB", page_policy::huge_2mib},
                                                {"1GiB", page_policy::huge_1gib}}};
constexpr choices<pin_policy, 4> pin_choices{{{"auto", pin_policy::automatic},
                                              {"cuda", pin_policy::cuda},
                                              {"mlock", pin_policy::mlock},
                                              {"none", pin_policy::none}}};
constexpr choices<bind_policy, 3> bind_choices{{{"prefer", bind_policy::prefer},
                                                {"strict", bind_policy::strict},
                                                {"none", bind_policy::none}}};
constexpr choices<verify_policy, 3> verify_choices{{{"sample", verify_policy::sample},
                                                    {"full", verify_policy::full},
                                                    {"off", verify_policy::off}}};
constexpr choices<populate_mode, 2> populate_choices{
    {{"quiet", populate_mode::quiet}, {"fast", populate_mode::fast}}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

template <typename Value, std::size_t N>
Value choose(std::string_view text, const choices<Value, N>& among) {
  std::string names;
  for (const auto& [spelling, value] : among) {
    if (equal_ignoring_case(text, spelling)) {
      return value;
    }
    names += (names.empty() ? "" : ", ") + std::string(spelling);
  }
  throw usage_error("'" + std::string(text) + "' is not one of its values; write one of " + names);
}

// Reads the option into `value` when it was given; what is wrong with its text then begins with its
// name.
template <typename Value, typename Read>
void read_option(const char* option, const std::optional<std::string>& text, Value& value,
                 Read read) {
  if (!text) {
    return;
  }
  try {
    value = read(*text);
  } catch (const usage_error& wrong) {
    throw usage_error(std::string(option) + ": " + wrong.what());
  }
}

void read_target(const allocate_arguments& typed, allocate_options& asked) {
  const int targets =
      int{typed.node.has_value()} + int{typed.device.has_value()} + int{typed.all_nodes};
  if (targets != 1) {
    throw usage_error(
        std::string(targets == 0 ? "no target was named" : "the targets exclude each other") +
        "; write one of --node N, --device D or --all-nodes");
  }
  asked.all_nodes = typed.all_nodes;
  read_option("--node", typed.node, asked.what.node, [](const std::string& text) {
    return node_id(static_cast<std::uint32_t>(parse_whole(text, 0, node_set::id_max)));
  });
  read_option("--device", typed.device, asked.device, read_device);
}

}  // namespace

allocate_options read_arguments(const allocate_arguments& typed) {
  allocate_options asked;
  read_target(typed, asked);
  if (!typed.size) {
    throw usage_error("no size was named; write --size BYTES, as in --size 256MiB");
  }
  const auto pick = [](const auto& among) {
    return [&among](const std::string& text) {
      return choose(text, among);
    };
  };
  read_option("--size", typed.size, asked.what.size_bytes, parse_size);
  read_option("--count", typed.count, asked.count,
              [](const std::string& text) { return parse_whole(text, 1, count_max); });
  read_option("--pages", typed.pages, asked.what.pages, pick(page_choices));
  read_option("--pin", typed.pin, asked.what.pin, pick(pin_choices));
  read_option("--policy", typed.policy, asked.what.bind, pick(bind_choices));
  read_option("--verify", typed.verify, asked.what.verify, pick(verify_choices));
  read_option("--populate", typed.populate, asked.what.populate, pick(populate_choices));
  read_option("--chunk", typed.chunk, asked.what.chunk_bytes, parse_size);
  read_option("--threads", typed.threads, asked.workers_per_node, [](const std::string& text) {
    return static_cast<unsigned>(parse_whole(text, 1, threads_max));
  });
  read_option("--timeout", typed.timeout, asked.what.timeout, parse_seconds);
  read_option("--hold", typed.hold, asked.hold, parse_seconds);
  return asked;
}

std::vector<request> requests_of(const allocate_options& asked,
                                 const std::vector<node_info>& nodes) {
  std::vector<request> requests;
  const auto add = [&](const request& what) {
    requests.insert(requests.end(), asked.count, what);
  };
  if (!asked.all_nodes) {
    add(asked.what);
    return requests;
  }
  for (const node_info& node : nodes) {
    if (node.allowed_memory && node.memory_bytes != 0 && !node.gpu_pci_address) {
      request what = asked.what;
      what.node = node.id;
      add(what);
    }
  }
  if (requests.empty()) {
    failure why;
    why.code = errc::node_not_allowed;
    why.operation = operation::resolve;
    why.size_bytes = asked.what.size_bytes;
    why.message =
        "no node has host memory that this process may use; widen its cpuset, "
        "'numapool topology' shows the nodes";
    throw error(std::move(why));
  }
  return requests;
}

}  // namespace numapool::cli
