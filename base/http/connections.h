#pragma once

#include <atomic>
#include <cstdint>
#include <list>

namespace ampd::http {

class Connection;

// The open connections of a listener, those that wait for their client in the order in which they began to wait.
// Single-threaded, but for the counters.
class Connections {
 public:
  // Closes the connection that has waited longest. Returns false if none waits.
  bool Evict();
  void CloseAll();

  int64_t num_open() const { return num_open_; }
  int64_t num_evicted() const { return num_evicted_; }

 private:
  friend class Connection;
  using Places = std::list<Connection*>;

  Places waiting_;  // For a handshake or a request, or for the client to close; longest wait first.
  Places serving_;  // All other connections.
  std::atomic<int64_t> num_open_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
};

// An open connection. It enters and leaves its Connections by itself.
class Connection {
 public:
  explicit Connection(Connections* all) : all_(*all) {
    place_ = all_.serving_.insert(all_.serving_.end(), this);
    ++all_.num_open_;
  }
  virtual ~Connection() {
    (is_waiting_ ? all_.waiting_ : all_.serving_).erase(place_);
    --all_.num_open_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void Close() = 0;

 protected:
  // Moves the connection to the end of the waiting ones, or to those that are served.
  void SetWaiting(bool waiting) {
    Connections::Places& from = is_waiting_ ? all_.waiting_ : all_.serving_;
    Connections::Places& to = waiting ? all_.waiting_ : all_.serving_;
    to.splice(to.end(), from, place_);
    is_waiting_ = waiting;
  }

 private:
  friend class Connections;

  Connections& all_;
  Connections::Places::iterator place_;
  bool is_waiting_ = false;
};

inline bool Connections::Evict() {
  if (waiting_.empty()) {
    return false;
  }
  ++num_evicted_;
  Connection* const longest = waiting_.front();
  // What the connection waits for ends a moment later, but it leaves the waiting ones at once, so that it is not
  // evicted twice.
  longest->SetWaiting(false);
  longest->Close();
  return true;
}

inline void Connections::CloseAll() {
  for (const Places* places : {&waiting_, &serving_}) {
    for (Connection* connection : *places) {
      connection->Close();
    }
  }
}

}  // namespace ampd::http
