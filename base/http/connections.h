#pragma once

#include <atomic>
#include <cstdint>
#include <list>

namespace ampd::http {

class Connection;

// The open connections of a listener. Those that wait for their client are kept in the order in which they began to
// wait. Single-threaded, except for the counters.
class Connections {
 public:
  // Closes the connection that has waited longest for its client. Returns false if no connection waits.
  bool Evict();
  void CloseAll();

  int64_t num_open() const { return num_open_; }
  int64_t num_evicted() const { return num_evicted_; }

 private:
  friend class Connection;
  using Places = std::list<Connection*>;

  Places waiting_;  // Wait for a handshake, a request or the client's close; the longest wait comes first.
  Places serving_;  // All other connections.
  std::atomic<int64_t> num_open_ = 0;
  std::atomic<int64_t> num_evicted_ = 0;
};

// An open connection. Its constructor adds it to the Connections, and its destructor removes it.
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
  // Moves the connection to the end of the list of waiting connections, or to the list of those that are served.
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
  // The connection is destroyed only a moment after Close. It leaves the waiting connections now, so that it is not
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
