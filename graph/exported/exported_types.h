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

// Converts the sizes of an exported program to a graph's: numbers, and multiples of the batch size. Keeps a reference
// to the program. Errors are INVALID_ARGUMENT with the reason BAD_EXPORT.
class ExportedTypes {
 public:
  // The batch size is the symbol of the first input's first size. If the export left the length of inputs (B,
  // positions) open, the length is `sequence_length`; 0: not known. The error's reason is SPEC_ERROR if the program's
  // range of lengths or its assertions on sizes exclude this length.
  static absl::StatusOr<ExportedTypes> Of(const ExportedProgram& program, int64_t sequence_length = 0);

  absl::StatusOr<TensorType> TypeOf(const std::string& tensor) const;
  // An integer, which may be negative. `what`: for messages.
  absl::StatusOr<Dim> DimOf(const SizeName& size, const std::string& what) const;
  absl::StatusOr<Shape> ShapeOf(const std::vector<SizeName>& sizes, const std::string& what) const;

 private:
  ExportedTypes(const ExportedProgram& program, std::string batch) : program_(program), batch_(std::move(batch)) {}
  absl::Status Bind(int64_t sequence_length);
  absl::Status CheckAsserts(const ExportedGraph& graph) const;
  absl::StatusOr<Dim> DimOf(const ExportedSize& size, const std::string& what) const;

  const ExportedProgram& program_;
  std::string batch_;
  SymbolValues values_;  // Values of the symbols other than the batch size.
};

}  // namespace ampd::graph
