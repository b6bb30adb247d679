#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// For each symbol, the name of a size that the export left open, its value in a run.
using SymbolValues = std::map<std::string, int64_t>;

// A size as torch.export writes it, in SymPy's printed form:
//
//   expression := symbol | "Integer(" number ")" | function "(" expression {", " expression} ")"
//   function   := "Add" | "Mul" | "Pow" | "Min" | "Max" | "FloorDiv" | "Mod"
//   symbol     := "Symbol('" name "'" {", " property} ")"
//
// Returns an integer, or an integer multiplied by one symbol of unknown value; anything else is returned as `unknown`.
// An expression that is unknown without `values` may be an integer with them.
ExportedSize ParseSizeExpression(std::string_view text, const SymbolValues& values = {});

// Whether a program's assertion about its sizes holds: relation "(" expression ", " expression ")" of two numbers, with
// SymPy's names, "Unequality(...)". Nothing if it has another form or a symbol of unknown value.
std::optional<bool> ParseSizeRelation(std::string_view text, const SymbolValues& values);

}  // namespace ampd::graph
