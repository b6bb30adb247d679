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

// The headings and rows of `checkpoint list`.
std::vector<std::string> CheckpointHeadings(bool wide);
std::vector<std::string> CheckpointRow(const v1::Checkpoint& checkpoint, bool wide, const JobTextOptions& options);

// The headings and rows of `checkpoint list -o csv`.
std::vector<std::string> CheckpointCsvHeadings();
std::vector<std::string> CheckpointCsvRow(const v1::Checkpoint& checkpoint);

// Returns everything that the server knows about a checkpoint, one subject per line. `precision` describes the
// precision of the attempt that saved the checkpoint; it may be empty.
std::string RenderCheckpoint(const v1::Checkpoint& checkpoint, const std::string& precision,
                             const JobTextOptions& options);

// Returns the content of a checkpoint folder's manifest without the tensors, one subject per line.
std::string RenderManifest(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                           const JobTextOptions& options);

// The headings and rows of a table with one row per tensor, ordered by file and position in the file.
std::vector<std::string> TensorHeadings();
std::vector<std::vector<std::string>> TensorRows(const std::map<std::string, SafetensorsHeader>& tables);

// Returns the content of a checkpoint's folder as JSON, indented or on one line. 64-bit numbers are strings, as in
// protobuf's JSON mapping.
std::string FolderJson(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                       const std::map<std::string, SafetensorsHeader>& tables, bool indented);

// Returns the content of a checkpoint's folder as a YAML document, with names in snake_case and 64-bit numbers as
// numbers.
std::string FolderYaml(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                       const std::map<std::string, SafetensorsHeader>& tables);

}  // namespace ampd::client
