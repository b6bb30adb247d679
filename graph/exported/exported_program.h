#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/zip_archive.h"
#include "graph/dtype.h"

// What torch.export.save writes, taken from its file and checked on the way: data, which nothing here runs. Graphs
// within a graph are gone (graph/exported/exported_inline.h). The import (graph/exported/import.h) makes a graph of it.
namespace ampd::graph {

// One size of a tensor: `factor`, times a symbol that the run gives a value where there is one. Of a number that is no
// size it may be negative.
struct ExportedSize {
  int64_t factor = 1;
  std::string symbol;
  std::string unknown;  // the expression, where it is none of these two forms
  friend bool operator==(const ExportedSize&, const ExportedSize&) = default;
};

struct ExportedTensor {
  Dtype dtype = Dtype::kFloat32;
  bool requires_grad = false;
  std::vector<ExportedSize> sizes;
};

struct TensorName {
  std::string name;
};

// A whole number, or the name of one that the program computes from sizes.
struct SizeName {
  std::string name;
  int64_t number = 0;
};

// at::MemoryFormat's number.
struct MemoryFormat {
  int64_t number = 0;
};

// A device or layout, which is the trainer's to choose.
struct Placement {};

// What the model's bfloat16 twin tells of the float32 that a node gives (graph/exported/exported_twin.h).
enum class NamedDtype {
  kUnknown,  // nothing
  kMeant,    // the model asks for it
  kFollows,  // it is the dtype that the model was exported in
};

struct ExportedGraph;

using ExportedArgument =
    std::variant<std::monostate, TensorName, std::vector<std::optional<TensorName>>, int64_t, std::vector<int64_t>,
                 double, std::vector<double>, bool, std::string, Dtype, SizeName, std::vector<SizeName>, MemoryFormat,
                 Placement, std::shared_ptr<const ExportedGraph>>;

struct ExportedNode {
  std::string target;  // "torch.ops.aten.linear.default"
  std::vector<std::pair<std::string, ExportedArgument>> arguments;
  std::vector<std::string> tensors;  // that it computes; of a list, its elements
  bool gives_numbers = false;        // it computes sizes or truths of sizes, and no tensor
  std::string module_path = {};      // "layer1.0"
  std::string source = {};           // "model.py:31", the line of the user's own that led here; empty: not known
  bool keeps_fp32 = false;           // under torch.autocast(enabled=False)
  bool without_gradient = false;     // under torch.no_grad()
  NamedDtype named_dtype = NamedDtype::kUnknown;
};

struct ExportedGraph {
  std::vector<std::string> inputs;                  // tensors
  std::vector<std::optional<std::string>> outputs;  // tensors; nothing for an output that is none
  std::vector<ExportedNode> nodes;
  std::map<std::string, ExportedTensor> tensors;
  std::map<std::string, ExportedSize> numbers;
  std::map<std::string, std::string> relations;     // of sizes, as ParseSizeRelation reads them
  std::map<std::string, std::string> module_types;  // by path: "layer1.0" is a "torchvision.models.resnet.BasicBlock"
};

// What one of the program's inputs is.
struct ExportedInput {
  enum class Kind { kUser, kParameter, kBuffer, kConstant };
  Kind kind = Kind::kUser;
  std::string tensor;  // of the graph
  std::string name;    // of a parameter, buffer or constant: Python's
};

// Of a symbol, both ends included.
struct SymbolRange {
  int64_t least = 0;
  int64_t most = 0;
};

struct ExportedProgram {
  ExportedGraph graph;
  std::vector<ExportedInput> inputs;
  std::map<std::string, SymbolRange> ranges;  // what its symbols may be
};

// Where a parameter, buffer or constant lies: a strided view of the numbers in one entry of the archive. Two with one
// place are tied.
struct StoredTensor {
  std::string entry;  // below the archive's folder, "data/weights/weight_0"
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// How the names in the model's state_dict differ from those of the tensors that a graph has of it.
struct SavedNames {
  std::set<std::string> left_out;           // of the graph: constants, and buffers that Python does not save
  std::map<std::string, std::string> tied;  // further names of tied parameters, to those that the graph has
};
SavedNames SavedNamesOf(const std::map<std::string, StoredTensor>& stored, const std::set<std::string>& of_graph);

// Numbers of the entry that the view reaches, from 0. REQUIRES: as ReadExportedModel gives it.
int64_t ReachOf(const StoredTensor& tensor);

// A model as one file holds it.
struct ExportedModel {
  ExportedProgram train;
  std::optional<ExportedProgram> eval;  // nothing: the file has one program only
  std::map<std::string, StoredTensor> state;
  // All of the above once more, as ParseExportedModel takes it: what a checkpoint keeps.
  //
  //   json := {"format": "ampd.exported_model", "version": 1, "weights": W, "constants": C, "eval_constants": E,
  //            "programs": {name: P}, "twin": T}
  //   W, C, P: the archive's files data/weights/*_weights_config.json, data/constants/*_constants_config.json of the
  //   training program, and models/*.json, as torch.export writes them. E: as C, those constants of the evaluation
  //   program that are its own (graph/exported/exported_constants.h); may be missing. T: as
  //   graph/exported/exported_twin.h says; may be missing.
  std::string json;
};

// Entries of an archive, for ZipArchive::Open.
inline constexpr int64_t kMaxExportedEntries = 100'000;
inline constexpr int64_t kMaxExportedJsonBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxStoredTensorBytes = int64_t{8} << 30;
// All tensors of an archive together are no larger than this, or than so many times the archive: torch.export stores
// them unpacked, and a small file must not take a worker's memory.
inline constexpr int64_t kFreeStoredBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxUnpacking = 16;

// The programs of a .pt2 file: of several, those with the names "train" and "eval". Each tensor's content is there, as
// far as the tensor reaches. It is not read, but for constants of two programs, to tell whether they are the same.
// INVALID_ARGUMENT (reason BAD_EXPORT) with where it is and what is wrong with it; UNAVAILABLE where the host can't
// read the file; RESOURCE_EXHAUSTED where the JSON of the programs comes to more than `max_json_bytes`, by which a
// reader bounds the time and memory that it gives to a file of unknown origin: some ten times as much.
absl::StatusOr<ExportedModel> ReadExportedModel(const ZipArchive& archive,
                                                int64_t max_json_bytes = 4 * kMaxExportedJsonBytes);

// The same from its JSON alone. INVALID_ARGUMENT as ReadExportedModel.
absl::StatusOr<ExportedModel> ParseExportedModel(std::string text);

// The content of a tensor's entry, as far as the tensor reaches and no further, whatever the entry unpacks to. Errors
// as ReadExportedModel.
absl::StatusOr<std::string> ReadStored(const ZipArchive& archive, const StoredTensor& tensor);

// Reads every tensor's content as far as ReadStored does, in pieces, and verifies the checksums of entries that end
// there. Errors as ReadExportedModel.
absl::Status VerifyContent(const ZipArchive& archive, const ExportedModel& model);

// INVALID_ARGUMENT with the reason BAD_EXPORT.
absl::Status BadExport(const std::string& message);

}  // namespace ampd::graph
