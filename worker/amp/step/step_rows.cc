#include "worker/amp/step/step_rows.h"

#include "c10/util/Exception.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

using kernels::TensorRow;

void Add(TensorRow row, size_t place, StepRows& table) {
  if (row.count > 0) {
    row.number = static_cast<uint32_t>(place);
    row.first_chunk = table.num_chunks;
    table.num_chunks += kernels::NumChunks(row.count);
    table.rows.push_back(row);
  }
}

// The row of a gradient; an empty row if the gradient is undefined.
TensorRow RowOf(const at::Tensor& gradient) {
  TensorRow row;
  if (gradient.defined()) {
    row.gradient = gradient.const_data_ptr();
    row.gradient_format = FormatOf(gradient);
    row.count = gradient.numel();
  }
  return row;
}

void* DataOrNull(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

void TakeMaster(const StepTensors& tensors, TensorRow& row) {
  row.parameter = tensors.master.data_ptr<float>();
  if (!tensors.leaf.is_same(tensors.master)) {
    row.working = tensors.leaf.data_ptr();
    row.working_format = FormatOf(tensors.leaf);
  }
}

void TakeParameter(const StepTensors& tensors, TensorRow& row) {
  row.learning_rate = tensors.learning_rate;
  row.weight_decay = tensors.weight_decay;
  if (tensors.master.defined()) {
    TakeMaster(tensors, row);
    return;
  }
  row.parameter = tensors.leaf.data_ptr();
  row.parameter_format = FormatOf(tensors.leaf);
  TORCH_CHECK(!tensors.stochastic || row.parameter_format == kernels::Format::kBFloat16,
              "only weights in bf16 are rounded stochastically, not those in ", tensors.leaf.scalar_type());
  row.stochastic = tensors.stochastic;
}

void TakeState(const StepTensors& tensors, TensorRow& row) {
  row.remainder = static_cast<uint16_t*>(DataOrNull(tensors.remainder));
  row.first_moment = DataOrNull(tensors.first);
  row.second_moment = DataOrNull(tensors.second);
  row.moment_format = tensors.first.defined() ? FormatOf(tensors.first) : kernels::Format::kFloat32;
  row.average = tensors.average.defined() ? tensors.average.data_ptr<float>() : nullptr;
}

}  // namespace

StepRows RowsToMeasure(const std::vector<at::Tensor>& gradients) {
  StepRows table;
  for (size_t i = 0; i < gradients.size(); ++i) {
    Add(RowOf(gradients[i]), i, table);
  }
  return table;
}

StepRows RowsToAccumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) {
  StepRows table = RowsToMeasure(gradients);
  for (TensorRow& row : table.rows) {
    row.accumulated = sums[row.number].data_ptr<float>();
  }
  return table;
}

StepRows RowsToUpdate(const std::vector<StepTensors>& tensors) {
  StepRows table;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorRow row = RowOf(tensors[i].gradient);
    if (row.count > 0) {
      TakeParameter(tensors[i], row);
      TakeState(tensors[i], row);
      Add(row, i, table);
    }
  }
  return table;
}

StepRows RowsToRound(const std::vector<StepTensors>& tensors) {
  StepRows table;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorRow row;
    TakeMaster(tensors[i], row);
    row.remainder = static_cast<uint16_t*>(DataOrNull(tensors[i].remainder));
    row.count = row.working != nullptr ? tensors[i].master.numel() : 0;
    Add(row, i, table);
  }
  return table;
}

StepRows RowsToCopy(const std::vector<TensorCopy>& copies) {
  StepRows table;
  for (size_t i = 0; i < copies.size(); ++i) {
    TensorRow row;
    row.parameter = copies[i].from.data_ptr();
    row.parameter_format = FormatOf(copies[i].from);
    row.working = copies[i].to.data_ptr();
    row.working_format = row.parameter_format;
    row.count = copies[i].from.numel();
    Add(row, i, table);
  }
  return table;
}

}  // namespace ampd::amp
