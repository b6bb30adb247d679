#include "precision/op_list.h"

#include <algorithm>
#include <initializer_list>

namespace ampd::precision {
namespace {

using graph::OpClass;
using graph::OpRow;

bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

bool IsLoss(std::string_view op) {
  return IsOneOf(op, {"aten.cross_entropy_loss.default", "aten.nll_loss_nd.default",
                      "aten.binary_cross_entropy.default", "aten.binary_cross_entropy_with_logits.default",
                      "aten.huber_loss.default", "aten.mse_loss.default", "aten.smooth_l1_loss.default"});
}

bool IsMean(std::string_view op) { return IsOneOf(op, {"aten.mean.default", "aten.mean.dim"}); }

OpClass ClassInTorchCuda(const OpRow& row) {
  if (IsMean(row.op)) {
    return OpClass::kAsInput;
  }
  return IsOneOf(row.op, {"aten.layer_norm.default", "aten.group_norm.default"}) ? OpClass::kFp32 : row.op_class;
}

OpClass ClassInTorchCpu(const OpRow& row) {
  if (IsLoss(row.op)) {
    return OpClass::kFp32;
  }
  // The generic convolution and the GRU are not on torch.autocast's list for CPUs, so autocast does not convert their
  // inputs, and their results have the format of their inputs. (But autocast lowers the products that a GRU consists
  // of, because these are on the list.) An LSTM runs in an op of oneDNN, which is on the list.
  const bool unlisted =
      IsOneOf(row.op, {"aten.convolution.default", "aten.gru.input"}) || row.op_class == OpClass::kFp32;
  return unlisted ? OpClass::kAsInput : row.op_class;
}

OpClass ClassInApexO1(const OpRow& row) {
  if (IsMean(row.op)) {
    return OpClass::kAsInput;
  }
  const bool fp32 = IsOneOf(
      row.op, {"aten.layer_norm.default", "aten.group_norm.default", "aten.batch_norm.default", "aten.gelu.default"});
  return fp32 ? OpClass::kFp32 : row.op_class;
}

OpClass ClassInKeras(const OpRow& row) {
  if (IsLoss(row.op)) {
    return OpClass::kFp32;
  }
  return row.no_gradient || row.op == "aten.to.dtype" ? row.op_class : OpClass::kLower;
}

OpClass ClassInModelCast(const OpRow& row) {
  if (IsLoss(row.op)) {
    return OpClass::kFp32;
  }
  return row.op_class == OpClass::kFp32 ? OpClass::kAsInput : row.op_class;
}

OpClass ClassInMegatron(const OpRow& row) {
  const bool softmax = IsOneOf(row.op, {"aten.softmax.int", "aten.log_softmax.int"});
  return softmax ? OpClass::kFp32 : ClassInModelCast(row);
}

}  // namespace

std::string_view OpListName(OpList list) {
  switch (list) {
    case OpList::kAmpd:
      return "ampd";
    case OpList::kTorchCuda:
      return "torch-cuda";
    case OpList::kTorchCpu:
      return "torch-cpu";
    case OpList::kApexO1:
      return "apex-o1";
    case OpList::kKeras:
      return "keras";
    case OpList::kModelCast:
      return "model-cast";
    case OpList::kMegatron:
      return "megatron";
  }
  return "unknown";
}

OpClass ClassIn(OpList list, const OpRow& row) {
  switch (list) {
    case OpList::kAmpd:
      return row.op_class;
    case OpList::kTorchCuda:
      return ClassInTorchCuda(row);
    case OpList::kTorchCpu:
      return ClassInTorchCpu(row);
    case OpList::kApexO1:
      return ClassInApexO1(row);
    case OpList::kKeras:
      return ClassInKeras(row);
    case OpList::kModelCast:
      return ClassInModelCast(row);
    case OpList::kMegatron:
      return ClassInMegatron(row);
  }
  return OpClass::kFp32;
}

bool ListsWhole(OpList list, const OpRow& row) { return list == OpList::kTorchCuda && row.op == "aten.einsum.default"; }

bool CastsAtEachUse(OpList list) {
  return list == OpList::kTorchCuda || list == OpList::kTorchCpu || list == OpList::kApexO1;
}

}  // namespace ampd::precision
