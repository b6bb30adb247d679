#include "client/cli/answers/things.h"

#include <algorithm>
#include <string_view>

namespace ampd::client {
namespace {

// A name that users give to a kind of thing, such as "pods" for jobs. `word` stands for this kind in the table of
// foreign words, and `group` is the command group for this kind; empty: there is none.
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
    {"trial", "job", "job"},
    {"trials", "job", "job"},
    {"jobid", "job", "job"},
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
    {"nodename", "worker", "worker"},
    {"agent", "worker", "worker"},
    {"agents", "worker", "worker"},
    {"gpu", "gpu", "worker"},
    {"gpus", "gpu", "worker"},
    {"slot", "gpu", "worker"},
    {"slots", "gpu", "worker"},
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
    // Things without commands of their own. The table of foreign words says what to do about them.
    {"ev", "event", ""},
    {"deployment", "service", ""},
    {"deployments", "service", ""},
    {"deploy", "service", ""},
    {"svc", "service", ""},
    {"service", "service", ""},
    {"services", "service", ""},
    {"ingress", "service", ""},
    {"endpoints", "service", ""},
    {"ep", "service", ""},
    {"statefulset", "service", ""},
    {"statefulsets", "service", ""},
    {"sts", "service", ""},
    {"daemonset", "service", ""},
    {"daemonsets", "service", ""},
    {"ds", "service", ""},
    {"replicaset", "service", ""},
    {"replicasets", "service", ""},
    {"rs", "service", ""},
    {"tenant", "tenant", ""},
    {"tenants", "tenant", ""},
    {"ns", "tenant", ""},
    {"namespace", "tenant", ""},
    {"namespaces", "tenant", ""},
    {"quota", "limit", ""},
    {"quotas", "limit", ""},
    {"resourcequota", "limit", ""},
    {"resourcequotas", "limit", ""},
    {"limit", "limit", ""},
    {"limits", "limit", ""},
    {"limitrange", "limit", ""},
    {"limitranges", "limit", ""},
    {"licenses", "limit", ""},
    {"user", "account", ""},
    {"users", "account", ""},
    {"account", "account", ""},
    {"accounts", "account", ""},
    {"association", "account", ""},
    {"associations", "account", ""},
    {"assoc", "account", ""},
    {"coordinator", "account", ""},
    {"coordinators", "account", ""},
    {"serviceaccount", "account", ""},
    {"serviceaccounts", "account", ""},
    {"sa", "account", ""},
    {"role", "account", ""},
    {"roles", "account", ""},
    {"rolebinding", "account", ""},
    {"rolebindings", "account", ""},
    {"clusterrole", "account", ""},
    {"clusterroles", "account", ""},
    {"clusterrolebinding", "account", ""},
    {"clusterrolebindings", "account", ""},
    {"queue", "queue", ""},
    {"queues", "queue", ""},
    {"partition", "queue", ""},
    {"partitions", "queue", ""},
    {"partitionname", "queue", ""},
    {"qos", "queue", ""},
    {"priorityclass", "priorityclass", ""},
    {"priorityclasses", "priorityclass", ""},
    {"pc", "priorityclass", ""},
    {"reservation", "reservation", ""},
    {"reservations", "reservation", ""},
    {"reservationname", "reservation", ""},
    {"res", "reservation", ""},
    {"secret", "secret", ""},
    {"secrets", "secret", ""},
    {"configmap", "configmap", ""},
    {"configmaps", "configmap", ""},
    {"cm", "configmap", ""},
    {"volume", "volume", ""},
    {"volumes", "volume", ""},
    {"persistentvolume", "volume", ""},
    {"persistentvolumes", "volume", ""},
    {"pv", "volume", ""},
    {"persistentvolumeclaim", "volume", ""},
    {"persistentvolumeclaims", "volume", ""},
    {"pvc", "volume", ""},
    {"storageclass", "volume", ""},
    {"storageclasses", "volume", ""},
    {"sc", "volume", ""},
    {"image", "image", ""},
    {"images", "image", ""},
    {"cronjob", "cronjob", ""},
    {"cronjobs", "cronjob", ""},
    {"cj", "cronjob", ""},
    {"crd", "kind", ""},
    {"crds", "kind", ""},
    {"hpa", "kind", ""},
    {"pdb", "kind", ""},
    {"csr", "csr", ""},
    {"csrs", "csr", ""},
    {"lease", "kind", ""},
    {"leases", "kind", ""},
    {"networkpolicy", "kind", ""},
    {"networkpolicies", "kind", ""},
    {"netpol", "kind", ""},
    {"apiservice", "kind", ""},
    {"apiservices", "kind", ""},
    {"componentstatus", "kind", ""},
    {"componentstatuses", "kind", ""},
    {"cs", "kind", ""},
    {"network", "kind", ""},
    {"networks", "kind", ""},
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
