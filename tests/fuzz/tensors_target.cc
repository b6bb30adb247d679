#include "data/tensor_arrays.h"
#include "tests/fuzz/arrays.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ampd::fuzz::JudgeArrays(ampd::data::TensorArrays::Open(ampd::fuzz::WriteInput(data, size)));
  return 0;
}
