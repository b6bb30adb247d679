#include "server/artifacts/uploaded_models.h"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/zip_archive.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

// Limits for the models that the server reads, many times the size of the largest published models. The time to analyse
// a model grows with the square of the number of nodes and tensors, so the server needs limits.
constexpr size_t kMaxNodes = 16'384;
constexpr size_t kMaxTensors = 16'384;

// A cached model counts at least this many bytes towards kept_json_bytes. This bounds the number of cached models.
constexpr int64_t kLeastWeightBytes = 64 << 10;

constexpr char kField[] = "model.exported.artifact";

absl::StatusOr<graph::ExportedModel> ReadModel(UniqueFd file, int64_t max_json_bytes) {
  AMPD_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(std::move(file), graph::kMaxExportedEntries));
  return graph::ReadExportedModel(archive, max_json_bytes);
}

bool HasMoreThanModelsHave(const graph::ExportedModel& model) {
  const size_t num_eval_nodes = model.eval.has_value() ? model.eval->graph.nodes.size() : 0;
  return std::max(model.train.graph.nodes.size(), num_eval_nodes) > kMaxNodes || model.state.size() > kMaxTensors;
}

absl::Status FileError(const absl::Status& error) {
  const std::string what(error.message());
  return absl::IsUnavailable(error)
             ? Error(absl::StatusCode::kUnavailable, "ARTIFACT_UNREADABLE", absl::StrCat(kField, ": ", what))
             : InvalidFields({{kField, what}});
}

}  // namespace

absl::StatusOr<UploadedModels::Kept> UploadedModels::ReadFile(const std::string& artifact) const {
  AMPD_ASSIGN_OR_RETURN(UniqueFd file, options_.open(artifact));
  auto model = ReadModel(std::move(file), options_.max_json_bytes);
  if (absl::IsResourceExhausted(model.status())) {
    return Kept{artifact, nullptr, kLeastWeightBytes};
  }
  if (!model.ok()) {
    return FileError(model.status());
  }
  if (HasMoreThanModelsHave(*model)) {
    return Kept{artifact, nullptr, kLeastWeightBytes};
  }
  const auto weight_bytes = std::max(static_cast<int64_t>(model->json.size()), kLeastWeightBytes);
  std::string().swap(model->json);
  return Kept{artifact, std::make_shared<const graph::ExportedModel>(*std::move(model)), weight_bytes};
}

std::list<UploadedModels::Kept>::const_iterator UploadedModels::Find(const std::string& artifact) const {
  return std::find_if(kept_.begin(), kept_.end(), [&artifact](const Kept& one) { return one.artifact == artifact; });
}

void UploadedModels::Keep(Kept kept) {
  kept_bytes_ += kept.weight_bytes;
  kept_.push_front(std::move(kept));
  while (kept_bytes_ > options_.kept_json_bytes) {
    kept_bytes_ -= kept_.back().weight_bytes;
    kept_.pop_back();
  }
}

absl::StatusOr<UploadedModels::ModelPtr> UploadedModels::Read(const std::string& artifact) {
  {
    absl::MutexLock lock(&mutex_);
    const auto is_kept_or_nobody_reads = [this, &artifact]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !is_reading_ || Find(artifact) != kept_.end();
    };
    mutex_.Await(absl::Condition(&is_kept_or_nobody_reads));
    if (const auto kept = Find(artifact); kept != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, kept);
      return kept_.front().model;
    }
    is_reading_ = true;
  }
  absl::StatusOr<Kept> read = ReadFile(artifact);
  malloc_trim(0);  // Returns the freed memory to the system, because nothing else in this process needs that much.
  absl::MutexLock lock(&mutex_);
  is_reading_ = false;
  AMPD_RETURN_IF_ERROR(read.status());
  ModelPtr model = read->model;
  Keep(*std::move(read));
  return model;
}

}  // namespace ampd::server
