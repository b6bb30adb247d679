#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/exported_program.h"
#include "graph/graph.h"

namespace ampd::graph {

// The sizes of an exported program as a graph has them: numbers, and multiples of the batch size. Keeps a reference to
// the program. Errors are INVALID_ARGUMENT with the reason BAD_EXPORT.
class ExportedTypes {
 public:
  // The batch size is the symbol of the first input's first size.
  static absl::StatusOr<ExportedTypes> Of(const ExportedProgram& program);

  absl::StatusOr<TensorType> TypeOf(const std::string& tensor) const;
  // `what`: for messages.
  absl::StatusOr<Dim> DimOf(const SizeName& size, const std::string& what) const;
  absl::StatusOr<Shape> ShapeOf(const std::vector<SizeName>& sizes, const std::string& what) const;

 private:
  ExportedTypes(const ExportedProgram& program, std::string batch) : program_(program), batch_(std::move(batch)) {}
  absl::StatusOr<Dim> DimOf(const ExportedSize& size, const std::string& what) const;

  const ExportedProgram& program_;
  std::string batch_;
};

}  // namespace ampd::graph
