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

// The content of a file of torch.export.save as plain data, which is checked while it is read and never executed.
// Nested graphs are inlined (graph/exported/exported_inline.h). The import (graph/exported/import.h) converts it to a
// graph.
namespace ampd::graph {

// One size of a tensor, or another number computed from sizes: `factor`, multiplied by `symbol` if that is not empty. A
// symbol is the name of a size that the export left open, such as the batch size; it gets its value when the program
// runs. `factor` is negative only for a number that is not a size.
struct ExportedSize {
  int64_t factor = 1;
  std::string symbol;
  std::string unknown;  // The expression, if it is neither a number nor a multiple of a symbol.
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

// An integer, or the name of an integer that the program computes from sizes.
struct SizeName {
  std::string name;
  int64_t number = 0;
};

// A memory format argument, as the number of an at::MemoryFormat.
struct MemoryFormat {
  int64_t number = 0;
};

// A device or layout. Its value is not kept, because the trainer chooses its own.
struct Placement {};

// What the model's bfloat16 twin shows about the float32 result of a node (graph/exported/exported_twin.h).
enum class NamedDtype {
  kUnknown,  // The twin does not list the result.
  kMeant,    // The model asks for float32.
  kFollows,  // The result is float32 only because the model was exported in float32.
};

struct ExportedGraph;

using ExportedArgument =
    std::variant<std::monostate, TensorName, std::vector<std::optional<TensorName>>, int64_t, std::vector<int64_t>,
                 double, std::vector<double>, bool, std::string, Dtype, SizeName, std::vector<SizeName>, MemoryFormat,
                 Placement, std::shared_ptr<const ExportedGraph>>;

struct ExportedNode {
  std::string target;  // "torch.ops.aten.linear.default"
  std::vector<std::pair<std::string, ExportedArgument>> arguments;
  std::vector<std::string> tensors;  // Tensors that the node computes; for a list, its elements.
  bool gives_numbers = false;        // Some results are sizes, or truth values of relations of sizes.
  std::string module_path = {};      // "layer1.0"
  std::string source = {};           // "model.py:31", the line of user code that led to this node; empty: not known.
  bool keeps_fp32 = false;           // It runs under torch.autocast(enabled=False).
  bool without_gradient = false;     // It runs under torch.no_grad().
  NamedDtype named_dtype = NamedDtype::kUnknown;
};

struct ExportedGraph {
  std::vector<std::string> inputs;                  // Names of tensors.
  std::vector<std::optional<std::string>> outputs;  // Names of tensors; nothing for an output that is not a tensor.
  std::vector<ExportedNode> nodes;
  std::map<std::string, ExportedTensor> tensors;
  std::map<std::string, ExportedSize> numbers;
  std::map<std::string, std::string>
      relations;  // Relations of sizes (graph/exported/size_expression.h), by the name of their truth value.
  std::map<std::string, std::string>
      module_types;  // Type by path: "layer1.0" is a "torchvision.models.resnet.BasicBlock".
};

// One of the program's inputs.
struct ExportedInput {
  enum class Kind { kUser, kParameter, kBuffer, kConstant };
  Kind kind = Kind::kUser;
  std::string tensor;  // Name of its tensor in the graph.
  std::string name;    // Python's name of a parameter, buffer or constant.
};

// The values that a symbol may have, both ends included.
struct SymbolRange {
  int64_t least = 0;
  int64_t most = 0;
};

struct ExportedProgram {
  ExportedGraph graph;
  std::vector<ExportedInput> inputs;
  std::map<std::string, SymbolRange> ranges;  // For each symbol: the values that it may have.
  std::map<std::string, int64_t> examples;    // For symbols of inputs: the value in the export's example inputs.
};

// The place of a parameter, buffer or constant: a strided view of the numbers in one entry of the archive. Two tensors
// with the same place are tied.
struct StoredTensor {
  std::string entry;  // Path below the archive's folder, "data/weights/weight_0".
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// How the names in the model's state_dict differ from those of the graph's tensors.
struct SavedNames {
  std::set<std::string> left_out;  // Names only in the graph: constants, and buffers that Python does not save.
  std::map<std::string, std::string> tied;  // Further names of tied parameters, mapped to the graph's names.
};
SavedNames SavedNamesOf(const std::map<std::string, StoredTensor>& stored, const std::set<std::string>& of_graph);

// The number of elements from the start of the entry to the last one that the tensor reads. REQUIRES: the tensor comes
// from ReadExportedModel.
int64_t ReachOf(const StoredTensor& tensor);

// The content of one .pt2 file.
struct ExportedModel {
  ExportedProgram train;
  std::optional<ExportedProgram> eval;  // Nothing if the file has only one program.
  std::map<std::string, StoredTensor> state;
  // The JSON from which ParseExportedModel makes the members above. Checkpoints keep this JSON.
  //
  //   json := {"format": "ampd.exported_model", "version": 1, "weights": W, "constants": C, "eval_constants": E,
  //            "programs": {name: P}, "twin": T}
  //   W, C, P: the archive's files data/weights/*_weights_config.json, data/constants/*_constants_config.json of the
  //   training program, and models/*.json, as torch.export writes them. E: like C, for the evaluation program's own
  //   constants (graph/exported/exported_constants.h); optional. T: as in graph/exported/exported_twin.h; optional.
  std::string json;
};

// Limit on the archive's entries, for ZipArchive::Open.
inline constexpr int64_t kMaxExportedEntries = 100'000;
inline constexpr int64_t kMaxExportedJsonBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxStoredTensorBytes = int64_t{8} << 30;
// All tensors of an archive together may have at most kFreeStoredBytes, or kMaxUnpacking times the archive's size if
// that is more. The limit keeps a small file from using up a worker's memory; torch.export does not compress tensors.
inline constexpr int64_t kFreeStoredBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxUnpacking = 16;

// Reads the programs of a .pt2 file; if there are several, those named "train" and "eval". Checks that each tensor's
// entry is long enough for the tensor. Does not read the content of tensors, except to compare constants of two
// programs. INVALID_ARGUMENT (reason BAD_EXPORT), with the fault and its place in the file; UNAVAILABLE if the host
// can't read the file; RESOURCE_EXHAUSTED if the programs' JSON exceeds `max_json_bytes`. The limit bounds the time and
// the memory for a file of unknown origin: reading takes some ten times as much memory as the JSON.
absl::StatusOr<ExportedModel> ReadExportedModel(const ZipArchive& archive,
                                                int64_t max_json_bytes = 4 * kMaxExportedJsonBytes);

// Reads a model from its JSON alone. Returns INVALID_ARGUMENT in the same cases as ReadExportedModel.
absl::StatusOr<ExportedModel> ParseExportedModel(std::string text);

// Returns the content of a tensor's entry. Unpacks only as many bytes as the tensor needs, even if the entry has more.
// Returns the same errors as ReadExportedModel.
absl::StatusOr<std::string> ReadStored(const ZipArchive& archive, const StoredTensor& tensor);

// Reads every tensor's content in pieces, and verifies the checksum of each entry. An exception is an entry with
// further bytes behind its tensors: these bytes are not read, so its checksum is not verified. Returns the same errors
// as ReadExportedModel.
absl::Status VerifyContent(const ZipArchive& archive, const ExportedModel& model);

// Returns INVALID_ARGUMENT with the reason BAD_EXPORT and the message.
absl::Status BadExport(const std::string& message);

}  // namespace ampd::graph
