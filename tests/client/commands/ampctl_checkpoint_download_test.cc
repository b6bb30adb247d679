#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/client/commands/checkpoint_fixture.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Tests with a job "clothes" that has a checkpoint of step 20. The fake server sends the checkpoint's files.
class AmpctlCheckpointDownload : public Ampctl {
 protected:
  void SetUp() override {
    WriteCheckpoint(folder_ + "/source");
    {
      auto script = fake_.jobs.script();
      for (const auto& entry : fs::directory_iterator(folder_ + "/source")) {
        script->checkpoint_files[entry.path().filename()] = *ReadFile(entry.path(), 1 << 20);
      }
    }
    v1::Job job = fake_.jobs.Add("clothes", v1::Job::SUCCEEDED);
    job.clear_checkpoints();
    v1::Checkpoint& checkpoint = *job.add_checkpoints();
    checkpoint.set_attempt(1);
    checkpoint.set_step(20);
    checkpoint.set_eval_loss(0.3);
    checkpoint.set_path(job.id() + "/1/step-20");
    checkpoint.set_worker("w1");
    checkpoint.set_manifest_sha256(Sha256Hex(Slurp("source/state.json")));
    fake_.jobs.Put(job);
    job_ = job;
  }
  std::string Slurp(const std::string& name) { return ReadFile(folder_ + "/" + name, 1 << 20).value_or("(none)"); }
  std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ + "/" + folder)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  std::vector<std::string> Requests() { return fake_.jobs.script()->file_requests; }

  v1::Job job_;
};

TEST_F(AmpctlCheckpointDownload, AFolderWithTheFilesOfTheCheckpoint_IsWritten) {
  const Result result = Run("checkpoint download clothes@best");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("clothes-step-20: checkpoint of step 20, attempt 1: 3 files, "));
  EXPECT_THAT(Names("clothes-step-20"),
              UnorderedElementsAre("state.json", "model.safetensors", "optimizer.safetensors"));
  EXPECT_EQ(Slurp("clothes-step-20/optimizer.safetensors"), Slurp("source/optimizer.safetensors"));
  EXPECT_EQ(Run("checkpoint verify clothes-step-20").exit_code, 0);
  // The second download finds a complete folder, so it reads only the manifest.
  fake_.jobs.script()->file_requests.clear();
  EXPECT_EQ(Run("checkpoint download clothes@20").exit_code, 0);
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0"));
  EXPECT_THAT(Run("checkpoint download clothes here -o json").out, HasSubstr("\"numFiles\": \"3\""));
}

TEST_F(AmpctlCheckpointDownload, AStepInPlaceOfTheFolder_IsRefused) {
  const Result folder = Run("checkpoint download clothes 20");
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.err,
              HasSubstr("to get the checkpoint of step 20: ampctl checkpoint download clothes@20; to write to a file"));
  EXPECT_FALSE(fs::exists(folder_ + "/20"));
  EXPECT_EQ(Run("checkpoint download clothes ./20").exit_code, 0);
  EXPECT_THAT(Run("checkpoint export clothes@best 20").err, HasSubstr("ampctl checkpoint export clothes@20"));
}

TEST_F(AmpctlCheckpointDownload, AMissingStep_IsAnsweredWithThoseThatThereAre) {
  EXPECT_THAT(Run("checkpoint download clothes@7").err,
              HasSubstr("has no checkpoint of step 7; the job has a checkpoint of step 20  [CHECKPOINT_NOT_FOUND]"));
  for (int64_t step = 40; step <= 260; step += 20) {
    job_.add_checkpoints()->set_step(step);
    fake_.jobs.Put(job_);
    if (step == 60) {
      EXPECT_THAT(Run("checkpoint download clothes@7").err,
                  HasSubstr("the job has checkpoints of the steps 20, 40 and 60  ["));
    }
  }
  EXPECT_THAT(Run("checkpoint download clothes@7").err,
              HasSubstr("the job has checkpoints at 13 steps, from step 20 to 260  ["));
}

TEST_F(AmpctlCheckpointDownload, AWorkerThatStopsInTheMiddle_IsResumedWhereItStopped) {
  fake_.jobs.script()->cut_files = 2;
  const Result result = Run("checkpoint download clothes ck");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0", "model.safetensors from 0", "model.safetensors from 10",
                                      "model.safetensors from 20", "optimizer.safetensors from 0"));
  EXPECT_EQ(Run("checkpoint verify ck").exit_code, 0);
}

TEST_F(AmpctlCheckpointDownload, APartialFileOfAnotherContent_IsDownloadedAnew) {
  fs::create_directory(folder_ + "/ck");
  Write("ck/model.safetensors.partial", "something else");
  Write("ck/optimizer.safetensors.partial", std::string(1000, 'x'));  // longer than the checkpoint's file
  const Result result = Run("checkpoint download clothes ck");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Run("checkpoint verify ck").exit_code, 0);
  EXPECT_THAT(Names("ck"), UnorderedElementsAre("state.json", "model.safetensors", "optimizer.safetensors"));
}

TEST_F(AmpctlCheckpointDownload, DamagedFiles_AreRefused) {
  fake_.jobs.script()->checkpoint_files["model.safetensors"].back() ^= 1;
  const Result file = Run("checkpoint download clothes ck");
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.err, HasSubstr("ck/model.safetensors: the downloaded content has the SHA-256 "));
  EXPECT_TRUE(Names("ck").empty());
  fake_.jobs.script()->checkpoint_files["state.json"] += " ";
  const Result manifest = Run("checkpoint download clothes other");
  EXPECT_EQ(manifest.exit_code, 1);
  EXPECT_THAT(manifest.err, HasSubstr("the checkpoint's state.json: the downloaded content has the SHA-256 "));
  EXPECT_FALSE(fs::exists(folder_ + "/other"));
}

TEST_F(AmpctlCheckpointDownload, AFolderWithOtherFiles_IsLeftAlone) {
  fs::create_directory(folder_ + "/thesis");
  Write("thesis/chapter-1.tex", "text");
  const Result result = Run("checkpoint download clothes thesis");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("thesis has files that are not of this checkpoint, such as chapter-1.tex; name "
                                    "another folder"));
  fs::create_directory(folder_ + "/ck");
  Write("ck/state.json", "{}");
  EXPECT_THAT(Run("checkpoint download clothes ck").err, HasSubstr("ck holds another checkpoint; name another folder"));
  const Result to_stdout = Run("checkpoint download clothes -");
  EXPECT_EQ(to_stdout.exit_code, 2);
  EXPECT_THAT(to_stdout.err,
              HasSubstr("a checkpoint is several files, which cannot be written to stdout; name a folder"));
  Write("file", "");
  EXPECT_THAT(Run("checkpoint download clothes file").err, HasSubstr("file"));
  EXPECT_EQ(Run("checkpoint download clothes file").exit_code, 1);
}

TEST_F(AmpctlCheckpointDownload, AFileOfTheUserWithTheNameOfACheckpointFile_IsKept) {
  fs::create_directory(folder_ + "/saved");
  ASSERT_EQ(Run("checkpoint export clothes@best saved/model.safetensors --averages").exit_code, 0);
  const std::string averages = Slurp("saved/model.safetensors");
  const Result result = Run("checkpoint download clothes@20 saved");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("saved/model.safetensors exists and is not the file of this checkpoint; name another "
                        "folder, or move it away\n"));
  EXPECT_EQ(Slurp("saved/model.safetensors"), averages);
  EXPECT_THAT(Names("saved"), ElementsAre("model.safetensors"));
}

TEST_F(AmpctlCheckpointDownload, AnInterruptedDownload_KeepsTheFilesThatAreComplete) {
  fs::create_directory(folder_ + "/ck");
  Write("ck/model.safetensors", Slurp("source/model.safetensors"));
  Write("ck/optimizer.safetensors.partial", Slurp("source/optimizer.safetensors").substr(0, 10));
  const Result result = Run("checkpoint download clothes ck");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0", "optimizer.safetensors from 10"));
  EXPECT_EQ(Run("checkpoint verify ck").exit_code, 0);
}

TEST_F(AmpctlCheckpointDownload, ADamagedFileOfACompleteDownload_IsReplaced) {
  ASSERT_EQ(Run("checkpoint download clothes ck").exit_code, 0);
  Write("ck/model.safetensors", "damaged");
  EXPECT_EQ(Run("checkpoint download clothes ck").exit_code, 0);
  EXPECT_EQ(Run("checkpoint verify ck").exit_code, 0);
}

TEST_F(AmpctlCheckpointDownload, WithoutTheWorker_TheErrorComesAtOnce) {
  fake_.jobs.script()->refuse_files =
      Error(absl::StatusCode::kUnavailable, "WORKER_UNREACHABLE", "no worker that has the files is connected");
  const Result result = Run("checkpoint download clothes");
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no worker that has the files is connected  [WORKER_UNREACHABLE]"));
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0"));
  EXPECT_FALSE(fs::exists(folder_ + "/clothes-step-20"));
}

TEST_F(AmpctlCheckpointDownload, AnExportOfAJob_DownloadsOnlyWhatItNeeds) {
  const Result result = Run("checkpoint export clothes@best model.safetensors");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 tensors from the checkpoint of step 20"));
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0", "model.safetensors from 0"));
  fake_.jobs.script()->file_requests.clear();
  EXPECT_EQ(Run("checkpoint export --averages --force clothes model.safetensors").exit_code, 0);
  EXPECT_THAT(Requests(), ElementsAre("state.json from 0", "model.safetensors from 0", "optimizer.safetensors from 0"));
  // If the file to write exists, ampctl downloads nothing and leaves no temporary files behind.
  fake_.jobs.script()->file_requests.clear();
  EXPECT_EQ(Run("checkpoint export clothes model.safetensors").exit_code, 1);
  EXPECT_TRUE(Requests().empty());
  EXPECT_THAT(Names("."), UnorderedElementsAre("source", "model.safetensors", "out", "err"));
}

}  // namespace
}  // namespace ampd::client
