#include "graph/exported/exported_twin.h"

#include "absl/strings/str_cat.h"

namespace ampd::graph {
namespace {

constexpr char kTwinFormat[] = "ampd.bf16_twin";
constexpr int64_t kTwinVersion = 1;
constexpr size_t kMaxTwinTensors = 100'000;

std::set<std::string> ReadTensors(const JsonCursor& json) {
  std::set<std::string> tensors;
  for (const JsonCursor& one : json.List(kMaxTwinTensors)) {
    if (!tensors.insert(one.Text()).second) {
      one.Fail("is there twice");
    }
  }
  return tensors;
}

}  // namespace

TwinTensors ReadTwin(const JsonCursor& json, const std::string& program) {
  if (json["format"].Text() != kTwinFormat || json["version"].Integer() != kTwinVersion) {
    json["format"].Fail(absl::StrCat("is not ", kTwinFormat, ", version ", kTwinVersion));
  }
  const JsonCursor of_program = json["programs"][program];
  return {ReadTensors(of_program["meant"]), ReadTensors(of_program["follows"])};
}

absl::Status MarkNamedDtypes(const TwinTensors& twin, ExportedGraph& graph) {
  std::set<std::string> unknown = twin.meant;
  for (const std::string& tensor : twin.follows) {
    if (!unknown.insert(tensor).second) {
      return BadExport(
          absl::StrCat("the bfloat16 twin says of ", tensor, " that its dtype is meant, and that it follows"));
    }
  }
  for (ExportedNode& node : graph.nodes) {
    const std::string tensor = node.tensors.size() == 1 ? node.tensors[0] : "";
    const auto type = graph.tensors.find(tensor);
    if (type != graph.tensors.end() && type->second.dtype == Dtype::kFloat32 && unknown.erase(tensor) > 0) {
      node.named_dtype = twin.meant.contains(tensor) ? NamedDtype::kMeant : NamedDtype::kFollows;
    }
  }
  return unknown.empty() ? absl::OkStatus()
                         : BadExport(absl::StrCat("the bfloat16 twin names ", *unknown.begin(),
                                                  ", which is no float32 tensor that a node of the program gives"));
}

}  // namespace ampd::graph
