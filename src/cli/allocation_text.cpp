// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cli/buffer_facts.hpp"
#include "cli/quantity.hpp"
#include "cli/text_table.hpp"

namespace numapool::cli {

namespace {

std::string number(node_id node) {
  return node.is_unknown() ? "?" : std::to_string(node.value());
}

std::string percent(double share) {
  // 99.96 % must not read as all of it, nor 0.04 % as nothing.
  const double value = share * 100;
  const bool rounds_to_end = (value < 100 && value > 99.9) || (value > 0 && value < 0.1);
  if (rounds_to_end) {
    return value > 50 ? "> 99.9 %" : "< 0.1 %";
  }
  return format_fixed(value, value == 100 || value == 0 ? 0 : 1) + " %";
}

std::string seconds(std::chrono::nanoseconds time) {
  return format_fixed(std::chrono::duration<double>(time).count(), 3);
}

std::string pages_cell(const buffer_facts& buffer) {
  const page_outcome& pages = buffer.pages;
  std::string cell(name(pages.kind));
  cell += " " + format_bytes(pages.page_size_bytes);
  if (pages.kind == page_kind::base) {
    return cell;
  }
  if (!pages.huge_bytes) {
    return cell + ", huge share not said";
  }
  const double share = buffer.mapped_bytes == 0 ? 0
                                                : static_cast<double>(*pages.huge_bytes) /
                                                      static_cast<double>(buffer.mapped_bytes);
  return cell + ", " + percent(share) + " huge";
}

std::string share_cell(const placement& found) {
  if (found.pages_checked == 0) {
    return "not checked";
  }
  return percent(found.share_on_node) + " of " + std::to_string(found.pages_checked) + " (" +
         std::string(name(found.by)) + ")";
}

std::string pin_cell(const pin_outcome& pin) {
  const std::string obtained(name(pin.obtained));
  const std::string via(name(pin.via));
  return pin.via == pin_route::none || via == obtained ? obtained : obtained + " (" + via + ")";
}

std::string rate_cell(const buffer_facts& buffer) {
  const double time = std::chrono::duration<double>(buffer.timings.total).count();
  if (time <= 0) {
    return "-";
  }
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  return format_fixed(static_cast<double>(buffer.requested_bytes) / gib / time, 2);
}

std::string because(const std::string& reason, const boost::system::error_code& code) {
  if (!reason.empty()) {
    return ": " + reason;
  }
  return code.failed() ? ": " + code.message() : "";
}

void add_placement(std::vector<std::string>& lines, const buffer_facts& buffer) {
  const placement& found = buffer.placement;
  if (found.error.failed()) {
    lines.push_back("verify: " + std::string(name(found.by)) +
                    " spoke, since a better witness could not: " + found.error.message());
  }
  if (found.pages_checked == 0 || found.share_on_node >= 1 || buffer.node_requested.is_unknown()) {
    return;
  }
  std::string where;
  for (const pages_on_node& entry : found.by_node) {
    where += where.empty() ? "" : ", ";
    where += entry.node.is_unknown() ? "not resident " : "node " + number(entry.node) + " has ";
    where += std::to_string(entry.pages);
  }
  lines.push_back("placement: asked node " + number(buffer.node_requested) + ", but of " +
                  std::to_string(found.pages_checked) + " checked pages " + where);
}

// One thing that degraded, and the buffers it befell: most often all of them, for the same reason.
struct note {
  std::string line;
  std::vector<std::size_t> buffers;
};

void add_note(std::vector<note>& notes, std::string line, std::size_t buffer) {
  for (note& known : notes) {
    if (known.line == line) {
      known.buffers.push_back(buffer);
      return;
    }
  }
  notes.push_back({std::move(line), {buffer}});
}

std::string notes_text(const std::vector<note>& notes, std::size_t buffers) {
  std::string text = notes.empty() ? "" : "\ndegraded\n";
  for (const note& what : notes) {
    std::string who;
    for (const std::size_t buffer : what.buffers) {
      who += (who.empty() ? "" : ",") + std::to_string(buffer);
    }
    who.insert(0, what.buffers.size() == 1 ? "buffer " : "buffers ");
    text += "  ";
    text += buffers > 1 && what.buffers.size() == buffers ? "all buffers" : who;
    text += ": ";
    text += what.line;
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<std::string> degradations(const buffer_facts& buffer) {
  std::vector<std::string> lines;
  const bind_outcome& policy = buffer.policy;
  if (policy.error.failed() || !policy.reason.empty()) {
    lines.push_back("policy: asked " + std::string(name(policy.asked)) + ", obtained " +
                    std::string(name(policy.obtained)) + because(policy.reason, policy.error));
  }
  if (!buffer.pages.reason.empty()) {
    lines.push_back("pages: obtained " + std::string(name(buffer.pages.kind)) + ": " +
                    buffer.pages.reason);
  }
  if (buffer.node_source == node_source::heuristic) {
    lines.push_back("node: " + number(buffer.node_requested) +
                    " is a guess, since nothing says where the device is");
  }
  add_placement(lines, buffer);
  const bool others = !buffer.node_requested.is_unknown() && !buffer.node_of_workers.is_unknown() &&
                      buffer.node_of_workers != buffer.node_requested;
  if (others) {
    lines.push_back("workers: node " + number(buffer.node_requested) +
                    " has no usable CPU, those of node " + number(buffer.node_of_workers) +
                    " filled it");
  }
  const pin_outcome& pin = buffer.pin;
  if (pin.error.failed() || !pin.reason.empty()) {
    lines.push_back("pin: asked " + std::string(name(pin.asked)) + ", obtained " +
                    std::string(name(pin.obtained)) + because(pin.reason, pin.error));
  }
  return lines;
}

std::string allocation_text(const std::vector<buffer_facts>& buffers) {
  text_table table;
  for (const char* heading : {"#", "node", "reached", "address", "size"}) {
    table.add_column(heading, align::right);
  }
  for (const char* heading : {"pages", "on node (witness)", "policy", "pin"}) {
    table.add_column(heading, align::left);
  }
  for (const char* heading :
       {"workers", "map s", "populate s", "verify s", "register s", "total s", "GiB/s"}) {
    table.add_column(heading, align::right);
  }
  std::vector<note> notes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const buffer_facts& buffer = buffers[i];
    const timings& steps = buffer.timings;
    table.add_row({std::to_string(i), number(buffer.node_requested), number(buffer.node_reached),
                   format_address(buffer.address), format_bytes(buffer.mapped_bytes),
                   pages_cell(buffer), share_cell(buffer.placement),
                   std::string(name(buffer.policy.obtained)), pin_cell(buffer.pin),
                   std::to_string(buffer.workers), seconds(steps.map), seconds(steps.populate),
                   seconds(steps.verify), seconds(steps.register_), seconds(steps.total),
                   rate_cell(buffer)});
    for (std::string& line : degradations(buffer)) {
      add_note(notes, std::move(line), i);
    }
  }
  return table.to_text() + notes_text(notes, buffers.size());
}

}  // namespace numapool::cli
