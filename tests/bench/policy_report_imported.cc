#include "tests/bench/policy_report_imported.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "ampd/v1/job_spec.pb.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "worker/train/checkpoint/tensor_file.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::bench {
namespace {

constexpr std::string_view kOther = "other.";
constexpr int64_t kMostBytes = int64_t{64} << 20;

amp::Batch BatchAt(const executor::TensorMap& tensors, int64_t index) {
  amp::Batch batch{tensors.at("images").select(0, index), tensors.at("labels").select(0, index)};
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kOther)) {
      batch.others[name.substr(kOther.size())] = tensor.select(0, index);
    }
  }
  return batch;
}

}  // namespace

absl::StatusOr<Network> ImportNetwork(const std::string& path, int num_batches) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const std::string name = std::filesystem::path(path).filename().string();
  AMPD_ASSIGN_OR_RETURN(train::ImportedModel model,
                        train::OpenImportedModel({}, {folder.string(), name + ".pt2", "model"}));
  AMPD_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path + ".safetensors", kMostBytes));
  AMPD_ASSIGN_OR_RETURN(const executor::TensorMap tensors, train::ReadTensors(bytes));
  if (!tensors.contains("images") || !tensors.contains("labels")) {
    return absl::InvalidArgumentError(path + ".safetensors has no batches");
  }
  Network network = {std::move(model.train), {}, std::move(model.eval), std::move(model.state)};
  for (int64_t i = 0; i < num_batches; ++i) {
    network.batches.push_back(BatchAt(tensors, i % tensors.at("labels").size(0)));
  }
  return network;
}

}  // namespace ampd::bench
