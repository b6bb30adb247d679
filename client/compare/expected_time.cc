#include "client/compare/expected_time.h"

#include <google/protobuf/util/message_differencer.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::client {
namespace {

using google::protobuf::util::MessageDifferencer;

// Returns whether a step does the same work in both jobs.
bool HaveSameSteps(const v1::JobSpec& one, const v1::JobSpec& other) {
  return MessageDifferencer::Equals(one.model(), other.model()) &&
         MessageDifferencer::Equals(one.data().train(), other.data().train()) &&
         MessageDifferencer::Equals(one.data().augment(), other.data().augment()) &&
         one.data().batch_size() == other.data().batch_size() && one.data().last_batch() == other.data().last_batch() &&
         one.optimizer().kind_case() == other.optimizer().kind_case() &&
         one.train().gradient_accumulation() == other.train().gradient_accumulation() &&
         one.train().num_threads() == other.train().num_threads() &&
         one.resources().devices() == other.resources().devices();
}

bool RanOn(const v1::Attempt& attempt, const std::string& device_kind) {
  return !attempt.devices().empty() && absl::StartsWith(attempt.devices(0), device_kind == "GPU" ? "gpu" : "cpu");
}

// Returns the number of steps of `spec`; 0 if it is not known. If `spec` has only a number of epochs, the finished job
// shows how many steps an epoch has.
double StepsOf(const v1::JobSpec& spec, const v1::Job& finished, const v1::Attempt& attempt) {
  if (spec.train().steps() > 0) {
    return static_cast<double>(spec.train().steps());
  }
  const int epochs = finished.spec().train().epochs();
  return epochs == 0 ? 0 : static_cast<double>(attempt.total_steps()) / epochs * spec.train().epochs();
}

}  // namespace

std::optional<ExpectedTime> ExpectedTimeOf(const v1::JobSpec& spec, const std::string& precision,
                                           const std::string& device_kind, const std::vector<v1::Job>& finished) {
  for (const v1::Job& job : finished) {
    if (job.attempts().empty() || !HaveSameSteps(spec, job.spec())) {
      continue;
    }
    const v1::Attempt& attempt = *job.attempts().rbegin();
    const double pace = attempt.outcome().final_metrics().steps_per_second();
    const double steps = StepsOf(spec, job, attempt);
    if (attempt.precision() == precision && RanOn(attempt, device_kind) && pace > 0 && steps > 0) {
      return ExpectedTime{steps / pace, job.id(),
                          absl::StrCat(attempt.worker(), "/", absl::StrJoin(attempt.devices(), "+"))};
    }
  }
  return std::nullopt;
}

}  // namespace ampd::client
