#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// The values of symbols in a run. A symbol is the name of a size that the export left open.
using SymbolValues = std::map<std::string, int64_t>;

// Parses a size as torch.export writes it, in SymPy's printed form:
//
//   expression := symbol | "Integer(" number ")" | function "(" expression {", " expression} ")"
//   function   := "Add" | "Mul" | "Pow" | "Min" | "Max" | "FloorDiv" | "Mod"
//   symbol     := "Symbol('" name "'" {", " property} ")"
//
// `values` replaces symbols by numbers. Returns an integer, or an integer multiplied by one symbol without a value; any
// other expression is returned as `unknown`.
ExportedSize ParseSizeExpression(std::string_view text, const SymbolValues& values = {});

// Parses a program's assertion about its sizes, and returns whether it holds. The text is relation "(" expression ", "
// expression ")", with SymPy's names for relations, such as "Unequality". Nothing if the text has another form, or a
// symbol that has no value in `values`.
std::optional<bool> ParseSizeRelation(std::string_view text, const SymbolValues& values);

}  // namespace ampd::graph
