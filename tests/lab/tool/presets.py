# SPDX-License-Identifier: Apache-2.0
"""Topologies with names."""

from . import topology

PRESETS = {
    'one-node': '4c512m',
    'two-nodes': '2c512m,2c512m',
    'four-nodes': '2c512m,2c512m,2c512m,2c512m',
    'eight-nodes': ','.join(['2c512m'] * 8),
    'two-nodes-smt': '4c512m,4c512m;threads=2',
    'distances': '2c512m,2c512m,2c512m,2c512m;'
                 'distances=10,16,22,28/16,10,28,22/22,28,10,16/28,22,16,10',
    'hmat': '2c512m,2c512m,0c512m;distances=10,20,30/20,10,30/30,30,10;hmat',
    'memory-only': '2c512m,2c512m,0c512m;distances=10,20,40/20,10,30/40,30,10',
    'memory-only-middle': '2c512m,0c512m,2c512m',
    'cpu-only': '2c512m,2c0m,2c512m;distances=10,40,40/40,10,20/40,20,10',
    'cpu-only-first': '2c0m,2c512m',
    'small-node': '2c512m,2c128m',
    'sparse-0-2': '0:2c512m,2:2c512m',
    'sparse-1-3': '1:2c512m,3:2c512m',
    'sparse-63-64': '0:2c512m,63:2c512m,64:2c512m',
    'sparse-255-256': '0:2c512m,255:2c512m,256:2c512m',
    'two-gpus': '2c512m,2c512m;pci=gpu@0,gpu@1,nic@1',
    'four-gpus': '2c512m,2c512m,2c512m,2c512m;pci=gpu@2,gpu@0,gpu@3,gpu@1',
    'gpu-nowhere': '2c512m,2c512m;pci=gpu@1,gpu@none',
    'hotplug': '0:2c512m,1:0c0m,2:2c512m;hotplug=1g',
}


def find(name_or_text):
    return topology.parse(PRESETS.get(name_or_text, name_or_text))
