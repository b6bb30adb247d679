// Compares the schemas in graph/exported/schema_table.cc with those of LibTorch's ops.
#include "graph/exported/op_schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/exported/schema_table.h"

namespace ampd::executor {
namespace {

using c10::TypeKind;
using graph::ArgumentSchema;
using graph::OpSchema;
using Kind = ArgumentSchema::Kind;

// A kind that no argument in the table has.
constexpr Kind kUnknown = static_cast<Kind>(-1);

Kind KindOfList(TypeKind element) {
  switch (element) {
    case TypeKind::TensorType:
      return Kind::kTensorList;
    case TypeKind::OptionalType:
      return Kind::kOptionalTensorList;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return Kind::kIntegerList;
    default:
      return kUnknown;
  }
}

Kind KindOf(const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::TensorType:
      return Kind::kTensor;
    case TypeKind::ListType:
      return KindOfList(type->castRaw<c10::ListType>()->getElementType()->kind());
    case TypeKind::NumberType:
      return Kind::kNumber;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::MemoryFormatType:
      return Kind::kInteger;
    case TypeKind::FloatType:
      return Kind::kReal;
    case TypeKind::BoolType:
      return Kind::kTruth;
    case TypeKind::StringType:
      return Kind::kText;
    case TypeKind::ScalarTypeType:
      return Kind::kDtype;
    case TypeKind::DeviceObjType:
    case TypeKind::GeneratorType:
    case TypeKind::LayoutType:
      return Kind::kPlace;
    default:
      return kUnknown;
  }
}

ArgumentSchema Read(const c10::Argument& argument) {
  const auto optional = argument.real_type()->cast<c10::OptionalType>();
  ArgumentSchema read;
  read.name = argument.name();
  read.kind = KindOf(optional ? optional->getElementType() : argument.real_type());
  read.may_be_none = optional != nullptr;
  read.may_be_left_out = argument.default_value().has_value();
  read.takes_one = argument.N().has_value();
  return read;
}

// Returns the arguments and the number of results as text. The table marks the tensors in place of which torch.export
// may write a number; LibTorch's schemas do not, so the text does not either.
std::vector<std::string> Described(const OpSchema& schema) {
  std::vector<std::string> lines = {absl::StrCat("results: ", schema.num_results)};
  for (const ArgumentSchema& argument : schema.arguments) {
    const Kind kind = argument.kind == Kind::kTensorOrNumber ? Kind::kTensor : argument.kind;
    lines.push_back(absl::StrCat(argument.name, ": kind ", static_cast<int>(kind), argument.may_be_none ? ", None" : "",
                                 argument.may_be_left_out ? ", default" : "", argument.takes_one ? ", one" : ""));
  }
  return lines;
}

OpSchema Read(const c10::FunctionSchema& schema) {
  OpSchema read;
  for (const c10::Argument& argument : schema.arguments()) {
    read.arguments.push_back(Read(argument));
  }
  const bool is_list = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == TypeKind::ListType;
  read.num_results = is_list ? 0 : schema.returns().size();
  return read;
}

TEST(SchemaOf, AreThoseOfLibTorch) {
  for (const graph::SchemaRow& row : graph::SchemaRows()) {
    SCOPED_TRACE(row.op);
    const std::vector<std::string> parts = absl::StrSplit(row.op, '.');
    ASSERT_EQ(parts.size(), 3u);
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {absl::StrCat(parts[0], "::", parts[1]), parts[2] == "default" ? "" : parts[2]});
    ASSERT_TRUE(handle.has_value());
    EXPECT_EQ(Described(*graph::SchemaOf(row.op)), Described(Read(handle->schema())));
  }
}

}  // namespace
}  // namespace ampd::executor
