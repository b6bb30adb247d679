#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::device {

// Returns the numbers of the GPUs that CUDA would use if the environment variable CUDA_VISIBLE_DEVICES had this value,
// in the value's order. `uuids`: the UUID of each GPU, by NVML's number; empty if it is not known.
//
//   value := [entry {"," entry}]
//   entry := the number of a GPU | its UUID, such as "GPU-5ae67c3f-...", or the beginning of one that no other GPU has
//
// As in CUDA, all entries from the first invalid one on are ignored; an entry that names a GPU again is invalid here.
// So "" and "-1" make no GPU visible. Assumes that the numbers follow the places of the GPUs on the PCI bus, as NVML's
// do. CUDA numbers them like that only if CUDA_DEVICE_ORDER is PCI_BUS_ID, or if all GPUs are of one kind; otherwise
// it begins with the fastest GPU.
//
// INVALID_ARGUMENT, with one line that says what to do, if an entry names a part of a GPU ("MIG-...").
absl::StatusOr<std::vector<size_t>> VisibleGpus(const std::string& value, const std::vector<std::string>& uuids);

}  // namespace ampd::device
