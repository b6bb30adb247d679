#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace ampd::server {

// What the server needs to keep running: space on the disk of its data directory, and certificates that have not
// expired. Both are read at each scrape. Thread-safe.
class ResourceCollector final : public prometheus::Collectable {
 public:
  struct Options {
    std::string data_dir;
    // Files with certificates in PEM form, by the names that the metric gives them. Files without a path are skipped.
    std::vector<std::pair<std::string, std::string>> certificates;
  };
  explicit ResourceCollector(Options options) : options_(std::move(options)) {}

  // Leaves out what cannot be read.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Options options_;
};

}  // namespace ampd::server
