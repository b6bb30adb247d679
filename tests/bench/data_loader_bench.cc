// Measures LibTorch's C++ DataLoader on the files of data_bench: MNIST through LibTorch's own dataset, and windows of
// tokens.
//
//   data_loader_bench idx|tokens FOLDER WORKERS   reads with WORKERS threads; answers the same lines on stdin as
//                                                 `data_bench epochs`

#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/samplers/random.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace data = torch::data;

// The constants below have the same values as in tools/bench/data_loading.py and data_bench.
constexpr size_t kImagesABatch = 250;
constexpr size_t kWindowsABatch = 32;
constexpr int64_t kWindowTokens = 256;
constexpr double kMean = 0.286;
constexpr double kDeviation = 0.353;

// A dataset of windows of tokens. The tokens are below 32768, so they can be read as int16.
class Windows : public data::datasets::Dataset<Windows> {
 public:
  explicit Windows(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    tokens_ = torch::empty({static_cast<int64_t>(bytes.size() / sizeof(int16_t))}, torch::kShort);
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tokens_.data_ptr()));
  }

  data::Example<> get(size_t index) override {
    const int64_t begin = static_cast<int64_t>(index) * kWindowTokens;
    return {tokens_.narrow(0, begin, kWindowTokens).to(torch::kLong),
            tokens_.narrow(0, begin + 1, kWindowTokens).to(torch::kLong)};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>((tokens_.numel() - 1) / kWindowTokens); }

 private:
  torch::Tensor tokens_;
};

template <typename Loader>
void Answer(Loader& loader) {
  for (std::string line; std::getline(std::cin, line);) {
    const bool checks = line == "check";
    double samples = 0;
    double labels = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const data::Example<>& batch : loader) {
      if (checks) {
        samples += batch.data.sum(torch::kDouble).template item<double>();
        labels += batch.target.sum(torch::kDouble).template item<double>();
      }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    checks ? std::printf("%.9g %.9g\n", samples, labels) : std::printf("%.9f\n", seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc == 4 ? argv[1] : "";
  if (kind != "idx" && kind != "tokens") {
    std::fprintf(stderr, "usage: data_loader_bench idx|tokens FOLDER WORKERS\n");
    return 2;
  }
  const std::string folder = argv[2];
  const auto options = data::DataLoaderOptions(kind == "idx" ? kImagesABatch : kWindowsABatch)
                           .workers(static_cast<size_t>(std::atoi(argv[3])))
                           .drop_last(true);
  if (kind == "idx") {
    auto images = data::datasets::MNIST(folder)
                      .map(data::transforms::Normalize<>(kMean, kDeviation))
                      .map(data::transforms::Stack<>());
    const auto loader = data::make_data_loader<data::samplers::RandomSampler>(std::move(images), options);
    Answer(*loader);
  } else {
    auto windows = Windows(folder + "/tokens.bin").map(data::transforms::Stack<>());
    const auto loader = data::make_data_loader<data::samplers::RandomSampler>(std::move(windows), options);
    Answer(*loader);
  }
  return 0;
}
