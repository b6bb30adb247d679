#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/size_expression.h"
#include "graph/graph.h"

namespace ampd::graph {

// Converts the sizes of tensors in an exported program to sizes of a graph, each of which is a number or a multiple of
// the batch size. Keeps a reference to the program. Errors are INVALID_ARGUMENT with the reason BAD_EXPORT.
class ExportedTypes {
 public:
  // Determines the sizes that the export left open. The batch size is the symbol of the first input's first size. The
  // length of inputs (B, positions) is `sequence_length`; 0: not known. The error's reason is SPEC_ERROR if the
  // program's range of lengths or its assertions on sizes exclude this length, or if an assertion can't be evaluated
  // and the length is not that of the export's example inputs.
  static absl::StatusOr<ExportedTypes> Of(const ExportedProgram& program, int64_t sequence_length = 0);

  absl::StatusOr<TensorType> TypeOf(const std::string& tensor) const;
  // Converts an integer of the program, which may be negative. `what`: its description in messages.
  absl::StatusOr<Dim> DimOf(const SizeName& size, const std::string& what) const;
  absl::StatusOr<Shape> ShapeOf(const std::vector<SizeName>& sizes, const std::string& what) const;
  // The batch sizes for which the program was exported.
  const BatchRange& batch_range() const { return batch_range_; }

 private:
  ExportedTypes(const ExportedProgram& program, std::string batch) : program_(program), batch_(std::move(batch)) {}
  absl::Status Bind(int64_t sequence_length);
  absl::Status CheckAsserts() const;
  bool IsForOthers(const std::string& relation) const;
  std::string ExampleText() const;
  void FindBatchRange();
  absl::StatusOr<Dim> DimOf(const ExportedSize& size, const std::string& what) const;

  const ExportedProgram& program_;
  std::string batch_;
  SymbolValues values_;  // Values of the symbols other than the batch size.
  BatchRange batch_range_;
};

}  // namespace ampd::graph
