#include "graph/exported/size_expression.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ampd::graph {
namespace {

constexpr int kMaxNesting = 32;
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

// The quotient, rounded down as in Python.
int64_t Floor(int64_t dividend, int64_t divisor) {
  const bool rounds_up = dividend % divisor != 0 && (dividend < 0) != (divisor < 0);
  return dividend / divisor - (rounds_up ? 1 : 0);
}

Size FloorQuotient(const Sizes& sizes) {
  const bool is_whole = sizes.size() == 2 && AreNumbers(sizes) && sizes[1].factor != 0;
  return is_whole ? Bounded(Floor(sizes[0].factor, sizes[1].factor)) : std::nullopt;
}

// The remainder of the quotient that is rounded down: it has the sign of the divisor, as in Python.
Size PythonRemainder(const Sizes& sizes) {
  const Size quotient = FloorQuotient(sizes);
  return quotient.has_value() ? Bounded(sizes[0].factor - quotient->factor * sizes[1].factor) : std::nullopt;
}

// torch writes this function only for numbers of which neither is negative.
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
  if (function == "Pow" || function == "PowByNatural") return Power(sizes);
  if (function == "FloorDiv" || function == "CleanDiv") return FloorQuotient(sizes);
  if (function == "PythonMod") return PythonRemainder(sizes);
  if (function == "Mod") return Remainder(sizes);
  if (function == "Min" || function == "Max") return Extreme(sizes, function == "Max");
  return std::nullopt;
}

std::optional<SizeOrder> OrderNamed(std::string_view relation) {
  if (relation == "Equality") return SizeOrder::kEqual;
  if (relation == "Unequality") return SizeOrder::kUnequal;
  if (relation == "StrictLessThan") return SizeOrder::kLess;
  if (relation == "LessThan") return SizeOrder::kLessOrEqual;
  if (relation == "StrictGreaterThan") return SizeOrder::kGreater;
  if (relation == "GreaterThan") return SizeOrder::kGreaterOrEqual;
  return std::nullopt;
}

bool Holds(int64_t left, SizeOrder order, int64_t right) {
  switch (order) {
    case SizeOrder::kEqual:
      return left == right;
    case SizeOrder::kUnequal:
      return left != right;
    case SizeOrder::kLess:
      return left < right;
    case SizeOrder::kLessOrEqual:
      return left <= right;
    case SizeOrder::kGreater:
      return left > right;
    case SizeOrder::kGreaterOrEqual:
      return left >= right;
  }
  return false;
}

// The order of `right` and `left`, if this is the order of `left` and `right`.
SizeOrder Turned(SizeOrder order) {
  switch (order) {
    case SizeOrder::kLess:
      return SizeOrder::kGreater;
    case SizeOrder::kLessOrEqual:
      return SizeOrder::kGreaterOrEqual;
    case SizeOrder::kGreater:
      return SizeOrder::kLess;
    case SizeOrder::kGreaterOrEqual:
      return SizeOrder::kLessOrEqual;
    default:
      return order;
  }
}

class Parser {
 public:
  Parser(std::string_view text, const SymbolValues& values) : rest_(text.data(), text.size()), values_(values) {}

  Size Parse() {
    const Size size = Expression(0);
    return rest_.empty() ? size : std::nullopt;
  }

  std::optional<SizeRelation> ParseRelation() {
    const auto name = Until('(');
    const auto order = name.has_value() ? OrderNamed({name->data(), name->size()}) : std::nullopt;
    const Size left = order.has_value() ? Expression(0) : std::nullopt;
    const Size right = left.has_value() && absl::ConsumePrefix(&rest_, ", ") ? Expression(0) : std::nullopt;
    return right.has_value() && rest_ == ")" ? std::optional(SizeRelation{*left, *order, *right}) : std::nullopt;
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

std::optional<SizeRelation> ParseSizeRelation(std::string_view text, const SymbolValues& values) {
  return Parser(text, values).ParseRelation();
}

std::optional<bool> HoldsFor(std::string_view text, const SymbolValues& values) {
  const auto relation = ParseSizeRelation(text, values);
  return relation.has_value() && AreNumbers({relation->left, relation->right})
             ? std::optional(Holds(relation->left.factor, relation->order, relation->right.factor))
             : std::nullopt;
}

SizeBounds BoundsOf(const SizeRelation& relation, const std::string& symbol) {
  const bool is_turned = relation.right.symbol == symbol;
  const ExportedSize& size = is_turned ? relation.right : relation.left;
  const ExportedSize& number = is_turned ? relation.left : relation.right;
  if (size.symbol != symbol || size.factor < 1 || !number.symbol.empty()) {
    return {};
  }
  const int64_t down = Floor(number.factor, size.factor);
  const int64_t up = -Floor(-number.factor, size.factor);
  switch (is_turned ? Turned(relation.order) : relation.order) {
    case SizeOrder::kEqual:
      return {up, down};
    case SizeOrder::kUnequal:
      return {};
    case SizeOrder::kLess:
      return {std::nullopt, up - 1};
    case SizeOrder::kLessOrEqual:
      return {std::nullopt, down};
    case SizeOrder::kGreater:
      return {down + 1, std::nullopt};
    case SizeOrder::kGreaterOrEqual:
      return {up, std::nullopt};
  }
  return {};
}

std::set<std::string> SymbolsIn(std::string_view text) {
  constexpr std::string_view kStart = "Symbol('";
  std::set<std::string> symbols;
  for (size_t at = text.find(kStart); at != std::string_view::npos; at = text.find(kStart, at + 1)) {
    const std::string_view name = text.substr(at + kStart.size());
    symbols.emplace(name.substr(0, name.find('\'')));
  }
  return symbols;
}

}  // namespace ampd::graph
