#include "worker/train/loop/run_summary.h"

#include "worker/train/device/compute_device.h"
#include "worker/train/report/eval_point.h"

namespace ampd::train {

internal::TrainerState StateReportOf(const AttemptPlan& plan, int64_t step, v1::Attempt::State state) {
  internal::TrainerState report;
  report.set_state(state);
  report.set_step(step);
  report.set_precision(plan.policy.preset);
  report.set_emulated(plan.policy.emulated());
  report.set_total_steps(plan.total_steps);
  return report;
}

v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last) {
  const AttemptPlan& plan = run.plan();
  v1::FinalMetrics metrics;
  metrics.set_train_loss(run.progress().train_loss);
  for (const amp::PhaseOptions& phase : plan.engine.phases) {
    if (const auto loss = run.progress().phase_losses.find(phase.name); loss != run.progress().phase_losses.end()) {
      metrics.add_phases()->set_name(phase.name);
      metrics.mutable_phases()->rbegin()->set_loss(loss->second);
    }
  }
  if (last.has_value()) {
    AddEvalPoint(*last, &metrics);
  }
  metrics.set_peak_memory_bytes(GetMemory(plan.engine.device).peak_bytes);
  if (run.has_engine()) {
    metrics.set_final_loss_scale(run.engine().scaler().scale());
    metrics.set_skipped_steps(run.engine().skipped_steps());
  }
  metrics.set_emulated(plan.policy.emulated());
  metrics.set_num_threads(plan.num_threads);
  return metrics;
}

}  // namespace ampd::train
