#include "graph/exported/exported_types.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/exported/exported_ops.h"

namespace ampd::graph {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 36;
constexpr size_t kMaxShown = 200;  // Bytes of a relation in a message.

// Whether an assertion only says that two sizes differ. Such an assertion matters for memory layouts but not for the
// results. For example, attention asserts that the length of the texts differs from the width of a head.
bool IsOfALayout(const std::string& relation) {
  return absl::StartsWith(relation, "Unequality(") && !absl::StrContains(relation, "FloorDiv(") &&
         !absl::StrContains(relation, "Mod(");
}

// An assertion of a program about its sizes.
struct Assertion {
  std::string relation;
  std::string message;
};

// Returns the program's assertions, without those of layouts.
std::vector<Assertion> AssertionsOf(const ExportedGraph& graph) {
  std::vector<Assertion> assertions;
  for (const ExportedNode& node : graph.nodes) {
    const ExportedArgument* const asserted =
        OpOf(node) == "aten._assert_scalar.default" ? FindArgument(node, "self") : nullptr;
    const auto* const name = asserted == nullptr ? nullptr : std::get_if<SizeName>(asserted);
    const auto relation = name == nullptr ? graph.relations.end() : graph.relations.find(name->name);
    if (relation == graph.relations.end() || IsOfALayout(relation->second)) {
      continue;
    }
    const ExportedArgument* const text = FindArgument(node, "assert_msg");
    const auto* const message = text == nullptr ? nullptr : std::get_if<std::string>(text);
    assertions.push_back({relation->second, message == nullptr ? relation->second : *message});
  }
  return assertions;
}

bool IsSymbol(const ExportedSize& size) { return !size.symbol.empty() && size.factor == 1; }

}  // namespace

absl::StatusOr<ExportedTypes> ExportedTypes::Of(const ExportedProgram& program, int64_t sequence_length) {
  for (const ExportedInput& input : program.inputs) {
    if (input.kind != ExportedInput::Kind::kUser) {
      continue;
    }
    const std::vector<ExportedSize>& sizes = program.graph.tensors.at(input.tensor).sizes;
    if (sizes.empty() || !IsSymbol(sizes[0])) {
      return BadExport(absl::StrCat("the first size of the input ", input.tensor,
                                    " is a number; export the model with a dynamic batch size"));
    }
    ExportedTypes types(program, sizes[0].symbol);
    if (sequence_length > 0) {
      AMPD_RETURN_IF_ERROR(types.Bind(sequence_length));
    }
    types.FindBatchRange();
    return types;
  }
  return BadExport("the program has no input");
}

absl::Status ExportedTypes::Bind(int64_t sequence_length) {
  for (const ExportedInput& input : program_.inputs) {
    const std::vector<ExportedSize>& sizes = program_.graph.tensors.at(input.tensor).sizes;
    if (input.kind != ExportedInput::Kind::kUser || sizes.size() != 2 || !IsSymbol(sizes[1]) ||
        sizes[1].symbol == batch_) {
      continue;
    }
    const auto range = program_.ranges.find(sizes[1].symbol);
    if (range != program_.ranges.end() &&
        (sequence_length < range->second.least || range->second.most < sequence_length)) {
      return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR",
                   absl::StrCat("the job's sequence length is ", sequence_length, "; the input ", input.tensor,
                                " of the model was exported for ", range->second.least, " to ", range->second.most));
    }
    values_[sizes[1].symbol] = sequence_length;
  }
  return values_.empty() ? absl::OkStatus() : CheckAsserts();
}

// Checks the program's assertions about its sizes. If a model branches on its length, the program has only one of the
// branches, and asserts the condition of that branch.
absl::Status ExportedTypes::CheckAsserts() const {
  for (const Assertion& assertion : AssertionsOf(program_.graph)) {
    const auto holds = HoldsFor(assertion.relation, values_);
    if (holds.has_value() ? *holds : !IsForOthers(assertion.relation)) {
      continue;
    }
    const std::string length =
        absl::StrCat("the job's sequence length is ", values_.begin()->second,
                     holds.has_value() ? ", which the model was not exported for: "
                                       : ", and whether the model was exported for it is not known: ");
    const std::string reason =
        holds.has_value()
            ? assertion.message
            : absl::StrCat("ampd can't evaluate the model's assertion ", assertion.relation.substr(0, kMaxShown),
                           "; use the length of the export's example inputs", ExampleText(),
                           ", or export the model with texts of the job's length");
    return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR", absl::StrCat(length, reason));
  }
  return absl::OkStatus();
}

// Whether the relation may decide differently than in the export: it is about the lengths of the job's texts alone, and
// one of them is not that of the export's example inputs, with which the relation holds.
bool ExportedTypes::IsForOthers(const std::string& relation) const {
  bool is_other = false;
  for (const std::string& symbol : SymbolsIn(relation)) {
    const auto value = values_.find(symbol);
    const auto example = program_.examples.find(symbol);
    if (value == values_.end()) {
      return false;
    }
    is_other = is_other || example == program_.examples.end() || example->second != value->second;
  }
  return is_other;
}

// The length of the example inputs, for messages: " (16)"; empty if the file does not say it.
std::string ExportedTypes::ExampleText() const {
  const auto example = program_.examples.find(values_.begin()->first);
  return example == program_.examples.end() ? "" : absl::StrCat(" (", example->second, ")");
}

// Takes the batch sizes from the symbol's range, and from assertions that compare the batch size with a number. torch
// writes a least size of 2 if the model names no least size, because it does not trace the sizes 0 and 1. So a least
// size of 2 does not count.
void ExportedTypes::FindBatchRange() {
  constexpr int64_t kLeastTraced = 2;
  if (const auto range = program_.ranges.find(batch_); range != program_.ranges.end()) {
    batch_range_ = {range->second.least, range->second.most};
  }
  for (const Assertion& assertion : AssertionsOf(program_.graph)) {
    const auto relation = ParseSizeRelation(assertion.relation, values_);
    const SizeBounds bounds = relation.has_value() ? BoundsOf(*relation, batch_) : SizeBounds();
    batch_range_.least = std::max(batch_range_.least, bounds.least.value_or(batch_range_.least));
    batch_range_.most = std::min(batch_range_.most, bounds.most.value_or(batch_range_.most));
  }
  batch_range_.least = batch_range_.least <= kLeastTraced ? 1 : batch_range_.least;
}

absl::StatusOr<Dim> ExportedTypes::DimOf(const ExportedSize& size, const std::string& what) const {
  const ExportedSize known = size.unknown.empty() ? size : ParseSizeExpression(size.unknown, values_);
  const auto value = values_.find(known.symbol);
  int64_t factor = known.factor;
  if (!known.unknown.empty() || (value == values_.end() && !known.symbol.empty() && known.symbol != batch_) ||
      (value != values_.end() && __builtin_mul_overflow(factor, value->second, &factor))) {
    return BadExport(absl::StrCat(what, " has a size ", known.symbol, known.unknown,
                                  ", which is no number and no multiple of the batch size; but for the length of a "
                                  "text's samples, export the model with no other dynamic size"));
  }
  return known.symbol == batch_ ? Dim::Batch(factor) : Dim(factor);
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
  int64_t elements = 1;  // Elements of one sample.
  for (const ExportedSize& size : found->second.sizes) {
    AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(size, tensor));
    if (dim.factor() < 0) {
      return BadExport(absl::StrCat("the tensor ", tensor, " has the size ", dim.factor()));
    }
    if (__builtin_mul_overflow(elements, dim.factor(), &elements) || elements > kMaxElements) {
      return BadExport(absl::StrCat("the tensor ", tensor, " has more than ", kMaxElements, " numbers"));
    }
    type.shape.push_back(dim);
  }
  return type;
}

}  // namespace ampd::graph
