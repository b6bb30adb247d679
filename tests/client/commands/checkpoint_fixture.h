#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/formats/checkpoint_manifest.h"
#include "base/formats/safetensors.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"

namespace ampd::client {

inline std::string SafetensorsOf(const std::vector<TensorEntry>& tensors, const std::string& data) {
  return *EncodeSafetensorsHeader({.tensors = tensors, .metadata = {}, .data_begin = 0}) + data;
}

// Writes a checkpoint of step 20 into `folder`, in the format in which a trainer writes checkpoints. Returns its
// manifest. The checkpoint has two parameters and, in the file of the optimizer, the average of one of them over the
// steps.
inline CheckpointManifest WriteCheckpoint(const std::string& folder) {
  std::filesystem::create_directories(folder);
  CheckpointManifest manifest = {.job_id = "j-aaaaaaaaaaaaaaa0",
                                 .attempt = 1,
                                 .token = "token",
                                 .step = 20,
                                 .state = {{"applied_steps", "19"}},
                                 .environment = {{"device", "cpu"}, {"num_threads", "2"}, {"precision", "bf16"}},
                                 .files = {}};
  const auto add = [&](const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(absl::StrCat(folder, "/", name), content).ok());
    manifest.files[name] = {Sha256Hex(content), static_cast<int64_t>(content.size())};
  };
  add("model.safetensors", SafetensorsOf({{.name = "fc.bias", .dtype = "F32", .shape = {2}},
                                          {.name = "fc.weight", .dtype = "F32", .shape = {2, 3}}},
                                         std::string(8, 'b') + std::string(24, 'w')));
  add("optimizer.safetensors",
      SafetensorsOf({{.name = "fc.weight.average", .dtype = "F32", .shape = {2, 3}}}, std::string(24, 'a')));
  EXPECT_TRUE(WriteFileAtomically(absl::StrCat(folder, "/", kManifestFile), WriteManifest(manifest)).ok());
  return manifest;
}

}  // namespace ampd::client
