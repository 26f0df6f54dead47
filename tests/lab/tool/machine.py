# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line for a topology. Every setting that is not plain says why it is there; most
were found by guests that hung."""

import dataclasses

from . import fake_pci, installation, kernel, srat
from .errors import LabError

# One thread emulates all CPUs. With one thread each, QEMU 7.2 hangs 5 % of boots of 16 CPUs: they
# loop on an instruction that the kernel has replaced, in a translation that was made before. It is
# as fast on two host CPUs, and leaves the others to other guests.
ACCELERATOR = 'tcg,thread=single'

CPU = ','.join((
    'max',
    'la57=off',  # five-level page tables: slower walks
    'erms=off',  # else the guest fills memory by "rep stosb", emulated a byte at a time
    'fsrm=off',  # goes with erms: a kernel that sees fsrm alone hangs
    'cx16=off',  # QEMU 7.2's cmpxchg16b leaves bad flags: newer kernels die of corrupted lists
    # By default it is an AMD: it would show no SMT siblings, and Linux an idle quirk.
    'vendor=GenuineIntel', 'family=6', 'model=85', 'stepping=4', 'model-id=numapool-lab'))

# PCI Express, without what nobody here uses and each boot would look for.
MACHINE = 'q35,smm=off,vmport=off,sata=off,smbus=off,i8042=off,hpet=off,usb=off'

KERNEL_ARGUMENTS = ' '.join((
    'console=ttyS0 quiet loglevel=4 rdinit=/init',
    'panic=-1 oops=panic',  # end at once: the lab then says so, instead of waiting for the timeout
    # Cheaper page faults.
    'mitigations=off init_on_alloc=0 randomize_kstack_offset=off lsm= audit=0',
    'numa_balancing=disable',  # it moves pages while a test counts them
    'tsc=reliable lpj=4000000 no_timer_check',  # calibrating clocks takes 90 ms a CPU
    'cryptomgr.notests nowatchdog nmi_watchdog=0 rcupdate.rcu_expedited=1 random.trust_cpu=on'))

# Each device sits on a root port: of a host bridge that is on the device's node, or, for a device
# on no node, of the machine's own bus, whose ports the firmware numbers first, from bus 1.
FIRST_BUS, BUSES_PER_BRIDGE, BRIDGES_MAX, PORTS_MAX = 0x40, 0x10, 12, 15
FIRST_BRIDGE_SLOT, FIRST_PORT_SLOT = 8, 0x14
OWN_BUS = -1

PAYLOAD = 'opt/numapool/payload'  # the file by which a restored guest gets its job


@dataclasses.dataclass
class Slot:
    device: object
    address: str  # as Linux writes it
    bridge: int
    port: int

    @property
    def bus(self):
        """The name of its root port."""
        return f'port{self.bridge}.{self.port}'


def slots(topology):
    """One for each device, in order. PCI addresses rise in the order in which the devices of nodes
    are written: where the node changes, a new bridge begins."""
    places = []
    own_ports = 0
    bridge, port, previous = -1, 0, None
    for device in topology.devices:
        if device.node_id is None:
            places.append(Slot(device, f'0000:{own_ports + 1:02x}:00.0', OWN_BUS, own_ports))
            own_ports += 1
            continue
        if device.node_id != previous or port == PORTS_MAX:
            bridge, port, previous = bridge + 1, 0, device.node_id
        bus = FIRST_BUS + BUSES_PER_BRIDGE * bridge + 1 + port
        places.append(Slot(device, f'0000:{bus:02x}:00.0', bridge, port))
        port += 1
    if bridge >= BRIDGES_MAX or own_ports > 0x20 - FIRST_PORT_SLOT:
        raise LabError(f"topology '{topology.text}': so many devices do not fit")
    return places


def masked(topology):
    """The devices whose identity the guest has to cover, as guest/masked_pci.h takes them."""
    if fake_pci.is_possible():
        return []
    return [f'{slot.address} ' + ' '.join(f'{number:x}' for number in slot.device.ids)
            for slot in slots(topology) if slot.device.ids]


def arguments(topology, initrd, memory_backend, fakes):
    """`memory_backend(domain, mib)` is the object that is a node's memory. `fakes` are the fake
    devices, in order, or None where they are plugged in later."""
    return [
        installation.qemu(), '-accel', ACCELERATOR, '-cpu', CPU, '-machine', MACHINE,
        '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none',
        '-kernel', kernel.bootable(), '-initrd', str(initrd), '-append', KERNEL_ARGUMENTS,
        *_nodes(topology, memory_backend), *_bridges(topology), *_devices(topology, fakes)]


def _nodes(topology, memory_backend):
    cpus = sum(node.cpus for node in topology.nodes)
    cores = srat.cores_per_socket(topology)
    room = f',slots=8,maxmem={topology.memory_mib + topology.hotplug_mib}M'
    result = ['-m', f'{topology.memory_mib}M' + (room if topology.hotplug_mib else ''),
              '-smp', f'cpus={cpus},sockets={cpus // (cores * topology.threads)},cores={cores},'
                      f'threads={topology.threads}']
    first_cpu = 0
    for domain, node in enumerate(topology.nodes):
        text = f'node,nodeid={domain}'
        if node.memory_mib:
            result += ['-object', memory_backend(domain, node.memory_mib)]
            text += f',memdev=memory{domain}'
        if node.cpus:
            text += f',cpus={first_cpu}-{first_cpu + node.cpus - 1}'
            first_cpu += node.cpus
        result += ['-numa', text]
    for i, row in enumerate(topology.distances or ()):
        for j, distance in enumerate(row):
            result += ['-numa', f'dist,src={i},dst={j},val={distance}']
    return result


def _bridges(topology):
    result = []
    for slot in slots(topology):
        if slot.bridge == OWN_BUS:
            result += ['-device', f'pcie-root-port,id={slot.bus},bus=pcie.0,'
                                  f'chassis={slot.port + 1},slot={slot.port},'
                                  f'addr={FIRST_PORT_SLOT + slot.port:x}']
            continue
        if slot.port == 0:
            domain = topology.domain(slot.device.node_id)
            result += ['-device', f'pxb-pcie,id=bridge{slot.bridge},bus=pcie.0,'
                                  f'bus_nr={FIRST_BUS + BUSES_PER_BRIDGE * slot.bridge},'
                                  f'addr={FIRST_BRIDGE_SLOT + slot.bridge:x},numa_node={domain}']
        result += ['-device', f'pcie-root-port,id={slot.bus},bus=bridge{slot.bridge},'
                              f'chassis={(slot.bridge + 2) * (PORTS_MAX + 1) + slot.port},'
                              f'slot={slot.port},addr={slot.port:x}']
    return result


def _devices(topology, fakes):
    result = []
    remaining = iter(fakes or ())
    for slot in slots(topology):
        if not slot.device.ids:
            result += ['-device', f'{slot.device.name},bus={slot.bus}']
        elif not fake_pci.is_possible():
            result += ['-device', f'{fake_pci.STAND_IN},bus={slot.bus}']
        elif fakes is not None:
            far_end = next(remaining).far_end
            result += ['-device', f'{fake_pci.DRIVER},bus={slot.bus},fd={far_end}']
    return result
