#include "worker/train/plan/model_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "data/byte_stream.h"
#include "models/models.h"
#include "worker/train/checkpoint/checkpoint_store.h"

namespace ampd::train {
namespace {

constexpr int64_t kMaxWeightsBytes = int64_t{8} << 30;

absl::StatusOr<std::string> ReadWeightsFile(const data::DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(data::ByteStream stream, data::ByteStream::Open(file));
  std::string content;
  std::string chunk(1 << 20, '\0');
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const size_t count, stream.Read(reinterpret_cast<uint8_t*>(chunk.data()), chunk.size()));
    content.append(chunk, 0, count);
    if (static_cast<int64_t>(content.size()) > kMaxWeightsBytes) {
      return data::DataError(file.name, absl::StrCat("more than ", kMaxWeightsBytes, " bytes"));
    }
    if (count < chunk.size()) {
      return content;
    }
  }
}

}  // namespace

bool ResumesTraining(const internal::StartAttempt& start) { return start.has_start_from() && !start.weights_only(); }

std::vector<v1::Checkpoint> EarlierCheckpoints(const internal::StartAttempt& start) {
  if (!ResumesTraining(start)) {
    return {};
  }
  std::vector<v1::Checkpoint> earlier = {start.start_from()};
  earlier.insert(earlier.end(), start.older_checkpoints().begin(), start.older_checkpoints().end());
  return earlier;
}

absl::StatusOr<std::optional<ImportedModel>> FindImportedModel(const internal::StartAttempt& start, Locator locate) {
  if (!start.spec().model().has_exported()) {
    return std::nullopt;
  }
  const v1::ExportedModelSpec& spec = start.spec().model().exported();
  const int64_t sequence_length = models::SequenceLengthOf(models::MainSourceOf(start.spec()));
  if (ResumesTraining(start)) {
    CheckpointIo io;
    return RestoreImportedModel(spec, CheckpointStore(start.checkpoint_root(), io), start.start_from().path(),
                                start.start_from().manifest_sha256(), sequence_length);
  }
  if (!spec.artifact().empty()) {
    return OpenImportedModel(
        spec,
        {start.artifact_folder(), spec.artifact(), absl::StrCat("model.exported.artifact \"", spec.artifact(), "\"")},
        sequence_length);
  }
  AMPD_ASSIGN_OR_RETURN(const data::DataFile file, locate("model.exported.path", spec.path()));
  return OpenImportedModel(spec, file, sequence_length);
}

absl::StatusOr<std::string> ReadInitialWeights(const internal::StartAttempt& start, Locator locate) {
  const v1::ModelSpec& model = start.spec().model();
  if (ResumesTraining(start)) {
    return std::string();  // The checkpoint has all weights. Roll-backs use checkpoints too.
  }
  if (model.has_initial_checkpoint()) {
    if (!start.has_start_from()) {
      return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR",
                   absl::StrCat(NameOfInitialWeights(model), " is out of reach"));
    }
    CheckpointIo io;
    return CheckpointStore(start.checkpoint_root(), io)
        .LoadFile(start.start_from().path(), start.start_from().manifest_sha256(), kModelFile);
  }
  if (model.initial_weights().empty()) {
    return std::string();
  }
  AMPD_ASSIGN_OR_RETURN(const data::DataFile file, locate("model.initial_weights", model.initial_weights()));
  return ReadWeightsFile(file);
}

std::string NameOfInitialWeights(const v1::ModelSpec& model) {
  const v1::CheckpointReference& checkpoint = model.initial_checkpoint();
  return model.has_initial_checkpoint()
             ? absl::StrCat("model.initial_checkpoint, job ", checkpoint.job_id(), " at step ", checkpoint.step())
             : absl::StrCat("model.initial_weights \"", model.initial_weights(), "\"");
}

}  // namespace ampd::train
