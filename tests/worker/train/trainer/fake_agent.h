#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ampd/internal/trainer.pb.h"
#include "base/io/file.h"
#include "base/ipc/frames.h"

namespace ampd::train {

// Runs the real ampd-trainer and talks to it as an agent does. Every wait fails the test after a minute.
class FakeAgent {
 public:
  // Creates the spawn folder `folder` and starts a trainer that uses it. `steps_ahead` is the trainer's flag
  // --steps-ahead; with nullopt the trainer uses its default for the device.
  FakeAgent(const std::string& folder, const std::string& device, std::optional<int> steps_ahead);
  // Kills the trainer if it is still running.
  ~FakeAgent();

  // Waits for the trainer's socket, connects, and returns the Hello that the trainer sends.
  internal::Hello Connect();
  void Disconnect() { socket_.Reset(); }

  void Send(const internal::TrainerCommand& command);
  void Start(const internal::StartAttempt& start);
  void Leave(v1::Job::Desired desired, v1::Reason::Code reason);
  void Acknowledge(uint64_t sequence, bool outcome = false);
  void Kill(int signal);

  // Reads one report of the trainer into the fields below. Returns false if the trainer closed the connection.
  bool Read();
  void ReadUntil(const std::function<bool()>& enough);
  // Waits until the trainer ends. Returns its exit code, or the negative number of the signal that killed it.
  int WaitForExit();

  struct Step {
    float loss = 0;
    float grad_norm = 0;
    double loss_scale = 0;
    bool skipped = false;
    double learning_rate = 0;
    // Set only for a GAN, like the three fields that follow.
    std::optional<float> generator_loss = {};
    float generator_grad_norm = 0;
    bool generator_skipped = false;
    bool discriminator_skipped = false;
    friend bool operator==(const Step&, const Step&) = default;
  };

  // The measurements of a step, which differ from run to run.
  struct Cost {
    float samples_per_second = 0;
    float data_wait_seconds = 0;
    float flops_per_second = 0;
  };

  std::map<int64_t, Step> steps;      // Telemetry of each step, by step.
  std::map<int64_t, Cost> costs;      // Costs of each step, by step.
  std::map<uint64_t, int> sequences;  // How often each record was received, by sequence number.
  std::vector<v1::Event> events;
  std::vector<v1::EvalPoint> evals;
  std::vector<v1::Sample> samples;
  std::vector<v1::Checkpoint> checkpoints;
  std::map<int64_t, uint64_t> sequence_of;  // The sequence number of each step's telemetry, by step.
  std::map<int64_t, uint64_t>
      checkpoint_after;  // The sequence number that must be stored before each checkpoint, by step.
  uint64_t outcome_after = 0;
  // The kinds of reports on this connection in their order: 't' for telemetry, 'c' for a checkpoint, 'o' for the
  // outcome. Reports of one kind in a row count once.
  std::string order;
  std::optional<v1::Outcome> outcome;
  internal::TrainerState state;

 private:
  void Take(const v1::TelemetryBatch& batch);

  const std::string folder_;
  pid_t pid_ = -1;
  UniqueFd socket_;
};

}  // namespace ampd::train
