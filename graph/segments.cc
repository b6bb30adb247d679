#include "graph/segments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "graph/op_table.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

// The shortest leading part of a module's path that a glob matches, "h.0" of "h.0.attn" for "h.*"; empty: none.
std::string MatchingModule(const std::string& glob, const std::string& path) {
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    const std::string module = path.substr(0, end);
    if (!module.empty() && GlobMatches(glob, module)) {
      return module;
    }
    if (end == std::string::npos) {
      return "";
    }
  }
}

std::string SegmentFor(const std::vector<std::string>& globs, const std::string& path) {
  std::string outermost;
  for (const std::string& glob : globs) {
    const std::string module = MatchingModule(glob, path);
    if (!module.empty() && (outermost.empty() || module.size() < outermost.size())) {
      outermost = module;
    }
  }
  return outermost;
}

absl::Status CheckGlobs(const Graph& graph, const std::vector<std::string>& globs) {
  for (size_t i = 0; i < globs.size(); ++i) {
    if (std::none_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return !MatchingModule(globs[i], node.module_path).empty(); })) {
      return InvalidFields({{absl::StrCat("train.checkpoint_segments[", i, "]"),
                             absl::StrCat("\"", globs[i], "\" matches no module of ", graph.name())}});
    }
  }
  return absl::OkStatus();
}

// Values that nodes outside of [begin, end), or the graph's outputs, read.
std::set<ValueId> ReadOutside(const Graph& graph, size_t begin, size_t end) {
  std::set<ValueId> read;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (i < begin || i >= end) {
      const std::vector<ValueId> uses = graph.nodes()[i].Uses();
      read.insert(uses.begin(), uses.end());
    }
  }
  for (const Output& output : graph.outputs()) {
    read.insert(output.value);
  }
  return read;
}

void FindEnds(const Graph& graph, Segment& segment) {
  const std::set<ValueId> read_outside = ReadOutside(graph, segment.begin, segment.end);
  std::set<ValueId> own;
  std::set<ValueId> inputs;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    for (ValueId use : ForSecondRun(graph.nodes()[i]).Uses()) {
      if (!own.contains(use) && inputs.insert(use).second) {
        segment.inputs.push_back(use);
      }
    }
    for (ValueId output : graph.nodes()[i].outputs) {
      own.insert(output);
      if (read_outside.contains(output)) {
        segment.outputs.push_back(output);
      }
    }
  }
}

}  // namespace

std::vector<Segment> SegmentsOf(const Graph& graph) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<Segment> segments;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (segments.empty() || nodes[i].segment != nodes[i - 1].segment) {
      segments.push_back({.begin = i, .end = i, .recomputed = !nodes[i].segment.empty(), .inputs = {}, .outputs = {}});
    }
    segments.back().end = i + 1;
  }
  for (Segment& segment : segments) {
    if (segment.recomputed) {
      FindEnds(graph, segment);
    }
  }
  return segments;
}

Node ForSecondRun(Node node) {
  if (const OpRow* row = FindOp(node.op); row != nullptr) {
    for (std::string_view written : row->writes) {
      node.Set(written, std::monostate());
    }
  }
  return node;
}

absl::StatusOr<Graph> WithCheckpointSegments(const Graph& graph, const std::vector<std::string>& globs) {
  AMPD_RETURN_IF_ERROR(CheckGlobs(graph, globs));
  AMPD_ASSIGN_OR_RETURN(Graph result, WithoutInPlaceOps(graph));
  std::vector<Node> nodes = result.nodes();
  size_t last = 0;  // the last node that a module is known of
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].module_path.empty()) {
      continue;
    }
    nodes[i].segment = SegmentFor(globs, nodes[i].module_path);
    for (size_t between = last + 1; between < i && nodes[last].segment == nodes[i].segment; ++between) {
      nodes[between].segment = nodes[i].segment;
    }
    last = i;
  }
  result.SetNodes(std::move(nodes));
  return result;
}

}  // namespace ampd::graph
