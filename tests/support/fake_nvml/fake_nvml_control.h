// SPDX-License-Identifier: Apache-2.0
#pragma once

// The strings to the fake NVML: what devices there are, what fails, and what was asked. Each
// function is safe to call from any thread.
//
// The rules that the fake keeps, as the NVML API reference tells them:
//   * initialisations are counted; everything else answers 1 (uninitialised) while the count is
//     0, and shutting down more often than initialising changes nothing
//   * without the flag "no GPUs" a machine that has none answers 6 (not found) to initialising
//   * a pointer that is no device's handle is 2 (invalid argument)
//   * room too small for a text is 7 (insufficient size); of a mask, every word is written
//   * the indexes of MIG devices have gaps: here each second one is free, and answers 6
//
// From another process, by environment, read when the library is loaded and at fake_nvml_reset():
//   NUMAPOOL_FAKE_NVML_DEVICES   devices, with '|' between them, each
//       ADDRESS=UUID[@NODES][;cpus=LIST][;mig=UUID,...][;name=TEXT][;lost=CODE]
//     as in  00000000:3B:00.0=GPU-8f3c@1;mig=MIG-1,MIG-2|00000000:86:00.0=GPU-91aa
//     NODES and LIST are in the kernel's list format, "0,2-17", and may be empty: a mask without
//     bits. Without them the affinity is not supported. Empty or unset: no device. `lost` makes
//     asking for the handle answer CODE.
//   NUMAPOOL_FAKE_NVML_FAIL      NAME:NTH:CODE, with commas between: the NTH call, 0 for each
//   NUMAPOOL_FAKE_NVML_REPORT    a file that gets "function=calls" lines and "references=N" at exit

#ifdef __cplusplus
extern "C" {
#endif

// Everything as after loading.
void fake_nvml_reset(void);
// As NUMAPOOL_FAKE_NVML_DEVICES. A text that cannot be read ends the program.
void fake_nvml_set_devices(const char* devices);
// The nth call of the function from now, 1 for the next, answers `code` and does nothing; 0: each.
void fake_nvml_fail_nth(const char* name, unsigned long nth, int code);
void fake_nvml_clear_failures(void);

// Calls of one function since the last reset, or of all where the name is null.
unsigned long fake_nvml_count(const char* name);
// Initialisations that have not been taken back.
unsigned long fake_nvml_references(void);
// What a component does that shuts down once too often.
void fake_nvml_steal_reference(void);
// Steals it in the next call of this function.
void fake_nvml_steal_reference_in(const char* name);

#ifdef __cplusplus
}
#endif
