#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// What sizes that the export left open are in a run, by their symbols.
using SymbolValues = std::map<std::string, int64_t>;

// A size as torch.export spells it, which is how SymPy prints an expression for a machine to read:
//
//   expression := symbol | "Integer(" number ")" | function "(" expression {", " expression} ")"
//   function   := "Add" | "Mul" | "Pow" | "Min" | "Max" | "FloorDiv" | "Mod"
//   symbol     := "Symbol('" name "'" {", " property} ")"
//
// A whole number, or one times one symbol of unknown value; anything else comes back as `unknown`. What it is without
// `values`, it may be a number with them.
ExportedSize ParseSizeExpression(std::string_view text, const SymbolValues& values = {});

// Whether what a program asserts of its sizes holds: relation "(" expression ", " expression ")" of two numbers, by
// SymPy's names, "Unequality(...)". Nothing for one that is of another form or has a symbol of unknown value.
std::optional<bool> ParseSizeRelation(std::string_view text, const SymbolValues& values);

}  // namespace ampd::graph
