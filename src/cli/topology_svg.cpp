// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "cli/quantity.hpp"
#include "cli/text_table.hpp"
#include "cli/topology_facts.hpp"

namespace numapool::cli {

namespace {

// In SVG user units, which a viewer shows as pixels.
constexpr int margin = 24;
constexpr int card_width = 296;
constexpr int card_gap = 16;
constexpr int cards_a_row = 3;
constexpr int line_height = 18;
constexpr int card_padding = 14;
constexpr int page_width = 2 * margin + cards_a_row * card_width + (cards_a_row - 1) * card_gap;
constexpr std::size_t list_width = 35;     // characters of a CPU list that a card's width holds
constexpr std::size_t list_lines_max = 5;  // a longer list ends in dots: the table has all of it

constexpr std::string_view style = R"(<style>
text { font-family: "DejaVu Sans", "Helvetica Neue", Arial, sans-serif; font-size: 12px; }
text { fill: #24292f; }
.title { font-size: 20px; font-weight: bold; } .head { font-size: 15px; font-weight: bold; }
.section { font-size: 13px; font-weight: bold; fill: #57606a; } .muted { fill: #57606a; }
.list { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 11.5px; }
.warning { fill: #9a6700; } .page { fill: #ffffff; } .card { fill: #f6f8fa; stroke: #d0d7de; }
.track { fill: #d8dee4; } .used { fill: #4c78a8; } .heat { fill: #4c78a8; }
.cell { fill: none; stroke: #d0d7de; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .section, .muted { fill: #9198a1; } .warning { fill: #d29922; }
.page { fill: #0d1117; } .card { fill: #161b22; stroke: #3d444d; } .track { fill: #30363d; }
.used { fill: #6ea0d6; } .heat { fill: #6ea0d6; } .cell { stroke: #3d444d; }
}
</style>
)";

// What stands in the text of an element or an attribute; what XML 1.0 or ASCII does not have
// becomes '?'.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

std::string text_at(int x, int y, std::string_view style_class, std::string_view text,
                    std::string_view anchor = "start") {
  std::ostringstream out;
  out << "<text x=\"" << x << "\" y=\"" << y << "\" class=\"" << style_class << "\" text-anchor=\""
      << anchor << "\">" << escaped(text) << "</text>\n";
  return out.str();
}

std::string box(int x, int y, int width, int height, std::string_view style_class, int radius,
                std::string_view more = "") {
  std::ostringstream out;
  out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height
      << "\" class=\"" << style_class << "\" rx=\"" << radius << "\"" << more << "/>\n";
  return out.str();
}

std::vector<std::string> short_list(const cpu_set& cpus) {
  std::vector<std::string> lines = wrap_list(cpus.to_list(), list_width);
  if (lines.size() > list_lines_max) {
    lines.resize(list_lines_max);
    lines.back() += " ...";
  }
  return lines;
}

std::string cpu_count(const cpu_set& cpus) {
  return std::to_string(cpus.size()) + (cpus.size() == 1 ? " CPU" : " CPUs");
}

// One node's card: drawn from the top down, `y` being the baseline of the line to come.
class card {
 public:
  card(const node_info& node, int x, int y) : node_(node), x_(x), y_(y + card_padding + 12) {
    heading();
    cpus();
    memory();
    huge_pages();
    height_ = y_ - line_height + 6 + card_padding - y;
  }
  [[nodiscard]] int height() const noexcept { return height_; }
  [[nodiscard]] std::string drawing() const { return out_; }

 private:
  [[nodiscard]] int left() const noexcept { return x_ + card_padding; }
  [[nodiscard]] int right() const noexcept { return x_ + card_width - card_padding; }

  void line(std::string_view style_class, std::string_view text, std::string_view note = "") {
    out_ += text_at(left(), y_, style_class, text);
    if (!note.empty()) {
      out_ += text_at(right(), y_, "muted", note, "end");
    }
    y_ += line_height;
  }

  void heading() {
    const std::string note =
        node_.gpu_pci_address ? "GPU " + *node_.gpu_pci_address : std::string(name(node_.kind));
    line("head", "node " + std::to_string(node_.id.value()), note);
    y_ += 4;
  }

  void cpus() {
    if (node_.cpus.empty()) {
      return;
    }
    const bool all = node_.usable_cpus == node_.cpus;
    line("text", cpu_count(node_.cpus), all ? "all usable" : "");
    for (const std::string& part : short_list(node_.cpus)) {
      line("list", part);
    }
    if (!all) {
      line("text", std::to_string(node_.usable_cpus.size()) + " usable by this process");
      for (const std::string& part : short_list(node_.usable_cpus)) {
        line("list muted", part.empty() ? "none" : part);
      }
    }
    y_ += 4;
  }

  void memory() {
    if (node_.memory_bytes == 0) {
      return;
    }
    line("text", format_bytes(node_.memory_bytes) + (node_.allowed_memory ? "" : ", not allowed"),
         format_bytes(node_.free_bytes) + " free");
    const int width = card_width - 2 * card_padding;
    const auto total = static_cast<double>(node_.memory_bytes);
    const double share = std::clamp(1.0 - static_cast<double>(node_.free_bytes) / total, 0.0, 1.0);
    const std::string_view faded = node_.allowed_memory ? "" : " opacity=\"0.4\"";
    const int top = y_ - line_height + 7;
    out_ += box(left(), top, width, 9, "track", 2, faded);
    out_ += box(left(), top, static_cast<int>(std::lround(share * width)), 9, "used", 2, faded);
    y_ += 14;
  }

  void huge_pages() {
    for (const huge_page_pool& pool : node_.huge_pages) {
      if (pool.total_pages != 0) {
        line("text", format_bytes(pool.page_size_bytes) + " pages",
             std::to_string(pool.free_pages) + " of " + std::to_string(pool.total_pages) + " free");
      }
    }
  }

  const node_info& node_;
  int x_;
  int y_;
  int height_ = 0;
  std::string out_;
};

struct section {
  std::string_view heading;
  std::vector<const node_info*> nodes;
};

std::vector<section> sections_of(const topology_facts& machine) {
  std::vector<section> sections{
      {"Nodes with CPUs", {}}, {"Memory only", {}}, {"Memory of GPUs", {}}};
  for (const node_info& node : machine.nodes) {
    if (node.gpu_pci_address) {
      sections[2].nodes.push_back(&node);
    } else if (!node.cpus.empty()) {
      sections[0].nodes.push_back(&node);
    } else if (node.memory_bytes != 0) {
      sections[1].nodes.push_back(&node);
    }
  }
  return sections;
}

// Nodes with neither CPUs nor memory need no cards; machines with GPU memory can have dozens of
// them.
int draw_empty_nodes(std::string& out, const topology_facts& machine, int y) {
  node_set empty;
  for (const node_info& node : machine.nodes) {
    if (!node.gpu_pci_address && node.cpus.empty() && node.memory_bytes == 0) {
      empty.insert(node.id);
    }
  }
  if (empty.empty()) {
    return y;
  }
  out += text_at(margin, y + 12, "section", "Neither CPUs nor memory");
  y += 32;
  for (const std::string& line : wrap_list(empty.to_list(), 120)) {
    out += text_at(margin, y, "list", line);
    y += line_height;
  }
  return y + 8;
}

// Draws one section's cards in rows of equal height; returns the y below it.
int draw_section(std::string& out, const section& what, int y) {
  out += text_at(margin, y + 12, "section", what.heading);
  y += 24;
  for (std::size_t first = 0; first < what.nodes.size(); first += cards_a_row) {
    const std::size_t last = std::min(first + cards_a_row, what.nodes.size());
    int height = 0;
    std::string row;
    for (std::size_t i = first; i < last; ++i) {
      const int x = margin + static_cast<int>(i - first) * (card_width + card_gap);
      const card drawn(*what.nodes[i], x, y);
      height = std::max(height, drawn.height());
      row += drawn.drawing();
    }
    for (std::size_t i = first; i < last; ++i) {
      const int x = margin + static_cast<int>(i - first) * (card_width + card_gap);
      out += box(x, y, card_width, height, "card", 6);
    }
    out += row;
    y += height + card_gap;
  }
  return y + 8;
}

std::uint32_t farthest(const topology_facts& machine) {
  std::uint32_t most = 0;
  for (const node_info& node : machine.nodes) {
    for (const node_distance& entry : node.distances) {
      most = std::max(most, entry.distance);
    }
  }
  return most;
}

// 0 for the local distance, 1 for the farthest, as the strength of a cell's colour.
double heat_of(std::uint32_t distance, std::uint32_t most) {
  constexpr std::uint32_t local = 10;
  if (distance <= local || most <= local) {
    return 0;
  }
  return static_cast<double>(distance - local) / static_cast<double>(most - local);
}

// The distance matrix as a heat table. Returns the y below it, and widens `width` where it needs
// more.
int draw_distances(std::string& out, const topology_facts& machine, int y, int& width) {
  constexpr int label_width = 64;
  const int count = static_cast<int>(machine.nodes.size());
  const int cell = std::clamp((page_width - 2 * margin - label_width) / std::max(count, 1), 26, 48);
  const std::uint32_t most = farthest(machine);
  out += text_at(margin, y + 12, "section", "Distances, from the row's node to the column's");
  y += 24;
  int x = margin + label_width;
  for (const node_info& to : machine.nodes) {
    out += text_at(x + cell / 2, y + 14, "muted", std::to_string(to.id.value()), "middle");
    x += cell;
  }
  width = std::max(width, x + margin);
  y += 22;
  for (const node_info& from : machine.nodes) {
    out += text_at(margin + label_width - 10, y + cell / 2 + 4, "muted",
                   "node " + std::to_string(from.id.value()), "end");
    x = margin + label_width;
    for (const node_info& to : machine.nodes) {
      const auto distance = distance_to(from, to.id);
      const double strength = distance ? 0.08 + 0.62 * heat_of(*distance, most) : 0.0;
      out +=
          box(x, y, cell, cell, "heat", 0, " fill-opacity=\"" + format_fixed(strength, 2) + "\"");
      out += box(x, y, cell, cell, "cell", 0);
      out += text_at(x + cell / 2, y + cell / 2 + 4, "text",
                     distance ? std::to_string(*distance) : "-", "middle");
      x += cell;
    }
    y += cell;
  }
  return y + 20;
}

int draw_heading(std::string& out, const topology_facts& machine) {
  out += text_at(margin, margin + 18, "title", "NUMA nodes");
  std::string line = std::to_string(machine.nodes.size()) +
                     (machine.nodes.size() == 1 ? " node, " : " nodes, ") +
                     cpu_count(machine.online_cpus) + " online; this process may use " +
                     cpu_count(machine.allowed_cpus) + " and " + usable_memory(machine);
  if (machine.source == topology_source::synthetic) {
    line += "; the kernel lists no nodes";
  }
  out += text_at(margin, margin + 40, "muted", line);
  return margin + 60;
}

}  // namespace

std::string topology_svg(const topology_facts& machine) {
  std::string body;
  int width = page_width;
  int y = draw_heading(body, machine);
  for (const section& what : sections_of(machine)) {
    if (!what.nodes.empty()) {
      y = draw_section(body, what, y);
    }
  }
  y = draw_empty_nodes(body, machine, y);
  y = draw_distances(body, machine, y, width);
  for (const std::string& warning : machine.warnings) {
    body += text_at(margin, y + 12, "warning", "warning: " + warning);
    y += line_height;
  }
  const int height = y + margin;
  std::ostringstream out;
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << " " << height << "\" role=\"img\">\n"
      << "<title>NUMA nodes</title>\n"
      << style << box(0, 0, width, height, "page", 0) << body << "</svg>\n";
  return out.str();
}

}  // namespace numapool::cli
