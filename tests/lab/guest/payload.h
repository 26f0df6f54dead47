// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Unpacks the archive (cpio, "newc") that fw_cfg_open has opened over the root folder. 0, or -1
/// after the reason was sent.
int unpack_payload(void);
/// Makes the folders above `path`, which is changed for a moment.
void make_parents(char* path);
