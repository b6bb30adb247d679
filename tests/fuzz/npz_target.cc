#include "tests/fuzz/target.h"
#include "worker/data/byte_source.h"
#include "worker/data/npz.h"

// An archive is taken when all its arrays are.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto archive = ampd::data::NpzFile::Open(file);
  absl::Status status = archive.status();
  for (size_t i = 0; status.ok() && i < archive->names().size(); ++i) {
    const auto array = archive->Read(archive->names()[i], 0);
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
