#include "data/text_report.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/array_report.h"
#include "data/jsonl.h"

namespace ampd::data {
namespace {

struct Range {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();

  void Add(int64_t number) {
    least = std::min(least, number);
    most = std::max(most, number);
  }
};

// Collects statistics of texts that are added one by one.
class TextCounts {
 public:
  void Add(const TextLine& text) {
    const auto length = static_cast<int64_t>(text.tokens.size());
    ++num_texts_;
    num_tokens_ += length;
    lengths_.Add(length);
    for (const int64_t token : text.tokens) {
      tokens_.Add(token);
    }
    AddTypes(text.types);
    if (text.label.has_value()) {
      AddLabel(*text.label);
    } else if (first_without_label_ == 0) {
      first_without_label_ = num_texts_;
    }
  }

  // The number of the first text without a label, from 1, if other texts have one; otherwise 0.
  int64_t FirstThatLacksItsLabel() const { return has_labels_ ? first_without_label_ : 0; }

  // Describes the texts added so far. REQUIRES: at least one text was added.
  std::vector<v1::DatasetArray> Report() const {
    std::vector<v1::DatasetArray> arrays = {TextArray("input_ids", tokens_)};
    if (has_labels_) {
      arrays.push_back(NumberArray("labels", labels_));
      if (labels_.most < kMostCountedClasses) {
        arrays[1].mutable_class_counts()->Add(class_counts_.begin(), class_counts_.end());
      }
    }
    if (has_types_) {
      arrays.push_back(TextArray("token_type_ids", types_));
    }
    return arrays;
  }

 private:
  void AddTypes(const std::vector<int64_t>& types) {
    has_types_ = has_types_ || !types.empty();
    if (types.empty()) {
      types_.Add(0);
    }
    for (const int64_t type : types) {
      types_.Add(type);
    }
  }

  void AddLabel(int64_t label) {
    has_labels_ = true;
    labels_.Add(label);
    if (label < kMostCountedClasses) {
      class_counts_.resize(std::max(class_counts_.size(), static_cast<size_t>(label) + 1));
      ++class_counts_[static_cast<size_t>(label)];
    }
  }

  v1::DatasetArray NumberArray(const std::string& name, const Range& range) const {
    v1::DatasetArray array;
    array.set_name(name);
    array.set_dtype("int64");
    array.add_shape(num_texts_);
    array.set_min(static_cast<double>(range.least));
    array.set_max(static_cast<double>(range.most));
    return array;
  }

  v1::DatasetArray TextArray(const std::string& name, const Range& range) const {
    v1::DatasetArray array = NumberArray(name, range);
    array.mutable_lengths()->set_min(lengths_.least);
    array.mutable_lengths()->set_max(lengths_.most);
    array.mutable_lengths()->set_mean(static_cast<double>(num_tokens_) / static_cast<double>(num_texts_));
    return array;
  }

  int64_t num_texts_ = 0;
  int64_t num_tokens_ = 0;
  bool has_types_ = false;
  bool has_labels_ = false;
  int64_t first_without_label_ = 0;  // Number of the text, from 1; 0: none.
  Range lengths_;
  Range tokens_;
  Range types_;
  Range labels_;
  std::vector<int64_t> class_counts_;  // Counts for labels below kMostCountedClasses.
};

}  // namespace

absl::StatusOr<std::vector<v1::DatasetArray>> ReportTexts(const DataFile& file) {
  TextCounts counts;
  AMPD_RETURN_IF_ERROR(ForEachText(file, {.needs_labels = false}, [&counts](const TextLine& text) {
    counts.Add(text);
    return absl::OkStatus();
  }));
  // Each text is a line. The words are those of ForEachText for a job that needs labels.
  if (const int64_t line = counts.FirstThatLacksItsLabel(); line > 0) {
    return DataError(file.name, absl::StrCat("line ", line, ": label is missing"));
  }
  return counts.Report();
}

}  // namespace ampd::data
