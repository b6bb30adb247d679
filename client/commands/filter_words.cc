#include "client/commands/filter_words.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ampd/v1/job.pb.h"
#include "base/nearest.h"

namespace ampd::client {
namespace {

constexpr const char* kColumns[] = {"state", "name", "queue", "id", "owner", "worker", "tenant"};

struct Row {
  std::string_view foreign;
  std::string_view own;
};

// Names of columns in other programs, in lower case and without a prefix such as "metadata.".
constexpr Row kForeignColumns[] = {
    {"status", "state"},    {"phase", "state"},      {"jobstate", "state"},     {"job_state", "state"},
    {"st", "state"},        {"condition", "state"},  {"job", "name"},           {"jobname", "name"},
    {"job_name", "name"},   {"jobid", "id"},         {"job_id", "id"},          {"uid", "id"},
    {"user", "owner"},      {"username", "owner"},   {"author", "owner"},       {"actor", "owner"},
    {"submitter", "owner"}, {"created_by", "owner"}, {"submitted_by", "owner"}, {"node", "worker"},
    {"nodename", "worker"}, {"nodelist", "worker"},  {"host", "worker"},        {"hostname", "worker"},
    {"machine", "worker"},  {"namespace", "tenant"}, {"ns", "tenant"},          {"project", "tenant"},
    {"account", "tenant"},  {"partition", "queue"},
};

// Fields of jobs by which lists can't be filtered, each with the field of --sort; "-" if there is none.
constexpr Row kUnfiltered[] = {
    {"age", "age"},
    {"created", "age"},
    {"createtime", "age"},
    {"create_time", "age"},
    {"created_at", "age"},
    {"submitted", "age"},
    {"submit_time", "age"},
    {"submitted_at", "age"},
    {"time", "age"},
    {"date", "age"},
    {"creationtimestamp", "age"},
    {"started", "age"},
    {"start_time", "age"},
    {"starttime", "age"},
    {"ended", "age"},
    {"end_time", "age"},
    {"endtime", "age"},
    {"loss", "loss"},
    {"eval_loss", "loss"},
    {"step", "step"},
    {"steps", "step"},
    {"progress", "step"},
    {"priority", "priority"},
    {"precision", "precision"},
    {"reason", "reason"},
    {"duration", "-"},
    {"runtime", "-"},
    {"elapsed", "-"},
    {"exit_code", "-"},
    {"attempt", "-"},
    {"attempts", "-"},
    {"gpu", "-"},
    {"gpus", "-"},
    {"device", "-"},
    {"accuracy", "-"},
};

// Other programs' words for states, in lower case.
constexpr Row kForeignStates[] = {
    {"pending", "queued"},
    {"waiting", "queued"},
    {"pd", "queued"},
    {"in_progress", "running"},
    {"active", "running"},
    {"r", "running"},
    {"suspended", "paused"},
    {"completed", "succeeded"},
    {"complete", "succeeded"},
    {"done", "succeeded"},
    {"success", "succeeded"},
    {"successful", "succeeded"},
    {"cd", "succeeded"},
    {"failure", "failed"},
    {"error", "failed"},
    {"errored", "failed"},
    {"crashed", "failed"},
    {"f", "failed"},
    {"oom", "failed"},
    {"timeout", "failed"},
    {"ca", "cancelled"},
    {"killed", "cancelled"},
    {"aborted", "cancelled"},
    {"stopped", "cancelled"},
    {"finished", "succeeded,failed,cancelled"},
    {"ended", "succeeded,failed,cancelled"},
    {"terminated", "succeeded,failed,cancelled"},
    {"s", "paused"},
    {"st", "paused"},
    {"cf", "starting"},
    {"to", "failed"},
    {"nf", "failed"},
    {"canceled", "cancelled"},
};

template <size_t kSize>
std::string Find(const Row (&rows)[kSize], const std::string& word) {
  const auto* const found = std::find_if(rows, rows + kSize, [&word](const Row& row) { return row.foreign == word; });
  return found == rows + kSize ? "" : std::string(found->own);
}

std::vector<std::string> OwnStates() {
  std::vector<std::string> states;
  for (int state = v1::Job::STATE_UNSPECIFIED + 1; state <= v1::Job::State_MAX; ++state) {
    states.push_back(absl::AsciiStrToLower(v1::Job::State_Name(static_cast<v1::Job::State>(state))));
  }
  return states;
}

std::string LastPart(std::string_view word) {
  return absl::AsciiStrToLower(std::string(word.substr(word.rfind('.') + 1)));
}

// Returns the label's key in "labels.KEY", "metadata.labels.KEY", "label.KEY" or "labels[KEY]"; empty for other words.
std::string LabelKey(std::string_view word) {
  const std::string bare = absl::StrReplaceAll(
      std::string(word), {{"['", "."}, {"[\"", "."}, {"[", "."}, {"']", ""}, {"\"]", ""}, {"]", ""}});
  for (const std::string_view prefix : {"labels.", "label.", "tags.", "tag."}) {
    const size_t begin = absl::AsciiStrToLower(bare).find(prefix);
    if (begin == 0 || (begin != std::string::npos && bare[begin - 1] == '.')) {
      return bare.substr(begin + prefix.size());
    }
  }
  return "";
}

bool IsLabelKey(std::string_view word) {
  return !word.empty() && absl::ascii_isalpha(word.front()) && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  });
}

}  // namespace

std::string ColumnMeant(std::string_view word) {
  if (const std::string key = LabelKey(word); !key.empty()) {
    return IsLabelKey(key) ? "labels." + key : "";
  }
  const std::string last = LastPart(word);
  const std::vector<std::string> columns(std::begin(kColumns), std::end(kColumns));
  if (std::find(columns.begin(), columns.end(), last) != columns.end()) {
    return last;
  }
  if (const std::string own = Find(kForeignColumns, last); !own.empty()) {
    return own;
  }
  if (const std::string nearest = Nearest(last, columns); !nearest.empty()) {
    return nearest;
  }
  const bool is_label = IsLabelKey(word) && last != "label" && last != "labels" && last != "tag" && last != "tags";
  return is_label && UnfilteredField(word).empty() ? absl::StrCat("labels.", std::string(word)) : "";
}

std::string UnfilteredField(std::string_view word) { return Find(kUnfiltered, LastPart(word)); }

std::string StatesNamed(std::string_view word) {
  const std::string lower = absl::AsciiStrToLower(std::string(word));
  const std::vector<std::string> states = OwnStates();
  return std::find(states.begin(), states.end(), lower) != states.end() ? lower : Find(kForeignStates, lower);
}

std::string StatesMeant(std::string_view word) {
  const std::string named = StatesNamed(word);
  return !named.empty()                             ? named
         : word.find('*') != std::string_view::npos ? absl::AsciiStrToLower(std::string(word))
                                                    : Nearest(word, OwnStates());
}

std::string GlobOfRegex(std::string_view regex) {
  const bool has_begin = regex.starts_with('^');
  const bool has_end = regex.ends_with('$');
  regex.remove_prefix(has_begin ? 1 : 0);
  regex.remove_suffix(has_end ? 1 : 0);
  const std::string glob = absl::StrReplaceAll(std::string(regex), {{".*", "*"}, {".+", "?*"}, {".", "?"}});
  if (glob.empty() || glob.find_first_of("+()|{}^$\\") != std::string::npos) {
    return "";
  }
  const bool opens = has_begin || glob.starts_with('*');
  const bool closes = has_end || glob.ends_with('*');
  return absl::StrCat(opens ? "" : "*", glob, closes ? "" : "*");
}

std::string GlobOfLike(std::string_view pattern) {
  return absl::StrReplaceAll(std::string(pattern), {{"%", "*"}, {"_", "?"}});
}

}  // namespace ampd::client
