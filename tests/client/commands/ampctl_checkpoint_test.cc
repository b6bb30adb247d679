#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/formats/safetensors.h"
#include "base/formats/sha256.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/client/commands/checkpoint_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class AmpctlCheckpoint : public Ampctl {
 protected:
  void SetUp() override {
    job_ = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
    manifest_ = WriteCheckpoint(folder_ + "/ck");
  }
  std::string Slurp(const std::string& name) { return ReadFile(folder_ + "/" + name, 1 << 20).value_or("(none)"); }

  std::string job_;
  CheckpointManifest manifest_;
};

TEST_F(AmpctlCheckpoint, WhatPeopleSee_IsAsReviewed) {
  std::string all;
  for (const std::string& command :
       {absl::StrCat("checkpoint list ", job_), absl::StrCat("checkpoint list -o wide ", job_),
        absl::StrCat("checkpoint show -o wide ", job_, " 20 --attempt 1"), std::string("checkpoint show ck"),
        std::string("checkpoint show -o wide ck"), std::string("checkpoint show -o json ck"),
        std::string("checkpoint verify ck"), std::string("checkpoint verify -o json ck"),
        std::string("checkpoint export ck out.safetensors"), absl::StrCat("checkpoint delete --yes ", job_, " 20")}) {
    const Result result = Run(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    all += "$ ampctl " + command + "\n" + result.out + result.err;
  }
  ExpectGolden("tests/golden/client/checkpoint.txt", all);
}

TEST_F(AmpctlCheckpoint, AStepOfSeveralAttempts_MeansTheNewestOrTheOneGiven) {
  EXPECT_THAT(Run("checkpoint show " + job_).out, HasSubstr(job_ + "/2/step-20"));
  EXPECT_THAT(Run("checkpoint show " + job_ + " 20 --attempt 1").out, HasSubstr(job_ + "/1/step-20"));
  const Result missing = Run("checkpoint show " + job_ + " 21");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("has no checkpoint of step 21; the job has a checkpoint of step 20  "
                                     "[CHECKPOINT_NOT_FOUND]\n  try: list what there is: "
                                     "ampctl checkpoint list " +
                                     job_ + "\n"));
  EXPECT_EQ(Run("checkpoint list j-none").exit_code, 3);
}

TEST_F(AmpctlCheckpoint, AStepBehindTheJob_NamesTheCheckpoint) {
  for (const char* which : {"@20", "@best", "@newest"}) {
    EXPECT_THAT(Run(absl::StrCat("checkpoint show ", job_, which)).out, HasSubstr(job_ + "/2/step-20")) << which;
  }
  EXPECT_THAT(Run("checkpoint show " + job_ + "@20 --attempt 1").out, HasSubstr(job_ + "/1/step-20"));
  EXPECT_THAT(Run("checkpoint show " + job_ + "@20 20").err, HasSubstr("the checkpoint is named twice"));
  EXPECT_THAT(Run("checkpoint show " + job_ + "@first").err,
              HasSubstr("it must be JOB, JOB@best, JOB@newest or JOB@STEP"));
  const Result unnamed = Run("checkpoint delete -y " + job_);
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("name the step of the checkpoint: ampctl checkpoint delete " + job_ + "@STEP"));
  EXPECT_TRUE(fake_.jobs.script()->deleted_checkpoints.empty());
  EXPECT_EQ(Run("checkpoint delete -y " + job_ + "@20").out, "checkpoint of step 20, attempt 2  deleted\n");
}

TEST_F(AmpctlCheckpoint, VerifyOfAJob_SaysHowToDownloadItFirst) {
  const Result result = Run("checkpoint verify clothes");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("clothes is not a folder here; if it is a job, download its checkpoint first: ampctl "
                        "checkpoint download clothes"));
}

TEST_F(AmpctlCheckpoint, Delete_AsksFirstAndTakesTheRightOne) {
  const Result unasked = Run("checkpoint delete " + job_ + " 20 </dev/null");
  EXPECT_EQ(unasked.exit_code, 2);
  EXPECT_THAT(unasked.err, HasSubstr("stdin is not a terminal; use --yes: ampctl checkpoint delete --yes " + job_ +
                                     "@20 --attempt 2\n"))
      << "the newest of two attempts that saved step 20";
  EXPECT_THAT(Run("checkpoint delete " + job_ + "@20 --attempt 1 </dev/null").err,
              HasSubstr("use --yes: ampctl checkpoint delete --yes " + job_ + "@20 --attempt 1\n"));
  EXPECT_TRUE(fake_.jobs.script()->deleted_checkpoints.empty());
  EXPECT_EQ(Run("checkpoint delete --yes " + job_ + " 20 --attempt 1").out,
            "checkpoint of step 20, attempt 1  deleted\n");
  EXPECT_EQ(fake_.jobs.script()->deleted_checkpoints.count({job_, 1, 20}), 1u);
  EXPECT_EQ(Run("checkpoint delete --yes " + job_ + " 20 --attempt 1").exit_code, 3);
}

TEST_F(AmpctlCheckpoint, AnExportThatIsInterrupted_LeavesNoFile) {
  const auto folder = OpenCheckpointFolder(folder_ + "/ck");
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::filesystem::create_directory(folder_ + "/to");
  int num_before = 0;
  for (bool is_done = false; !is_done; ++num_before) {
    int num_calls = 0;
    const auto exported =
        ExportModel(*folder, {.destination = folder_ + "/to/model.safetensors", .averages = true, .is_cancelled = [&] {
                                return num_calls++ >= num_before;
                              }});
    is_done = exported.ok();
    EXPECT_TRUE(is_done || absl::IsCancelled(exported.status())) << exported.status();
    EXPECT_EQ(std::filesystem::is_empty(folder_ + "/to"), !is_done) << num_before;
  }
  EXPECT_GT(num_before, 6) << "the export can be interrupted while it verifies two files, and while it copies";
}

TEST_F(AmpctlCheckpoint, AFileThatAppearsDuringAnExport_IsKept) {
  const auto folder = OpenCheckpointFolder(folder_ + "/ck");
  ASSERT_TRUE(folder.ok()) << folder.status();
  int num_calls = 0;
  const std::string path = folder_ + "/out.safetensors";
  const auto count = [&num_calls] {
    ++num_calls;
    return false;
  };
  ASSERT_TRUE(ExportModel(*folder, {.destination = path, .is_cancelled = count}).ok());
  const int last = num_calls;
  std::filesystem::remove(path);
  num_calls = 0;
  const auto appear = [&] {
    if (++num_calls == last) {
      Write("out.safetensors", "mine");
    }
    return false;
  };
  const auto refused = ExportModel(*folder, {.destination = path, .is_cancelled = appear});
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status())) << refused.status();
  EXPECT_EQ(Slurp("out.safetensors"), "mine");
  EXPECT_TRUE(ExportModel(*folder, {.destination = path, .replace = true}).ok());
}

TEST_F(AmpctlCheckpoint, EveryDamage_IsNamedByVerifyAndRefusedByExport) {
  const std::string whole = Slurp("ck/model.safetensors");
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  for (const auto& [content, words] :
       {std::pair(flipped, "SHA-256 "), std::pair(whole + "x", " bytes; the manifest has"),
        std::pair(whole.substr(0, 9), "9 bytes; the manifest has")}) {
    Write("ck/model.safetensors", content);
    const Result verified = Run("checkpoint verify ck");
    EXPECT_EQ(verified.exit_code, 1);
    EXPECT_THAT(verified.out, HasSubstr(words));
    const Result exported = Run("checkpoint export ck out.safetensors");
    EXPECT_EQ(exported.exit_code, 1);
    EXPECT_THAT(exported.err, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/out.safetensors"));
  }
  std::filesystem::remove(folder_ + "/ck/model.safetensors");
  EXPECT_THAT(Run("checkpoint verify ck").out, HasSubstr("model.safetensors      No such file or directory"));
  Write("ck/state.json", "{}");
  EXPECT_THAT(Run("checkpoint verify ck").err, HasSubstr("ck/state.json is not a manifest of version 1"));
  EXPECT_THAT(Run("checkpoint verify ./nowhere").err,
              ::testing::AllOf(HasSubstr("nowhere/state.json: "), HasSubstr("No such file or directory")));
}

TEST_F(AmpctlCheckpoint, ANameThatTheFileSystemRefuses_IsNoFolder) {
  std::filesystem::create_symlink("loop", folder_ + "/loop");
  for (const std::string& name : {std::string(300, 's'), std::string("loop"), std::string(5000, 's')}) {
    const Result shown = Run("checkpoint show " + name);
    EXPECT_EQ(shown.exit_code, 3) << name;
    EXPECT_THAT(shown.err, HasSubstr("[JOB_NOT_FOUND]")) << name;
    EXPECT_LT(shown.err.size(), 4096u);
  }
}

TEST_F(AmpctlCheckpoint, AManifestThatIsCutOff_IsNoJson) {
  Write("ck/state.json", Slurp("ck/state.json").substr(0, 40));
  EXPECT_THAT(Run("checkpoint verify ck").err, HasSubstr("ck/state.json is not JSON, so it is not the manifest"));
}

TEST_F(AmpctlCheckpoint, AFileThatLeadsOutOfTheFolder_IsNoManifest) {
  manifest_.files["../secret"] = {std::string(64, '0'), 1};
  Write("ck/state.json", WriteManifest(manifest_));
  EXPECT_THAT(Run("checkpoint verify ck").err, HasSubstr("is not a manifest"));
}

TEST_F(AmpctlCheckpoint, AManifestWithNumbersOutOfRangeOrWithoutFiles_IsNone) {
  const std::string whole = Slurp("ck/state.json");
  CheckpointManifest empty = manifest_;
  empty.files.clear();
  const std::string attempt = absl::StrCat("\"attempt\":", manifest_.attempt);
  ASSERT_THAT(whole, HasSubstr(attempt));
  for (const std::string& text :
       {WriteManifest(empty), absl::StrReplaceAll(whole, {{attempt, "\"attempt\":4294967297"}}),
        absl::StrReplaceAll(whole, {{"\"step\":", "\"step\":9000000000000000000"}})}) {
    Write("ck/state.json", text);
    EXPECT_THAT(Run("checkpoint verify ck").err, HasSubstr("is not a manifest")) << text;
  }
}

TEST_F(AmpctlCheckpoint, Recorded_ComparesTheManifestWithTheServersRecord) {
  EXPECT_THAT(Run("checkpoint verify --recorded ck").out,
              HasSubstr("the manifest's SHA-256 is not the one that the server recorded"));
  EXPECT_EQ(Run("checkpoint verify --recorded ck").exit_code, 1);
  fake_.jobs.script()->manifest_sha256 = Sha256Hex(Slurp("ck/state.json"));
  const Result recorded = Run("checkpoint verify --recorded ck");
  EXPECT_EQ(recorded.exit_code, 0) << recorded.out;
  EXPECT_THAT(recorded.out, EndsWith("state.json             ok\n"));
}

TEST_F(AmpctlCheckpoint, AnExportedModel_HasTheTensorsAndTheMetadataThatTransformersAsksFor) {
  ASSERT_EQ(Run("checkpoint export ck out.safetensors").exit_code, 0);
  const std::string bytes = Slurp("out.safetensors");
  const auto file = ParseSafetensors(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const std::string model = Slurp("ck/model.safetensors");
  EXPECT_EQ(file->header.tensors, ParseSafetensors(model)->header.tensors);
  EXPECT_EQ(file->data, std::string(8, 'b') + std::string(24, 'w'));
  const Result again = Run("checkpoint export ck out.safetensors");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("out.safetensors already exists; write to another file"));
  EXPECT_EQ(Run("checkpoint export --force --averages ck out.safetensors").exit_code, 0);
  EXPECT_THAT(Slurp("out.safetensors"), EndsWith(std::string(8, 'b') + std::string(24, 'a')));
}

TEST_F(AmpctlCheckpoint, AnExportOfAJob_TakesTheFolderThatDevGaveTheCheckpoint) {
  v1::Job job = fake_.jobs.Add("trained", v1::Job::SUCCEEDED);
  job.clear_checkpoints();
  for (const auto& [step, loss] : {std::pair(20, 0.3), {30, 0.4}}) {
    v1::Checkpoint& checkpoint = *job.add_checkpoints();
    checkpoint.set_step(step);
    checkpoint.set_eval_loss(loss);
    checkpoint.set_path(absl::StrCat(job.id(), "/1/step-", step));
    checkpoint.set_worker("w1");
  }
  fake_.jobs.Put(job);
  WriteCheckpoint(absl::StrCat(folder_, "/.ampd/checkpoints/", job.id(), "/1/step-20"));
  const Result best = Run("checkpoint export trained@best best.safetensors");
  EXPECT_EQ(best.exit_code, 0) << best.err;
  EXPECT_THAT(best.out, HasSubstr("2 tensors from the checkpoint of step 20"));
  EXPECT_EQ(Run("checkpoint export trained@20 of-step.safetensors").exit_code, 0);
  EXPECT_THAT(Run("checkpoint export nothing out").err, HasSubstr("nothing is neither a folder here nor a job"));
  EXPECT_EQ(Run("checkpoint export trained@25 out").exit_code, 3);
  EXPECT_EQ(Run("checkpoint export trained@first out").exit_code, 2);
}

TEST_F(AmpctlCheckpoint, AnExportThatCantBeWritten_LeavesNothing) {
  const Result result = Run("checkpoint export ck no/such/out.safetensors");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such/out.safetensors cannot be written: the folder no/such does not exist"));
  // Simulate a full disk: the limit on file sizes is 0, and ignoring SIGXFSZ makes a write return an error.
  const Result full =
      Run("health >health; trap '' XFSZ; ulimit -f 0; " AMPD_BIN_DIR "/ampctl checkpoint export ck full");
  EXPECT_NE(full.exit_code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp."))) << entry.path();
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/full"));
  const Result folder = Run("checkpoint export --force ck ck");
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_THAT(folder.err, HasSubstr("ck is a folder; name a file"));
}

TEST_F(AmpctlCheckpoint, MissingAverages_AreAnError) {
  const std::string empty = SafetensorsOf({}, "");
  Write("ck/optimizer.safetensors", empty);
  manifest_.files["optimizer.safetensors"] = {Sha256Hex(empty), static_cast<int64_t>(empty.size())};
  Write("ck/state.json", WriteManifest(manifest_));
  const Result result = Run("checkpoint export --averages ck out.safetensors");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("optimizer.ema_decay was not set"));
}

}  // namespace
}  // namespace ampd::client
