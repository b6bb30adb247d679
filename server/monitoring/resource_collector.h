#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace ampd::server {

// Metrics about what the server needs to keep running: space on the disk of its data directory, and certificates that
// have not expired. Each scrape reads both again. Thread-safe.
class ResourceCollector final : public prometheus::Collectable {
 public:
  struct Options {
    std::string data_dir;
    // The names that the metric gives to certificates, each with the path of a file in PEM form. Empty paths are
    // skipped.
    std::vector<std::pair<std::string, std::string>> certificates;
  };
  explicit ResourceCollector(Options options) : options_(std::move(options)) {}

  // Returns the metrics. Leaves out those that cannot be read.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Options options_;
};

}  // namespace ampd::server
