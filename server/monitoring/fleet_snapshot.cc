#include "server/monitoring/fleet_snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/api/tenants.h"
#include "models/models.h"
#include "server/monitoring/job_table.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Collects metric families. Finds them by name, and keeps them in the order of their declaration.
class Page {
 public:
  void Declare(const char* name, const char* help, MetricType type) {
    index_[name] = families_.size();
    MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = type;
    families_.push_back(std::move(family));
  }
  void Add(const char* name, std::vector<ClientMetric::Label> labels, double value) {
    MetricFamily& family = families_[index_.at(name)];
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    metric.counter.value = value;
    family.metric.push_back(std::move(metric));
  }
  // Returns the families. Leaves out families without any series, because a HELP line alone is useless.
  std::vector<MetricFamily> Take() && {
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    return std::move(families_);
  }

 private:
  std::map<std::string, size_t> index_;
  std::vector<MetricFamily> families_;
};

ClientMetric::Label Label(const char* name, const std::string& value) { return {name, SafeLabelValue(value)}; }

using Labels = std::vector<ClientMetric::Label>;

// Returns the labels that all series of a job have.
Labels LabelsOf(const v1::Job& job) {
  return {Label("job_id", job.id()), Label("tenant", TenantOrDefault(job.tenant()))};
}

Labels With(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + static_cast<double>(time.nanos()) / 1e9;
}

void DeclareFleet(Page* page) {
  page->Declare("ampd_jobs", "Live jobs.", MetricType::Gauge);
  page->Declare("ampd_queue_oldest_job_timestamp_seconds", "Submission time of the job at the head; 0 if empty.",
                MetricType::Gauge);
  page->Declare("ampd_workers", "Workers known.", MetricType::Gauge);
  page->Declare("ampd_worker_last_heartbeat_timestamp_seconds", "Time of the worker's last report.", MetricType::Gauge);
  page->Declare("ampd_gpus", "GPUs of all workers.", MetricType::Gauge);
}

void DeclareJobs(Page* page) {
  const MetricType gauge = MetricType::Gauge;
  const MetricType counter = MetricType::Counter;
  page->Declare("ampd_job_info", "What the job is; always 1.", gauge);
  page->Declare("ampd_job_state", "The state that the job is in; always 1.", gauge);
  page->Declare("ampd_job_gpu_info", "The GPUs the job runs on; always 1.", gauge);
  page->Declare("ampd_job_start_timestamp_seconds", "Time of the first step.", gauge);
  page->Declare("ampd_job_last_step_timestamp_seconds", "Time of the last step.", gauge);
  page->Declare("ampd_job_last_checkpoint_timestamp_seconds", "Time of the last checkpoint.", gauge);
  page->Declare("ampd_job_last_overflow_timestamp_seconds", "Time of the last skipped step.", gauge);
  page->Declare("ampd_job_steps_total", "Optimizer steps done, skipped ones included.", counter);
  page->Declare("ampd_job_steps_planned", "Optimizer steps that the job is to do.", gauge);
  page->Declare("ampd_job_samples_total", "Samples trained on.", counter);
  page->Declare("ampd_job_tokens_total", "Tokens trained on, padding included.", counter);
  page->Declare("ampd_job_step_seconds_total", "Time of the steps of the attempt, by phase.", counter);
  page->Declare("ampd_job_loss", "Latest loss.", gauge);
  page->Declare("ampd_job_phase_loss", "Latest loss of each phase of a step, for steps with several.", gauge);
  page->Declare("ampd_job_learning_rate", "Learning rate of the last step.", gauge);
  page->Declare("ampd_job_grad_norm", "Gradient norm of the last step, after unscaling.", gauge);
  page->Declare("ampd_job_loss_scale", "Loss scale of the last step.", gauge);
  page->Declare("ampd_job_skipped_steps_total", "Steps skipped for gradients that were not finite.", counter);
  page->Declare("ampd_job_phase_skipped_steps_total", "Skipped updates of each phase, for steps with several.",
                counter);
  page->Declare("ampd_job_loss_scale_changes_total", "Changes of the loss scale.", counter);
  page->Declare("ampd_job_memory_allocated_bytes", "Memory that the job's tensors take.", gauge);
  page->Declare("ampd_job_memory_peak_allocated_bytes", "Most memory that the job's tensors took.", gauge);
  page->Declare("ampd_job_model_flops_per_second",
                "Floating-point operations of the model's products, per second of the last step.", gauge);
  page->Declare("ampd_job_mfu_ratio", "Model FLOPs utilization of the last step, 0 to 1.", gauge);
  page->Declare("ampd_job_power_watts", "Power of the job's GPU, or of all CPUs of its host.", gauge);
  page->Declare("ampd_job_energy_joules_total", "Energy of the attempt, from the power at each step.", counter);
  page->Declare("ampd_job_memory_reserved_bytes", "Memory of the GPU that the job's allocator holds.", gauge);
  page->Declare("ampd_job_allocator_retries_total", "Times that the allocator got no memory at the first try.",
                counter);
  page->Declare("ampd_job_device_utilization_ratio", "Share of the time in which a kernel ran on the job's GPU.",
                gauge);
  page->Declare("ampd_job_checkpoint_bytes", "Size of the last checkpoint.", gauge);
  page->Declare("ampd_job_checkpoint_seconds", "How long it took to save the last checkpoint.", gauge);
}

template <typename State>
std::vector<State> AllStates(const google::protobuf::EnumDescriptor* states) {
  std::vector<State> all;
  for (int i = 0; i < states->value_count(); ++i) {
    if (states->value(i)->number() != 0) {
      all.push_back(static_cast<State>(states->value(i)->number()));
    }
  }
  return all;
}

void AddQueues(const FleetSnapshot& snapshot, Page* page) {
  std::map<FleetSnapshot::Queue, int64_t> queues = snapshot.oldest_queued_unix_seconds;
  for (const auto& [key, count] : snapshot.live_jobs) {
    queues.emplace(key.first, 0);
  }
  for (const auto& [queue, oldest] : queues) {
    const Labels labels = {Label("tenant", queue.tenant), Label("queue", queue.name)};
    for (v1::Job::State state : AllStates<v1::Job::State>(v1::Job::State_descriptor())) {
      if (!IsTerminal(state)) {
        auto found = snapshot.live_jobs.find({queue, state});
        page->Add("ampd_jobs", With(labels, {Label("state", absl::AsciiStrToLower(v1::Job::State_Name(state)))}),
                  found == snapshot.live_jobs.end() ? 0 : static_cast<double>(found->second));
      }
    }
    page->Add("ampd_queue_oldest_job_timestamp_seconds", labels, static_cast<double>(oldest));
  }
}

// The job that uses a device.
struct Holder {
  const v1::Job* job = nullptr;
  bool has_series = false;
};

void AddHeld(const v1::Job& job, bool has_series, std::map<std::string, Holder>* held) {
  if (!job.attempts().empty() && job.attempts().rbegin()->state() != v1::Attempt::ENDED) {
    const v1::Attempt& attempt = *job.attempts().rbegin();
    for (const std::string& device : attempt.devices()) {
      (*held)[attempt.worker() + "/" + device] = {&job, has_series};
    }
  }
}

// Returns the devices that live attempts hold; the key is "worker/device".
std::map<std::string, Holder> HeldDevices(const FleetSnapshot& snapshot) {
  std::map<std::string, Holder> held;
  for (const FleetSnapshot::JobRow& row : snapshot.jobs) {
    AddHeld(*row.job, /*has_series=*/true, &held);
  }
  for (const auto& job : snapshot.seriesless) {
    AddHeld(*job, /*has_series=*/false, &held);
  }
  return held;
}

void AddWorkers(const FleetSnapshot& snapshot, Page* page) {
  std::map<v1::Worker::State, int64_t> workers;
  std::map<std::string, int64_t> gpus = {{"free", 0}, {"allocated", 0}, {"unhealthy", 0}};
  const std::map<std::string, Holder> held = HeldDevices(snapshot);
  for (const v1::Worker& worker : snapshot.workers) {
    ++workers[worker.state()];
    if (worker.has_last_report_time()) {
      page->Add("ampd_worker_last_heartbeat_timestamp_seconds", {Label("worker", worker.name())},
                Seconds(worker.last_report_time()));
    }
    for (const v1::Device& device : worker.devices()) {
      if (device.kind() != v1::Device::GPU) {
        continue;
      }
      auto holder = held.find(worker.name() + "/" + device.id());
      ++gpus[device.unhealthy() ? "unhealthy" : holder == held.end() ? "free" : "allocated"];
      if (holder != held.end() && holder->second.has_series) {
        page->Add("ampd_job_gpu_info",
                  With(LabelsOf(*holder->second.job), {Label("UUID", device.uuid()), Label("worker", worker.name())}),
                  1);
      }
    }
  }
  for (v1::Worker::State state : AllStates<v1::Worker::State>(v1::Worker::State_descriptor())) {
    page->Add("ampd_workers", {Label("state", absl::AsciiStrToLower(v1::Worker::State_Name(state)))},
              static_cast<double>(workers[state]));
  }
  for (const auto& [state, count] : gpus) {
    page->Add("ampd_gpus", {Label("state", state)}, static_cast<double>(count));
  }
}

void AddRecord(const v1::Job& job, Page* page) {
  const Labels id = LabelsOf(job);
  const bool has_attempt = !job.attempts().empty();
  page->Add("ampd_job_info",
            With(id, {Label("name", job.spec().name()), Label("queue", QueueNameOf(job)),
                      Label("model", models::KindOf(job.spec().model())),
                      Label("precision", has_attempt ? job.attempts().rbegin()->precision() : ""),
                      Label("worker", has_attempt ? job.attempts().rbegin()->worker() : "")}),
            1);
  page->Add("ampd_job_state", With(id, {Label("state", absl::AsciiStrToLower(v1::Job::State_Name(job.state())))}), 1);
  if (job.has_start_time()) {
    page->Add("ampd_job_start_timestamp_seconds", id, Seconds(job.start_time()));
  }
  if (const int64_t total = TotalSteps(job); total > 0) {
    page->Add("ampd_job_steps_planned", id, static_cast<double>(total));
  }
  if (!job.checkpoints().empty()) {
    const v1::Checkpoint& last = *job.checkpoints().rbegin();
    page->Add("ampd_job_last_checkpoint_timestamp_seconds", id, Seconds(last.time()));
    page->Add("ampd_job_checkpoint_bytes", id, static_cast<double>(last.size_bytes()));
    if (last.save_seconds() > 0) {
      page->Add("ampd_job_checkpoint_seconds", id, last.save_seconds());
    }
  }
}

void AddPhase(const Labels& id, const v1::PhaseProgress& phase, Page* page) {
  const ClientMetric::Label name = Label("phase", phase.name());
  page->Add("ampd_job_phase_loss", With(id, {name}), phase.loss());
  page->Add("ampd_job_phase_skipped_steps_total", With(id, {name}), static_cast<double>(phase.skipped_steps()));
}

// Returns the number of tokens in a sample of the data; 0 if the data does not consist of tokens or text.
int64_t TokensPerSample(const v1::DataSource& data) {
  return data.has_tokens() ? data.tokens().sequence_length() : data.has_jsonl() ? data.jsonl().sequence_length() : 0;
}

// Adds the attempt's time as three series with the label `phase`: waiting for data, computing, and other. On a GPU, a
// step may wait for data while another step computes. A negative time is therefore shown as 0, and the three times may
// add up to more than the whole time.
void AddStepSeconds(const v1::Job& job, const ProgressBoard::Entry& entry, Page* page) {
  const double num_samples = job.spec().data().batch_size();
  const double data = entry.progress.data_wait_seconds();
  const double in_steps = entry.seconds_per_sample * num_samples;
  const double whole = entry.step_seconds + entry.first_seconds_per_sample * num_samples;
  const auto add = [&](const char* phase, double seconds) {
    page->Add("ampd_job_step_seconds_total", With(LabelsOf(job), {Label("phase", phase)}), std::max(0.0, seconds));
  };
  add("data", data);
  add("compute", in_steps - data);
  add("other", whole - in_steps);
}

void AddProgress(const v1::Job& job, const ProgressBoard::Entry& entry, Page* page) {
  const Labels id = LabelsOf(job);
  const v1::Progress& progress = entry.progress;
  const double step = static_cast<double>(progress.step());
  page->Add("ampd_job_last_step_timestamp_seconds", id, Seconds(progress.time()));
  page->Add("ampd_job_steps_total", id, step);
  page->Add("ampd_job_samples_total", id, step * job.spec().data().batch_size());
  if (const int64_t length = TokensPerSample(job.spec().data().train()); length > 0) {
    page->Add("ampd_job_tokens_total", id, step * job.spec().data().batch_size() * static_cast<double>(length));
  }
  AddStepSeconds(job, entry, page);
  page->Add("ampd_job_loss", With(id, {Label("split", "train")}), progress.loss());
  if (progress.has_eval_loss()) {
    page->Add("ampd_job_loss", With(id, {Label("split", "eval")}), progress.eval_loss());
  }
  for (const v1::PhaseProgress& phase : progress.phases()) {
    AddPhase(id, phase, page);
  }
  page->Add("ampd_job_learning_rate", id, progress.learning_rate());
  page->Add("ampd_job_grad_norm", id, progress.grad_norm());
  page->Add("ampd_job_loss_scale", id, progress.loss_scale());
  page->Add("ampd_job_skipped_steps_total", id, static_cast<double>(progress.skipped_steps()));
  page->Add("ampd_job_loss_scale_changes_total", With(id, {Label("direction", "up")}),
            static_cast<double>(entry.num_scale_ups));
  page->Add("ampd_job_loss_scale_changes_total", With(id, {Label("direction", "down")}),
            static_cast<double>(entry.num_scale_downs));
  page->Add("ampd_job_memory_allocated_bytes", id, static_cast<double>(progress.memory_allocated_bytes()));
  page->Add("ampd_job_memory_peak_allocated_bytes", id, static_cast<double>(progress.memory_peak_bytes()));
  if (progress.has_flops_per_second()) {
    page->Add("ampd_job_model_flops_per_second", id, progress.flops_per_second());
  }
  if (progress.has_mfu()) {
    page->Add("ampd_job_mfu_ratio", id, progress.mfu());
  }
  if (progress.has_power_watts()) {
    page->Add("ampd_job_power_watts", id, progress.power_watts());
  }
  if (entry.energy_joules.has_value()) {
    page->Add("ampd_job_energy_joules_total", id, *entry.energy_joules);
  }
  if (progress.has_memory_reserved_bytes()) {
    page->Add("ampd_job_memory_reserved_bytes", id, progress.memory_reserved_bytes());
  }
  if (progress.has_allocation_retries()) {
    page->Add("ampd_job_allocator_retries_total", id, progress.allocation_retries());
  }
  if (progress.has_device_utilization()) {
    page->Add("ampd_job_device_utilization_ratio", id, progress.device_utilization());
  }
  if (entry.last_overflow_unix_micros > 0) {
    page->Add("ampd_job_last_overflow_timestamp_seconds", id,
              static_cast<double>(entry.last_overflow_unix_micros) / 1e6);
  }
}

// Returns the length of the UTF-8 sequence at `at`; 0 if there is no valid sequence.
size_t Utf8Length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first < 0xE0) {
    return follows(at + 1) ? 2 : 0;
  }
  if (first >= 0xE0 && first < 0xF0) {
    const bool overlong = first == 0xE0 && byte(at + 1) < 0xA0;
    const bool surrogate = first == 0xED && byte(at + 1) >= 0xA0;
    return follows(at + 1) && follows(at + 2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    const bool out_of_range = (first == 0xF0 && byte(at + 1) < 0x90) || (first == 0xF4 && byte(at + 1) >= 0x90);
    return follows(at + 1) && follows(at + 2) && follows(at + 3) && !out_of_range ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string SafeLabelValue(const std::string& value) {
  std::string safe;
  for (size_t i = 0; i < value.size();) {
    const size_t length = Utf8Length(value, i);
    const auto byte = static_cast<unsigned char>(value[i]);
    if (length == 0) {
      safe += '?';
    } else if (byte < 0x20 || byte == 0x7F) {
      safe += ' ';
    } else {
      safe.append(value, i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return safe;
}

FleetSnapshot::Queue QueueOf(const v1::Job& job) { return {TenantOrDefault(job.tenant()), QueueNameOf(job)}; }

std::vector<MetricFamily> RenderFleet(const FleetSnapshot& snapshot) {
  Page page;
  DeclareFleet(&page);
  DeclareJobs(&page);
  AddQueues(snapshot, &page);
  AddWorkers(snapshot, &page);
  for (const FleetSnapshot::JobRow& row : snapshot.jobs) {
    AddRecord(*row.job, &page);
    if (row.progress.has_value()) {
      AddProgress(*row.job, *row.progress, &page);
    }
  }
  return std::move(page).Take();
}

}  // namespace ampd::server
