// SPDX-License-Identifier: Apache-2.0
// numapool allocate: buffers on nodes, with what was asked and what was obtained at each step.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/allocate_options.hpp"
#include "cli/allocation_session.hpp"
#include "cli/buffer_facts.hpp"
#include "cli/command.hpp"
#include "cli/device_argument.hpp"
#include "cli/errors.hpp"

namespace numapool::cli {

namespace {

void print(const std::vector<buffer>& buffers, bool as_json, console& where) {
  std::vector<buffer_facts> facts;
  facts.reserve(buffers.size());
  for (const buffer& made : buffers) {
    facts.push_back(facts_of(made));
  }
  if (as_json) {
    write_json(where.out, allocation_json(getpid(), facts));
  } else {
    where.out << allocation_text(facts);
    flush_or_throw(where.out);
  }
}

int allocate(allocate_options asked, bool as_json, console& where) {
  if (asked.device) {
    ask_for_device(*asked.device, asked.what);
  }
  worker_pool_options options;
  options.workers_per_node = asked.workers_per_node;
  worker_pool pool(options);
  const auto nodes = pool.topology().nodes();
  const std::vector<request> requests = requests_of(asked, {nodes.begin(), nodes.end()});
  allocation_session session(pool, where);
  session.allocate(requests);
  try {
    print(session.buffers(), as_json, where);
  } catch (const output_error&) {
    if (session.signal() != 0) {
      throw interrupted(session.signal());
    }
    throw;
  }
  const int signal = session.hold(asked.hold);
  return signal == 0 ? exit_done : signal_base + signal;
}

constexpr const char* footer_text =
    "The target is one of --node, --device and --all-nodes. Sizes: 4096, 64KiB, 1.5GiB (units of\n"
    "1024), 2GB (units of 1000); 64K alone is refused. SIGINT and SIGTERM release everything; the\n"
    "exit status is then 128 + the signal's number.\n"
    "\n"
    "Examples:\n"
    "  numapool allocate --node 0 --size 1GiB\n"
    "  numapool allocate --all-nodes --size 256MiB --verify full --hold 20 --json";

void add_text(CLI::App& command, const char* option, std::optional<std::string>& into,
              const char* value, const char* meaning) {
  command
      .add_option_function<std::string>(
          option, [&into](const std::string& text) { into = text; }, meaning)
      ->type_name(value);
}

void add_options(CLI::App& command, allocate_arguments& typed) {
  add_text(command, "--node", typed.node, "N", "Place on this node");
  add_text(command, "--device", typed.device, "D",
           "Place on the node of this GPU and pin for it; D is a CUDA ordinal, a GPU- or MIG- id "
           "or its beginning, a PCI address, or local-rank");
  command.add_flag("--all-nodes", typed.all_nodes,
                   "Place on every node with host memory that this process may use");
  add_text(command, "--size", typed.size, "BYTES", "Size of each buffer");
  add_text(command, "--count", typed.count, "K", "Buffers on each node [1]");
  add_text(command, "--pages", typed.pages, "auto|base|thp|2MiB|1GiB", "Kind of pages [auto]");
  add_text(command, "--pin", typed.pin, "auto|cuda|mlock|none", "What keeps them in place [auto]");
  add_text(command, "--policy", typed.policy, "prefer|strict|none",
           "prefer: there first; strict: there or an error; none: first touch alone [prefer]");
  add_text(command, "--verify", typed.verify, "sample|full|off",
           "Pages whose node is looked up afterwards [sample]");
  add_text(command, "--populate", typed.populate, "quiet|fast",
           "quiet stalls no other thread; fast is quicker with base pages [quiet]");
  add_text(command, "--chunk", typed.chunk, "BYTES", "Register in ranges of at most this size");
  add_text(command, "--threads", typed.threads, "T", "Workers on each node");
  add_text(command, "--timeout", typed.timeout, "SECONDS", "Give up on a buffer after that long");
  add_text(command, "--hold", typed.hold, "SECONDS",
           "Keep the buffers for that long after printing");
  command.add_flag("--json", typed.json, "Print one JSON document instead of a table");
}

}  // namespace

void register_allocate(CLI::App& app, chosen_command& chosen) {
  auto typed = std::make_shared<allocate_arguments>();
  CLI::App* command = app.add_subcommand(
      "allocate", "Allocate buffers on nodes, and show what was obtained at each step");
  add_options(*command, *typed);
  command->footer(footer_text);
  command->callback([typed, &chosen] {
    const allocate_options asked = read_arguments(*typed);
    chosen.json = typed->json;
    chosen.run = [asked, as_json = typed->json](console& where) {
      return allocate(asked, as_json, where);
    };
  });
}

}  // namespace numapool::cli
