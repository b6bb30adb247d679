#include "worker/train/plan/imported_model.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/zip_archive.h"
#include "base/status_macros.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "models/exported.h"
#include "worker/executor/dtype.h"

namespace ampd::train {
namespace {

using v1::ExportedModelSpec;

std::set<std::string> StateNames(const graph::Graph& model) {
  std::set<std::string> names;
  for (const auto* states : {&model.parameters(), &model.buffers()}) {
    for (const graph::State& state : *states) {
      names.insert(state.name);
    }
  }
  return names;
}

absl::StatusOr<ImportedModel> Import(const graph::ImportOptions& options, graph::ExportedModel exported) {
  AMPD_ASSIGN_OR_RETURN(graph::ImportedPrograms programs, graph::ImportPrograms(exported, options));
  graph::SavedNames names = graph::SavedNamesOf(exported.state, StateNames(programs.train));
  return ImportedModel{.train = std::move(programs.train),
                       .eval = std::move(programs.eval),
                       .json = std::move(exported.json),
                       .state = {},
                       .names = std::move(names),
                       .warnings = std::move(programs.warnings)};
}

bool HasOddTruths(const at::Tensor& tensor) {
  const auto* const bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  return tensor.scalar_type() == at::kBool &&
         std::any_of(bytes, bytes + tensor.numel(), [](uint8_t b) { return b > 1; });
}

// Copies a tensor out of the archive into a contiguous tensor.
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

absl::StatusOr<ImportedModel> ReadArchive(const graph::ImportOptions& options, UniqueFd file) {
  AMPD_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(std::move(file), graph::kMaxExportedEntries));
  AMPD_ASSIGN_OR_RETURN(graph::ExportedModel exported, graph::ReadExportedModel(archive));
  const std::map<std::string, graph::StoredTensor> stored = exported.state;
  AMPD_ASSIGN_OR_RETURN(ImportedModel model, Import(options, std::move(exported)));
  for (const auto* states : {&model.train.parameters(), &model.train.buffers()}) {
    for (const graph::State& state : *states) {
      AMPD_ASSIGN_OR_RETURN(model.state[state.name], ReadTensor(archive, state.name, stored.at(state.name)));
    }
  }
  for (const graph::BatchCounter& counter : model.train.batch_counters()) {
    AMPD_ASSIGN_OR_RETURN(model.state[counter.name], ReadTensor(archive, counter.name, stored.at(counter.name)));
  }
  return model;
}

}  // namespace

absl::StatusOr<ImportedModel> OpenImportedModel(const ExportedModelSpec& spec, const data::DataFile& file,
                                                int64_t sequence_length) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, data::OpenDataFile(file));
  auto model = ReadArchive(models::ImportOptionsOf(spec, sequence_length), std::move(opened));
  return model.ok() || ReasonOf(model.status()) == "SPEC_ERROR" ? std::move(model)
                                                                : data::ArchiveError(file.name, model.status());
}

absl::StatusOr<ImportedModel> RestoreImportedModel(const ExportedModelSpec& spec, const CheckpointStore& store,
                                                   const std::string& path, const std::string& manifest_sha256,
                                                   int64_t sequence_length) {
  AMPD_ASSIGN_OR_RETURN(std::string json, store.LoadFile(path, manifest_sha256, kGraphFile));
  const auto broken = [](const absl::Status& status) {
    return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR",
                 absl::StrCat(kGraphFile, ": ", status.message()));
  };
  auto exported = graph::ParseExportedModel(std::move(json));
  if (!exported.ok()) {
    return broken(exported.status());
  }
  auto model = Import(models::ImportOptionsOf(spec, sequence_length), *std::move(exported));
  return model.ok() ? std::move(model) : broken(model.status());
}

}  // namespace ampd::train
