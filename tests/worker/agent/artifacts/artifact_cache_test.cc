#include "worker/agent/artifacts/artifact_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// An artifact source whose downloads follow a script. Thread-safe.
class ScriptedSource final : public ArtifactSource {
 public:
  // One scripted download: sends `num_bytes`, and ends with `status`.
  struct Call {
    size_t num_bytes = 1 << 20;
    absl::Status status;
  };

  absl::Status Download(const std::string& name, int64_t offset, const OnPiece& on_piece) override {
    Call call;
    std::string content;
    std::function<void(const OnPiece&)> during;
    {
      absl::MutexLock lock(&mutex_);
      const auto may_answer = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !blocked_ || cancelled_; };
      mutex_.Await(absl::Condition(&may_answer));
      if (cancelled_) {
        return absl::CancelledError("cancelled");
      }
      offsets_.push_back(offset);
      if (name == refused_) {
        return absl::UnavailableError("not now");
      }
      during = std::exchange(during_, nullptr);
      const auto found = contents_.find(name);
      if (found == contents_.end()) {
        return Error(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND", "there is no such artifact");
      }
      content = found->second;
      if (!calls_.empty()) {
        call = calls_.front();
        calls_.pop_front();
      }
    }
    if (during) {
      during(on_piece);
    }
    if (offset > static_cast<int64_t>(content.size())) {
      return InvalidFields({{"offset_bytes", "is beyond the content"}});
    }
    if (const absl::Status taken = on_piece(content.substr(offset, call.num_bytes)); !taken.ok()) {
      return taken;
    }
    return call.status;
  }
  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }

  // Adds an artifact and returns its digest. If `served` is not empty, downloads send `served` instead of `content`.
  std::string Add(const std::string& content, const std::string& served = "") {
    absl::MutexLock lock(&mutex_);
    contents_[Sha256Hex(content)] = served.empty() ? content : served;
    return Sha256Hex(content);
  }
  void Script(std::deque<Call> calls) {
    absl::MutexLock lock(&mutex_);
    calls_ = std::move(calls);
  }
  void Block() {
    absl::MutexLock lock(&mutex_);
    blocked_ = true;
  }
  // Makes every download of `name` fail as if the server were unreachable.
  void Refuse(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    refused_ = name;
  }
  // Calls `during` in the next download, before the first piece is sent.
  void DoInTheNextCall(std::function<void(const OnPiece&)> during) {
    absl::MutexLock lock(&mutex_);
    during_ = std::move(during);
  }
  // Returns the byte offsets at which the downloads since the last call of this function started.
  std::vector<int64_t> ConsumeOffsets() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(offsets_, {});
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::string> contents_ ABSL_GUARDED_BY(mutex_);
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> offsets_ ABSL_GUARDED_BY(mutex_);
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const OnPiece&)> during_ ABSL_GUARDED_BY(mutex_);
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

class ArtifactCacheTest : public testing::Test {
 protected:
  ArtifactCacheTest() : folder_(testing::TempDir() + "artifacts-" + std::to_string(getpid())) {
    fs::remove_all(folder_);
    Start();
  }
  ~ArtifactCacheTest() override {
    cache_.reset();
    fs::remove_all(folder_);
  }

  void Start(int64_t max_bytes = 1 << 20, const std::string& folder = "") {
    cache_.reset();
    source_ = std::make_unique<ScriptedSource>();
    ArtifactCache::Options options;
    options.folder = folder.empty() ? folder_ : folder;
    options.write = write_;
    options.max_bytes = max_bytes;
    options.source = source_.get();
    options.clock = &SystemClock();
    options.first_pause = absl::Milliseconds(1);
    options.last_pause = absl::Milliseconds(4);
    options.log = [](const std::string&) {};
    cache_ = std::make_unique<ArtifactCache>(std::move(options));
    cache_->Start();
  }
  // Waits until the cache has the artifact or has failed to get it. Returns "READY" or the error's code.
  std::string Await(const std::string& sha256) {
    for (;;) {
      const ArtifactCache::Lookup lookup = cache_->Find(sha256);
      if (lookup.state != ArtifactCache::Lookup::PENDING) {
        return lookup.state == ArtifactCache::Lookup::READY ? "READY" : absl::StatusCodeToString(lookup.error.code());
      }
      pollfd wake = {cache_->wake_fd(), POLLIN, 0};
      if (poll(&wake, 1, 20'000) != 1) {
        return "nothing happened";
      }
      uint64_t ignored = 0;
      (void)!read(cache_->wake_fd(), &ignored, sizeof(ignored));
    }
  }
  std::string Fetch(const std::string& sha256) {
    cache_->SetWanted({sha256});
    return Await(sha256);
  }
  std::string Content(const std::string& sha256) { return ReadFile(folder_ + "/" + sha256, 1 << 20).value_or("none"); }
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      files.push_back(entry.path().filename().string());
    }
    return files;
  }
  void WritePartial(const std::string& sha256, const std::string& bytes) {
    fs::create_directories(folder_);
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + sha256 + ".partial", bytes).ok());
  }

  const std::string folder_;
  std::function<absl::Status(int, std::string_view)> write_ = WriteAll;
  std::unique_ptr<ScriptedSource> source_;
  std::unique_ptr<ArtifactCache> cache_;
};

TEST_F(ArtifactCacheTest, Artifact_IsFetchedOnceAndKeptOverARestart) {
  const std::string sha256 = source_->Add("content");
  EXPECT_EQ(Fetch(sha256), "READY");
  EXPECT_EQ(Content(sha256), "content");
  cache_->SetWanted({});
  EXPECT_EQ(Fetch(sha256), "READY");
  EXPECT_THAT(source_->ConsumeOffsets(), ElementsAre(0));
  Start();
  EXPECT_EQ(Fetch(sha256), "READY");
  EXPECT_THAT(source_->ConsumeOffsets(), IsEmpty());
}

TEST_F(ArtifactCacheTest, ServerOutOfReach_IsAskedAgainAndTheDownloadResumes) {
  const std::string sha256 = source_->Add("0123456789");
  source_->Script({{3, absl::UnavailableError("gone")},
                   {0, absl::DeadlineExceededError("slow")},
                   {0, absl::InternalError("RST_STREAM")},
                   {0, Error(absl::StatusCode::kResourceExhausted, "DISK_FULL", "of the server")},
                   {4, absl::UnavailableError("gone")}});
  EXPECT_EQ(Fetch(sha256), "READY");
  EXPECT_THAT(source_->ConsumeOffsets(), ElementsAre(0, 3, 3, 3, 3, 7));
  EXPECT_EQ(Content(sha256), "0123456789");
}

TEST_F(ArtifactCacheTest, PartialFileOfAnEarlierAgent_IsResumed) {
  const std::string sha256 = source_->Add("0123456789");
  WritePartial(sha256, "01234");
  EXPECT_EQ(Fetch(sha256), "READY");
  EXPECT_THAT(source_->ConsumeOffsets(), ElementsAre(5));
  EXPECT_EQ(Content(sha256), "0123456789");
}

TEST_F(ArtifactCacheTest, TornPartialFile_IsFetchedAgainFromTheStart) {
  for (const char* torn : {"XX234", "0123456789 and more"}) {
    const std::string content = absl::StrCat("0123456789", std::string(1, torn[0]));
    const std::string sha256 = source_->Add(content);
    WritePartial(sha256, torn);
    EXPECT_EQ(Fetch(sha256), "READY") << torn;
    EXPECT_THAT(source_->ConsumeOffsets(), ElementsAre(static_cast<int64_t>(std::string(torn).size()), 0));
    EXPECT_EQ(Content(sha256), content);
  }
}

TEST_F(ArtifactCacheTest, MissingOrDamagedArtifact_FailsAndLeavesNoFile) {
  EXPECT_EQ(Fetch(std::string(64, '0')), "NOT_FOUND");
  EXPECT_EQ(Fetch(source_->Add("content", "something else")), "DATA_LOSS");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ArtifactCacheTest, FolderThatCannotBeWritten_IsAnErrorOfTheHost) {
  const std::string sha256 = source_->Add("content");
  write_ = [](int, std::string_view) { return ErrnoError(EIO, "write"); };
  Start();
  source_->Add("content");
  EXPECT_EQ(Fetch(sha256), "INTERNAL");
  write_ = WriteAll;
  Start(/*max_bytes=*/1 << 20, folder_ + "/none/below");
  source_->Add("content");
  EXPECT_EQ(Fetch(sha256), "INTERNAL") << "no NOT_FOUND, which would be the artifact's";
}

TEST_F(ArtifactCacheTest, FailedArtifact_IsFetchedAgainWhenItIsWantedAgain) {
  EXPECT_EQ(Fetch(Sha256Hex("late")), "NOT_FOUND");
  source_->Add("late");
  EXPECT_EQ(Fetch(Sha256Hex("late")), "NOT_FOUND") << "still of the same one";
  cache_->SetWanted({});
  EXPECT_EQ(Fetch(Sha256Hex("late")), "READY");
}

TEST_F(ArtifactCacheTest, FullCache_EvictsTheLeastRecentlyUsedButNoWantedArtifact) {
  Start(/*max_bytes=*/8);
  const std::string a = source_->Add("aaaa");
  const std::string b = source_->Add("bbbb");
  const std::string c = source_->Add("cccc");
  const std::string d = source_->Add("dddd");
  EXPECT_EQ(Fetch(a), "READY");
  EXPECT_EQ(Fetch(b), "READY");
  EXPECT_EQ(Fetch(a), "READY");
  // Set old modification times explicitly, because the clock of file times is too coarse to order uses in a test.
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ + "/" + b).c_str(), old, 0), 0);
  EXPECT_EQ(Fetch(c), "READY");
  cache_->SetWanted({});
  EXPECT_EQ(Fetch(c), "READY") << "nothing of it went";
  EXPECT_THAT(Files(), UnorderedElementsAre(a, c));
  cache_->SetWanted({a, c, d});
  EXPECT_EQ(Await(d), "READY");
  cache_->SetWanted({a, c, d});
  EXPECT_EQ(Await(a), "READY");
  EXPECT_THAT(Files(), UnorderedElementsAre(a, c, d));
}

TEST_F(ArtifactCacheTest, FullDisk_EvictsUnwantedArtifactsAndLeavesNoPartialFile) {
  // Makes the cache write to a simulated disk, which has space for eight bytes.
  write_ = [this](int fd, std::string_view bytes) {
    size_t num_bytes = 0;
    for (const std::string& file : Files()) {
      num_bytes += fs::file_size(folder_ + "/" + file);
    }
    const size_t num_taken = std::min(bytes.size(), 8 - num_bytes);
    const absl::Status taken = WriteAll(fd, bytes.substr(0, num_taken));
    return num_taken < bytes.size() ? ErrnoError(ENOSPC, "write") : taken;
  };
  Start();
  const std::string a = source_->Add("aaaa");
  const std::string b = source_->Add("bbbbbb");
  const std::string c = source_->Add("ccc");
  EXPECT_EQ(Fetch(a), "READY");
  EXPECT_EQ(Fetch(b), "READY") << "in the place of a";
  EXPECT_THAT(Files(), ElementsAre(b));
  cache_->SetWanted({b, c});
  EXPECT_EQ(Await(c), "RESOURCE_EXHAUSTED");
  EXPECT_THAT(Files(), ElementsAre(b));
}

TEST_F(ArtifactCacheTest, FolderInTheCache_CountsNothing) {
  Start(/*max_bytes=*/7);
  fs::create_directories(folder_ + "/a folder");
  const std::string a = source_->Add("aaaa");
  const std::string b = source_->Add("bbbb");
  EXPECT_EQ(Fetch(a), "READY");
  EXPECT_EQ(Fetch(b), "READY");
  EXPECT_THAT(Files(), UnorderedElementsAre("a folder", b));
}

TEST_F(ArtifactCacheTest, DownloadThatIsNoLongerWanted_EndsForTheNext) {
  const std::string slow = source_->Add("0123456789");
  source_->Script(std::deque<ScriptedSource::Call>(1000, {0, absl::UnavailableError("gone")}));
  cache_->SetWanted({slow});
  EXPECT_EQ(cache_->Find(slow).state, ArtifactCache::Lookup::PENDING);
  const std::string other = Sha256Hex("not there");
  EXPECT_EQ(Fetch(other), "NOT_FOUND");
}

TEST_F(ArtifactCacheTest, ArtifactThatTheServerCannotServe_DelaysNoOther) {
  const std::string first = source_->Add("1");  // Its digest sorts first, so it is downloaded first.
  const std::string second = source_->Add("2");
  ASSERT_LT(first, second);
  source_->Refuse(first);
  cache_->SetWanted({first, second});
  EXPECT_EQ(Await(second), "READY");
  EXPECT_EQ(cache_->Find(first).state, ArtifactCache::Lookup::PENDING);
}

TEST_F(ArtifactCacheTest, LocalArtifact_DoesNotWaitForAnotherDownload) {
  const std::string first = source_->Add("1");
  const std::string second = source_->Add("2");
  EXPECT_EQ(Fetch(second), "READY");
  cache_->SetWanted({});
  source_->Block();
  cache_->SetWanted({first, second});
  EXPECT_EQ(Await(second), "READY");
  EXPECT_EQ(cache_->Find(first).state, ArtifactCache::Lookup::PENDING);
}

TEST_F(ArtifactCacheTest, LocalArtifactWantedDuringADownload_IsReadyBeforeItsEnd) {
  const std::string here = source_->Add("2");
  EXPECT_EQ(Fetch(here), "READY");
  const std::string coming = source_->Add("1");
  ArtifactCache::Lookup::State seen = ArtifactCache::Lookup::FAILED;
  source_->DoInTheNextCall([&](const ArtifactSource::OnPiece& on_piece) {
    cache_->SetWanted({coming, here});
    EXPECT_TRUE(on_piece("").ok());
    seen = cache_->Find(here).state;
  });
  EXPECT_EQ(Fetch(coming), "READY");
  EXPECT_EQ(seen, ArtifactCache::Lookup::READY);
}

TEST_F(ArtifactCacheTest, Destructor_DoesNotWaitForAServerThatNeverAnswers) {
  source_->Block();
  cache_->SetWanted({source_->Add("content")});
  cache_.reset();
}

}  // namespace
}  // namespace ampd::agent
