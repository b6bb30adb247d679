#include "server/artifacts/artifact_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/io/sqlite.h"
#include "base/simulated_clock.h"
#include "server/artifacts/artifact_download.h"
#include "tests/base/faulty_vfs.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::UploadArtifactRequest First(const std::string& content, int64_t offset = 0) {
  v1::UploadArtifactRequest request;
  request.set_file_name("model.pt2");
  request.set_sha256(Sha256Hex(content));
  request.set_size_bytes(static_cast<int64_t>(content.size()));
  request.set_offset_bytes(offset);
  return request;
}

v1::Sample SampleOf(int64_t step, const std::string& file_name, const std::string& content) {
  v1::Sample sample;
  sample.set_step(step);
  sample.set_file_name(file_name);
  sample.set_media_type("text/plain");
  sample.set_content(content);
  return sample;
}

// Returns a status as text: its code, and the fields that it calls invalid or else its reason.
// "INVALID_ARGUMENT sha256,size_bytes", "ABORTED OFFSET_MISMATCH", "OK".
std::string Told(const absl::Status& status) {
  if (status.ok()) {
    return "OK";
  }
  const std::vector<FieldViolation> violations = ViolationsOf(status);
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ",
                      violations.empty()
                          ? ReasonOf(status)
                          : absl::StrJoin(violations, ",", [](std::string* out, const FieldViolation& v) {
                              absl::StrAppend(out, v.field);
                            }));
}

class ArtifactStoreTest : public testing::Test {
 protected:
  ArtifactStoreTest() { Reopen(); }

  absl::Status TryReopen() {
    store_.reset();
    ArtifactStore::Options options;
    options.folder = folder_.Path("artifacts");
    options.index_path = folder_.Path("artifacts.db");
    options.clock = &clock_;
    options.quota_bytes = quota_bytes_;
    options.max_tenant_partials = max_tenant_partials_;
    options.max_partials = max_partials_;
    options.tenant_quota = [this](const std::string&) { return tenant_quota_; };
    options.live_uploads = [this] { return live_; };
    options.retention = retention_;
    options.clock_is_steady = [this] { return clock_is_steady_; };
    options.on_repair = [this](const std::string& what, const std::string& artifact) {
      repairs_.push_back(absl::StrCat(what, ": ", artifact));
    };
    options.job_exists = [this](const std::string& job) { return jobs_.contains(job); };
    auto store = ArtifactStore::Open(std::move(options));
    absl::Status status = store.status();
    if (store.ok()) {
      store_ = *std::move(store);
    }
    return status;
  }
  void Reopen() { ASSERT_TRUE(TryReopen().ok()); }

  absl::StatusOr<ArtifactStore::Begun> Begin(const v1::UploadArtifactRequest& request) {
    return store_->BeginUpload(tenant_, request);
  }
  // Uploads the whole content at once.
  absl::Status Upload(const std::string& content) {
    auto begun = store_->BeginUpload(tenant_, First(content));
    if (!begun.ok() || begun->artifact.has_value()) {
      return begun.status();
    }
    if (absl::Status appended = begun->upload->Append(content); !appended.ok()) {
      return appended;
    }
    return begun->upload->Finish().status();
  }
  // Uploads only the bytes from `begin` to `end` and does not finish the upload.
  void UploadPart(const std::string& content, size_t begin, size_t end) {
    auto begun = store_->BeginUpload(tenant_, First(content, static_cast<int64_t>(begin)));
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_TRUE(begun->upload->Append(std::string_view(content).substr(begin, end - begin)).ok());
  }
  // Returns how much of the content the store has: "7" for a part of 7 bytes, or "whole".
  std::string Received(const std::string& content) {
    auto upload = store_->GetUpload(tenant_, Sha256Hex(content));
    return !upload.ok()             ? Told(upload.status())
           : upload->has_artifact() ? "whole"
                                    : absl::StrCat(upload->received_bytes());
  }
  absl::StatusOr<std::string> Content(const std::string& name, int64_t offset = 0) {
    v1::DownloadArtifactRequest request;
    request.set_name(name);
    request.set_offset_bytes(offset);
    ArtifactDownload download(store_.get(), Tenants({tenant_}), request, [] { return false; });
    std::string content;
    for (;;) {
      ArtifactDownload::Step step = download.Next();
      if (step.kind == ArtifactDownload::Step::END) {
        return step.status.ok() ? absl::StatusOr<std::string>(content) : step.status;
      }
      content += step.message.content();
    }
  }
  std::vector<std::string> Names(const std::string& job = "") {
    v1::ListArtifactsRequest request;
    request.set_job_id(job);
    auto listed = store_->List(Tenants({tenant_}), request, 100);
    std::vector<std::string> names;
    for (const v1::Artifact& artifact : listed->artifacts()) {
      names.push_back(artifact.name());
    }
    return names;
  }
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.Path("artifacts"))) {
      files.push_back(entry.path().filename().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::string FileOf(const std::string& content) { return folder_.Path("artifacts/" + Sha256Hex(content)); }

  TemporaryFolder folder_;
  SimulatedClock clock_;
  std::string tenant_ = "default";  // The tenant of all calls in a test.
  int64_t quota_bytes_ = 1 << 20;
  size_t max_tenant_partials_ = 1000;
  size_t max_partials_ = 1000;
  std::optional<int64_t> tenant_quota_;  // Of every tenant.
  absl::Duration retention_ = absl::Hours(24 * 30);
  bool clock_is_steady_ = true;
  std::map<std::string, std::string> live_;
  std::set<std::string> jobs_ = {"j-1", "j-2"};
  std::vector<std::string> repairs_;  // What Open has repaired, as "what: artifact".
  std::unique_ptr<ArtifactStore> store_;
};

TEST_F(ArtifactStoreTest, AnUploadIsKeptOverARestart) {
  EXPECT_EQ(Told(Upload("content")), "OK");
  Reopen();
  auto artifact = store_->Find(Tenants({tenant_}), Sha256Hex("content"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->name(), Sha256Hex("content"));
  EXPECT_EQ(artifact->sha256(), Sha256Hex("content"));
  EXPECT_EQ(artifact->size_bytes(), 7);
  EXPECT_EQ(artifact->file_name(), "model.pt2");
  EXPECT_EQ(artifact->create_time().seconds(), absl::ToUnixSeconds(clock_.Now()));
  EXPECT_EQ(*Content(Sha256Hex("content")), "content");
  EXPECT_EQ(store_->num_bytes(), 7);
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("content")));
}

TEST_F(ArtifactStoreTest, AnUploadGoesOnWhereItBrokeOff_AlsoAfterARestart) {
  UploadPart("0123456789", 0, 3);
  EXPECT_EQ(Received("0123456789"), "3");
  UploadPart("0123456789", 3, 5);
  Reopen();
  EXPECT_EQ(Received("0123456789"), "5");
  EXPECT_EQ(store_->num_bytes(), 5);
  auto begun = Begin(First("0123456789", 5));
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(begun->upload->Append("56789").ok());
  ASSERT_TRUE(begun->upload->Finish().ok());
  EXPECT_EQ(*Content(Sha256Hex("0123456789")), "0123456789");
  EXPECT_EQ(store_->num_bytes(), 10);
}

TEST_F(ArtifactStoreTest, AContentThatIsThereIsNotTakenAgain) {
  EXPECT_EQ(Told(Upload("content")), "OK");
  EXPECT_EQ(Received("content"), "whole");
  auto begun = Begin(First("content"));
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->upload, nullptr);
  EXPECT_EQ(begun->artifact->name(), Sha256Hex("content"));
  v1::UploadArtifactRequest other_size = First("content");
  other_size.set_size_bytes(8);
  EXPECT_EQ(Told(Begin(other_size).status()), "INVALID_ARGUMENT size_bytes");
}

TEST_F(ArtifactStoreTest, EachMalformedRequestIsToldByField) {
  const auto told = [&](const std::function<void(v1::UploadArtifactRequest*)>& change) {
    v1::UploadArtifactRequest request = First("content");
    change(&request);
    return Told(Begin(request).status());
  };
  EXPECT_EQ(told([](auto* r) { r->clear_sha256(); }), "INVALID_ARGUMENT sha256");
  EXPECT_EQ(told([](auto* r) { r->set_sha256(std::string(63, '0')); }), "INVALID_ARGUMENT sha256");
  EXPECT_EQ(told([](auto* r) { r->set_sha256(std::string(64, 'A')); }), "INVALID_ARGUMENT sha256");
  EXPECT_EQ(told([](auto* r) { r->set_sha256("../" + std::string(61, '0')); }), "INVALID_ARGUMENT sha256");
  EXPECT_EQ(told([](auto* r) { r->set_size_bytes(0); }), "INVALID_ARGUMENT size_bytes");
  EXPECT_EQ(told([](auto* r) { r->set_offset_bytes(-1); }), "INVALID_ARGUMENT offset_bytes");
  EXPECT_EQ(told([](auto* r) { r->set_file_name("a/b"); }), "INVALID_ARGUMENT file_name");
  EXPECT_EQ(told([](auto* r) { r->set_offset_bytes(2); }), "ABORTED OFFSET_MISMATCH");
  EXPECT_EQ(Told(store_->GetUpload(tenant_, "x").status()), "INVALID_ARGUMENT sha256");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ArtifactStoreTest, ContentThatIsNotAsAnnouncedIsRefused) {
  auto longer = Begin(First("content"));
  EXPECT_EQ(Told(longer->upload->Append("contents")), "INVALID_ARGUMENT content");
  EXPECT_EQ(Told(longer->upload->Append(std::string(ArtifactUpload::kMaxPieceBytes + 1, 'x'))),
            "INVALID_ARGUMENT content");
  EXPECT_EQ(Told(longer->upload->Append("con")), "OK");
  EXPECT_EQ(Told(longer->upload->Finish().status()), "INVALID_ARGUMENT INCOMPLETE_UPLOAD");
  EXPECT_EQ(Received("content"), "3");
  auto other = Begin(First("content", 3));
  EXPECT_EQ(Told(other->upload->Append("TENT")), "OK");
  EXPECT_EQ(Told(other->upload->Finish().status()), "INVALID_ARGUMENT DIGEST_MISMATCH");
  EXPECT_EQ(Received("content"), "0");
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store_->num_bytes(), 0);
}

TEST_F(ArtifactStoreTest, ANewerUploadOfAContentTakesOver) {
  auto older = Begin(First("content"));
  ASSERT_TRUE(older->upload->Append("con").ok());
  auto newer = Begin(First("content", 3));
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(Told(older->upload->Append("XXXX")), "ABORTED UPLOAD_TAKEN_OVER");
  ASSERT_TRUE(newer->upload->Append("tent").ok());
  EXPECT_TRUE(newer->upload->Finish().ok());
  EXPECT_EQ(Told(older->upload->Finish().status()), "INVALID_ARGUMENT INCOMPLETE_UPLOAD");
}

// To finish an upload, the store reads the file back. Here the file is a pipe, so the reading blocks until the test
// writes into the pipe.
TEST_F(ArtifactStoreTest, WhileAContentIsReadBackAnotherUploadOfItIsToldToComeAgain) {
  auto begun = Begin(First("content"));
  ASSERT_TRUE(begun->upload->Append("content").ok());
  const std::string partial = FileOf("content") + ".partial";
  ASSERT_EQ(unlink(partial.c_str()), 0);
  ASSERT_EQ(mkfifo(partial.c_str(), 0600), 0);
  std::thread finishing([&] { EXPECT_EQ(Told(begun->upload->Finish().status()), "OK"); });
  UniqueFd pipe(open(partial.c_str(), O_WRONLY | O_CLOEXEC));
  const absl::Status busy = Begin(First("content", 7)).status();
  EXPECT_EQ(Told(busy), "UNAVAILABLE UPLOAD_BUSY");
  EXPECT_TRUE(RetryDelayOf(busy).has_value());
  EXPECT_TRUE(WriteAll(pipe.get(), "content").ok());
  pipe.Reset();
  finishing.join();
  EXPECT_EQ(Begin(First("content"))->artifact->name(), Sha256Hex("content"));
}

TEST_F(ArtifactStoreTest, WhateverThreadsDoAtOnceNamesFilesAndBytesAgree) {
  constexpr int kNumRounds = 40;
  const std::vector<std::string> contents = {"one", "another", std::string(100'000, 'x')};
  const auto upload = [&](const std::string& content) -> absl::Status {
    const auto there = store_->GetUpload(tenant_, Sha256Hex(content));
    if (!there.ok() || there->has_artifact()) {
      return there.status();
    }
    auto begun = Begin(First(content, there->received_bytes()));
    if (!begun.ok() || begun->artifact.has_value()) {
      return begun.status();
    }
    for (auto at = static_cast<size_t>(there->received_bytes()); at < content.size(); at += 30'000) {
      if (absl::Status taken = begun->upload->Append(content.substr(at, 30'000)); !taken.ok()) {
        return taken;
      }
    }
    return begun->upload->Finish().status();
  };
  const auto repeat = [&](const std::function<absl::Status(int round, const std::string& content)>& work) {
    return std::thread([&contents, work] {
      for (int round = 0; round < kNumRounds; ++round) {
        const absl::Status status = work(round, contents[static_cast<size_t>(round) % contents.size()]);
        EXPECT_TRUE(status.ok() || absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsNotFound(status))
            << status;
      }
    });
  };
  const auto upload_one = [&](int, const std::string& content) { return upload(content); };
  const auto put_sample = [&](int round, const std::string& content) {
    return store_->PutSample(tenant_, "j-1", round, SampleOf(round % 5, "a.txt", content));
  };
  std::vector<std::thread> threads;
  threads.push_back(repeat(upload_one));
  threads.push_back(repeat(upload_one));
  threads.push_back(repeat(put_sample));
  threads.push_back(repeat(put_sample));
  threads.push_back(
      repeat([&](int, const std::string& content) { return store_->Delete(Tenants({tenant_}), Sha256Hex(content)); }));
  threads.push_back(repeat([&](int, const std::string&) { return store_->Sweep(); }));
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::set<std::string> expected;
  for (const std::string& name : Names()) {
    expected.insert(store_->Find(Tenants({tenant_}), name)->sha256());
  }
  int64_t num_bytes = 0;
  for (const std::string& content : contents) {
    if (const std::string received = Received(content); received != "whole" && received != "0") {
      expected.insert(Sha256Hex(content) + ".partial");
    }
  }
  for (const std::string& file : Files()) {
    num_bytes += static_cast<int64_t>(std::filesystem::file_size(folder_.Path("artifacts/" + file)));
  }
  EXPECT_THAT(Files(), testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(store_->num_bytes(), num_bytes);
  Reopen();
  EXPECT_EQ(store_->num_bytes(), num_bytes);
}

TEST_F(ArtifactStoreTest, WhatIsMoreThanTheQuotaLeavesIsRefusedBeforeItComes) {
  quota_bytes_ = 10;
  Reopen();
  EXPECT_EQ(Told(Upload("12345678")), "OK");
  const absl::Status refused = Begin(First("abc")).status();
  EXPECT_EQ(Told(refused), "RESOURCE_EXHAUSTED ARTIFACT_QUOTA");
  EXPECT_EQ(
      refused.message(),
      "the content needs 3 bytes more, and the server's quota for artifacts, 10 bytes, has less left: delete some");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a.txt", "abc"))),
            "RESOURCE_EXHAUSTED ARTIFACT_QUOTA");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a.txt", "ab"))), "OK");
  ASSERT_TRUE(store_->Delete(Tenants({tenant_}), Sha256Hex("12345678")).ok());
  auto one = Begin(First("aaaaaaaa"));
  auto two = Begin(First("bbbbbbbb"));
  ASSERT_TRUE(one->upload->Append("aaaaaaaa").ok());
  EXPECT_EQ(Told(two->upload->Append("bbbbbbbb")), "RESOURCE_EXHAUSTED ARTIFACT_QUOTA");
}

TEST_F(ArtifactStoreTest, AnUploadWithoutContentMakesNoFile) {
  auto begun = Begin(First("content"));
  ASSERT_TRUE(begun.ok());
  EXPECT_TRUE(begun->upload->Append("").ok());
  EXPECT_THAT(Files(), IsEmpty());
  ASSERT_TRUE(begun->upload->Append("content").ok());
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("content") + ".partial"));
  EXPECT_TRUE(begun->upload->Finish().ok());
}

TEST_F(ArtifactStoreTest, UploadsThatAreNotCompleteAreLimited_PerTenantAndTogether) {
  max_tenant_partials_ = 3;
  max_partials_ = 5;
  Reopen();
  const auto begin = [this](const std::string& tenant, const std::string& content) {
    return Told(store_->BeginUpload(tenant, First(content)).status());
  };
  for (const char* content : {"one", "two", "three"}) {
    EXPECT_EQ(begin("default", content), "OK");
  }
  const absl::Status refused = Begin(First("four")).status();
  EXPECT_EQ(Told(refused), "RESOURCE_EXHAUSTED TOO_MANY_UPLOADS");
  EXPECT_THAT(refused.message(), HasSubstr("the tenant default already has 3 uploads"));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  EXPECT_EQ(begin("default", "two"), "OK") << "an upload may begin again";
  EXPECT_EQ(begin("abc", "one"), "OK");
  EXPECT_EQ(begin("vision", "one"), "OK");
  EXPECT_EQ(begin("vision", "two"), "RESOURCE_EXHAUSTED TOO_MANY_UPLOADS");
  EXPECT_EQ(Told(Upload("one")), "OK");
  EXPECT_EQ(begin("vision", "two"), "OK") << "an upload of another tenant is complete";
  clock_.Advance(absl::Hours(25));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(begin("default", "four"), "OK");
}

TEST_F(ArtifactStoreTest, UploadsThatAreNotCompleteCountTowardsTheLimitOfTheirTenantOnly) {
  tenant_quota_ = 10;
  EXPECT_EQ(Told(Begin(First("12345678")).status()), "OK");
  EXPECT_EQ(Told(Begin(First("abc")).status()), "RESOURCE_EXHAUSTED TENANT_LIMIT");
  for (const char* tenant : {"abc", "vision", "vision-2"}) {
    tenant_ = tenant;
    EXPECT_EQ(Told(Begin(First("12345678")).status()), "OK");
    EXPECT_EQ(Told(Begin(First("abc")).status()), "RESOURCE_EXHAUSTED TENANT_LIMIT");
    EXPECT_EQ(Told(Begin(First("12345678")).status()), "OK") << "the same upload begins again";
  }
}

TEST_F(ArtifactStoreTest, ADownloadBeginsAtItsOffset) {
  const std::string content(300'000, 'x');
  ASSERT_TRUE(Upload(content + "end").ok());
  const std::string name = Sha256Hex(content + "end");
  EXPECT_EQ(*Content(name), content + "end");
  EXPECT_EQ(*Content(name, 300'000), "end");
  EXPECT_EQ(*Content(name, 300'003), "");
  EXPECT_EQ(Told(Content(name, 300'004).status()), "INVALID_ARGUMENT offset_bytes");
  EXPECT_EQ(Told(Content(name, -1).status()), "INVALID_ARGUMENT offset_bytes");
  EXPECT_EQ(Told(Content("none").status()), "NOT_FOUND ARTIFACT_NOT_FOUND");
  ASSERT_EQ(truncate(FileOf(content + "end").c_str(), 10), 0);
  EXPECT_EQ(Told(Content(name).status()), "DATA_LOSS ARTIFACT_CORRUPT");
}

TEST_F(ArtifactStoreTest, WhatALiveJobNamesIsNotDeleted) {
  ASSERT_TRUE(Upload("content").ok());
  const std::string name = Sha256Hex("content");
  auto hold = store_->Hold(tenant_, name);
  ASSERT_TRUE(hold.ok());
  EXPECT_EQ(Told(store_->Delete(Tenants({tenant_}), name)), "FAILED_PRECONDITION ARTIFACT_IN_USE");
  live_[name] = "j-1";
  hold->reset();
  const absl::Status refused = store_->Delete(Tenants({tenant_}), name);
  EXPECT_EQ(Told(refused), "FAILED_PRECONDITION ARTIFACT_IN_USE");
  EXPECT_THAT(refused.message(), HasSubstr("job j-1"));
  live_.clear();
  EXPECT_EQ(Told(store_->Delete(Tenants({tenant_}), name)), "OK");
  EXPECT_EQ(Told(store_->Delete(Tenants({tenant_}), name)), "NOT_FOUND ARTIFACT_NOT_FOUND");
  EXPECT_EQ(Told(store_->Hold(tenant_, name).status()), "NOT_FOUND ARTIFACT_NOT_FOUND");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ArtifactStoreTest, ASampleIsStoredOnceAndALaterAttemptTakesItsPlace) {
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(100, "text.txt", "one"))), "OK");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(100, "text.txt", "one"))), "OK");
  EXPECT_THAT(Names("j-1"), ElementsAre("j-1/step-100/text.txt"));
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 2, SampleOf(100, "text.txt", "two"))), "OK");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(100, "text.txt", "one"))), "OK") << "sent again, late";
  EXPECT_EQ(*Content("j-1/step-100/text.txt"), "two");
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("two")));
  auto artifact = store_->Find(Tenants({tenant_}), "j-1/step-100/text.txt");
  EXPECT_EQ(artifact->media_type(), "text/plain");
  EXPECT_EQ(artifact->job_id(), "j-1");
  EXPECT_EQ(artifact->step(), 100);
  EXPECT_EQ(artifact->file_name(), "text.txt");
}

TEST_F(ArtifactStoreTest, MalformedSamplesAreToldByField) {
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("A"), std::string("a/b"),
                                  std::string(".."), std::string("a b")}) {
    EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, name, "x"))), "INVALID_ARGUMENT sample.file_name")
        << name;
  }
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(-1, "a", "x"))), "INVALID_ARGUMENT sample.step");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a", std::string((1 << 20) + 1, 'x')))),
            "INVALID_ARGUMENT sample.content");
  EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, std::string(64, 'a'), std::string(100, 'x')))), "OK");
}

TEST_F(ArtifactStoreTest, AContentStaysWhileItHasAName) {
  ASSERT_TRUE(Upload("same").ok());
  ASSERT_TRUE(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a.txt", "same")).ok());
  ASSERT_TRUE(store_->PutSample(tenant_, "j-2", 1, SampleOf(1, "a.txt", "same")).ok());
  EXPECT_EQ(store_->num_bytes(), 4);
  ASSERT_TRUE(store_->Delete(Tenants({tenant_}), Sha256Hex("same")).ok());
  ASSERT_TRUE(store_->Delete(Tenants({tenant_}), "j-1/step-1/a.txt").ok());
  EXPECT_EQ(*Content("j-2/step-1/a.txt"), "same");
  EXPECT_EQ(Received("same"), "0") << "no upload any more";
  ASSERT_TRUE(store_->Delete(Tenants({tenant_}), "j-2/step-1/a.txt").ok());
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store_->num_bytes(), 0);
}

TEST_F(ArtifactStoreTest, AnUploadOfASamplesContentSharesItsFile) {
  ASSERT_TRUE(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a.txt", "same")).ok());
  ASSERT_TRUE(Upload("same").ok());
  EXPECT_EQ(store_->num_bytes(), 4);
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("same")));
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("same"), "j-1/step-1/a.txt"));
}

TEST_F(ArtifactStoreTest, ListsNewestFirstPageByPage) {
  for (int step = 1; step <= 5; ++step) {
    ASSERT_TRUE(
        store_->PutSample(tenant_, step % 2 == 0 ? "j-2" : "j-1", 1, SampleOf(step, "a", absl::StrCat(step))).ok());
  }
  EXPECT_THAT(Names("j-2"), ElementsAre("j-2/step-4/a", "j-2/step-2/a"));
  std::vector<std::string> names;
  v1::ListArtifactsRequest request;
  do {
    auto page = store_->List(Tenants({tenant_}), request, 2);
    ASSERT_TRUE(page.ok());
    EXPECT_LE(page->artifacts_size(), 2);
    for (const v1::Artifact& artifact : page->artifacts()) {
      names.push_back(artifact.name());
    }
    request.set_page_token(page->next_page_token());
    // The page token contains a time. A count instead would reveal how much other tenants upload.
    int64_t time = 0;
    EXPECT_TRUE(request.page_token().empty() ||
                (absl::SimpleAtoi(request.page_token(), &time) && time >= absl::ToUnixMicros(clock_.Now())));
    // This sample is stored after the listing has begun, so the listing must not show it.
    ASSERT_TRUE(store_->PutSample(tenant_, "j-1", 1, SampleOf(9, "a", absl::StrCat(names.size()))).ok());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("j-1/step-5/a", "j-2/step-4/a", "j-1/step-3/a", "j-2/step-2/a", "j-1/step-1/a"));
  for (const char* token : {"x", "0", "-1", "1.5"}) {
    request.set_page_token(token);
    EXPECT_EQ(Told(store_->List(Tenants({tenant_}), request, 2).status()), "INVALID_ARGUMENT page_token") << token;
  }
}

TEST_F(ArtifactStoreTest, SamplesGoWithTheirJob) {
  ASSERT_TRUE(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a", "one")).ok());
  ASSERT_TRUE(store_->PutSample(tenant_, "j-2", 1, SampleOf(1, "a", "two")).ok());
  store_->Start();
  store_->DeleteJob("j-1");
  store_->Stop();
  EXPECT_THAT(Names(), ElementsAre("j-2/step-1/a"));
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("two")));
}

TEST_F(ArtifactStoreTest, ASweepDeletesSamplesOfJobsThatAreGone) {
  ASSERT_TRUE(store_->PutSample(tenant_, "j-1", 1, SampleOf(1, "a", "one")).ok());
  ASSERT_TRUE(store_->PutSample(tenant_, "j-2", 1, SampleOf(1, "a", "two")).ok());
  jobs_.erase("j-2");
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Names(), ElementsAre("j-1/step-1/a"));
}

TEST_F(ArtifactStoreTest, ASweepDeletesUploadsThatNobodyAskedForForTheTimeOfRetention) {
  for (const char* content : {"forgotten", "asked for", "named", "young"}) {
    ASSERT_TRUE(Upload(content).ok());
    clock_.Advance(absl::Seconds(1));
  }
  live_[Sha256Hex("named")] = "j-1";
  clock_.Advance(absl::Hours(24 * 20));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Received("asked for"), "whole");
  ASSERT_TRUE(store_->Hold(tenant_, Sha256Hex("young")).ok());
  ASSERT_TRUE(store_->Sweep().ok());
  live_.clear();
  Reopen();  // The use times are read back from the disk.
  clock_.Advance(absl::Hours(24 * 11));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("young"), Sha256Hex("named"), Sha256Hex("asked for")));
  clock_.Advance(absl::Hours(24 * 20));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ArtifactStoreTest, NothingIsDeletedByItsAgeWhileTheClockMayBeWrong) {
  ASSERT_TRUE(Upload("forgotten").ok());
  UploadPart("content", 0, 3);
  clock_.Advance(absl::Hours(24 * 60));
  clock_is_steady_ = false;
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("forgotten")));
  EXPECT_EQ(Files().size(), 2u) << "the partial upload too";
  clock_is_steady_ = true;
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ArtifactStoreTest, ARetentionOfZeroIsNever) {
  retention_ = absl::ZeroDuration();
  Reopen();
  ASSERT_TRUE(Upload("forgotten").ok());
  clock_.Advance(absl::Hours(24 * 365 * 20));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("forgotten")));
}

TEST_F(ArtifactStoreTest, PartialUploadsStayForADay) {
  UploadPart("content", 0, 3);
  clock_.Advance(absl::Hours(23));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Received("content"), "3");
  UploadPart("content", 3, 5);
  clock_.Advance(absl::Hours(23));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Received("content"), "5");
  auto slow = Begin(First("content", 5));
  clock_.Advance(absl::Hours(25));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Received("content"), "0");
  EXPECT_EQ(Told(slow->upload->Append("nt")), "ABORTED UPLOAD_TAKEN_OVER");
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store_->num_bytes(), 0);
}

TEST_F(ArtifactStoreTest, OpenBringsFilesAndNamesIntoLine) {
  ASSERT_TRUE(Upload("whole").ok());
  ASSERT_TRUE(Upload("taken away").ok());
  store_.reset();
  ASSERT_EQ(unlink(FileOf("taken away").c_str()), 0);
  // Files that a crash may leave behind: an upload whose name was not recorded yet, the temporary file of a sample, and
  // a partial file whose content was also uploaded completely.
  ASSERT_TRUE(WriteFileAtomically(FileOf("nameless"), "nameless").ok());
  ASSERT_TRUE(WriteFileAtomically(FileOf("sample") + ".tmp.7", "sam").ok());
  ASSERT_TRUE(WriteFileAtomically(FileOf("whole") + ".partial", "wh").ok());
  clock_.SetNow(absl::Now());
  Reopen();
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("whole")));
  std::vector<std::string> files = {Sha256Hex("whole"), Sha256Hex("nameless") + ".partial"};
  std::sort(files.begin(), files.end());
  EXPECT_EQ(Files(), files);
  EXPECT_EQ(store_->num_bytes(), 5 + 8);
  EXPECT_EQ(Received("nameless"), "8");
  auto begun = Begin(First("nameless", 8));
  ASSERT_TRUE(begun.ok());
  EXPECT_TRUE(begun->upload->Finish().ok());
  EXPECT_EQ(*Content(Sha256Hex("nameless")), "nameless");
}

TEST_F(ArtifactStoreTest, OpenCountsAContentOnceThatIsThereWholeAndInPart) {
  UploadPart("nameless", 0, 4);
  store_.reset();
  ASSERT_TRUE(WriteFileAtomically(FileOf("nameless"), "nameless").ok());
  Reopen();
  EXPECT_EQ(Received("nameless"), "4");
  EXPECT_EQ(store_->num_bytes(), 4);
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("nameless") + ".partial"));
}

TEST_F(ArtifactStoreTest, OpenKeepsWhatCameOfAContentWhoseFileWasTakenAway) {
  ASSERT_TRUE(Upload("taken away").ok());
  ASSERT_TRUE(Upload("whole").ok());
  store_.reset();
  ASSERT_EQ(rename(FileOf("taken away").c_str(), (FileOf("taken away") + ".partial").c_str()), 0);
  Reopen();
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("whole")));
  EXPECT_EQ(Received("taken away"), "10");
}

TEST_F(ArtifactStoreTest, OpenTellsOfEachNameThatItDrops) {
  ASSERT_TRUE(Upload("taken away").ok());
  ASSERT_TRUE(store_->PutSample("vision", "j-1", 1, SampleOf(1, "a", "taken away")).ok());
  ASSERT_TRUE(Upload("whole").ok());
  store_.reset();
  ASSERT_EQ(unlink(FileOf("taken away").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(FileOf("nameless"), "nameless").ok());
  Reopen();
  const std::string dropped = "removed the name of an artifact, because its file is gone: ";
  EXPECT_THAT(repairs_,
              ElementsAre(dropped + Sha256Hex("taken away"), dropped + "j-1/step-1/a",
                          "kept a file without a name as an upload that broke off: " + Sha256Hex("nameless")));
  repairs_.clear();
  Reopen();
  EXPECT_THAT(repairs_, IsEmpty());
}

// This happens if the folder is on another disk that was not mounted.
TEST_F(ArtifactStoreTest, OpenFailsIfAllFilesAreGone_AndChangesNothing) {
  ASSERT_TRUE(Upload("one").ok());
  ASSERT_TRUE(store_->PutSample("default", "j-1", 1, SampleOf(1, "a", "text")).ok());
  store_.reset();
  const std::string folder = folder_.Path("artifacts"), mounted = folder_.Path("mounted");
  std::filesystem::rename(folder, mounted);
  for (int i = 0; i < 2; ++i) {
    const absl::Status failed = TryReopen();
    EXPECT_EQ(Told(failed), "FAILED_PRECONDITION DATA_DIRECTORY_UNUSABLE");
    EXPECT_THAT(failed.message(), HasSubstr(absl::StrCat(folder, " has none of the 2 files")));
  }
  EXPECT_THAT(repairs_, IsEmpty());
  std::filesystem::remove(folder);
  std::filesystem::rename(mounted, folder);
  Reopen();
  EXPECT_THAT(Names(), ElementsAre("j-1/step-1/a", Sha256Hex("one")));
  EXPECT_EQ(*Content(Sha256Hex("one")), "one");
}

// The digest of an upload's content must not be enough to learn from the store whether another tenant has the content,
// nor to download it.
TEST_F(ArtifactStoreTest, TenantsUploadForThemselves_AndContentsAreStoredOnce) {
  ASSERT_TRUE(Upload("content").ok());
  UploadPart("begun", 0, 3);
  ASSERT_TRUE(store_->PutSample("default", "j-1", 1, SampleOf(1, "a", "text")).ok());
  const std::string name = Sha256Hex("content");
  tenant_ = "vision";
  EXPECT_EQ(Received("content"), "0");
  EXPECT_EQ(Received("begun"), "0");
  for (const std::string& hidden : {name, std::string("j-1/step-1/a"), "default/" + name, "vision/" + name}) {
    EXPECT_EQ(Told(Content(hidden).status()), "NOT_FOUND ARTIFACT_NOT_FOUND") << hidden;
    EXPECT_EQ(Told(store_->Delete(Tenants({"vision"}), hidden)), "NOT_FOUND ARTIFACT_NOT_FOUND") << hidden;
    EXPECT_EQ(Told(store_->Hold("vision", hidden).status()), "NOT_FOUND ARTIFACT_NOT_FOUND") << hidden;
  }
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(Told(Begin(First("begun", 3)).status()), "ABORTED OFFSET_MISMATCH") << "the other tenant's part counts";

  ASSERT_TRUE(Upload("content").ok());
  EXPECT_THAT(Names(), ElementsAre(name));
  EXPECT_EQ(*Content(name), "content");
  EXPECT_EQ(store_->Find(Tenants({"vision"}), name)->tenant(), "vision");
  EXPECT_EQ(store_->Find(Tenants::All(), name)->tenant(), "default");
  EXPECT_EQ(store_->List(Tenants::All(), {}, 100)->total_size(), 3);
  EXPECT_EQ(store_->List(Tenants({"default"}), {}, 100)->total_size(), 2);
  EXPECT_EQ(store_->List(Tenants(), {}, 100)->total_size(), 0);
  const std::vector<std::string> files = Files();
  EXPECT_EQ(std::count(files.begin(), files.end(), name), 1);

  // "vision/<sha256>" is the key of vision's upload, but no name by which the default tenant can reach it.
  const std::string hidden = "vision/" + name;
  EXPECT_EQ(Told(store_->Hold("default", hidden).status()), "NOT_FOUND ARTIFACT_NOT_FOUND");
  EXPECT_EQ(Told(store_->GetUpload("default", hidden).status()), "INVALID_ARGUMENT sha256");
  EXPECT_EQ(Told(store_->Find(Tenants({"default"}), hidden).status()), "NOT_FOUND ARTIFACT_NOT_FOUND");
  EXPECT_EQ(Told(store_->Delete(Tenants({"default"}), hidden)), "NOT_FOUND ARTIFACT_NOT_FOUND");

  live_ = {{name, "j-7"}};  // A job of the default tenant uses the upload.
  ASSERT_TRUE(store_->Delete(Tenants({"vision"}), name).ok());
  EXPECT_EQ(Told(store_->Hold("vision", name).status()), "NOT_FOUND ARTIFACT_NOT_FOUND");
  tenant_ = "default";
  EXPECT_EQ(*Content(name), "content");
  EXPECT_EQ(Told(store_->Delete(Tenants::All(), name)), "FAILED_PRECONDITION ARTIFACT_IN_USE");
}

TEST_F(ArtifactStoreTest, AnUploadThatBrokeOffStaysItsTenants) {
  tenant_ = "vision";
  UploadPart("content", 0, 3);
  Reopen();
  EXPECT_EQ(Received("content"), "3");
  EXPECT_THAT(Files(), ElementsAre("vision." + Sha256Hex("content") + ".partial"));
  // Recreates the state after a crash in which the content had already got its name in the folder, but not in the
  // index.
  UploadPart("content", 3, 7);
  store_.reset();
  const std::string partial = folder_.Path("artifacts/vision." + Sha256Hex("content") + ".partial");
  ASSERT_EQ(link(partial.c_str(), FileOf("content").c_str()), 0);
  Reopen();
  EXPECT_EQ(Received("content"), "7");
  EXPECT_EQ(store_->num_bytes(), 7);
  tenant_ = "default";
  EXPECT_EQ(Received("content"), "0");
  tenant_ = "vision";
  auto begun = Begin(First("content", 7));
  ASSERT_TRUE(begun.ok() && begun->upload != nullptr);
  EXPECT_TRUE(begun->upload->Finish().ok());
  EXPECT_EQ(*Content(Sha256Hex("content")), "content");
  EXPECT_THAT(Files(), ElementsAre(Sha256Hex("content")));
}

// An older server wrote schema 1, which had no tenants.
TEST_F(ArtifactStoreTest, WhatAnOlderServerStoredBelongsToTheDefaultTenant) {
  ASSERT_TRUE(Upload("content").ok());
  ASSERT_TRUE(store_->PutSample("default", "j-1", 1, SampleOf(1, "a", "text")).ok());
  store_.reset();
  {
    auto database = SqliteDatabase::Open(folder_.Path("artifacts.db"), /*create=*/false);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Execute("ALTER TABLE artifacts DROP COLUMN tenant; PRAGMA user_version=1").ok());
  }
  Reopen();
  EXPECT_THAT(Names(), ElementsAre("j-1/step-1/a", Sha256Hex("content")));
  EXPECT_EQ(store_->Find(Tenants::All(), Sha256Hex("content"))->tenant(), "default");
  EXPECT_EQ(store_->Find(Tenants::All(), "j-1/step-1/a")->tenant(), "default");
  tenant_ = "vision";
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ArtifactStoreTest, OpenLeavesAloneWhatIsNoFile) {
  store_.reset();
  std::filesystem::create_directories(folder_.Path("artifacts/lost+found/1"));
  Reopen();
  EXPECT_THAT(Files(), ElementsAre("lost+found"));
}

// A symlink to itself replaces the file. Looking up the file then fails with the kind of error that a failing disk
// gives.
TEST_F(ArtifactStoreTest, OpenDropsNoNameWhoseFileItCanNotLookFor) {
  ASSERT_TRUE(Upload("content").ok());
  store_.reset();
  const std::string aside = folder_.Path("aside");
  ASSERT_EQ(rename(FileOf("content").c_str(), aside.c_str()), 0);
  ASSERT_EQ(symlink(FileOf("content").c_str(), FileOf("content").c_str()), 0);
  EXPECT_THAT(TryReopen().message(), HasSubstr(Sha256Hex("content")));
  ASSERT_EQ(rename(aside.c_str(), FileOf("content").c_str()), 0);
  Reopen();
  EXPECT_EQ(*Content(Sha256Hex("content")), "content");
}

// Whichever SQLite call fails, every upload is afterwards complete or can be resumed, and every name has its content.
TEST_F(ArtifactStoreTest, AFailureOfTheIndexLosesNothing) {
  store_.reset();
  FaultyVfs disk;
  Reopen();
  int num_fired = 0;
  for (int nth = 1; nth < 100; ++nth) {
    const std::string content = absl::StrCat("content ", nth);
    disk.Arm(nth, /*sticky=*/false);
    const absl::Status uploaded = Upload(content);
    const absl::Status sampled = store_->PutSample(tenant_, "j-1", 1, SampleOf(nth, "a", "sample " + content));
    const bool fired = disk.fired();
    disk.Disarm();
    num_fired += fired ? 1 : 0;
    if (!fired) {
      EXPECT_TRUE(uploaded.ok() && sampled.ok()) << uploaded << sampled;
      break;
    }
    Reopen();
    if (!uploaded.ok()) {
      const std::string received = Received(content);
      EXPECT_THAT(received, testing::AnyOf("0", "whole", absl::StrCat(content.size()))) << disk.failed_call();
      if (received == absl::StrCat(content.size())) {
        auto begun = Begin(First(content, static_cast<int64_t>(content.size())));
        ASSERT_TRUE(begun.ok() && begun->upload != nullptr);
        EXPECT_TRUE(begun->upload->Finish().ok());
      } else if (received == "0") {
        EXPECT_EQ(Told(Upload(content)), "OK");
      }
    }
    EXPECT_EQ(Told(store_->PutSample(tenant_, "j-1", 1, SampleOf(nth, "a", "sample " + content))), "OK");
    EXPECT_EQ(*Content(Sha256Hex(content)), content);
    EXPECT_EQ(*Content(absl::StrCat("j-1/step-", nth, "/a")), "sample " + content);
  }
  EXPECT_GT(num_fired, 3);
  store_.reset();  // Destroyed before `disk`, which it uses.
}

TEST_F(ArtifactStoreTest, ASweepThatFailedToStoreATimeStoresItTheNextTime) {
  store_.reset();
  FaultyVfs disk;
  Reopen();
  ASSERT_TRUE(Upload("asked for").ok());
  clock_.Advance(absl::Hours(24 * 20));
  ASSERT_EQ(Received("asked for"), "whole");
  disk.Arm(1, /*sticky=*/false);
  EXPECT_FALSE(store_->Sweep().ok());
  EXPECT_TRUE(disk.fired());
  disk.Disarm();
  EXPECT_EQ(store_->Sweep(), absl::OkStatus());
  Reopen();
  clock_.Advance(absl::Hours(24 * 20));
  EXPECT_EQ(store_->Sweep(), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre(Sha256Hex("asked for")));
  store_.reset();  // Destroyed before `disk`, which it uses.
}

TEST_F(ArtifactStoreTest, AnIndexOfANewerServerIsLeftAlone) {
  store_.reset();
  {
    auto database = SqliteDatabase::Open(folder_.Path("artifacts.db"), /*create=*/false);
    ASSERT_TRUE(database->Execute("PRAGMA user_version=99").ok());
  }
  EXPECT_EQ(Told(TryReopen()), "FAILED_PRECONDITION NEWER_SCHEMA");
}

}  // namespace
}  // namespace ampd::server
