#pragma once

#include <string_view>

#include "graph/exported_program.h"

namespace ampd::graph {

// A size as torch.export spells it, which is how SymPy prints an expression for a machine to read:
//
//   expression := symbol | "Integer(" number ")" | "Mul(" expression {", " expression} ")"
//   symbol     := "Symbol('" name "'" {", " property} ")"
//
// A product of numbers and at most one symbol; anything else comes back as `unknown`.
ExportedSize ParseSizeExpression(std::string_view text);

}  // namespace ampd::graph
