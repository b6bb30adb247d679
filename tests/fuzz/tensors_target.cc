#include "tests/fuzz/target.h"
#include "worker/data/byte_source.h"
#include "worker/data/tensor_arrays.h"

// A file is taken when all its tensors are.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto tensors = ampd::data::TensorArrays::Open(file);
  absl::Status status = tensors.status();
  const std::vector<std::string> names = tensors.ok() ? tensors->names() : std::vector<std::string>();
  for (size_t i = 0; status.ok() && i < names.size(); ++i) {
    const auto array = tensors->Read(names[i], 0);
    status = array.status();
    if (array.ok()) {
      const auto bytes = static_cast<int64_t>(array->bytes.size());
      ampd::fuzz::Require(bytes == ampd::data::ArrayBytes(array->type, array->shape, ampd::data::kMaxDatasetBytes),
                          "there are as many bytes as the shape says");
    }
  }
  ampd::fuzz::Judge(status);
  return 0;
}
