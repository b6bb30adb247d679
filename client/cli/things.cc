#include "client/cli/things.h"

#include <algorithm>
#include <string_view>

namespace ampd::client {
namespace {

// A thing. `word` stands for it in the table of foreign words, and `group` is its command group; empty: it has none.
struct Thing {
  std::string_view name;
  std::string_view word;
  std::string_view group;
};

constexpr Thing kThings[] = {
    {"job", "job", "job"},
    {"jobs", "job", "job"},
    {"pod", "job", "job"},
    {"pods", "job", "job"},
    {"po", "job", "job"},
    {"run", "job", "job"},
    {"runs", "job", "job"},
    {"task", "job", "job"},
    {"tasks", "job", "job"},
    {"workflow", "job", "job"},
    {"workflows", "job", "job"},
    {"experiment", "job", "job"},
    {"experiments", "job", "job"},
    {"container", "job", "job"},
    {"containers", "job", "job"},
    {"worker", "worker", "worker"},
    {"workers", "worker", "worker"},
    {"node", "worker", "worker"},
    {"nodes", "worker", "worker"},
    {"no", "worker", "worker"},
    {"agent", "worker", "worker"},
    {"agents", "worker", "worker"},
    {"gpu", "gpu", "worker"},
    {"gpus", "gpu", "worker"},
    {"device", "gpu", "worker"},
    {"devices", "gpu", "worker"},
    {"checkpoint", "checkpoint", "checkpoint"},
    {"checkpoints", "checkpoint", "checkpoint"},
    {"ckpt", "checkpoint", "checkpoint"},
    {"ckpts", "checkpoint", "checkpoint"},
    {"artifact", "artifact", "artifact"},
    {"artifacts", "artifact", "artifact"},
    {"file", "artifact", "artifact"},
    {"files", "artifact", "artifact"},
    {"policy", "policy", "policy"},
    {"policies", "policy", "policy"},
    {"preset", "policy", "policy"},
    {"presets", "policy", "policy"},
    {"data", "data", "data"},
    {"dataset", "data", "data"},
    {"datasets", "data", "data"},
    {"model", "model", "model"},
    {"models", "model", "model"},
    {"context", "context", "context"},
    {"contexts", "context", "context"},
    {"cluster", "context", "context"},
    {"clusters", "context", "context"},
    {"event", "event", ""},
    {"events", "event", ""},
    {"log", "log", ""},
    {"logs", "log", ""},
    {"metric", "metric", ""},
    {"metrics", "metric", ""},
    {"points", "metric", ""},
    {"token", "token", ""},
    {"tokens", "token", ""},
    // Kinds of kubectl that ampd has nothing like.
    {"deployment", "kind", ""},
    {"deployments", "kind", ""},
    {"deploy", "kind", ""},
    {"svc", "kind", ""},
    {"service", "kind", ""},
    {"services", "kind", ""},
    {"ns", "kind", ""},
    {"namespace", "kind", ""},
    {"namespaces", "kind", ""},
    {"secret", "kind", ""},
    {"secrets", "kind", ""},
    {"configmap", "kind", ""},
    {"configmaps", "kind", ""},
    {"cm", "kind", ""},
    {"pvc", "kind", ""},
    {"pv", "kind", ""},
    {"ingress", "kind", ""},
    {"statefulset", "kind", ""},
    {"statefulsets", "kind", ""},
    {"sts", "kind", ""},
    {"daemonset", "kind", ""},
    {"daemonsets", "kind", ""},
    {"ds", "kind", ""},
    {"replicaset", "kind", ""},
    {"replicasets", "kind", ""},
    {"rs", "kind", ""},
    {"cronjob", "kind", ""},
    {"cronjobs", "kind", ""},
    {"serviceaccount", "kind", ""},
    {"serviceaccounts", "kind", ""},
    {"sa", "kind", ""},
    {"crd", "kind", ""},
    {"crds", "kind", ""},
};

const Thing* Find(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kThings), std::end(kThings), [&name](const Thing& thing) { return thing.name == name; });
  return found == std::end(kThings) ? nullptr : found;
}

}  // namespace

bool IsThing(const std::string& word) { return Find(word) != nullptr; }

std::string ThingNamed(const std::string& word) {
  const Thing* const thing = Find(word);
  return thing == nullptr ? "" : std::string(thing->word);
}

std::string GroupOfThing(const std::string& word) {
  const Thing* const thing = Find(word);
  return thing == nullptr ? "" : std::string(thing->group);
}

}  // namespace ampd::client
