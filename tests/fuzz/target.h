#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "data/data_file.h"

// A fuzz target is a file that defines LLVMFuzzerTestOneInput. This function is called by libFuzzer (in builds with
// AMPD_FUZZ) or by replay_test.cc. It passes the input to a reader as a file. For every input, the reader must return
// either content that keeps the reader's promises or one DATA_ERROR.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ampd::fuzz {

// How many inputs the target's reader has accepted, and how many it has rejected. The replay test checks both numbers.
struct Verdicts {
  int64_t num_taken = 0;
  int64_t num_refused = 0;
};
Verdicts& Seen();

// Writes the fuzzer's input to a file in a data root and returns the file. The next call overwrites it.
data::DataFile WriteInput(const uint8_t* data, size_t size);

// Checks a promise of the reader. If `holds` is false, aborts the process, so that the fuzzer keeps the input.
void Require(bool holds, const char* what);

// Checks that the error is a DATA_ERROR whose message is one line and names the file.
void RequireTypedError(const absl::Status& error);

// Counts the reader's verdict on an input: accepted if `status` is OK, otherwise rejected. Checks an error with
// RequireTypedError.
void Judge(const absl::Status& status);

}  // namespace ampd::fuzz
