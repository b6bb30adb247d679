// Measures how long the server takes to compute the answer to an EstimateJob request, without the RPC.
//
//   estimate_bench NETWORK ROUNDS
//
// NETWORK is lenet, resnet50, gpt2 or gpt2-xl. Prints one line of medians over the rounds:
//   {"network","nodes","one_ms","all_ms","candidates"}
// one_ms is the time for a job in bf16 on a GPU. all_ms is the time for a job that may run in every format on a CPU or
// GPU with a given amount of memory; its answer also has the largest batch size.

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "graph/passes.h"
#include "models/models.h"
#include "server/admission/memory_query.h"

namespace ampd {
namespace {

constexpr char kImages[] = "train {synthetic {shape: 3 shape: 224 shape: 224 num_classes: 1000 num_samples: 64}}";
constexpr char kDigits[] = "train {synthetic {shape: 1 shape: 28 shape: 28 num_classes: 10 num_samples: 64}}";
constexpr char kText[] = "train {tokens {path: 'text/x' sequence_length: 1024}}";

std::string Job(const std::string& model, const std::string& samples) {
  return absl::StrCat(model, " data {", samples, " batch_size: 8}");
}

v1::EstimateJobRequest Request(const std::string& text) {
  v1::EstimateJobRequest request;
  if (!google::protobuf::TextFormat::ParseFromString(
          absl::StrCat("name: 'bench' optimizer {adamw {learning_rate: 0.1}} train {steps: 10} ", text),
          request.mutable_spec())) {
    std::exit(1);
  }
  return request;
}

// Returns the median time in milliseconds to answer the request. Sets `num_candidates` to the number of candidates in
// the answer.
double MedianTime(const v1::EstimateJobRequest& request, int rounds, int* num_candidates) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const absl::Time begin = absl::Now();
    const auto answer = server::AnswerMemoryQuery(request, {});
    times.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
    if (!answer.ok()) {
      std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
      std::exit(1);
    }
    *num_candidates = answer->candidates_size();
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds / 2)];
}

int Main(const std::string& network, int rounds) {
  const std::map<std::string, std::string> networks = {{"lenet", Job("model {lenet {num_classes: 10}}", kDigits)},
                                                       {"resnet50", Job("model {resnet {depth: 50}}", kImages)},
                                                       {"gpt2", Job("model {gpt2 {}}", kText)},
                                                       {"gpt2-xl", Job("model {gpt2 {size: XL}}", kText)}};
  const auto found = networks.find(network);
  if (found == networks.end()) {
    return 2;
  }
  const v1::EstimateJobRequest one = Request(found->second + " precision {preset: 'bf16'} resources {kind: GPU}");
  const v1::EstimateJobRequest all =
      Request(found->second + " precision {prefer: 'bf16' prefer: 'fp16' prefer: 'tf32' prefer: 'fp32'}" +
              " resources {memory_bytes: 85899345920}");
  const auto model = models::BuildModel(one.spec());
  if (!model.ok()) {
    return 1;
  }
  int num_candidates = 0;
  const double one_ms = MedianTime(one, rounds, &num_candidates);
  const double all_ms = MedianTime(all, rounds, &num_candidates);
  std::printf(R"({"network": "%s", "nodes": %zu, "one_ms": %.2f, "all_ms": %.2f, "candidates": %d})"
              "\n",
              network.c_str(), model->nodes().size(), one_ms, all_ms, num_candidates);
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) {
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: estimate_bench lenet|resnet50|gpt2|gpt2-xl ROUNDS\n");
    return 2;
  }
  return ampd::Main(argv[1], rounds);
}
