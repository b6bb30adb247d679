#include "data/array_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace ampd::data {
namespace {

constexpr int64_t kMaxChannels = 4;

struct ShapeLayout {
  int64_t channels = 1;
  int64_t inner = 1;  // Number of consecutive elements that belong to the same channel.
};

// Determines which elements belong to which channel: element number i belongs to channel i / inner % channels.
ShapeLayout ShapeLayoutOf(const std::vector<int64_t>& shape) {
  if (shape.size() == 4 && shape[1] <= kMaxChannels) {
    return {shape[1], shape[2] * shape[3]};
  }
  return {shape.size() == 4 && shape[3] <= kMaxChannels ? shape[3] : 1, 1};
}

// Adds the range of the finite elements to the report and, for each channel, their mean and standard deviation.
void ReportElements(const Array& array, v1::DatasetArray& report) {
  if (array.bytes.empty()) {
    return;  // The array is empty, but its other dimensions may be huge.
  }
  const ShapeLayout layout = ShapeLayoutOf(array.shape);
  std::vector<double> mean(layout.channels, 0);
  std::vector<double> squares(layout.channels, 0);  // Squared distances from the mean (Welford's method).
  std::vector<int64_t> count(layout.channels, 0);
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  int64_t place = 0;
  int64_t num_not_finite = 0;
  ForEachElement(array, [&](auto element) {
    const auto value = static_cast<double>(element);
    const int64_t channel = place++ / layout.inner % layout.channels;
    if (!std::isfinite(static_cast<float>(value))) {  // Jobs convert all floating-point numbers to float32.
      ++num_not_finite;
      return;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    const double distance = value - mean[channel];
    mean[channel] += distance / static_cast<double>(++count[channel]);
    squares[channel] += distance * (value - mean[channel]);
  });
  report.set_num_not_finite(num_not_finite);
  if (least <= most) {
    report.set_min(least);
    report.set_max(most);
  }
  const double scale = array.type == ElementType::kUint8 ? 1.0 / 255 : 1;
  for (int64_t i = 0; i < layout.channels && array.shape.size() >= 2 && array.shape.size() <= 4; ++i) {
    report.add_mean(mean[i] * scale);
    report.add_std(count[i] == 0 ? 0 : std::sqrt(squares[i] / static_cast<double>(count[i])) * scale);
  }
}

bool CanBeLabels(const Array& array, const v1::DatasetArray& report) {
  const bool is_list = array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
  return is_list && IsInteger(array.type) && report.has_min() && report.min() >= 0 &&
         report.max() < kMostCountedClasses;
}

}  // namespace

v1::DatasetArray ReportArray(const std::string& name, const Array& array) {
  v1::DatasetArray report;
  report.set_name(name);
  report.set_dtype(ElementName(array.type));
  report.mutable_shape()->Add(array.shape.begin(), array.shape.end());
  ReportElements(array, report);
  if (CanBeLabels(array, report)) {
    report.clear_mean();
    report.clear_std();
    report.mutable_class_counts()->Resize(static_cast<int>(report.max()) + 1, 0);
    ForEachElement(array, [&](auto label) {
      int64_t& count = report.mutable_class_counts()->at(static_cast<int>(label));
      ++count;
    });
  }
  return report;
}

}  // namespace ampd::data
