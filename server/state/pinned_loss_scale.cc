#include "server/state/pinned_loss_scale.h"

#include "precision/formats.h"
#include "precision/loss_scale_message.h"
#include "precision/preset.h"

namespace ampd::server {

const v1::LossScale* FindPinnedLossScale(const internal::JobRecord& record, const std::string& preset) {
  for (const internal::PinnedLossScale& pinned : record.loss_scales()) {
    if (pinned.precision() == preset) {
      return &pinned.loss_scale();
    }
  }
  return nullptr;
}

v1::LossScale LossScaleFor(const internal::JobRecord& record, const std::string& preset) {
  if (const v1::LossScale* pinned = FindPinnedLossScale(record, preset); pinned != nullptr) {
    return *pinned;
  }
  return precision::ToMessage(
      precision::ResolveLossScale(record.job().spec().precision(), *precision::FindPreset(preset)));
}

}  // namespace ampd::server
