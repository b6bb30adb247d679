#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "tests/parity/oracle.h"
#include "tests/worker/amp/two_branches.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::amp {

// Reads the model that oracle_stochastic_depth.py writes.
TwoBranches TwoBranchesOf(int64_t size, const std::array<double, 2>& probabilities) {
  const std::string archive = "two_branches.pt2";
  const std::string path = testing::TempDir() + archive;
  parity::RunOracle("oracle_stochastic_depth",
                    {path, absl::StrCat(size), absl::StrCat(probabilities[0]), absl::StrCat(probabilities[1])})
      .value();
  v1::ExportedModelSpec spec;
  spec.set_head(v1::ExportedModelSpec::REGRESSION);
  auto model = train::OpenImportedModel(spec, {testing::TempDir(), archive, "model"});
  std::filesystem::remove(path);
  return {model.value().train, model.value().eval};
}

}  // namespace ampd::amp
