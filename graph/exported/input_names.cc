#include "graph/exported/input_names.h"

#include <algorithm>

namespace ampd::graph {
namespace {

using Kind = ExportedInput::Kind;

constexpr char kImages[] = "images";
constexpr char kTokens[] = "input_ids";

}  // namespace

std::string InputNameOf(const ExportedProgram& program, const ExportedInput& input, const InputNames& inputs) {
  if (const auto called = inputs.find(input.tensor); called != inputs.end()) {
    return called->second;
  }
  const auto is_user = [](const ExportedInput& one) { return one.kind == Kind::kUser; };
  if (std::count_if(program.inputs.begin(), program.inputs.end(), is_user) > 1) {
    return input.tensor;
  }
  return program.graph.tensors.at(input.tensor).dtype == Dtype::kInt64 ? kTokens : kImages;
}

bool HoldsSamples(std::string_view name) { return name == kImages || name == kTokens; }

}  // namespace ampd::graph
