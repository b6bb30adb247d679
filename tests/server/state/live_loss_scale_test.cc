#include "server/state/live_loss_scale.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ampd::server {
namespace {

void Order(internal::JobRecord* record, std::optional<double> scale, std::optional<int> growth_interval) {
  v1::LossScaleOrder order;
  if (scale.has_value()) order.set_scale(*scale);
  if (growth_interval.has_value()) order.set_growth_interval(*growth_interval);
  ApplyLossScaleOrder(order, record);
}

TEST(LiveLossScale, Order_ReplacesOnlyTheSettingsThatItHas) {
  internal::JobRecord record;
  Order(&record, 64, std::nullopt);
  Order(&record, std::nullopt, 500);
  EXPECT_EQ(record.live_loss_scale().ShortDebugString(),
            "scale: 64 scale_number: 1 growth_interval: 500 growth_interval_number: 2 number: 2");
  Order(&record, 32, std::nullopt);
  EXPECT_EQ(record.live_loss_scale().ShortDebugString(),
            "scale: 32 scale_number: 3 growth_interval: 500 growth_interval_number: 2 number: 3");
  Order(&record, 16, 700);
  EXPECT_EQ(record.live_loss_scale().ShortDebugString(),
            "scale: 16 scale_number: 4 growth_interval: 700 growth_interval_number: 4 number: 4");
}

TEST(LiveLossScale, RecordOfAnEarlierServer_KeepsBothOfItsOrders) {
  internal::JobRecord record;
  record.mutable_loss_scale_order()->set_scale(32);
  record.set_loss_scale_order_number(5);
  record.mutable_earlier_loss_scale_order()->set_number(3);
  record.mutable_earlier_loss_scale_order()->mutable_order()->set_growth_interval(100);
  ConvertLossScaleOrders(&record);
  EXPECT_EQ(record.ShortDebugString(),
            "live_loss_scale { scale: 32 scale_number: 5 growth_interval: 100 growth_interval_number: 3 number: 5 }");
}

TEST(LiveLossScale, RecordWithoutOrders_StaysAsItIs) {
  internal::JobRecord record;
  Order(&record, 64, std::nullopt);
  const std::string before = record.ShortDebugString();
  ConvertLossScaleOrders(&record);
  EXPECT_EQ(record.ShortDebugString(), before);
}

}  // namespace
}  // namespace ampd::server
