#include "graph/exported/size_expression.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ampd::graph {
namespace {

constexpr int kMaxNesting = 8;
constexpr int64_t kMaxFactor = int64_t{1} << 40;
constexpr int64_t kMaxPower = 4;

using Size = std::optional<ExportedSize>;  // Nothing for an expression of another form.
using Sizes = std::vector<ExportedSize>;

Size Bounded(int64_t factor, std::string symbol = "") {
  return -kMaxFactor <= factor && factor <= kMaxFactor ? Size({factor, std::move(symbol), ""}) : std::nullopt;
}

bool AreNumbers(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const ExportedSize& size) { return size.symbol.empty(); });
}

Size Product(const Sizes& factors) {
  ExportedSize product;
  for (const ExportedSize& factor : factors) {
    if ((!factor.symbol.empty() && !product.symbol.empty()) ||
        __builtin_mul_overflow(product.factor, factor.factor, &product.factor)) {
      return std::nullopt;
    }
    product.symbol += factor.symbol;
  }
  return Bounded(product.factor, product.symbol);
}

// The sum of the terms, if all are numbers or multiples of one symbol.
Size Sum(const Sizes& terms) {
  int64_t sum = 0;
  for (const ExportedSize& term : terms) {
    if (term.symbol != terms[0].symbol || __builtin_add_overflow(sum, term.factor, &sum)) {
      return std::nullopt;
    }
  }
  return Bounded(sum, terms[0].symbol);
}

Size Power(const Sizes& sizes) {
  const bool is_whole = sizes.size() == 2 && AreNumbers(sizes) && 0 <= sizes[1].factor && sizes[1].factor <= kMaxPower;
  return is_whole ? Product(Sizes(static_cast<size_t>(sizes[1].factor), sizes[0])) : std::nullopt;
}

Size FloorQuotient(const Sizes& sizes) {
  const bool is_whole = sizes.size() == 2 && AreNumbers(sizes) && sizes[0].factor >= 0 && sizes[1].factor > 0;
  return is_whole ? Bounded(sizes[0].factor / sizes[1].factor) : std::nullopt;
}

Size Remainder(const Sizes& sizes) {
  const bool is_whole = sizes.size() == 2 && AreNumbers(sizes) && sizes[0].factor >= 0 && sizes[1].factor > 0;
  return is_whole ? Bounded(sizes[0].factor % sizes[1].factor) : std::nullopt;
}

Size Extreme(const Sizes& sizes, bool largest) {
  if (!AreNumbers(sizes)) {
    return std::nullopt;
  }
  const auto less = [](const ExportedSize& a, const ExportedSize& b) { return a.factor < b.factor; };
  return largest ? *std::max_element(sizes.begin(), sizes.end(), less)
                 : *std::min_element(sizes.begin(), sizes.end(), less);
}

// Applies a function of the grammar to its arguments. REQUIRES: sizes is not empty.
Size Apply(std::string_view function, const Sizes& sizes) {
  if (function == "Mul") return Product(sizes);
  if (function == "Add") return Sum(sizes);
  if (function == "Pow") return Power(sizes);
  if (function == "FloorDiv") return FloorQuotient(sizes);
  if (function == "Mod") return Remainder(sizes);
  if (function == "Min" || function == "Max") return Extreme(sizes, function == "Max");
  return std::nullopt;
}

std::optional<bool> Compare(std::string_view relation, int64_t left, int64_t right) {
  if (relation == "Equality") return left == right;
  if (relation == "Unequality") return left != right;
  if (relation == "StrictLessThan") return left < right;
  if (relation == "LessThan") return left <= right;
  if (relation == "StrictGreaterThan") return left > right;
  if (relation == "GreaterThan") return left >= right;
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text, const SymbolValues& values) : rest_(text.data(), text.size()), values_(values) {}

  Size Parse() {
    const Size size = Expression(0);
    return rest_.empty() ? size : std::nullopt;
  }

  std::optional<bool> ParseRelation() {
    const auto relation = Until('(');
    const Size left = relation.has_value() ? Expression(0) : std::nullopt;
    const Size right = left.has_value() && absl::ConsumePrefix(&rest_, ", ") ? Expression(0) : std::nullopt;
    return right.has_value() && rest_ == ")" && AreNumbers({*left, *right})
               ? Compare({relation->data(), relation->size()}, left->factor, right->factor)
               : std::nullopt;
  }

 private:
  // Consumes the text up to and including the next `end`, and returns the text without `end`.
  std::optional<absl::string_view> Until(char end) {
    const size_t at = rest_.find(end);
    if (at == absl::string_view::npos) {
      return std::nullopt;
    }
    const absl::string_view piece = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return piece;
  }

  // NOLINTNEXTLINE(misc-no-recursion): bounded by kMaxNesting.
  Size Expression(int depth) {
    const auto function = Until('(');
    if (!function.has_value() || depth == kMaxNesting) {
      return std::nullopt;
    }
    if (*function == "Symbol") {
      return Symbol();
    }
    if (*function == "Integer") {
      const auto digits = Until(')');
      int64_t number = 0;
      return digits.has_value() && absl::SimpleAtoi(*digits, &number) ? Bounded(number) : std::nullopt;
    }
    Sizes sizes;
    do {
      const Size size = Expression(depth + 1);
      if (!size.has_value()) {
        return std::nullopt;
      }
      sizes.push_back(*size);
    } while (absl::ConsumePrefix(&rest_, ", "));
    return absl::ConsumePrefix(&rest_, ")") ? Apply({function->data(), function->size()}, sizes) : std::nullopt;
  }

  Size Symbol() {
    const auto name = absl::ConsumePrefix(&rest_, "'") ? Until('\'') : std::nullopt;
    if (!name.has_value() || name->empty() || !Until(')').has_value()) {
      return std::nullopt;
    }
    const auto found = values_.find(std::string(*name));
    return found == values_.end() ? Bounded(1, std::string(*name)) : Bounded(found->second);
  }

  absl::string_view rest_;
  const SymbolValues& values_;
};

}  // namespace

ExportedSize ParseSizeExpression(std::string_view text, const SymbolValues& values) {
  ExportedSize unknown;
  unknown.unknown = text;
  return Parser(text, values).Parse().value_or(unknown);
}

std::optional<bool> ParseSizeRelation(std::string_view text, const SymbolValues& values) {
  return Parser(text, values).ParseRelation();
}

}  // namespace ampd::graph
