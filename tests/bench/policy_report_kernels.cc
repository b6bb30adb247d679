#include "tests/bench/policy_report_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "torch/csrc/autograd/profiler_kineto.h"

namespace ampd::bench {
namespace {

using nlohmann::ordered_json;
using torch::profiler::impl::ActivityType;

constexpr size_t kMostNames = 60;
constexpr size_t kMostNameBytes = 160;  // The names of template kernels can have thousands of bytes.

struct Total {
  int64_t count = 0;
  uint64_t nanoseconds = 0;
};

std::vector<std::pair<std::string, Total>> LongestFirst(const std::map<std::string, Total>& totals) {
  std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  sorted.resize(std::min(sorted.size(), kMostNames));
  return sorted;
}

}  // namespace

ordered_json TimeByKernel(c10::Device device, const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) {
    activities.insert(ActivityType::CUDA);
  }
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  const std::unique_ptr<profiler::ProfilerResult> result = profiler::disableProfiler();
  std::map<std::string, Total> totals;
  for (const profiler::KinetoEvent& event : result->events()) {
    if (event.deviceType() == device.type()) {
      Total& total = totals[event.name().substr(0, kMostNameBytes)];
      ++total.count;
      total.nanoseconds += event.durationNs();
    }
  }
  ordered_json list = ordered_json::array();
  for (const auto& [name, total] : LongestFirst(totals)) {
    list.push_back(
        {{"name", name}, {"count", total.count}, {"milliseconds", static_cast<double>(total.nanoseconds) / 1e6}});
  }
  return list;
}

}  // namespace ampd::bench
