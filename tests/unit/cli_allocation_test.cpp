// SPDX-License-Identifier: Apache-2.0
// Goal: `allocate` understands its options or says what is wrong, and shows a buffer by the
// documented names, with a line for everything that degraded. Method: plain values; nothing is
// allocated.
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/allocate_options.hpp"
#include "cli/buffer_facts.hpp"
#include "cli/errors.hpp"

namespace {

using namespace numapool;
using namespace numapool::cli;
using testing::AllOf;
using testing::HasSubstr;

allocate_arguments minimal() {
  allocate_arguments typed;
  typed.node = "1";
  typed.size = "64KiB";
  return typed;
}

std::string refusal(const allocate_arguments& typed) {
  try {
    static_cast<void>(read_arguments(typed));
  } catch (const usage_error& wrong) {
    return wrong.what();
  }
  return "accepted";
}

boost::system::error_code kernel_error(int number) {
  return {number, boost::system::system_category()};
}

buffer_facts good_buffer() {
  buffer_facts facts;
  facts.address = 0x7f0000200000;
  facts.requested_bytes = (std::size_t{1} << 30U) - 1;
  facts.mapped_bytes = std::size_t{1} << 30U;
  facts.node_requested = facts.node_reached = facts.node_of_workers = node_id(1);
  facts.workers = 8;
  facts.device = 0;
  facts.placement.verified = verify_policy::full;
  facts.placement.by = witness::move_pages;
  facts.placement.pages_checked = 262144;
  facts.placement.by_node = {{node_id(1), 262144}};
  facts.placement.share_on_node = 1;
  facts.pages = {page_kind::thp, std::size_t{2} << 20U, std::size_t{1} << 30U, ""};
  facts.policy.obtained = bind_kind::prefer;
  facts.pin.obtained = pin_kind::cuda;
  facts.pin.via = pin_route::runtime;
  facts.timings.total = std::chrono::milliseconds(250);
  facts.timings.populate = std::chrono::milliseconds(200);
  facts.registrations = {{0, facts.mapped_bytes, nullptr}};
  return facts;
}

buffer_facts degraded_buffer() {
  buffer_facts facts = good_buffer();
  facts.device.reset();
  facts.node_source = node_source::heuristic;
  facts.node_reached = node_id(0);
  facts.node_of_workers = node_id(0);
  facts.placement.share_on_node = 0.25;
  facts.placement.pages_checked = 64;
  facts.placement.by_node = {{node_id(0), 40}, {node_id(1), 16}, {node_id::unknown, 8}};
  facts.placement.by = witness::get_mempolicy;
  facts.placement.error = kernel_error(EPERM);
  facts.pages = {page_kind::base, 4096, {}, "transparent huge pages are off"};
  facts.policy = {bind_policy::prefer, bind_kind::first_touch, kernel_error(EPERM),
                  "not permitted"};
  facts.pin = {pin_policy::automatic, pin_kind::none, pin_route::none, kernel_error(ENOMEM),
               "no CUDA, and the memlock limit is 8 MiB"};
  facts.registrations.clear();
  return facts;
}

TEST(CliAllocateOptions, DefaultsAreTheLibrarys) {
  const allocate_options asked = read_arguments(minimal());
  EXPECT_EQ(asked.what.node, node_id(1));
  EXPECT_EQ(asked.what.size_bytes, 65536U);
  EXPECT_EQ(asked.count, 1U);
  EXPECT_EQ(asked.what.bind, request().bind);
  EXPECT_EQ(asked.what.verify, request().verify);
  EXPECT_EQ(asked.what.timeout.count(), 0);
}

TEST(CliAllocateOptions, ReadsEveryOption) {
  allocate_arguments typed;
  typed.device = "3";
  typed.size = "1GiB";
  typed.count = "2";
  typed.pages = "2mib";
  typed.pin = "mlock";
  typed.policy = "strict";
  typed.verify = "full";
  typed.populate = "fast";
  typed.chunk = "64MiB";
  typed.threads = "4";
  typed.timeout = "1.5";
  typed.hold = "20";
  const allocate_options asked = read_arguments(typed);
  EXPECT_EQ(asked.device, "3");
  EXPECT_TRUE(asked.what.node.is_unknown());
  EXPECT_EQ(asked.count, 2U);
  EXPECT_EQ(asked.what.pages, page_policy::huge_2mib);
  EXPECT_EQ(asked.what.pin, pin_policy::mlock);
  EXPECT_EQ(asked.what.bind, bind_policy::strict);
  EXPECT_EQ(asked.what.verify, verify_policy::full);
  EXPECT_EQ(asked.what.populate, populate_mode::fast);
  EXPECT_EQ(asked.what.chunk_bytes, std::size_t{64} << 20U);
  EXPECT_EQ(asked.workers_per_node, 4U);
  EXPECT_EQ(asked.what.timeout.count(), 1500);
  EXPECT_EQ(asked.hold.count(), 20000);
}

TEST(CliAllocateOptions, WantsOneTargetAndASize) {
  allocate_arguments typed = minimal();
  typed.node.reset();
  EXPECT_THAT(refusal(typed), AllOf(HasSubstr("no target"), HasSubstr("--all-nodes")));
  typed = minimal();
  typed.all_nodes = true;
  EXPECT_THAT(refusal(typed), HasSubstr("exclude each other"));
  typed = minimal();
  typed.size.reset();
  EXPECT_THAT(refusal(typed), HasSubstr("--size"));
}

TEST(CliAllocateOptions, NamesTheOptionTheTextAndTheWayOut) {
  allocate_arguments typed = minimal();
  typed.size = "64K";
  EXPECT_THAT(refusal(typed), AllOf(HasSubstr("--size: '64K'"), HasSubstr("64KiB")));
  typed = minimal();
  typed.pages = "4MiB";
  EXPECT_THAT(refusal(typed), AllOf(HasSubstr("--pages: '4MiB'"), HasSubstr("auto, base, thp")));
  typed = minimal();
  typed.node = "-1";
  EXPECT_THAT(refusal(typed), HasSubstr("--node: '-1'"));
  typed = minimal();
  typed.node.reset();
  for (const char* text : {"gpu0", "-1", "", "0,1", "GPU", "70000"}) {
    typed.device = text;
    EXPECT_THAT(refusal(typed), HasSubstr("--device: '" + std::string(text) + "'"));
  }
  for (const char* text :
       {"0", "GPU-8a3f", "MIG-8a3f", "0000:3b:00.0", "00000008:01:00.0", "3B:00", "local-rank"}) {
    typed.device = text;
    EXPECT_EQ(read_arguments(typed).device, text);
  }
}

TEST(CliAllocateRequests, AllNodesAreThoseWithHostMemoryWeMayTake) {
  allocate_options asked;
  asked.all_nodes = true;
  asked.count = 2;
  std::vector<node_info> nodes(5);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = node_id(static_cast<std::uint32_t>(i) * 3);
    nodes[i].memory_bytes = 4096;
    nodes[i].allowed_memory = true;
  }
  nodes[1].memory_bytes = 0;
  nodes[2].allowed_memory = false;
  nodes[3].gpu_pci_address = "0009:01:00.0";
  const auto requests = requests_of(asked, nodes);
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_EQ(requests[0].node, node_id(0));
  EXPECT_EQ(requests[1].node, node_id(0));
  EXPECT_EQ(requests[3].node, node_id(12));
  try {
    static_cast<void>(requests_of(asked, {}));
    FAIL() << "accepted";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::node_not_allowed);
  }
}

TEST(CliAllocationJson, HasTheDocumentedNames) {
  const auto document =
      nlohmann::json::parse(allocation_json(42, {good_buffer(), degraded_buffer()}).dump());
  EXPECT_EQ(document["pid"], 42);
  auto good = document["buffers"][0];
  EXPECT_EQ(good["seconds"]["total"], 0.25);
  EXPECT_EQ(good["route"], name(route::node_workers));
  good.erase("route");
  EXPECT_EQ(good, nlohmann::json::parse(R"({
    "address": "0x7f0000200000", "requested_bytes": 1073741823, "mapped_bytes": 1073741824,
    "node_requested": 1, "node_source": null, "node_reached": 1, "node_of_workers": 1, "device": 0,
    "placement": {"verified": "full", "witness": "move_pages", "pages_checked": 262144,
                  "pages_by_node": {"1": 262144}, "share_on_node": 1.0, "errno": null},
    "page_kind": "thp", "page_size_bytes": 2097152, "huge_bytes": 1073741824, "page_reason": null,
    "policy": {"asked": "prefer", "obtained": "prefer", "errno": null, "reason": null},
    "pin": {"asked": "auto", "obtained": "cuda", "via": "runtime", "errno": null, "reason": null},
    "registrations": [{"offset": 0, "bytes": 1073741824, "device_pointer": null}], "workers": 8,
    "seconds": {"map": 0.0, "populate": 0.2, "verify": 0.0, "register": 0.0, "total": 0.25}})"))
      << good.dump(2);
  const auto& degraded = document["buffers"][1];
  EXPECT_TRUE(degraded["device"].is_null());
  EXPECT_EQ(degraded["node_source"], "heuristic");
  EXPECT_TRUE(degraded["huge_bytes"].is_null());
  EXPECT_EQ(degraded["placement"]["pages_by_node"]["unknown"], 8);
  EXPECT_EQ(degraded["policy"]["obtained"], "first-touch");
  EXPECT_EQ(degraded["policy"]["errno"], EPERM);
  EXPECT_EQ(degraded["pin"]["obtained"], "none");
  EXPECT_TRUE(degraded["pin"]["via"].is_null());
  EXPECT_EQ(degraded["pin"]["errno"], ENOMEM);
}

TEST(CliAllocationJson, UncheckedIsNotElsewhere) {
  buffer_facts facts = good_buffer();
  facts.placement = {};
  facts.node_reached = {};
  const auto document = allocation_json(1, {facts});
  EXPECT_TRUE(document["buffers"][0]["placement"]["share_on_node"].is_null());
  EXPECT_TRUE(document["buffers"][0]["node_reached"].is_null());
  EXPECT_TRUE(degradations(facts).empty());
}

TEST(CliAllocationText, OneLineABufferAndNoMoreWhenAllIsAsAsked) {
  EXPECT_EQ(
      allocation_text({good_buffer()}),
      "#  node  reached         address   size  pages                  on node (witness)           "
      " "
      " policy  pin             workers  map s  populate s  verify s  register s  total s  GiB/s\n"
      "0     1        1  0x7f0000200000  1 GiB  thp 2 MiB, 100 % huge  100 % of 262144 (move_pages)"
      "  prefer  cuda (runtime)        8  0.000       0.200     0.000       0.000    0.250   "
      "4.00\n");
}

TEST(CliAllocationText, SaysWhatDegradedAndWhy) {
  const std::string text = allocation_text({good_buffer(), degraded_buffer()});
  EXPECT_THAT(text, HasSubstr("25.0 % of 64 (get_mempolicy)"));
  EXPECT_THAT(text, HasSubstr("  buffer 1: policy: asked prefer, obtained first-touch: not perm"));
  EXPECT_THAT(text, HasSubstr("  buffer 1: pages: obtained base: transparent huge pages are off"));
  EXPECT_THAT(text, HasSubstr("node 0 has 40, node 1 has 16, not resident 8"));
  EXPECT_THAT(text, HasSubstr("node 1 has no usable CPU, those of node 0 filled it"));
  EXPECT_THAT(text, HasSubstr("  buffer 1: pin: asked auto, obtained none: no CUDA, and the mem"));
  EXPECT_THAT(text, testing::Not(HasSubstr("buffer 0:")));
}

TEST(CliAllocationText, TheSameReasonIsSaidOnce) {
  const std::string text = allocation_text({degraded_buffer(), good_buffer(), degraded_buffer()});
  EXPECT_THAT(text, HasSubstr("  buffers 0,2: pages: obtained base"));
  EXPECT_THAT(allocation_text({degraded_buffer(), degraded_buffer()}),
              HasSubstr("  all buffers: pin: asked auto"));
}

TEST(CliErrors, ALibraryErrorBecomesTheDocument) {
  failure why;
  why.code = errc::out_of_node_memory;
  why.operation = operation::populate;
  why.node = node_id(1);
  why.size_bytes = 4096;
  why.cause = kernel_error(ENOMEM);
  why.message = "node 1 is full";
  try {
    throw error(why);
  } catch (...) {
    const report told = report_current_exception();
    EXPECT_EQ(told.exit_status, exit_failed);
    EXPECT_EQ(nlohmann::json::parse(error_document(told).dump()), nlohmann::json::parse(R"({
      "error": {"code": "out_of_node_memory", "message": "node 1 is full", "operation": "populate",
                "node": 1, "bytes": 4096, "errno": 12}})"));
  }
}

TEST(CliErrors, NothingIsTooStrangeToTell) {
  const auto told = [](auto thrown) {
    try {
      throw thrown;
    } catch (...) {
      return report_current_exception();
    }
  };
  EXPECT_THAT(told(std::logic_error("odd")).message, HasSubstr("odd"));
  EXPECT_EQ(told(std::bad_alloc()).code, "out_of_memory");
  EXPECT_EQ(told(17).exit_status, exit_failed);
  EXPECT_EQ(told(usage_error("x")).exit_status, exit_usage);
  EXPECT_EQ(told(interrupted(15)).exit_status, 143);
  EXPECT_EQ(told(output_error("a.svg", ENOSPC)).error_number, ENOSPC);
  EXPECT_TRUE(error_document(told(17))["error"]["node"].is_null());
}

}  // namespace
