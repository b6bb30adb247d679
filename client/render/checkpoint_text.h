#pragma once

#include <map>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "base/formats/checkpoint_manifest.h"
#include "base/formats/safetensors.h"
#include "client/render/job_text.h"

// Checkpoints as text.
namespace ampd::client {

// A row of `checkpoint list`, and its headings.
std::vector<std::string> CheckpointHeadings(bool wide);
std::vector<std::string> CheckpointRow(const v1::Checkpoint& checkpoint, bool wide, const JobTextOptions& options);

// All that the server knows of one, a subject a line. `precision` is that of the attempt that saved it; may be empty.
std::string RenderCheckpoint(const v1::Checkpoint& checkpoint, const std::string& precision,
                             const JobTextOptions& options);

// What a folder's manifest says, a subject a line, in front of the tensors.
std::string RenderManifest(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                           const JobTextOptions& options);

// A row a tensor, by file and place in it, and their headings.
std::vector<std::string> TensorHeadings();
std::vector<std::vector<std::string>> TensorRows(const std::map<std::string, SafetensorsHeader>& tables);

// All of a folder as JSON, over several lines or in one; 64-bit numbers are strings, as in protobuf's mapping.
std::string FolderJson(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                       const std::map<std::string, SafetensorsHeader>& tables, bool indented);

}  // namespace ampd::client
