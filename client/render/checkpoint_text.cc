#include "client/render/checkpoint_text.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/csv.h"
#include "client/render/yaml_text.h"

namespace ampd::client {
namespace {

using nlohmann::ordered_json;

absl::Time TimeOf(const v1::Checkpoint& checkpoint) {
  return absl::FromUnixSeconds(checkpoint.time().seconds()) + absl::Nanoseconds(checkpoint.time().nanos());
}

std::string SavedText(const v1::Checkpoint& checkpoint, const JobTextOptions& options) {
  return checkpoint.has_time() ? FormatSpan(options.now - TimeOf(checkpoint)) + " ago" : kNothing;
}

std::string LossText(const v1::Checkpoint& checkpoint) {
  return checkpoint.has_eval_loss() ? FormatNumber(checkpoint.eval_loss()) : kNothing;
}

std::string WhereText(const v1::Checkpoint& checkpoint) {
  return checkpoint.local() ? OrNothing(checkpoint.worker()) : "shared";
}

std::string EnvironmentOf(const CheckpointManifest& manifest, const std::string& name) {
  const auto found = manifest.environment.find(name);
  return found == manifest.environment.end() ? kNothing : Printable(found->second);
}

int64_t BytesOf(const TensorEntry& tensor) { return static_cast<int64_t>(tensor.end - tensor.begin); }

ordered_json TensorsJson(const std::map<std::string, SafetensorsHeader>& tables) {
  ordered_json tensors = ordered_json::array();
  for (const auto& [file, table] : tables) {
    for (const TensorEntry& tensor : table.tensors) {
      ordered_json shape = ordered_json::array();
      for (const int64_t dim : tensor.shape) {
        shape.push_back(absl::StrCat(dim));
      }
      tensors.push_back({{"file", file},
                         {"name", tensor.name},
                         {"dtype", tensor.dtype},
                         {"shape", shape},
                         {"sizeBytes", absl::StrCat(BytesOf(tensor))}});
    }
  }
  return tensors;
}

YamlValue TensorsYaml(const std::map<std::string, SafetensorsHeader>& tables) {
  YamlValue::List tensors;
  for (const auto& [file, table] : tables) {
    for (const TensorEntry& tensor : table.tensors) {
      YamlValue::List shape;
      std::transform(tensor.shape.begin(), tensor.shape.end(), std::back_inserter(shape),
                     [](int64_t dim) { return YamlNumberOf(dim); });
      tensors.push_back({YamlValue::Mapping{{"file", YamlTextOf(file)},
                                            {"name", YamlTextOf(tensor.name)},
                                            {"dtype", YamlTextOf(tensor.dtype)},
                                            {"shape", {std::move(shape)}},
                                            {"size_bytes", YamlNumberOf(BytesOf(tensor))}}});
    }
  }
  return {std::move(tensors)};
}

YamlValue TextsYaml(const std::map<std::string, std::string>& texts) {
  YamlValue::Mapping mapping;
  for (const auto& [name, text] : texts) {
    mapping.push_back({name, YamlTextOf(text)});
  }
  return {std::move(mapping)};
}

}  // namespace

std::vector<std::string> CheckpointHeadings(bool wide) {
  std::vector<std::string> headings = {"STEP", "ATTEMPT", "SIZE", "EVAL LOSS", "SAVED", "WORKER"};
  if (wide) {
    headings.insert(headings.end(), {"PATH", "STATE"});
  }
  return headings;
}

std::vector<std::string> CheckpointRow(const v1::Checkpoint& checkpoint, bool wide, const JobTextOptions& options) {
  std::vector<std::string> row = {FormatCount(checkpoint.step()),       absl::StrCat(checkpoint.attempt()),
                                  FormatBytes(checkpoint.size_bytes()), LossText(checkpoint),
                                  SavedText(checkpoint, options),       WhereText(checkpoint)};
  if (wide) {
    row.insert(row.end(), {OrNothing(checkpoint.path()), OrNothing(checkpoint.state_hash())});
  }
  return row;
}

std::vector<std::string> CheckpointCsvHeadings() {
  return {"step", "attempt", "size_bytes", "eval_loss", "time", "worker", "is_local", "path", "state_hash"};
}

std::vector<std::string> CheckpointCsvRow(const v1::Checkpoint& checkpoint) {
  return {absl::StrCat(checkpoint.step()),
          absl::StrCat(checkpoint.attempt()),
          absl::StrCat(checkpoint.size_bytes()),
          checkpoint.has_eval_loss() ? CsvNumber(checkpoint.eval_loss()) : "",
          CsvTime(checkpoint.has_time(), checkpoint.time()),
          Printable(checkpoint.worker()),
          checkpoint.local() ? "true" : "false",
          Printable(checkpoint.path()),
          Printable(checkpoint.state_hash())};
}

std::string RenderCheckpoint(const v1::Checkpoint& checkpoint, const std::string& precision,
                             const JobTextOptions& options) {
  std::string text =
      DetailLine("step", FormatCount(checkpoint.step())) + DetailLine("attempt", absl::StrCat(checkpoint.attempt())) +
      DetailLine("size", FormatBytes(checkpoint.size_bytes())) + DetailLine("precision", OrNothing(precision)) +
      DetailLine("eval loss", LossText(checkpoint)) + DetailLine("saved", SavedText(checkpoint, options)) +
      DetailLine("worker", WhereText(checkpoint)) + DetailLine("path", OrNothing(checkpoint.path()));
  if (options.wide) {
    text += DetailLine("state", OrNothing(checkpoint.state_hash())) +
            DetailLine("manifest", OrNothing(checkpoint.manifest_sha256()));
  }
  return text;
}

std::string RenderManifest(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                           const JobTextOptions& options) {
  std::vector<std::string> files;
  int64_t size = 0;
  for (const auto& [name, file] : manifest.files) {
    files.push_back(absl::StrCat(Printable(name), " ", FormatBytes(file.size_bytes)));
    size += file.size_bytes;
  }
  std::string text =
      DetailLine("job", Printable(manifest.job_id)) + DetailLine("attempt", absl::StrCat(manifest.attempt)) +
      DetailLine("step", FormatCount(manifest.step)) + DetailLine("precision", EnvironmentOf(manifest, "precision")) +
      DetailLine("size", absl::StrCat(FormatBytes(size), " (", absl::StrJoin(files, ", "), ")"));
  if (options.wide) {
    text += DetailLine("device", EnvironmentOf(manifest, "device")) +
            DetailLine("threads", EnvironmentOf(manifest, "num_threads")) + DetailLine("state", StateHash(manifest)) +
            DetailLine("manifest", manifest_sha256);
  }
  return text;
}

std::vector<std::string> TensorHeadings() { return {"FILE", "DTYPE", "SHAPE", "SIZE", "TENSOR"}; }

std::vector<std::vector<std::string>> TensorRows(const std::map<std::string, SafetensorsHeader>& tables) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [file, table] : tables) {
    for (const TensorEntry& tensor : table.tensors) {
      rows.push_back({Printable(file), Printable(tensor.dtype),
                      absl::StrCat("[", absl::StrJoin(tensor.shape, ","), "]"), FormatBytes(BytesOf(tensor)),
                      Printable(tensor.name)});
    }
  }
  return rows;
}

std::string FolderJson(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                       const std::map<std::string, SafetensorsHeader>& tables, bool indented) {
  ordered_json files = ordered_json::array();
  for (const auto& [name, file] : manifest.files) {
    files.push_back({{"name", name}, {"sizeBytes", absl::StrCat(file.size_bytes)}, {"sha256", file.sha256}});
  }
  const ordered_json folder = {{"jobId", manifest.job_id},
                               {"attempt", manifest.attempt},
                               {"step", absl::StrCat(manifest.step)},
                               {"manifestSha256", manifest_sha256},
                               {"stateHash", StateHash(manifest)},
                               {"environment", manifest.environment},
                               {"state", manifest.state},
                               {"files", files},
                               {"tensors", TensorsJson(tables)}};
  const std::string text = folder.dump(indented ? 1 : -1, ' ', false, ordered_json::error_handler_t::replace);
  return indented ? text + "\n" : text;
}

std::string FolderYaml(const CheckpointManifest& manifest, const std::string& manifest_sha256,
                       const std::map<std::string, SafetensorsHeader>& tables) {
  YamlValue::List files;
  for (const auto& [name, file] : manifest.files) {
    files.push_back({YamlValue::Mapping{{"name", YamlTextOf(name)},
                                        {"size_bytes", YamlNumberOf(file.size_bytes)},
                                        {"sha256", YamlTextOf(file.sha256)}}});
  }
  return WriteYaml({YamlValue::Mapping{{"job_id", YamlTextOf(manifest.job_id)},
                                       {"attempt", YamlNumberOf(int64_t{manifest.attempt})},
                                       {"step", YamlNumberOf(manifest.step)},
                                       {"manifest_sha256", YamlTextOf(manifest_sha256)},
                                       {"state_hash", YamlTextOf(StateHash(manifest))},
                                       {"environment", TextsYaml(manifest.environment)},
                                       {"state", TextsYaml(manifest.state)},
                                       {"files", {std::move(files)}},
                                       {"tensors", TensorsYaml(tables)}}});
}

}  // namespace ampd::client
