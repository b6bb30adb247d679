// Compares the journal's bytes with tests/golden/journal.txt. Bytes that older servers wrote must be read as the same
// records and recovered to the same state. Therefore this test fails if a field changes its number, name or type, even
// if the reading code and the writing code change together.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/internal/journal.pb.h"
#include "base/io/file.h"
#include "server/ledger/ledger.h"
#include "server/ledger/memory_journal.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;

constexpr char kGolden[] = AMPD_SOURCE_DIR "/tests/golden/journal.txt";

struct Record {
  std::string type;   // A message type of ampd.internal.
  std::string text;   // Protobuf's text format, one line.
  std::string bytes;  // Empty: not yet in the golden file.
};

std::unique_ptr<Message> NewMessage(const std::string& type) {
  if (type == "Update") {
    return std::make_unique<internal::Update>();
  }
  EXPECT_EQ(type, "Snapshot") << "a record is an Update or a Snapshot";
  return std::make_unique<internal::Snapshot>();
}

// Returns a message in text format. Fields that this code does not know appear by their numbers.
std::string Text(const Message& message) { return message.ShortDebugString(); }

std::vector<Record> ReadRecords(std::string* preamble) {
  const auto file = ReadFile(kGolden, 1 << 20);
  EXPECT_TRUE(file.ok()) << file.status();
  const std::vector<std::string> lines = absl::StrSplit(*file, '\n');
  std::vector<Record> records;
  size_t i = 0;
  for (; i < lines.size() && absl::StartsWith(lines[i], "#"); ++i) {
    absl::StrAppend(preamble, lines[i], "\n");
  }
  for (; i + 1 < lines.size(); i += 2) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], absl::MaxSplits(' ', 1));
    EXPECT_EQ(words.size(), 2u) << lines[i];
    records.push_back({words.front(), words.back(), absl::HexStringToBytes(lines[i + 1])});
  }
  return records;
}

// Rewrites the golden file. First encodes each record that has no bytes, then produces every record's text from its
// bytes.
void UpdateGolden() {
  std::string file;
  for (Record& record : ReadRecords(&file)) {
    const auto message = NewMessage(record.type);
    if (record.bytes.empty()) {
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(record.text, message.get())) << record.text;
      record.bytes = message->SerializeAsString();
    }
    ASSERT_TRUE(message->ParseFromString(record.bytes)) << record.text;
    absl::StrAppend(&file, record.type, " ", Text(*message), "\n", absl::BytesToHexString(record.bytes), "\n");
  }
  ASSERT_TRUE(WriteFileAtomically(kGolden, file).ok());
}

class JournalGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::getenv("AMPD_UPDATE_GOLDEN") != nullptr) {
      UpdateGolden();
    }
  }
  std::string preamble_;
  const std::vector<Record> records_ = ReadRecords(&preamble_);
};

TEST_F(JournalGolden, BytesOfBefore_AreReadToTheSameRecords) {
  ASSERT_GE(records_.size(), 27u);
  for (const Record& record : records_) {
    const auto message = NewMessage(record.type);
    ASSERT_FALSE(record.bytes.empty()) << "AMPD_UPDATE_GOLDEN=1 writes them: " << record.text;
    ASSERT_TRUE(message->ParseFromString(record.bytes)) << record.text;
    EXPECT_EQ(Text(*message), record.text);
  }
}

// Adds to `fields` the names of all fields that are set in the message or in messages within it.
void AddFields(const Message& message, std::set<std::string>* fields) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (field->file() == internal::Update::descriptor()->file()) {
      fields->insert(field->full_name());
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      AddFields(field->is_repeated() ? message.GetReflection()->GetRepeatedMessage(message, field, i)
                                     : message.GetReflection()->GetMessage(message, field),
                fields);
    }
  }
}

TEST_F(JournalGolden, EveryFieldOfTheJournal_IsInIt) {
  std::set<std::string> held;
  for (const Record& record : records_) {
    const auto message = NewMessage(record.type);
    ASSERT_TRUE(message->ParseFromString(record.bytes));
    AddFields(*message, &held);
  }
  const FileDescriptor& file = *internal::Update::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    for (int j = 0; j < file.message_type(i)->field_count(); ++j) {
      const std::string& name = file.message_type(i)->field(j)->full_name();
      EXPECT_TRUE(held.count(name)) << name << " is in no record of " << kGolden << ": add one";
    }
  }
}

class RecoveredState {
 public:
  explicit RecoveredState(std::shared_ptr<MemoryJournal::Disk> disk) {
    Ledger::Options options;
    options.journal = std::make_unique<MemoryJournal>(std::move(disk));
    auto ledger = Ledger::Open(std::move(options));
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    if (ledger.ok()) {
      ledger_ = *std::move(ledger);
    }
  }
  bool ok() const { return ledger_ != nullptr; }
  std::string Shown(const std::string& job) {
    return ledger_->Read([&](const ClusterState& state) { return Show(state, job); });
  }
  ClusterState State() {
    return ledger_->Read([](const ClusterState& state) { return state; });
  }

 private:
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(JournalGolden, UpdatesOfBefore_AreRecoveredToTheStateThatTheyTold) {
  JournalGroup group;
  group.first_index = 1;
  for (const Record& record : records_) {
    if (record.type == "Update") {
      group.updates.push_back(record.bytes);
    }
  }
  const auto disk = std::make_shared<MemoryJournal::Disk>();
  ASSERT_TRUE(MemoryJournal(disk).Append(group).ok());
  RecoveredState recovered(disk);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered.Shown("j1"), "j1:SUCCEEDED SUCCEEDED_NORMALLY ckpt=40");
  EXPECT_EQ(recovered.Shown("j2"), "j2:none") << "archived, and deleted there";
  EXPECT_EQ(recovered.Shown("j3"), "j3:QUEUED");
  EXPECT_EQ(recovered.Shown("j4"), "j4:none") << "still archived";
  const ClusterState state = recovered.State();
  EXPECT_EQ(state.FindWorker("w2")->delete_checkpoints().rbegin()->path(), "j4/1/step-5");
  EXPECT_EQ(state.life(), 2u);
  EXPECT_EQ(state.FindJob("j1")->job().spec().priority(), 7);
  EXPECT_EQ(state.FindJob("j1")->live_loss_scale().ShortDebugString(),
            "scale: 2048 scale_number: 2 growth_interval: 50 growth_interval_number: 1 number: 2");
  const v1::Attempt& sixth = state.FindJob("j6")->job().attempts(0);
  EXPECT_EQ(sixth.loss_scale().dynamic().growth_interval(), 500);
  EXPECT_EQ(sixth.loss_scale().dynamic().initial(), 1024) << "the rule of the job that it resumes";
  EXPECT_EQ(state.FindJob("j6")->profile_request().ShortDebugString(), "number: 1 num_steps: 5");
  EXPECT_TRUE(state.FindWorker("w1")->lost());
  EXPECT_TRUE(state.FindWorker("w2")->worker().drained());
  EXPECT_EQ(state.FindJob("j6")->job().tenant(), "default");
  EXPECT_EQ(state.FindJob("j9")->job().tenant(), "vision");
  EXPECT_EQ(state.FindRequest("vision", "r9")->job(), "j9");
  EXPECT_EQ(state.FindJob("j9")->job().traceparent(), "") << "from a server without traces";
  EXPECT_EQ(state.FindJob("j10")->job().traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  EXPECT_EQ(state.FindJob("j10")->parent_span_id(), "b7ad6b7169203331");
  EXPECT_EQ(state.server_version(), "0.2.3");
  EXPECT_EQ(state.FindWorker("w9")->data_root_tenants(0).tenants(0), "vision");
}

// The golden file ends with several snapshots of earlier versions of the server. In the fourth from the end, the record
// of a job has the user's commands to change the loss scale (LossScaleOrder). Later versions store the resulting
// settings (LiveLossScale) instead.
TEST_F(JournalGolden, LossScaleOrdersOfBefore_AreRecoveredAsSettings) {
  const Record& older = records_[records_.size() - 4];
  ASSERT_EQ(older.type, "Snapshot");
  ASSERT_TRUE(absl::StrContains(older.text, "earlier_loss_scale_order"));
  const auto disk = std::make_shared<MemoryJournal::Disk>();
  ASSERT_TRUE(MemoryJournal(disk).Compact(90, older.bytes).ok());
  RecoveredState recovered(disk);
  ASSERT_TRUE(recovered.ok());
  const std::string state = Text(recovered.State().ToSnapshot(90));
  EXPECT_FALSE(absl::StrContains(state, "loss_scale_order")) << state;
  EXPECT_TRUE(absl::StrContains(state,
                                "live_loss_scale { scale: 2048 scale_number: 2 growth_interval: 50 "
                                "growth_interval_number: 1 number: 2 }"))
      << state;
}

TEST_F(JournalGolden, SnapshotOfBefore_IsRecoveredWhole) {
  const Record& record = records_.back();
  ASSERT_EQ(record.type, "Snapshot");
  const auto disk = std::make_shared<MemoryJournal::Disk>();
  ASSERT_TRUE(MemoryJournal(disk).Compact(90, record.bytes).ok());
  RecoveredState recovered(disk);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered.Shown("j7"), "j7:RUNNING@w1#2 ckpt=5");
  EXPECT_EQ(Text(recovered.State().ToSnapshot(90)), record.text);
}

// In the third snapshot from the end of the golden file, there are no tenants yet.
TEST_F(JournalGolden, WhatHasNoTenant_BelongsToTheDefaultTenant) {
  const Record& older = records_[records_.size() - 3];
  ASSERT_EQ(older.type, "Snapshot");
  ASSERT_FALSE(absl::StrContains(older.text, "tenant"));
  const auto disk = std::make_shared<MemoryJournal::Disk>();
  ASSERT_TRUE(MemoryJournal(disk).Compact(90, older.bytes).ok());
  RecoveredState recovered(disk);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered.State().FindJob("j7")->job().tenant(), "default");
  EXPECT_EQ(recovered.State().FindRequest("default", "r7")->job(), "j7");
}

// The golden file's last snapshot but one was written by a version whose jobs had no traces.
TEST_F(JournalGolden, AJobOfBefore_HasNoTrace) {
  const Record& older = records_[records_.size() - 2];
  ASSERT_EQ(older.type, "Snapshot");
  ASSERT_TRUE(absl::StrContains(older.text, "tenant"));
  ASSERT_FALSE(absl::StrContains(older.text, "traceparent"));
  const auto disk = std::make_shared<MemoryJournal::Disk>();
  ASSERT_TRUE(MemoryJournal(disk).Compact(90, older.bytes).ok());
  RecoveredState recovered(disk);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered.State().FindJob("j7")->job().traceparent(), "");
  EXPECT_EQ(Text(recovered.State().ToSnapshot(90)), older.text);
}

}  // namespace
}  // namespace ampd::server
