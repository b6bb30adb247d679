#include "data/cifar_records.h"

namespace ampd::data {

CifarRecord CifarRecordOf(CifarLabels labels) {
  switch (labels) {
    case CifarLabels::kTen:
      return {{10}, 0};
    case CifarLabels::kHundredCoarse:
      return {{20, 100}, 0};
    case CifarLabels::kHundredFine:
      return {{20, 100}, 1};
  }
  return {{10}, 0};
}

}  // namespace ampd::data
