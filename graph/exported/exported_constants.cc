#include "graph/exported/exported_constants.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/exported/exported_json.h"

namespace ampd::graph {
namespace {

using nlohmann::json;

constexpr char kOwnSuffix[] = "@eval";

// Compares constants by content. Limits how many constants and bytes it compares (see OwnConstants in the header).
class Comparison {
 public:
  explicit Comparison(const ZipArchive& archive) : archive_(archive) {}

  // Whether the two constants are known to be equal. Returns false if their contents differ or were not compared.
  absl::StatusOr<bool> AreSame(const StoredTensor& a, const StoredTensor& b) {
    StoredTensor elsewhere = b;
    elsewhere.entry = a.entry;
    if (elsewhere != a || a.entry == b.entry) {
      return a == b;
    }
    const int64_t num_bytes = ReachOf(a) * ItemSizeBytes(a.dtype);
    if (num_left_ == 0 || num_bytes > bytes_left_) {
      return false;
    }
    --num_left_;
    bytes_left_ -= num_bytes;
    AMPD_ASSIGN_OR_RETURN(const std::string content, ReadStored(archive_, a));
    AMPD_ASSIGN_OR_RETURN(const std::string other, ReadStored(archive_, b));
    return content == other;
  }

 private:
  const ZipArchive& archive_;
  int num_left_ = 1024;
  int64_t bytes_left_ = int64_t{64} << 20;
};

}  // namespace

absl::StatusOr<std::string> OwnConstants(const ZipArchive& archive, std::string_view train, std::string_view eval) {
  json tables = {{kConstants, json::parse(train)}, {kEvalConstants, json::parse(eval)}};
  absl::Status status;
  const JsonCursor root(tables, status);
  std::map<std::string, StoredTensor> trains, evals;
  ReadStoredTensors(root[kConstants], kConstantsFolder, trains);
  ReadStoredTensors(root[kEvalConstants], kConstantsFolder, evals);
  if (!status.ok()) {
    return BadExport(std::string(status.message()));
  }
  json& own = tables[kEvalConstants];
  Comparison comparison(archive);
  for (const auto& [name, constant] : evals) {
    const auto other = trains.find(name);
    if (other != trains.end()) {
      AMPD_ASSIGN_OR_RETURN(const bool is_same, comparison.AreSame(other->second, constant));
      if (is_same) {
        own["config"].erase(name);
      }
    }
  }
  return own["config"].empty() ? "" : own.dump();
}

void UseOwnConstants(const JsonCursor& json, ExportedModel& model) {
  std::map<std::string, StoredTensor> own;
  ReadStoredTensors(json, kConstantsFolder, own, kOwnSuffix);
  std::set<std::string> used;
  for (ExportedInput& input : model.eval->inputs) {
    // Only constants are renamed. Buffers have the same name in both programs.
    const std::string name = input.name + kOwnSuffix;
    if (input.kind == ExportedInput::Kind::kConstant && own.contains(name)) {
      input.name = name;
      used.insert(name);
    }
  }
  std::erase_if(own, [&used](const auto& one) { return !used.contains(one.first); });
  model.state.merge(own);
  if (!own.empty()) {
    json.Fail(absl::StrCat("is to be called ", own.begin()->first, ", the name of another tensor"));
  }
}

std::vector<ExportedInput> ConstantsOfEvaluation(const ExportedModel& model) {
  std::set<std::string> trains;
  for (const ExportedInput& input : model.train.inputs) {
    trains.insert(input.name);
  }
  std::vector<ExportedInput> constants;
  if (model.eval.has_value()) {
    std::copy_if(model.eval->inputs.begin(), model.eval->inputs.end(), std::back_inserter(constants),
                 [&trains](const ExportedInput& input) {
                   return input.kind == ExportedInput::Kind::kConstant && !trains.contains(input.name);
                 });
  }
  return constants;
}

}  // namespace ampd::graph
