// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cli/buffer_facts.hpp"
#include "cli/errors.hpp"
#include "cli/quantity.hpp"

namespace numapool::cli {

namespace {

using json = nlohmann::ordered_json;

json node_or_null(node_id node) {
  return node.is_unknown() ? json(nullptr) : json(node.value());
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json errno_or_null(const boost::system::error_code& code) {
  const int number = errno_of(code);
  return number == 0 ? json(nullptr) : json(number);
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

json placement_json(const placement& found) {
  json by_node = json::object();
  for (const pages_on_node& entry : found.by_node) {
    const bool unknown = entry.node.is_unknown();
    by_node[unknown ? "unknown" : std::to_string(entry.node.value())] = entry.pages;
  }
  json facts;
  facts["verified"] = name(found.verified);
  facts["witness"] = name(found.by);
  facts["pages_checked"] = found.pages_checked;
  facts["pages_by_node"] = std::move(by_node);
  // 0 would say that the pages are elsewhere.
  facts["share_on_node"] = found.pages_checked == 0 ? json(nullptr) : json(found.share_on_node);
  facts["errno"] = errno_or_null(found.error);
  return facts;
}

// policy and pin: what was asked and obtained, and why not the same.
template <typename Outcome>
json outcome_json(const Outcome& outcome) {
  json facts;
  facts["asked"] = name(outcome.asked);
  facts["obtained"] = name(outcome.obtained);
  if constexpr (requires { outcome.via; }) {
    facts["via"] = outcome.via == pin_route::none ? json(nullptr) : json(name(outcome.via));
  }
  facts["errno"] = errno_or_null(outcome.error);
  facts["reason"] = text_or_null(outcome.reason);
  return facts;
}

json registrations_json(const std::vector<registration>& registrations) {
  json list = json::array();
  for (const registration& range : registrations) {
    json facts;
    facts["offset"] = range.offset_bytes;
    facts["bytes"] = range.size_bytes;
    facts["device_pointer"] =
        range.device_pointer == nullptr
            ? json(nullptr)
            : json(format_address(reinterpret_cast<std::uintptr_t>(range.device_pointer)));
    list.push_back(std::move(facts));
  }
  return list;
}

json timings_json(const timings& steps) {
  json facts;
  facts["map"] = seconds(steps.map);
  facts["populate"] = seconds(steps.populate);
  facts["verify"] = seconds(steps.verify);
  facts["register"] = seconds(steps.register_);
  facts["total"] = seconds(steps.total);
  return facts;
}

json buffer_json(const buffer_facts& buffer) {
  json facts;
  facts["address"] = format_address(buffer.address);
  facts["requested_bytes"] = buffer.requested_bytes;
  facts["mapped_bytes"] = buffer.mapped_bytes;
  facts["node_requested"] = node_or_null(buffer.node_requested);
  const bool is_devices_node = buffer.node_source != node_source::unknown;
  facts["node_source"] = is_devices_node ? json(name(buffer.node_source)) : json(nullptr);
  facts["node_reached"] = node_or_null(buffer.node_reached);
  facts["node_of_workers"] = node_or_null(buffer.node_of_workers);
  facts["device"] = buffer.device ? json(*buffer.device) : json(nullptr);
  facts["route"] = name(buffer.route);
  facts["placement"] = placement_json(buffer.placement);
  facts["page_kind"] = name(buffer.pages.kind);
  facts["page_size_bytes"] = buffer.pages.page_size_bytes;
  facts["huge_bytes"] = buffer.pages.huge_bytes ? json(*buffer.pages.huge_bytes) : json(nullptr);
  facts["page_reason"] = text_or_null(buffer.pages.reason);
  facts["policy"] = outcome_json(buffer.policy);
  facts["pin"] = outcome_json(buffer.pin);
  facts["registrations"] = registrations_json(buffer.registrations);
  facts["workers"] = buffer.workers;
  facts["seconds"] = timings_json(buffer.timings);
  return facts;
}

}  // namespace

json allocation_json(long pid, const std::vector<buffer_facts>& buffers) {
  json list = json::array();
  for (const buffer_facts& buffer : buffers) {
    list.push_back(buffer_json(buffer));
  }
  json document;
  document["pid"] = pid;
  document["buffers"] = std::move(list);
  return document;
}

}  // namespace numapool::cli
