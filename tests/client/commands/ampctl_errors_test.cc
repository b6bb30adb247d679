// Tests ampctl's error messages. They must say what is wrong and what to do next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/io/file.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(Ampctl, OutputThatCannotBeWrittenIsAFailure) {
  fake_.jobs.Add("n", v1::Job::QUEUED);
  EXPECT_EQ(Run("job list > /dev/full 2> errors; echo $?").out, "1\n");
  EXPECT_EQ(*ReadFile(folder_ + "/errors", 4096), "error: cannot write to standard output: No space left on device\n");
}

TEST_F(Ampctl, WrongAddressesAndNumbers_AreErrorsInWords) {
  EXPECT_THAT(
      Run("job list --address foo").err,
      HasSubstr("the address 'foo' from --address is neither HOST:PORT, nor unix:/PATH, nor the name of a context"));
  EXPECT_THAT(Run("job scale --set-scale abc x").err, HasSubstr("--set-scale: 'abc' is not a number above 0"));
  EXPECT_THAT(Run("job scale --growth-interval 1.5 x").err,
              HasSubstr("--growth-interval: '1.5' is not a whole number of at least 1"));
  EXPECT_THAT(Run("checkpoint show x newest").err, HasSubstr("'newest' is not a whole number of at least 0"));
}

TEST_F(Ampctl, MistakesOfSeveralKindsInAJobFile_AreOneAnswer) {
  fake_.jobs.script()->refused_preset = "bf61";
  Write("job.yaml",
        "nam: x\ndata: {shufle: 1}\nprecision: {preset: bf61}\ntrain: {epochs: many}\non_divergence: "
        "STOP\n");
  const Result result = Run("job submit -f job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  for (const char* problem :
       {"error: job.yaml:1:1: 'nam' is not a field of a job file\n  did you mean 'name'?",
        "error: job.yaml:2:8: 'shufle' is not a field of data\n",
        "error: job.yaml:4:17: train.epochs must be a whole number, not 'many'; allowed is 1 to 1000000\n",
        "error: job.yaml:5:16: on_divergence must be one of the allowed words, not 'STOP'\n",
        "error: job.yaml:3:13: precision.preset: bf61 does not fit the model\n"}) {
    EXPECT_THAT(result.err, HasSubstr(problem));
  }
  // The spec that ampctl sent to the server has no name and no batch size. ampctl must not print the server's errors
  // about these two fields.
  EXPECT_THAT(result.err, Not(HasSubstr("must be set")));
  EXPECT_THAT(result.err, Not(HasSubstr("is below 1")));
  EXPECT_TRUE(fake_.jobs.Specs().empty());
  const Result alone = Run("job submit -f job.yaml", kNoServer);
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("'nam' is not a field"));
  EXPECT_THAT(alone.err, Not(HasSubstr("bf61")));
}

TEST_F(Ampctl, WhatTheServerRefusesOnlyForWantOfAnUnreadField_IsNotReported) {
  fake_.jobs.script()->violations = {{"checkpoint.keep_best", "needs eval.every_steps above 0"},
                                     {"train.steps", "is above the queue's limit"}};
  Write("job.yaml", "name: x\ndata: {batch_size: 4}\ntrain: {steps: 9}\ncheckpoint: {keep_best: true}\n");
  for (const char* override : {"eval.every_steps=never", "eval="}) {
    const Result result = Run(absl::StrCat("job submit -f job.yaml --set ", override));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("error: --set eval")) << override;
    EXPECT_THAT(result.err, HasSubstr("train.steps: is above the queue's limit")) << override;
    EXPECT_THAT(result.err, Not(HasSubstr("keep_best"))) << override;
  }
}

TEST_F(Ampctl, AListWithoutMatchesNamesTheFilter) {
  EXPECT_THAT(Run("job list").err, HasSubstr("no jobs; submit one with"));
  EXPECT_EQ(Run("job list --tenant nope").err,
            "no jobs in tenant 'nope'; to list those of all your tenants: ampctl job list --tenant '*'\n");
  EXPECT_EQ(Run("job list --filter name=other --tenant nope").err,
            "no job in tenant 'nope' matches --filter 'name=other'; to list all: ampctl job list --tenant '*'\n");
  EXPECT_THAT(Run("job list --tenant '*'").err, HasSubstr("no jobs; submit one with: ampctl job submit -f job.yaml\n"));
  const Result result = Run("job list --filter name=other");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no job matches --filter 'name=other'; to list all: ampctl job list"));
}

TEST_F(Ampctl, ARefusalForTheJobsStateSaysWhatCanBeDone) {
  const std::string id = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  const Result result = Run("job delete --yes " + id);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("is PAUSED and can't be deleted  [WRONG_STATE]\n  try: see its state: ampctl "
                                    "job show " +
                                    id + "   (end it: ampctl job cancel " + id + ")\n"));
  EXPECT_EQ(fake_.jobs.size(), 1);
}

TEST_F(Ampctl, SuggestedCommands_HaveTheOptionsThatChooseTheServer) {
  const std::string no_variable = "AMPD_NONE=1";
  EXPECT_THAT(Run("--address prod:7070 --tenant vision job delete resnet 'a b' </dev/null", no_variable).err,
              HasSubstr("use --yes: ampctl --address prod:7070 --tenant vision job delete --yes resnet 'a b'\n"));
  EXPECT_THAT(Run("job delete resnet --token-file 'my token' --ca=-ca.pem --tenant '*' </dev/null", no_variable).err,
              HasSubstr("use --yes: ampctl --token-file 'my token' --ca ./-ca.pem --tenant '*' job delete --yes "
                        "resnet\n"));
  EXPECT_THAT(Run("job delete resnet </dev/null").err, HasSubstr("use --yes: ampctl job delete --yes resnet\n"))
      << "an environment variable also holds for the suggested command";
  const std::string program = "ampctl --address " + fake_.address();
  const Result empty = Run("job list --tenant vision --address " + fake_.address(), no_variable);
  EXPECT_THAT(empty.err, HasSubstr("to list those of all your tenants: " + program + " job list --tenant '*'\n"));
  EXPECT_THAT(Run("job show nobody --address " + fake_.address(), no_variable).err,
              HasSubstr("  try: list what there is: " + program + " job list\n"));
  Write("job.yaml", kGoodJob);
  const Result submitted = Run("job submit -f job.yaml --address " + fake_.address(), no_variable);
  EXPECT_THAT(submitted.err, HasSubstr("watch:   " + program + " job watch j-"));
  EXPECT_THAT(submitted.err, HasSubstr("cancel:  " + program + " job cancel j-"));
  Write("wrong.yaml", "nam: x\n");
  EXPECT_THAT(Run("job submit -f wrong.yaml --address " + fake_.address(), no_variable).err,
              HasSubstr("then " + program + " job submit -f wrong.yaml --dry-run\n"));
}

TEST_F(Ampctl, AnErrorOfAnotherServer_IsNotReportedAsAnUnsupportedField) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->refuse_gets = grpc::StatusCode::UNIMPLEMENTED;
  const Result result = Run("job show " + id);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("try: check that it is an ampd-server of ampctl's version   (address from AMPD_ADDRESS)"));
}

TEST_F(Ampctl, AJobThatIsRefused_DoesNotEndTheCommandForTheOthers) {
  const std::string id = fake_.jobs.Add("n", v1::Job::QUEUED).id();
  const Result result = Run("job cancel missing " + id);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr(id));
}

TEST_F(Ampctl, AWaitForAPausedJobThatTimesOutSaysSo) {
  const std::string id = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  fake_.jobs.script()->hold_watches = true;
  const Result result = Run("job wait --timeout 100ms " + id);
  fake_.jobs.release.Notify();
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(
      result.err,
      HasSubstr("did not end within 100ms (--timeout); the job is paused. To resume it: ampctl job resume " + id));
}

TEST_F(Ampctl, AMistakeBesideAnOverride_IsCorrectedInTheWholeCommandLine) {
  Write("job.yaml", "name: x\ntrain: {epochs: many}\n");
  EXPECT_THAT(Run("job submit -f job.yaml --set data.batch_size=4").err,
              HasSubstr("  try: correct it, and repeat the command\n"));
  EXPECT_THAT(Run("job submit -f job.yaml --name y").err, HasSubstr("  try: correct it, and repeat the command\n"));
  EXPECT_THAT(Run("job submit -f job.yaml").err, HasSubstr("  try: correct it, then ampctl job submit -f job.yaml"));
}

TEST_F(Ampctl, ASubmitNotesWhatAnOverrideDoesUnexpectedly) {
  Write("job.yaml", kGoodJob);
  const Result result = Run("job submit -f job.yaml --set 'labels.team=\"nlp\"' --set 'model.lenet.widths[0]=16'");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: --set labels.team: the quotes are a part of the value \"nlp\"; "));
  EXPECT_THAT(result.err, HasSubstr("note: --set model.lenet.widths[0] starts from the default list, [32, 64], "));
  EXPECT_THAT(Run("job submit -f job.yaml --set labels.team=nlp").err, Not(HasSubstr("note: ")));
}

TEST_F(Ampctl, ADryRunWarnsIfAStepNeedsMoreMemoryThanThereIs) {
  Write("job.yaml", "name: x\nprecision: {preset: bf16}\ndata:\n  batch_size: 1601\n");
  for (const char* format : {"table", "json"}) {
    const Result result = Run(absl::StrCat("job submit -f job.yaml --dry-run -o ", format));
    EXPECT_EQ(result.exit_code, 0) << "other workers may come";
    EXPECT_THAT(result.err,
                HasSubstr("warning: with data.batch_size 1601, a step needs about 3.0 MiB in bf16, which is "
                          "more than the memory of any device that can run the job; the device with the most memory is "
                          "w2/cpu (16.0 GiB)\n"
                          "  try: lower data.batch_size to 1600 or raise train.gradient_accumulation\n"));
  }
  EXPECT_THAT(Run("job submit -f job.yaml --dry-run --set resources.memory_bytes=4KiB").err,
              HasSubstr("which is more than resources.memory_bytes, 4.0 KiB\n  try: lower data.batch_size to 77 or "));
  for (const char* fits : {"data.batch_size=1600", "data.batch_size=1"}) {
    EXPECT_THAT(Run(absl::StrCat("job submit -f job.yaml --dry-run --set ", fits)).err,
                Not(HasSubstr("a step needs about")));
  }
}

}  // namespace
}  // namespace ampd::client
