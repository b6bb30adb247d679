#include "tests/fuzz/target.h"
#include "worker/data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto array = ampd::data::ReadNpy(file, 0);
  ampd::fuzz::Judge(array.status());
  if (array.ok()) {
    const auto bytes = static_cast<int64_t>(array->bytes.size());
    ampd::fuzz::Require(bytes == ampd::data::ArrayBytes(array->type, array->shape, ampd::data::kMaxDatasetBytes),
                        "there are as many bytes as the shape says");
  }
  return 0;
}
