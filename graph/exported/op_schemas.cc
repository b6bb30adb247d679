#include "graph/exported/op_schemas.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "graph/exported/schema_table.h"

namespace ampd::graph {
namespace {

using ArgumentKind = ArgumentSchema::Kind;

// The kind of an argument, by the name of its type without "?".
ArgumentKind ArgumentKindOf(absl::string_view type) {
  static const auto* const kinds =
      new std::map<absl::string_view, ArgumentKind>{{"Device", ArgumentKind::kPlace},
                                                    {"Generator", ArgumentKind::kPlace},
                                                    {"Layout", ArgumentKind::kPlace},
                                                    {"MemoryFormat", ArgumentKind::kInteger},
                                                    {"Scalar", ArgumentKind::kNumber},
                                                    {"ScalarType", ArgumentKind::kDtype},
                                                    {"SymInt", ArgumentKind::kInteger},
                                                    {"Tensor", ArgumentKind::kTensor},
                                                    {"TensorOrNumber", ArgumentKind::kTensorOrNumber},
                                                    {"Tensor?[]", ArgumentKind::kOptionalTensorList},
                                                    {"Tensor[]", ArgumentKind::kTensorList},
                                                    {"bool", ArgumentKind::kTruth},
                                                    {"float", ArgumentKind::kReal},
                                                    {"int", ArgumentKind::kInteger},
                                                    {"str", ArgumentKind::kText}};
  const auto found = kinds->find(type);
  return found == kinds->end() ? ArgumentKind::kIntegerList : found->second;  // "int[]", "SymInt[2]"
}

// Parses "int[2] padding=0".
ArgumentSchema ParseArgument(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> type_and_rest = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  const std::vector<absl::string_view> name = absl::StrSplit(type_and_rest.second, absl::MaxSplits('=', 1));
  absl::string_view type = type_and_rest.first;
  ArgumentSchema argument;
  argument.name = std::string(name[0]);
  argument.may_be_left_out = name.size() > 1;
  argument.may_be_none = absl::ConsumeSuffix(&type, "?");
  argument.kind = ArgumentKindOf(type);
  argument.takes_one = argument.kind == ArgumentKind::kIntegerList && type.find("[]") == absl::string_view::npos;
  return argument;
}

OpSchema ParseSchema(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, " -> ");
  OpSchema schema;
  for (const absl::string_view argument : absl::StrSplit(parts.first, ", ")) {
    if (argument != "*") {  // The arguments behind it are given by name; all arguments of a node are.
      schema.arguments.push_back(ParseArgument(argument));
    }
  }
  const std::vector<absl::string_view> results = absl::StrSplit(parts.second, ", ");
  schema.num_results = parts.second == "Tensor[]" ? 0 : results.size();
  return schema;
}

std::string_view Described(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return "a tensor";
    case ArgumentKind::kTensorOrNumber:
      return "a tensor or a number";
    case ArgumentKind::kTensorList:
    case ArgumentKind::kOptionalTensorList:
      return "a list of tensors";
    case ArgumentKind::kNumber:
    case ArgumentKind::kReal:
      return "a number";
    case ArgumentKind::kInteger:
      return "an integer";
    case ArgumentKind::kTruth:
      return "True or False";
    case ArgumentKind::kText:
      return "a text";
    case ArgumentKind::kDtype:
      return "a dtype";
    case ArgumentKind::kIntegerList:
      return "a list of integers";
    case ArgumentKind::kPlace:
      return "None";
  }
  return "";
}

template <typename... Types>
bool IsOneOf(const Operand& operand) {
  return (std::holds_alternative<Types>(operand) || ...);
}

bool IsTensorList(const Operand& operand, bool may_lack_some) {
  const auto* const list = std::get_if<std::vector<std::optional<ValueId>>>(&operand);
  return list != nullptr && (may_lack_some || std::all_of(list->begin(), list->end(),
                                                          [](const auto& tensor) { return tensor.has_value(); }));
}

bool IsOf(ArgumentKind kind, const Operand& operand) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return IsOneOf<ValueId>(operand);
    case ArgumentKind::kTensorOrNumber:
      return IsOneOf<ValueId, int64_t, double, bool>(operand);
    case ArgumentKind::kTensorList:
      return IsTensorList(operand, /*may_lack_some=*/false);
    case ArgumentKind::kOptionalTensorList:
      return IsTensorList(operand, /*may_lack_some=*/true);
    case ArgumentKind::kNumber:
      return IsOneOf<int64_t, double, bool>(operand);
    case ArgumentKind::kInteger:
      return IsOneOf<int64_t>(operand);
    case ArgumentKind::kReal:
      return IsOneOf<int64_t, double>(operand);
    case ArgumentKind::kTruth:
      return IsOneOf<bool>(operand);
    case ArgumentKind::kText:
      return IsOneOf<std::string>(operand);
    case ArgumentKind::kDtype:
      return IsOneOf<Dtype>(operand);
    case ArgumentKind::kIntegerList:
      return IsOneOf<std::vector<int64_t>, Shape>(operand);
    case ArgumentKind::kPlace:
      return false;
  }
  return false;
}

std::string FaultOfArgument(const ArgumentSchema& argument, const Operand* given) {
  const bool is_missing = given == nullptr;
  if (is_missing ? argument.may_be_left_out
                 : IsOf(argument.kind, *given) || (argument.may_be_none && IsOneOf<std::monostate>(*given)) ||
                       (argument.takes_one && IsOneOf<int64_t>(*given))) {
    return "";
  }
  if (argument.kind == ArgumentKind::kTensor && !argument.may_be_none) {
    return absl::StrCat("it has no tensor as its ", argument.name);
  }
  const std::string kind(Described(argument.kind));
  return is_missing ? absl::StrCat("its argument ", argument.name, " is missing; it takes ", kind)
                    : absl::StrCat("its ", argument.name, " is not ", kind);
}

}  // namespace

const OpSchema* SchemaOf(std::string_view op) {
  static const auto* const schemas = [] {
    auto* const parsed = new std::map<std::string, OpSchema, std::less<>>;
    for (const SchemaRow& row : SchemaRows()) {
      parsed->emplace(row.op, ParseSchema(row.schema));
    }
    return parsed;
  }();
  const auto found = schemas->find(op);
  return found == schemas->end() ? nullptr : &found->second;
}

std::string FaultOfSchema(const Node& node) {
  const OpSchema* const schema = SchemaOf(node.op);
  if (schema == nullptr) {
    return "it is not an op that models may use";
  }
  for (const ArgumentSchema& argument : schema->arguments) {
    if (std::string fault = FaultOfArgument(argument, node.Find(argument.name)); !fault.empty()) {
      return fault;
    }
  }
  for (const Argument& given : node.arguments) {
    if (std::none_of(schema->arguments.begin(), schema->arguments.end(),
                     [&](const ArgumentSchema& argument) { return argument.name == given.name; })) {
      return absl::StrCat("it has an argument \"", given.name, "\", which the op does not take");
    }
  }
  const size_t num_results = node.outputs.size();
  return num_results == 0 || (schema->num_results != 0 && num_results != schema->num_results)
             ? absl::StrCat("it returns ", num_results, " tensors; the op returns ",
                            schema->num_results == 0 ? "a list of them" : absl::StrCat(schema->num_results))
             : "";
}

}  // namespace ampd::graph
