#pragma once

#include <cstdint>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job_service.pb.h"

namespace ampd::server {

// Copies each setting in `order` into the record as the job's newest setting, with the next number.
void ApplyLossScaleOrder(const v1::LossScaleOrder& order, internal::JobRecord* record);

// Converts a record that an earlier version of the server wrote: moves its orders to the field live_loss_scale.
void ConvertLossScaleOrders(internal::JobRecord* record);

}  // namespace ampd::server
