#include "worker/train/report/telemetry_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace ampd::train {
namespace {

// The agent can't read a message with a text that is not UTF-8, so the whole event would be lost.
TEST(TelemetryWriter, EventWithTextsThatAreNotUtf8_IsReadable) {
  TelemetryOutbox outbox({.spill_path = testing::TempDir() + "/no-telemetry-is-spilled-here"});
  TelemetryWriter writer(outbox, /*attempt=*/2);
  ASSERT_TRUE(
      writer.Event(v1::Event::CHECKPOINT_DAMAGED, 3, "caf\xe9.bin is damaged", {{"damaged", "caf\xe9.bin"}}).ok());
  const absl::StatusOr<v1::TelemetryBatch> read = outbox.Read(/*after=*/0, /*max_bytes=*/1 << 20);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->events_size(), 1);
  EXPECT_EQ(read->events(0).message(), "caf?.bin is damaged");
  EXPECT_EQ(read->events(0).attributes().at("damaged"), "caf?.bin");
}

}  // namespace
}  // namespace ampd::train
