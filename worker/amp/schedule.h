#pragma once

#include "worker/kernels/schedule.h"

namespace ampd::amp {

using kernels::RateFactor;
using kernels::ScheduleConfig;

}  // namespace ampd::amp
