#include "server/state/live_loss_scale.h"

namespace ampd::server {
namespace {

void Apply(const v1::LossScaleOrder& order, uint64_t number, v1::LiveLossScale* settings) {
  settings->set_number(number);
  if (order.has_scale()) {
    settings->set_scale(order.scale());
    settings->set_scale_number(number);
  }
  if (order.has_growth_interval()) {
    settings->set_growth_interval(order.growth_interval());
    settings->set_growth_interval_number(number);
  }
}

}  // namespace

void ApplyLossScaleOrder(const v1::LossScaleOrder& order, internal::JobRecord* record) {
  Apply(order, record->live_loss_scale().number() + 1, record->mutable_live_loss_scale());
}

void ConvertLossScaleOrders(internal::JobRecord* record) {
  if (record->loss_scale_order_number() == 0) {
    return;
  }
  v1::LiveLossScale* settings = record->mutable_live_loss_scale();
  Apply(record->earlier_loss_scale_order().order(), record->earlier_loss_scale_order().number(), settings);
  Apply(record->loss_scale_order(), record->loss_scale_order_number(), settings);
  record->clear_earlier_loss_scale_order();
  record->clear_loss_scale_order();
  record->clear_loss_scale_order_number();
}

}  // namespace ampd::server
