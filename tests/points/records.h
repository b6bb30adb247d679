#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"

namespace ampd::points {

// Makes steps with these sequences and phases, and with a number in every column. The numbers depend on the sequence
// and the phase.
inline v1::StepColumns Steps(const std::vector<uint64_t>& sequences, const std::vector<std::string>& phases = {}) {
  v1::StepColumns steps;
  for (const std::string& phase : phases) {
    steps.add_phases()->set_name(phase);
  }
  for (const uint64_t sequence : sequences) {
    const auto number = static_cast<float>(sequence);
    steps.add_sequence(sequence);
    steps.add_step(static_cast<int64_t>(sequence));
    steps.add_loss(number);
    steps.add_grad_norm(number / 2);
    steps.add_loss_scale(1024);
    steps.add_skipped(sequence % 2 == 0);
    steps.add_learning_rate(0.1);
    steps.add_samples_per_second(100);
    steps.add_data_wait_seconds(0);
    steps.add_memory_allocated_bytes(1);
    steps.add_memory_peak_bytes(2);
    steps.add_time_unix_micros(static_cast<int64_t>(sequence) * 1000);
    for (int i = 0; i < steps.phases_size(); ++i) {
      steps.mutable_phases(i)->add_loss(number + 10 * static_cast<float>(i));
      steps.mutable_phases(i)->add_grad_norm(number);
      steps.mutable_phases(i)->add_skipped(i == 0);
    }
  }
  return steps;
}

}  // namespace ampd::points
