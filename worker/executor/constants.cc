#include "worker/executor/constants.h"

#include <ATen/ScalarOps.h>

#include <string>
#include <type_traits>
#include <vector>

#include "worker/executor/dtype.h"

namespace ampd::executor {
namespace {

using c10::IValue;
using c10::TypeKind;

std::vector<double> Widened(const std::vector<int64_t>& list) { return {list.begin(), list.end()}; }

// Converts a constant to the type of an argument in an op's schema. Optional types are unwrapped first.
class Converter {
 public:
  explicit Converter(const c10::Argument& argument) : argument_(argument), type_(argument.type()) {
    if (const auto optional = type_->cast<c10::OptionalType>()) {
      is_optional_ = true;
      type_ = optional->getElementType();
    }
    if (const auto list = type_->cast<c10::ListType>()) {
      element_ = list->getElementType()->kind();
    }
  }

  std::optional<IValue> operator()(std::monostate) const {
    return is_optional_ ? std::optional(IValue()) : std::nullopt;
  }

  std::optional<IValue> operator()(int64_t number) const {
    if (Is(TypeKind::IntType) || Is(TypeKind::NumberType)) {
      return IValue(number);
    }
    if (Is(TypeKind::FloatType)) {
      return IValue(static_cast<double>(number));
    }
    if (Is(TypeKind::TensorType)) {
      return IValue(at::native::wrapped_scalar_tensor(number));
    }
    if (element_ == TypeKind::IntType && argument_.N().has_value()) {
      return IValue(std::vector<int64_t>(static_cast<size_t>(*argument_.N()), number));
    }
    return std::nullopt;
  }

  std::optional<IValue> operator()(double number) const {
    if (Is(TypeKind::FloatType) || Is(TypeKind::NumberType)) {
      return IValue(number);
    }
    return Is(TypeKind::TensorType) ? std::optional(IValue(at::native::wrapped_scalar_tensor(number))) : std::nullopt;
  }

  std::optional<IValue> operator()(bool flag) const {
    if (Is(TypeKind::BoolType) || Is(TypeKind::NumberType)) {
      return IValue(flag);
    }
    return Is(TypeKind::TensorType) ? std::optional(IValue(at::native::wrapped_scalar_tensor(flag))) : std::nullopt;
  }

  std::optional<IValue> operator()(const std::vector<int64_t>& list) const {
    if (element_ == TypeKind::IntType) {
      return IValue(list);
    }
    return element_ == TypeKind::FloatType ? std::optional(IValue(Widened(list))) : std::nullopt;
  }

  std::optional<IValue> operator()(const std::vector<double>& list) const {
    return element_ == TypeKind::FloatType ? std::optional(IValue(list)) : std::nullopt;
  }

  // The schemas of LibTorch's ops give a dtype argument (ScalarType) the type int.
  std::optional<IValue> operator()(graph::Dtype dtype) const {
    return Is(TypeKind::IntType) ? std::optional(ToIValue(graph::Operand(dtype))) : std::nullopt;
  }

  std::optional<IValue> operator()(const std::string& text) const {
    return Is(TypeKind::StringType) ? std::optional(IValue(text)) : std::nullopt;
  }

  std::optional<IValue> operator()(graph::ValueId) const { return std::nullopt; }
  std::optional<IValue> operator()(const std::vector<std::optional<graph::ValueId>>&) const { return std::nullopt; }
  std::optional<IValue> operator()(const graph::Shape&) const { return std::nullopt; }

 private:
  bool Is(TypeKind kind) const { return type_->kind() == kind; }

  const c10::Argument& argument_;
  c10::TypePtr type_;
  bool is_optional_ = false;
  std::optional<TypeKind> element_;
};

}  // namespace

std::optional<c10::IValue> ToIValue(const graph::Operand& operand, const c10::Argument& argument) {
  return std::visit(Converter(argument), operand);
}

c10::IValue ToIValue(const graph::Operand& operand) {
  return std::visit(
      [](const auto& constant) -> IValue {
        using T = std::decay_t<decltype(constant)>;
        if constexpr (std::is_same_v<T, graph::Dtype>) {
          return static_cast<int64_t>(ToScalarType(constant));
        } else if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, graph::ValueId> ||
                             std::is_same_v<T, std::vector<std::optional<graph::ValueId>>> ||
                             std::is_same_v<T, graph::Shape>) {
          return IValue();
        } else {
          return IValue(constant);
        }
      },
      operand);
}

}  // namespace ampd::executor
