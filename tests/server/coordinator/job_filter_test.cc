#include "server/coordinator/job_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using v1::Job;

Job JobOf(const std::string& name, Job::State state, const std::string& team = "", const std::string& worker = "") {
  Job job;
  job.set_id("j-" + name);
  job.set_state(state);
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->set_queue("default");
  if (!team.empty()) {
    (*job.mutable_spec()->mutable_labels())["team"] = team;
  }
  if (!worker.empty()) {
    job.add_attempts()->set_worker("w0");
    job.add_attempts()->set_worker(worker);
    job.set_owner("user:of-" + worker);
  }
  return job;
}

// Matches the filter against four jobs. Returns the names of those that match.
std::vector<std::string> Matching(const std::string& text) {
  const std::vector<Job> jobs = {JobOf("resnet-a", Job::RUNNING, "vision", "w1"),
                                 JobOf("resnet-b", Job::QUEUED, "vision"), JobOf("bert", Job::RUNNING, "my text", "w2"),
                                 JobOf("mlp", Job::FAILED)};
  const absl::StatusOr<JobFilter> filter = JobFilter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.status();
  std::vector<std::string> names;
  for (const Job& job : jobs) {
    if (filter.ok() && filter->Matches(job)) {
      names.push_back(job.spec().name());
    }
  }
  return names;
}

// Expects that `text` is not a valid filter. Returns what the error says about the field `filter`, or "" if the error
// is not about this field alone.
std::string Problem(const std::string& text) {
  const absl::StatusOr<JobFilter> filter = JobFilter::Parse(text);
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument) << text;
  const std::vector<FieldViolation> violations = ViolationsOf(filter.status());
  return violations.size() == 1 && violations[0].field == "filter" ? violations[0].description : "";
}

TEST(JobFilter, AnEmptyText_MatchesEveryJob) {
  EXPECT_THAT(Matching(""), testing::SizeIs(4));
  EXPECT_TRUE(JobFilter::Parse("")->matches_all());
  EXPECT_FALSE(JobFilter::Parse("id=*")->matches_all());
}

TEST(JobFilter, EveryColumn_IsCompared) {
  EXPECT_THAT(Matching("state=RUNNING"), ElementsAre("resnet-a", "bert"));
  EXPECT_THAT(Matching("name=mlp"), ElementsAre("mlp"));
  EXPECT_THAT(Matching("id=j-mlp"), ElementsAre("mlp"));
  EXPECT_THAT(Matching("queue=other"), IsEmpty());
  EXPECT_THAT(Matching("worker=w1"), ElementsAre("resnet-a"));
  EXPECT_THAT(Matching("owner=user:of-w1"), ElementsAre("resnet-a"));
  EXPECT_THAT(Matching("owner=user:* AND state=running"), ElementsAre("resnet-a", "bert"));
  EXPECT_THAT(Matching("worker=w0"), IsEmpty()) << "only the newest attempt counts";
  EXPECT_THAT(Matching("labels.team=vision"), ElementsAre("resnet-a", "resnet-b"));
  EXPECT_THAT(Matching("labels.owner="), IsEmpty()) << "no job has the label";
}

TEST(JobFilter, StatesAndKeywords_MayBeInAnyCase) {
  EXPECT_THAT(Matching("state=running"), ElementsAre("resnet-a", "bert"));
  EXPECT_THAT(Matching("state=Failed or state=queued"), ElementsAre("resnet-b", "mlp"));
  EXPECT_THAT(Matching("not state=failed and not name=bert"), ElementsAre("resnet-a", "resnet-b"));
}

TEST(JobFilter, AndBindsMoreTightlyThanOr_AndParenthesesMostTightly) {
  EXPECT_THAT(Matching("name=mlp OR name=resnet-* AND state=QUEUED"), ElementsAre("resnet-b", "mlp"));
  EXPECT_THAT(Matching("(name=mlp OR name=resnet-*) AND state=QUEUED"), ElementsAre("resnet-b"));
  EXPECT_THAT(Matching("NOT (name=mlp OR name=bert)"), ElementsAre("resnet-a", "resnet-b"));
  EXPECT_THAT(Matching("NOT NOT name=mlp"), ElementsAre("mlp"));
  EXPECT_THAT(Matching(" ( ( name=mlp ) ) "), ElementsAre("mlp"));
}

TEST(JobFilter, NotEqual_MatchesJobsWithoutTheLabelToo) {
  EXPECT_THAT(Matching("labels.team!=vision"), ElementsAre("bert", "mlp"));
  EXPECT_THAT(Matching("state!=running"), ElementsAre("resnet-b", "mlp"));
  EXPECT_THAT(Matching("NOT state!=running"), ElementsAre("resnet-a", "bert"));
}

TEST(JobFilter, ValuesAreGlobs) {
  EXPECT_THAT(Matching("name=*-[ab]"), ElementsAre("resnet-a", "resnet-b"));
  EXPECT_THAT(Matching("name=?ert"), ElementsAre("bert"));
  EXPECT_THAT(Matching("labels.team=*"), ElementsAre("resnet-a", "resnet-b", "bert")) << "those with the label";
  EXPECT_THAT(Matching("state=*ed"), ElementsAre("resnet-b", "mlp"));
}

TEST(JobFilter, AValueWithSpaces_IsQuoted) {
  EXPECT_THAT(Matching(R"(labels.team="my text")"), ElementsAre("bert"));
  EXPECT_THAT(Matching(R"(labels.team=="my t*" AND (state=running))"), ElementsAre("bert"));
  Job job = JobOf("x", Job::QUEUED, R"(a "b\c)");
  EXPECT_TRUE(JobFilter::Parse(R"(labels.team="a \"b\\c")")->Matches(job));
}

TEST(JobFilter, ALabelWithTheCharactersOfAGlob_MatchesItself) {
  const Job job = JobOf("x", Job::QUEUED, "a[1]*");
  EXPECT_TRUE(JobFilter::Parse("labels.team=a[1]*")->Matches(job));
  EXPECT_FALSE(JobFilter::Parse("labels.team=b[1]*")->Matches(job));
}

TEST(JobFilter, AnError_NamesTheColumnAndWhatIsExpected) {
  EXPECT_EQ(Problem("colour=red"),
            "there is no column \"colour\"; columns are state, name, queue, id, owner, worker, tenant and labels.KEY");
  EXPECT_EQ(Problem("labels.=x"),
            "there is no column \"labels.\"; columns are state, name, queue, id, owner, worker, tenant and labels.KEY");
  EXPECT_EQ(
      Problem("state=RUNING"),
      "there is no state \"RUNING\"; states are QUEUED, STARTING, RUNNING, PAUSING, PAUSED, CANCELLING, SUCCEEDED, "
      "FAILED, CANCELLED");
  EXPECT_EQ(Problem("RUNNING"), "has \"RUNNING\"; a term is COLUMN=VALUE or COLUMN!=VALUE");
  EXPECT_EQ(Problem("state = RUNNING"),
            "has \"state\"; a term is COLUMN=VALUE or COLUMN!=VALUE, without blanks around the sign");
  EXPECT_EQ(Problem("step>5"), "has \"step>5\"; a term is COLUMN=VALUE or COLUMN!=VALUE");
  EXPECT_EQ(Problem("name=my job"),
            "has \"job\" where AND, OR or the end is expected; a value with spaces needs quotes: name=\"two words\"");
  EXPECT_THAT(Problem("name=f(x)"), HasSubstr("has \"(\" where AND, OR or the end is expected"));
  EXPECT_EQ(Problem("name='mlp'"), "has the value \"'mlp'\" in single quotes; use double quotes, or none");
  EXPECT_EQ(Problem("name=a && state=queued"), "has \"&&\"; write AND");
  EXPECT_EQ(Problem("name=a || state=queued"), "has \"||\"; write OR");
  EXPECT_EQ(Problem("name=a , name=b"), "has \",\"; write AND");
  EXPECT_EQ(Problem("name=\"my job"), "has the value \"\"my job\" without a closing quote");
  EXPECT_EQ(Problem("(name=a"), "has a \"(\" without a \")\" behind it");
  EXPECT_EQ(Problem("(name=a b"), "has \"b\" where AND, OR or \")\" is expected");
  EXPECT_EQ(Problem("name=a)"), "has \")\" without a \"(\" before it");
  for (const char* open :
       {"state=QUEUED AND", "AND state=QUEUED", "name=a AND  AND name=b", "AND", " ", "()", "NOT", "name=a OR"}) {
    EXPECT_THAT(Problem(open), HasSubstr("has no term where one is expected")) << open;
  }
}

TEST(JobFilter, ATermWithinAnUnquotedValue_IsRefused) {
  EXPECT_EQ(Problem("labels.team=a,name=b"),
            "has \",name=b\" in a value; write AND between terms, or double quotes around the value");
  EXPECT_EQ(Problem("name=a&&labels.team!=b"),
            "has \"&&labels.team!=b\" in a value; write AND between terms, or double quotes around the value");
  EXPECT_EQ(Problem("name=a||state=queued"),
            "has \"||state=queued\" in a value; write OR between terms, or double quotes around the value");
  EXPECT_THAT(Problem("name=~ml.*"), HasSubstr("has the value \"~ml.*\"; there are no regular expressions"));
  for (const char* value : {"labels.team=a,b", "labels.team=a,colour=b", "labels.team=\"a,name=b\"",
                            "labels.team=\"~a\"", "labels.team=a~b", "labels.team=a;"}) {
    EXPECT_TRUE(JobFilter::Parse(value).ok()) << value;
  }
}

TEST(JobFilter, LengthAndNesting_AreBounded) {
  EXPECT_EQ(Problem("name=" + std::string(4096, 'a')), "is longer than 4096 bytes");
  const auto nested = [](int depth) { return std::string(depth, '(') + "name=mlp" + std::string(depth, ')'); };
  EXPECT_THAT(Matching(nested(16)), ElementsAre("mlp"));
  EXPECT_EQ(Problem(nested(17)), "has parentheses nested more than 16 levels deep");
  std::string many_nots;
  for (int i = 0; i < 1000; ++i) {
    many_nots += "NOT ";
  }
  EXPECT_THAT(Matching(many_nots + "name=mlp"), ElementsAre("mlp"));
}

}  // namespace
}  // namespace ampd::server
