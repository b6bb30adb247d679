#include "graph/einsum/einsum_equation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace ampd::graph {
namespace {

constexpr char kEllipsis = '.';
constexpr size_t kMaxPlaces = 64;  // LibTorch has the same limit.

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// Returns the labels of one operand or of the result, one letter each. A '.' stands for "...".
absl::StatusOr<std::string> LabelsOf(absl::string_view text) {
  std::string labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') {
      continue;
    }
    if (text.substr(i, 3) == "...") {
      i += 2;
    } else if (!absl::ascii_isalpha(static_cast<unsigned char>(text[i]))) {
      return Wrong("its equation has something else than letters, commas, \"...\" and \"->\"");
    }
    labels.push_back(text[i]);
  }
  if (std::count(labels.begin(), labels.end(), kEllipsis) > 1) {
    return Wrong("its equation has \"...\" twice in one place");
  }
  return labels;
}

// The labels of the result: those written after "->", or by default the letters that occur once, in alphabetical order.
absl::StatusOr<std::string> ResultOf(absl::string_view written, bool is_given, const std::map<char, int>& counts) {
  if (is_given) {
    AMPD_ASSIGN_OR_RETURN(const std::string labels, LabelsOf(written));
    for (const char label : labels) {
      const bool is_known = label == kEllipsis || counts.contains(label);
      if (!is_known || std::count(labels.begin(), labels.end(), label) > 1) {
        return Wrong("its result has a letter twice, or one that no operand has");
      }
    }
    return labels;
  }
  std::string labels(1, kEllipsis);
  for (const auto& [label, count] : counts) {
    if (count == 1 && label != kEllipsis) {
      labels.push_back(label);
    }
  }
  return labels;
}

// Assigns places (dimensions of the whole einsum) to labels in the order of their first occurrence. "..." gets as many
// places as the largest number of dimensions that it covers in an operand.
class Places {
 public:
  explicit Places(size_t num_covered) : num_covered_(num_covered) {}

  void Add(char label) {
    if (first_.try_emplace(label, num_places_).second) {
      num_places_ += label == kEllipsis ? num_covered_ : 1;
    }
  }
  size_t num_places() const { return num_places_; }

  std::vector<size_t> Of(const std::string& labels, size_t rank) const {
    std::vector<size_t> places;
    for (const char label : labels) {
      const size_t first = first_.at(label);
      if (label != kEllipsis) {
        places.push_back(first);
        continue;
      }
      const size_t num_dims = rank - (labels.size() - 1);
      for (size_t i = num_covered_ - num_dims; i < num_covered_; ++i) {
        places.push_back(first + i);
      }
    }
    return places;
  }

 private:
  const size_t num_covered_;
  std::map<char, size_t> first_;
  size_t num_places_ = 0;
};

absl::StatusOr<std::vector<std::string>> OperandsOf(absl::string_view text, const std::vector<size_t>& ranks) {
  std::vector<std::string> operands;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    AMPD_ASSIGN_OR_RETURN(operands.emplace_back(), LabelsOf(part));
  }
  if (operands.size() != ranks.size()) {
    return Wrong(absl::StrCat("its equation is of ", operands.size(), " operands; it has ", ranks.size()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool covers = operands[i].find(kEllipsis) != std::string::npos;
    const size_t num_letters = operands[i].size() - (covers ? 1 : 0);
    if (covers ? num_letters > ranks[i] : num_letters != ranks[i]) {
      return Wrong(absl::StrCat("its operand ", i, " has ", ranks[i], " dimensions; its equation names ", num_letters));
    }
  }
  return operands;
}

}  // namespace

absl::StatusOr<EinsumEquation> ParseEinsum(std::string_view equation, const std::vector<size_t>& ranks) {
  const absl::string_view text(equation.data(), equation.size());
  const size_t arrow = text.find("->");
  const bool is_given = arrow != absl::string_view::npos;
  AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> operands, OperandsOf(text.substr(0, arrow), ranks));
  std::map<char, int> counts;
  size_t num_covered = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const char label : operands[i]) {
      ++counts[label];
      num_covered = label == kEllipsis ? std::max(num_covered, ranks[i] - (operands[i].size() - 1)) : num_covered;
    }
  }
  AMPD_ASSIGN_OR_RETURN(const std::string result,
                        ResultOf(is_given ? text.substr(arrow + 2) : absl::string_view(), is_given, counts));
  Places places(num_covered);
  std::for_each(result.begin(), result.end(), [&](char label) { places.Add(label); });
  EinsumEquation parsed;
  parsed.num_results = places.num_places();
  if (counts.contains(kEllipsis)) {
    places.Add(kEllipsis);
  }
  for (const auto& [label, count] : counts) {
    places.Add(label);
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    parsed.operands.push_back(places.Of(operands[i], ranks[i]));
  }
  parsed.num_places = places.num_places();
  if (parsed.num_places > kMaxPlaces) {
    return Wrong(absl::StrCat("its equation has more than ", kMaxPlaces, " dimensions"));
  }
  return parsed;
}

}  // namespace ampd::graph
