#include "client/render/worker_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/csv.h"
#include "client/render/enum_text.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

using Row = std::vector<std::string>;

// Returns whether the worker has reported since the server started. If not, the server does not know the free memory of
// the worker's devices.
bool HasReported(const v1::Worker& worker) { return worker.last_report_time().seconds() > 0; }

// Returns the first cells of a worker's row: its name, its state, its number of jobs, and the age of its last report.
Row WorkerRow(const v1::Worker& worker, absl::Time now) {
  const absl::Time reported =
      absl::FromUnixSeconds(worker.last_report_time().seconds()) + absl::Nanoseconds(worker.last_report_time().nanos());
  const bool is_drained = worker.state() == v1::Worker::DRAINING && worker.job_ids().empty();
  return {Printable(worker.name()), is_drained ? "DRAINED" : EnumText(worker.state()),
          absl::StrCat(worker.job_ids_size()), HasReported(worker) ? FormatSpan(now - reported) + " ago" : "not yet"};
}

std::string ShortDevice(const v1::Device& device, bool has_reported) {
  const std::string free = has_reported ? FormatBytes(device.memory_free_bytes()) + " free of " : "";
  return absl::StrCat(Printable(device.id()), " (", Printable(device.name()), ", ", free,
                      FormatBytes(device.memory_total_bytes()), ")");
}

// Returns the capabilities of the device: for a GPU its compute capability, such as "9.0"; for a CPU its instruction
// sets.
std::string CapabilityWords(const v1::Device& device) {
  return device.kind() == v1::Device::GPU ? absl::StrCat(device.capability_major(), ".", device.capability_minor())
                                          : Printable(absl::StrJoin(device.instruction_sets(), " "));
}

std::string HealthText(const v1::Device& device) {
  return !device.unhealthy()                 ? "ok"
         : device.unhealthy_reason().empty() ? "unhealthy"
                                             : Printable(device.unhealthy_reason());
}

Row DeviceCells(const v1::Device& device, bool has_reported) {
  return {Printable(device.id()),
          OrNothing(device.name()),
          OrNothing(CapabilityWords(device)),
          device.num_threads() > 0 ? absl::StrCat(device.num_threads()) : kNothing,
          has_reported ? FormatBytes(device.memory_free_bytes()) : kNothing,
          FormatBytes(device.memory_total_bytes()),
          HealthText(device)};
}

}  // namespace

std::vector<std::string> WorkerHeadings(bool wide) {
  std::vector<std::string> headings = {"NAME", "STATE", "JOBS", "LAST REPORT"};
  if (wide) {
    headings.insert(headings.end(), {"VERSION", "METRICS", "DEVICE", "PRODUCT", "CAPABILITY", "THREADS", "FREE MEMORY",
                                     "MEMORY", "HEALTH"});
  } else {
    headings.emplace_back("DEVICES");
  }
  return headings;
}

std::vector<std::vector<std::string>> WorkerRows(const v1::Worker& worker, bool wide, absl::Time now) {
  Row row = WorkerRow(worker, now);
  if (!wide) {
    row.push_back(absl::StrJoin(worker.devices(), ", ", [&worker](std::string* out, const v1::Device& device) {
      out->append(ShortDevice(device, HasReported(worker)));
    }));
    return {row};
  }
  row.insert(row.end(), {OrNothing(worker.version()), OrNothing(worker.metrics_address())});
  std::vector<Row> rows;
  for (const v1::Device& device : worker.devices()) {
    const Row cells = DeviceCells(device, HasReported(worker));
    rows.push_back(row);
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  return rows.empty() ? std::vector<Row>{row} : rows;
}

std::vector<std::string> WorkerCsvHeadings() {
  return {"name",   "state",   "jobs",       "last_report_time", "version",           "metrics_address",    "message",
          "device", "product", "capability", "threads",          "memory_free_bytes", "memory_total_bytes", "health"};
}

std::vector<std::vector<std::string>> WorkerCsvRows(const v1::Worker& worker) {
  const Row row = {Printable(worker.name()),
                   EnumText(worker.state()),
                   absl::StrCat(worker.job_ids_size()),
                   CsvTime(HasReported(worker), worker.last_report_time()),
                   Printable(worker.version()),
                   Printable(worker.metrics_address()),
                   Printable(worker.message())};
  std::vector<Row> rows;
  for (const v1::Device& device : worker.devices()) {
    Row& cells = rows.emplace_back(row);
    cells.insert(cells.end(), {Printable(device.id()), Printable(device.name()), CapabilityWords(device),
                               device.num_threads() > 0 ? absl::StrCat(device.num_threads()) : "",
                               HasReported(worker) ? absl::StrCat(device.memory_free_bytes()) : "",
                               absl::StrCat(device.memory_total_bytes()), HealthText(device)});
  }
  if (rows.empty()) {
    rows.push_back(row);
    rows.back().resize(WorkerCsvHeadings().size());
  }
  return rows;
}

}  // namespace ampd::client
