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

// Runs the real ampd-trainer and speaks with it as an agent does. Every wait fails the test after a minute.
class FakeAgent {
 public:
  // Starts a trainer with the spawn folder `folder`, which is created. `steps_ahead`: as its --steps-ahead; nothing:
  // what the trainer chooses for the device.
  FakeAgent(const std::string& folder, const std::string& device, std::optional<int> steps_ahead);
  // Kills the trainer if it lives.
  ~FakeAgent();

  // Connects, waiting for the socket, and reads the Hello.
  internal::Hello Connect();
  void Disconnect() { socket_.Reset(); }

  void Send(const internal::TrainerCommand& command);
  void Start(const internal::StartAttempt& start);
  void Leave(v1::Job::Desired desired, v1::Reason reason);
  void Acknowledge(uint64_t sequence, bool outcome = false);
  void Kill(int signal);

  // Reads one report and takes it into the fields below; false when the trainer has closed the connection.
  bool Read();
  void ReadUntil(const std::function<bool()>& enough);
  // The exit code, or minus the signal.
  int WaitForExit();

  struct Step {
    float loss = 0;
    float grad_norm = 0;
    double loss_scale = 0;
    bool skipped = false;
    double learning_rate = 0;
    // Of a GAN alone.
    std::optional<float> generator_loss = {};
    float generator_grad_norm = 0;
    bool generator_skipped = false;
    bool discriminator_skipped = false;
    friend bool operator==(const Step&, const Step&) = default;
  };

  // What differs from run to run.
  struct Cost {
    float samples_per_second = 0;
    float data_wait_seconds = 0;
  };

  std::map<int64_t, Step> steps;      // by number
  std::map<int64_t, Cost> costs;      // of those steps
  std::map<uint64_t, int> sequences;  // how often each was received
  std::vector<v1::Event> events;
  std::vector<v1::EvalPoint> evals;
  std::vector<v1::Sample> samples;
  std::vector<v1::Checkpoint> checkpoints;
  std::map<int64_t, uint64_t> sequence_of;       // by step
  std::map<int64_t, uint64_t> checkpoint_after;  // the telemetry that is to be stored before, by step
  uint64_t outcome_after = 0;
  std::string order;  // what came on this connection, repetitions left out: t(elemetry), c(heckpoint), o(utcome)
  std::optional<v1::Outcome> outcome;
  internal::TrainerState state;

 private:
  void Take(const v1::TelemetryBatch& batch);

  const std::string folder_;
  pid_t pid_ = -1;
  UniqueFd socket_;
};

}  // namespace ampd::train
