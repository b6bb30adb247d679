#include "graph/segments.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "graph/op_table.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

// Calls `visit` with each leading part of a module's path, the shortest first: "h", "h.0" and "h.0.attn" for
// "h.0.attn". Stops when `visit` returns true.
template <typename Visit>
void ForEachModuleAround(const std::string& path, const Visit& visit) {
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    const std::string module = path.substr(0, end);
    if ((!module.empty() && visit(module)) || end == std::string::npos) {
      return;
    }
  }
}

// The modules that nodes belong to, and all modules that contain them.
std::unordered_set<std::string> ModulesOf(const Graph& graph) {
  std::unordered_set<std::string> paths;
  std::unordered_set<std::string> modules;
  for (const Node& node : graph.nodes()) {
    if (paths.insert(node.module_path).second) {
      ForEachModuleAround(node.module_path, [&modules](const std::string& module) {
        modules.insert(module);
        return false;
      });
    }
  }
  return modules;
}

bool IsPattern(const std::string& glob) { return glob.find_first_of("*?[") != std::string::npos; }

// The modules that a glob matches. A glob without wildcards is looked up in the set and not compared with every module,
// because a job may name every layer.
std::vector<std::string> MatchedModules(const std::string& glob, const std::unordered_set<std::string>& modules) {
  std::vector<std::string> matched;
  if (IsPattern(glob)) {
    std::copy_if(modules.begin(), modules.end(), std::back_inserter(matched),
                 [&glob](const std::string& module) { return GlobMatches(glob, module); });
  } else if (modules.contains(glob)) {
    matched.push_back(glob);
  }
  return matched;
}

// The modules that the globs match. Each becomes a segment, unless a module that contains it does. INVALID_ARGUMENT if
// a glob matches none.
absl::StatusOr<std::unordered_set<std::string>> SegmentModules(const Graph& graph,
                                                               const std::vector<std::string>& globs) {
  const std::unordered_set<std::string> modules = ModulesOf(graph);
  std::unordered_set<std::string> segments;
  for (size_t i = 0; i < globs.size(); ++i) {
    const std::vector<std::string> matched = MatchedModules(globs[i], modules);
    if (matched.empty()) {
      return InvalidFields({{absl::StrCat("train.checkpoint_segments[", i, "]"),
                             absl::StrCat("\"", globs[i], "\" matches no module of ", graph.name())}});
    }
    segments.insert(matched.begin(), matched.end());
  }
  return segments;
}

// The outermost segment that contains a module; empty if there is none.
std::string SegmentFor(const std::unordered_set<std::string>& segments, const std::string& path) {
  std::string outermost;
  ForEachModuleAround(path, [&](const std::string& module) {
    outermost = segments.contains(module) ? module : "";
    return !outermost.empty();
  });
  return outermost;
}

// Returns, for each value, the index of the last node that reads it, plus 1. The number is 0 if nothing reads the
// value, and the number of nodes plus 1 for an output.
std::vector<size_t> LastReads(const Graph& graph, Work& work) {
  std::vector<size_t> last_reads(static_cast<size_t>(graph.num_values()), 0);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    work.Visit();
    for (const ValueId use : graph.nodes()[i].Uses()) {
      last_reads[static_cast<size_t>(use.index)] = i + 1;
    }
  }
  for (const Output& output : graph.outputs()) {
    last_reads[static_cast<size_t>(output.value.index)] = graph.nodes().size() + 1;
  }
  return last_reads;
}

// Finds the inputs and outputs of a segment. A value of the segment is an output if its last reader is a later node.
void FindEnds(const Graph& graph, const std::vector<size_t>& last_reads, Segment& segment, Work& work) {
  std::set<ValueId> own;
  std::set<ValueId> inputs;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    work.Visit();
    for (ValueId use : ForSecondRun(graph.nodes()[i]).Uses()) {
      if (!own.contains(use) && inputs.insert(use).second) {
        segment.inputs.push_back(use);
      }
    }
    for (ValueId output : graph.nodes()[i].outputs) {
      own.insert(output);
      if (last_reads[static_cast<size_t>(output.index)] > segment.end) {
        segment.outputs.push_back(output);
      }
    }
  }
}

}  // namespace

std::vector<Segment> SegmentsOf(const Graph& graph, Work* work) {
  Work uncounted;
  Work& counted = work == nullptr ? uncounted : *work;
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<Segment> segments;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (segments.empty() || nodes[i].segment != nodes[i - 1].segment) {
      segments.push_back({.begin = i, .end = i, .recomputed = !nodes[i].segment.empty(), .inputs = {}, .outputs = {}});
    }
    segments.back().end = i + 1;
  }
  const std::vector<size_t> last_reads = LastReads(graph, counted);
  for (Segment& segment : segments) {
    if (segment.recomputed) {
      FindEnds(graph, last_reads, segment, counted);
    }
  }
  return segments;
}

Node ForSecondRun(Node node) {
  if (const OpRow* row = FindOp(ComputedBy(node.op)); row != nullptr) {
    for (std::string_view written : row->writes) {
      node.Set(written, std::monostate());
    }
  }
  return node;
}

absl::StatusOr<Graph> WithCheckpointSegments(const Graph& graph, const std::vector<std::string>& globs) {
  AMPD_ASSIGN_OR_RETURN(const auto modules, SegmentModules(graph, globs));
  AMPD_ASSIGN_OR_RETURN(Graph result, WithoutInPlaceOps(graph));
  std::vector<Node> nodes = result.nodes();
  size_t last = 0;  // The last node with a known module.
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].segment.clear();
    if (nodes[i].module_path.empty()) {
      continue;
    }
    nodes[i].segment = SegmentFor(modules, nodes[i].module_path);
    for (size_t between = last + 1; between < i && nodes[last].segment == nodes[i].segment; ++between) {
      nodes[between].segment = nodes[i].segment;
    }
    last = i;
  }
  result.SetNodes(std::move(nodes));
  return result;
}

}  // namespace ampd::graph
