#include "graph/exported_types.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd::graph {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 36;

}  // namespace

absl::StatusOr<ExportedTypes> ExportedTypes::Of(const ExportedProgram& program) {
  for (const ExportedInput& input : program.inputs) {
    if (input.kind != ExportedInput::Kind::kUser) {
      continue;
    }
    const std::vector<ExportedSize>& sizes = program.graph.tensors.at(input.tensor).sizes;
    if (sizes.empty() || sizes[0].symbol.empty() || sizes[0].factor != 1) {
      return BadExport(absl::StrCat("the first size of the input ", input.tensor,
                                    " is a number; export the model with a dynamic batch size"));
    }
    return ExportedTypes(program, sizes[0].symbol);
  }
  return BadExport("the program has no input");
}

absl::StatusOr<Dim> ExportedTypes::DimOf(const ExportedSize& size, const std::string& what) const {
  if (size.unknown.empty() && size.symbol.empty()) {
    return Dim(size.factor);
  }
  if (size.symbol != batch_) {
    return BadExport(absl::StrCat(what, " has a size ", size.symbol, size.unknown,
                                  ", which is no number and no multiple of the batch size; export the model with no "
                                  "other dynamic size"));
  }
  return Dim::Batch(size.factor);
}

absl::StatusOr<Dim> ExportedTypes::DimOf(const SizeName& size, const std::string& what) const {
  if (size.name.empty()) {
    return Dim(size.number);
  }
  const auto found = program_.graph.numbers.find(size.name);
  if (found == program_.graph.numbers.end()) {
    return BadExport(absl::StrCat(what, ": the number ", size.name, " is not known"));
  }
  return DimOf(found->second, what);
}

absl::StatusOr<Shape> ExportedTypes::ShapeOf(const std::vector<SizeName>& sizes, const std::string& what) const {
  Shape shape;
  for (const SizeName& size : sizes) {
    AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(size, what));
    shape.push_back(dim);
  }
  return shape;
}

absl::StatusOr<TensorType> ExportedTypes::TypeOf(const std::string& tensor) const {
  const auto found = program_.graph.tensors.find(tensor);
  if (found == program_.graph.tensors.end()) {
    return BadExport(absl::StrCat("the tensor ", tensor, " has no type"));
  }
  TensorType type{found->second.dtype, {}};
  int64_t elements = 1;  // of one sample
  for (const ExportedSize& size : found->second.sizes) {
    AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(size, tensor));
    if (__builtin_mul_overflow(elements, dim.factor(), &elements) || elements > kMaxElements) {
      return BadExport(absl::StrCat("the tensor ", tensor, " has more than ", kMaxElements, " numbers"));
    }
    type.shape.push_back(dim);
  }
  return type;
}

}  // namespace ampd::graph
