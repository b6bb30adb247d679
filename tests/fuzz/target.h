#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "data/data_file.h"

// A fuzz target is one LLVMFuzzerTestOneInput, which libFuzzer (AMPD_FUZZ) or replay_test.cc calls: a reader takes the
// input as a file. Whatever is in it, the reader must end, with content that keeps its promises or with one DATA_ERROR.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ampd::fuzz {

// How many inputs the target's reader has taken and refused, for the replay.
struct Verdicts {
  int64_t num_taken = 0;
  int64_t num_refused = 0;
};
Verdicts& Seen();

// The input as a file in a data root, overwritten by the next one.
data::DataFile WriteInput(const uint8_t* data, size_t size);

// Ends the process, for the fuzzer to keep the input, when a promise is broken.
void Require(bool holds, const char* what);

// An error must be a DATA_ERROR of one line that names the file.
void RequireTypedError(const absl::Status& error);

// Counts the verdict; an error must be a typed one.
void Judge(const absl::Status& status);

}  // namespace ampd::fuzz
