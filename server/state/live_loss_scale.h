#pragma once

#include <cstdint>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job_service.pb.h"

namespace ampd::server {

// Makes each setting that `order` has the job's newest one, with the next number.
void ApplyLossScaleOrder(const v1::LossScaleOrder& order, internal::JobRecord* record);

// Moves the orders of a record that an earlier server wrote to live_loss_scale.
void ConvertLossScaleOrders(internal::JobRecord* record);

}  // namespace ampd::server
