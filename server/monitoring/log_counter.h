#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <spdlog/sinks/sink.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ampd::server {

// Counts a logger's messages by level for ampd_log_messages_total. It is an additional sink of the logger and writes no
// messages itself. Messages below the logger's own level are not counted. Thread-safe.
class LogCounter final : public spdlog::sinks::sink, public prometheus::Collectable {
 public:
  void log(const spdlog::details::log_msg& message) override { ++counts_[message.level]; }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families(1);
    families[0].name = "ampd_log_messages_total";
    families[0].help = "Messages logged.";
    families[0].type = prometheus::MetricType::Counter;
    for (const auto level : {spdlog::level::trace, spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                             spdlog::level::err, spdlog::level::critical}) {
      const auto name = spdlog::level::to_string_view(level);
      prometheus::ClientMetric& metric = families[0].metric.emplace_back();
      metric.label.push_back({"level", std::string(name.data(), name.size())});
      metric.counter.value = static_cast<double>(counts_[level]);
    }
    return families;
  }

 private:
  std::array<std::atomic<int64_t>, spdlog::level::n_levels> counts_ = {};
};

}  // namespace ampd::server
