#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// The values of symbols in a run. A symbol is the name of a size that the export left open.
using SymbolValues = std::map<std::string, int64_t>;

// Parses a size as torch.export writes it, in SymPy's printed form:
//
//   expression := symbol | "Integer(" number ")" | function "(" expression {", " expression} ")"
//   function   := "Add" | "Mul" | "Pow" | "PowByNatural" | "Min" | "Max" | "FloorDiv" | "CleanDiv" | "Mod" |
//   "PythonMod" symbol     := "Symbol('" name "'" {", " property} ")"
//
// FloorDiv rounds down, and the result of PythonMod has the sign of its divisor, as in Python (torch/utils/_sympy).
// `values` replaces symbols by numbers. Returns an integer, or an integer multiplied by one symbol without a value; any
// other expression is returned as `unknown`.
ExportedSize ParseSizeExpression(std::string_view text, const SymbolValues& values = {});

enum class SizeOrder { kEqual, kUnequal, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

// A comparison of two sizes, in which each side is a number or a multiple of a symbol without a value.
struct SizeRelation {
  ExportedSize left;
  SizeOrder order = SizeOrder::kEqual;
  ExportedSize right;
};

// Parses a program's assertion about its sizes. The text is relation "(" expression ", " expression ")", with SymPy's
// names for relations, such as "Unequality". Nothing if the text has another form.
std::optional<SizeRelation> ParseSizeRelation(std::string_view text, const SymbolValues& values);

// Returns whether the assertion holds. Nothing if it is not known: the text has another form, or a symbol that has no
// value in `values`.
std::optional<bool> HoldsFor(std::string_view text, const SymbolValues& values);

// The least and the largest number that a symbol may have, both ends included; nothing for an end that is not bounded.
struct SizeBounds {
  std::optional<int64_t> least;
  std::optional<int64_t> most;
};

// Returns the bounds of the symbol under which the relation holds. Has no bounds if the relation does not compare a
// positive multiple of the symbol with a number.
SizeBounds BoundsOf(const SizeRelation& relation, const std::string& symbol);

// The names of all symbols in an expression or a relation.
std::set<std::string> SymbolsIn(std::string_view text);

}  // namespace ampd::graph
