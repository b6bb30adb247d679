#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AmpctlArtifact : public Ampctl {
 protected:
  // Returns 2.5 MB of content in which no part repeats, so that a piece at a wrong offset changes the content.
  static std::string Content() {
    std::string content;
    for (int i = 0; content.size() < 2'500'000; ++i) {
      absl::StrAppend(&content, i, " ");
    }
    return content;
  }
  std::string Read(const std::string& name) { return ReadFile(folder_ + "/" + name, 1 << 24).value_or("none"); }
  bool IsThere(const std::string& name) { return std::filesystem::exists(folder_ + "/" + name); }

  const std::string content_ = Content();
  const std::string digest_ = Sha256Hex(content_);
};

TEST_F(AmpctlArtifact, AnUploadThatBreaksOff_ResumesWhereTheServerLostIt) {
  Write("model.pt2", content_);
  fake_.artifacts.SetScript({.cut_uploads = 2, .cut_after = 1'100'000});
  const Result result = Run("artifact upload model.pt2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, digest_ + "  uploaded, 2.4 MiB\n");
  EXPECT_EQ(fake_.artifacts.Content(digest_), content_);
  EXPECT_THAT(fake_.artifacts.TakeScript().upload_offsets, ElementsAre(0, 1'100'000, 2'200'000));
}

TEST_F(AmpctlArtifact, AnUploadedFileThatIsNoModel_IsNoted) {
  Write("job.yaml", "name: x\n");
  Write("model.pt2", "PK\x03\x04 and more");
  EXPECT_THAT(Run("artifact upload job.yaml").err,
              StartsWith("note: job.yaml is not a torch.export file (.pt2), so no job can train it; data belongs in a "
                         "data root of a worker (docs/data.md); to remove the upload: ampctl artifact delete "));
  EXPECT_EQ(Run("artifact upload model.pt2").err, "");
}

// The file to upload is sparse. It takes no disk space, but reading it would take minutes.
TEST_F(AmpctlArtifact, AnInterruptEndsTheReadingOfAFile) {
  Write("large", "");
  std::filesystem::resize_file(folder_ + "/large", uintmax_t{1} << 39);
  const Result result =
      Run("artifact upload large", "AMPD_ADDRESS=" + fake_.address() + " timeout --preserve-status -s INT -k 20 1");
  EXPECT_EQ(result.exit_code, 130) << result.err;
}

TEST_F(AmpctlArtifact, WhatTheServerHasIsNotSent) {
  Write("model.pt2", content_);
  fake_.artifacts.Add(content_);
  EXPECT_EQ(Run("artifact upload model.pt2 -o name").out, digest_ + "\n");
  EXPECT_THAT(fake_.artifacts.TakeScript().upload_offsets, ElementsAre());
}

TEST_F(AmpctlArtifact, APartialUploadOfOtherContent_StartsOver) {
  Write("model.pt2", content_);
  fake_.artifacts.AddPartial(digest_, "something else");
  const Result result = Run("artifact upload model.pt2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fake_.artifacts.Content(digest_), content_);
  EXPECT_THAT(fake_.artifacts.TakeScript().upload_offsets, ElementsAre(14, 0));
}

TEST_F(AmpctlArtifact, ADownloadThatBreaksOff_ResumesWhereTheServerLostIt) {
  fake_.artifacts.Add(content_);
  fake_.artifacts.SetScript({.cut_downloads = 2, .cut_after = 1'000'000});
  const Result result = Run("artifact download " + digest_ + " back");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Read("back"), content_);
  EXPECT_THAT(fake_.artifacts.TakeScript().download_offsets, ElementsAre(0, 1'000'000, 2'000'000));
}

TEST_F(AmpctlArtifact, ADownloadThatWasGivenUp_IsResumedByTheNext) {
  fake_.artifacts.Add(content_);
  const std::string partial = "back." + digest_.substr(0, 12) + ".partial";
  Write(partial, content_.substr(0, 1000));
  EXPECT_EQ(Run("artifact download " + digest_ + " back").exit_code, 0);
  EXPECT_THAT(fake_.artifacts.TakeScript().download_offsets, ElementsAre(1000));
  EXPECT_EQ(Read("back"), content_);
  EXPECT_FALSE(IsThere(partial));
  Write(partial, "something else");
  EXPECT_EQ(Run("artifact download --force " + digest_ + " back").exit_code, 0);
  EXPECT_EQ(Read("back"), content_);
  EXPECT_THAT(fake_.artifacts.TakeScript().download_offsets, ElementsAre(1000, 14, 0));
}

TEST_F(AmpctlArtifact, ADownloadToStdout_IsTheContentAndResumesWhereTheServerLostIt) {
  fake_.artifacts.Add(content_);
  fake_.artifacts.SetScript({.cut_downloads = 1, .cut_after = 1'000'000});
  const Result result = Run("artifact download " + digest_ + " -");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Sha256Hex(result.out), digest_);
  EXPECT_THAT(fake_.artifacts.TakeScript().download_offsets, ElementsAre(0, 1'000'000));
  EXPECT_FALSE(IsThere("-"));
}

TEST_F(AmpctlArtifact, StdoutHasTheContentOrTheDescriptionNeverBoth) {
  fake_.artifacts.Add(content_);
  for (const char* format : {"json", "yaml", "jsonl"}) {
    const Result result = Run(absl::StrCat("artifact download ", digest_, " - -o ", format));
    EXPECT_EQ(result.exit_code, 2) << format;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("-o ", format)));
  }
  EXPECT_EQ(Run("artifact download " + digest_ + " ./- -o json").exit_code, 0);
  EXPECT_EQ(Read("-"), content_);
}

TEST_F(AmpctlArtifact, TheArtifactsOwnFileName_IsUsedOnlyIfItIsHarmless) {
  fake_.artifacts.Add(content_, "../up/model.pt2");
  EXPECT_EQ(Run("artifact download " + digest_).exit_code, 0);
  EXPECT_EQ(Read("model.pt2"), content_);
  for (const std::string name : {".bashrc", "folder/.ssh", "-rf", "--help"}) {
    fake_.artifacts.Add(content_, name);
    const Result result = Run("artifact download " + digest_);
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("so it is not used; name the file to write")) << name;
    EXPECT_FALSE(IsThere(name)) << name;
  }
  EXPECT_EQ(Run("artifact download " + digest_ + " .bashrc").exit_code, 0) << "the user named it";
  EXPECT_EQ(Read(".bashrc"), content_);
}

TEST_F(AmpctlArtifact, ARefusalNamesTheFileAndKeepsItsReason) {
  Write("model.pt2", content_);
  FakeArtifacts::Script script;
  script.refusal = Error(absl::StatusCode::kResourceExhausted, "ARTIFACT_QUOTA", "the content needs 3 bytes more");
  fake_.artifacts.SetScript(script);
  const Result result = Run("artifact upload model.pt2");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("error: model.pt2: the content needs 3 bytes more  [ARTIFACT_QUOTA]\n"));
  EXPECT_THAT(result.err, HasSubstr("ampctl artifact delete"));
}

TEST_F(AmpctlArtifact, AnErrorOfTheServer_IsPrintedAsItsOwn) {
  fake_.artifacts.Add(content_);
  FakeArtifacts::Script script;
  script.refusal = Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down");
  fake_.artifacts.SetScript(script);
  EXPECT_EQ(Run("artifact delete --yes " + digest_).err,
            "error: the server is shutting down  [SHUTTING_DOWN]\n  try: wait a while, then repeat the command\n");
}

TEST_F(AmpctlArtifact, AJobWithoutSamples_DiffersFromAMissingJob) {
  Write("job.yaml", "name: x\nmodel: {mlp: {}}\ndata: {batch_size: 4}\n");
  std::string id = Run("job submit -q -f job.yaml").out;
  id = id.substr(0, id.find('\n'));
  const Result none = Run("artifact list --job " + id);
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_EQ(none.err, "job " + id +
                          " has no files yet: samples, profiles and predictions would be listed here, and its "
                          "checkpoints are in: ampctl checkpoint list " +
                          id + "\n");
  EXPECT_EQ(Run("artifact list --job nobodys").exit_code, 3);
}

TEST_F(AmpctlArtifact, AnExistingFile_IsNotReplaced) {
  fake_.artifacts.Add(content_);
  Write("back", "mine");
  const Result result = Run("artifact download " + digest_ + " back");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("back already exists; write to another file, or use --force to replace this one"));
  EXPECT_EQ(Read("back"), "mine");
}

TEST_F(AmpctlArtifact, AnError_IsOneLine) {
  Write("empty", "");
  EXPECT_THAT(Run("artifact upload empty").err, HasSubstr("empty: is empty"));
  EXPECT_THAT(Run("artifact upload .").err, HasSubstr(". is a folder; name a file\n"));
  EXPECT_EQ(Run("artifact upload nowhere").exit_code, 3);
  for (const std::string& command :
       {"download " + digest_, "delete --yes " + digest_, std::string("download j-1/step-1/text.txt")}) {
    const Result result = Run("artifact " + command);
    EXPECT_EQ(result.exit_code, 3) << command << result.err;
    EXPECT_THAT(result.err, HasSubstr("ampctl artifact list"));
  }
  fake_.artifacts.Add(content_);
  EXPECT_THAT(Run("artifact delete " + digest_ + " </dev/null").err, HasSubstr("ampctl artifact delete --yes"));
  EXPECT_EQ(Run("artifact delete --yes " + digest_).out, digest_ + "  deleted\n");
}

TEST_F(AmpctlArtifact, AModelOfThisMachineIsUploadedByASubmit) {
  std::filesystem::create_directories(folder_ + "/jobs");
  const std::string model = "PK\x03\x04 net/archive_format " + content_;
  const std::string digest = Sha256Hex(model);
  Write("model.pt2", model);
  Write("jobs/job.yaml", "name: x\nmodel: {exported: {path: ../model.pt2}}\ndata: {batch_size: 4}\n");
  const Result dry = Run("job submit -f jobs/job.yaml --dry-run");
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr(digest));
  EXPECT_THAT(dry.err, HasSubstr("model.pt2 (2.4 MiB) is not on the server; ampctl job submit uploads it when it"));
  EXPECT_EQ(fake_.artifacts.Content(digest), "none");
  const Result submitted = Run("job submit -q -f jobs/job.yaml");
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string job = Run("job show -o json " + submitted.out.substr(0, submitted.out.find('\n'))).out;
  EXPECT_THAT(job, HasSubstr("\"artifact\": \"" + digest + "\""));
  EXPECT_EQ(job.find("model.pt2"), std::string::npos);
  EXPECT_EQ(fake_.artifacts.Content(digest), model);
  Write("jobs/job.yaml", "name: x\nmodel: {exported: {path: ./nowhere.pt2}}\ndata: {batch_size: 4}\n");
  const Result missing = Run("job submit -f jobs/job.yaml");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("jobs/nowhere.pt2"));
}

TEST_F(AmpctlArtifact, AFileThatIsNoModel_IsNotUploadedByASubmit) {
  Write("text.pt2", "root:x:0:0\n");
  Write("weights.pt2", "PK\x03\x04 weights/data.pkl");
  Write("large.pt2", "PK\x03\x04" + content_ + "net/archive_format");
  const std::pair<const char*, const char*> cases[] = {
      {"text.pt2", "text.pt2 is not a .pt2 file (torch.export writes a ZIP archive); nothing was uploaded\n"},
      {"weights.pt2", "weights.pt2 is a ZIP archive, but torch.export did not write it; "}};
  for (const auto& [name, words] : cases) {
    Write("job.yaml", absl::StrCat("name: x\nmodel: {exported: {path: ./", name, "}}\ndata: {batch_size: 4}\n"));
    for (const char* command : {"job submit -f job.yaml", "job submit -f job.yaml --dry-run", "estimate -f job.yaml"}) {
      const Result result = Run(command);
      EXPECT_EQ(result.exit_code, 2) << command;
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat("error: job.yaml:2:20: model.exported.path: ", words))) << command;
    }
  }
  EXPECT_THAT(fake_.artifacts.TakeScript().upload_offsets, ElementsAre());
  Write("job.yaml", "name: x\nmodel: {exported: {path: ./large.pt2}}\ndata: {batch_size: 4}\n");
  EXPECT_EQ(Run("job submit -f job.yaml").exit_code, 0) << "an archive whose list of files is at its end";
}

TEST_F(AmpctlArtifact, APathInADataRoot_IsLeftToTheWorker) {
  Write("job.yaml", "name: x\nmodel: {exported: {path: root/model.pt2}}\ndata: {batch_size: 4}\n");
  const std::string id = Run("job submit -q -f job.yaml").out;
  EXPECT_THAT(Run("job show -o json " + id.substr(0, id.find('\n'))).out, HasSubstr("\"path\": \"root/model.pt2\""));
}

}  // namespace
}  // namespace ampd::client
