#include "client/render/checkpoint_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::client {
namespace {

using nlohmann::ordered_json;

constexpr char kNothing[] = "-";

std::string OrNothing(const std::string& text) { return text.empty() ? kNothing : Printable(text); }

std::string Line(const std::string& subject, const std::string& text) {
  constexpr int kSubjectWidth = 12;
  return FitTo(subject, kSubjectWidth) + text + "\n";
}

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

std::string RenderCheckpoint(const v1::Checkpoint& checkpoint, const std::string& precision,
                             const JobTextOptions& options) {
  std::string text = Line("step", FormatCount(checkpoint.step())) +
                     Line("attempt", absl::StrCat(checkpoint.attempt())) +
                     Line("size", FormatBytes(checkpoint.size_bytes())) + Line("precision", OrNothing(precision)) +
                     Line("eval loss", LossText(checkpoint)) + Line("saved", SavedText(checkpoint, options)) +
                     Line("worker", WhereText(checkpoint)) + Line("path", OrNothing(checkpoint.path()));
  if (options.wide) {
    text +=
        Line("state", OrNothing(checkpoint.state_hash())) + Line("manifest", OrNothing(checkpoint.manifest_sha256()));
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
  std::string text = Line("job", Printable(manifest.job_id)) + Line("attempt", absl::StrCat(manifest.attempt)) +
                     Line("step", FormatCount(manifest.step)) +
                     Line("precision", EnvironmentOf(manifest, "precision")) +
                     Line("size", absl::StrCat(FormatBytes(size), " (", absl::StrJoin(files, ", "), ")"));
  if (options.wide) {
    text += Line("device", EnvironmentOf(manifest, "device")) +
            Line("threads", EnvironmentOf(manifest, "num_threads")) + Line("state", StateHash(manifest)) +
            Line("manifest", manifest_sha256);
  }
  return text;
}

std::vector<std::string> TensorHeadings() { return {"FILE", "DTYPE", "SHAPE", "SIZE", "TENSOR"}; }

std::vector<std::vector<std::string>> TensorRows(const std::map<std::string, SafetensorsHeader>& tables) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [file, table] : tables) {
    for (const TensorEntry& tensor : table.tensors) {
      rows.push_back({Printable(file), tensor.dtype, absl::StrCat("[", absl::StrJoin(tensor.shape, ","), "]"),
                      FormatBytes(BytesOf(tensor)), Printable(tensor.name)});
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

}  // namespace ampd::client
