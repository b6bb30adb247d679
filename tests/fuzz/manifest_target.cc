#include <string>
#include <string_view>

#include "base/formats/checkpoint_manifest.h"
#include "data/data_file.h"
#include "tests/fuzz/target.h"

// Reads the input as a manifest. An accepted manifest must have the same content after it was written and read again.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::fuzz::Require;
  const auto manifest = ampd::ParseManifest(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!manifest.ok()) {
    ampd::fuzz::Judge(ampd::data::DataError("input", std::string(manifest.status().message())));
    return 0;
  }
  ampd::fuzz::Judge(manifest.status());
  for (const auto& [name, file] : manifest->files) {
    Require(name.find('/') == std::string::npos && name[0] != '.', "a file lies in the checkpoint's folder");
    Require(file.size_bytes >= 0, "a file has a size");
  }
  const std::string written = ampd::WriteManifest(*manifest);
  const auto again = ampd::ParseManifest(written);
  Require(again.ok() && ampd::WriteManifest(*again) == written, "what is written is read as it was");
  Require(ampd::StateHash(*again) == ampd::StateHash(*manifest), "the state has one hash");
  return 0;
}
