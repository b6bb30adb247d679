#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "base/io/file.h"
#include "base/ipc/frames.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {

// The trainer's end of its connection with the agent. It listens on trainer.sock in the spawn folder and serves one
// connection at a time on its own thread; a new connection replaces the old one and receives everything again that is
// not acknowledged. It sends reports, remembers what it sent on this connection, and reads telemetry from the outbox.
// It passes commands to a Peer, which carries them out.
//
//   on a new connection   Hello, state, checkpoints and outcome, telemetry
//   whenever it is woken  state, telemetry, then checkpoints and outcome
//
// Wake is thread-safe; call everything else on one thread.
class AgentConnection {
 public:
  // Records which reports were already sent on the current connection. Telemetry is recorded in sent_sequence_.
  struct Sent {
    uint64_t state_version = 0;
    size_t num_checkpoints = 0;
    bool outcome = false;
  };

  // The object that makes the reports and handles the commands. All of its functions are called on the connection's
  // thread.
  class Peer {
   public:
    virtual ~Peer() = default;
    virtual internal::TrainerReport MakeHello() = 0;
    // UnsentState and UnsentCheckpointsAndOutcome return the reports that were not yet sent on this connection, and
    // record in `sent` that they are sent now.
    virtual std::vector<internal::TrainerReport> UnsentState(Sent& sent) = 0;
    virtual std::vector<internal::TrainerReport> UnsentCheckpointsAndOutcome(Sent& sent) = 0;
    // Returns false if the command breaks the protocol, which closes the connection.
    virtual bool OnCommand(const internal::TrainerCommand& command) = 0;
  };

  // `outbox` and `peer` outlive the connection.
  AgentConnection(std::string spawn_folder, TelemetryOutbox& outbox, Peer& peer);
  // Ends the thread.
  ~AgentConnection();
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  // Listens on the socket and starts the connection's thread.
  absl::Status Start();
  // Wakes the connection's thread, which then sends all new reports.
  void Wake();

 private:
  void Serve();
  void Accept();
  void Disconnect();
  void Receive();
  // Queues everything that was not yet sent on this connection.
  void SendPending();
  void SendPendingTelemetry();
  void Send(const std::vector<internal::TrainerReport>& reports);
  void Flush();

  const std::string folder_;
  TelemetryOutbox& outbox_;
  Peer& peer_;
  UniqueFd listener_;
  UniqueFd wake_;
  std::thread thread_;
  std::atomic<bool> closing_ = false;

  // The fields from here on are the state of the connection. Only the thread uses them.
  UniqueFd agent_;
  FrameDecoder decoder_;
  std::string outgoing_;
  bool hello_sent_ = false;
  uint64_t sent_sequence_ = 0;  // Telemetry up to this sequence was sent on this connection.
  Sent sent_;
};

}  // namespace ampd::train
