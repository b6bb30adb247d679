#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"

namespace ampd::server {

// The filter of ListJobs: a condition on jobs, parsed from a text. ListJobsRequest.filter describes the language for
// its users. Its grammar, with blanks between the tokens:
//
//   filter = either
//   either = both { "OR" both }
//   both   = factor { "AND" factor }
//   factor = { "NOT" } ( "(" either ")" | term )
//   term   = COLUMN ( "=" | "==" | "!=" ) VALUE
//
// Immutable.
class JobFilter {
 public:
  // Makes a filter that every job matches.
  JobFilter() = default;
  // Parses a filter. INVALID_ARGUMENT names the position in the text, and what is expected there. Every job matches an
  // empty filter.
  static absl::StatusOr<JobFilter> Parse(std::string_view text);

  bool Matches(const v1::Job& job) const;
  bool matches_all() const { return root_.kind == Node::Kind::kAll; }

 private:
  friend class FilterParser;
  struct Node {
    enum class Kind { kAll, kTerm, kAnd, kOr };
    Kind kind = Kind::kAll;
    bool is_negated = false;
    std::vector<Node> children;  // Only kAnd and kOr have children.
    // The fields below are used only if the kind is kTerm.
    std::string column;
    std::string pattern;  // A glob, or the exact text; not used for the column "state".
    uint32_t states = 0;  // Only for the column "state": bit i is set if the state i matches.
  };
  static bool Holds(const Node& node, const v1::Job& job);
  static bool TermHolds(const Node& term, const v1::Job& job);

  Node root_;
};

}  // namespace ampd::server
