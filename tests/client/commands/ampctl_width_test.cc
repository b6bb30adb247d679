// Tests that ampctl's output fits the width of the terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/render/format.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kColumns = 80;

class AmpctlWidth : public Ampctl {
 protected:
  AmpctlWidth() {
    v1::Job job = fake_.jobs.Add("a-job-whose-name-has-many-characters", v1::Job::FAILED);
    job.set_reason(v1::Reason::DATA_ERROR);
    job.set_message(
        "attempt 1: data.train: the file numbers/train-images-idx3-ubyte.gz has 3 images, but a batch needs 128");
    job.mutable_spec()->mutable_train()->set_steps(123'456);
    job.mutable_progress()->set_step(123'455);
    job.mutable_progress()->set_loss(0.12345);
    fake_.jobs.Put(job);
    id_ = job.id();
    fake_.artifacts.Add("bytes");
    Write("job.yaml", kGoodJob);
  }

  // Returns the lines that ampctl prints on a terminal with this number of columns, without colours.
  std::vector<std::string> Lines(const std::string& arguments, int columns) {
    const Result result = RunOnTerminal(arguments, columns);
    EXPECT_NE(result.out, "") << arguments;
    return absl::StrSplit(absl::StrReplaceAll(result.out, {{"\r", ""}}), '\n');
  }

  std::string id_;
};

TEST_F(AmpctlWidth, EverythingThatIsPrintedOnceFits) {
  for (const std::string& command : {std::string("job list"),
                                     std::string("job list -o wide"),
                                     "job show " + id_,
                                     "job show -o wide " + id_,
                                     "job events " + id_,
                                     "job points " + id_,
                                     "job explain " + id_,
                                     "checkpoint list " + id_,
                                     "checkpoint list -o wide " + id_,
                                     std::string("worker list"),
                                     std::string("worker list -o wide"),
                                     std::string("artifact list -o wide"),
                                     std::string("policy list"),
                                     std::string("auth token list -o wide"),
                                     std::string("audit -o wide"),
                                     std::string("auth whoami"),
                                     std::string("health"),
                                     std::string("job submit --dry-run -f job.yaml"),
                                     std::string("estimate -f job.yaml"),
                                     std::string("job list --frobnicate"),
                                     std::string("frobnicate"),
                                     std::string("job show nobody"),
                                     std::string("context list"),
                                     std::string("help exit-codes"),
                                     std::string("init -f new.yaml")}) {
    for (const int columns : {60, kColumns}) {
      for (const std::string& line : Lines(command, columns)) {
        EXPECT_LE(DisplayWidth(line), columns) << command << ": " << line;
      }
    }
  }
}

TEST_F(AmpctlWidth, AFileNameThatBeginsWithBlanksFits) {
  fake_.artifacts.Add("more", std::string(20, ' ') + "a b");
  for (const int columns : {40, 60, kColumns}) {
    EXPECT_EQ(RunOnTerminal("artifact list", columns).exit_code, 0);
    for (const std::string& line : Lines("artifact list", columns)) {
      EXPECT_LE(DisplayWidth(line), columns) << line;
    }
  }
}

TEST_F(AmpctlWidth, DataAndFilesAreNotBroken) {
  const std::string json = RunOnTerminal("job show -o jsonl " + id_, kColumns).out;
  EXPECT_EQ(json, absl::StrReplaceAll(Run("job show -o jsonl " + id_).out, {{"\n", "\r\n"}}));
  EXPECT_EQ(RunOnTerminal("job list -o csv", kColumns).out,
            absl::StrReplaceAll(Run("job list -o csv").out, {{"\n", "\r\n"}}));
  EXPECT_THAT(Run("job list").out, HasSubstr("a-job-whose-name-has-many-characters")) << "in a pipe nothing is cut";
  EXPECT_THAT(Run("policy list").out, Not(HasSubstr("\n   ")));
}

}  // namespace
}  // namespace ampd::client
