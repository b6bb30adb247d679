#include "worker/train/imported_model.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/zip_archive.h"
#include "graph/exported_program.h"
#include "graph/import.h"
#include "graph/print.h"
#include "worker/executor/dtype.h"

namespace ampd::train {
namespace {

using v1::ExportedModelSpec;

constexpr int64_t kMaxEntries = 100'000;

absl::Status SpecError(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR", message);
}

// Whether the head that the spec names takes the model's output.
absl::Status CheckHead(const ExportedModelSpec& spec, const graph::Graph& model) {
  const graph::TensorType& logits = model.type(*model.FindOutput("logits"));
  const size_t rank = logits.shape.size();
  const size_t least = spec.head() == ExportedModelSpec::LANGUAGE_MODEL ? 3 : 2;
  const size_t most = spec.head() == ExportedModelSpec::CLASSIFICATION ? 2 : 3;
  const bool is_batch = rank > 0 && logits.shape[0] == graph::Dim::Batch();
  const bool is_known = std::none_of(logits.shape.begin() + (rank > 0 ? 1 : 0), logits.shape.end(),
                                     [](const graph::Dim& dim) { return dim.is_batch(); });
  if (rank < least || rank > most || !is_batch || !is_known || logits.dtype != graph::Dtype::kFloat32) {
    return SpecError(absl::StrCat("model.exported.output ", spec.output(), " is ", graph::ToText(logits),
                                  "; a head takes float32[B, classes] or float32[B, positions, vocabulary]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImportedModel> Import(const ExportedModelSpec& spec, graph::ExportedModel exported) {
  const graph::InputNames inputs(spec.inputs().begin(), spec.inputs().end());
  AMPD_ASSIGN_OR_RETURN(graph::Graph train, graph::ImportProgram(exported, exported.train, spec.output(), inputs));
  AMPD_ASSIGN_OR_RETURN(graph::Graph eval, graph::ImportEvalProgram(exported, spec.output(), inputs));
  AMPD_RETURN_IF_ERROR(CheckHead(spec, train));
  AMPD_RETURN_IF_ERROR(CheckHead(spec, eval));
  if (train.parameters().empty()) {
    return SpecError("the exported model has no parameter that requires a gradient");
  }
  ImportedModel model{std::move(train), std::move(eval), std::move(exported.json), {}, {}};
  if (graph::IsEvalMode(model.train)) {
    model.warnings.emplace_back(
        "the model was exported in evaluation mode: its norms keep their running statistics and its dropout does "
        "nothing; export it after model.train()");
  }
  return model;
}

bool HasOddTruths(const at::Tensor& tensor) {
  const auto* const bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  return tensor.scalar_type() == at::kBool &&
         std::any_of(bytes, bytes + tensor.numel(), [](uint8_t b) { return b > 1; });
}

// A copy of its own, in the order of its dimensions.
absl::StatusOr<at::Tensor> ReadTensor(const ZipArchive& archive, const std::string& name,
                                      const graph::StoredTensor& stored) {
  AMPD_ASSIGN_OR_RETURN(const std::string bytes, graph::ReadStored(archive, stored));
  const int64_t reach = graph::ReachOf(stored);
  const at::Tensor numbers = at::empty({reach}, executor::ToScalarType(stored.dtype));
  if (reach > 0) {
    std::memcpy(numbers.mutable_data_ptr(), bytes.data(), numbers.nbytes());
  }
  if (HasOddTruths(numbers)) {
    return graph::BadExport(absl::StrCat("the tensor ", name, " has a boolean that is neither 0 nor 1"));
  }
  return reach == 0
             ? numbers.reshape(stored.sizes)
             : numbers.as_strided(stored.sizes, stored.strides, stored.offset).clone(at::MemoryFormat::Contiguous);
}

absl::StatusOr<ImportedModel> ReadArchive(const ExportedModelSpec& spec, UniqueFd file) {
  AMPD_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(std::move(file), kMaxEntries));
  AMPD_ASSIGN_OR_RETURN(graph::ExportedModel exported, graph::ReadExportedModel(archive));
  const std::map<std::string, graph::StoredTensor> stored = exported.state;
  AMPD_ASSIGN_OR_RETURN(ImportedModel model, Import(spec, std::move(exported)));
  for (const auto* states : {&model.train.parameters(), &model.train.buffers()}) {
    for (const graph::State& state : *states) {
      AMPD_ASSIGN_OR_RETURN(model.state[state.name], ReadTensor(archive, state.name, stored.at(state.name)));
    }
  }
  return model;
}

}  // namespace

absl::StatusOr<ImportedModel> OpenImportedModel(const ExportedModelSpec& spec, const data::DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, data::OpenDataFile(file));
  auto model = ReadArchive(spec, std::move(opened));
  return model.ok() || ReasonOf(model.status()) == "SPEC_ERROR" ? std::move(model)
                                                                : data::ArchiveError(file.name, model.status());
}

absl::StatusOr<ImportedModel> RestoreImportedModel(const ExportedModelSpec& spec, const CheckpointStore& store,
                                                   const std::string& path, const std::string& manifest_sha256) {
  AMPD_ASSIGN_OR_RETURN(std::string json, store.LoadFile(path, manifest_sha256, kGraphFile));
  const auto broken = [](const absl::Status& status) {
    return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR",
                 absl::StrCat(kGraphFile, ": ", status.message()));
  };
  auto exported = graph::ParseExportedModel(std::move(json));
  if (!exported.ok()) {
    return broken(exported.status());
  }
  auto model = Import(spec, *std::move(exported));
  return model.ok() ? std::move(model) : broken(model.status());
}

}  // namespace ampd::train
