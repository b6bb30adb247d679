#include "graph/size_expression.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ampd::graph {
namespace {

constexpr int kMaxDepth = 8;
constexpr int64_t kMaxFactor = int64_t{1} << 40;

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text.data(), text.size()) {}

  std::optional<ExportedSize> Parse() {
    std::optional<ExportedSize> size = Expression(0);
    return rest_.empty() ? size : std::nullopt;
  }

 private:
  // What is in front of the next `end`, which is taken too.
  std::optional<absl::string_view> Until(char end) {
    const size_t at = rest_.find(end);
    if (at == absl::string_view::npos) {
      return std::nullopt;
    }
    const absl::string_view piece = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return piece;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxDepth.
  std::optional<ExportedSize> Expression(int depth) {
    if (absl::ConsumePrefix(&rest_, "Symbol('")) {
      const auto name = Until('\'');
      return name.has_value() && !name->empty() && Until(')').has_value()
                 ? std::optional(ExportedSize{1, std::string(*name), ""})
                 : std::nullopt;
    }
    if (absl::ConsumePrefix(&rest_, "Integer(")) {
      const auto digits = Until(')');
      ExportedSize size;
      const bool ok = digits.has_value() && absl::SimpleAtoi(*digits, &size.factor);
      return ok && size.factor >= 0 && size.factor <= kMaxFactor ? std::optional(size) : std::nullopt;
    }
    return depth < kMaxDepth && absl::ConsumePrefix(&rest_, "Mul(") ? Product(depth) : std::nullopt;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxDepth.
  std::optional<ExportedSize> Product(int depth) {
    ExportedSize product;
    do {
      const std::optional<ExportedSize> factor = Expression(depth + 1);
      if (!factor.has_value() || (!factor->symbol.empty() && !product.symbol.empty()) ||
          __builtin_mul_overflow(product.factor, factor->factor, &product.factor) || product.factor > kMaxFactor) {
        return std::nullopt;
      }
      product.symbol += factor->symbol;
    } while (absl::ConsumePrefix(&rest_, ", "));
    return absl::ConsumePrefix(&rest_, ")") ? std::optional(product) : std::nullopt;
  }

  absl::string_view rest_;
};

}  // namespace

ExportedSize ParseSizeExpression(std::string_view text) {
  ExportedSize unknown;
  unknown.unknown = text;
  return Parser(text).Parse().value_or(unknown);
}

}  // namespace ampd::graph
