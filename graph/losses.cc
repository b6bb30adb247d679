#include "graph/losses.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/passes.h"

namespace ampd::graph {

std::vector<Loss> LossesOf(const Graph& model) {
  std::vector<Loss> losses;
  for (const Output& output : model.outputs()) {
    absl::string_view network = output.name;
    if (absl::ConsumeSuffix(&network, "_loss")) {
      losses.push_back({std::string(network), output.name, absl::StrCat(network, ".*")});
    }
  }
  return losses;
}

absl::StatusOr<Graph> TrainedGraph(const Graph& model) {
  return LossesOf(model).empty() ? WithLossHead(model) : absl::StatusOr<Graph>(model);
}

}  // namespace ampd::graph
