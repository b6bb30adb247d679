#include "data/npz.h"
#include "tests/fuzz/arrays.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ampd::fuzz::JudgeArrays(ampd::data::NpzFile::Open(ampd::fuzz::WriteInput(data, size)));
  return 0;
}
