// SPDX-License-Identifier: Apache-2.0
// numapool devices: the machine's GPUs, the node of each, and what said so.
#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/devices_facts.hpp"
#include "cli/errors.hpp"
#include "cli/recorded_machine.hpp"

namespace numapool::cli {

namespace {

struct devices_arguments {
  std::string sysroot;
  bool json = false;
};

int show_devices(const devices_arguments& asked, console& where) {
  const devices_facts machine =
      read_recorded(asked.sysroot, [&asked] { return read_devices({asked.sysroot}); });
  if (asked.json) {
    write_json(where.out, devices_json(machine));
  } else {
    where.out << devices_text(machine);
    flush_or_throw(where.out);
  }
  return exit_done;
}

constexpr const char* footer_text =
    "The ordinal is the one by which this process would see the GPU, which CUDA_VISIBLE_DEVICES\n"
    "decides. A slice is the GPU's share of its node's cores, the same in every process. CUDA is\n"
    "not initialised.\n"
    "\n"
    "Examples:\n"
    "  numapool devices\n"
    "  numapool devices --sysroot machine --json\n";

}  // namespace

void register_devices(CLI::App& app, chosen_command& chosen) {
  auto asked = std::make_shared<devices_arguments>();
  CLI::App* command =
      app.add_subcommand("devices", "Show the GPUs, the node of each, and what said so");
  command
      ->add_option("--sysroot", asked->sysroot,
                   "Show the machine recorded in DIR/sys and DIR/proc instead of this one")
      ->type_name("DIR");
  command->add_flag("--json", asked->json, "Print one JSON document instead of a table");
  command->footer(footer_text);
  command->callback([asked, &chosen, command] {
    if (command->count("--sysroot") != 0 && asked->sysroot.empty()) {
      throw usage_error("--sysroot: '' is no path; write the name of a folder");
    }
    chosen.json = asked->json;
    chosen.run = [asked](console& where) {
      return show_devices(*asked, where);
    };
  });
}

}  // namespace numapool::cli
