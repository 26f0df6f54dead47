// SPDX-License-Identifier: Apache-2.0
#pragma once

// GPUs: their identity (the PCI address), which of them this process sees, and the node that each
// is on, with the source that answered. No function here makes a CUDA context, initialises CUDA or
// loads it, so that children forked later can use it. NVML is asked where sysfs does not suffice.
// Threads: values and free functions; safe.

#include <chrono>
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/error_code.hpp>

#include <numapool/node.hpp>
#include <numapool/topology.hpp>

namespace numapool {

/// A PCI address, compared as numbers: NVIDIA prints domains of 8 digits where sysfs has 4, and
/// either case (Megatron-Bridge PR 4630).
struct pci_address {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;    // 0..31
  std::uint8_t function = 0;  // 0..7

  /// Reads "0000:3b:00.0", "00000000:3B:00.0" or "3b:00.0" (domain 0), spaces around it allowed; a
  /// missing function is 0.
  /// Errors: errc::malformed_list naming the text; the second form returns the zero address with
  /// `error` set.
  [[nodiscard]] static pci_address parse(std::string_view text);
  [[nodiscard]] static pci_address parse(std::string_view text, boost::system::error_code& error);

  auto operator<=>(const pci_address&) const noexcept = default;
};
/// "0000:3b:00.0": the domain in at least four digits, lower case, as sysfs names its folders.
[[nodiscard]] std::string to_string(const pci_address& address);
std::ostream& operator<<(std::ostream& stream, const pci_address& address);

/// One GPU of the host, whether this process sees it or not.
struct host_device {
  pci_address address;
  std::string name;  ///< "" where NVML does not say
  std::string uuid;  ///< "GPU-..."; "" likewise
};

/// All NVIDIA GPUs of the host, by PCI address: from sysfs (vendor 0x10de, classes 0x0300 and
/// 0x0302: data-centre GPUs are 3D controllers), else NVML's. Names and UUIDs are NVML's, which in
/// a container knows the container's GPUs alone. Of a recorded machine: sysfs alone.
/// Cost: one walk over /sys/bus/pci/devices, and NVML's first answer (up to seconds).
[[nodiscard]] std::vector<host_device> host_devices(const topology_options& options = {});

/// What said on which node a device is, in the order in which they are asked.
enum class node_source : std::uint8_t {
  unknown,
  sysfs,          ///< the PCI function's numa_node
  local_cpulist,  ///< its local_cpulist, when those CPUs lie in exactly one node of several
  nvml,           ///< NVML's memory affinity, when it names exactly one node; else its CPU
                  ///< affinity, when those CPUs lie in exactly one node of several
  cuda,           ///< the driver's host-NUMA-id attribute, only where CUDA is initialised already
  nvidia_smi,     ///< nvidia-smi topo --get-numa-id-of-nearby-cpu, under a hard time limit
  single_node,    ///< the machine has but one with CPUs
  heuristic,      ///< ordinal % 2, dynamo's guess: nothing knew. Refused by bind_policy::strict
};
/// "sysfs", "local-cpulist", "nvml", "cuda", "nvidia-smi", "single-node", "heuristic", "unknown".
[[nodiscard]] std::string_view name(node_source source) noexcept;

/// Where a device is.
struct device_location {
  std::optional<pci_address> address;  ///< empty when nothing says which GPU the ordinal is
  std::optional<int> ordinal;          ///< as asked, or found among the visible devices
  node_id node;                        ///< with usable CPUs; unknown when nothing says
  node_source source = node_source::unknown;
  /// What the source said, if that node has no CPU that this process may use; `node` is then the
  /// nearest that has one (unknown if none has).
  node_id reported_node;
  std::string reason;  ///< why something is unknown, or was taken from a lesser source
};

struct device_options {
  /// nvidia-smi may take this long in all; 0: it is not asked. That it is missing or hung, or that
  /// it refused a device, is remembered until refresh_devices().
  std::chrono::milliseconds nvidia_smi_timeout{2000};
  bool allow_heuristic = true;
};

/// The node of a device of this process, by process-local CUDA ordinal. Where its GPU is, is kept
/// until refresh_devices(); what is unknown is asked anew. An ordinal that this process does not
/// see has neither address nor node, and the reason says so.
/// Blocks: a few small files as a rule; up to seconds where NVML or nvidia-smi has to be asked.
[[nodiscard]] device_location locate_device(int ordinal, const device_options& options = {});
/// The node of a PCI device of this machine.
[[nodiscard]] device_location locate_device(const pci_address& address,
                                            const device_options& options = {});
/// The node of a PCI device of a recorded machine, from the recording's files alone; with an empty
/// root, of this machine as `machine` has it. No heuristic.
[[nodiscard]] device_location locate_device(const pci_address& address, const topology& machine,
                                            const topology_options& root);
/// The device that a person names: an ordinal, a "GPU-" or "MIG-" id or unique prefix of one, a PCI
/// address, or "local-rank" (see local_rank()). An id or address need not be visible here.
/// Errors: errc::unknown_device, naming the text and, where a prefix is ambiguous, the candidates;
/// also for an address whose PCI class says that it is no GPU or accelerator.
[[nodiscard]] device_location locate_device(std::string_view text,
                                            const device_options& options = {});
/// So that a literal is a text, and no failed conversion.
[[nodiscard]] inline device_location locate_device(const char* text,
                                                   const device_options& options = {}) {
  return locate_device(std::string_view(text), options);
}

/// Forgets what is kept: after a hotplug or a change of MIG mode.
void refresh_devices() noexcept;

/// One entry of CUDA_VISIBLE_DEVICES as CUDA reads it.
struct visible_device {
  std::optional<pci_address> address;  ///< empty when the entry cannot be placed; `reason` says why
  std::string uuid;                    ///< "GPU-..." or "MIG-..." in full; "" where it is not known
  std::string reason;                  ///< why the address is empty
};

/// What this process sees, in ordinal order, by CUDA's own grammar: indexes, GPU- and MIG- ids and
/// unique prefixes; the list ends at the first invalid entry and at a second MIG instance; a
/// duplicate means none; empty means none; unset means all. An index is a position in CUDA's order,
/// which is known only when CUDA_DEVICE_ORDER is PCI_BUS_ID or all GPUs are one model; otherwise
/// the entry's address is empty with that reason. The GPUs are those of NVML, which in a container
/// are its own, else all of the host's. From CUDA itself where the process has initialised it.
/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
[[nodiscard]] std::vector<visible_device> visible_devices();

/// dynamo's rule (E1b), for compatibility: the entry of CUDA_VISIBLE_DEVICES at `ordinal` as it
/// stands, blanks and empty entries dropped; the ordinal itself when the variable is unset or
/// blank, or has too few entries.
[[nodiscard]] std::string dynamo_nvidia_smi_id(std::uint32_t ordinal);
/// dynamo's chain (E1): nvidia-smi by that id, at each call; ordinal % 2 when it fails; unknown
/// when its answer cannot be read. Unlike dynamo's it waits no longer than two seconds.
[[nodiscard]] node_id dynamo_device_node(std::uint32_t ordinal);

/// The rank of this process on its host, as its launcher says: LOCAL_RANK (torchrun),
/// SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, PMI_LOCAL_RANK, PALS_LOCAL_RANKID,
/// FLUX_TASK_LOCAL_ID: the first of them that holds a whole number.
[[nodiscard]] std::optional<int> local_rank() noexcept;

/// The CPUs of a GPU's node divided among the GPUs of that node by whole cores (SMT siblings
/// together), the same in every process whatever it sees and may use: sysfs alone is asked. GPUs in
/// PCI order, the first ones get one core more when it does not divide. With fewer cores than GPUs
/// they share all. A GPU on a node without CPUs counts as on the nearest with some. Empty when the
/// node is unknown to sysfs, or the device is no GPU.
[[nodiscard]] cpu_set cpu_slice(const pci_address& address, const topology_options& options = {});

/// The PCI root that a device hangs from ("pci0000:3a"), and the network interfaces under the same
/// root: a GPU and a NIC of one root talk without crossing the CPU's mesh (dynamo#10171). Empty
/// when sysfs does not say.
struct pci_neighbourhood {
  std::string root;
  std::vector<std::string> network_interfaces;  ///< by name
};
[[nodiscard]] pci_neighbourhood neighbourhood_of(const pci_address& address,
                                                 const topology_options& options = {});

}  // namespace numapool
