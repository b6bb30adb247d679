#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// Maps names of a program's inputs to their names in the graph.
using InputNames = std::map<std::string, std::string>;

// The graph's name for one of a program's own inputs. REQUIRES: the input has the kind kUser.
std::string InputNameOf(const ExportedProgram& program, const ExportedInput& input, const InputNames& inputs);

// Whether an input of the graph with this name takes the samples themselves, which are images or texts.
bool HoldsSamples(std::string_view name);

}  // namespace ampd::graph
